//! Decisions of approvers and admins: what was asked for is denied or cancelled on its page, and stays as
//! it was; a key that nobody answers for is taken over.

use serde_json::{Value, json};

use crate::server::Running;
use crate::visitor::press;

/// A server whose environment and label are asked for before they change: Ada decides.
fn server() -> Running {
    let server = Running::new();
    let me = server.ada().get("/auth/session").ok()["user"]["id"].clone();
    server.deployable(&["scribe"], json!({"approverIds": [me]}));
    let protection = json!({"minRole": "member", "approvals": {"approverIds": [me]}});
    server.ada().put("/registries/main/protected-labels/production", protection).ok();
    server
}

#[test]
fn a_deployment_is_denied_another_cancelled_and_a_third_approved() {
    let server = server();
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    for (action, said, state, live) in [
        ("deny", "The deployment was denied.", "denied", false),
        ("cancel", "The job was cancelled.", "cancelled", false),
        ("approve", "Your approval is recorded.", "complete", true),
    ] {
        let job = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
            "environment": "production", "provider": "p"});
        let job = api.post("/agents/deployments", job).id();
        let page = ada.get(&format!("/o/acme/deployments/jobs/{job}"));
        page.shows("This waits for your decision");
        press(&ada, &page, ("action", action), &[("comment", "As agreed.")]).shows(said);
        let path = format!("/agents/deployments/{job}");
        crate::client::eventually(state, || (api.get(&path).ok()["state"] == state).then_some(()));
        let places = api.get("/agents/scribe/environments").items();
        assert_eq!(places.iter().any(|place| place["live"] != Value::Null), live, "{action}");
    }
}

#[test]
fn a_viewer_who_is_asked_reads_why_she_cannot_decide_and_can_as_a_member() {
    let server = Running::new();
    server.add("vera", "viewer");
    let api = server.ada();
    let members = api.get("/organizations/members").items();
    let found = members.iter().find(|member| member["email"] == "vera@acme.test").unwrap();
    let id = found["userId"].as_str().unwrap();
    let member = format!("/organizations/members/{id}");
    api.patch(&member, json!({"emailVerified": true})).ok();
    server.deployable(&["scribe"], json!({"approverIds": [id]}));
    let protection = json!({"minRole": "member", "approvals": {"approverIds": [id]}});
    api.put("/registries/main/protected-labels/production", protection).ok();
    let job = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    let job = api.post("/agents/deployments", job).id();
    let label = json!({"registryRef": "main", "promptName": "notes", "label": "production",
        "version": "1.0.0"});
    let moved = api.patch("/registries/artifacts/labels", label).ok();
    let change = moved["pendingChange"]["id"].as_str().unwrap();
    let vera = server.signed_in("vera@acme.test");
    let pages =
        [format!("/o/acme/deployments/jobs/{job}"), format!("/o/acme/label-changes/{change}")];
    let own = format!("/o/acme/settings/members/{id}");
    for path in &pages {
        let page = vera.get(path);
        page.shows("You cannot decide yet").shows("you are a viewer");
        page.hides("This waits for your decision");
        assert!(page.links().contains(&own), "{path}: {:?}", page.links());
    }
    assert_eq!(vera.get(&own).status, 200);
    let today = vera.get("/o/acme");
    today.hides("Waits for your approval").hides("wait for your approval");
    let asked = api.get(&format!("/agents/deployments/{job}/approvals")).items().remove(0);
    assert_eq!(
        (&asked["decision"], &asked["user"]["canDecide"]),
        (&json!("pending"), &json!(false))
    );
    api.patch(&member, json!({"role": "member"})).ok();
    for path in &pages {
        vera.get(path).shows("This waits for your decision").hides("You cannot decide yet");
    }
}

#[test]
fn a_move_of_a_label_is_denied_and_another_cancelled() {
    let server = server();
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    for (action, said, state) in [
        ("deny", "The change was denied.", "denied"),
        ("cancel", "The change was cancelled.", "cancelled"),
    ] {
        let path = "/o/acme/prompts/main/notes/labels?label=production&version=1.0.0";
        let change = press(&ada, &ada.get(path), ("action", "move"), &[]);
        change.shows("Waits for approval");
        press(&ada, &change, ("action", action), &[("comment", "Not yet.")]).shows(said);
        let id = change.path.rsplit('/').next().unwrap();
        let stored = api.get(&format!("/registries/artifacts/label-changes/{id}")).ok();
        assert_eq!(stored["state"], state);
        let prompts = api.get("/registries/artifacts?registryRef=main").items();
        assert_eq!(prompts[0]["labels"]["production"], Value::Null);
    }
}

#[test]
fn a_key_whose_maker_has_left_is_refused_until_an_admin_takes_it_over() {
    let server = Running::new();
    server.add("grace", "admin");
    let (ada, api) = (server.signed_in("ada@acme.test"), server.ada());
    let grace = server.api("grace@acme.test");
    let account = json!({"name": "Release"});
    let account = grace.post("/organizations/service-accounts", account).id();
    let key = json!({"name": "CI", "serviceAccountId": account});
    let key = grace.post("/api-keys", key).ok();
    let with_key = server.anonymous().with_key(key["key"].as_str().unwrap());
    let status = || with_key.get("/registries?limit=1").status;
    assert_eq!(status(), 200);
    let members = api.get("/organizations/members").items();
    let found = members.iter().find(|member| member["email"] == "grace@acme.test").unwrap();
    let left = found["userId"].as_str().unwrap();
    api.delete(&format!("/organizations/members/{left}")).ok();
    assert_ne!(status(), 200);
    let list = ada.get("/o/acme/settings/keys");
    let path = list.links().into_iter().find(|link| link.ends_with("/take-over")).unwrap();
    ada.submit(&ada.get(&path), &path, &[]).shows("You answer for the key now.");
    assert_eq!(status(), 200);
}

#[test]
fn forms_name_the_approvers_who_cannot_approve_beside_those_who_can() {
    let server = Running::new();
    server.add("ben", "member");
    let api = server.ada();
    let members = api.get("/organizations/members").items();
    let ids: Vec<_> = members.iter().map(|member| member["userId"].clone()).collect();
    assert_eq!(ids.len(), 2);
    server.deployable(&["scribe"], json!({"approverIds": ids, "minApprovals": 1}));
    let protection = json!({"minRole": "member", "approvals": {"approverIds": ids,
        "minApprovals": 1}});
    api.put("/registries/main/protected-labels/production", protection).ok();
    let environment = api.get("/environments").items()[0]["id"].as_str().unwrap().to_string();
    let ada = server.signed_in("ada@acme.test");
    let forms = [
        format!("/o/acme/environments/{environment}/edit"),
        "/o/acme/registries/main/labels/production".to_string(),
    ];
    for form in &forms {
        let page = ada.get(form);
        page.shows("Not all can: ")
            .shows("(cannot approve yet: nobody vouches")
            .hides("of them can");
    }
    let ben = members.iter().find(|member| member["email"] == "ben@acme.test").unwrap();
    let ben = format!("/organizations/members/{}", ben["userId"].as_str().unwrap());
    api.patch(&ben, json!({"emailVerified": true})).ok();
    for form in &forms {
        ada.get(form).hides("Not all can");
    }
}
