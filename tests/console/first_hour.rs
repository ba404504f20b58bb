//! A server that is not set up yet, an organization until something is live in it, and pages that are not
//! there.

use serde_json::json;

use crate::client::raw;
use crate::server::{PASSWORD, Running};
use crate::visitor::Page;

#[test]
fn a_server_that_is_not_set_up_leads_to_the_page_that_sets_it_up() {
    let server = Running::bare_at("0.0.0.0:0");
    let request = "GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nConnection: close\r\n\r\n";
    let page = raw(server.address, request.as_bytes());
    assert_eq!(page.status, 503);
    let text = page.text();
    assert!(text.contains("Not set up yet") && text.contains("href=\"/setup\""), "{text}");
    assert!(!text.contains("href=\"/\""), "that page would say the same: {text}");
}

#[test]
fn every_page_of_a_server_that_is_not_set_up_leads_there_on_its_own_machine_too() {
    let server = Running::bare();
    let visitor = server.visitor();
    assert_eq!(visitor.get("/").location(), "/sign-in");
    for path in ["/sign-in", "/sign-in?return=%2Fo%2Facme"] {
        assert_eq!(visitor.get(path).location(), "/setup", "{path}");
    }
    let set_up = Running::new();
    set_up.visitor().get("/sign-in").shows("Sign in");
}

#[test]
fn a_setup_link_that_has_expired_is_refused_at_its_field_and_nothing_entered_is_lost() {
    let server = Running::bare();
    let old = server.setup_token();
    let new = server.setup_token();
    let visitor = server.visitor();
    let mut fields = [
        ("link", &*old),
        ("orgName", "Acme"),
        ("slug", "acme"),
        ("name", "Ada"),
        ("email", "ada@acme.test"),
        ("password", PASSWORD),
    ];
    let refused = visitor.send(&visitor.get("/setup"), "/setup", &fields);
    assert_eq!(refused.status, 401, "{}", refused.words());
    assert!(refused.has_problem("link"), "{}", refused.words());
    refused.shows("roadstead setup-link");
    for (field, value) in &fields[1..5] {
        assert_eq!(refused.field("/setup", field), *value);
    }
    fields[0].1 = &new;
    visitor.submit(&refused, "/setup", &fields).shows("Today").shows("Acme");
}

#[test]
fn a_page_that_is_not_there_leads_members_back_and_tells_others_nothing() {
    let server = Running::new();
    server.add("ben", "member");
    let globex = json!({"slug": "globex", "name": "Globex"});
    server.api("ben@acme.test").ask("POST", "/organizations").json(&globex).send().ok();
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    for path in ["/o/acme/nowhere", "/o/acme/agents/scribe/nowhere/at/all"] {
        let page = ada.get(path);
        assert_eq!(page.status, 404, "{path}");
        page.shows("There is no such page").hides("openapi");
        let links = page.links();
        for way in ["/o/acme", "/o/acme/agents", "/account"] {
            assert!(links.iter().any(|link| link == way), "{path}: no {way} in {links:?}");
        }
    }
    // One of two organizations: back to the one that was meant.
    assert!(ben.get("/o/globex/nowhere").text.contains("<a class=\"button\" href=\"/o/globex\">"));
    let plain = |page: Page| {
        assert_eq!(page.status, 404, "{}", page.path);
        let id = page.reply.header("x-request-id").unwrap().to_string();
        page.words().replace(&id, "ID")
    };
    assert_eq!(plain(ada.get("/o/globex/nowhere")), plain(ada.get("/o/never/nowhere")));
    assert!(!plain(ada.get("/o/globex/nowhere")).contains("Agents"));
    let visitor = server.visitor();
    assert_eq!(plain(visitor.get("/o/acme/nowhere")), plain(visitor.get("/o/never/nowhere")));
}

#[test]
fn a_deployment_that_waits_or_was_denied_does_not_end_the_first_steps() {
    let server = Running::new();
    let api = server.ada();
    let me = api.get("/auth/session").ok()["user"]["id"].clone();
    let ada = server.signed_in("ada@acme.test");
    let todo = || ada.get("/o/acme").words().matches("To do").count();
    assert_eq!(todo(), 7);
    server.deployable(&["scribe"], json!(null));
    assert_eq!(todo(), 3, "approvers, a key, and deploying");
    let environment = api.get("/environments").items()[0]["id"].as_str().unwrap().to_string();
    let edit = format!("/o/acme/environments/{environment}/edit");
    assert!(ada.get("/o/acme").links().contains(&edit), "who approves is chosen there");
    let approvals = json!({"approvals": {"approverIds": [me]}});
    api.patch(&format!("/environments/{environment}"), approvals).ok();
    assert_eq!(todo(), 2);
    let body = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    let job = api.post("/agents/deployments", body).id();
    let page = ada.get("/o/acme");
    page.shows("The first steps").shows("One was begun, and is not applied");
    assert_eq!(todo(), 2);
    api.post(&format!("/agents/deployments/{job}/deny"), json!({})).ok();
    assert_eq!(todo(), 2);
}
