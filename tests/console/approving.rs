//! Who approves a deployment reads what changes as who deploys it does: value by value, tools by name.

use serde_json::json;

use crate::server::Running;
use crate::visitor::Page;

/// What both pages show of the plan.
#[track_caller]
fn is_read_value_by_value(page: &Page) {
    page.shows("toolRefs.search").shows("tools.search");
    page.shows("providerConfig.stop[0]").shows("providerConfig.stop[1]");
    page.shows("delivery.endpoint").shows("https://runtime.test");
    let words = page.words();
    for raw in ["{ \"", "[ \"", "\"toolId\"", "credentialSetAt\":"] {
        assert!(!words.contains(raw), "{raw} in {words}");
    }
}

#[test]
fn what_a_plan_changes_is_a_line_for_each_value_in_the_preview_and_for_who_approves() {
    let server = Running::new();
    let api = server.ada();
    let me = api.get("/auth/session").ok()["user"]["id"].clone();
    server.deployable(&["scribe"], json!({"approverIds": [me]}));
    let tool = json!({"name": "search", "type": "http", "description": "Looks things up."});
    let tool = api.post("/tools", tool).id();
    let draft = json!({"toolRefs": [{"toolId": tool}], "providerConfig": {"stop": ["a", "b"]}});
    api.patch("/agents/scribe", json!({"draft": draft})).ok();
    let environment = api.get("/environments").items()[0]["id"].as_str().unwrap().to_string();
    let credential = json!({"apiKey": "key", "endpoint": "https://runtime.test/push"});
    api.put(&format!("/environments/{environment}/provider-credentials/p"), credential).ok();
    let ada = server.signed_in("ada@acme.test");
    let deploy = "/o/acme/deployments/new";
    let form = ada.get(&format!("{deploy}?agent=scribe"));
    let preview = ada.send(&form, deploy, &[("action", "preview")]);
    assert_eq!(preview.status, 200, "{}", preview.words());
    is_read_value_by_value(&preview);
    let job = ada.submit(&preview, deploy, &[("action", "deploy")]);
    job.shows("This waits for your decision");
    is_read_value_by_value(&job);
}
