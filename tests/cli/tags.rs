//! Tags on the command line, and in plain files (reference: conventions, "Tags"; plain-files).

use std::fs;

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::plain_files;

fn names(listed: &Value, field: &str) -> Vec<String> {
    let items = listed["items"].as_array().unwrap();
    items.iter().map(|item| item[field].as_str().unwrap().to_string()).collect()
}

#[test]
fn lists_are_filtered_by_tags() {
    let desk = Desk::new();
    desk.registry();
    let api = desk.api();
    for (key, tags) in [("ann", json!(["Docs", "weekly"])), ("bob", json!(["docs"]))] {
        api.post("/agents", json!({"stableKey": key, "name": key, "tags": tags})).ok();
        api.post("/tools", json!({"name": key, "type": "http", "tags": tags})).ok();
    }
    let agents = ["agent", "list", "--tag", "DOCS"];
    assert_eq!(names(&desk.json(&agents), "stableKey"), ["bob", "ann"]);
    let both = ["agent", "list", "--tag", "docs", "--tag", "weekly"];
    assert_eq!(names(&desk.json(&both), "stableKey"), ["ann"]);
    assert_eq!(names(&desk.json(&["agent", "list", "--tag", "docs,weekly"]), "stableKey"), ["ann"]);
    let tools = ["tool", "list", "--tag", "weekly", "--type", "http"];
    assert_eq!(names(&desk.json(&tools), "name"), ["ann"]);
    assert_eq!(names(&desk.json(&["tool", "list", "--type", "mcp"]), "name"), [""; 0]);
    let table = desk.run(&["tool", "list"]).stdout;
    assert!(table.contains("TAGS") && table.contains("Docs, weekly"), "{table}");
    desk.run(&["agent", "list", "--tag", &"x".repeat(51)]).fails(1, "at most 50 characters");
}

#[test]
fn prompts_are_tagged_and_listed_by_tags() {
    let desk = Desk::new();
    desk.registry();
    let file = desk.file("a.md", "Hello\n");
    let publish = ["prompt", "publish", "main/a", &file, "--bump", "minor", "--tag", "Docs"];
    desk.json(&publish);
    let other = desk.file("other.md", "Hello again\n");
    let again =
        desk.run(&["prompt", "publish", "main/a", &other, "--bump", "minor", "--tag", "new"]);
    assert!(again.stderr.contains("its tags stay as they were"), "{again:?}");
    desk.json(&["prompt", "publish", "main/b", &file, "--bump", "minor"]);
    let tagged = ["prompt", "list", "main", "--tag", "docs"];
    assert_eq!(names(&desk.json(&tagged), "name"), ["a"]);
    let set = desk.json(&["prompt", "tag", "main/b", "docs", "weekly"]);
    assert_eq!(set["tags"], json!(["docs", "weekly"]));
    assert_eq!(names(&desk.json(&tagged), "name"), ["b", "a"]);
    let none = desk.run(&["prompt", "tag", "main/b", "--none"]);
    assert_eq!((none.code, none.stdout.trim()), (Some(0), "no tags"));
    assert_eq!(names(&desk.json(&tagged), "name"), ["a"]);
    assert_eq!(desk.run(&["prompt", "tag", "main/b"]).code, Some(2));
    desk.run(&["prompt", "list", "--tag", "docs"]).fails(2, "registries have no tags");
}

#[test]
fn tags_are_pulled_planned_and_applied() {
    let desk = plain_files::desk();
    desk.registry();
    let api = desk.session();
    let prompt = |version: &str| {
        json!({"registryRef": "acme/main", "artifactType": "prompt", "name": "a",
            "version": version, "source": "Hi", "tags": ["B", "a"]})
    };
    api.post("/registries/artifacts", prompt("1.0.0")).ok();
    api.post("/registries/artifacts", prompt("1.1.0")).ok();
    api.post("/agents", json!({"stableKey": "ann", "name": "Ann", "tags": ["x"]})).ok();
    api.post("/tools", json!({"name": "T", "type": "http", "tags": ["y"]})).ok();
    let dir = desk.path("acme");
    let path = dir.to_str().unwrap();
    plain_files::json_of(&desk, &["pull", path]);
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap();
    let prompt = "registries/main/prompts/a.md";
    for (file, tags) in [
        (prompt, "tags=[\"B\",\"a\""),
        ("agents/ann.toml", "tags=[\"x\""),
        ("tools/t.toml", "\"y\""),
    ] {
        let text: String = read(file).split_whitespace().collect();
        assert!(text.contains(tags), "{text}");
    }
    let plan = || plain_files::json_of(&desk, &["plan", path])["steps"].clone();
    assert_eq!(plan(), json!([]));
    let write = |text: &str| fs::write(dir.join(prompt), text).unwrap();
    let file = |tags: &str| format!("+++\n{tags}version = \"1.1.0\"\n+++\nHi\n");
    let with = |tags: &str| file(&format!("tags = {tags}\n"));
    write(&file(""));
    assert_eq!(plan(), json!([]), "what no file says stays");
    write(&with("[\"c\"]"));
    assert_eq!(plan(), json!(["~ tags of prompt main/a: c"]));
    plain_files::json_of(&desk, &["apply", path]);
    let list = "/registries/artifacts?registryRef=acme/main";
    assert_eq!(api.get(list).items()[0]["tags"], json!(["c"]));
    assert_eq!(plan(), json!([]));
    write(&with("[]"));
    plain_files::json_of(&desk, &["apply", path]);
    assert_eq!(api.get(list).items()[0]["tags"], json!([]));
    write(&with("[\"c\", \"C\"]"));
    let refused = plain_files::in_session(&desk, &["plan", path]);
    refused.fails(2, "is the same tag as one before it");
}
