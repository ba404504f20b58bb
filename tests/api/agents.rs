//! Agents and their versions (reference: agents, "Agents").

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::{Reply, at_once, pick};
use crate::fixture::{Fixture, unknown_id};

fn agent(acme: &Fixture, body: Value) -> Reply {
    acme.owner.post("/agents", body)
}

#[test]
fn a_new_agent_has_every_field() {
    let acme = Fixture::new();
    let made = agent(&acme, json!({"stableKey": "ann", "name": "Ann"})).ok();
    let some = pick(&made, "stableKey name description fleetId draftRevision latestVersion status");
    assert_eq!(some, json!(["ann", "Ann", null, null, 1, null, "undeployed"]));
    let nothing = json!({
        "registryRef": null, "promptName": null, "promptVersion": null, "model": null,
        "provider": null, "toolRefs": [], "variables": {}, "providerConfig": {},
    });
    assert_eq!(made["draft"], nothing);
    assert_eq!(acme.member.get("/agents/ann").ok(), made);
    assert_eq!(acme.member.get("/agents").items(), [made]);
}

#[test]
fn a_stable_key_has_its_form_and_is_unique_in_its_organization() {
    let acme = Fixture::new();
    let make = |key: &str| agent(&acme, json!({"stableKey": key, "name": "A"}));
    for good in ["a", "0", "a.b_c-d", &"a".repeat(64)] {
        make(good).ok();
    }
    for bad in ["", "A", "-a", ".a", "ä", "a b", "deployments", "tool-deployments"] {
        make(bad).invalid(&["stableKey"]);
    }
    make(&"a".repeat(65)).invalid(&["stableKey"]);
    make(&unknown_id()).invalid(&["stableKey"]);
    make("a").refused(409, "stable_key_taken");
    Fixture::new().owner.post("/agents", json!({"stableKey": "a", "name": "A"})).ok();
    // It never changes.
    acme.owner.patch("/agents/a", json!({"stableKey": "b"})).invalid(&["stableKey"]);
    let patched = acme.owner.patch("/agents/a", json!({"name": "B"})).ok();
    assert_eq!(pick(&patched, "stableKey name"), json!(["a", "B"]));
    acme.owner.delete("/agents/a").ok();
    acme.owner.get("/agents/a").refused(404, "not_found");
    make("a").ok();
}

#[test]
fn a_patch_of_the_draft_leaves_what_it_does_not_name() {
    let acme = Fixture::new();
    let tool = acme.owner.post("/tools", json!({"name": "t", "type": "mcp"})).id();
    let draft = json!({
        "model": "m", "promptName": "p", "variables": {"A": "1", "B": "2"},
        "toolRefs": [{"toolId": tool}], "providerConfig": {"deep": {"null": null}},
    });
    agent(&acme, json!({"stableKey": "ann", "name": "Ann", "draft": draft})).ok();
    let patch = |draft: Value| acme.owner.patch("/agents/ann", json!({"draft": draft})).ok();

    let same = patch(json!({"model": "m", "promptName": "p"}));
    assert_eq!(same["draftRevision"], 1);
    let changed = patch(json!({"promptName": null, "variables": {"C": "3"}}));
    assert_eq!(changed["draftRevision"], 2);
    let draft = &changed["draft"];
    assert_eq!(pick(draft, "model promptName variables"), json!(["m", null, {"C": "3"}]));
    assert_eq!(draft["toolRefs"], json!([{"toolId": tool, "version": null}]));
    assert_eq!(draft["providerConfig"], json!({"deep": {"null": null}}));
    // The name alone does not touch the draft.
    assert_eq!(acme.owner.patch("/agents/ann", json!({"name": "B"})).ok()["draftRevision"], 2);

    let refused = |draft: Value| acme.owner.patch("/agents/ann", json!({"draft": draft}));
    refused(json!({"variables": {"1": "x"}})).invalid(&["draft.variables.1"]);
    refused(json!({"toolRefs": [{"toolId": tool}, {}]})).invalid(&["draft.toolRefs[1].toolId"]);
    refused(json!({"toolRefs": [{"toolId": unknown_id()}]})).refused(404, "not_found");
    let version = json!({"toolRefs": [{"toolId": tool, "version": "9.9.9"}]});
    refused(version).refused(404, "not_found");
    let fleet = acme.owner.patch("/agents/ann", json!({"fleetId": unknown_id()}));
    fleet.refused(404, "not_found");
}

#[test]
fn a_version_is_the_draft_exactly_as_it_was() {
    let acme = Fixture::new();
    let draft = json!({"model": "m", "providerConfig": {"b": null, "a": [1, {"c": null}]}});
    let made = agent(&acme, json!({"stableKey": "ann", "name": "Ann", "draft": draft})).ok();
    let snapshot = || acme.owner.post("/agents/ann/versions", json!({})).ok();
    let first = snapshot();
    assert_eq!(first["config"], made["draft"]);
    // Order and nulls included.
    let text = acme.owner.get("/agents/ann/versions/1").text();
    assert!(text.contains(r#""providerConfig":{"b":null,"a":[1,{"c":null}]}"#), "{text}");
    acme.owner.patch("/agents/ann", json!({"draft": {"model": "n"}})).ok();
    let create = |body: Value| acme.owner.post("/agents/ann/versions", body);
    create(json!({"message": ""})).invalid(&["message"]);
    create(json!({"message": "x".repeat(501)})).invalid(&["message"]);
    let second = create(json!({"message": "Faster."})).ok();
    assert_eq!(pick(&second, "version stableKey message"), json!([2, "ann", "Faster."]));
    assert_ne!(first["hash"], second["hash"]);
    assert_eq!(acme.owner.get("/agents/ann/versions/1").ok(), first);
    assert_eq!(acme.owner.get("/agents/ann").ok()["latestVersion"], 2);

    let diff = acme.owner.get("/agents/ann/versions/diff?from=1&to=2").ok();
    let changes = json!([{"path": "model", "from": "m", "to": "n"}]);
    let expected = json!({"from": 1, "to": 2, "fromMessage": null, "toMessage": "Faster.",
        "changes": changes});
    assert_eq!(diff, expected);
    let restored = acme.owner.post("/agents/ann/versions/1/restore", json!({})).ok();
    assert_eq!(restored["draft"], first["config"]);
    assert_eq!(pick(&restored, "draftRevision latestVersion"), json!([3, 2]));
    assert_eq!(snapshot()["hash"], first["hash"]);
    let listed = acme.owner.get("/agents/ann/versions").items();
    assert_eq!(listed.iter().map(|v| &v["version"]).collect::<Vec<_>>(), [3, 2, 1]);

    for none in ["0", "4", "01", "1.0", "x", "-1", "99999999999", "%31a"] {
        acme.owner.get(&format!("/agents/ann/versions/{none}")).refused(404, "not_found");
        let diff = acme.owner.get(&format!("/agents/ann/versions/diff?from=1&to={none}"));
        diff.refused(404, "not_found");
        let restore = acme.owner.post(&format!("/agents/ann/versions/{none}/restore"), json!({}));
        restore.refused(404, "not_found");
    }
    acme.owner.get("/agents/ann/versions/diff").invalid(&["from", "to"]);
}

#[test]
fn concurrent_versions_are_numbered_without_gaps() {
    let acme = Fixture::new();
    agent(&acme, json!({"stableKey": "ann", "name": "Ann"})).ok();
    let made = at_once(32, |_| acme.owner.post("/agents/ann/versions", json!({})).ok());
    let numbers: BTreeSet<_> = made.iter().map(|made| made["version"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=32).collect());
    assert_eq!(acme.owner.get("/agents/ann").ok()["latestVersion"], 32);
    assert_eq!(acme.owner.walk("/agents/ann/versions", 9).len(), 32);
}

#[test]
fn agents_are_filtered() {
    let acme = Fixture::new();
    agent(&acme, json!({"stableKey": "ann", "name": "Ann"})).ok();
    let count = |query: &str| acme.owner.get(&format!("/agents?{query}")).items().len();
    assert_eq!(count("status=undeployed"), 1);
    assert_eq!(count("status=error"), 0);
    assert_eq!(count(&format!("fleetId={}", unknown_id())), 0);
    acme.owner.get("/agents?status=happy").invalid(&["status"]);
}
