//! LLM providers: connections, their test, and secrecy of the key
//! (reference: agents, "LLM providers").

use serde_json::{Value, json};

use crate::client::pick;
use crate::fixture::{Fixture, key_of, unknown_id};
use crate::receiver::{Receiver, json_response};

/// A key that differs from every other text.
const KEY: &str = "sk-0123456789abcdef";

/// A model that answers with this text.
pub fn saying(content: &'static str) -> Receiver {
    let said = json!({"choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": content}}]});
    Receiver::responding(move |_| json_response(200, &said))
}

/// Creates a connection to it. Returns its id.
pub fn connected(acme: &Fixture, model: &Receiver) -> String {
    let body = json!({"name": "Ours", "provider": "custom", "baseUrl": model.url, "apiKey": KEY,
        "config": {"model": "small"}});
    acme.admin.post("/llm-providers", body).id()
}

fn test(acme: &Fixture, id: &str) -> Value {
    let reply = acme.admin.post(&format!("/llm-providers/{id}/test"), json!({}));
    assert!(!reply.text().contains(KEY), "{}", reply.text());
    reply.ok()
}

#[test]
fn llm_providers_are_written_by_admins_and_read_by_members() {
    let acme = Fixture::new();
    let body = json!({"name": "O", "provider": "openai", "apiKey": KEY, "isDefault": true});
    acme.member.post("/llm-providers", body.clone()).refused(403, "admin_required");
    let made = acme.admin.post("/llm-providers", body).ok();
    let shown = json!(["O", "openai", null, {}, true]);
    assert_eq!(pick(&made, "name provider baseUrl config isDefault"), shown);
    let path = format!("/llm-providers/{}", made["id"].as_str().unwrap());
    assert_eq!(key_of(&acme.member).get(&path).ok(), made);
    assert_eq!(acme.member.get("/llm-providers").items(), [made]);

    acme.member.patch(&path, json!({"name": "P"})).refused(403, "admin_required");
    acme.admin.patch(&path, json!({"provider": "google"})).invalid(&["provider"]);
    let patch = json!({"name": "P", "baseUrl": "https://a.test", "config": {"a": [1]}});
    let changed = acme.admin.patch(&path, patch).ok();
    let shown = json!(["P", "openai", "https://a.test", {"a": [1]}]);
    assert_eq!(pick(&changed, "name provider baseUrl config"), shown);
    assert_eq!(acme.admin.patch(&path, json!({"baseUrl": null})).ok()["baseUrl"], Value::Null);

    acme.member.post(&format!("{path}/test"), json!({})).refused(403, "admin_required");
    acme.member.delete(&path).refused(403, "admin_required");
    acme.admin.delete(&path).ok();
    acme.admin.delete(&path).refused(404, "not_found");
    acme.admin.post(&format!("{path}/test"), json!({})).refused(404, "not_found");
}

#[test]
fn an_invalid_provider_is_refused() {
    let acme = Fixture::new();
    let post = |body: Value| acme.admin.post("/llm-providers", body);
    post(json!({})).invalid(&["name", "provider"]);
    post(json!({"name": "a", "provider": "custom"})).invalid(&["baseUrl"]);
    post(json!({"name": "a", "provider": "moon"})).invalid(&["provider"]);
    let ftp = json!({"name": "a", "provider": "openai", "baseUrl": "ftp://a.test"});
    post(ftp).invalid(&["baseUrl"]);
    let key = format!("{KEY}\n");
    let bad = post(json!({"name": "a", "provider": "openai", "apiKey": key, "config": []}));
    bad.invalid(&["apiKey", "config"]);
    assert!(!bad.text().contains(KEY));
}

#[test]
fn there_is_one_default_and_the_newest_replaces_it() {
    let acme = Fixture::new();
    let make = |name: &str| {
        let body = json!({"name": name, "provider": "openai", "isDefault": true});
        acme.admin.post("/llm-providers", body).id()
    };
    let (a, _) = (make("a"), make("b"));
    let defaults = || {
        let all = acme.member.get("/llm-providers").items();
        let defaults = all.iter().filter(|one| one["isDefault"] == true);
        defaults.map(|one| one["name"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(defaults(), ["b"]);
    acme.admin.patch(&format!("/llm-providers/{a}"), json!({"isDefault": true})).ok();
    assert_eq!(defaults(), ["a"]);
}

#[test]
fn a_test_calls_the_model_with_the_key() {
    let acme = Fixture::new();
    let model = saying("ok");
    let id = connected(&acme, &model);
    let tested = test(&acme, &id);
    assert_eq!(pick(&tested, "ok message"), json!([true, "the model small answered"]));
    assert!(tested["latencyMs"].is_u64());
    let sent = model.next();
    assert!(sent.head.starts_with("post /hook/chat/completions "), "{}", sent.head);
    assert_eq!(sent.field("authorization"), format!("bearer {KEY}"));
    assert_eq!(sent.json()["model"], "small");
    // A new URL alone removes the key.
    let other = saying("ok");
    acme.admin.patch(&format!("/llm-providers/{id}"), json!({"baseUrl": other.url})).ok();
    assert_eq!(test(&acme, &id)["ok"], true);
    assert!(!other.next().head.contains("authorization"));
}

#[test]
fn a_failed_test_is_200_and_says_what_to_do() {
    let acme = Fixture::new();
    let wrong = json!({"error": {"message": format!("Incorrect API key provided: {KEY}")}});
    let message = |model: &Receiver| {
        let tested = test(&acme, &connected(&acme, model));
        assert_eq!(tested["ok"], false, "{tested}");
        tested["message"].as_str().unwrap().to_string()
    };
    let refusing = Receiver::responding(move |_| json_response(401, &wrong));
    let refused = message(&refusing);
    assert!(refused.starts_with("it does not accept the key; set another apiKey (status 401); "));
    assert!(refused.ends_with("it says: \"Incorrect API key provided: …\""), "{refused}");
    let redirecting = Receiver::responding(|_| {
        "HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n".into()
    });
    assert!(message(&redirecting).contains("redirects"));
    assert_eq!(redirecting.next().json()["model"], "small");
    assert!(redirecting.is_idle());
    let malformed = Receiver::responding(|_| json_response(200, &json!("<html>")));
    assert!(message(&malformed).contains("check baseUrl"));
    let silent = Receiver::responding(|_| String::new());
    assert!(message(&silent).contains("127.0.0.1"));
    let large = Receiver::responding(|_| {
        format!("HTTP/1.1 200 X\r\ncontent-length: 2000000\r\n\r\n{}", "x".repeat(1000))
    });
    assert!(message(&large).contains("longer than"));
    // No server listens there.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let body = json!({"name": "a", "provider": "custom", "baseUrl": format!("http://{gone}")});
    let tested = test(&acme, &acme.admin.post("/llm-providers", body).id());
    assert_eq!(tested["ok"], false);
    assert!(tested["message"].as_str().unwrap().contains("cannot be connected to"), "{tested}");
}

#[test]
fn a_key_is_in_no_response_and_no_log_entry() {
    let acme = Fixture::new();
    let model = saying("ok");
    let path = format!("/llm-providers/{}", connected(&acme, &model));
    let asked = acme.admin.ask("PATCH", &path).org_json(json!({"apiKey": KEY}));
    let answers = [
        acme.admin.get(&path),
        asked.send(),
        acme.admin.post(&format!("{path}/test"), json!({})),
        acme.owner.get("/llm-providers"),
        acme.owner.get("/notifications/logs"),
        acme.admin.delete(&path),
    ];
    for answer in answers {
        answer.ok();
        assert!(!answer.text().contains(KEY), "{}", answer.text());
        assert!(answer.headers.iter().all(|(_, value)| !value.contains(KEY)));
    }
}

#[test]
fn a_provider_that_a_judge_uses_is_not_deleted() {
    let acme = Fixture::new();
    let path = format!("/llm-providers/{}", connected(&acme, &saying("yes")));
    let rule = json!({"type": "judge", "value": "Is it kind?", "llmProviderId": path[15..]});
    let policy = json!({"name": "P", "severity": "error", "rules": [rule]});
    let policy = acme.admin.post("/governance/policies", policy).id();
    acme.admin.delete(&path).refused(409, "llm_provider_in_use");
    acme.admin.delete(&format!("/governance/policies/{policy}")).ok();
    acme.admin.delete(&path).ok();
    let rule = json!({"type": "judge", "value": "Is it kind?", "llmProviderId": unknown_id()});
    let policy = json!({"name": "P", "severity": "error", "rules": [rule]});
    acme.admin.post("/governance/policies", policy).refused(404, "not_found");
}
