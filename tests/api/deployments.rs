//! Deployments: from a request over approvals to a runtime that waits for it (reference: deployments).

use std::slice::from_ref;
use std::time::{Duration, Instant};

use roadstead::app::ServerConfig;
use roadstead::outbox::RetentionSettings;
use serde_json::{Value, json};

use crate::client::{Caller, Connection, at_once, eventually, pick};
use crate::fixture::{Fixture, Running, config, key_of, unknown_id};
use crate::registries::{publish, registry};

/// 50 ms are usual, where a runtime waits for 60 s; a test on a busy machine must not fail for its sake.
const SOON: Duration = Duration::from_secs(10);

/// An organization with the environment `dev`, the prompt `hello` in `main`, and agents.
pub fn acme(agents: &[&str]) -> Fixture {
    filled(Fixture::new(), agents)
}

fn filled(acme: Fixture, agents: &[&str]) -> Fixture {
    fill(&acme, agents);
    acme
}

/// Adds the environment `dev`, the prompt `hello` in the registry `main`, and agents.
pub fn fill(acme: &Fixture, agents: &[&str]) {
    registry(acme, "main", json!({}));
    publish(acme, ["main", "prompt", "hello", "1.0.0"], "Hello {{NAME}}.");
    acme.admin.post("/environments", json!({"slug": "dev", "name": "Dev"})).ok();
    for agent in agents {
        acme.member.post("/agents", json!({"stableKey": agent, "name": agent})).ok();
    }
}

pub fn body(agents: &[&str], more: Value) -> Value {
    let mut body = json!({
        "agentIds": agents, "promptName": "hello", "version": "*", "environment": "dev",
        "provider": "p", "registryRef": "main", "agentVariables": {"NAME": "you"},
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

pub fn path(job: &Value, rest: &str) -> String {
    format!("/agents/deployments/{}{rest}", job["id"].as_str().unwrap())
}

/// Waits until a job has this state.
pub fn until(caller: &Caller, job: &Value, state: &str) -> Value {
    eventually(state, || Some(caller.get(&path(job, "")).ok()).filter(|job| job["state"] == state))
}

/// Deploys `hello` and waits until that is done.
pub fn deployed(acme: &Fixture, agents: &[&str], more: Value) -> Value {
    let job = acme.member.post("/agents/deployments", body(agents, more)).ok();
    until(&acme.member, &job, "complete")
}

pub fn events(acme: &Fixture, event: &str) -> Vec<Value> {
    acme.member.get(&format!("/notifications/logs?eventType={event}")).items()
}

#[test]
fn a_deployment_is_applied_and_shown_everywhere() {
    let acme = acme(&["ann", "bob"]);
    let job = deployed(&acme, &["ann", "bob"], json!({"model": "m"}));
    let some = pick(&job, "kind registryRef promptName version provider model");
    let main = format!("{}/main", acme.slug);
    assert_eq!(some, json!(["agents", main, "hello", "1.0.0", "p", "m"]));
    assert_eq!(job["plan"]["targets"][1]["compiled"], "Hello you.");
    assert_eq!(job["targets"][0]["state"], "applied");
    assert!(job["finishedAt"].is_string());
    assert_eq!(acme.member.get("/agents/deployments").items(), from_ref(&job));
    let count =
        |query: &str| acme.member.get(&format!("/agents/deployments?{query}")).items().len();
    let counts =
        ["state=complete", "state=error", "environment=dev", "environment=none"].map(count);
    assert_eq!(counts, [1, 0, 1, 0]);
    acme.member.get("/agents/deployments?approver=you").invalid(&["approver"]);

    let live = acme.key.get("/agents/ann/deployed?environment=dev").ok();
    assert_eq!(
        pick(&live, "compiled stableKey live jobId"),
        json!(["Hello you.", "ann", true, job["id"]])
    );
    assert_eq!(live["id"], job["targets"][0]["deploymentId"]);
    assert_eq!(acme.key.get("/agents/ann/deployment-history").items(), from_ref(&live));
    assert_eq!(acme.member.get("/deployments?stableKey=ann").items(), from_ref(&live));
    let one = format!("/deployments/{}", live["id"].as_str().unwrap());
    assert_eq!(acme.member.get(&one).ok(), live);
    let days = acme.member.get("/deployments/heatmap").items();
    assert_eq!(days.len(), 1);
    assert_eq!(days[0]["counts"], json!({"complete": 1}));
    for path in ["/deployments", "/deployments/heatmap", one.as_str()] {
        acme.key.get(path).refused(401, "session_required");
    }
    assert_eq!(acme.member.get("/agents/ann").ok()["status"], "deployed");
    assert_eq!(acme.member.get("/agents?status=deployed").items().len(), 2);
    let event = events(&acme, "deployment.complete").remove(0);
    assert_eq!(event["payload"]["stableKeys"], json!(["ann", "bob"]));
}

#[test]
fn what_is_missing_is_named() {
    let acme = acme(&["ann"]);
    let deploy = |more: Value| acme.member.post("/agents/deployments", body(&["ann"], more));
    deploy(json!({"agentVariables": {}})).invalid(&["agentVariables.NAME"]);
    deploy(json!({"registryRef": null})).invalid(&["registryRef"]);
    deploy(json!({"promptName": null, "version": null})).invalid(&["promptName", "version"]);
    deploy(json!({"agentVersion": 1})).invalid(&["promptName", "version"]);
    for more in [
        json!({"agentIds": ["ann", "nobody"]}),
        json!({"environment": unknown_id()}),
        json!({"version": "2"}),
        json!({"toolRefs": [{"toolId": unknown_id()}]}),
    ] {
        deploy(more).refused(404, "not_found");
    }
    acme.key.get("/agents/ann/deployed?environment=dev").refused(404, "not_found");
    acme.key.get(&path(&json!({"id": unknown_id()}), "")).refused(404, "not_found");
}

/// A runtime that has the tag of what is live.
fn wait(acme: &Fixture, caller: &Caller) -> Connection {
    let path = "/agents/ann/deployed?environment=dev";
    let tag = caller.get(path).header("etag").unwrap().to_string();
    let path = caller.in_org(&format!("{path}&wait=60"));
    let mut connection = Connection::open(acme.address).unwrap();
    let ask = caller.ask("GET", &path).with("If-None-Match", &tag);
    connection.write(&ask.to_bytes()).unwrap();
    connection
}

#[test]
fn a_waiting_runtime_hears_of_a_deployment_at_once() {
    let acme = acme(&["ann"]);
    deployed(&acme, &["ann"], json!({}));
    let path = "/agents/ann/deployed?environment=dev";
    let tag = acme.key.get(path).header("etag").unwrap().to_string();
    let path = acme.key.in_org(path);
    let unchanged = acme.key.ask("GET", &path).with("If-None-Match", &tag).send();
    assert_eq!(unchanged.status, 304);
    let mut waiting = wait(&acme, &acme.key);
    publish(&acme, ["main", "prompt", "hello", "1.1.0"], "Bye.");
    let begun = Instant::now();
    deployed(&acme, &["ann"], json!({}));
    let reply = waiting.reply(false).unwrap();
    assert_eq!(reply.ok()["compiled"], "Bye.");
    assert_ne!(reply.header("etag").unwrap(), tag);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn waiting_ends_when_access_does() {
    let acme = acme(&["ann"]);
    deployed(&acme, &["ann"], json!({}));
    let (mut member, mut owner) = (wait(&acme, &acme.member), wait(&acme, &acme.key));
    let begun = Instant::now();
    let dev = acme.admin.get("/environments").items().remove(0)["id"].clone();
    let dev = format!("/environments/{}", dev.as_str().unwrap());
    acme.admin.patch(&dev, json!({"access": "restricted"})).ok();
    member.reply(false).unwrap().refused(403, "grant_required");
    acme.member.get("/agents/ann/deployed?environment=dev").refused(403, "grant_required");
    acme.member.delete("/agents/ann").refused(403, "grant_required");
    acme.owner.delete("/agents/ann").ok();
    owner.reply(false).unwrap().refused(404, "not_found");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn nobody_changes_or_takes_away_what_was_approved_without_an_approval() {
    let acme = acme(&["ann"]);
    let good = json!({"url": "https://good.test/${DB}"});
    let tool = json!({"name": "t", "type": "http", "providerConfig": good});
    let tool = acme.member.post("/tools", tool).id();
    let there = format!("/tools/{tool}");
    let dev = acme.admin.get("/environments").items().remove(0)["id"].clone();
    let dev = format!("/environments/{}", dev.as_str().unwrap());
    let approve = |job: Value| {
        acme.owner.post(&path(&job, "/approve"), json!({"planHash": job["planHash"]})).ok();
        until(&acme.admin, &job, "complete")
    };
    let approvals = json!({"approverIds": [acme.owner_id]});
    acme.admin.patch(&dev, json!({"access": "restricted", "approvals": approvals})).ok();
    let tools = json!({"toolIds": [tool], "environment": "dev"});
    approve(acme.admin.post("/agents/tool-deployments", tools).ok());
    let new = body(&["ann"], json!({"toolRefs": [{"toolId": tool}]}));
    approve(acme.admin.post("/agents/deployments", new.clone()).ok());

    let evil = json!({"providerConfig": {"url": "https://evil.test/${DB}"}});
    for caller in [&acme.member, &acme.key, &acme.owner] {
        caller.patch(&there, evil.clone()).refused(409, "tool_version_in_use");
    }
    acme.member.delete(&there).refused(403, "grant_required");
    acme.owner.delete(&there).refused(409, "tool_in_use");
    acme.member.delete("/agents/ann").refused(403, "grant_required");
    acme.owner.delete("/agents/ann").refused(409, "deployment_live");
    assert_eq!(acme.key.get("/agents/ann/deployed?environment=dev").status, 200);

    // As a version of its own it is free to change, and shown to whoever approves it.
    let mut bumped = evil;
    bumped["bumpVersion"] = json!("patch");
    acme.member.patch(&there, bumped).ok();
    let new = body(&["ann"], json!({"toolRefs": [{"toolId": tool, "version": "1.0.1"}]}));
    let job = acme.admin.post("/agents/deployments", new).ok();
    let shown = &job["plan"]["tools"][0];
    assert_eq!(pick(shown, "version placeholders"), json!(["1.0.1", ["DB"]]));
    assert_eq!(shown["providerConfig"]["url"], "https://evil.test/${DB}");
    let changed = acme.owner.get(&path(&job, "/changes")).items();
    let url = json!({
        "path": "tools.t.providerConfig.url", "from": "https://good.test/${DB}",
        "to": "https://evil.test/${DB}",
    });
    assert!(changed[0]["changes"].as_array().unwrap().contains(&url), "{}", changed[0]);
}

/// Sets the approvals of `dev`.
fn require(acme: &Fixture, approvals: Value) {
    let dev = acme.admin.get("/environments").items().remove(0)["id"].clone();
    let dev = format!("/environments/{}", dev.as_str().unwrap());
    acme.admin.patch(&dev, json!({"approvals": approvals})).ok();
}

#[test]
fn a_key_with_the_permission_decides_for_the_approvers() {
    let acme = acme(&["ann"]);
    require(&acme, json!({"approverIds": [acme.owner_id, acme.member_id]}));
    let job = acme.member.post("/agents/deployments", body(&["ann"], json!({}))).ok();
    assert_eq!(job["state"], "pending_approval");
    assert_eq!(events(&acme, "deployment.pending_approval").len(), 1);
    let waiting = |caller: &Caller| caller.get("/agents/deployments?approver=me").items().len();
    assert_eq!([&acme.owner, &acme.member, &acme.admin].map(waiting), [1, 1, 0]);

    let new = json!({"name": "the pipeline", "allowApproveAs": true});
    let made = acme.owner.post("/api-keys", new).ok();
    let pipeline = acme.anonymous.with_key(made["key"].as_str().unwrap());
    let approve = |caller: &Caller, email: Option<&str>| {
        caller.post(&path(&job, "/approve"), json!({"actingUserEmail": email}))
    };
    let ben = format!("ben@{}.test", acme.slug);
    approve(&pipeline, None).invalid(&["actingUserEmail"]);
    approve(&pipeline, Some("no address")).invalid(&["actingUserEmail"]);
    approve(&pipeline, Some("else@b.test")).refused(403, "approver_required");
    let ordinary = key_of(&acme.owner);
    approve(&ordinary, Some(&ben)).refused(403, "approve_as_required");
    approve(&acme.admin, None).refused(403, "approver_required");
    approve(&key_of(&acme.admin), None).refused(403, "approver_required");
    let state = approve(&pipeline, Some(&ben.to_uppercase())).ok()["state"].clone();
    assert_eq!(state, "pending_approval");
    approve(&acme.member, None).refused(409, "deployment_decided");
    approve(&ordinary, None).ok();
    until(&acme.member, &job, "complete");
    let approvals = acme.member.get(&path(&job, "/approvals")).items();
    let via: Vec<_> = approvals.iter().map(|one| pick(one, "decision via")).collect();
    assert!(via.contains(&json!(["approved", "the pipeline"])), "{via:?}");
    assert!(via.contains(&json!(["approved", null])), "{via:?}");
    let user = approvals.iter().find(|one| one["via"].is_string()).unwrap()["user"].clone();
    assert_eq!(pick(&user, "name email image emailVerified"), json!(["ben", ben, null, true]));
    let event = events(&acme, "deployment.approved").remove(0);
    assert_eq!(event["payload"]["approvals"].as_array().unwrap().len(), 2);

    let audited = acme.audited();
    let mut approvals = audited.iter().filter(|entry| entry.action == "deployment.approve");
    assert!(approvals.any(|entry| entry.via.as_deref() == Some("the pipeline")));
    acme.owner.delete(&format!("/api-keys/{}", made["id"].as_str().unwrap())).ok();
    approve(&pipeline, Some(&ben)).refused(401, "unauthenticated");
}

#[test]
fn votes_at_one_instant_are_all_counted_and_start_the_job_once() {
    let acme = acme(&["ann"]);
    let grace = acme.admin.get("/auth/session").ok()["user"]["id"].clone();
    require(&acme, json!({"approverIds": [acme.owner_id, acme.member_id, grace]}));
    let callers = [&acme.owner, &acme.member, &acme.admin];
    for _ in 0..5 {
        let job = acme.member.post("/agents/deployments", body(&["ann"], json!({}))).ok();
        let votes = at_once(3, |n| callers[n].post(&path(&job, "/approve"), json!({})).ok());
        let approved = votes.iter().filter(|vote| vote["state"] == "approved").count();
        assert_eq!(approved, 1);
        until(&acme.member, &job, "complete");
    }
    assert_eq!(events(&acme, "deployment.approved").len(), 5);
    assert_eq!(acme.member.get("/agents/ann/deployment-history").items().len(), 5);
}

#[test]
fn a_denied_or_cancelled_job_is_not_applied() {
    let acme = acme(&["ann"]);
    require(&acme, json!({"approverIds": [acme.owner_id]}));
    let make = || acme.member.post("/agents/deployments", body(&["ann"], json!({}))).ok();
    let (denied, cancelled) = (make(), make());
    let comment = json!({"comment": "no", "planHash": denied["planHash"]});
    acme.owner
        .post(&path(&denied, "/deny"), json!({"planHash": "x"}))
        .refused(409, "plan_hash_differs");
    assert_eq!(acme.owner.post(&path(&denied, "/deny"), comment).ok()["state"], "denied");
    let approvals = acme.member.get(&path(&denied, "/approvals")).items();
    assert_eq!(pick(&approvals[0], "decision comment via"), json!(["denied", "no", null]));
    let (other, _) = acme.person("cy", roadstead::auth::Role::Member);
    other.post(&path(&cancelled, "/cancel"), json!({})).refused(403, "creator_required");
    let ended = acme.member.post(&path(&cancelled, "/cancel"), json!({})).ok();
    assert_eq!(
        (&ended["state"], &ended["targets"][0]["state"]),
        (&json!("cancelled"), &json!("skipped"))
    );
    acme.member.post(&path(&cancelled, "/cancel"), json!({})).refused(409, "deployment_finished");
    acme.owner
        .post(&path(&cancelled, "/approve"), json!({}))
        .refused(409, "deployment_not_pending");
    acme.key.get("/agents/ann/deployed?environment=dev").refused(404, "not_found");
    acme.member.delete("/agents/ann").ok();
}

#[test]
fn tools_and_versions_are_deployed_previewed_and_rolled_back() {
    let acme = acme(&["ann"]);
    let tool = acme.member.post("/tools", json!({"name": "t", "type": "mcp"})).id();
    let new = json!({"toolIds": [tool], "environment": "dev"});
    let job = acme.member.post("/agents/tool-deployments", new).ok();
    assert_eq!(until(&acme.member, &job, "complete")["kind"], "tools");
    let versions = acme.admin.get("/environments").items().remove(0)["toolVersions"].clone();
    assert_eq!(versions[&tool], "1.0.0");

    let first = deployed(&acme, &["ann"], json!({}));
    acme.member.post(&path(&first, "/rollback"), json!({})).refused(409, "nothing_before");
    publish(&acme, ["main", "prompt", "hello", "1.1.0"], "Bye {{NAME}}.");
    let new = body(&["ann"], json!({}));
    let preview = acme.member.post("/agents/deployments/preview", new.clone()).ok();
    let target = &preview["targets"][0];
    assert_eq!(target["live"]["version"], "1.0.0");
    assert!(target["diff"].as_str().unwrap().contains("-Hello you.\n"), "{target}");
    let change = json!({"path": "promptVersion", "from": "1.0.0", "to": "1.1.0"});
    assert_eq!(target["changes"], json!([change]));
    assert_eq!(acme.member.get("/agents/ann/deployment-history").items().len(), 1);
    let second = deployed(&acme, &["ann"], json!({"planHash": preview["planHash"]}));
    let stale = body(&["ann"], json!({"planHash": first["planHash"]}));
    acme.member.post("/agents/deployments", stale).refused(409, "plan_changed");

    acme.member.post(&path(&first, "/rollback"), json!({})).refused(409, "nothing_before");
    let back = acme.member.post(&path(&second, "/rollback"), json!({})).ok();
    until(&acme.member, &back, "complete");
    let live = || acme.key.get("/agents/ann/deployed?environment=dev").ok()["compiled"].clone();
    assert_eq!(live(), "Hello you.");
    acme.member.post(&path(&second, "/rollback"), json!({})).refused(409, "deployed_since");
    let back = acme.member.post(&path(&second, "/rollback"), json!({"force": true})).ok();
    until(&acme.member, &back, "complete");

    let draft = json!({"registryRef": "main", "promptName": "hello", "promptVersion": "1.1.0",
        "variables": {"NAME": "me"}});
    acme.member.patch("/agents/ann", json!({"draft": draft})).ok();
    acme.member.post("/agents/ann/versions", json!({})).ok();
    let version =
        json!({"agentIds": ["ann"], "environment": "dev", "provider": "p", "agentVersion": 1});
    let job = acme.member.post("/agents/deployments", version).ok();
    until(&acme.member, &job, "complete");
    assert_eq!(live(), "Bye me.");
    let rows = acme.member.get("/agents/ann/deployment-history").items();
    let oldest = rows.last().unwrap()["id"].as_str().unwrap();
    let again = format!("/agents/ann/deployment-history/{oldest}/redeploy");
    let job = acme.member.post(&again, json!({})).ok();
    until(&acme.member, &job, "complete");
    assert_eq!(live(), "Hello you.");
}

#[test]
fn heartbeats_show_drift_and_errors() {
    let acme = acme(&["ann"]);
    let beat = |hash: &str, error: Option<&str>| {
        let body = json!({"environment": "dev", "hash": hash, "error": error});
        acme.key.post("/agents/ann/heartbeat", body).ok()
    };
    assert_eq!(beat("x", None), json!({"drifted": false, "expectedHash": null}));
    deployed(&acme, &["ann"], json!({}));
    let hash = acme.key.get("/agents/ann/deployed?environment=dev").ok()["hash"].clone();
    let status = || acme.member.get("/agents/ann").ok()["status"].clone();
    assert_eq!(beat("x", None), json!({"drifted": true, "expectedHash": hash}));
    assert_eq!(status(), "drifted");
    beat(hash.as_str().unwrap(), Some("out of memory"));
    assert_eq!(status(), "error");
    assert_eq!(events(&acme, "agent.drifted").len(), 1);
    let event = events(&acme, "agent.error").remove(0);
    assert_eq!(pick(&event["payload"], "stableKey error"), json!(["ann", "out of memory"]));
    let none = json!({"environment": "none", "hash": "x"});
    acme.key.post("/agents/ann/heartbeat", none).refused(404, "not_found");
}

#[test]
fn an_agent_that_falls_silent_becomes_stale_and_recovers() {
    let settings = RetentionSettings { stale_after_secs: 1, ..RetentionSettings::default() };
    let running = Running::start(ServerConfig { settings, ..config() });
    let acme = filled(running.fixture(), &["ann", "bob"]);
    deployed(&acme, &["ann", "bob"], json!({}));
    let hash = acme.key.get("/agents/ann/deployed?environment=dev").ok()["hash"].clone();
    let beat = json!({"environment": "dev", "hash": hash});
    acme.key.post("/agents/ann/heartbeat", beat.clone()).ok();
    let stale = || acme.member.get("/agents?status=stale").items();
    let found = eventually("ann is stale", || Some(stale()).filter(|found| !found.is_empty()));
    assert_eq!(pick(&found[0], "stableKey"), json!(["ann"]));
    assert_eq!((found.len(), events(&acme, "agent.stale").len()), (1, 1));
    eventually("ann is there again", || {
        acme.key.post("/agents/ann/heartbeat", beat.clone()).ok();
        stale().is_empty().then_some(())
    });
}
