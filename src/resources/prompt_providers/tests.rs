//! Providers and their credentials; the calls to each kind and the recorded answers of real ones
//! ([`wire`]); lists of many pages ([`pages`]); the messages for malformed answers.

mod pages;
mod wire;

use std::cell::RefCell;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::ProviderClient;
use super::external::FoundPrompt;
use super::*;
use crate::base::Kind;
use crate::outside::{Call, CallResult, Failure, Response};
use crate::resources::testing::Fixture;

const LANGFUSE: &str = "https://langfuse.test/";

fn new(kind: &str, base_url: &str, credentials: Value) -> Result<NewPromptProvider> {
    let (name, base_url) = ("There", base_url);
    Fixture::input(json!({
        "name": name, "kind": kind, "baseUrl": base_url, "credentials": credentials,
    }))
}

fn make(fixture: &Fixture, kind: &str, credentials: Value) -> PromptProvider {
    let new = new(kind, LANGFUSE, credentials).unwrap();
    fixture.write_as(&fixture.owner, create, (), new).unwrap()
}

fn patch(fixture: &Fixture, provider: &PromptProvider, patch: Value) -> Result<PromptProvider> {
    let patch = Fixture::input(patch)?;
    fixture.write_as(&fixture.owner, update, provider.id, patch)
}

/// Returns the value of `Authorization`.
fn authorization(fixture: &Fixture, provider: &PromptProvider) -> Option<String> {
    let read = |view: &View, req: &Req<Id<PromptProvider>>| {
        let provider: PromptProvider = view.fetch(&req.params)?;
        let sealed = provider.authorization.as_ref();
        sealed.map(|s| view.unseal(&AUTHORIZATION, &req.params, s)).transpose()
    };
    fixture.read(read, provider.id, ()).unwrap()
}

/// Runs an operation until all of its calls have an answer: that of `answer` for the path with its
/// query.
fn ask<T>(
    kind: PromptProviderKind,
    base_url: &str,
    answer: impl Fn(&str) -> Result<Response, Failure>,
    act: impl Fn(&mut ProviderClient) -> Result<T>,
) -> Result<T> {
    let mut heard: Vec<(Call, CallResult)> = Vec::new();
    loop {
        let mut calls = Calls::default();
        heard.iter().for_each(|(call, heard)| calls.hear(call, heard.clone()));
        let authorization = Some("Bearer sesame".to_string());
        let mut client = ProviderClient::new(kind, base_url, authorization, "acme", &mut calls);
        let done = act(&mut client);
        let asked = calls.asked();
        if asked.is_empty() || done.is_err() {
            return done;
        }
        assert!(heard.len() < 1000, "it asks without end");
        for call in asked {
            let path = call.url.splitn(4, '/').nth(3).unwrap_or_default();
            let answer = answer(&format!("/{path}"));
            heard.push((call.clone(), CallResult { answer, took: Duration::ZERO }));
        }
    }
}

/// The first prompts of a provider.
fn first(client: &mut ProviderClient, limit: usize) -> Result<Vec<FoundPrompt>> {
    fetch::list(client, &Position::default(), limit).map(|listed| listed.items)
}

fn answered(status: u16, body: impl Into<Vec<u8>>) -> Result<Response, Failure> {
    Ok(Response { status, headers: vec![], body: body.into() })
}

/// Answers from a table; anything else is 404.
fn from<'a>(table: &'a [(&str, Value)]) -> impl Fn(&str) -> Result<Response, Failure> + 'a {
    move |path| match table.iter().find(|(known, _)| *known == path) {
        Some((_, body)) => answered(200, body.to_string()),
        None => answered(404, "there is no such thing"),
    }
}

// ── Providers ────────────────────────────────────────────────────────────────

#[test]
fn credentials_are_stored_sealed_and_never_returned() {
    let fixture = Fixture::new();
    let langfuse = make(&fixture, "langfuse", json!({"publicKey": "pk", "secretKey": "sesame"}));
    let basic = "Basic cGs6c2VzYW1l";
    assert_eq!(authorization(&fixture, &langfuse).as_deref(), Some(basic));
    let mlflow = make(&fixture, "mlflow", json!({"apiKey": "sesame"}));
    assert_eq!(authorization(&fixture, &mlflow).as_deref(), Some("Bearer sesame"));
    let shown = fixture.read(get, langfuse.id, ()).unwrap();
    for text in [serde_json::to_string(&shown).unwrap(), format!("{shown:?}")] {
        assert!(!text.contains("sesame") && !text.contains("c2VzYW1l"), "{text}");
        assert!(!text.contains("redentials"), "{text}");
    }
    let none = make(&fixture, "http", Value::Null);
    assert_eq!(authorization(&fixture, &none), None);
    fixture.assert_sound();
}

#[test]
fn credentials_have_the_form_of_their_kind() {
    let paths = |kind: &str, credentials: Value| {
        let refused = new(kind, LANGFUSE, credentials).err().map(|e| e.issues().to_vec());
        let paths = refused.into_iter().flatten().map(|issue| issue.path);
        paths.collect::<Vec<_>>()
    };
    let both = json!({"publicKey": "pk", "secretKey": "sk"});
    assert_eq!(paths("langfuse", both.clone()), [""; 0]);
    let needed = ["credentials.publicKey", "credentials.secretKey"];
    assert_eq!(paths("langfuse", json!({"apiKey": "k"})), needed);
    assert_eq!(paths("langfuse", json!({})), needed);
    assert_eq!(paths("langfuse", json!({"publicKey": "a:b", "secretKey": "c"})), needed[..1]);
    for kind in ["phoenix", "mlflow", "roadstead", "http"] {
        assert_eq!(paths(kind, json!({"apiKey": "k"})), [""; 0]);
        assert_eq!(paths(kind, both.clone()), ["credentials.apiKey"]);
    }
    for bad in ["", "a\nb", "ä", &"x".repeat(1001)] {
        assert_eq!(paths("http", json!({"apiKey": bad})), ["credentials.apiKey"], "{bad:?}");
    }
    assert_eq!(paths("http", json!("sesame")), ["credentials"]);

    let fixture = Fixture::new();
    let provider = make(&fixture, "langfuse", Value::Null);
    let refused = patch(&fixture, &provider, json!({"credentials": {"apiKey": "k"}})).unwrap_err();
    assert_eq!(refused.issues()[0].path, "credentials.publicKey");
}

#[test]
fn credentials_are_not_sent_to_another_url() {
    let fixture = Fixture::new();
    let provider = make(&fixture, "http", json!({"apiKey": "sesame"}));
    let has = || authorization(&fixture, &provider).is_some();
    patch(&fixture, &provider, json!({"name": "n", "baseUrl": LANGFUSE})).unwrap();
    assert!(has(), "the address stayed what it was");
    let moved = json!({"baseUrl": "https://evil.test/"});
    patch(&fixture, &provider, moved).unwrap();
    assert!(!has());
    let both = json!({"baseUrl": LANGFUSE, "credentials": {"apiKey": "other"}});
    patch(&fixture, &provider, both).unwrap();
    assert_eq!(authorization(&fixture, &provider).as_deref(), Some("Bearer other"));
    patch(&fixture, &provider, json!({"credentials": null})).unwrap();
    assert!(!has());
}

#[test]
fn a_patch_leaves_the_kind() {
    let fixture = Fixture::new();
    let provider = make(&fixture, "mlflow", Value::Null);
    fixture.pass_secs(1);
    let same = patch(&fixture, &provider, json!({})).unwrap();
    assert_eq!(same, provider);
    let other = patch(&fixture, &provider, json!({"name": "Other"})).unwrap();
    assert_eq!((other.kind, other.name.as_str()), (PromptProviderKind::Mlflow, "Other"));
    assert!(other.updated_at > other.created_at);
}

#[test]
fn a_provider_of_another_organization_is_not_found() {
    let fixture = Fixture::new();
    let provider = make(&fixture, "http", Value::Null);
    let (_, eve) = fixture.other_org("evil");
    assert_eq!(fixture.read_as(&eve, get, provider.id, ()).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(fixture.read_as(&eve, list, (), ()).unwrap().items, []);
    let gone = fixture.write_as(&eve, delete, provider.id, ()).unwrap_err();
    assert_eq!(gone.kind(), Kind::NotFound);
    fixture.write_as(&fixture.owner, delete, provider.id, ()).unwrap();
    let twice = fixture.write_as(&fixture.owner, delete, provider.id, ()).unwrap_err();
    assert_eq!(twice.kind(), Kind::NotFound);
}

// ── What can go wrong ────────────────────────────────────────────────────────

const KINDS: [PromptProviderKind; 5] = [
    PromptProviderKind::Langfuse,
    PromptProviderKind::Phoenix,
    PromptProviderKind::Mlflow,
    PromptProviderKind::Roadstead,
    PromptProviderKind::Http,
];

/// Returns the message of the failure if every call gets this answer.
fn message_of(kind: PromptProviderKind, answer: Result<Response, Failure>) -> String {
    let error = ask(kind, LANGFUSE, |_| answer.clone(), |client| first(client, 50)).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Upstream, "prompt_provider_failed"));
    error.message().into()
}

#[test]
fn each_failure_has_its_own_message() {
    let host = || "there.test".to_string();
    let bytes = 4;
    let mut all = std::collections::BTreeSet::new();
    for (answer, word) in [
        (answered(301, "sesame"), "redirects (301)"),
        (answered(401, "sesame"), "refuses the credentials (401)"),
        (answered(403, "sesame"), "refuses the credentials (403)"),
        (answered(404, "sesame"), "no such path (404)"),
        (answered(429, "sesame"), "rate limit is reached (429)"),
        (answered(500, "sesame"), "the error 500"),
        (answered(200, "<html>sesame</html>"), "not JSON"),
        (answered(200, ""), "not JSON"),
        (answered(200, "{\"data\": ["), "not JSON"),
        (answered(200, "{\"a\":".repeat(100_000)), "not JSON"),
        (answered(200, "[".repeat(100_000)), "does not have the form"),
        (answered(200, "[]"), "does not have the form"),
        (answered(200, "null"), "does not have the form"),
        (answered(200, "\"sesame\""), "does not have the form"),
        (Err(Failure::TimedOut { host: host(), after: Duration::from_secs(10) }), "within 10 s"),
        (Err(Failure::TooLarge { host: host(), bytes }), "longer than 4 bytes"),
        (Err(Failure::Name { host: host(), reason: "r".into() }), "cannot be resolved"),
        (
            Err(Failure::Address { host: host(), address: "127.0.0.1".parse().unwrap() }),
            "--allow-private-network",
        ),
    ] {
        for kind in KINDS {
            let message_of = message_of(kind, answer.clone());
            assert!(message_of.contains(word), "{kind:?}: {message_of}");
            assert!(!message_of.contains("sesame"), "{message_of}");
            all.insert(message_of);
        }
    }
    assert!(all.len() > 12, "{all:?}");
}

#[test]
fn messages_nested_too_deeply_are_refused() {
    let answer = |path: &str| {
        if path.contains('?') {
            return answered(200, r#"{"data": [{"name": "a"}], "meta": {"totalPages": 1}}"#);
        }
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        answered(200, format!("{{\"version\": 1, \"prompt\": {open}{close}}}"))
    };
    let error = ask(PromptProviderKind::Langfuse, LANGFUSE, answer, |client| first(client, 50))
        .unwrap_err();
    assert!(error.message().contains("nested too deeply"), "{error}");
}

#[test]
fn a_refusal_without_credentials_requires_them() {
    let call = RefCell::new(None);
    let refused = |mut calls: Calls| {
        let mut client =
            ProviderClient::new(PromptProviderKind::Mlflow, LANGFUSE, None, "acme", &mut calls);
        let done = first(&mut client, 50);
        *call.borrow_mut() = calls.asked().first().map(|call| (*call).clone());
        done
    };
    refused(Calls::default()).unwrap();
    let asked = call.take().unwrap();
    assert!(asked.headers.iter().all(|(name, _)| name != "authorization"));
    let mut calls = Calls::default();
    calls.hear(&asked, CallResult { answer: answered(401, ""), took: Duration::ZERO });
    let error = refused(calls).unwrap_err();
    assert!(error.message().contains("requires credentials (401)"), "{error}");
}

#[test]
fn unexpected_answers_are_malformed_in_every_call() {
    use PromptProviderKind::*;
    let prompt = |field: &str, value: Value| {
        let mut prompt = json!({"name": "a", "version": "1", "template": "t"});
        prompt[field] = value;
        json!({"items": [prompt]})
    };
    let langfuse = |version: Value, text: Value| {
        json!({
            "data": [{"name": "a"}], "meta": {"totalPages": 1}, "version": version, "prompt": text,
        })
    };
    let phoenix = |template: Value| json!({"data": {"id": "v", "template": template, "template_format": "MUSTACHE"}});
    let mlflow = |text: Value, at: Value| {
        json!({"model_versions": [{
            "version": "1", "last_updated_timestamp": at,
            "tags": [{"key": "mlflow.prompt.text", "value": text},
                {"key": "_mlflow_prompt_type", "value": "chat"}],
        }]})
    };
    for (kind, body) in [
        (Http, json!({"items": {}})),
        (Http, json!({"items": [null]})),
        (Http, prompt("name", json!(5))),
        (Http, prompt("version", json!(3))),
        (Http, prompt("template", Value::Null)),
        (Http, prompt("format", json!("html"))),
        (Http, prompt("labels", json!("a"))),
        (Http, prompt("labels", json!([1]))),
        (Http, prompt("updatedAt", json!("yesterday"))),
        (Langfuse, json!({"data": [{"name": "a"}], "meta": {"totalPages": -1}})),
        (Langfuse, langfuse(json!(-1), json!("t"))),
        (Langfuse, langfuse(json!(1e300), json!("t"))),
        (Langfuse, langfuse(json!("1"), json!("t"))),
        (Langfuse, langfuse(json!(1), json!({"a": 1}))),
        (Phoenix, phoenix(json!({"type": "chat"}))),
        (Phoenix, phoenix(json!({"type": "chat", "messages": "m"}))),
        (Phoenix, phoenix(json!("t"))),
        (Mlflow, mlflow(json!("no JSON"), json!(1))),
        (Mlflow, mlflow(json!("{}"), json!(1))),
        (Mlflow, mlflow(json!("[]"), json!(-1))),
        (Mlflow, mlflow(json!("[]"), json!(i64::MAX))),
        (Mlflow, mlflow(json!("[]"), json!("1"))),
        (Mlflow, json!({"model_versions": [{"version": "1"}]})),
    ] {
        // The list before it is well-formed.
        let answer = |path: &str| match path {
            "/v1/prompts?limit=50" => answered(200, r#"{"data": [{"name": "a"}]}"#),
            path if path.contains("registered-models") => {
                answered(200, r#"{"registered_models": [{"name": "a"}]}"#)
            }
            _ => answered(200, body.to_string()),
        };
        let error = ask(kind, LANGFUSE, answer, |client| first(client, 50)).unwrap_err();
        assert!(error.message().contains("does not have the form"), "{kind:?} {body}: {error}");
    }
}
