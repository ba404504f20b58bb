//! Provider credentials: keys that stay or go, push targets, and what is reported of them.

use serde_json::{Value, json};

use super::super::tests::{make, shown};
use super::*;
use crate::api::audit::AuditEntry;
use crate::base::Kind;
use crate::outbox::Event;
use crate::resources::testing::Fixture;

/// Sets a credential as an admin.
pub fn put(
    fixture: &Fixture,
    at: Id<Environment>,
    name: &str,
    body: Value,
) -> Result<ProviderCredential> {
    let input = Fixture::input(body)?;
    fixture.write_as(&fixture.owner, set, (at, Name::parse(name).unwrap()), input)
}

/// Damages the key of a credential, so that it cannot be decrypted.
pub fn damage(fixture: &Fixture, at: Id<Environment>, name: &str) {
    let name = Name::parse(name).unwrap();
    let damage = move |tx: &mut Tx| {
        let old = tx.find(&BY_NAME, &(at, name.clone()))?.unwrap();
        tx.put(&ProviderCredential { key: Some(Sealed::from_bytes(vec![7; 60])), ..old })
    };
    fixture.store.write_blocking(fixture.org, damage).unwrap();
}

fn target(fixture: &Fixture, at: Id<Environment>, provider: &str) -> Option<(String, Vec<u8>)> {
    let target = |view: &View| {
        let Some(target) = push_target(view, at, provider)? else { return Ok(None) };
        let key = target.signing_key(view)?;
        Ok(Some((target.endpoint.into_string(), key)))
    };
    fixture.store.read_now(fixture.org, target).unwrap()
}

fn environment(fixture: &Fixture) -> Id<Environment> {
    make(fixture, json!({"slug": "a", "name": "A"})).unwrap().id
}

#[test]
fn a_credential_is_set_and_deleted_by_name_and_its_key_is_never_shown() {
    let fixture = Fixture::new();
    let at = environment(&fixture);
    let body = json!({"apiKey": "sesame", "endpoint": "http://a.test/x", "config": {"a": null}});
    let made = put(&fixture, at, "Open AI", body).unwrap();
    assert_eq!(
        json!(made),
        json!({
            "name": "Open AI", "endpoint": "http://a.test/x", "config": {"a": null},
            "createdAt": "2026-01-15T12:00:00.000Z", "updatedAt": "2026-01-15T12:00:00.000Z",
            "updatedBy": made.updated_by,
        })
    );
    put(&fixture, at, "b", json!({})).unwrap();
    assert_eq!(json!(shown(&fixture, at))["providers"], json!(["Open AI", "b"]));
    let target_of = |name: &str| target(&fixture, at, name);
    assert_eq!(target_of("Open AI"), Some(("http://a.test/x".into(), b"sesame".to_vec())));
    for none in ["b", "unknown", ""] {
        assert_eq!(target_of(none), None);
    }
    assert_eq!(fixture.read(list, at, ()).unwrap().items.len(), 2);
    fixture.write_as(&fixture.owner, delete, (at, "Open AI".into()), ()).unwrap();
    for name in ["Open AI", ""] {
        let error = fixture.write_as(&fixture.owner, delete, (at, name.into()), ()).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
    }
    fixture.assert_sound();
}

#[test]
fn a_credential_whose_name_is_refused_today_is_used_set_and_deleted() {
    let fixture = Fixture::new();
    let at = environment(&fixture);
    let name = Name::parse_earlier(" Ａcme").unwrap();
    let body = || json!({"apiKey": "sesame", "endpoint": "http://a.test/x"});
    let set_it = || {
        let input = Fixture::input(body()).unwrap();
        fixture.write_as(&fixture.owner, set, (at, name.clone()), input)
    };
    let refused = set_it().unwrap_err();
    assert_eq!((refused.kind(), &*refused.issues()[0].path), (Kind::Invalid, "name"));
    put(&fixture, at, "b", body()).unwrap();
    let earlier = name.clone();
    let rename = move |tx: &mut Tx| {
        let b = tx.find(&BY_NAME, &(at, Name::from_trusted("b".into())))?.unwrap();
        tx.put(&ProviderCredential { name: earlier.clone(), ..b })
    };
    fixture.store.write_blocking(fixture.org, rename).unwrap();
    assert_eq!(target(&fixture, at, &name), Some(("http://a.test/x".into(), b"sesame".to_vec())));
    set_it().unwrap();
    fixture.write_as(&fixture.owner, delete, (at, name.to_string()), ()).unwrap();
    assert_eq!(target(&fixture, at, &name), None);
}

#[test]
fn another_endpoint_without_a_key_removes_the_key() {
    let fixture = Fixture::new();
    let at = environment(&fixture);
    let key_after = |body: Value| {
        let all = json!({"apiKey": "sesame", "endpoint": "http://a.test/", "config": {"a": 1}});
        put(&fixture, at, "p", all).unwrap();
        let made = put(&fixture, at, "p", body).unwrap();
        (made.key.is_some(), json!(made.config))
    };
    assert_eq!(key_after(json!({"endpoint": "http://a.test/"})), (true, json!({})));
    assert_eq!(key_after(json!({"endpoint": "http://b.test/"})), (false, json!({})));
    assert_eq!(key_after(json!({"config": {"b": 2}})), (false, json!({"b": 2})));
    let both = json!({"endpoint": "http://b.test/", "apiKey": "new"});
    assert_eq!(key_after(both), (true, json!({})));
}

#[test]
fn a_key_in_the_form_of_a_signing_secret_is_decoded() {
    let fixture = Fixture::new();
    let at = environment(&fixture);
    let secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
    for (key, bytes) in [(secret, b"secretsecretsecretsecret".as_slice()), ("sesame", b"sesame")] {
        put(&fixture, at, "p", json!({"apiKey": key, "endpoint": "http://a.test/"})).unwrap();
        assert_eq!(target(&fixture, at, "p").unwrap().1, bytes);
    }
}

#[test]
fn inputs_are_bounded() {
    let fixture = Fixture::new();
    let at = environment(&fixture);
    let issue = |body: Value| {
        let error = Fixture::input::<NewProviderCredential>(body).err().unwrap();
        error.issues()[0].path.clone()
    };
    for key in ["", "a b", "ä", "line\n", &"x".repeat(4097), "whsec_c2VjcmV0", "whsec_?"] {
        assert_eq!(issue(json!({"apiKey": key})), "apiKey");
    }
    assert_eq!(issue(json!({"endpoint": "ftp://a.test/"})), "endpoint");
    assert_eq!(issue(json!({"config": {"a": "x".repeat(MAX_CONFIG_BYTES)}})), "config");
    for n in 0..MAX_CREDENTIALS {
        put(&fixture, at, &format!("p{n}"), json!({})).unwrap();
    }
    let full = put(&fixture, at, "more", json!({})).unwrap_err();
    assert_eq!(full.code(), "provider_credentials_full");
    put(&fixture, at, "p0", json!({"endpoint": "http://a.test/"})).unwrap();
}

#[test]
fn an_environment_is_inaccessible_once_until_its_endpoint_accepts_again() {
    let fixture = Fixture::new();
    let at = environment(&fixture);
    let set = json!({"endpoint": "http://a.test/hook?token=x", "apiKey": "k"});
    put(&fixture, at, "p", set).unwrap();
    let report = |good: bool| {
        let report = move |tx: &mut Tx| {
            if good { push_succeeded(tx, at, "p") } else { push_failed(tx, at, "p", "refused") }
        };
        fixture.store.write_blocking(fixture.org, report).unwrap();
        let events = |view: &View| view.all::<Event>(ListSource::TABLE, &());
        fixture.store.read_now(fixture.org, events).unwrap()
    };
    assert_eq!(report(true).len(), 0);
    assert_eq!(report(false).len(), 1);
    let events = report(false);
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0].payload.0,
        json!({"environmentId": at, "slug": "a", "name": "A", "provider": "p",
            "endpoint": "http://a.test", "error": "refused"})
    );
    assert_eq!(report(true).len(), 1);
    assert_eq!(report(false).len(), 2);
    // Another endpoint has not failed yet.
    put(&fixture, at, "p", json!({"endpoint": "http://b.test/"})).unwrap();
    assert_eq!(report(false).len(), 3);
    // A credential that was deleted meanwhile has no state.
    fixture.write_as(&fixture.owner, delete, (at, "p".into()), ()).unwrap();
    assert_eq!(report(false).len(), 3);
}

#[test]
fn each_use_of_a_credential_and_of_a_secret_is_an_audit_entry() {
    let fixture = Fixture::new();
    let at = environment(&fixture);
    let push = move |tx: &mut Tx| {
        let secrets = ["A", "B"].map(|name| VariableName::parse(name).unwrap()).into();
        audit_push(tx, at, "p", &secrets, "the job")
    };
    fixture.store.write_blocking(fixture.org, push).unwrap();
    let entries = |view: &View| view.all::<AuditEntry>(ListSource::TABLE, &());
    let entries = fixture.store.read_now(fixture.org, entries).unwrap();
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| (entry.action.as_str(), entry.resource_id.as_deref().unwrap()))
        .collect();
    let secret = "environment_secret.use";
    assert_eq!(entries, [("provider_credential.use", "p"), (secret, "A"), (secret, "B")]);
}
