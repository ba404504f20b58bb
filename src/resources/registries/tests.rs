//! Registries: look-up, access and validation.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::{OrgHint, Principal};
use crate::base::Kind;
use crate::resources::testing::{Fixture, args};
use crate::store::Org;

/// Creates a registry as an admin.
pub fn make(fixture: &Fixture, slug: &str, more: serde_json::Value) -> Result<RegistryInfo> {
    let mut new = json!({"slug": slug, "name": slug});
    for (name, value) in more.as_object().unwrap() {
        new[name] = value.clone();
    }
    fixture.write_as(&fixture.owner, create, (), Fixture::input(new)?)
}

/// Locates a reference: the organization, and whether the registry is public.
fn locate_in(
    fixture: &Fixture,
    org_slug: Option<&str>,
    reference: &str,
) -> Result<(Id<Org>, bool)> {
    locate_with(fixture, org_slug, reference, None)
}

fn locate_with(
    fixture: &Fixture,
    org_slug: Option<&str>,
    reference: &str,
    key: Option<Id<Org>>,
) -> Result<(Id<Org>, bool)> {
    let named = OrgHint {
        org_slug: org_slug.map(String::from),
        reference: Some(reference.into()),
        ..OrgHint::default()
    };
    let org =
        fixture.store.read_now(Id::NIL, |view| (BY_REFERENCE.resolve)(view, &named, key))?.org;
    Ok((org, fixture.store.read_now(org, |view| (BY_REFERENCE.is_public)(view, &named))?))
}

#[test]
fn a_registry_is_found_by_id_by_full_reference_and_with_a_key_by_slug() {
    let fixture = Fixture::new();
    let made = make(&fixture, "main", json!({})).unwrap();
    let key = Some(fixture.org);
    for (org_slug, reference, key) in [
        (None, made.id.to_string(), None),
        (None, "acme/main".to_string(), None),
        (None, "main".to_string(), key),
        (Some("acme"), "main".to_string(), None),
        (Some("acme"), "acme/main".to_string(), None),
        (Some("acme"), made.id.to_string(), None),
    ] {
        let located = locate_with(&fixture, org_slug, &reference, key).unwrap();
        assert_eq!(located, (fixture.org, false), "{org_slug:?} {reference}");
    }
    let alone = locate_in(&fixture, None, "main").err().unwrap();
    assert_eq!((alone.kind(), alone.issues()[0].path.as_str()), (Kind::Invalid, "registryRef"));
}

#[test]
fn a_reference_and_an_organization_that_differ_are_not_found() {
    let fixture = Fixture::new();
    let made = make(&fixture, "main", json!({"visibility": "public"})).unwrap();
    let (other, _) = fixture.other_org("other");
    let foreign = locate_in(&fixture, Some("other"), "acme/main").err().unwrap();
    assert_eq!(foreign.kind(), Kind::NotFound);
    // The named organization has no such registry.
    let elsewhere = locate_in(&fixture, Some("other"), &made.id.to_string()).unwrap();
    assert_eq!(elsewhere, (other, false));
    for reference in ["nowhere/main", "01890a5d-ac96-774b-bcce-b302099a8057", "a/b/c"] {
        assert_eq!(locate_in(&fixture, None, reference).err().unwrap().kind(), Kind::NotFound);
    }
}

#[test]
fn only_public_registries_are_readable_by_anyone() {
    let fixture = Fixture::new();
    make(&fixture, "open", json!({"visibility": "public", "access": "restricted"})).unwrap();
    make(&fixture, "closed", json!({})).unwrap();
    assert!(locate_in(&fixture, None, "acme/open").unwrap().1);
    assert!(!locate_in(&fixture, None, "acme/closed").unwrap().1);
    assert!(!locate_in(&fixture, None, "acme/never").unwrap().1);
    let read = |reference: &str| {
        fixture.store.read_now(fixture.org, |view| {
            require_readable(view, None, reference).map(|found| found.slug)
        })
    };
    assert_eq!(read("acme/open").unwrap().as_str(), "open");
    assert_eq!(read("acme/closed").unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn who_changed_a_public_registry_is_told_to_members_alone() {
    let fixture = Fixture::new();
    let made = make(&fixture, "open", json!({"visibility": "public"})).unwrap();
    assert!(made.updated_by.is_some());
    let request = || {
        let query: OrgRequired = Fixture::input(json!({"orgSlug": "acme"})).unwrap();
        args("open".to_string(), query)
    };
    let read_as = |who: &Principal| {
        let args = request();
        fixture.store.read_now(fixture.org, |view| get(view, &Req::new(&args, who))).unwrap()
    };
    assert_eq!(read_as(&fixture.member), made);
    let Principal::Caller(caller) = &fixture.member else { unreachable!("a member is a caller") };
    let shown = RegistryInfo { updated_by: None, ..made };
    for outside in [Principal::Anonymous, Principal::Identity(Arc::new(caller.identity.clone()))] {
        assert_eq!(read_as(&outside), shown);
    }
}

#[test]
fn a_restricted_registry_is_not_listed_and_refused_by_name() {
    let fixture = Fixture::new();
    make(&fixture, "main", json!({})).unwrap();
    make(&fixture, "secret", json!({"access": "restricted"})).unwrap();
    let slugs = |who| {
        let page = fixture.read_as(who, list, (), Fixture::input(json!({})).unwrap()).unwrap();
        page.items.into_iter().map(|item| item.slug.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(slugs(&fixture.owner), ["secret", "main"]);
    assert_eq!(slugs(&fixture.member), ["main"]);
    let query = || Fixture::input(json!({"orgSlug": "acme"})).unwrap();
    let refused = fixture.read(get, "secret".into(), query()).unwrap_err();
    assert_eq!(refused.kind(), Kind::Forbidden);
    assert!(fixture.read_as(&fixture.owner, get, "secret".into(), query()).is_ok());
    assert_eq!(fixture.read(get, "never".into(), query()).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn slugs_are_unique_and_two_of_them_are_reserved() {
    let fixture = Fixture::new();
    make(&fixture, "main", json!({})).unwrap();
    assert_eq!(make(&fixture, "main", json!({})).unwrap_err().code(), "registry_slug_taken");
    for slug in RESERVED {
        assert_eq!(make(&fixture, slug, json!({})).unwrap_err().issues()[0].path, "slug");
    }
    fixture.assert_sound();
}

#[test]
fn a_patch_keeps_absent_fields() {
    let fixture = Fixture::new();
    let made = make(&fixture, "main", json!({"description": "Ours"})).unwrap();
    fixture.pass_secs(60);
    let patch = |json| {
        let input = Fixture::input(json).unwrap();
        fixture.write_as(&fixture.owner, update, "main".into(), input).unwrap()
    };
    assert_eq!(patch(json!({})), made);
    let changed = patch(json!({"visibility": "public"}));
    assert_eq!((changed.slug.as_str(), changed.visibility), ("main", RegistryVisibility::Public));
    assert_eq!(changed.description, made.description);
    assert!(changed.updated_at > made.updated_at);
    assert_eq!(patch(json!({"description": null})).description, None);
}
