//! Service accounts: members without a password, with API keys that admins create
//! (reference: identity-and-rights, "Service accounts").

use roadstead::auth::{Role, Tokens, User};
use roadstead::base::Id;
use roadstead::store::Tx;
use serde_json::{Value, json};

use crate::client::{Caller, pick};
use crate::deployments;
use crate::fixture::{Fixture, unknown_id};

const ALL: &str = "/organizations/service-accounts";

/// Creates a service account as the admin; returns its id.
fn account(acme: &Fixture, body: Value) -> String {
    acme.admin.post(ALL, body).id()
}

fn new_key(session: &Caller, account: &str, more: Value) -> crate::client::Reply {
    let mut body = json!({"name": "pipeline", "serviceAccountId": account});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    session.post("/api-keys", body)
}

/// A key of a service account, created by the admin.
fn key_of_account(acme: &Fixture, account: &str) -> Caller {
    let made = new_key(&acme.admin, account, json!({})).ok();
    acme.admin.with_key(made["key"].as_str().unwrap())
}

#[test]
fn an_admin_creates_changes_and_deletes_one() {
    let acme = Fixture::new();
    let made = acme.admin.post(ALL, json!({"name": "Release"})).ok();
    assert_eq!(pick(&made, "name role"), json!(["Release", "member"]));
    let one = format!("{ALL}/{}", made["id"].as_str().unwrap());
    assert_eq!(acme.admin.get(&one).ok(), made);
    let other = acme.owner.post(ALL, json!({"name": "Nightly", "role": "admin"})).ok();
    assert_eq!(acme.admin.get(ALL).items(), [other, made]);
    let patched = acme.admin.patch(&one, json!({"name": "Deploy", "role": "admin"})).ok();
    assert_eq!(pick(&patched, "name role"), json!(["Deploy", "admin"]));
    acme.admin.post(ALL, json!({"name": "x", "role": "owner"})).invalid(&["role"]);
    acme.owner.patch(&one, json!({"role": "owner"})).invalid(&["role"]);
    acme.admin.delete(&one).ok();
    acme.admin.delete(&one).refused(404, "not_found");
    acme.admin.get(&one).refused(404, "not_found");
    assert_eq!(acme.admin.get(ALL).items().len(), 1);
}

#[test]
fn it_is_a_member_that_is_marked_and_a_person_is_none() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    let members = acme.member.get("/organizations/members").items();
    let kinds: Vec<_> = members.iter().map(|one| pick(one, "name kind emailVerified")).collect();
    assert_eq!(kinds[0], json!(["Release", "service", false]));
    assert!(kinds[1..].iter().all(|one| one[1] == "person"), "{kinds:?}");
    let member = format!("/organizations/members/{id}");
    acme.owner.patch(&member, json!({"role": "owner"})).invalid(&["role"]);
    acme.owner.patch(&member, json!({"emailVerified": true})).invalid(&["emailVerified"]);
    acme.owner.patch(&member, json!({"role": "admin"})).ok();
    assert_eq!(acme.admin.get(&format!("{ALL}/{id}")).ok()["role"], "admin");

    acme.admin.get(&format!("{ALL}/{}", acme.member_id)).refused(404, "not_found");
    acme.admin.delete(&format!("{ALL}/{}", acme.member_id)).refused(404, "not_found");
    let stranger = Fixture::new();
    stranger.owner.get(&format!("{ALL}/{id}")).refused(404, "not_found");
    stranger.owner.delete(&format!("{ALL}/{id}")).refused(404, "not_found");
    // Removing the member deletes it.
    acme.admin.delete(&member).ok();
    acme.admin.get(&format!("{ALL}/{id}")).refused(404, "not_found");
}

#[test]
fn its_keys_act_as_it_with_its_role_until_it_is_deleted() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    let made =
        new_key(&acme.admin, &id, json!({"access": ["tool:write", "environment:write"]})).ok();
    assert_eq!(made["serviceAccountId"], json!(id));
    assert_ne!(made["createdBy"], json!(id));
    let key = acme.admin.with_key(made["key"].as_str().unwrap());
    let tool = key.post("/tools", json!({"name": "t", "type": "function"})).ok();
    assert_eq!(tool["createdBy"], json!(id));
    let environment = json!({"slug": "staging", "name": "S"});
    key.post("/environments", environment.clone()).refused(403, "admin_required");
    acme.admin.patch(&format!("{ALL}/{id}"), json!({"role": "admin"})).ok();
    key.post("/environments", environment).ok();
    key.get("/tools").refused(403, "scope_missing");
    let entries = acme.audited();
    let entry = entries.iter().find(|entry| entry.action == "tool.create").unwrap();
    assert_eq!((entry.actor_name.as_str(), entry.via.as_deref()), ("Release", Some("pipeline")));

    acme.admin.delete(&format!("{ALL}/{id}")).ok();
    key.post("/tools", json!({"name": "t", "type": "function"})).refused(401, "unauthenticated");
    assert!(!acme.owner.get("/api-keys").text().contains("pipeline"));
}

#[test]
fn only_admins_see_create_and_revoke_its_keys() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    new_key(&acme.member, &id, json!({})).refused(403, "admin_required");
    for unknown in [&unknown_id(), &acme.member_id, "release"] {
        let problem = new_key(&acme.admin, unknown, json!({})).refused(404, "not_found");
        assert_eq!(problem["path"], "serviceAccountId");
    }
    let made = new_key(&acme.admin, &id, json!({})).id();
    assert!(acme.member.get("/api-keys").items().is_empty());
    acme.member.delete(&format!("/api-keys/{made}")).refused(404, "not_found");
    let listed = acme.owner.get("/api-keys").items();
    assert_eq!(pick(&listed[0], "serviceAccountId access"), json!([id, "full"]));
    assert_eq!(listed[1]["serviceAccountId"], Value::Null);
    acme.owner.delete(&format!("/api-keys/{made}")).ok();
}

/// An admin named `name`, and a key of the service account that they make.
fn sponsored(acme: &Fixture, name: &str, account: &str) -> (String, Value, Caller) {
    let (admin, id) = acme.person(name, Role::Admin);
    let made = new_key(&admin, account, json!({"allowApproveAs": true})).ok();
    let key = acme.anonymous.with_key(made["key"].as_str().unwrap());
    (id, made, key)
}

#[test]
fn a_key_is_refused_once_its_maker_has_left_until_an_admin_takes_it_over() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release", "role": "admin"}));
    let (eve_id, made, key) = sponsored(&acme, "eve-gone", &id);
    assert_eq!(made["createdByRole"], "admin");
    key.post("/environments", json!({"slug": "one", "name": "E"})).ok();
    let member = format!("/organizations/members/{eve_id}");
    let removed = acme.owner.delete(&member).ok();
    assert_eq!(pick(&removed, "id deleted"), json!([eve_id, true]));
    let left = removed["serviceAccountKeys"].as_array().unwrap();
    assert_eq!(left.len(), 1);
    let shown = pick(&left[0], "id name serviceAccountId createdByRole");
    assert_eq!(shown, json!([made["id"], "pipeline", id, null]));
    key.get("/tools").refused(401, "unauthenticated");
    key.get("/whoami").refused(401, "unauthenticated");
    let explain = |action: &str| {
        let key = made["id"].as_str().unwrap();
        acme.admin.get(&format!("/access/explain?keyId={key}&action={action}")).ok()
    };
    assert_eq!(pick(&explain("tool.list"), "allowed userId"), json!([false, id]));
    assert_eq!(explain("tool.list")["rules"][0]["code"], "unauthenticated");

    let listed = acme.admin.get(&format!("/api-keys?createdBy={eve_id}")).items();
    assert_eq!(pick(&listed[0], "id createdByRole"), json!([made["id"], null]));
    let take_over = format!("/api-keys/{}/take-over", made["id"].as_str().unwrap());
    acme.member.post(&take_over, json!({})).refused(403, "admin_required");
    acme.key.post(&take_over, json!({})).refused(401, "session_required");
    Fixture::new().owner.post(&take_over, json!({})).refused(404, "not_found");
    let taken = acme.admin.post(&take_over, json!({})).ok();
    assert_eq!(pick(&taken, "id createdByRole"), json!([made["id"], "admin"]));
    assert_ne!(taken["createdBy"], json!(eve_id));
    assert!(taken.get("key").is_none());
    key.post("/environments", json!({"slug": "two", "name": "E"})).ok();
    assert_eq!(explain("tool.list")["allowed"], true);
    assert!(acme.admin.get(&format!("/api-keys?createdBy={eve_id}")).items().is_empty());
    let entries = acme.audited();
    assert!(entries.iter().any(|entry| entry.action == "api_key.take_over"));
}

#[test]
fn a_key_is_refused_whose_maker_had_not_proved_the_address_until_it_is_taken_over() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    let (eve, eve_id) = acme.person("eve-proof", Role::Admin);
    let made = new_key(&eve, &id, json!({})).ok();
    let key = acme.anonymous.with_key(made["key"].as_str().unwrap());
    key.get("/tools").ok();
    let user = Id::<User>::parse(&eve_id);
    let prove = move |tx: &mut Tx| {
        let (user, now) = (tx.fetch::<User>(&user)?, tx.now());
        tx.replace(&user, &User { keys_from: Some(now), ..user.clone() })
    };
    acme.store.write_blocking(Id::NIL, prove).unwrap();
    key.get("/tools").refused(401, "unauthenticated");
    let listed = acme.admin.get(&format!("/api-keys?createdBy={eve_id}")).items();
    assert_eq!(listed[0]["createdByRole"], Value::Null);
    // Whoever has proved it may be the one who takes it over.
    std::thread::sleep(std::time::Duration::from_millis(5));
    eve.post(&format!("/api-keys/{}/take-over", made["id"].as_str().unwrap()), json!({})).ok();
    key.get("/tools").ok();
}

#[test]
fn a_key_has_no_admins_rights_once_its_maker_is_no_admin() {
    let acme = deployments::acme(&["ann"]);
    let approvals = json!({"approverIds": [acme.member_id]});
    acme.admin
        .post("/environments", json!({"slug": "prod", "name": "P", "approvals": approvals}))
        .ok();
    let id = account(&acme, json!({"name": "Release", "role": "admin"}));
    let (eve_id, made, key) = sponsored(&acme, "eve-low", &id);
    let new = deployments::body(&["ann"], json!({"environment": "prod"}));
    let job = key.post("/agents/deployments", new).ok();
    let member = format!("/organizations/members/{eve_id}");
    let patched = acme.owner.patch(&member, json!({"role": "member"})).ok();
    assert_eq!(pick(&patched, "userId role"), json!([eve_id, "member"]));
    let lost = pick(&patched["serviceAccountKeys"][0], "id createdByRole");
    assert_eq!(lost, json!([made["id"], "member"]));

    key.get("/tools").ok();
    assert_eq!(key.get("/whoami").ok()["memberships"][0]["role"], "member");
    key.post("/environments", json!({"slug": "x", "name": "E"})).refused(403, "admin_required");
    let named = json!({"actingUserEmail": acme.owner.get("/organizations/members").items()
        .iter().find(|one| one["userId"] == json!(acme.member_id)).unwrap()["email"]});
    let approve = deployments::path(&job, "/approve");
    key.post(&approve, named.clone()).refused(403, "approve_as_required");
    // Nothing is lost by a change that takes no right away.
    let again = acme.owner.patch(&member, json!({"role": "member"})).ok();
    assert_eq!(again["serviceAccountKeys"], json!([]));
    let promoted = acme.owner.patch(&member, json!({"role": "admin"})).ok();
    assert_eq!(promoted["serviceAccountKeys"], json!([]));
    assert_eq!(key.post(&approve, named).ok()["state"], "approved");
}

#[test]
fn a_grant_counts_only_with_one_of_the_maker_who_is_no_admin() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    let (eve_id, _, key) = sponsored(&acme, "eve-grant", &id);
    let new = json!({"slug": "prod", "name": "P", "access": "restricted"});
    let environment = acme.admin.post("/environments", new).id();
    let grant = |user: &str| {
        let body =
            json!({"userId": user, "resourceType": "environment", "resourceId": environment});
        acme.admin.post("/access-grants", body).ok();
    };
    grant(&id);
    let path = format!("/environments/{environment}");
    key.get(&path).ok();
    let member = format!("/organizations/members/{eve_id}");
    acme.owner.patch(&member, json!({"role": "member"})).ok();
    key.get(&path).refused(403, "grant_required");
    assert!(key.get("/environments").items().is_empty());
    grant(&eve_id);
    key.get(&path).ok();
    assert_eq!(key.get("/environments").items().len(), 1);
}

#[test]
fn the_audit_log_names_the_person_behind_a_key() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    let (eve_id, made, key) = sponsored(&acme, "eve-log", &id);
    key.post("/tools", json!({"name": "t", "type": "function"})).ok();
    acme.key.post("/tools", json!({"name": "u", "type": "function"})).ok();
    let entries = acme.admin.get(&format!("/audit-logs?actor={eve_id}&action=tool.create")).items();
    assert_eq!(entries.len(), 1);
    let actor = &entries[0]["actor"];
    assert_eq!(pick(actor, "type id name"), json!(["key", made["id"], "Release"]));
    assert_eq!(pick(&actor["person"], "id name"), json!([eve_id, "eve-log"]));
    let own = acme.admin.get("/audit-logs?action=tool.create").items();
    assert_eq!(own[0]["actor"]["person"], Value::Null);
}

#[test]
fn a_persons_own_key_is_not_taken_over() {
    let acme = Fixture::new();
    let key = acme.member.post("/api-keys", json!({"name": "own"})).id();
    let take_over = format!("/api-keys/{key}/take-over");
    acme.admin.post(&take_over, json!({})).refused(409, "not_a_service_account_key");
}

#[test]
fn it_uses_what_is_restricted_with_a_grant() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    let key = key_of_account(&acme, &id);
    let new = json!({"slug": "prod", "name": "P", "access": "restricted"});
    let environment = acme.admin.post("/environments", new).id();
    let path = format!("/environments/{environment}");
    key.get(&path).refused(403, "grant_required");
    let grant = json!({"userId": id, "resourceType": "environment", "resourceId": environment});
    acme.admin.post("/access-grants", grant).ok();
    key.get(&path).ok();
    acme.admin.delete(&format!("{ALL}/{id}")).ok();
    assert!(acme.admin.get("/access-grants").items().is_empty());
}

#[test]
fn it_never_signs_in_and_is_never_invited() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    let members = acme.owner.get("/organizations/members").items();
    let email = members[0]["email"].as_str().unwrap().to_string();
    assert!(email.ends_with(".invalid"), "{email}");
    let sign_in = json!({"email": email, "password": "correct horse battery"});
    let somewhere = acme.anonymous.with_fields(&[("X-Forwarded-For", "203.0.113.77")]);
    somewhere.ask("POST", "/auth/sign-in").json(&sign_in).send().refused(401, "unauthenticated");
    // Even a session that there should not be is not valid.
    let session = acme.store.write_blocking(Id::NIL, {
        let user = Id::parse(&id);
        move |tx| {
            let (id, created_at) = (tx.new_id(), tx.now());
            let expires_at = created_at.plus_secs(3600);
            let generation = 0;
            let session = roadstead::auth::Session { id, user, generation, created_at, expires_at };
            tx.insert(&session)?;
            Ok(session)
        }
    });
    let token = Tokens::new(acme.store.keys()).issue(&session.unwrap()).unwrap();
    acme.anonymous.with_bearer(&token).get("/tools").refused(401, "unauthenticated");

    let stranger = Fixture::new();
    let invited = json!({"email": email, "role": "member"});
    stranger.owner.post("/organizations/members", invited).invalid(&["email"]);
}

#[test]
fn it_is_no_approver() {
    let acme = deployments::acme(&["ann"]);
    let id = account(&acme, json!({"name": "Release", "role": "admin"}));
    let approvals =
        |ids: Value| json!({"slug": "prod", "name": "P", "approvals": {"approverIds": ids}});
    let problem = acme.admin.post("/environments", approvals(json!([acme.member_id, id])));
    problem.invalid(&["approvals.approverIds[1]"]);
    acme.admin.post("/environments", approvals(json!([acme.member_id]))).ok();
    let key = key_of_account(&acme, &id);
    let new = deployments::body(&["ann"], json!({"environment": "prod"}));
    let job = key.post("/agents/deployments", new).ok();
    assert_eq!(pick(&job, "state createdBy"), json!(["pending_approval", id]));
    let approve = deployments::path(&job, "/approve");
    key.post(&approve, json!({})).refused(403, "approver_required");
    acme.member.post(&approve, json!({})).ok();
}

#[test]
fn a_members_session_and_every_key_are_refused() {
    let acme = Fixture::new();
    let key = key_of_account(&acme, &account(&acme, json!({"name": "Release", "role": "admin"})));
    acme.member.get(ALL).refused(403, "admin_required");
    acme.member.post(ALL, json!({"name": "x"})).refused(403, "admin_required");
    for key in [&key, &acme.key] {
        key.get(ALL).refused(401, "session_required");
        key.post(ALL, json!({"name": "x"})).refused(401, "session_required");
        key.post("/api-keys", json!({"name": "x"})).refused(401, "session_required");
    }
}

#[test]
fn it_gets_no_link_for_a_password() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    let link = format!("/organizations/members/{id}/password-reset");
    acme.admin.post(&link, json!({})).refused(409, "service_account_password");
}
