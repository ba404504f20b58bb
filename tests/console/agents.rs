//! Agents, their versions and fleets, and deploying to them.

use serde_json::{Value, json};

use crate::client::eventually;
use crate::server::Running;

const DEPLOY: &str = "/o/acme/deployments/new";

#[test]
fn an_agent_is_made_drafted_versioned_compared_and_put_back() {
    let server = Running::new();
    let api = server.ada();
    api.post("/tools", json!({"name": "search", "type": "http"})).ok();
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme/agents").shows("There are no agents yet.");
    let new = "/o/acme/new/agent";
    let fields = [("name", "Scribe"), ("stableKey", "scribe")];
    let edit = "/o/acme/agents/scribe/edit";
    let form = ada.submit(&ada.get(new), new, &fields);
    form.shows("The agent was created.");
    let fields = [("draft.model", "small"), ("draft.variables", "{\"TONE\": calm}")];
    let refused = ada.send(&form, edit, &fields);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("draft.variables"));
    assert_eq!(refused.field(edit, "draft.model"), "small", "kept");
    let fields = [("draft.variables", "{\"TONE\": \"calm\"}"), ("draft.promptName", "notes")];
    let page = ada.submit(&refused, edit, &fields);
    page.shows("The draft was saved.").shows("small");
    let draft = api.get("/agents/scribe").ok()["draft"].clone();
    assert_eq!(draft["variables"], json!({"TONE": "calm"}));
    assert_eq!(draft["toolRefs"].as_array().unwrap().len(), 1, "its box is ticked by the test");

    let versions = "/o/acme/agents/scribe/versions";
    let make = [("action", "make")];
    ada.submit(&page, versions, &make).shows("Version 1");
    ada.submit(&ada.get(edit), edit, &[("draft.model", "large")]);
    let second = [("action", "make"), ("message", "A larger model.")];
    ada.submit(&ada.get(versions), versions, &second).shows("Version 2").shows("A larger model.");
    ada.get("/o/acme/agents/scribe/versions/2").shows("A larger model.");
    let long = "x".repeat(501);
    let refused = ada.send(&ada.get(versions), versions, &[("action", "make"), ("message", &long)]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("message"));
    let compared = ada.get("/o/acme/agents/scribe/compare");
    compared
        .shows("A larger model.")
        .shows("model")
        .shows("small")
        .shows("large")
        .hides("promptName");
    ada.get("/o/acme/agents/scribe/compare?from=2&to=9").shows("There is no such version.");
    let first = ada.get("/o/acme/agents/scribe/versions/1");
    first.shows("calm");
    ada.submit(&first, versions, &[("action", "restore")]).shows("The draft is as that version");
    assert_eq!(api.get("/agents/scribe").ok()["draft"]["model"], "small");
    let delete = "/o/acme/agents/scribe/delete";
    ada.submit(&ada.get(delete), delete, &[]).shows("The agent was deleted.");
    api.get("/agents/scribe").refused(404, "not_found");
}

#[test]
fn a_fleet_is_made_by_an_admin_and_lists_its_agents() {
    let server = Running::new();
    server.add("ben", "member");
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    ben.get("/o/acme/fleets").hides("Create a fleet");
    assert_eq!(ben.get("/o/acme/new/fleet").status, 403);
    let new = "/o/acme/new/fleet";
    let fields = [("name", "Support"), ("access", "restricted")];
    let fleet = ada.submit(&ada.get(new), new, &fields);
    fleet.shows("The fleet was created.").shows("No agent is in this fleet");
    let stored = || server.ada().get("/fleets").items();
    assert_eq!(
        (&stored()[0]["name"], &stored()[0]["access"]),
        (&json!("Support"), &json!("restricted"))
    );
    let id = stored()[0]["id"].as_str().unwrap().to_string();
    let body = json!({"stableKey": "scribe", "name": "Scribe", "fleetId": id});
    server.ada().post("/agents", body).ok();
    ada.get(&format!("/o/acme/fleets/{id}")).shows("Scribe");
    ada.get(&format!("/o/acme/agents?fleet={id}")).shows("Scribe").shows("Only agents of Support");
    ben.get("/o/acme/agents").hides("Scribe");
    assert_eq!(ben.get("/o/acme/agents/scribe").status, 403);
    let path = format!("/o/acme/fleets/{id}");
    let fields = [("access", "organization"), ("description", "Answers.")];
    ada.submit(&ada.get(&path), &path, &fields).shows("The fleet was saved.");
    let saved = (&stored()[0]["access"], &stored()[0]["description"]);
    assert_eq!(saved, (&json!("organization"), &json!("Answers.")));
    ben.get(&path).shows("Answers.").hides("Save");
    let delete = format!("{path}/delete");
    ada.submit(&ada.get(&delete), &delete, &[]).shows("The fleet was deleted.");
    assert!(stored().is_empty());
    ben.get("/o/acme/agents").shows("Scribe");
}

/// Fails the test unless all jobs are finished some time.
fn all_done(server: &Running) {
    let is_done = |job: &Value| job["state"] == "complete";
    eventually("the deployments", || {
        server.ada().get("/agents/deployments").items().iter().all(is_done).then_some(())
    });
}

#[test]
fn what_would_change_is_seen_before_exactly_that_is_deployed() {
    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme/agents/scribe").shows("It is deployed nowhere");
    let form = ada.get(&format!("{DEPLOY}?agent=scribe"));
    assert_eq!(form.field(DEPLOY, "promptName"), "notes", "from its draft");
    let refused = ada.send(&form, DEPLOY, &[("action", "preview"), ("promptName", "none")]);
    assert_eq!(refused.status, 404);
    assert_eq!(refused.field(DEPLOY, "provider"), "p", "kept");
    let preview = ada.send(&form, DEPLOY, &[("action", "preview")]);
    assert_eq!(preview.status, 200, "{}", preview.words());
    preview.shows("nothing is live yet").shows("Hello.").shows("Needs none");
    // Somebody publishes another version meanwhile.
    server.publish("prompt", "notes", "1.1.0", "Good morning.");
    let changed = ada.send(&preview, DEPLOY, &[("action", "deploy")]);
    assert_eq!(changed.status, 409);
    changed.shows("The plan is another one").shows("Good morning.");
    let job = ada.submit(&changed, DEPLOY, &[("action", "deploy")]);
    job.shows("The deployment was created.").shows("Deploy notes 1.1.0");
    all_done(&server);
    ada.get("/o/acme/deployments").shows("1 deployment in the last 365 days, none of them failed.");
    ada.get("/o/acme/agents/scribe").shows("Production").shows("notes 1.1.0").shows("live");
    let prompt = ada.get("/o/acme/prompts/main/notes");
    prompt.shows("Live scribe Production 1.1.0").hides("No agent runs it");

    server.publish("prompt", "notes", "1.2.0", "Good evening.");
    let form = ada.get(&format!("{DEPLOY}?agent=scribe"));
    let preview = ada.send(&form, DEPLOY, &[("action", "preview")]);
    preview.shows("now notes 1.1.0").shows("Good");
    assert!(preview.text.contains("<del>morning.</del>"), "{}", preview.text);
    let form = ada.send(&preview, DEPLOY, &[("action", "change")]);
    assert_eq!(form.field(DEPLOY, "promptName"), "notes");
    ada.submit(&preview, DEPLOY, &[("action", "deploy")]);
    all_done(&server);
    let agent = ada.get("/o/acme/agents/scribe");
    let again = ada.submit(&agent, "/o/acme/agents/scribe", &[("deployment", &first(&server))]);
    again.shows("Deploy notes 1.1.0");
}

/// The id of the first deployment of the agent.
fn first(server: &Running) -> String {
    let all = server.ada().get("/agents/scribe/deployment-history").items();
    all.last().unwrap()["id"].as_str().unwrap().into()
}

#[test]
fn a_variable_without_a_value_gets_a_field() {
    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    server.publish("prompt", "notes", "2.0.0", "Hello {{WHO}}.");
    let ada = server.signed_in("ada@acme.test");
    let form = ada.get(&format!("{DEPLOY}?agent=scribe"));
    let refused = ada.send(&form, DEPLOY, &[("action", "preview")]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("agentVariables.WHO"), "{}", refused.words());
    let fields = [("action", "preview"), ("agentVariables.WHO", "you")];
    ada.send(&refused, DEPLOY, &fields).shows("Hello you.");
}

#[test]
fn an_agent_that_fails_and_runs_something_else_is_seen_today_and_says_what() {
    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    let api = server.ada();
    let body = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    api.post("/agents/deployments", body).ok();
    all_done(&server);
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme").shows("Nothing waits for you.");
    let hash = api.get("/agents/scribe/environments").items()[0]["live"]["hash"].clone();
    let beat = |hash: &str, error: Option<&str>| {
        let body = json!({"environment": "production", "hash": hash, "error": error});
        api.post("/agents/scribe/heartbeat", body).ok();
    };
    beat("0123456789abcdef", Some("out of memory"));
    ada.get("/o/acme").shows("Agents that report an error").shows("scribe");
    let page = ada.get("/o/acme/agents/scribe");
    page.shows("Failing").shows("out of memory").shows("Expected hash");
    page.shows(&hash.as_str().unwrap()[..12]).shows("0123456789ab");
    beat("0123456789abcdef", None);
    ada.get("/o/acme").shows("Agents that run something else");
    ada.get("/o/acme/agents?only=drifted").shows("scribe").shows("Drifted");
    beat(hash.as_str().unwrap(), None);
    ada.get("/o/acme").shows("Nothing waits for you.");
}
