//! What deployments leave behind: audit entries, answers that are replayed, and lists of them
//! (reference: deployments; conventions).

use roadstead::api::audit::{AuditEntry, AuditOutcome};
use serde_json::{Value, json};

use crate::client::{Caller, pick};
use crate::deployments::{acme, body, deployed, path, until};
use crate::fixture::{Fixture, key_of};

/// The audit entries of an organization, oldest first.
fn audited(acme: &Fixture) -> Vec<AuditEntry> {
    acme.audited()
}

/// Sends the same request twice with one `Idempotency-Key`; returns the answer to both.
#[track_caller]
fn twice(caller: &Caller, path: &str, body: Value) -> Value {
    let send = || {
        let request = caller.ask("POST", path).with("Idempotency-Key", path);
        request.org_json(body.clone()).send()
    };
    let (first, second) = (send(), send());
    assert_eq!(first.header("idempotency-replayed"), None, "{path}");
    assert_eq!(second.header("idempotency-replayed"), Some("true"), "{path}");
    assert_eq!(first.ok(), second.ok(), "{path}");
    first.ok()
}

#[test]
fn a_repeated_request_is_done_once_and_each_names_its_job_in_the_audit_log() {
    let acme = acme(&["ann"]);
    let (ben, key) = (&acme.member, key_of(&acme.member));
    let mut expected = Vec::new();
    let mut done = |action: &'static str, job: &Value| {
        let id = job["id"].as_str().unwrap().to_string();
        expected.push((action, "deployment", id));
    };
    let first = twice(ben, "/agents/deployments", body(&["ann"], json!({})));
    done("deployment.create", &first);
    until(ben, &first, "complete");
    let second = deployed(&acme, &["ann"], json!({}));
    done("deployment.create", &second);
    let tool = ben.post("/tools", json!({"name": "t", "type": "mcp"})).id();
    let tools = json!({"toolIds": [tool], "environment": "dev"});
    let tools = twice(&key, "/agents/tool-deployments", tools);
    done("deployment.create_tools", &tools);
    until(ben, &tools, "complete");
    let oldest = ben.get("/agents/ann/deployment-history").items().pop().unwrap();
    let again = oldest["id"].as_str().unwrap();
    let again = format!("/agents/ann/deployment-history/{again}/redeploy");
    let again = twice(&key, &again, json!({}));
    done("agent_deployment.redeploy", &again);
    until(ben, &again, "complete");
    let back = twice(ben, &path(&again, "/rollback"), json!({}));
    done("deployment.roll_back", &back);
    until(ben, &back, "complete");
    assert_eq!(ben.get("/agents/deployments").items().len(), 5);

    let dev = acme.admin.get("/environments").items().remove(0)["id"].clone();
    let dev = format!("/environments/{}", dev.as_str().unwrap());
    let approvals = json!({"approvals": {"approverIds": [acme.owner_id]}});
    acme.admin.patch(&dev, approvals).ok();
    for (verb, action) in [
        ("approve", "deployment.approve"),
        ("deny", "deployment.deny"),
        ("cancel", "deployment.cancel"),
    ] {
        let job = acme.owner.post("/agents/deployments", body(&["ann"], json!({}))).ok();
        done("deployment.create", &job);
        let decided = twice(&acme.owner, &path(&job, &format!("/{verb}")), json!({}));
        done(action, &decided);
    }
    // A preview is no write.
    ben.post("/agents/deployments/preview", body(&["ann"], json!({}))).ok();
    let entries = audited(&acme).into_iter().filter(|entry| entry.action.contains("deployment"));
    let found: Vec<_> = entries
        .map(|entry| {
            assert_eq!(entry.outcome, AuditOutcome::Success);
            (entry.action, entry.resource_type, entry.resource_id.unwrap())
        })
        .collect();
    let expected: Vec<_> =
        expected.into_iter().map(|(action, kind, id)| (action.into(), kind.into(), id)).collect();
    assert_eq!(found, expected);
}

#[test]
fn heartbeats_leave_no_audit_entry_and_what_is_in_an_environment_names_it() {
    let acme = acme(&["ann"]);
    deployed(&acme, &["ann"], json!({}));
    let before = audited(&acme).len();
    for hash in ["x", "y"] {
        let beat = json!({"environment": "dev", "hash": hash, "error": "e"});
        acme.key.post("/agents/ann/heartbeat", beat).ok();
    }
    assert_eq!(audited(&acme).len(), before);
    let dev = acme.admin.get("/environments").items().remove(0)["id"].clone();
    let dev = dev.as_str().unwrap();
    let secret = format!("/environments/{dev}/secrets/TOKEN");
    acme.admin.put(&secret, json!({"value": "v"})).ok();
    let entry = audited(&acme).pop().unwrap();
    let named = (entry.action.as_str(), entry.resource_id.as_deref());
    assert_eq!(named, ("environment_secret.set", Some("TOKEN")));
    assert_eq!(entry.detail.unwrap(), format!("environmentId {dev}"));
}

#[test]
fn lists_are_walked_in_pages_and_filtered_by_time() {
    let acme = acme(&["ann", "bob"]);
    let jobs: Vec<_> = (0..3).map(|_| deployed(&acme, &["ann", "bob"], json!({}))).collect();
    let newest: Vec<_> = jobs.iter().rev().map(|job| job["id"].clone()).collect();
    let ids = |items: Vec<Value>, field: &str| -> Vec<Value> {
        items.iter().map(|item| item[field].clone()).collect()
    };
    let ben = &acme.member;
    for query in ["", "?state=complete", "?environment=dev", "?environment=dev&state=complete"] {
        let listed = ben.walk(&format!("/agents/deployments{query}"), 1);
        assert_eq!(ids(listed, "id"), newest, "{query}");
    }
    let history = ben.walk("/agents/ann/deployment-history?environment=dev", 1);
    assert_eq!(ids(history.clone(), "jobId"), newest);
    for query in ["stableKey=ann", "stableKey=ann&environment=dev"] {
        assert_eq!(ben.walk(&format!("/deployments?{query}"), 1), history, "{query}");
    }
    for query in ["", "?environment=dev"] {
        let all = ben.walk(&format!("/deployments{query}"), 1);
        assert_eq!(all.len(), 6, "{query}");
        assert!(all.is_sorted_by_key(|one| std::cmp::Reverse(one["deployedAt"].to_string())));
    }
    // From the first time, before the second.
    let (from, to) = (&history[1]["deployedAt"], &history[0]["deployedAt"]);
    let between = |from: &Value, to: &Value| {
        let range = format!("from={}&to={}", from.as_str().unwrap(), to.as_str().unwrap());
        ben.get(&format!("/deployments?stableKey=ann&{range}")).items()
    };
    if from != to {
        assert_eq!(between(from, to), history[1..2]);
        let range = format!("from={}&to={}", to.as_str().unwrap(), from.as_str().unwrap());
        ben.get(&format!("/deployments?stableKey=ann&{range}")).invalid(&["to"]);
    }
    for none in ["stableKey=nobody", "environment=none", "environment=dev&stableKey=nobody"] {
        assert!(ben.get(&format!("/deployments?{none}")).items().is_empty());
    }
    ben.get("/deployments?from=yesterday").invalid(&["from"]);
    let live = "/deployments/live?registryRef=main&promptName=hello";
    let live = live.replace("=main", &format!("={}/main", acme.slug));
    let mut keys = ids(ben.walk(&live, 1), "stableKey");
    keys.sort_by_key(Value::to_string);
    assert_eq!(keys, ["ann", "bob"]);
    let mut of_live = ids(ben.get(&live).items(), "deploymentId");
    let mut newest_of_all = ids(ben.get("/deployments?limit=2").items(), "id");
    of_live.sort_by_key(Value::to_string);
    newest_of_all.sort_by_key(Value::to_string);
    assert_eq!(of_live, newest_of_all);
    assert!(ben.get(&live.replace("hello", "other")).items().is_empty());
    ben.get("/deployments/live").invalid(&["registryRef", "promptName"]);
    ben.get("/agents/deployments?state=done").invalid(&["state"]);
    let heatmap = |query: &str| ben.get(&format!("/deployments/heatmap?{query}")).items();
    assert_eq!(heatmap("")[0]["counts"], json!({"complete": 3}));
    let backwards = "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z";
    ben.get(&format!("/deployments/heatmap?{backwards}")).invalid(&["to"]);

    let (cy, cy_id) = acme.person("cy", roadstead::auth::Role::Member);
    let dev = acme.admin.get("/environments").items().remove(0)["id"].clone();
    let dev = format!("/environments/{}", dev.as_str().unwrap());
    let approvers = [&acme.owner_id, &acme.member_id, &cy_id];
    acme.admin.patch(&dev, json!({"approvals": {"approverIds": approvers}})).ok();
    let waits = || ben.post("/agents/deployments", body(&["ann"], json!({}))).ok();
    let (first, second) = (waits(), waits());
    let waiting = cy.walk("/agents/deployments?approver=me", 1);
    assert_eq!(ids(waiting, "id"), [second["id"].clone(), first["id"].clone()]);
    let approvals = ben.walk(&path(&first, "/approvals"), 1);
    assert_eq!(approvals, ben.get(&path(&first, "/approvals")).items());
    assert!(approvals.is_sorted_by_key(|one| std::cmp::Reverse(one["id"].to_string())));
    let mut users: Vec<_> = approvals.iter().map(|one| pick(&one["user"], "id")).collect();
    users.sort_by_key(Value::to_string);
    let mut expected: Vec<_> = approvers.iter().map(|id| json!([id])).collect();
    expected.sort_by_key(Value::to_string);
    assert_eq!(users, expected);

    acme.admin.patch(&dev, json!({"access": "restricted"})).ok();
    assert!(ben.get(&live).items().is_empty());
    assert_eq!(acme.admin.get(&live).items().len(), 2);
}
