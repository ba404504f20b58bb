//! `prompt try`: a prompt on a model (reference: registries-and-templates, "Trying a prompt").

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::process::run;
use crate::receiver::{Receiver, json_response};

/// A server with the prompt `main/hello`, and a model that answers so.
fn desk(model: &Receiver) -> Desk {
    let desk = Desk::with(&["--allow-private-network", "127.0.0.0/8"]);
    desk.registry();
    let file = desk.file("hello.md", "Greet {{NAME}}.\n");
    desk.json(&["prompt", "publish", "main/hello", &file, "--bump", "patch"]);
    let provider = json!({"name": "Ours", "provider": "custom", "baseUrl": model.url,
        "config": {"model": "small"}, "isDefault": true});
    desk.api().post("/llm-providers", provider).ok();
    desk
}

/// A stream of OpenAI's API.
fn says(parts: &[&str]) -> Receiver {
    let part = |part: &&str| json!({"model": "small", "choices": [{"delta": {"content": part}}]});
    let end = json!({"choices": [{"finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let all = parts.iter().map(part).chain([end]);
    let body: String = all.map(|part| format!("data: {part}\n\n")).collect();
    Receiver::responding(move |_| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{body}data: [DONE]\n\n")
    })
}

#[test]
fn the_answer_is_printed_and_what_it_took_beside_it() {
    let model = says(&["Good ", "morning\n", "Ada"]);
    let desk = desk(&model);
    let args = ["prompt", "try", "main/hello", "--set", "NAME=Ada", "--message", "Go"];
    let tried = desk.run(&args);
    assert_eq!((tried.code, tried.stdout.as_str()), (Some(0), "Good morning\nAda\n"));
    assert!(tried.stderr.contains("small: 3 + 4 tokens, "), "{}", tried.stderr);
    assert!(tried.stderr.contains("no price of small"), "{}", tried.stderr);
    let messages = model.next().json()["messages"].clone();
    let expected = json!([
        {"role": "system", "content": "Greet Ada."}, {"role": "user", "content": "Go"},
    ]);
    assert_eq!(messages, expected);

    // Nothing is kept unless one says so.
    let inputs = || desk.api().get("/prompts/hello/inputs?registryRef=acme/main").items();
    assert_eq!(inputs(), Vec::<Value>::new());
    let kept = desk.run(&[&args[..], &["--keep", "first"]].concat());
    assert!(kept.code == Some(0) && kept.stderr.contains("kept as the input first"), "{kept:?}");
    let input = &inputs()[0];
    assert_eq!((&input["variables"], &input["message"]), (&json!({"NAME": "Ada"}), &json!("Go")));
    model.next();
    desk.run(&["prompt", "try", "main/hello", "--input", "first"]);
    assert_eq!(model.next().json()["messages"], expected);
    desk.run(&["prompt", "try", "main/hello", "--input", "first", "--set", "NAME=Ben"]);
    let changed = model.next().json();
    assert_eq!(changed["messages"][0]["content"], "Greet Ben.");
    assert_eq!(changed["messages"][1]["content"], "Go");
    desk.run(&["prompt", "try", "main/hello", "--input", "second"])
        .fails(1, "there is no input of this prompt called \"second\"; there is: first");

    let file = desk.file("other.md", "Be brief, {{NAME}}.\n");
    let json = desk.json(&["prompt", "try", "main/hello", "--file", &file, "--provider", "Ours"]);
    let shown = (&json["text"], &json["version"], &json["missing"]);
    assert_eq!(shown, (&json!("Good morning\nAda"), &Value::Null, &json!(["NAME"])));
    assert_eq!(model.next().json()["messages"][0]["content"], "Be brief, {{NAME}}.");
}

#[test]
fn what_fails_says_why_and_asks_no_model() {
    let model = Receiver::responding(|_| {
        json_response(500, &json!({"error": {"message": "it is broken"}}))
    });
    let desk = desk(&model);
    desk.run(&["prompt", "try", "main/hello"]).fails(1, "it fails; try again later (status 500)");
    model.next();
    desk.run(&["prompt", "try", "main/hello@9.0.0"]).fails(1, "not_found");
    let other = ["prompt", "try", "main/hello", "--provider", "Others"];
    desk.run(&other).fails(1, "there is no LLM provider called \"Others\"");
    let file = desk.file("bad.md", "{{ import \"none\" }}\n");
    let both = ["prompt", "try", "main/hello@1.0.0", "--file", &file];
    desk.run(&both).fails(2, "");
    desk.run(&["prompt", "try", "main/hello", "--file", &file]).fails(1, "does not compile");
    assert!(model.is_idle());
    // A key that may only read.
    let key = desk.key_with(&["artifact:read"]);
    let mut command = desk.command(&["prompt", "try", "main/hello"]);
    command.env("ROADSTEAD_API_KEY", key);
    run(command, None).fails(1, "scope_missing");
}
