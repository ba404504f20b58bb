//! What is tried, and what of it is said; what models answer is tested with their APIs.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::outside::Response;
use crate::resources::artifacts::tests::{prompt, registry};
use crate::resources::llm_providers::tests::make;
use crate::resources::testing::Fixture;

/// An organization with a prompt and a default provider.
fn lab() -> Fixture {
    let fixture = Fixture::new();
    registry(&fixture, "main");
    prompt(&fixture, "hello", "1.0.0", "Greet {{NAME}}.");
    let provider = json!({"name": "Ours", "provider": "ollama", "baseUrl": "http://a.test:11434",
        "apiKey": "sk-secret-1", "config": {"model": "small"}, "isDefault": true});
    make(&fixture, provider).unwrap();
    fixture
}

fn prepared(fixture: &Fixture, more: Value) -> Result<Trial> {
    let mut body = json!({"registryRef": "acme/main"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let input = Fixture::input(body)?;
    Ok(fixture.read(prepare, "hello".to_string(), input)?.exchange)
}

/// Has the model answer with these lines; returns what was said.
fn answered(trial: &mut Trial, lines: &[Value]) -> String {
    let call = trial.next_call().unwrap();
    assert_eq!(call.url, "http://a.test:11434/api/chat");
    let mut said = String::new();
    let head = Response { status: 200, headers: vec![], body: vec![] };
    trial.hear(Heard::Head(&head), &mut said);
    for line in lines {
        trial.hear(Heard::Piece(format!("{line}\n").as_bytes()), &mut said);
    }
    trial.hear(Heard::End, &mut said);
    said
}

fn concluded(fixture: &Fixture, trial: &Trial) -> Result<PromptTrial> {
    let took = Duration::from_millis(7);
    fixture.store.read_now(fixture.org, |view| trial.conclude(view, took))
}

#[test]
fn an_answer_has_what_it_took_and_the_log_no_text() {
    let fixture = lab();
    let mut trial = prepared(&fixture, json!({"variables": {"NAME": "Ada"}})).unwrap();
    let part = json!({"model": "small:1", "message": {"content": "Hello Ada"}, "done": false});
    let end = json!({"model": "small:1", "message": {"content": ""}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 2});
    assert!(trial.audited().detail.unwrap().ends_with("), model small, to begin"));
    assert_eq!(answered(&mut trial, &[part, end]), "Hello Ada");
    let answer = concluded(&fixture, &trial).unwrap();
    assert_eq!((answer.text.as_str(), answer.took_ms), ("Hello Ada", 7));
    assert_eq!((answer.input_tokens, answer.output_tokens), (Some(5), Some(2)));
    assert!(answer.cost_usd.is_none() && answer.cost_note.unwrap().contains("no price of small"));
    let audited = trial.audited();
    assert_eq!((audited.kind, audited.id.as_str()), (Some("artifact"), "acme/main/prompt/hello"));
    let detail = audited.detail.unwrap();
    assert!(detail.starts_with("version 1.0.0 (generic) on LLM provider Ours ("), "{detail}");
    assert!(detail.ends_with("), model small:1, 5 + 2 tokens"), "{detail}");
}

#[test]
fn what_was_cut_off_or_failed_is_no_answer_and_is_logged_as_that() {
    let fixture = lab();
    let mut trial = prepared(&fixture, json!({"source": "Other text."})).unwrap();
    let refusal = concluded(&fixture, &trial).unwrap_err();
    assert_eq!(refusal.code(), "llm_provider_failed");
    answered(&mut trial, &[json!({"error": "busy, sk-secret-1"})]);
    let refusal = concluded(&fixture, &trial).unwrap_err();
    assert!(refusal.message().starts_with("LLM provider \"Ours\": it "), "{refusal}");
    assert!(!refusal.message().contains("busy"), "a member is told no more");
    let detail = trial.audited().detail.unwrap();
    assert!(detail.starts_with("text ") && detail.ends_with(", no whole answer"), "{detail}");
    assert!(!detail.contains("Other"));
}

#[test]
fn one_thing_is_tried_and_it_must_be_there() {
    let fixture = lab();
    let code = |more| prepared(&fixture, more).err().map(|error| error.code());
    assert_eq!(code(json!({})), None);
    assert_eq!(code(json!({"version": "1.0.0", "source": "x"})), Some("invalid_request"));
    assert_eq!(code(json!({"version": "2"})), Some("not_found"));
    assert_eq!(code(json!({"source": "{{ import \"none\" }}"})), Some("invalid_request"));
    assert_eq!(code(json!({"environment": "none"})), Some("not_found"));
    assert_eq!(code(json!({"maxTokens": MAX_ATTEMPT_TOKENS + 1})), Some("invalid_request"));
    assert_eq!(code(json!({"temperature": 2.5})), Some("invalid_request"));
}
