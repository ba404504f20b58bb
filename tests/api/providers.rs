//! Prompt providers (reference: registries-and-templates, "Prompt providers"), against stand-in
//! servers or another organization of a real Roadstead.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use roadstead::app::ServerConfig;
use serde_json::{Value, json};

use crate::client::{Reply, pick};
use crate::fixture::{Fixture, Running, config, key_of, unknown_id};

// ── Stand-in providers ───────────────────────────────────────────────────────

/// A stand-in prompt provider.
pub struct There {
    pub url: String,
    /// The heads of the requests so far.
    asked: Arc<Mutex<Vec<String>>>,
}

impl There {
    /// Starts one that does this with each connection, after reading the head of a request.
    pub fn doing(act: impl Fn(&str, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (note, act) = (asked.clone(), Arc::new(act));
        // The threads end with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (note, act) = (note.clone(), act.clone());
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let Some(head) = head(&mut stream) else { return };
                    note.lock().unwrap().push(head.clone());
                    act(&head, stream);
                });
            }
        });
        There { url, asked }
    }

    /// Starts one that answers by the target of a request.
    pub fn answering(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Self {
        Self::doing(move |head, mut stream| {
            let (status, body) = answer(head.split(' ').nth(1).unwrap());
            let _ = stream.write_all(message(status, &body).as_bytes());
        })
    }

    /// Starts one with a constant answer.
    pub fn saying(body: &Value) -> Self {
        let body = body.to_string();
        Self::answering(move |_| (200, body.clone()))
    }

    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn message(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nlocation: /elsewhere\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

/// A port without a listener.
fn closed() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

/// A provider of the kind `http`.
pub fn provider(acme: &Fixture, url: &str) -> String {
    provider_of(acme, "http", url, Value::Null)
}

pub fn provider_of(acme: &Fixture, kind: &str, url: &str, credentials: Value) -> String {
    let new = json!({"name": "There", "kind": kind, "baseUrl": url, "credentials": credentials});
    format!("/prompt-providers/{}", acme.admin.post("/prompt-providers", new).id())
}

pub fn registry(acme: &Fixture, slug: &str) -> String {
    // An existing one is kept.
    acme.admin.post("/registries", json!({"slug": slug, "name": slug}));
    format!("{}/{slug}", acme.slug)
}

pub fn prompt(name: &str, version: &str, template: &str) -> Value {
    json!({"name": name, "version": version, "template": template, "format": "text", "labels": [],
        "updatedAt": null})
}

/// Returns the message of a 502.
#[track_caller]
pub fn message_of(reply: &Reply) -> String {
    let problem = reply.refused(502, "prompt_provider_failed");
    problem["message"].as_str().unwrap().into()
}

// ── Providers ────────────────────────────────────────────────────────────────

#[test]
fn prompt_providers_are_written_by_admins_and_returned_without_credentials() {
    let acme = Fixture::new();
    let new = json!({"name": "There", "kind": "langfuse", "baseUrl": "https://there.test/x",
        "credentials": {"publicKey": "pk-sesame", "secretKey": "sk-sesame"}});
    let made = acme.admin.post("/prompt-providers", new.clone()).ok();
    let fields: Vec<_> = made.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["id", "name", "kind", "baseUrl", "createdAt", "updatedAt", "updatedBy"]);
    let path = format!("/prompt-providers/{}", made["id"].as_str().unwrap());
    assert_eq!(acme.member.get(&path).ok(), made);
    assert_eq!(key_of(&acme.member).get("/prompt-providers").items(), [made]);
    acme.key.patch(&path, json!({"kind": "http"})).invalid(&["kind"]);
    let patch = json!({"name": "Other", "baseUrl": "http://other.test"});
    let changed = acme.key.patch(&path, patch).ok();
    let expected = json!(["Other", "langfuse", "http://other.test"]);
    assert_eq!(pick(&changed, "name kind baseUrl"), expected);
    acme.member.post("/prompt-providers", new).refused(403, "admin_required");
    acme.member.patch(&path, json!({})).refused(403, "admin_required");
    acme.member.delete(&path).refused(403, "admin_required");
    acme.admin.delete(&path).ok();
    acme.admin.delete(&path).refused(404, "not_found");
    acme.member.get(&format!("{path}/prompts")).refused(404, "not_found");
}

#[test]
fn all_problems_of_a_provider_are_reported_at_once() {
    let acme = Fixture::new();
    let post = |body: Value| acme.admin.post("/prompt-providers", body);
    post(json!({})).invalid(&["name", "kind", "baseUrl"]);
    let with = |field: &str, value: Value| {
        let mut body = json!({"name": "n", "kind": "http", "baseUrl": "http://a.test"});
        body[field] = value;
        post(body)
    };
    with("kind", json!("promptlayer")).invalid(&["kind"]);
    for url in ["ftp://a.test", "a.test", "/prompts", "http://", "http://u:p@a.test", ""] {
        with("baseUrl", json!(url)).invalid(&["baseUrl"]);
    }
    with("credentials", json!({})).invalid(&["credentials.apiKey"]);
    with("credentials", json!({"apiKey": ""})).invalid(&["credentials.apiKey"]);
    with("credentials", json!({"publicKey": "p", "secretKey": "s"}))
        .invalid(&["credentials.apiKey"]);
    with("credentials", json!(["k"])).invalid(&["credentials"]);
    with("credentials", Value::Null).ok();
}

// ── Listing ──────────────────────────────────────────────────────────────────

#[test]
fn prompts_are_fetched_on_every_request_and_cut_by_the_limit() {
    let acme = Fixture::new();
    let count = AtomicUsize::new(0);
    let there = There::answering(move |_| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        let items: Vec<_> =
            (0..60).map(|i| prompt(&format!("p{i}"), &n.to_string(), "t")).collect();
        (200, json!({"items": items, "nextCursor": "more"}).to_string())
    });
    let list = format!("{}/prompts", provider(&acme, &there.url));
    let first = acme.member.get(&list).ok();
    assert_eq!(first["items"].as_array().unwrap().len(), 50);
    assert_eq!((&first["nextCursor"], &first["more"]), (&Value::Null, &json!(true)));
    assert_eq!(first["items"][0], prompt("p0", "0", "t"));
    let second = acme.member.get(&format!("{list}?limit=200")).ok();
    assert_eq!(second["items"].as_array().unwrap().len(), 60);
    assert_eq!(
        (&second["items"][0]["version"], &second["nextCursor"]),
        (&json!("1"), &Value::Null)
    );
    assert_eq!(acme.key.get(&format!("{list}?limit=1")).items(), [prompt("p0", "2", "t")]);
    for bad in ["0", "201", "x"] {
        acme.member.get(&format!("{list}?limit={bad}")).invalid(&["limit"]);
    }
    acme.member
        .get(&format!("/prompt-providers/{}/prompts", unknown_id()))
        .refused(404, "not_found");
    assert_eq!(there.asked().len(), 3);
    // All of them, by pages.
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = acme.member.get(&format!("{list}?paged=true&limit=25&cursor={cursor}")).ok();
        let items = page["items"].as_array().unwrap().iter();
        names.extend(items.map(|item| item["name"].as_str().unwrap().to_string()));
        assert_eq!(page["more"], json!(page["nextCursor"].is_string()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = next.to_string();
    }
    let all: Vec<_> = (0..60).map(|number| format!("p{number}")).collect();
    assert_eq!(names, all);
    acme.member.get(&format!("{list}?paged=true&cursor=AAAA")).invalid(&["cursor"]);
}

#[test]
fn each_kind_is_called_at_its_paths_with_its_credentials() {
    let acme = Fixture::new();
    let version = json!({"id": "v", "template_format": "MUSTACHE",
        "template": {"type": "string", "template": "t"}});
    let tags = json!([{"key": "mlflow.prompt.is_prompt", "value": "true"},
        {"key": "mlflow.prompt.text", "value": "t"}]);
    let there = There::answering(move |target| {
        let (path, _) = target.split_once('?').unwrap_or((target, ""));
        let body = match path {
            "/lf/api/public/v2/prompts" => {
                json!({"data": [{"name": "a b"}], "meta": {"totalPages": 1}})
            }
            "/lf/api/public/v2/prompts/a%20b" => json!({"version": 1, "prompt": "t"}),
            "/px/v1/prompts" => json!({"data": [{"name": "a"}], "next_cursor": null}),
            "/px/v1/prompts/a/latest" => json!({"data": version}),
            "/px/v1/prompt_versions/v/tags" => json!({"data": []}),
            "/ml/api/2.0/mlflow/registered-models/search" => {
                json!({"registered_models": [{"name": "a"}]})
            }
            "/ml/api/2.0/mlflow/model-versions/search" => {
                json!({"model_versions": [{"version": "1", "tags": tags}]})
            }
            "/list" => json!({"items": [prompt("a", "1", "t")]}),
            _ => return (404, String::new()),
        };
        (200, body.to_string())
    });
    let basic = json!({"publicKey": "pk", "secretKey": "sk"});
    let bearer = json!({"apiKey": "key"});
    for (kind, path, credentials, sent) in [
        ("langfuse", "/lf/", basic, "authorization: Basic cGs6c2s=\r\n"),
        ("phoenix", "/px", bearer.clone(), "authorization: Bearer key\r\n"),
        ("mlflow", "/ml", bearer.clone(), "authorization: Bearer key\r\n"),
        ("http", "/list", bearer, "authorization: Bearer key\r\n"),
    ] {
        let url = format!("{}{path}", there.url);
        let list = format!("{}/prompts", provider_of(&acme, kind, &url, credentials));
        let found = acme.member.get(&list).items();
        assert_eq!((found.len(), &found[0]["template"]), (1, &json!("t")), "{kind}");
        let asked = there.asked();
        assert!(!asked.is_empty() && asked.iter().all(|head| head.contains(sent)), "{asked:?}");
        let bare = format!("{}/prompts", provider_of(&acme, kind, &url, Value::Null));
        assert_eq!(acme.member.get(&bare).items(), found);
        assert!(there.asked().iter().all(|head| !head.contains("authorization")), "{kind}");
    }
}

#[test]
fn prompts_are_fetched_eight_at_a_time() {
    let acme = Fixture::new();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let there = There::answering(move |target| {
        if target.contains("?page=") {
            let names: Vec<_> = (0..32).map(|i| json!({"name": format!("p{i}")})).collect();
            return (200, json!({"data": names, "meta": {"totalPages": 1}}).to_string());
        }
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Long enough for more requests to arrive, if they are allowed.
        std::thread::sleep(Duration::from_millis(150));
        now.fetch_sub(1, Ordering::SeqCst);
        (200, json!({"version": 1, "prompt": "t"}).to_string())
    });
    let list = format!("{}/prompts", provider_of(&acme, "langfuse", &there.url, Value::Null));
    let found = acme.member.get(&list).items();
    let names: Vec<_> = found.iter().map(|prompt| prompt["name"].as_str().unwrap()).collect();
    let expected: Vec<_> = (0..32).map(|i| format!("p{i}")).collect();
    assert_eq!(names, expected);
    assert_eq!(most.load(Ordering::SeqCst), 8);
}

// ── Failures ─────────────────────────────────────────────────────────────────

#[test]
fn a_failing_provider_is_reported_without_its_answer() {
    let acme = Fixture::new();
    let says =
        |status: u16, body: &'static str| There::answering(move |_| (status, body.into())).url;
    let breaks_off = There::doing(|_, mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{\"items\": [");
    });
    let no_http = There::doing(|_, mut stream| {
        let _ = stream.write_all(b"220 sesame ESMTP\r\n");
    });
    let endless = There::doing(|_, mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"items\": [");
        while stream.write_all(&[b' '; 64 * 1024]).is_ok() {}
    });
    for (url, word) in [
        (closed(), "cannot be connected to"),
        ("http://there.invalid".into(), "cannot be resolved"),
        (says(301, "sesame"), "redirects (301)"),
        (says(307, "sesame"), "redirects (307)"),
        (says(401, "sesame"), "refuses the credentials (401)"),
        (says(403, "sesame"), "refuses the credentials (403)"),
        (says(404, "sesame"), "no such path (404)"),
        (says(500, "{\"message\": \"sesame\"}"), "the error 500"),
        (says(200, "sesame"), "not JSON"),
        (says(200, "{\"items\": \"sesame\"}"), "does not have the form"),
        (says(200, "{\"items\": [{\"name\": \"sesame\"}]}"), "does not have the form"),
        (says(204, ""), "not JSON"),
        (breaks_off.url, "did not answer as HTTP asks"),
        (no_http.url, "did not answer as HTTP asks"),
        (endless.url, "longer than 4194304 bytes"),
    ] {
        let secret = json!({"apiKey": "open-sesame"});
        let provider = provider_of(&acme, "http", &url, secret);
        let message = message_of(&acme.member.get(&format!("{provider}/prompts")));
        assert!(message.contains(word), "{url}: {message}");
        assert!(!message.contains("sesame"), "{message}");
        let import = json!({"registryRef": registry(&acme, "r"), "prompts": [{"name": "a"}]});
        let message = message_of(&acme.member.post(&format!("{provider}/import"), import));
        assert!(message.contains(word), "{url}: {message}");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let acme = Fixture::new();
    let there = There::answering(|target| match target {
        "/elsewhere" => (200, json!({"items": []}).to_string()),
        _ => (302, String::new()),
    });
    message_of(&acme.member.get(&format!("{}/prompts", provider(&acme, &there.url))));
    assert_eq!(there.asked().len(), 1);
}

#[test]
fn a_provider_has_ten_seconds_for_all_calls() {
    let acme = Fixture::new();
    // The list takes four seconds, the prompts never arrive.
    let there = There::doing(|head, mut stream| {
        if !head.contains("?page=") {
            let _ = stream.read(&mut [0]);
            return;
        }
        std::thread::sleep(Duration::from_secs(4));
        let list = json!({"data": [{"name": "a"}], "meta": {"totalPages": 1}});
        let _ = stream.write_all(message(200, &list.to_string()).as_bytes());
    });
    let list = format!("{}/prompts", provider_of(&acme, "langfuse", &there.url, Value::Null));
    let begun = Instant::now();
    let message = message_of(&acme.member.get(&list));
    assert!(message.contains("no complete answer within"), "{message}");
    let took = begun.elapsed().as_secs_f64();
    assert!((9.5..13.0).contains(&took), "{took}");
    // It was not called again.
    assert_eq!(there.asked().len(), 2);
}

#[test]
fn a_private_address_is_called_only_if_the_operator_allows_it() {
    let running = Running::start(ServerConfig { allow_private: vec![], ..config() });
    let acme = running.fixture();
    let there = There::saying(&json!({"items": []}));
    for url in [there.url.clone(), there.url.replace("127.0.0.1", "localhost")] {
        let message = message_of(&acme.member.get(&format!("{}/prompts", provider(&acme, &url))));
        assert!(message.contains("--allow-private-network"), "{message}");
    }
    assert_eq!(there.asked(), [""; 0]);
}
