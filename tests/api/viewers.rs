//! Viewers: who reads what members read, and changes nothing but their own account
//! (reference: identity-and-rights, "Viewers").

use roadstead::api::Method;
use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::{Caller, pick};
use crate::deployments::{acme, body, path};
use crate::fixture::{Fixture, key_of};
use crate::routes::all_routes;

/// Gives somebody a role.
#[track_caller]
fn make(acme: &Fixture, user: &str, role: &str) {
    acme.owner.patch(&format!("/organizations/members/{user}"), json!({"role": role})).ok();
}

/// A member with a key that has full access, who is a viewer since: session, key and id.
fn demoted(acme: &Fixture, name: &str) -> (Caller, Caller, String) {
    let (session, id) = acme.person(name, Role::Member);
    let key = key_of(&session);
    make(acme, &id, "viewer");
    (session, key, id)
}

fn tool() -> Value {
    json!({"name": "t", "type": "function"})
}

#[test]
fn what_viewers_may_call_is_a_get_or_on_this_list() {
    let mut open: Vec<_> = all_routes()
        .into_iter()
        .filter(|route| route.policy.role == Some(Role::Member) && route.is_for_viewers())
        .filter(|route| route.method != Method::Get)
        .map(|route| format!("{} {}", route.method.as_str(), route.path))
        .collect();
    open.sort();
    let expected = [
        // Their own keys, and leaving.
        "DELETE /api-keys/{keyId}",
        "DELETE /organizations/members/{userId}",
        // What changes nothing, and takes a body.
        "POST /agents/deployments/preview",
        "POST /api-keys",
        "POST /api-keys/{keyId}/rotate",
        "POST /governance/check",
        "POST /prompts/{promptName}/compile",
        "POST /prompts/{promptName}/preview",
        "POST /prompts/{promptName}/render",
    ];
    assert_eq!(open, expected);
    let leased = all_routes().into_iter().find(|route| route.name == "wake.take").unwrap();
    assert!(leased.method == Method::Get && !leased.is_for_viewers(), "it leases what it returns");
}

#[test]
fn a_grant_of_a_viewer_is_for_reading() {
    let acme = Fixture::new();
    let vault = json!({"slug": "vault", "name": "Vault", "access": "restricted"});
    let vault = acme.owner.post("/environments", vault).id();
    let registry = json!({"slug": "main", "name": "Main", "access": "restricted"});
    let registry = acme.owner.post("/registries", registry).id();
    let (given_as_viewer, id) = acme.person("vera", Role::Viewer);
    let (given_as_member, earlier) = acme.person("victor", Role::Member);
    given_as_viewer.get(&format!("/environments/{vault}")).refused(403, "grant_required");
    for user in [&id, &earlier] {
        for (kind, of) in [("environment", &vault), ("registry", &registry)] {
            let grant = json!({"userId": user, "resourceType": kind, "resourceId": of});
            acme.owner.post("/access-grants", grant).ok();
        }
    }
    let version = |name: &str| {
        json!({"registryRef": "main", "artifactType": "prompt", "name": name, "version": "1.0.0",
            "source": "Hello."})
    };
    given_as_member.post("/registries/artifacts", version("first")).ok();
    make(&acme, &earlier, "viewer");
    for viewer in [&given_as_viewer, &given_as_member] {
        assert_eq!(viewer.get(&format!("/environments/{vault}")).ok()["slug"], "vault");
        assert_eq!(viewer.get("/registries/artifacts?registryRef=main").items().len(), 1);
        let refused = viewer.post("/registries/artifacts", version("second"));
        refused.refused(403, "member_required");
        let rendered = json!({"registryRef": "main", "version": "1.0.0"});
        assert_eq!(viewer.post("/prompts/first/render", rendered).ok()["text"], "Hello.");
    }
    // The grant counts as before once they are a member again.
    make(&acme, &earlier, "member");
    given_as_member.post("/registries/artifacts", version("second")).ok();
}

#[test]
fn a_key_only_reads_while_its_user_is_a_viewer() {
    let acme = Fixture::new();
    let (session, id) = acme.person("vera", Role::Member);
    let key = key_of(&session);
    let made = json!({"name": "k", "access": ["tool:write", "tool:read"]});
    let made = session.post("/api-keys", made).ok();
    let scoped = session.with_key(made["key"].as_str().unwrap());
    key.post("/tools", tool()).ok();
    make(&acme, &id, "viewer");
    for caller in [&session, &key, &scoped] {
        caller.get("/tools").ok();
        caller.post("/tools", tool()).refused(403, "member_required");
    }
    key.post("/environments", json!({"slug": "e", "name": "E"})).refused(403, "admin_required");
    assert_eq!(key.get("/whoami").ok()["memberships"][0]["role"], "viewer");
    make(&acme, &id, "member");
    scoped.post("/tools", tool()).ok();
}

#[test]
fn a_service_accounts_key_only_reads_while_who_answers_for_it_is_a_viewer() {
    let acme = Fixture::new();
    let account = acme.owner.post("/organizations/service-accounts", json!({"name": "ci"})).id();
    let (admin, id) = acme.person("dora", Role::Admin);
    let new = json!({"name": "k", "serviceAccountId": account});
    let made = admin.post("/api-keys", new.clone()).ok();
    let key = admin.with_key(made["key"].as_str().unwrap());
    make(&acme, &id, "member");
    key.post("/tools", tool()).ok();
    let answer = json!({"role": "viewer"});
    let changed = acme.owner.patch(&format!("/organizations/members/{id}"), answer).ok();
    assert_eq!(changed["serviceAccountKeys"][0]["id"], made["id"]);
    key.get("/tools").ok();
    key.post("/tools", tool()).refused(403, "member_required");
    // A service account can be a viewer itself, and then gets no other key either.
    let path = format!("/organizations/service-accounts/{account}");
    assert_eq!(acme.owner.patch(&path, json!({"role": "viewer"})).ok()["role"], "viewer");
    acme.owner.post("/api-keys", new.clone()).refused(403, "member_required");
    let mut reading = new;
    reading["access"] = json!(["tool:read"]);
    acme.owner.post("/api-keys", reading).ok();
}

#[test]
fn a_viewer_makes_no_key_that_does_more_than_read() {
    let acme = Fixture::new();
    let (vera, key, _) = demoted(&acme, "vera");
    for access in [json!(null), json!("full"), json!(["artifact:read", "label:move@main"])] {
        let refused = vera.post("/api-keys", json!({"name": "k", "access": access}));
        refused.refused(403, "member_required");
    }
    let old = vera.get("/api-keys").items();
    assert_eq!(old.len(), 1, "{old:?}");
    let old = old[0]["id"].as_str().unwrap();
    vera.post(&format!("/api-keys/{old}/rotate"), json!({})).refused(403, "member_required");
    key.get("/tools").ok();
    vera.delete(&format!("/api-keys/{old}")).ok();
    for access in [json!("read"), json!(["artifact:read@main", "policy:check"])] {
        let made = vera.post("/api-keys", json!({"name": "k", "access": access})).id();
        vera.post(&format!("/api-keys/{made}/rotate"), json!({})).ok();
    }
}

#[test]
fn what_is_ones_own_a_viewer_changes() {
    let acme = Fixture::new();
    let (vera, _, id) = demoted(&acme, "vera");
    vera.patch("/auth/user", json!({"name": "Vera"})).ok();
    vera.delete("/auth/sessions").ok();
    vera.delete(&format!("/organizations/members/{}", acme.member_id))
        .refused(403, "admin_required");
    vera.delete(&format!("/organizations/members/{id}")).ok();
    vera.get("/tools").refused(404, "organization_not_found");
}

#[test]
fn viewers_are_invited_and_made_but_not_of_the_last_owner() {
    let acme = Fixture::new();
    let email = format!("vera@{}.test", acme.slug);
    let invited = json!({"email": email, "role": "viewer"});
    let token = acme.admin.post("/organizations/members", invited).ok()["token"].clone();
    let accept = json!({"token": token, "name": "Vera", "password": "correct horse battery"});
    let address = ("X-Forwarded-For", &*crate::client::nostr::fresh_address());
    let session = acme.anonymous.with_fields(&[address]).post("/auth/invitations/accept", accept);
    let vera = acme.anonymous.with_bearer(session.ok()["token"].as_str().unwrap());
    let own = vera.get("/auth/session").ok();
    assert_eq!(own["memberships"][0]["role"], "viewer");
    let invites = json!({"email": "x@else.test", "role": "viewer"});
    vera.post("/organizations/members", invites).refused(403, "admin_required");
    let owner = format!("/organizations/members/{}", acme.owner_id);
    acme.owner.patch(&owner, json!({"role": "viewer"})).refused(409, "last_owner");
    acme.admin.patch(&owner, json!({"role": "viewer"})).refused(403, "owner_required");
    let (admin, id) = acme.person("dora", Role::Admin);
    admin.post("/organizations/members", json!({"email": "y@else.test", "role": "member"})).ok();
    make(&acme, &id, "viewer");
    // An invitation gives no more than its inviter could.
    assert!(!acme.owner.get("/organizations/invitations").text().contains("y@else.test"));
}

#[test]
fn a_viewer_approves_nothing() {
    let acme = acme(&["ann"]);
    let (vera, _, id) = demoted(&acme, "vera");
    let gated = json!({"slug": "gated", "name": "Gated",
        "approvals": {"approverIds": [id, acme.owner_id], "minApprovals": 1}});
    acme.owner.post("/environments", gated).ok();
    let job =
        acme.member.post("/agents/deployments", body(&["ann"], json!({"environment": "gated"})));
    let job = job.ok();
    let asked = vera.get(&path(&job, "/approvals")).items();
    let asked = asked.iter().find(|one| one["user"]["id"] == json!(id)).unwrap();
    assert_eq!(pick(&asked["user"], "emailVerified canDecide"), json!([true, false]));
    assert!(vera.get("/agents/deployments?approver=me").items().is_empty());
    vera.post(&path(&job, "/approve"), json!({})).refused(403, "member_required");
    let for_her = json!({"actingUserEmail": asked["user"]["email"]});
    acme.key.post(&path(&job, "/approve"), for_her.clone()).refused(403, "approver_required");
    make(&acme, &id, "member");
    let approved = acme.key.post(&path(&job, "/approve"), for_her).ok();
    assert_ne!(approved["state"], "pending_approval");
}

#[test]
fn what_a_member_deployed_is_not_applied_once_they_are_a_viewer() {
    let acme = acme(&["ann"]);
    let gated = json!({"slug": "gated", "name": "Gated",
        "approvals": {"approverIds": [acme.owner_id]}});
    acme.owner.post("/environments", gated).ok();
    let (vera, id) = acme.person("vera", Role::Member);
    let job =
        vera.post("/agents/deployments", body(&["ann"], json!({"environment": "gated"}))).ok();
    assert_eq!(acme.owner.get(&path(&job, "")).ok()["obstacle"], Value::Null);
    make(&acme, &id, "viewer");
    assert_ne!(acme.owner.get(&path(&job, "")).ok()["obstacle"], Value::Null);
    acme.owner.post(&path(&job, "/approve"), json!({})).refused(409, "deployment_outdated");
}

#[test]
fn why_may_she_says_that_a_viewer_reads() {
    let acme = Fixture::new();
    let vault = json!({"slug": "vault", "name": "Vault", "access": "restricted"});
    let vault = acme.owner.post("/environments", vault).id();
    let (_, id) = acme.person("vera", Role::Viewer);
    let grant = json!({"userId": id, "resourceType": "environment", "resourceId": vault});
    let grant = acme.owner.post("/access-grants", grant).id();
    let ask = |action: &str| {
        let query =
            format!("userId={id}&action={action}&resourceType=environment&resourceId={vault}");
        acme.owner.get(&format!("/access/explain?{query}")).ok()
    };
    let read = ask("environment.get");
    assert_eq!(pick(&read, "allowed role"), json!([true, "viewer"]));
    let reason = |rule: &Value| rule["reason"].as_str().unwrap().to_string();
    assert!(reason(&read["rules"][0]).contains("viewers may, too"), "{read}");
    assert!(reason(&read["rules"][1]).contains("a viewer's is for reading"), "{read}");
    assert_eq!(read["rules"][1]["grantId"], json!(grant));
    let written = ask("deployment.create");
    assert_eq!(written["allowed"], false);
    assert_eq!(
        pick(&written["rules"][0], "rule met code"),
        json!(["role", false, "member_required"])
    );
    // What is about no organization, everybody may.
    assert_eq!(ask("organization.create")["allowed"], true);
}
