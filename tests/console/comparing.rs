//! Comparing versions of a prompt on its inputs.

use serde_json::json;

use crate::receiver::{Receiver, json_response};
use crate::server::Running;

const COMPARE: &str = "/o/acme/prompts/main/hello/compare-inputs";

#[test]
fn versions_are_compared_and_what_got_worse_is_shown() {
    let model = Receiver::responding(|request| {
        let said = request.json()["messages"][0]["content"].clone();
        json_response(
            200,
            &json!({"model": "small", "choices": [{"message": {"content": said}}],
            "usage": {"prompt_tokens": 31, "completion_tokens": 42}}),
        )
    });
    let server = Running::new();
    server.registry();
    server.publish("prompt", "hello", "1.0.0", "Say hello to <b>{{NAME}}</b>.");
    server.publish("prompt", "hello", "1.1.0", "Greet {{NAME}}.");
    let provider = json!({"name": "Ours", "provider": "custom", "baseUrl": model.url,
        "config": {"model": "small"}, "isDefault": true});
    server.ada().post("/llm-providers", provider).ok();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(COMPARE);
    let none = ada.send(&page, COMPARE, &[("left", "1.0.0"), ("right", "1.1.0")]);
    assert_eq!(none.status, 409);
    let input = json!({"registryRef": "main", "name": "first", "variables": {"NAME": "Ada"},
        "expect": {"contains": ["hello"]}});
    server.ada().post("/prompts/hello/inputs", input).ok();
    let compared = ada.send(&page, COMPARE, &[("left", "1.0.0"), ("right", "1.1.0")]);
    assert_eq!(compared.status, 200);
    compared.shows("Something got worse").shows("1 worse, 0 better, 0 the same, 0 unknown");
    compared.shows("Say hello to <b>Ada</b>.").shows("31 + 42 tokens");
    assert!(!compared.text.contains("<b>Ada"), "it is no markup");
    let back = ada.send(&page, COMPARE, &[("left", "1.1.0"), ("right", "1.0.0")]);
    back.shows("Nothing got worse");
}
