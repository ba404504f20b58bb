//! Answers of tools fit into the context of a model, and say what is left out.

use serde_json::{Value, json};

use super::Client;
use crate::fixture::Fixture;
use crate::registries::{publish, registry};
use crate::teams::Crew;

/// What an answer may take: 25,000 tokens, by the rule that the reference states.
fn assert_short(text: &str) {
    let thirds: usize = text.chars().map(|letter| if letter.is_ascii() { 1 } else { 3 }).sum();
    assert!(thirds <= 75_000, "{thirds} thirds of a token");
}

/// What a tool answers, as text and as JSON, which are the same.
fn called(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = client.result("tools/call", json!({"name": tool, "arguments": arguments}));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_short(text);
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
    result["structuredContent"].clone()
}

#[test]
fn a_list_of_long_texts_has_every_item_and_says_where_the_whole_is() {
    let crew = Crew::new();
    let client = Client::modern(&crew.acme.key);
    let team = &crew.team;
    let long = "Zwölf Boxkämpfer. ".repeat(2_200);
    let ids: Vec<String> = (0..20)
        .map(|nth| crew.task(json!({"title": format!("task {nth}"), "description": long})))
        .collect();
    let list = called(&client, "task_list", json!({"teamId": team}));
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), ids.len());
    for (item, id) in items.iter().zip(ids.iter().rev()) {
        assert_eq!(item["id"], id.as_str());
        let text = item["description"].as_str().unwrap();
        assert!(text.starts_with("Zwölf Boxkämpfer. "), "{text}");
        assert!(text.ends_with("of 39600 characters left out; task_get has all]"), "{text}");
    }
    let one = called(&client, "task_get", json!({"teamId": team, "taskId": ids[0]}));
    assert_eq!(one["description"], long.as_str());

    let agent = crew.hire("ann");
    for _ in 0..20 {
        crew.post("/messages", json!({"toAgentId": agent, "body": long})).ok();
    }
    let list = called(&client, "message_list", json!({"teamId": team, "agentId": agent}));
    assert_eq!(list["items"].as_array().unwrap().len(), 20);
    let text = list["items"][0]["body"].as_str().unwrap();
    assert!(text.ends_with("characters left out; a smaller limit shows more]"), "{text}");
    let one = json!({"teamId": team, "agentId": agent, "limit": 1});
    assert_eq!(called(&client, "message_list", one)["items"][0]["body"], long.as_str());
}

#[test]
fn a_prompt_is_one_text_and_one_that_is_too_long_says_so() {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    let long = "Write. ".repeat(10_000);
    publish(&acme, ["main", "prompt", "long", "1.0.0"], &long);
    publish(&acme, ["main", "prompt", "longer", "1.0.0"], &"語".repeat(30_000));
    let client = Client::modern(&acme.key);
    let get = |name: &str| {
        called(&client, "prompt_get", json!({"registryRef": "main", "promptName": name}))
    };
    let found = get("long");
    assert_eq!(found["compiled"], long.as_str());
    assert!(found.get("source").is_none());
    let cut = get("longer");
    let text = cut["compiled"].as_str().unwrap();
    assert!(text.starts_with("語語") && text.contains(" of 30000 characters left out"), "{text}");
    assert!(text.ends_with("GET /registries/artifact-versions/content]"), "{text}");
}
