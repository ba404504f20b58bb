//! Tools and their versions (reference: agents, "Tools").

use serde_json::{Value, json};

use crate::client::{Caller, pick};
use crate::fixture::{Fixture, key_of, unknown_id};

fn tool(acme: &Fixture) -> String {
    format!("/tools/{}", acme.owner.post("/tools", json!({"name": "t", "type": "function"})).id())
}

fn environment(acme: &Fixture, slug: &str) -> String {
    acme.owner.post("/environments", json!({"slug": slug, "name": slug})).id()
}

#[test]
fn a_tool_has_every_field_and_its_bounds() {
    let acme = Fixture::new();
    let config = json!({"openai": {"b": 1, "a": null}});
    let body = json!({
        "name": "t", "type": "anything at all", "version": "0.1.20", "providerConfig": config,
        "description": "", "prompt": "p",
    });
    let made = acme.member.post("/tools", body).ok();
    let some = pick(&made, "name type version providerConfig description prompt createdBy");
    assert_eq!(some, json!(["t", "anything at all", "0.1.20", config, "", "p", acme.member_id]));
    let with = |field: &str, value: Value| {
        let mut body = json!({"name": "t", "type": "x"});
        body[field] = value;
        acme.owner.post("/tools", body)
    };
    with("prompt", json!("ä".repeat(153_600))).ok();
    with("prompt", json!("ä".repeat(153_601))).invalid(&["prompt"]);
    with("type", json!("x".repeat(65))).invalid(&["type"]);
    with("type", json!("")).invalid(&["type"]);
    with("description", json!("x".repeat(10_001))).invalid(&["description"]);
    with("providerConfig", json!([])).invalid(&["providerConfig"]);
    for bad in ["1", "1.0", "1.0.0.0", "v1.0.0", "1.0.0-rc", "", "1.0.x"] {
        with("version", json!(bad)).invalid(&["version"]);
    }
}

#[test]
fn a_patch_updates_the_given_fields_only() {
    let acme = Fixture::new();
    let path = tool(&acme);
    let before = acme.owner.get(&path).ok();
    assert_eq!(acme.owner.patch(&path, json!({})).ok(), before);
    let patch = json!({"name": "n", "description": "d", "prompt": "p", "providerConfig": {"a": 1}});
    let after = acme.owner.patch(&path, patch).ok();
    assert_eq!(pick(&after, "name description prompt type"), json!(["n", "d", "p", "function"]));
    let cleared = json!({"name": null, "description": null, "prompt": null});
    let after = acme.owner.patch(&path, cleared).ok();
    let some = pick(&after, "name description prompt providerConfig");
    assert_eq!(some, json!(["n", null, null, {"a": 1}]));
}

#[test]
fn a_version_only_increases_and_keeps_the_state_of_the_tool() {
    let acme = Fixture::new();
    let path = tool(&acme);
    let patch = |body: Value| acme.owner.patch(&path, body);
    assert_eq!(patch(json!({"bumpVersion": "patch"})).ok()["version"], "1.0.1");
    assert_eq!(patch(json!({"bumpVersion": "minor"})).ok()["version"], "1.1.0");
    assert_eq!(patch(json!({"bumpVersion": "major"})).ok()["version"], "2.0.0");
    assert_eq!(patch(json!({"version": "2.10.0"})).ok()["version"], "2.10.0");
    patch(json!({"version": "2.9.9"})).refused(409, "tool_version_earlier");
    patch(json!({"version": "3.0.0", "bumpVersion": "major"})).invalid(&["bumpVersion"]);
    patch(json!({"bumpVersion": "huge"})).invalid(&["bumpVersion"]);
    patch(json!({"version": "2.10.0", "name": "renamed"})).ok();
    let rows = acme.owner.get(&format!("{path}/versions")).items();
    let rows: Vec<_> = rows.iter().map(|row| pick(row, "version name")).collect();
    let expected = [["2.10.0", "renamed"], ["2.0.0", "t"], ["1.1.0", "t"], ["1.0.1", "t"]];
    assert_eq!(rows[..4], expected.map(|row| json!(row)));
    assert_eq!(rows[4], json!(["1.0.0", "t"]));
}

#[test]
fn environments_move_to_the_new_version_all_or_none() {
    let acme = Fixture::new();
    let path = tool(&acme);
    let id = path.strip_prefix("/tools/").unwrap();
    let (dev, test) = (environment(&acme, "dev"), environment(&acme, "test"));
    let version_in = |environment: &str| {
        let environment = acme.owner.get(&format!("/environments/{environment}")).ok();
        environment["toolVersions"][id].clone()
    };
    let patch = |names: Value| {
        let body = json!({"bumpVersion": "minor", "updateEnvironmentVersions": names});
        acme.owner.patch(&path, body)
    };
    // By slug and by id, also twice the same.
    patch(json!(["dev", dev, test])).ok();
    assert_eq!([version_in(&dev), version_in(&test)], ["1.1.0", "1.1.0"]);
    patch(json!(["dev"])).ok();
    assert_eq!([version_in(&dev), version_in(&test)], ["1.2.0", "1.1.0"]);
    for unknown in ["nowhere", &unknown_id(), "NO SLUG", ""] {
        patch(json!(["test", unknown])).refused(404, "not_found");
    }
    let there = Fixture::new();
    patch(json!(["test", environment(&there, "theirs")])).refused(404, "not_found");
    assert_eq!([version_in(&dev), version_in(&test)], ["1.2.0", "1.1.0"]);
    assert_eq!(acme.owner.get(&path).ok()["version"], "1.2.0");

    let approvals = json!({"approvals": {"approverIds": [acme.owner_id]}});
    acme.owner.patch(&format!("/environments/{test}"), approvals).ok();
    patch(json!(["dev", "test"])).refused(409, "approval_required");
    assert_eq!(version_in(&dev), "1.2.0");
    // The reference is set where nothing else changes, and goes with the tool.
    acme.owner.patch(&path, json!({"updateEnvironmentVersions": []})).ok();
    acme.owner.delete(&path).refused(409, "tool_in_use");
    acme.owner.patch(&format!("/environments/{test}"), json!({"approvals": null})).ok();
    acme.owner.delete(&path).ok();
    assert_eq!([version_in(&dev), version_in(&test)], [Value::Null, Value::Null]);
}

#[test]
fn without_an_org_slug_the_tool_decides() {
    let acme = Fixture::new();
    let path = tool(&acme);
    let patch = |caller: &Caller| caller.ask("PATCH", &path).json(&json!({"name": "n"})).send();
    for caller in [&acme.key, &acme.member, &key_of(&acme.member)] {
        assert_eq!(patch(caller).ok()["name"], "n");
    }
    // A user of two organizations finds the tools of both.
    let other = Fixture::new();
    other.admit(roadstead::base::Id::parse(&acme.owner_id));
    let theirs = tool(&other);
    let found = acme.owner.ask("PATCH", &theirs).json(&json!({})).send();
    assert_eq!(found.id(), theirs.strip_prefix("/tools/").unwrap());
    // A key is for one of them alone.
    for caller in [&acme.key, &acme.member] {
        let reply = caller.ask("PATCH", &theirs).json(&json!({})).send();
        reply.refused(404, "not_found");
        let never = caller.ask("PATCH", &format!("/tools/{}", unknown_id())).json(&json!({}));
        assert_eq!(reply.likeness(), never.send().likeness());
    }
    let named = acme.key.about(&other.slug).patch(&theirs, json!({}));
    named.refused(404, "organization_not_found");
    acme.anonymous.ask("PATCH", &path).json(&json!({})).send().refused(401, "unauthenticated");
}

#[test]
fn the_known_types_are_listed() {
    let acme = Fixture::new();
    let types = acme.member.get("/tools/types").items();
    let types: Vec<_> = types.iter().map(|kind| kind["type"].as_str().unwrap()).collect();
    for known in ["function", "mcp", "http"] {
        assert!(types.contains(&known), "{types:?}");
    }
}
