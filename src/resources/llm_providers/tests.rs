//! Connections to LLM providers: what is stored of them, and the results of their tests.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::api::Principal;
use crate::base::Kind;
use crate::outside::{Call, CallResult, Failure, Response};
use crate::resources::testing::{Fixture, args};
use crate::store::Store;

/// Creates a provider as an admin.
pub fn make(fixture: &Fixture, body: Value) -> Result<LlmProvider> {
    fixture.write_as(&fixture.owner, create, (), Fixture::input(body)?)
}

/// Updates a provider as an admin.
pub fn patch(fixture: &Fixture, id: Id<LlmProvider>, body: Value) -> Result<LlmProvider> {
    fixture.write_as(&fixture.owner, update, id, Fixture::input(body)?)
}

/// Deletes a provider as an admin.
pub fn delete(fixture: &Fixture, id: Id<LlmProvider>) -> Result<Deleted> {
    fixture.write_as(&fixture.owner, super::delete, id, ())
}

fn key_of(fixture: &Fixture, id: Id<LlmProvider>) -> Option<String> {
    let key = |view: &View| view.fetch::<LlmProvider>(&id)?.unsealed_key(view);
    fixture.store.read_now(fixture.org, key).unwrap()
}

fn custom(name: &str) -> Value {
    json!({"name": name, "provider": "custom", "baseUrl": "http://a.test/v1", "apiKey": "sk-1"})
}

/// Runs the test of a provider with this answer. Returns the call and the result.
fn tested(
    fixture: &Fixture,
    id: Id<LlmProvider>,
    answer: Result<Response, Failure>,
) -> (Call, LlmTestResult) {
    let (parts, who) = (args(id, ()), fixture.owner.clone());
    let run = |calls: &mut Calls| {
        fixture
            .store
            .read_now(fixture.org, |view| test(view, &Req::new(&parts, &who), calls))
            .unwrap()
    };
    let mut calls = Calls::default();
    run(&mut calls);
    let call = calls.asked()[0].clone();
    let mut calls = Calls::default();
    calls.hear(&call, CallResult { answer, took: Duration::from_millis(7) });
    let test = run(&mut calls);
    assert!(calls.asked().is_empty());
    (call, test)
}

fn answer(status: u16, body: Value) -> Result<Response, Failure> {
    Ok(Response { status, headers: vec![], body: body.to_string().into_bytes() })
}

#[test]
fn a_provider_shows_every_field_except_its_key() {
    let fixture = Fixture::new();
    let made = make(&fixture, custom("Ours")).unwrap();
    let expected = json!({
        "id": made.id, "name": "Ours", "provider": "custom", "baseUrl": "http://a.test/v1",
        "config": {}, "isDefault": false, "createdAt": "2026-01-15T12:00:00.000Z",
        "updatedAt": "2026-01-15T12:00:00.000Z", "updatedBy": made.updated_by,
    });
    assert_eq!(json!(fixture.read(get, made.id, ()).unwrap()), expected);
    assert_eq!(key_of(&fixture, made.id).as_deref(), Some("sk-1"));
    assert!(!format!("{made:?}").contains("sk-1"));
    fixture.assert_sound();
}

#[test]
fn problems_of_a_provider_are_reported_at_their_paths() {
    let fixture = Fixture::new();
    let paths = |body: Value| {
        let error = make(&fixture, body).unwrap_err();
        error.issues().iter().map(|issue| issue.path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(paths(json!({"name": "a", "provider": "custom"})), ["baseUrl"]);
    assert_eq!(paths(json!({"name": "a", "provider": "acme"})), ["provider"]);
    for key in ["", "a b", "a\n", "ä", &"x".repeat(4097)] {
        let body = json!({"name": "a", "provider": "openai", "apiKey": key});
        assert_eq!(paths(body), ["apiKey"], "{key:?}");
    }
    for model in [json!(7), json!(""), json!({"a": 1})] {
        let body = json!({"name": "a", "provider": "openai", "config": {"model": model}});
        assert_eq!(paths(body), ["config.model"]);
    }
    let made = make(&fixture, custom("a")).unwrap();
    let error = patch(&fixture, made.id, json!({"baseUrl": null})).unwrap_err();
    assert_eq!(error.issues()[0].path, "baseUrl");
}

#[test]
fn a_new_url_without_a_key_removes_the_old_key() {
    let fixture = Fixture::new();
    let id = make(&fixture, custom("a")).unwrap().id;
    let key = |body: Value| {
        patch(&fixture, id, body).unwrap();
        key_of(&fixture, id)
    };
    assert_eq!(key(json!({"name": "b"})).as_deref(), Some("sk-1"));
    assert_eq!(key(json!({"baseUrl": "http://a.test/v1"})).as_deref(), Some("sk-1"));
    assert_eq!(key(json!({"baseUrl": "http://b.test/v1"})), None);
    assert_eq!(key(json!({"apiKey": "sk-2"})).as_deref(), Some("sk-2"));
    let both = json!({"baseUrl": "http://c.test", "apiKey": "sk-3"});
    assert_eq!(key(both).as_deref(), Some("sk-3"));
    assert_eq!(key(json!({"apiKey": null})), None);
    let shown = fixture.read(get, id, ()).unwrap();
    assert_eq!(shown.provider, Provider::Custom);
}

#[test]
fn an_empty_patch_changes_nothing() {
    let fixture = Fixture::new();
    let made = make(&fixture, custom("a")).unwrap();
    fixture.pass_secs(60);
    assert_eq!(patch(&fixture, made.id, json!({})).unwrap(), made);
    let changed = patch(&fixture, made.id, json!({"config": {"model": "m"}})).unwrap();
    assert!(changed.updated_at > made.updated_at);
}

fn defaults(store: &Store, fixture: &Fixture) -> Vec<String> {
    let all = store
        .read_now(fixture.org, |view| view.all(ListSource::<LlmProvider>::TABLE, &()))
        .unwrap();
    all.into_iter().filter(|one| one.is_default).map(|one| one.name.into_string()).collect()
}

#[test]
fn there_is_at_most_one_default() {
    let fixture = Fixture::new();
    let with = |name: &str, is_default: bool| {
        let body = json!({"name": name, "provider": "openai", "isDefault": is_default});
        make(&fixture, body).unwrap().id
    };
    let defaults = || defaults(&fixture.store, &fixture);
    let a = with("a", true);
    let b = with("b", true);
    assert_eq!(defaults(), ["b"]);
    patch(&fixture, a, json!({"isDefault": true})).unwrap();
    assert_eq!(defaults(), ["a"]);
    patch(&fixture, a, json!({"isDefault": true, "name": "a2"})).unwrap();
    assert_eq!(defaults(), ["a2"]);
    patch(&fixture, a, json!({"isDefault": false})).unwrap();
    assert_eq!(defaults(), Vec::<String>::new());
    with("c", false);
    patch(&fixture, b, json!({"isDefault": true})).unwrap();
    fixture.write_as(&fixture.owner, super::delete, b, ()).unwrap();
    assert_eq!(defaults(), Vec::<String>::new());
    fixture.assert_sound();
}

#[test]
fn each_provider_is_called_in_its_own_form() {
    let fixture = Fixture::new();
    let heard = || Err(Failure::Busy);
    let google = "https://generativelanguage.googleapis.com/v1beta/models/";
    let google = format!("{google}gemini-3.5-flash-lite:generateContent");
    for (provider, url, key, model) in [
        ("openai", "https://api.openai.com/v1/chat/completions", "authorization", true),
        ("openrouter", "https://openrouter.ai/api/v1/chat/completions", "authorization", true),
        ("anthropic", "https://api.anthropic.com/v1/messages", "x-api-key", true),
        ("google", &*google, "x-goog-api-key", false),
    ] {
        let body = json!({"name": "a", "provider": provider, "apiKey": "sk-1"});
        let id = make(&fixture, body).unwrap().id;
        let (call, _) = tested(&fixture, id, heard());
        assert_eq!(call.url, url);
        let value = if key == "authorization" { "Bearer sk-1" } else { "sk-1" };
        assert!(call.headers.contains(&(key.into(), value.into())), "{provider}");
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        assert_eq!(body["model"].is_string(), model, "{provider}");
        assert!(!String::from_utf8(call.body).unwrap().contains("sk-1"));
    }
    // Its own URL and model; and the call of a server without a key and with one model.
    let mut body = custom("a");
    body["config"] = json!({"model": "llama"});
    let (call, _) = tested(&fixture, make(&fixture, body).unwrap().id, heard());
    assert_eq!(call.url, "http://a.test/v1/chat/completions");
    let sent: Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(sent["model"], "llama");
    let body = json!({"name": "a", "provider": "custom", "baseUrl": "http://b.test/"});
    let (call, _) = tested(&fixture, make(&fixture, body).unwrap().id, heard());
    assert_eq!(call.url, "http://b.test/chat/completions");
    assert_eq!(call.headers, [("content-type".to_string(), "application/json".to_string())]);
    let sent: Value = serde_json::from_slice(&call.body).unwrap();
    assert!(sent.get("model").is_none());
}

#[test]
fn a_test_returns_its_result_and_never_the_key() {
    let fixture = Fixture::new();
    let id = make(&fixture, custom("a")).unwrap().id;
    let test = |heard| json!(tested(&fixture, id, heard).1);
    let ok = json!({"choices": [{"message": {"content": "ok sk-1"}}]});
    let expected =
        json!({"ok": true, "latencyMs": 7, "message": "the server's own model answered"});
    assert_eq!(test(answer(200, ok)), expected);
    let echo = json!({"error": {"message": "wrong key: sk-1"}});
    for (heard, word) in [
        (answer(401, echo.clone()), "another apiKey (status 401)"),
        (answer(500, echo.clone()), "fails"),
        (answer(302, echo.clone()), "redirects"),
        (answer(200, echo), "check baseUrl"),
        (Err(Failure::Connect { host: "a.test".into(), reason: "refused".into() }), "a.test"),
    ] {
        let said = test(heard);
        assert_eq!(said["ok"], false);
        let message = said["message"].as_str().unwrap();
        assert!(message.contains(word) && !message.contains("sk-1"), "{message}");
    }
}

/// Runs the test of a provider against a server that has these paths.
fn tested_at(
    fixture: &Fixture,
    id: Id<LlmProvider>,
    paths: &[&str],
) -> (Vec<String>, LlmTestResult) {
    tested_with(fixture, id, |path| match paths.contains(&path) {
        true => answer(200, json!({"choices": [{"message": {"content": "ok"}}]})),
        false => answer(404, json!({"detail": "Not Found"})),
    })
}

/// The same where the server at `a.test` answers as it is told.
fn tested_with(
    fixture: &Fixture,
    id: Id<LlmProvider>,
    heard: impl Fn(&str) -> Result<Response, Failure>,
) -> (Vec<String>, LlmTestResult) {
    let (parts, who) = (args(id, ()), fixture.owner.clone());
    let (mut called, mut known): (Vec<String>, Vec<(Call, CallResult)>) = (Vec::new(), Vec::new());
    loop {
        let mut calls = Calls::default();
        for (call, result) in &known {
            calls.hear(call, result.clone());
        }
        let result = fixture
            .store
            .read_now(fixture.org, |view| test(view, &Req::new(&parts, &who), &mut calls))
            .unwrap();
        let Some(call) = calls.asked().first().map(|call| (*call).clone()) else {
            return (called, result);
        };
        let answer = heard(call.url.strip_prefix("http://a.test").unwrap());
        called.push(call.url.clone());
        known.push((call, CallResult { answer, took: Duration::from_millis(7) }));
    }
}

#[test]
fn a_base_url_without_a_version_is_tried_with_one_if_it_is_not_the_api() {
    let fixture = Fixture::new();
    let mut body = custom("a");
    body["baseUrl"] = json!("http://a.test/");
    let id = make(&fixture, body).unwrap().id;
    let (given, versioned) = ("/chat/completions", "/v1/chat/completions");
    let urls = |paths: &[&str]| paths.iter().map(|path| format!("http://a.test{path}")).collect();
    let both: Vec<String> = urls(&[given, versioned]);

    let (called, result) = tested_at(&fixture, id, &[given, versioned]);
    assert_eq!((called, result.ok), (urls(&[given]), true));
    assert_eq!(result.message, "the server's own model answered");
    let (called, result) = tested_at(&fixture, id, &[versioned]);
    assert_eq!((&called, result.ok, result.latency_ms), (&both, true, 14));
    assert!(result.message.ends_with("add /v1 to baseUrl, where its API is"), "{result:?}");
    let (called, result) = tested_at(&fixture, id, &[]);
    assert_eq!((&called, result.ok), (&both, false));
    let said = "check baseUrl and config.model (status 404); it says: \"Not Found\"";
    assert!(result.message.ends_with(said), "{result:?}");
    // With a version, that is where it is.
    patch(&fixture, id, json!({"baseUrl": "http://a.test/v2"})).unwrap();
    let (called, _) = tested_at(&fixture, id, &[]);
    assert_eq!(called, ["http://a.test/v2/chat/completions"]);
}

#[test]
fn of_two_places_the_reason_of_the_api_is_shown() {
    let fixture = Fixture::new();
    let mut body = custom("a");
    body["baseUrl"] = json!("http://a.test");
    let id = make(&fixture, body).unwrap().id;
    for api in ["/v1/chat/completions", "/chat/completions"] {
        let (_, result) = tested_with(&fixture, id, |path| {
            let error = json!({"error": {"message": "model 'x' not found"}});
            answer(404, if path == api { error } else { json!({"error": "Not Found"}) })
        });
        assert!(result.message.contains("model 'x' not found"), "{result:?}");
    }
}

#[test]
fn a_key_echoed_by_a_server_is_not_shown() {
    let fixture = Fixture::new();
    let provider = make(&fixture, custom("a")).unwrap();
    let request = Attempt::short("s".into(), "u".into(), 1);
    let run = |calls: &mut Calls| {
        fixture.store.read_now(fixture.org, |view| ask(view, &provider, &request, calls)).unwrap()
    };
    let mut calls = Calls::default();
    assert!(run(&mut calls).is_none());
    let call = calls.asked()[0].clone();
    let body = json!({"choices": [{"message": {"content": "Bearer sk-1, no?"}}]});
    calls.hear(&call, CallResult { answer: answer(200, body), took: Duration::ZERO });
    let reply = run(&mut calls).unwrap();
    assert_eq!(reply.without_key(reply.text.as_deref().unwrap()), "Bearer …, no?");
}

#[test]
fn a_provider_of_another_organization_is_not_found() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("other");
    let id = make(&fixture, custom("a")).unwrap().id;
    let as_eve = |who: &Principal| fixture.read_as(who, get, id, ()).unwrap_err().kind();
    assert_eq!(as_eve(&eve), Kind::NotFound);
}
