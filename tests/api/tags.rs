//! Tags of artifacts, agents and tools, and lists that are filtered by them (reference: conventions,
//! "Tags").

use serde_json::{Value, json};

use crate::client::{Caller, Reply};
use crate::fixture::Fixture;
use crate::registries::registry;

/// Publishes a version of a prompt in `main`.
fn publish(acme: &Fixture, name: &str, version: &str, tags: Option<Value>) -> Value {
    let mut body = json!({"registryRef": format!("{}/main", acme.slug), "artifactType": "prompt",
        "name": name, "version": version, "source": "Hi"});
    if let Some(tags) = tags {
        body["tags"] = tags;
    }
    acme.member.post("/registries/artifacts", body).ok()
}

fn retag(acme: &Fixture, name: &str, tags: Value, from: Option<Value>) -> Reply {
    let mut body = json!({"registryRef": format!("{}/main", acme.slug), "promptName": name,
        "tags": tags});
    if let Some(from) = from {
        body["from"] = from;
    }
    acme.member.patch("/registries/artifacts", body)
}

/// The lists, each with the field that names what is in it.
fn lists(acme: &Fixture) -> [(String, &'static str); 3] {
    let artifacts = format!("/registries/artifacts?registryRef={}/main&", acme.slug);
    [("/agents?".into(), "name"), ("/tools?".into(), "name"), (artifacts, "name")]
}

/// The names in a list, in its order.
fn names(who: &Caller, path: &str, field: &str) -> Vec<String> {
    let items = who.get(path).items();
    items.iter().map(|item| item[field].as_str().unwrap().to_string()).collect()
}

/// Makes an agent, a tool and a prompt of each name with these tags.
fn fill(acme: &Fixture, all: &[(&str, Value)]) {
    registry(acme, "main", json!({}));
    for (name, tags) in all {
        let agent = json!({"stableKey": name, "name": name, "tags": tags});
        assert_eq!(acme.member.post("/agents", agent).ok()["tags"], *tags);
        let tool = json!({"name": name, "type": "http", "tags": tags});
        assert_eq!(acme.member.post("/tools", tool).ok()["tags"], *tags);
        publish(acme, name, "1.0.0", Some(tags.clone()));
    }
}

#[test]
fn lists_have_what_has_all_tags_in_any_case_and_in_their_order() {
    let acme = Fixture::new();
    fill(
        &acme,
        &[
            ("a", json!(["Größe", "beta"])),
            ("b", json!(["BETA"])),
            ("c", json!(["betamax"])),
            ("d", json!([])),
            ("e", json!(["gamma", "Beta", "groesse"])),
        ],
    );
    for (list, field) in lists(&acme) {
        let found = |query: &str| names(&acme.member, &format!("{list}{query}"), field);
        assert_eq!(found("tag=beta"), ["e", "b", "a"], "{list}");
        assert_eq!(found("tag=gr%C3%B6sse&tag=BETA"), ["a"], "{list}");
        assert_eq!(found("tag=GAMMA&tag=beta"), ["e"], "{list}");
        assert_eq!(found("tag=bet"), [""; 0], "{list}");
        assert_eq!(found("tag=beta&tag=none"), [""; 0], "{list}");
        assert_eq!(found("").len(), 5, "{list}");
        // Page by page.
        let mut paged = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = acme.member.get(&format!("{list}tag=beta&limit=1{cursor}")).ok();
            let items = page["items"].as_array().unwrap();
            paged.extend(items.iter().map(|item| item[field].as_str().unwrap().to_string()));
            let Some(next) = page["nextCursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(paged, ["e", "b", "a"], "{list}");
    }
}

#[test]
fn tags_go_with_other_filters() {
    let acme = Fixture::new();
    fill(&acme, &[("a", json!(["x"])), ("b", json!(["x"]))]);
    let fleet = acme.owner.post("/fleets", json!({"name": "F"})).id();
    acme.member.patch("/agents/a", json!({"fleetId": fleet})).ok();
    let agents = |query: &str| names(&acme.member, &format!("/agents?tag=x&{query}"), "name");
    assert_eq!(agents(&format!("fleetId={fleet}")), ["a"]);
    assert_eq!(agents("status=undeployed"), ["b", "a"]);
    assert_eq!(agents("status=deployed"), [""; 0]);
    acme.member.post("/tools", json!({"name": "c", "type": "mcp", "tags": ["x"]})).ok();
    assert_eq!(names(&acme.member, "/tools?tag=X&type=mcp", "name"), ["c"]);
    let artifacts = |query: &str| {
        let path = format!("/registries/artifacts?registryRef={}/main&tag=x&{query}", acme.slug);
        names(&acme.member, &path, "name")
    };
    assert_eq!(artifacts("artifactType=prompt"), ["b", "a"]);
    assert_eq!(artifacts("artifactType=promptlet"), [""; 0]);
    assert_eq!(artifacts("promptName=a"), ["a"]);
    assert_eq!(artifacts("promptName=a&tag=y"), [""; 0]);
}

#[test]
fn a_change_of_tags_changes_what_is_found_and_nothing_else() {
    let acme = Fixture::new();
    fill(&acme, &[("a", json!(["old"]))]);
    let tool = acme.member.get("/tools").items()[0].clone();
    let path = format!("/tools/{}", tool["id"].as_str().unwrap());
    let versions = format!("{path}/versions");
    let before = acme.member.get(&versions).items();
    let revision = acme.member.get("/agents/a").ok()["draftRevision"].clone();
    for path in ["/agents/a", &path] {
        let changed = acme.member.patch(path, json!({"tags": ["new", "old"]})).ok();
        assert_eq!(changed["tags"], json!(["new", "old"]));
        assert_eq!(acme.member.patch(path, json!({"name": "b"})).ok()["tags"], changed["tags"]);
        acme.member.patch(path, json!({"name": "a", "tags": ["New"]})).ok();
    }
    assert_eq!(acme.member.get("/agents/a").ok()["draftRevision"], revision);
    assert_eq!(acme.member.get(&versions).items().len(), before.len());
    assert_eq!(retag(&acme, "a", json!(["New"]), None).ok()["tags"], json!(["New"]));
    for (list, field) in lists(&acme) {
        let found = |query: &str| names(&acme.member, &format!("{list}{query}"), field);
        assert_eq!((found("tag=new").len(), found("tag=old").len()), (1, 0), "{list}");
    }
    acme.member.delete("/agents/a").ok();
    assert_eq!(names(&acme.member, "/agents?tag=new", "name"), [""; 0]);
}

#[test]
fn tags_alone_make_no_other_state_of_a_tools_version() {
    let acme = Fixture::new();
    let tool = acme.owner.post("/tools", json!({"name": "t", "type": "http"})).id();
    let versions = format!("/tools/{tool}/versions");
    let before = acme.member.get(&versions).items();
    acme.member.patch(&format!("/tools/{tool}"), json!({"tags": ["x"]})).ok();
    assert_eq!(acme.member.get(&versions).items(), before);
}

#[test]
fn an_artifact_keeps_its_tags_through_versions_labels_and_clones() {
    let acme = Fixture::new();
    fill(&acme, &[("a", json!(["x", "Y"]))]);
    publish(&acme, "a", "1.1.0", Some(json!(["other"])));
    let label = json!({"registryRef": format!("{}/main", acme.slug), "promptName": "a",
        "label": "live", "version": "1.1.0"});
    let moved = acme.member.patch("/registries/artifacts/labels", label).ok();
    assert_eq!(moved["tags"], json!(["x", "Y"]), "an artifact that exists keeps its own");
    publish(&acme, "b", "1.0.0", None);
    for (name, expected) in [("c", json!(["x", "Y"])), ("b", json!([]))] {
        let body = json!({"registryRef": format!("{}/main", acme.slug), "promptName": "a",
            "version": "1.1.0", "to": {"promptName": name, "version": "2.0.0"}});
        acme.member.post("/registries/artifact-versions/clone", body).ok();
        let path =
            format!("/registries/artifacts?registryRef={}/main&promptName={name}", acme.slug);
        assert_eq!(acme.member.get(&path).items()[0]["tags"], expected, "{name}");
    }
    let (list, field) = &lists(&acme)[2];
    assert_eq!(names(&acme.member, &format!("{list}tag=y"), field), ["c", "a"]);
    let label = format!("registryRef={}/main&promptName=a&label=live", acme.slug);
    acme.member.delete(&format!("/registries/artifacts/labels?{label}")).ok();
    let version = format!("registryRef={}/main&promptName=a&version", acme.slug);
    for number in ["1.0.0", "1.1.0"] {
        let path = format!("/registries/artifact-versions?{version}={number}");
        acme.member.delete(&path).ok();
    }
    assert_eq!(names(&acme.member, &format!("{list}tag=y"), field), ["c"]);
}

#[test]
fn tags_that_somebody_else_has_changed_are_not_overwritten() {
    let acme = Fixture::new();
    fill(&acme, &[("a", json!(["x"]))]);
    retag(&acme, "a", json!(["y"]), Some(json!(["x"]))).ok();
    retag(&acme, "a", json!(["z"]), Some(json!(["x"]))).refused(409, "tags_changed");
    retag(&acme, "a", json!(["y"]), Some(json!(["x"]))).ok(); // The same request again.
    retag(&acme, "none", json!([]), None).refused(404, "not_found");
}

#[test]
fn too_many_too_long_and_repeated_tags_are_refused() {
    let acme = Fixture::new();
    fill(&acme, &[("a", json!([]))]);
    let many = |count: usize| json!((0..count).map(|n| format!("t{n}")).collect::<Vec<_>>());
    let bad = [
        (many(21), "tags"),
        (json!(["x".repeat(51)]), "tags[0]"),
        (json!([""]), "tags[0]"),
        (json!(["a,b"]), "tags[0]"),
        (json!(["a", "b\u{200b}"]), "tags[1]"),
        (json!(["a", " b"]), "tags[1]"),
        (json!(["Größe", "GRÖSSE"]), "tags[1]"),
        (json!([1]), "tags[0]"),
    ];
    for (tags, path) in bad {
        acme.member.patch("/agents/a", json!({"tags": tags})).invalid(&[path]);
        let agent = json!({"stableKey": "b", "name": "B", "tags": tags});
        acme.member.post("/agents", agent).invalid(&[path]);
        let tool = json!({"name": "B", "type": "http", "tags": tags});
        acme.member.post("/tools", tool).invalid(&[path]);
        retag(&acme, "a", tags, None).invalid(&[path]);
    }
    let longest: Vec<String> = (0..20).map(|n| format!("{n:02}{}", "ß".repeat(48))).collect();
    acme.member.patch("/agents/a", json!({"tags": longest})).ok();
    retag(&acme, "a", json!(longest), None).ok();
    let all: String =
        longest.iter().map(|tag| format!("tag={}&", tag.replace('ß', "ss"))).collect();
    // As long as no tag is: "ss" are two letters.
    acme.member.get(&format!("/agents?{all}")).refused(400, "invalid_request");
    let all: String =
        longest.iter().map(|tag| format!("tag={}&", tag.replace('ß', "%C3%9F"))).collect();
    assert_eq!(names(&acme.member, &format!("/agents?{all}"), "name"), ["a"]);
    acme.member.get(&format!("/agents?{all}tag=one-more")).invalid(&["tag"]);
}

#[test]
fn what_one_may_not_use_is_in_no_list_by_tag() {
    let acme = Fixture::new();
    fill(&acme, &[("a", json!(["x"])), ("b", json!(["x"]))]);
    let fleet = json!({"name": "F", "access": "restricted"});
    let fleet = acme.owner.post("/fleets", fleet).id();
    acme.owner.patch("/agents/a", json!({"fleetId": fleet})).ok();
    assert_eq!(names(&acme.member, "/agents?tag=x", "name"), ["b"]);
    assert_eq!(names(&acme.owner, "/agents?tag=x", "name"), ["b", "a"]);
    acme.owner.patch("/registries/main", json!({"access": "restricted"})).ok();
    let path = format!("/registries/artifacts?registryRef={}/main&tag=x", acme.slug);
    assert_eq!(acme.member.get(&path).status, 403);
    assert_eq!(retag(&acme, "a", json!([]), None).status, 403);
    let other = Fixture::new();
    assert_eq!(names(&other.owner, "/agents?tag=x", "name"), [""; 0]);
}

#[test]
fn an_artifact_says_who_changed_it_last_to_members_alone() {
    let acme = Fixture::new();
    registry(&acme, "main", json!({"visibility": "public"}));
    publish(&acme, "a", "1.0.0", None);
    let path = format!("/registries/artifacts?registryRef={}/main", acme.slug);
    let by = |who: &Caller| who.ask("GET", &path).send().items()[0]["updatedBy"].clone();
    let member = json!(acme.member_id);
    assert_eq!(by(&acme.member), member);
    let tags = json!({"registryRef": format!("{}/main", acme.slug), "promptName": "a",
        "tags": ["x"]});
    acme.owner.patch("/registries/artifacts", tags).ok();
    assert_eq!(by(&acme.member), json!(acme.owner_id));
    let label = json!({"registryRef": format!("{}/main", acme.slug), "promptName": "a",
        "label": "live", "version": "1.0.0"});
    acme.member.patch("/registries/artifacts/labels", label).ok();
    assert_eq!(by(&acme.owner), member);
    assert_eq!(by(&acme.anonymous), json!(null));
}
