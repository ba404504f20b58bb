//! Prompts of a real Arize Phoenix are listed and imported by a real Roadstead.
//!
//! The first run installs Phoenix into `target/`, which takes about a minute and 650 MB; later ones
//! take what is there. `ROADSTEAD_TEST_PHOENIX=off` leaves this test out, as does a machine without
//! Python 3; both are said aloud, past what the test runner holds back.

#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "../client/mod.rs"]
mod client;
#[allow(dead_code)] // A part of each is enough here.
#[path = "../tools/optional.rs"]
mod optional;
mod phoenix;
#[allow(dead_code)] // A part of it is enough here.
#[path = "../cli/process.rs"]
mod process;
#[allow(dead_code)] // A part of it is enough here.
#[path = "../tools/python.rs"]
mod python;

use serde_json::{Value, json};

use client::{Caller, pick};
use phoenix::Phoenix;
use process::{Place, Serving};

/// A version of a prompt, as Phoenix takes it.
fn version(format: &str, messages: Value) -> Value {
    json!({
        "model_provider": "OPENAI", "model_name": "gpt-4o", "template_type": "CHAT",
        "template_format": format, "template": {"type": "chat", "messages": messages},
        "invocation_parameters": {"type": "openai", "openai": {}},
    })
}

/// A served Roadstead with a registry `prompts`: its owner, in a session.
fn roadstead() -> (Place, Serving, Caller) {
    let place = Place::new();
    let password = "correct horse battery";
    place.init(&["--json"], Some(password)).succeeds();
    let serving = Serving::start(&place, &["--allow-private-network", "127.0.0.1"]);
    let anonymous = Caller::anonymous(serving.address, "acme");
    let sign_in = json!({"email": "ada@acme.test", "password": password});
    let session = anonymous.ask("POST", "/auth/sign-in").json(&sign_in).send().ok();
    let owner = anonymous.with_bearer(session["token"].as_str().unwrap());
    owner.post("/registries", json!({"slug": "prompts", "name": "Prompts"})).ok();
    (place, serving, owner)
}

#[test]
fn prompts_of_a_real_phoenix_are_listed_and_imported() {
    let Some(phoenix) = Phoenix::start() else { return };
    let hello = json!([{"role": "user", "content": "Say \"hello\" to {{ name }}."}]);
    let first = phoenix.create("greet", version("MUSTACHE", hello));
    let warm = json!([
        {"role": "system", "content": "Answer as JSON: {{\"mood\": {mood}}}"},
        {"role": "user", "content": [{"type": "text", "text": "Greet {name}."}]},
    ]);
    let second = phoenix.create("greet", version("F_STRING", warm.clone()));
    phoenix.tag(&second, "production");
    let literal = json!([{"role": "user", "content": "What does {{name}} mean?"}]);
    let plain = phoenix.create("plain", version("NONE", literal.clone()));
    let section = json!([{"role": "user", "content": "{{#users}}Hi{{/users}}"}]);
    phoenix.create("section", version("MUSTACHE", section.clone()));

    let (_place, _serving, owner) = roadstead();
    let there = json!({"name": "Phoenix", "kind": "phoenix", "baseUrl": phoenix.url,
        "credentials": {"apiKey": "another"}});
    let provider = format!("/prompt-providers/{}", owner.post("/prompt-providers", there).id());
    let list = format!("{provider}/prompts");
    let error = owner.get(&list).refused(502, "prompt_provider_failed");
    assert!(error["message"].as_str().unwrap().contains("(401)"), "{error}");
    let key = json!({"credentials": {"apiKey": phoenix::KEY}});
    owner.patch(&provider, key).ok();

    let mut found = owner.get(&list).items();
    found.sort_by_key(|prompt| prompt["name"].to_string());
    let row = |prompt: &Value| pick(prompt, "name version template format labels updatedAt");
    let found: Vec<_> = found.iter().map(row).collect();
    let shown = |template: &Value| template.to_string();
    assert_eq!(found[0], json!(["greet", second, shown(&warm), "chat", ["production"], null]));
    assert_eq!(found[1], json!(["plain", plain, shown(&literal), "chat", [], null]));
    assert_eq!(found[2][2], shown(&section));
    assert_eq!(found.len(), 3);
    assert_eq!(owner.get(&format!("{list}?limit=1")).items().len(), 1);

    let wanted = json!([
        {"name": "greet"},
        {"name": "greet", "version": first, "as": "greet-first"},
        {"name": "plain"},
        {"name": "section"},
        {"name": "gone"},
        {"name": "plain", "version": first},
    ]);
    let import = json!({"registryRef": "acme/prompts", "prompts": wanted});
    let done = owner.post(&format!("{provider}/import"), import).ok();
    let row = |prompt: &Value| pick(prompt, "name artifactName version");
    let imported: Vec<_> = done["imported"].as_array().unwrap().iter().map(row).collect();
    let expected = [["greet", "greet"], ["greet", "greet-first"], ["plain", "plain"]];
    assert_eq!(imported, expected.map(|[name, here]| json!([name, here, "1.0.0"])));
    let failed: Vec<_> = done["failed"].as_array().unwrap().iter().collect();
    let names: Vec<_> = failed.iter().map(|failed| failed["name"].clone()).collect();
    assert_eq!(names, ["section", "gone", "plain"]);
    assert!(failed[0]["message"].as_str().unwrap().contains("{{#users}}"), "{done}");

    // What is rendered here is what Phoenix would have made of it.
    let rendered = |name: &str, variables: Value| {
        let body = json!({"registryRef": "acme/prompts", "variables": variables});
        let rendered = owner.post(&format!("/prompts/{name}/render"), body).ok();
        let text = rendered["text"].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap_or_else(|e| panic!("{e}: {text}"))
    };
    let texts = rendered("greet", json!({"name": "Bea", "mood": "good"}));
    assert_eq!(texts[0]["content"], "Answer as JSON: {\"mood\": good}");
    assert_eq!(texts[1]["content"][0]["text"], "Greet Bea.");
    let texts = rendered("greet-first", json!({"name": "Bea"}));
    assert_eq!(texts[0]["content"], "Say \"hello\" to Bea.");
    assert_eq!(rendered("plain", json!({"name": "Bea"})), literal);
}
