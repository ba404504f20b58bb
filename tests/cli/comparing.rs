//! `prompt inputs` and `prompt compare` (reference: registries-and-templates, "Inputs of a prompt").

use serde_json::json;

use crate::desk::Desk;
use crate::receiver::{Receiver, json_response};

/// A model that repeats what it was told first.
fn echo() -> Receiver {
    Receiver::responding(|request| {
        let said = request.json()["messages"][0]["content"].clone();
        json_response(200, &json!({"model": "small", "choices": [{"message": {"content": said}}]}))
    })
}

#[test]
fn a_file_that_is_worse_or_cannot_be_told_is_a_failure() {
    let desk = Desk::with(&["--allow-private-network", "127.0.0.0/8"]);
    desk.registry();
    let api = desk.api();
    let version = json!({"registryRef": "acme/main", "artifactType": "prompt", "name": "hello",
        "version": "1.0.0", "source": "Say hello to {{NAME}}."});
    api.post("/registries/artifacts", version).ok();
    let input = json!({"registryRef": "acme/main", "name": "first", "variables": {"NAME": "Ada"},
        "expect": {"contains": ["hello"]}});
    api.post("/prompts/hello/inputs", input).ok();
    let model = echo();
    let connect = |name: &str, url: &str, is_default: bool| {
        let provider = json!({"name": name, "provider": "custom", "baseUrl": url,
            "config": {"model": "small"}, "isDefault": is_default});
        api.post("/llm-providers", provider).id()
    };
    connect("Ours", &model.url, true);
    let listed = desk.run(&["prompt", "inputs", "main/hello"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(listed.stdout.contains("first") && listed.stdout.contains("\"hello\""), "{listed:?}");

    let same = desk.file("same.md", "Now say hello to {{NAME}}.\n");
    let compare = ["prompt", "compare", "main/hello", "1.0.0"];
    let with = |more: &[&str]| desk.run(&[&compare, more].concat());
    let good = with(&["--file", &same]);
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert!(good.stderr.contains("0 worse, 0 better, 1 the same, 0 unknown"), "{}", good.stderr);
    let worse = desk.file("worse.md", "Greet {{NAME}}.\n");
    let worse = with(&["--file", &worse]);
    assert_eq!(worse.code, Some(1));
    assert!(worse.stderr.contains("1 got worse"), "{}", worse.stderr);
    let failing = Receiver::responding(|_| json_response(500, &json!({"error": "down"})));
    let id = connect("Failing", &failing.url, false);
    for provider in [id.as_str(), "Failing"] {
        let unknown = with(&["--file", &same, "--provider", provider]);
        assert_eq!(unknown.code, Some(1));
        assert!(unknown.stderr.contains("1 cannot be told"), "{}", unknown.stderr);
    }
    let none = with(&["--file", &same, "--provider", "None"]);
    none.fails(1, "there is no LLM provider called \"None\"; there is: ");
    connect("Failing", &model.url, false);
    with(&["--file", &same, "--provider", "Failing"])
        .fails(1, "there is more than one LLM provider");
}
