//! What comparisons on inputs may cost and hold (reference: registries-and-templates, "Inputs of a prompt").

use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};

use crate::client::{Connection, eventually, pick, raw};
use crate::fixture::{Fixture, Running, config};
use crate::inputs::{acme, body, compare, create, echo};
use crate::llm_providers::connected;
use crate::receiver::{Receiver, json_response};
use crate::registries::{publish, registry};

/// So many inputs of `p`, each with a message of its own.
fn inputs(acme: &Fixture, count: usize, expect: &Value) {
    for n in 0..count {
        let name = format!("n{n:02}");
        create(acme, json!({"name": name, "message": format!("{n}"), "expect": expect})).ok();
    }
}

fn price(acme: &Fixture) {
    acme.admin.put("/model-prices/small", json!({"inputUsd": 1000, "outputUsd": 1000})).ok();
}

/// A model that says this, with so much around it.
fn saying(text: impl Fn(&Value) -> String + Send + 'static, padding: usize) -> Receiver {
    Receiver::responding(move |request| {
        let choice = json!({"message": {"role": "assistant", "content": text(&request.json())}});
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 5});
        let padding = "x".repeat(padding);
        let answer =
            json!({"model": "small", "choices": [choice], "usage": usage, "padding": padding});
        json_response(200, &answer)
    })
}

/// The row of an input.
fn row<'a>(compared: &'a Value, input: &str) -> &'a Value {
    let rows = compared["inputs"].as_array().unwrap();
    rows.iter().find(|row| row["input"] == input).unwrap()
}

/// How often something became of inputs, which depends on what was under way beside each other.
fn count(compared: &Value, change: &str) -> usize {
    usize::try_from(compared[change].as_u64().unwrap()).unwrap()
}

/// What the user said last.
fn last(sent: &Value) -> String {
    let messages = sent["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_str().unwrap().to_string()
}

#[test]
fn equal_texts_are_one_call_that_costs_once_and_are_in_the_audit_log() {
    let acme = acme();
    let model = echo();
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    inputs(&acme, 12, &json!({}));
    price(&acme);
    let compared =
        compare(&acme, &provider, json!({"left": {}, "right": {"source": "Hello."}})).ok();
    assert_eq!(pick(&compared, "same stopped costUsd costNote"), json!([12, null, 0.18, null]));
    assert_eq!(model.arrived().len(), 12);
    let entries = acme.owner.get("/audit-logs?action=prompt.compare").items();
    let detail = |at: usize| entries[at]["resource"]["detail"].as_str().unwrap();
    assert_eq!(entries.len(), 2, "what begins, and what came of it");
    let sent = format!(" on inputs, LLM provider Ours ({provider})");
    assert!(detail(1).ends_with(&format!("{sent}, to begin")), "{}", detail(1));
    assert!(detail(0).ends_with(&format!("{sent}, 12 of 12 inputs")), "{}", detail(0));
}

#[test]
fn what_is_under_way_when_it_costs_too_much_is_ended_shown_and_counted() {
    let acme = acme();
    let say = |sent: &Value| match last(sent) {
        asked if asked.contains("Is it kind?") => r#"{"pass": true}"#.to_string(),
        asked => format!("An answer to {asked}."),
    };
    let model = saying(say, 0);
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    inputs(&acme, 12, &json!({"judge": "Is it kind?"}));
    price(&acme);
    // Each answer and its judge cost 0.03: after seven of them no further one is begun, and three may be
    // under way.
    let sides = json!({"left": {}, "right": {"source": "Hello."}, "maxCostUsd": 0.2});
    let compared = compare(&acme, &provider, sides).ok();
    let done = count(&compared, "same");
    assert!((7..=10).contains(&done), "{compared}");
    assert_eq!(pick(&compared, "stopped unknown"), json!(["maxCost", 12 - done]));
    let cost = compared["costUsd"].as_f64().unwrap();
    assert!((cost - 0.03 * done as f64).abs() < 1e-9, "{cost}");
    let right = &row(&compared, "n06")["right"];
    assert_eq!(right["text"], "An answer to 6.");
    assert_eq!(right["scores"][0]["passed"], true);
    assert_eq!(row(&compared, "n11")["right"], Value::Null);
    assert_eq!(model.arrived().len(), 2 * done);
}

#[test]
fn what_has_no_price_is_not_told_to_be_free() {
    let acme = acme();
    let model = echo();
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    inputs(&acme, 1, &json!({}));
    let compared = compare(&acme, &provider, json!({"left": {}, "right": {"source": "Hi."}})).ok();
    assert_eq!(pick(&compared, "costUsd"), json!([0.0]));
    let note = compared["costNote"].as_str().unwrap();
    assert!(note.contains("no price of small"), "{note}");
}

#[test]
fn what_got_worse_comes_first() {
    let acme = acme();
    let model = echo();
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    for (name, expected) in [("a", "Hi"), ("b", "."), ("c", "Hello"), ("d", "Hello")] {
        create(&acme, json!({"name": name, "expect": {"contains": [expected]}})).ok();
    }
    let compared = compare(&acme, &provider, json!({"left": {}, "right": {"source": "Hi."}})).ok();
    let rows = compared["inputs"].as_array().unwrap().iter();
    let rows: Vec<Value> = rows.map(|row| pick(row, "input change")).collect();
    assert_eq!(
        json!(rows),
        json!([["c", "worse"], ["d", "worse"], ["a", "better"], ["b", "same"]])
    );
}

#[test]
fn a_provider_that_fails_for_all_is_not_asked_on() {
    let acme = acme();
    let failing = Receiver::responding(|_| json_response(500, &json!({"error": "down"})));
    let provider = connected(&acme, &failing);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    inputs(&acme, 20, &json!({}));
    let compared = compare(&acme, &provider, json!({"left": {}, "right": {"source": "Hi."}})).ok();
    assert_eq!(pick(&compared, "stopped unknown"), json!(["providerFailed", 20]));
    assert_eq!(row(&compared, "n19")["left"], Value::Null);
    // Ten have failed, and three may have been begun beside the last of them.
    let asked = failing.arrived().len();
    assert!((20..=26).contains(&asked), "{asked}");
    let entries = acme.owner.get("/audit-logs?action=prompt.compare").items();
    let detail = entries[0]["resource"]["detail"].as_str().unwrap();
    assert!(detail.ends_with(", 0 of 20 inputs"), "what failed was not answered: {detail}");
}

#[test]
fn texts_are_bounded_as_they_are_filled_in_and_answers_as_they_come() {
    let acme = acme();
    let model = saying(|_| "ok".into(), 900_000);
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    for n in 0..10 {
        let variables = json!({"A": "x".repeat(16_000)});
        create(&acme, json!({"name": format!("a{n}"), "variables": variables})).ok();
    }
    let long = json!({"source": "{{A}}".repeat(60)});
    let sides = json!({"left": long, "right": long});
    compare(&acme, &provider, sides).refused(409, "too_many_inputs");
    assert!(model.is_idle());

    inputs(&acme, 30, &json!({}));
    let names: Vec<String> = (0..30).map(|n| format!("n{n:02}")).collect();
    let sides = json!({"left": {}, "right": {"source": "Hi."}, "inputs": names});
    let compared = compare(&acme, &provider, sides).ok();
    // 19 have 32 MiB, and three may be under way.
    let done = count(&compared, "same");
    assert!((19..=22).contains(&done), "{compared}");
    assert_eq!(pick(&compared, "stopped unknown"), json!(["maxBytes", 30 - done]));
    assert_eq!(row(&compared, "n29")["left"], Value::Null);
}

#[test]
fn a_comparison_holds_no_slot_of_those_who_make_short_calls() {
    let running = Running::start(config());
    let acme = running.fixture();
    registry(&acme, "main", json!({}));
    let (begin, begun) = channel();
    let (go, may_go) = channel::<()>();
    let model = Receiver::responding(move |_| {
        let _ = begin.send(());
        // Until the other end is dropped.
        let _ = may_go.recv();
        json_response(500, &json!({"error": "down"}))
    });
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    inputs(&acme, 1, &json!({}));
    thread::scope(|scope| {
        let compared =
            scope.spawn(|| compare(&acme, &provider, json!({"left": {}, "right": {}})).ok());
        begun.recv().unwrap();
        let metrics = raw(acme.address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let text = metrics.text();
        for (of, admitted) in [("calls", 0), ("long_calls", 1)] {
            let sample = format!("roadstead_admitted{{of=\"{of}\"}} {admitted}");
            assert!(text.lines().any(|line| line == sample), "{sample}");
        }
        drop(go);
        compared.join().unwrap();
    });
}

#[test]
fn a_rule_without_a_provider_to_ask_says_what_cannot_be_run() {
    let acme = acme();
    let model = echo();
    let provider = format!("/llm-providers/{}", connected(&acme, &model));
    acme.admin.patch(&provider, json!({"isDefault": true})).ok();
    let rules = json!([{"type": "passesInputs", "value": 100}]);
    let policy = json!({"name": "P", "severity": "error", "rules": rules});
    let policy = acme.admin.post("/governance/policies", policy).id();
    let assignments = format!("/governance/policies/{policy}/assignments");
    acme.admin.post(&assignments, json!({"registryRef": format!("{}/main", acme.slug)})).ok();
    acme.admin.patch(&provider, json!({"isDefault": false})).ok();
    create(&acme, json!({"name": "a", "expect": {"contains": ["Hello"]}})).ok();
    let version =
        json!({"artifactType": "prompt", "name": "p", "version": "1.0.0", "source": "Hello."});
    let reply = acme.member.post("/registries/artifacts", body(&acme, version));
    let problem = reply.refused(502, "llm_provider_failed");
    let expected = "the inputs of the policy \"P\" cannot be run: the organization has no default";
    assert!(problem["message"].as_str().unwrap().contains(expected), "{problem}");
}

#[test]
fn each_input_is_passed_on_as_it_is_done_and_all_of_them_at_the_end() {
    let acme = acme();
    let (go, may_go) = channel::<()>();
    // The last one that is asked is answered once the others were passed on.
    let mut count = 0;
    let model = Receiver::responding(move |request| {
        let asked = last(&request.json());
        count += 1;
        if count == 5 {
            may_go.recv().unwrap();
        }
        json_response(200, &json!({"choices": [{"message": {"content": asked}}]}))
    });
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    inputs(&acme, 5, &json!({"contains": ["3"]}));
    let fields = json!({"left": {}, "right": {"source": "Hello."}, "llmProviderId": provider});
    let ask = acme.member.ask("POST", "/prompts/p/compare").with("Accept", "text/event-stream");
    let mut stream = Connection::open(acme.address).unwrap();
    stream.write(&ask.org_json(body(&acme, fields)).to_bytes()).unwrap();
    assert_eq!(stream.head().unwrap().0, 200);
    let mut text = String::new();
    while text.matches("event: input\n").count() < 4 {
        text += &stream.chunk().unwrap();
    }
    assert!(!text.contains("event: done"), "{text}");
    go.send(()).unwrap();
    loop {
        match stream.chunk().unwrap() {
            end if end.is_empty() => break,
            more => text += &more,
        }
    }
    let events = text.split("\n\n").filter_map(|event| {
        let (name, data) = event.strip_prefix("event: ")?.split_once("\ndata: ")?;
        Some((name, serde_json::from_str::<Value>(data).unwrap()))
    });
    let events: Vec<_> = events.collect();
    assert_eq!(events.len(), 6, "{text}");
    let ((end, all), rows) = events.split_last().unwrap();
    assert_eq!((*end, pick(all, "same unknown stopped")), ("done", json!([5, 0, null])));
    for (name, row) in rows {
        assert_eq!(*name, "input");
        assert!(all["inputs"].as_array().unwrap().contains(row), "{row}");
    }
}

#[test]
fn a_client_that_goes_away_ends_a_comparison_and_is_logged() {
    let acme = acme();
    let (begin, begun) = channel();
    let (go, may_go) = channel::<()>();
    let model = Receiver::responding(move |request| {
        let asked = last(&request.json());
        let _ = begin.send(asked.clone());
        // Until the other end is dropped.
        let _ = may_go.recv();
        json_response(200, &json!({"choices": [{"message": {"content": asked}}]}))
    });
    let provider = connected(&acme, &model);
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    inputs(&acme, 20, &json!({}));
    let fields = json!({"left": {}, "right": {}, "llmProviderId": provider});
    let ask = acme.member.ask("POST", "/prompts/p/compare").with("Accept", "text/event-stream");
    let mut stream = Connection::open(acme.address).unwrap();
    stream.write(&ask.org_json(body(&acme, fields)).to_bytes()).unwrap();
    begun.recv().unwrap();
    drop(stream);
    let ended = || {
        let entries = acme.owner.get("/audit-logs?action=prompt.compare").items();
        let detail = entries.first()?["resource"]["detail"].as_str()?.to_string();
        detail.ends_with(", 0 of 20 inputs").then_some(detail)
    };
    eventually("it is logged", ended);
    drop(go);
    // A user has one comparison at a time: after the next one the first one asks nothing more.
    let one = json!({"left": {}, "right": {}, "inputs": ["n00"]});
    assert_eq!(compare(&acme, &provider, one).ok()["same"], 1);
    let asked = model.arrived().len();
    assert!((2..=5).contains(&asked), "no further input is asked about: {asked}");
}

#[test]
fn a_key_that_is_a_word_of_a_verdict_is_shown_nowhere_and_loses_no_verdict() {
    let acme = acme();
    let say = |sent: &Value| match last(sent) {
        asked if asked.contains("Is it kind?") => r#"{"pass": true, "reason": "It may pass."}"#,
        _ => "Many pass by.",
    };
    let model = saying(move |sent| say(sent).to_string(), 0);
    let provider = json!({"name": "Ours", "provider": "custom", "baseUrl": model.url,
        "apiKey": "pass", "config": {"model": "small"}});
    let provider = acme.admin.post("/llm-providers", provider).id();
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
    inputs(&acme, 1, &json!({"judge": "Is it kind?"}));
    let compared = compare(&acme, &provider, json!({"left": {}, "right": {}})).ok();
    assert_eq!(pick(&compared, "same unknown"), json!([1, 0]));
    let left = &compared["inputs"][0]["left"];
    assert_eq!(left["text"], "Many … by.");
    let score = pick(&left["scores"][0], "passed reason");
    assert_eq!(score, json!([true, "It may …."]));
}
