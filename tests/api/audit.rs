//! The audit log and the history of labels (reference: audit-log; registries-and-templates, "Labels").

use serde_json::{Value, json};

use crate::client::{Caller, eventually, pick};
use crate::fixture::{Fixture, key_of};
use crate::registries::{publish, registry};

/// The newest entry of an action, once it is in the chain.
#[track_caller]
fn newest(owner: &Caller, action: &str) -> Value {
    let list = format!("/audit-logs?action={action}&limit=1");
    eventually(action, || owner.get(&list).items().into_iter().next())
}

#[test]
fn what_was_answered_is_in_the_log_at_once() {
    let acme = Fixture::new();
    for number in 0..20 {
        let tool = json!({"name": format!("t{number}"), "type": "http", "providerConfig": {}});
        let tool = acme.key.post("/tools", tool).id();
        let entries = acme.owner.get(&format!("/audit-logs?resourceId={tool}")).items();
        assert_eq!(pick(&entries[0], "action outcome"), json!(["tool.create", "success"]));
    }
}

#[test]
fn what_is_done_is_in_the_log_within_a_second() {
    let acme = Fixture::new();
    let tool = json!({"name": "t", "type": "http", "providerConfig": {}});
    let begun = std::time::Instant::now();
    let tool = acme.key.post("/tools", tool).id();
    let entry = newest(&acme.owner, "tool.create");
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    assert_eq!(entry["actor"]["type"], "key");
    assert_eq!(entry["resource"], json!({"type": "tool", "id": tool, "detail": null}));
    assert_eq!((&entry["orgSlug"], &entry["outcome"]), (&json!(acme.slug), &json!("success")));
    let one = format!("/audit-logs/{}", entry["id"].as_str().unwrap());
    assert_eq!(acme.admin.get(&one).ok(), entry);
    acme.member.delete(&format!("/environments/{}", crate::fixture::unknown_id())).problem();
    let refused = newest(&acme.owner, "environment.delete");
    assert_eq!(pick(&refused, "outcome actor")[0], "refused");
    assert_eq!(refused["actor"]["id"], json!(acme.member_id));
}

#[test]
fn the_log_is_for_sessions_of_admins() {
    let acme = Fixture::new();
    acme.member.get("/audit-logs").refused(403, "admin_required");
    acme.key.get("/audit-logs").refused(401, "session_required");
    acme.anonymous.get(&acme.anonymous.in_org("/audit-logs")).problem();
    acme.owner
        .get("/audit-logs?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z")
        .invalid(&["to"]);
    assert_eq!(acme.owner.get("/audit-logs?actor=nobody").items().len(), 0);
}

#[test]
fn pages_are_the_chain_from_its_end_to_its_start() {
    let acme = Fixture::new();
    for n in 0..30 {
        acme.key.post("/teams", json!({"slug": format!("t{n}"), "name": "T"})).ok();
    }
    let entries = eventually("all are in the log", || {
        let entries = acme.owner.walk("/audit-logs", 7);
        let teams = entries.iter().filter(|entry| entry["action"] == "team.create").count();
        (teams == 30).then_some(entries)
    });
    for pair in entries.windows(2) {
        assert_eq!(pair[0]["previousHash"], pair[1]["hash"]);
        assert_eq!(pair[0]["sequence"].as_u64(), pair[1]["sequence"].as_u64().map(|n| n + 1));
    }
    assert_eq!(entries.last().unwrap()["previousHash"], json!("0".repeat(64)));
    let named = |filter: &str| acme.owner.walk(&format!("/audit-logs?{filter}"), 200).len();
    assert_eq!(named("action=team.create&resourceType=team"), 30);
    assert_eq!(named("action=team.create&resourceType=tool"), 0);
    let middle = entries[10]["createdAt"].as_str().unwrap();
    assert_eq!(named(&format!("from={middle}")) + named(&format!("to={middle}")), entries.len());
}

/// A registry with two versions of the prompt `hello`.
fn with_versions() -> Fixture {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    for version in ["1.0.0", "1.1.0"] {
        publish(&acme, ["main", "prompt", "hello", version], "Hello.");
    }
    acme
}

fn put(caller: &Caller, version: &str) {
    let body = json!({"registryRef": "main", "promptName": "hello", "label": "live",
        "version": version});
    caller.patch("/registries/artifacts/labels", body).ok();
}

const LABEL: &str = "/registries/artifacts/labels?registryRef=main&promptName=hello&label=live";
const HISTORY: &str = "/registries/artifacts/labels/history?registryRef=main&promptName=hello";

#[test]
fn the_log_names_artifact_label_and_version() {
    let acme = with_versions();
    let artifact = format!("{}/main/prompt/hello", acme.slug);
    let about = |action: &str| newest(&acme.owner, action)["resource"].clone();
    let resource = |detail: &str| json!({"type": "artifact", "id": artifact, "detail": detail});
    put(&acme.key, "1.0.0");
    assert_eq!(about("artifact_label.move"), resource("live: none -> 1.0.0"));
    acme.key.delete(LABEL).ok();
    assert_eq!(about("artifact_label.delete"), resource("live: 1.0.0 -> none"));
    let version = "/registries/artifact-versions?registryRef=main&promptName=hello&version=1.0.0";
    acme.key.delete(version).ok();
    assert_eq!(about("artifact_version.delete"), resource("1.0.0"));
    let published = about("artifact_version.publish");
    assert_eq!(published["detail"], format!("{artifact} 1.1.0"));
}

#[test]
fn the_history_of_labels_says_who_moved_them_when_from_where_to_where() {
    let acme = with_versions();
    put(&acme.owner, "1.0.0");
    put(&acme.owner, "1.0.0"); // It is there already.
    put(&acme.key, "1.1.0");
    acme.member.delete(LABEL).ok();
    let history = acme.member.walk(HISTORY, 2);
    let shown: Vec<_> = history.iter().map(|one| pick(one, "label from to movedBy via")).collect();
    let (ada, ben) = (&acme.owner_id, &acme.member_id);
    let key = history[1]["via"].as_str().unwrap();
    assert_eq!(
        json!(shown),
        json!([
            ["live", "1.1.0", null, ben, null],
            ["live", "1.0.0", "1.1.0", ada, key],
            ["live", null, "1.0.0", ada, null],
        ])
    );
    assert_eq!(acme.member.walk(&format!("{HISTORY}&label=live"), 200), history);
    assert_eq!(acme.member.get(&format!("{HISTORY}&label=other")).items().len(), 0);
}

#[test]
fn the_history_of_labels_is_for_those_who_may_use_the_registry() {
    let acme = with_versions();
    let id = acme.owner.get("/registries/main").id();
    acme.owner.patch("/registries/main", json!({"access": "restricted"})).ok();
    acme.member.get(HISTORY).refused(403, "grant_required");
    acme.admin.get(HISTORY).ok();
    let grant = json!({"userId": acme.member_id, "resourceType": "registry", "resourceId": id});
    acme.owner.post("/access-grants", grant).ok();
    key_of(&acme.member).get(HISTORY).ok();
}
