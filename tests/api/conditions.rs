//! `ETag`, `If-None-Match` and `If-Match` (reference: conventions, "Conditional requests").

use serde_json::json;

use crate::client::{Reply, at_once};
use crate::fixture::Fixture;

fn a_tool(acme: &Fixture) -> (String, String) {
    let id = acme.owner.post("/tools", json!({"name": "a", "type": "function"})).id();
    let path = format!("/tools/{id}");
    let tag = acme.owner.get(&path).header("etag").unwrap().to_string();
    (path, tag)
}

#[test]
fn a_resource_has_a_strong_etag_that_changes_with_it() {
    let acme = Fixture::new();
    let (path, tag) = a_tool(&acme);
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    assert_eq!(acme.member.get(&path).header("etag"), Some(tag.as_str()));
    acme.owner.patch(&path, json!({})).ok();
    assert_eq!(acme.owner.get(&path).header("etag"), Some(tag.as_str()));
    acme.owner.patch(&path, json!({"name": "b"})).ok();
    assert_ne!(acme.owner.get(&path).header("etag"), Some(tag.as_str()));
    assert_eq!(acme.owner.get("/tools").header("etag"), None);
    assert_eq!(acme.owner.get("/tools/none").header("etag"), None);
}

#[test]
fn a_matching_if_none_match_gets_304_without_a_body() {
    let acme = Fixture::new();
    let (path, tag) = a_tool(&acme);
    let get = |value: &str| {
        acme.owner.ask("GET", &acme.owner.in_org(&path)).with("If-None-Match", value).send()
    };
    for value in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".into()] {
        let reply = get(&value);
        assert_eq!((reply.status, reply.body.len()), (304, 0), "{value}");
        assert_eq!(reply.header("etag"), Some(tag.as_str()));
        assert!(reply.header("x-request-id").is_some());
    }
    for value in ["\"x\"", "", "nonsense", &tag[1..]] {
        assert_eq!(get(value).status, 200, "{value}");
    }
    acme.owner.patch(&path, json!({"name": "b"})).ok();
    assert_eq!(get(&tag).ok()["name"], "b");
}

#[test]
fn an_update_with_a_stale_if_match_is_refused() {
    let acme = Fixture::new();
    let (path, tag) = a_tool(&acme);
    let patch = |value: &str, name: &str| -> Reply {
        let ask = acme.owner.ask("PATCH", &path).with("If-Match", value);
        ask.org_json(json!({"name": name})).send()
    };
    assert_eq!(patch(&tag, "b").ok()["name"], "b");
    patch(&tag, "c").refused(412, "changed_meanwhile");
    for bad in ["", "nonsense", &format!("W/{tag}")] {
        patch(bad, "c").refused(412, "changed_meanwhile");
    }
    assert_eq!(patch("*", "d").ok()["name"], "d");
    let now = acme.owner.get(&path);
    let now = now.header("etag").unwrap();
    // A weak tag never matches, not even that of the current state.
    for weak in [format!("W/{now}"), format!("\"x\", W/{now}"), format!("w/{now}")] {
        patch(&weak, "c").refused(412, "changed_meanwhile");
    }
    assert_eq!(patch(&format!("\"x\", {now}"), "e").ok()["name"], "e");

    let delete = |value: &str| {
        acme.owner.ask("DELETE", &acme.owner.in_org(&path)).with("If-Match", value).send()
    };
    delete(now).refused(412, "changed_meanwhile");
    let now = acme.owner.get(&path);
    delete(now.header("etag").unwrap()).ok();
    delete(now.header("etag").unwrap()).refused(404, "not_found");
}

#[test]
fn of_concurrent_updates_with_one_etag_one_succeeds() {
    let acme = Fixture::new();
    let (path, tag) = a_tool(&acme);
    let replies = at_once(16, |n| {
        let ask = acme.owner.ask("PATCH", &path).with("If-Match", &tag);
        ask.org_json(json!({"name": format!("n{n}")})).send()
    });
    let done: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
    assert_eq!(done.len(), 1);
    assert_eq!(replies.iter().filter(|reply| reply.status == 412).count(), 15);
    assert_eq!(acme.owner.get(&path).ok()["name"], done[0].ok()["name"]);
}

#[test]
fn if_match_applies_to_a_registry_whose_organization_is_in_the_body() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let tag = acme.owner.get("/registries/main").header("etag").unwrap().to_string();
    let patch = |name: &str| {
        let ask = acme.owner.ask("PATCH", "/registries/main").with("If-Match", &tag);
        ask.org_json(json!({"name": name})).send()
    };
    assert_eq!(patch("b").ok()["name"], "b");
    patch("c").refused(412, "changed_meanwhile");
}

#[test]
fn a_put_with_if_none_match_sets_only_what_is_not_there() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let path = "/registries/main/protected-labels/production";
    let set = |role: &str| {
        let ask = acme.owner.ask("PUT", path).with("If-None-Match", "*");
        ask.org_json(json!({"minRole": role})).send()
    };
    assert_eq!(set("owner").ok()["minRole"], "owner");
    set("member").refused(412, "exists_already");
    assert_eq!(acme.owner.get(path).ok()["minRole"], "owner");
    acme.owner.put(path, json!({"minRole": "admin"})).ok();
}
