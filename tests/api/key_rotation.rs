//! Rotating API keys: what the successor may do, how long the old key works, and who may
//! (reference: identity-and-rights, "Rotating a key").

use roadstead::api::audit::AuditEntry;
use roadstead::auth::Role;
use roadstead::base::{Id, Keys, Time};
use roadstead::resources;
use roadstead::store::engine::LoggedRedb;
use roadstead::store::{Clock, Store, build_indexes, table_names};
use serde_json::{Value, json};

use crate::client::{Caller, Reply, pick};
use crate::fixture::{Fixture, Running, config};

fn made(session: &Caller, body: Value) -> (Caller, Value) {
    let made = session.post("/api-keys", body).ok();
    (session.with_key(made["key"].as_str().unwrap()), made)
}

fn path(key: &Value) -> String {
    format!("/api-keys/{}/rotate", key["id"].as_str().unwrap())
}

fn rotated(session: &Caller, key: &Value, body: Value) -> (Caller, Value) {
    let made = session.post(&path(key), body).ok();
    (session.with_key(made["key"].as_str().unwrap()), made)
}

#[test]
fn the_successor_may_do_what_the_old_key_may_and_nothing_else() {
    let acme = Fixture::new();
    let access = json!(["tool:read", "deployment:decide"]);
    let body = json!({"name": "pipeline", "access": access, "allowApproveAs": true,
        "expiresInDays": 90});
    let (old, about) = made(&acme.admin, body);
    let (new, successor) = rotated(&acme.admin, &about, json!({}));
    assert_ne!(successor["key"], about["key"]);
    let rights = "name access permissions createdBy serviceAccountId createdByRole";
    assert_eq!(pick(&successor, rights), pick(&about, rights));
    assert_eq!(successor["replaces"], about["id"]);
    for key in [&old, &new] {
        assert_eq!(key.get("/tools").status, 200);
        key.get("/agents").refused(403, "scope_missing");
        key.get("/api-keys").refused(401, "session_required");
    }
    let listed = acme.admin.get("/api-keys");
    assert!(!listed.text().contains(successor["key"].as_str().unwrap()));
    let listed = listed.items();
    assert_eq!([&listed[0]["id"], &listed[1]["id"]], [&successor["id"], &about["id"]]);
    assert_eq!(listed[1]["replacedBy"], successor["id"]);
    assert!(listed[1]["replacedAt"].is_string() && listed[0]["replacedAt"].is_null());

    let entries = acme.audited();
    let (made, about) = (successor["id"].as_str().unwrap(), about["id"].as_str().unwrap());
    for (id, detail) in
        [(made, format!("replaces {about}")), (about, format!("replaced by {made}"))]
    {
        let of = |entry: &&AuditEntry| {
            entry.action == "api_key.rotate" && entry.resource_id.as_deref() == Some(id)
        };
        let found: Vec<_> = entries.iter().filter(of).collect();
        assert_eq!(found.len(), 1, "{id}");
        assert_eq!(found[0].detail.as_deref(), Some(&*detail));
    }
}

#[test]
fn the_old_key_is_refused_once_the_overlap_is_over() {
    let noon = Time::parse("2026-03-02T12:00:00Z").unwrap();
    let (place, tables) = (tempfile::tempdir().unwrap(), resources::tables());
    let file = place.path().join("test.redb");
    let mut storage = LoggedRedb::create(&file, table_names(&tables)).unwrap();
    build_indexes(&mut storage, &tables, &|_| {}).unwrap();
    let store = Store::start(storage, Clock::at(noon), Keys::new([7; 32]), &tables).unwrap();
    let running = Running::serve(store, "127.0.0.1:0", config());
    let acme = running.fixture();
    let (old, about) = made(&acme.member, json!({"name": "ci"}));
    let (new, _) = rotated(&acme.member, &about, json!({"overlapSecs": 1800}));
    let listed = acme.member.get("/api-keys").items();
    assert_eq!(listed[1]["expiresAt"], "2026-03-02T12:30:00.000Z");
    assert_eq!(old.get("/whoami").ok()["expiresAt"], listed[1]["expiresAt"]);
    running.store.clock().advance_secs(1799);
    assert_eq!([old.get("/tools").status, new.get("/tools").status], [200, 200]);
    running.store.clock().advance_secs(1);
    old.get("/tools").refused(401, "unauthenticated");
    old.post("/tools", json!({"name": "t", "type": "http"})).refused(401, "unauthenticated");
    assert_eq!(new.get("/tools").status, 200);
    // His first session would be asked again who he is.
    let ben = acme.anonymous.with_bearer(&running.session(Id::parse(&acme.member_id)));
    ben.post(&path(&about), json!({})).refused(404, "not_found");
}

#[test]
fn without_an_overlap_the_old_key_is_refused_at_once() {
    let acme = Fixture::new();
    let (old, about) = made(&acme.member, json!({"name": "ci"}));
    assert_eq!(old.get("/tools").status, 200);
    let (new, successor) = rotated(&acme.member, &about, json!({"overlapSecs": 0}));
    old.get("/tools").refused(401, "unauthenticated");
    assert_eq!(new.get("/tools").status, 200);
    let listed = acme.member.get("/api-keys").items();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["id"], successor["id"]);
}

#[test]
fn a_key_is_rotated_by_who_could_make_it_in_a_session() {
    let acme = Fixture::new();
    let (key, about) = made(&acme.member, json!({"name": "ben's"}));
    let rotate = path(&about);
    let refused = |caller: &Caller, status, code| {
        caller.post(&rotate, json!({})).refused(status, code);
    };
    refused(&key, 401, "session_required");
    refused(&acme.key, 401, "session_required");
    refused(&acme.anonymous, 401, "unauthenticated");
    refused(&acme.owner, 403, "not_own_key");
    refused(&acme.admin, 403, "not_own_key");
    refused(&Fixture::new().owner, 404, "not_found");
    let (_, theirs) = made(&acme.admin, json!({"name": "grace's"}));
    acme.member.post(&path(&theirs), json!({})).refused(404, "not_found");
    for bad in [json!(-1), json!(2_592_001), json!("day")] {
        acme.member.post(&rotate, json!({"overlapSecs": bad})).invalid(&["overlapSecs"]);
    }
    assert_eq!(acme.member.get("/api-keys").items().len(), 1);
    acme.member.post(&rotate, json!({"overlapSecs": 2_592_000})).ok();
    refused(&acme.member, 409, "api_key_rotated");
    acme.member.delete(&rotate.replace("/rotate", "")).ok();
    refused(&acme.member, 404, "not_found");
}

#[test]
fn a_demoted_admin_rotates_no_key_that_approves_as_others() {
    let acme = Fixture::new();
    let (eve, id) = acme.person("eve", Role::Admin);
    let (_, about) = made(&eve, json!({"name": "k", "allowApproveAs": true}));
    acme.owner.patch(&format!("/organizations/members/{id}"), json!({"role": "member"})).ok();
    eve.post(&path(&about), json!({})).refused(403, "admin_required");
}

#[test]
fn who_rotates_the_key_of_a_service_account_answers_for_the_successor() {
    let acme = Fixture::new();
    let account = acme.admin.post("/organizations/service-accounts", json!({"name": "bot"})).id();
    let (eve, eve_id) = acme.person("eve", Role::Admin);
    let (old, about) = made(&eve, json!({"name": "ci", "serviceAccountId": account}));
    acme.member.post(&path(&about), json!({})).refused(404, "not_found");
    let (new, successor) = rotated(&acme.owner, &about, json!({}));
    assert_eq!(pick(&successor, "serviceAccountId createdBy"), json!([account, acme.owner_id]));
    assert_eq!([old.get("/tools").status, new.get("/tools").status], [200, 200]);
    // The old one still has who answered for it, and stops with them.
    acme.owner.delete(&format!("/organizations/members/{eve_id}")).ok();
    old.get("/tools").refused(401, "unauthenticated");
    assert_eq!(new.get("/tools").status, 200);
}

#[test]
fn a_rotation_that_is_repeated_does_not_show_the_key_again() {
    let acme = Fixture::new();
    let (_, about) = made(&acme.member, json!({"name": "ci"}));
    let ask = |body: Value| -> Reply {
        let ask = acme.member.ask("POST", &path(&about)).with("Idempotency-Key", "once");
        ask.org_json(body).send()
    };
    let first = ask(json!({})).ok();
    let again = ask(json!({}));
    again.refused(409, "answer_not_kept");
    assert!(!again.text().contains(first["key"].as_str().unwrap()));
    assert_eq!(acme.member.get("/api-keys").items().len(), 2);
}
