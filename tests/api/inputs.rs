//! Inputs of prompts, two versions compared on them, and the policy that requires them
//! (reference: registries-and-templates, "Inputs of a prompt").

use serde_json::{Value, json};

use crate::client::{Reply, pick};
use crate::fixture::{Fixture, key_of};
use crate::llm_providers::connected;
use crate::receiver::{Receiver, json_response};
use crate::registries::{publish, registry};

pub fn acme() -> Fixture {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    acme
}

/// A body about `main`.
pub fn body(acme: &Fixture, mut fields: Value) -> Value {
    fields["registryRef"] = json!(format!("{}/main", acme.slug));
    fields
}

pub fn create(acme: &Fixture, fields: Value) -> Reply {
    acme.member.post("/prompts/p/inputs", body(acme, fields))
}

fn listed(acme: &Fixture) -> Vec<Value> {
    acme.member.get(&format!("/prompts/p/inputs?registryRef={}/main", acme.slug)).items()
}

/// A policy of `main` with these rules.
pub fn govern(acme: &Fixture, rules: Value) {
    let policy = json!({"name": "P", "severity": "error", "rules": rules});
    let policy = acme.admin.post("/governance/policies", policy).id();
    let assignments = format!("/governance/policies/{policy}/assignments");
    acme.admin.post(&assignments, body(acme, json!({}))).ok();
}

/// A model that repeats what it was told last, and says what it used.
pub fn echo() -> Receiver {
    Receiver::responding(|request| {
        let sent = request.json();
        let messages = sent["messages"].as_array().cloned().unwrap_or_default();
        let text: Vec<_> = messages.iter().filter_map(|one| one["content"].as_str()).collect();
        let choice = json!({"message": {"role": "assistant", "content": text.join(" | ")}});
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 5});
        json_response(200, &json!({"model": "small", "choices": [choice], "usage": usage}))
    })
}

pub fn compare(acme: &Fixture, provider: &str, mut fields: Value) -> Reply {
    fields["llmProviderId"] = json!(provider);
    acme.member.post("/prompts/p/compare", body(acme, fields))
}

#[test]
fn an_input_is_created_changed_and_deleted() {
    let acme = acme();
    let made = create(
        &acme,
        json!({"name": "first", "variables": {"A": "1"}, "message": "Hi.",
        "expect": {"contains": ["x"], "judge": "Is it kind?"}}),
    )
    .ok();
    let expected = json!(["first", "p", {"A": "1"}, "Hi.",
        {"contains": ["x"], "judge": "Is it kind?"}, acme.member_id]);
    assert_eq!(pick(&made, "name promptName variables message expect updatedBy"), expected);
    create(&acme, json!({"name": "first"})).refused(409, "input_exists");
    let one = "/prompts/p/inputs/first";
    let query = format!("?registryRef={}/main", acme.slug);
    assert_eq!(acme.member.get(&format!("{one}{query}")).ok(), made);
    assert_eq!(key_of(&acme.member).get(&format!("{one}{query}")).ok(), made);
    let patch = body(&acme, json!({"message": null, "expect": {}}));
    let changed = acme.member.patch(one, patch).ok();
    let expected = json!([{"A": "1"}, null, {"contains": [], "judge": null}]);
    assert_eq!(pick(&changed, "variables message expect"), expected);
    assert_eq!(listed(&acme), [changed]);
    let all = acme.member.get(&format!("/prompts/inputs{query}")).items();
    assert_eq!(all.len(), 1);
    acme.member.delete(&format!("{one}{query}")).ok();
    acme.member.delete(&format!("{one}{query}")).refused(404, "not_found");
    assert!(listed(&acme).is_empty());
}

#[test]
fn inputs_are_bounded_each_and_together() {
    let acme = acme();
    create(&acme, json!({"name": "A b"})).invalid(&["name"]);
    create(&acme, json!({"name": "a", "variables": {"a-b": "1"}})).invalid(&["variables"]);
    let two_lines = json!({"name": "a", "expect": {"contains": ["a\nb"]}});
    create(&acme, two_lines).invalid(&["expect.contains[0]"]);
    let large = |bytes: usize| json!({"A": "x".repeat(bytes - 1)});
    create(&acme, json!({"name": "a", "variables": large(16_385)})).invalid(&["variables"]);
    for n in 0..16 {
        create(&acme, json!({"name": format!("n{n}"), "variables": large(16_384)})).ok();
    }
    create(&acme, json!({"name": "more", "message": "x"})).refused(409, "inputs_full");
    let query = format!("?registryRef={}/main", acme.slug);
    acme.member.delete(&format!("/prompts/p/inputs/n0{query}")).ok();
    for n in 0..35 {
        create(&acme, json!({"name": format!("m{n}")})).ok();
    }
    create(&acme, json!({"name": "more"})).refused(409, "inputs_full");
    assert_eq!(listed(&acme).len(), 50);
}

#[test]
fn inputs_go_with_the_last_version() {
    let acme = acme();
    create(&acme, json!({"name": "first"})).ok();
    for version in ["1.0.0", "1.1.0"] {
        publish(&acme, ["main", "prompt", "p", version], "Hello.");
    }
    for (version, left) in [("1.0.0", 1), ("1.1.0", 0)] {
        let query = format!("registryRef={}/main&promptName=p&version={version}", acme.slug);
        acme.owner.delete(&format!("/registries/artifact-versions?{query}")).ok();
        assert_eq!(listed(&acme).len(), left, "{version}");
    }
}

#[test]
fn what_got_worse_is_told() {
    let acme = acme();
    let model = echo();
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Say hello to {{WHO}}.");
    publish(&acme, ["main", "prompt", "p", "1.1.0"], "Greet {{WHO}} and {{OTHER}}.");
    let sides = json!({"left": {"version": "1.0.0"}, "right": {"source": "Greet {{WHO}}."}});
    compare(&acme, &provider, sides.clone()).refused(409, "no_inputs");
    let variables = json!({"WHO": "Ada"});
    create(
        &acme,
        json!({"name": "a", "variables": variables,
        "expect": {"contains": ["hello"]}}),
    )
    .ok();
    create(
        &acme,
        json!({"name": "b", "variables": variables, "message": "Now.",
        "expect": {"contains": ["Ada", "Now."]}}),
    )
    .ok();
    let compared = compare(&acme, &provider, sides).ok();
    assert_eq!(pick(&compared, "worse better same unknown stopped"), json!([1, 0, 1, 0, null]));
    let changes: Vec<_> =
        compared["inputs"].as_array().unwrap().iter().map(|row| &row["change"]).collect();
    assert_eq!(changes, ["worse", "same"]);
    let left = &compared["inputs"][0]["left"];
    assert_eq!(pick(left, "text inputTokens outputTokens"), json!(["Say hello to Ada.", 10, 5]));
    // A variable without a value: it is not asked about.
    let sides = json!({"left": {"version": "1.0.0"}, "right": {}, "inputs": ["b"]});
    let compared = compare(&acme, &provider, sides).ok();
    let right = &compared["inputs"][0]["right"];
    assert_eq!(compared["worse"], 1);
    assert!(
        right["error"].as_str().unwrap().contains("no value for the variable OTHER"),
        "{right}"
    );
    let both = json!({"left": {"version": "1", "source": "x"}, "right": {}});
    compare(&acme, &provider, both).invalid(&["left"]);
    let none = json!({"left": {"version": "9.0.0"}, "right": {}});
    compare(&acme, &provider, none).refused(404, "not_found");
}

#[test]
fn a_provider_that_fails_says_nothing_of_a_text() {
    let acme = acme();
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    create(&acme, json!({"name": "a", "expect": {"contains": ["x"]}})).ok();
    let failing = Receiver::responding(|_| json_response(500, &json!({"error": "down"})));
    let provider = connected(&acme, &failing);
    let compared = compare(&acme, &provider, json!({"left": {}, "right": {"source": "Hi."}})).ok();
    assert_eq!(pick(&compared, "worse unknown"), json!([0, 1]));
    assert!(compared["inputs"][0]["left"]["error"].as_str().unwrap().contains("\"Ours\""));
}

#[test]
fn a_comparison_ends_when_it_has_cost_what_it_may() {
    let acme = acme();
    let model = echo();
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    for n in 0..12 {
        create(&acme, json!({"name": format!("n{n}"), "message": format!("{n}")})).ok();
    }
    acme.admin.put("/model-prices/small", json!({"inputUsd": 1000, "outputUsd": 1000})).ok();
    let sides = json!({"left": {}, "right": {"source": "Hi."}, "maxCostUsd": 0.01});
    let compared = compare(&acme, &provider, sides).ok();
    assert_eq!(compared["stopped"], "maxCost");
    assert_eq!(compared["inputs"][0]["left"], Value::Null, "those not run come before the same");
    // At most four inputs were under way: two answers each, of 15 tokens for a thousandth of a dollar.
    let run = 12 - compared["unknown"].as_u64().unwrap();
    assert!((1..=4).contains(&run), "{run}");
    let cost = compared["costUsd"].as_f64().unwrap();
    assert!((cost - 0.03 * run as f64).abs() < 1e-9, "{cost} for {run}");
}

#[test]
fn what_does_not_pass_its_inputs_is_not_published() {
    let acme = acme();
    let model = echo();
    let provider = connected(&acme, &model);
    let rules = json!([{"type": "passesInputs", "value": 100, "llmProviderId": provider}]);
    govern(&acme, rules);
    let publish = |kind: &str, source: &str| {
        let version = json!({"artifactType": kind, "name": "p", "version": "1.0.0",
            "source": source});
        acme.member.post("/registries/artifacts", body(&acme, version))
    };
    let message = |reply: Reply| {
        let problem = reply.invalid(&["source"]);
        problem["issues"][0]["message"].as_str().unwrap().to_string()
    };
    let none = message(publish("prompt", "Hello {{WHO}}."));
    assert!(none.contains("has none that expects something: add inputs"), "{none}");
    create(&acme, json!({"name": "empty"})).ok();
    let none = message(publish("prompt", "Hello {{WHO}}."));
    assert!(none.contains("has none that expects something"), "any answer would pass: {none}");
    create(
        &acme,
        json!({"name": "ada", "variables": {"WHO": "Ada"},
        "expect": {"contains": ["Hello Ada"]}}),
    )
    .ok();
    let bad = message(publish("prompt", "Bye {{WHO}}."));
    assert!(bad.contains("0 of 1 pass (\"ada\": \"Hello Ada\" is missing)"), "{bad}");
    publish("prompt", "Hello {{WHO}}.").ok();
    publish("promptlet", "Bye.").ok();

    let failing = Receiver::responding(|_| json_response(500, &json!({"error": "down"})));
    let path = format!("/llm-providers/{provider}");
    acme.admin.patch(&path, json!({"baseUrl": failing.url})).ok();
    let version = json!({"artifactType": "prompt", "name": "p", "version": "1.1.0",
        "source": "Hello {{WHO}}!"});
    let reply = acme.member.post("/registries/artifacts", body(&acme, version));
    let problem = reply.refused(502, "llm_provider_failed");
    let why = problem["message"].as_str().unwrap();
    assert!(why.contains("the inputs of the policy \"P\" cannot be run"), "{why}");
}
