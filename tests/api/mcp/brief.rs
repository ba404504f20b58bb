//! Answers of tools fit into the context of a model, and say what is left out.

use roadstead::api::Method;
use roadstead::mcp::tools;
use serde_json::{Value, json};

use super::Client;
use crate::deployments::{deployed, fill};
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
    let end = "; a smaller limit shows more, and the HTTP API all: GET /teams/{teamId}/messages]";
    assert!(text.ends_with(end), "{text}");
    let one = json!({"teamId": team, "agentId": agent, "limit": 1});
    assert_eq!(called(&client, "message_list", one)["items"][0]["body"], long.as_str());
}

#[test]
fn whatever_is_cut_names_a_call_that_has_the_whole_and_writes_nothing() {
    let crew = Crew::new();
    let client = Client::modern(&crew.acme.key);
    let team = &crew.team;
    let agent = crew.hire("ann");
    let long = "語".repeat(30_000);
    let new = json!({"teamId": team, "title": "Long", "description": long});
    let task = called(&client, "task_create", new);
    let text = task["description"].as_str().unwrap();
    assert!(text.ends_with(" of 30000 characters left out; it is stored whole, see task_get]"));
    let one = called(&client, "task_get", json!({"teamId": team, "taskId": task["id"]}));
    let text = one["description"].as_str().unwrap();
    assert!(
        text.ends_with("; the HTTP API has all: GET /teams/{teamId}/tasks/{taskId}]"),
        "{text}"
    );
    assert_eq!(
        crew.get(&format!("/tasks/{}", task["id"].as_str().unwrap())).ok()["description"],
        long
    );

    crew.post("/messages", json!({"toAgentId": agent, "body": long})).ok();
    for limit in [1, 50] {
        let one = json!({"teamId": team, "agentId": agent, "limit": limit});
        let list = called(&client, "message_list", one);
        let text = list["items"][0]["body"].as_str().unwrap();
        assert!(text.ends_with("; the HTTP API has all: GET /teams/{teamId}/messages]"), "{text}");
    }
    // The tools that are named are there, and change nothing.
    for tool in tools() {
        let other = tool.whole_in.map(|name| tools().iter().find(|other| other.name == name));
        assert!(other.is_none_or(|other| other.unwrap().method == Method::Get), "{}", tool.name);
    }
}

#[test]
fn of_the_answer_of_a_model_that_is_cut_no_place_is_named() {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    publish(&acme, ["main", "prompt", "hello", "1.0.0"], "Write.");
    let model = crate::llm_providers::saying(Box::leak("語".repeat(30_000).into_boxed_str()));
    let provider = crate::llm_providers::connected(&acme, &model);
    acme.admin.patch(&format!("/llm-providers/{provider}"), json!({"isDefault": true})).ok();
    let client = Client::modern(&acme.key);
    let tried = json!({"registryRef": format!("{}/main", acme.slug), "promptName": "hello"});
    let said = called(&client, "prompt_try", tried);
    let text = said["text"].as_str().unwrap();
    assert!(text.ends_with(" of 30000 characters left out; the rest is not kept]"), "{text}");
}

#[test]
fn as_many_wakes_as_a_page_has_are_taken_whole() {
    let crew = Crew::new();
    let client = Client::modern(&crew.acme.key);
    let agent = crew.hire("ann");
    for nth in 0..200 {
        crew.post("/messages", json!({"toAgentId": agent, "body": format!("{nth}")})).ok();
    }
    let wait = json!({"teamId": crew.team, "agentId": agent, "limit": 200});
    let wakes = called(&client, "wake_wait", wait);
    let items = wakes["items"].as_array().unwrap();
    assert_eq!(items.len(), 200);
    let ids: Vec<&Value> = items.iter().map(|wake| &wake["id"]).collect();
    let acknowledge = json!({"teamId": crew.team, "agentId": agent, "wakeIds": ids});
    assert_eq!(called(&client, "wake_acknowledge", acknowledge), json!({"acknowledged": 200}));
    // One with the longest reason and two ids, as those about messages on tasks have, would fit as well.
    let longest = json!({"reason": "dependency_cancelled", "attempts": u32::MAX,
        "createdAt": items[0]["createdAt"], "id": items[0]["id"], "taskId": items[0]["id"],
        "messageId": items[0]["id"], "peerId": null, "logId": null, "scheduleId": null,
        "text": null, "nextAttemptAt": items[0]["createdAt"], "failedAgentId": null});
    assert_eq!(longest.as_object().unwrap().len(), items[0].as_object().unwrap().len());
    assert!(200 * (longest.to_string().len() + 1) < 74_000, "{longest}");
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
    let is_cut = |name: &str| {
        let arguments = json!({"registryRef": "main", "promptName": name});
        let result =
            client.result("tools/call", json!({"name": "prompt_get", "arguments": arguments}));
        result["_meta"]["roadstead/cut"] == true
    };
    assert!(is_cut("longer") && !is_cut("long"), "programs are told, too");
}

#[test]
fn what_is_to_run_is_whole_or_refused() {
    let acme = Fixture::new();
    fill(&acme, &["scribe"]);
    let long = format!("{{{{NAME}}}} {}", "語".repeat(30_000));
    publish(&acme, ["main", "prompt", "hello", "2.0.0"], &long);
    deployed(&acme, &["scribe"], json!({}));
    let client = Client::modern(&acme.key);
    let arguments = json!({"stableKey": "scribe", "environment": "dev"});
    let result =
        client.result("tools/call", json!({"name": "deployed_get", "arguments": arguments}));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(result["isError"], true, "{text}");
    assert!(text.contains("GET /api/agents/{stableKey}/deployed"), "{text}");
}
