//! Environments, their variables, and grants for restricted ones
//! (reference: identity-and-rights, "Restricted resources"; agents, "Environments").

use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::{Reply, pick};
use crate::fixture::{Fixture, key_of, unknown_id};

fn environment(acme: &Fixture, body: Value) -> Reply {
    acme.admin.post("/environments", body)
}

#[test]
fn an_environment_has_every_field_and_its_bounds() {
    let acme = Fixture::new();
    let made = environment(&acme, json!({"slug": "prod", "name": "Prod"})).ok();
    let some = pick(&made, "slug access approvals approvalTimeoutHours variables secretNames");
    assert_eq!(some, json!(["prod", "organization", null, 72, {}, []]));
    assert_eq!(pick(&made, "providers toolVersions"), json!([[], {}]));
    environment(&acme, json!({"slug": "prod", "name": "P"})).refused(409, "environment_slug_taken");
    for bad in ["", "A", "a--b", "-a", "a_b", &unknown_id(), &"a".repeat(65)] {
        environment(&acme, json!({"slug": bad, "name": "P"})).invalid(&["slug"]);
    }
    acme.member
        .post("/environments", json!({"slug": "x", "name": "X"}))
        .refused(403, "admin_required");
    let path = format!("/environments/{}", made["id"].as_str().unwrap());
    acme.admin.patch(&path, json!({"slug": "x"})).invalid(&["slug"]);
    let patched = acme.admin.patch(&path, json!({"description": "d"})).ok();
    assert_eq!(pick(&patched, "slug description"), json!(["prod", "d"]));
    acme.member.delete(&path).refused(403, "admin_required");
    acme.admin.delete(&path).ok();
    acme.admin.delete(&path).refused(404, "not_found");
    environment(&acme, json!({"slug": "prod", "name": "Prod"})).ok();
}

#[test]
fn approvers_are_members_and_no_fewer_than_required() {
    let acme = Fixture::new();
    let (ada, ben) = (&acme.owner_id, &acme.member_id);
    let with = |approvals: Value| {
        environment(&acme, json!({"slug": "prod", "name": "P", "approvals": approvals}))
    };
    with(json!({"approverIds": []})).invalid(&["approvals.approverIds"]);
    let more = with(json!({"approverIds": [ada], "minApprovals": 2}));
    more.invalid(&["approvals.minApprovals"]);
    with(json!({"approverIds": [ada], "minApprovals": 0})).invalid(&["approvals.minApprovals"]);
    with(json!({"approverIds": [ada, unknown_id()]})).refused(404, "not_found");
    with(json!({"approverIds": [Fixture::new().owner_id]})).refused(404, "not_found");
    let made = with(json!({"approverIds": [ada, ben]})).ok();
    let all = json!({"approverIds": [ada, ben], "minApprovals": 2, "preventSelfApproval": false});
    assert_eq!(made["approvals"], all);

    // A removed member is no approver; the last approver cannot be removed.
    let member = |id: &str| format!("/organizations/members/{id}");
    acme.owner.delete(&member(ben)).ok();
    let path = format!("/environments/{}", made["id"].as_str().unwrap());
    let left = acme.owner.get(&path).ok()["approvals"].clone();
    assert_eq!(pick(&left, "approverIds minApprovals"), json!([[ada], 1]));
    let grace = acme.admin.get("/auth/session").ok()["user"]["id"].clone();
    let body = json!({"slug": "stage", "name": "S", "approvals": {"approverIds": [grace]}});
    environment(&acme, body).ok();
    let refused = acme.owner.delete(&member(grace.as_str().unwrap()));
    refused.refused(409, "last_approver");
    assert!(refused.text().contains("\\\"S\\\""), "{}", refused.text());
    assert_eq!(acme.admin.patch(&path, json!({"approvals": null})).ok()["approvals"], Value::Null);
}

#[test]
fn variables_are_set_and_removed_by_name() {
    let acme = Fixture::new();
    let path =
        format!("/environments/{}", environment(&acme, json!({"slug": "e", "name": "E"})).id());
    let variable = |name: &str| format!("{path}/variables/{name}");
    let set = acme.admin.put(&variable("REGION"), json!({"value": "eu"})).ok();
    assert_eq!(pick(&set, "name value"), json!(["REGION", "eu"]));
    acme.admin.put(&variable("REGION"), json!({"value": "us"})).ok();
    acme.admin.put(&variable("_a9"), json!({"value": ""})).ok();
    assert_eq!(acme.member.get(&path).ok()["variables"], json!({"REGION": "us", "_a9": ""}));
    assert_eq!(acme.member.get(&format!("{path}/variables")).items().len(), 2);
    for bad in ["9a", "a-b", "%C3%A4", "a%20b", &"a".repeat(129)] {
        acme.admin.put(&variable(bad), json!({"value": "x"})).invalid(&["name"]);
        acme.admin.delete(&variable(bad)).refused(404, "not_found");
    }
    let long = acme.admin.put(&variable("LONG"), json!({"value": "x".repeat(100_001)}));
    long.invalid(&["value"]);
    acme.member.put(&variable("X"), json!({"value": "x"})).refused(403, "admin_required");
    let gone = acme.admin.delete(&variable("REGION")).ok();
    assert_eq!(gone, json!({"id": "REGION", "deleted": true}));
    acme.admin.delete(&variable("REGION")).refused(404, "not_found");
    let nowhere = format!("/environments/{}/variables/X", unknown_id());
    acme.admin.put(&nowhere, json!({"value": "x"})).refused(404, "not_found");
}

#[test]
fn restricted_environments_are_for_admins_and_grantees() {
    let acme = Fixture::new();
    let body = json!({"slug": "prod", "name": "P", "access": "restricted"});
    let id = environment(&acme, body).id();
    let path = format!("/environments/{id}");
    let key = key_of(&acme.member);
    let sees = || {
        let (one, all) = (key.get(&path).status, key.get("/environments").items().len());
        (one, all, key.get(&format!("{path}/variables")).status)
    };
    assert_eq!(sees(), (403, 0, 403));
    key.get(&path).refused(403, "grant_required");
    assert_eq!(acme.admin.get("/environments").items().len(), 1);

    let grant = json!({
        "userId": acme.member_id, "resourceType": "environment", "resourceId": id,
    });
    let made = acme.admin.post("/access-grants", grant.clone()).ok();
    assert_eq!(sees(), (200, 1, 200));
    acme.admin.post("/access-grants", grant).refused(409, "grant_exists");
    // A revocation applies to the next request.
    acme.admin.delete(&format!("/access-grants/{}", made["id"].as_str().unwrap())).ok();
    assert_eq!(sees(), (403, 0, 403));
    acme.admin.patch(&path, json!({"access": "organization"})).ok();
    assert_eq!(sees(), (200, 1, 200));
}

#[test]
fn a_grant_is_for_one_restricted_resource_alone() {
    let acme = Fixture::new();
    let restricted = |slug: &str| json!({"slug": slug, "name": "R", "access": "restricted"});
    let fleet = |name: &str| json!({"name": name, "access": "restricted"});
    for (kind, list, bodies) in [
        ("environment", "/environments", ["a", "b"].map(restricted)),
        ("registry", "/registries", ["a", "b"].map(restricted)),
        ("fleet", "/fleets", ["a", "b"].map(fleet)),
    ] {
        let [granted, other] = bodies.map(|body| acme.owner.post(list, body).id());
        let grant = json!({"userId": acme.member_id, "resourceType": kind, "resourceId": granted});
        acme.owner.post("/access-grants", grant).ok();
        let seen = acme.member.get(list).items();
        let seen: Vec<_> = seen.iter().map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(seen, [&granted], "{kind}");
        assert_eq!(acme.member.get(&format!("{list}/{granted}")).status, 200, "{kind}");
        acme.member.get(&format!("{list}/{other}")).refused(403, "grant_required");
    }
}

#[test]
fn grants_are_created_in_bulk_and_existing_ones_skipped() {
    let acme = Fixture::new();
    let id = environment(&acme, json!({"slug": "e", "name": "E"})).id();
    let grant = |user: &str, resource: &str| json!({"userId": user, "resourceType": "environment", "resourceId": resource});
    let bulk =
        |grants: Vec<Value>| acme.admin.post("/access-grants/bulk", json!({"grants": grants}));
    let (ada, ben) = (grant(&acme.owner_id, &id), grant(&acme.member_id, &id));
    let made = bulk(vec![ada.clone(), ben.clone(), ada.clone()]).ok();
    assert_eq!((made["created"].as_array().unwrap().len(), &made["skipped"]), (2, &json!(1)));
    let made = bulk(vec![ada.clone(), ben.clone()]).ok();
    assert_eq!(made, json!({"created": [], "skipped": 2}));

    let count = |query: &str| acme.member.get(&format!("/access-grants?{query}")).items().len();
    assert_eq!(count(""), 2);
    assert_eq!(count(&format!("userId={}", acme.member_id)), 1);
    assert_eq!(count(&format!("resourceType=environment&resourceId={id}")), 2);
    assert_eq!(count("resourceType=fleet"), 0);
    // With one unknown id, no grant is created.
    let outsider = Fixture::new();
    let theirs = outsider.owner.post("/environments", json!({"slug": "e", "name": "E"})).id();
    let (_, new) = acme.person("new", Role::Member);
    for wrong in [
        grant(&unknown_id(), &id),
        grant(&outsider.owner_id, &id),
        grant(&acme.owner_id, &unknown_id()),
        grant(&acme.owner_id, &theirs),
        grant("x", &id),
    ] {
        bulk(vec![grant(&new, &id), wrong]).refused(404, "not_found");
    }
    assert_eq!(count(""), 2);
    bulk(vec![]).invalid(&["grants"]);
    bulk(vec![json!({}); 1001]).refused(400, "invalid_request");
    acme.member
        .post("/access-grants/bulk", json!({"grants": [ada]}))
        .refused(403, "admin_required");
}
