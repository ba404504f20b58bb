//! Comparing versions of a prompt on its inputs.

use serde_json::json;

use crate::journeys::{sign_in, with_and_without_scripts};
use crate::receiver::{Receiver, json_response};
use crate::server::Running;

const COMPARE: &str = "/o/acme/prompts/main/hello/compare-inputs";

/// A model that repeats what it was told first.
fn echo() -> Receiver {
    Receiver::responding(|request| {
        let said = request.json()["messages"][0]["content"].clone();
        json_response(
            200,
            &json!({"model": "small", "choices": [{"message": {"content": said}}],
            "usage": {"prompt_tokens": 31, "completion_tokens": 42}}),
        )
    })
}

/// A server with two versions of the prompt `hello`, and a model.
fn server(model: &Receiver) -> Running {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "hello", "1.0.0", "Say hello to <b>{{NAME}}</b>.");
    server.publish("prompt", "hello", "1.1.0", "Greet {{NAME}}.");
    let provider = json!({"name": "Ours", "provider": "custom", "baseUrl": model.url,
        "config": {"model": "small"}, "isDefault": true});
    server.ada().post("/llm-providers", provider).ok();
    server
}

/// Makes an input that expects a word which the newer version lacks.
fn input(server: &Running, name: &str) {
    let input = json!({"registryRef": "main", "name": name, "variables": {"NAME": "Ada"},
        "expect": {"contains": ["hello"]}});
    server.ada().post("/prompts/hello/inputs", input).ok();
}

#[test]
fn versions_are_compared_and_what_got_worse_is_shown() {
    let model = echo();
    let server = server(&model);
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(COMPARE);
    let none = ada.send(&page, COMPARE, &[("left", "1.0.0"), ("right", "1.1.0")]);
    assert_eq!(none.status, 409);
    input(&server, "first");
    let compared = ada.send(&page, COMPARE, &[("left", "1.0.0"), ("right", "1.1.0")]);
    assert_eq!(compared.status, 200);
    compared.shows("Something got worse").shows("1 worse, 0 better, 0 the same, 0 unknown");
    compared.shows("Say hello to <b>Ada</b>.").shows("31 + 42 tokens");
    assert!(!compared.text.contains("<b>Ada"), "it is no markup");
    let back = ada.send(&page, COMPARE, &[("left", "1.1.0"), ("right", "1.0.0")]);
    back.shows("Nothing got worse");
}

#[test]
fn the_script_is_answered_with_each_input_and_the_whole() {
    let model = echo();
    let server = server(&model);
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(COMPARE);
    let fields = [("left", "1.0.0"), ("right", "1.1.0"), ("stream", "yes")];
    let none = ada.send(&page, COMPARE, &fields);
    assert_eq!(none.reply.header("content-type"), Some("text/event-stream"));
    assert!(none.text.starts_with("event: error\n"), "{}", none.text);
    input(&server, "first");
    input(&server, "second");
    let compared = ada.send(&page, COMPARE, &fields);
    assert_eq!(compared.text.matches("event: input\n").count(), 2, "{}", compared.text);
    assert_eq!(compared.text.matches("event: done\n").count(), 1, "{}", compared.text);
    let plain = ada.send(&page, COMPARE, &fields[..2]);
    assert_eq!(plain.reply.header("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn a_person_compares_and_sees_what_got_worse_with_what_is_missing() {
    with_and_without_scripts(|driver, scripts| {
        let model = echo();
        let server = server(&model);
        input(&server, "first");
        let browser = driver.browser(1280, 800, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}{COMPARE}", server.address));
        browser.fill("#f-left", "1.0.0");
        browser.fill("#f-right", "1.1.0");
        browser.click("main button.primary");
        browser.shows("1 worse, 0 better, 0 the same, 0 unknown");
        browser.shows("31 + 42 tokens");
        browser.shows("Worse");
        assert_eq!(browser.value("#f-right"), "1.1.0", "what was entered is still there");
        // What is refused says why, and the page works as before.
        browser.fill("#f-maxCostUsd", "little");
        browser.click("main button.primary");
        browser.shows("At most, in US dollars must be a number");
        browser.fill("#f-maxCostUsd", "1");
        browser.fill("#f-right", "1.0.0");
        browser.click("main button.primary");
        browser.shows("0 worse, 0 better, 1 the same, 0 unknown");
    });
}
