//! Service accounts: members without a password, with API keys that admins create
//! (reference: identity-and-rights, "Service accounts").

use roadstead::auth::{Role, Tokens};
use roadstead::base::Id;
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

#[test]
fn its_keys_outlive_the_membership_of_the_admin_who_created_them() {
    let acme = Fixture::new();
    let id = account(&acme, json!({"name": "Release"}));
    let (grace, grace_id) = acme.person("grace-2", Role::Admin);
    let key = new_key(&grace, &id, json!({})).ok();
    let key = acme.anonymous.with_key(key["key"].as_str().unwrap());
    acme.owner.delete(&format!("/organizations/members/{grace_id}")).ok();
    key.get("/tools").ok();
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

    // An invitation of its address is one of somebody new.
    let stranger = Fixture::new();
    let invited = json!({"email": email, "role": "member"});
    let token = stranger.owner.post("/organizations/members", invited).ok()["token"].clone();
    let accept = json!({"token": token, "name": "Eve", "password": "correct horse battery"});
    let session = somewhere.ask("POST", "/auth/invitations/accept").json(&accept).send().ok();
    assert_ne!(session["user"]["id"], json!(id));
    let eve = stranger.owner.with_bearer(session["token"].as_str().unwrap());
    eve.about(&acme.slug).get("/tools").refused(404, "organization_not_found");
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
