//! Registries: look-up, access and validation.

use serde_json::json;

use super::*;
use crate::api::OrgHint;
use crate::base::Kind;
use crate::resources::testing::World;
use crate::store::Org;

/// Creates a registry as an admin.
pub fn make(world: &World, slug: &str, more: serde_json::Value) -> Result<RegistryInfo> {
    let mut new = json!({"slug": slug, "name": slug});
    for (name, value) in more.as_object().unwrap() {
        new[name] = value.clone();
    }
    world.write_as(&world.owner, create, (), World::input(new)?)
}

/// Locates a reference: the organization, and whether the registry is public.
fn locate_in(world: &World, org_slug: Option<&str>, reference: &str) -> Result<(Id<Org>, bool)> {
    locate_with(world, org_slug, reference, None)
}

fn locate_with(
    world: &World,
    org_slug: Option<&str>,
    reference: &str,
    key: Option<Id<Org>>,
) -> Result<(Id<Org>, bool)> {
    let named = OrgHint {
        org_slug: org_slug.map(String::from),
        reference: Some(reference.into()),
        params: vec![],
    };
    let org = world.store.read_now(Id::NIL, |view| (BY_REFERENCE.resolve)(view, &named, key))?.org;
    Ok((org, world.store.read_now(org, |view| (BY_REFERENCE.is_public)(view, &named))?))
}

#[test]
fn a_registry_is_found_by_id_by_full_reference_and_with_a_key_by_slug() {
    let world = World::new();
    let made = make(&world, "main", json!({})).unwrap();
    let key = Some(world.org);
    for (org_slug, reference, key) in [
        (None, made.id.to_string(), None),
        (None, "acme/main".to_string(), None),
        (None, "main".to_string(), key),
        (Some("acme"), "main".to_string(), None),
        (Some("acme"), "acme/main".to_string(), None),
        (Some("acme"), made.id.to_string(), None),
    ] {
        let located = locate_with(&world, org_slug, &reference, key).unwrap();
        assert_eq!(located, (world.org, false), "{org_slug:?} {reference}");
    }
    let alone = locate_in(&world, None, "main").err().unwrap();
    assert_eq!((alone.kind(), alone.issues()[0].path.as_str()), (Kind::Invalid, "registryRef"));
}

#[test]
fn a_reference_and_an_organization_that_differ_are_not_found() {
    let world = World::new();
    let made = make(&world, "main", json!({"visibility": "public"})).unwrap();
    let (other, _) = world.other_org("other");
    let foreign = locate_in(&world, Some("other"), "acme/main").err().unwrap();
    assert_eq!(foreign.kind(), Kind::NotFound);
    // The named organization has no such registry.
    let elsewhere = locate_in(&world, Some("other"), &made.id.to_string()).unwrap();
    assert_eq!(elsewhere, (other, false));
    for reference in ["nowhere/main", "01890a5d-ac96-774b-bcce-b302099a8057", "a/b/c"] {
        assert_eq!(locate_in(&world, None, reference).err().unwrap().kind(), Kind::NotFound);
    }
}

#[test]
fn only_public_registries_are_readable_by_anyone() {
    let world = World::new();
    make(&world, "open", json!({"visibility": "public", "access": "restricted"})).unwrap();
    make(&world, "closed", json!({})).unwrap();
    assert!(locate_in(&world, None, "acme/open").unwrap().1);
    assert!(!locate_in(&world, None, "acme/closed").unwrap().1);
    assert!(!locate_in(&world, None, "acme/never").unwrap().1);
    let read = |reference: &str| {
        world.store.read_now(world.org, |view| {
            require_readable(view, None, reference).map(|found| found.slug)
        })
    };
    assert_eq!(read("acme/open").unwrap().as_str(), "open");
    assert_eq!(read("acme/closed").unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_restricted_registry_is_not_listed_and_refused_by_name() {
    let world = World::new();
    make(&world, "main", json!({})).unwrap();
    make(&world, "secret", json!({"access": "restricted"})).unwrap();
    let slugs = |who| {
        let page = world.read_as(who, list, (), World::input(json!({})).unwrap()).unwrap();
        page.items.into_iter().map(|item| item.slug.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(slugs(&world.owner), ["secret", "main"]);
    assert_eq!(slugs(&world.member), ["main"]);
    let query = || World::input(json!({"orgSlug": "acme"})).unwrap();
    let refused = world.read(get, "secret".into(), query()).unwrap_err();
    assert_eq!(refused.kind(), Kind::Forbidden);
    assert!(world.read_as(&world.owner, get, "secret".into(), query()).is_ok());
    assert_eq!(world.read(get, "never".into(), query()).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn slugs_are_unique_and_two_of_them_are_reserved() {
    let world = World::new();
    make(&world, "main", json!({})).unwrap();
    assert_eq!(make(&world, "main", json!({})).unwrap_err().code(), "registry_slug_taken");
    for slug in RESERVED {
        assert_eq!(make(&world, slug, json!({})).unwrap_err().issues()[0].path, "slug");
    }
    world.assert_sound();
}

#[test]
fn a_patch_keeps_absent_fields() {
    let world = World::new();
    let made = make(&world, "main", json!({"description": "Ours"})).unwrap();
    world.pass_secs(60);
    let patch = |json| {
        let input = World::input(json).unwrap();
        world.write_as(&world.owner, update, "main".into(), input).unwrap()
    };
    assert_eq!(patch(json!({})), made);
    let changed = patch(json!({"visibility": "public", "slug": "other"}));
    assert_eq!((changed.slug.as_str(), changed.visibility), ("main", RegistryVisibility::Public));
    assert_eq!(changed.description, made.description);
    assert!(changed.updated_at > made.updated_at);
    assert_eq!(patch(json!({"description": null})).description, None);
}
