//! Protected labels: every way of moving a label, for those who may and those who may not, and changes
//! that take approvals (reference: registries-and-templates, "Protected labels").

use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::{Caller, Reply, pick};
use crate::fixture::{Fixture, key_of};
use crate::registries::{publish, registry};

const LABELS: &str = "/registries/artifacts/labels";
const CHANGES: &str = "/registries/artifacts/label-changes";

/// An organization with the registry `main`, and `production` on `p` 1.0.0 of two versions.
fn acme() -> Fixture {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.\n");
    publish(&acme, ["main", "prompt", "p", "1.1.0"], "Good morning.\n");
    put(&acme.owner, json!("1.0.0")).ok();
    acme
}

fn named(caller: &Caller) -> Value {
    json!({"registryRef": format!("{}/main", caller.org), "promptName": "p", "label": "production"})
}

/// Moves `production`; with null removes it.
fn put(caller: &Caller, version: Value) -> Reply {
    let mut body = named(caller);
    body["version"] = version;
    caller.patch(LABELS, body)
}

fn remove(caller: &Caller) -> Reply {
    let of = format!("registryRef={}/main&promptName=p&label=production", caller.org);
    caller.delete(&format!("{LABELS}?{of}"))
}

fn protect(acme: &Fixture, body: Value) -> Value {
    acme.admin.put("/registries/main/protected-labels/production", body).ok()
}

fn production(acme: &Fixture) -> Value {
    let of = format!("/registries/artifacts?registryRef={}/main", acme.slug);
    acme.member.get(&of).items()[0]["labels"]["production"].clone()
}

/// A key of a new service account; the account's id.
fn service(acme: &Fixture) -> (Caller, String) {
    let account = acme.admin.post("/organizations/service-accounts", json!({"name": "CI"})).id();
    let new = json!({"name": "pipeline", "serviceAccountId": account});
    let made = acme.admin.post("/api-keys", new).ok();
    (acme.admin.with_key(made["key"].as_str().unwrap()), account)
}

/// The change that is asked for by a move to a version.
fn asked(caller: &Caller, version: Value) -> String {
    let moved = put(caller, version).ok();
    format!("{CHANGES}/{}", moved["pendingChange"]["id"].as_str().expect("it waits"))
}

#[test]
fn whoever_may_not_is_refused_on_every_way_by_session_and_by_key() {
    let acme = acme();
    let (pipeline, account) = service(&acme);
    let (other, _) = service(&acme);
    let (named_person, named_id) = acme.person("nia", Role::Member);
    let all = [
        ("a member", acme.member.clone()),
        ("the key of a member", key_of(&acme.member)),
        ("a person who is named", named_person.clone()),
        ("their key", key_of(&named_person)),
        ("a service account that is named", pipeline),
        ("another service account", other),
        ("an admin", acme.admin.clone()),
        ("the owner's key", acme.key.clone()),
    ];
    let everybody = [true; 8];
    let named_and_owners = [false, false, true, true, true, false, false, true];
    for (protection, may) in [
        (Value::Null, everybody),
        (json!({"minRole": "member"}), everybody),
        (json!({"minRole": "owner", "userIds": [named_id, account]}), named_and_owners),
    ] {
        if !protection.is_null() {
            protect(&acme, protection.clone());
        }
        for ((who, caller), may) in all.iter().zip(may) {
            put(&acme.owner, json!("1.0.0")).ok();
            for reply in [put(caller, json!("1.1.0")), put(caller, Value::Null), {
                put(&acme.owner, json!("1.0.0")).ok();
                remove(caller)
            }] {
                let context = format!("{who} {protection}: {} {}", reply.status, reply.text());
                if may {
                    assert_eq!(reply.status, 200, "{context}");
                } else {
                    assert_eq!(reply.json()["code"], "label_protected", "{context}");
                    assert!(reply.text().contains("owners, nia, the service account CI"));
                    assert_eq!(production(&acme), "1.0.0", "{context}");
                }
            }
        }
    }
    put(&acme.owner, json!("1.0.0")).ok();
    // What follows a label reads the same all the time, and a refusal is in the audit log.
    let refused = acme.audited().into_iter().filter(|entry| entry.action == "artifact_label.move");
    let refused = refused.filter(|entry| json!(entry.outcome) == "refused").count();
    assert_eq!(refused, 8, "four callers, two requests");
}

#[test]
fn the_scope_of_a_key_is_asked_before_the_protection() {
    let acme = acme();
    protect(&acme, json!({"minRole": "owner"}));
    let made = acme.owner.post("/api-keys", json!({"name": "k", "access": ["artifact:read"]})).ok();
    let key = acme.owner.with_key(made["key"].as_str().unwrap());
    put(&key, json!("1.1.0")).refused(403, "scope_missing");
    let moves = json!({"name": "k", "access": [format!("label:move@{}/main#staging", acme.slug)]});
    let made = acme.owner.post("/api-keys", moves).ok();
    let key = acme.owner.with_key(made["key"].as_str().unwrap());
    put(&key, json!("1.1.0")).refused(403, "scope_missing");
}

#[test]
fn members_see_what_is_protected_and_readers_of_a_public_registry_do_not() {
    let acme = acme();
    acme.owner.patch("/registries/main", json!({"visibility": "public"})).ok();
    let approvals = json!({"approverIds": [acme.owner_id]});
    let set = protect(&acme, json!({"minRole": "admin", "approvals": approvals}));
    let shown = pick(&set, "label minRole userIds approvalTimeoutHours mayMove");
    assert_eq!(shown, json!(["production", "admin", [], 72, true]));
    let path = "/registries/main/protected-labels";
    let listed = acme.member.get(path).items();
    assert_eq!((listed.len(), &listed[0]["mayMove"]), (1, &json!(false)));
    assert_eq!(acme.admin.get(&format!("{path}/production")).ok(), set);
    let of = |label: &str| format!("label:move@{}/main#{label}", acme.slug);
    for (access, may_move) in [
        (json!(["registry:read", of("production")]), true),
        (json!(["registry:read", of("staging")]), false),
        (json!(["registry:read"]), false),
        (json!("read"), false),
    ] {
        let made = acme.owner.post("/api-keys", json!({"name": "k", "access": access})).ok();
        let key = acme.owner.with_key(made["key"].as_str().unwrap());
        assert_eq!(key.get(path).items()[0]["mayMove"], may_move, "{access}");
    }
    acme.anonymous.get(path).refused(401, "unauthenticated");
    acme.member.put(&format!("{path}/staging"), json!({"minRole": "admin"})).problem();
    acme.admin.put(&format!("{path}/1x"), json!({"minRole": "admin"})).invalid(&["label"]);
    assert_eq!(acme.admin.put(&format!("{path}/x"), json!({})).ok()["minRole"], "admin");
    acme.admin.delete(&format!("{path}/x")).ok();
    acme.admin.get(&format!("{path}/none")).refused(404, "not_found");
    acme.admin.delete(&format!("{path}/production")).ok();
    acme.admin.delete(&format!("{path}/production")).refused(404, "not_found");
    assert_eq!(acme.member.get(path).items(), [] as [Value; 0]);
}

#[test]
fn a_label_that_takes_approvals_moves_with_the_last_of_them() {
    let acme = acme();
    let (first, first_id) = acme.person("nia", Role::Member);
    let (second, second_id) = acme.person("omar", Role::Member);
    let approvals = json!({"approverIds": [first_id, second_id], "preventSelfApproval": true});
    protect(&acme, json!({"minRole": "member", "approvals": approvals}));
    remove(&acme.member).refused(409, "approval_required");
    let change = asked(&key_of(&acme.member), json!("1.1.0"));
    assert_eq!(production(&acme), "1.0.0");
    let shown = acme.member.get(&change).ok();
    let fields = pick(&shown, "artifactType name label from to state via finishedAt obstacle");
    let expected = ["prompt", "p", "production", "1.0.0", "1.1.0", "pending", "a key"];
    let mut expected: Vec<Value> = expected.iter().map(|text| json!(text)).collect();
    expected.extend([Value::Null, Value::Null]);
    assert_eq!(fields, json!(expected));
    let diff = acme.member.get(&format!("{change}/diff")).items();
    assert!(diff[0]["diff"].as_str().unwrap().contains("-Hello.\n+Good morning."));
    let waiting = |who: &Caller| who.get(&format!("{CHANGES}?approver=me")).items().len();
    assert_eq!([&first, &second, &acme.member].map(waiting), [1, 1, 0]);

    let approve = format!("{change}/approve");
    acme.member.post(&approve, json!({})).refused(403, "approver_required");
    let wrong = json!({"contentHash": "x"});
    first.post(&approve, wrong).refused(409, "content_hash_differs");
    let named = json!({"actingUserEmail": format!("nia@{}.test", acme.slug)});
    first.post(&approve, named).refused(403, "approve_as_required");
    let read = json!({"contentHash": shown["contentHash"], "comment": "Kinder."});
    assert_eq!(first.post(&approve, read).ok()["state"], "pending");
    first.post(&approve, json!({})).refused(409, "label_change_decided");
    assert_eq!(production(&acme), "1.0.0");
    assert_eq!(second.post(&approve, json!({})).ok()["state"], "approved");
    assert_eq!(production(&acme), "1.1.0");
    second.post(&format!("{change}/deny"), json!({})).refused(409, "label_change_decided");
    let approvals = acme.member.get(&format!("{change}/approvals")).items();
    assert!(approvals.iter().all(|one| one["decision"] == "approved"), "{approvals:?}");
    let audited = acme.audited().into_iter().filter(|entry| entry.action == "label_change.approve");
    let done = audited.filter(|entry| json!(entry.outcome) == "success");
    let details: Vec<_> = done.filter_map(|entry| entry.detail).collect();
    let detail = format!("{}/main/prompt/p production: 1.0.0 -> 1.1.0", acme.slug);
    assert_eq!(details, [detail.clone(), detail]);
    let log = |event: &str| {
        acme.owner.get(&format!("/notifications/logs?eventType={event}")).ok()["items"].clone()
    };
    let requested = &log("label_change.requested")[0]["payload"];
    assert_eq!(requested["approverIds"], json!([first_id, second_id]));
    let approved = &log("label_change.approved")[0]["payload"];
    assert_eq!(approved["approvals"].as_array().unwrap().len(), 2);
}

#[test]
fn nobody_approves_what_they_ask_for_where_that_is_prevented() {
    let acme = acme();
    let approvals = json!({"approverIds": [acme.owner_id], "preventSelfApproval": true});
    protect(&acme, json!({"minRole": "member", "approvals": approvals}));
    put(&acme.owner, json!("1.1.0")).refused(409, "no_approver");
    // Who answers for the key of a service account could ask through it.
    let account = acme.owner.post("/organizations/service-accounts", json!({"name": "CI"})).id();
    let new = json!({"name": "pipeline", "serviceAccountId": account});
    let made = acme.owner.post("/api-keys", new).ok();
    let pipeline = acme.owner.with_key(made["key"].as_str().unwrap());
    put(&pipeline, json!("1.1.0")).refused(409, "no_approver");
    let change = asked(&acme.member, json!("1.1.0"));
    acme.owner.post(&format!("{change}/approve"), json!({})).ok();
    assert_eq!(production(&acme), "1.1.0");
}

#[test]
fn what_is_not_as_it_was_asked_for_is_not_approved() {
    let acme = acme();
    let (other, other_id) = acme.person("nia", Role::Member);
    let by_owner = json!({"approverIds": [acme.owner_id, other_id], "minApprovals": 1});
    let protection = json!({"minRole": "member", "approvals": by_owner});
    protect(&acme, protection.clone());
    let change = asked(&acme.member, json!("1.1.0"));
    let approve = |change: &str| acme.owner.post(&format!("{change}/approve"), json!({}));
    // The version is gone.
    let of = format!("registryRef={}/main&promptName=p&version=1.1.0", acme.slug);
    acme.owner.delete(&format!("/registries/artifact-versions?{of}")).ok();
    approve(&change).refused(409, "label_change_outdated");
    let obstacle = acme.member.get(&change).ok()["obstacle"].clone();
    assert!(obstacle.as_str().unwrap().contains("1.1.0 does not exist"), "{obstacle}");
    // It takes more approvals than it did.
    publish(&acme, ["main", "prompt", "p", "1.1.0"], "Good morning.\n");
    let change = asked(&acme.member, json!("1.1.0"));
    let mut more = protection.clone();
    more["approvals"]["minApprovals"] = json!(2);
    protect(&acme, more);
    approve(&change).refused(409, "label_change_outdated");
    // Who asked may not move it any more.
    protect(&acme, protection);
    let change = asked(&acme.member, json!("1.1.0"));
    protect(&acme, json!({"minRole": "admin"}));
    approve(&change).refused(409, "label_change_outdated");
    other.post(&format!("{change}/deny"), json!({"comment": "Ask again"})).ok();
    assert_eq!(acme.member.get(&change).ok()["state"], "denied");
    assert_eq!(production(&acme), "1.0.0");
}

#[test]
fn a_version_under_a_protected_label_says_what_it_did_for_every_model() {
    let acme = acme();
    protect(&acme, json!({"minRole": "owner"}));
    let mut new = json!({"registryRef": format!("{}/main", acme.slug), "artifactType": "prompt",
        "name": "p", "version": "1.0.0", "source": "Other.", "model": "m"});
    acme.member.post("/registries/artifacts", new.clone()).refused(409, "version_protected");
    new["version"] = json!("1.1.0");
    acme.member.post("/registries/artifacts", new).ok();
}
