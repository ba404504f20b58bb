//! Prompts that are tried on a real proxy of models, `litellm`, with answers that are made up.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::client::{Caller, Connection, pick, within};
use crate::optional::{Installed, installed};
use crate::python::{self, Packages};
use crate::server::{Acme, free_port};

/// Not the newest: a later release was not what it said.
static ENVIRONMENT: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "litellm-1",
        what: "a proxy of models for tests (once, a minute)",
        wanted: &["litellm[proxy]"],
        constraints: "tests/tools/litellm.txt",
    })
});

const KEY: &str = "sk-litellm-0123456789";

/// A running proxy. It is killed when dropped.
struct Proxy {
    process: Child,
    port: u16,
    _place: tempfile::TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Proxy {
    /// None where the test is left out, which is said aloud.
    fn start() -> Option<Self> {
        let program = installed("LITELLM", "a proxy of models", &ENVIRONMENT)?;
        let place = tempfile::tempdir().unwrap();
        let config = place.path().join("config.yaml");
        let port = free_port();
        let mock = json!({"model": "openai/mock", "api_key": "none",
            "mock_response": "Good morning, Ada."});
        // Its own model, which it asks as it would one elsewhere: what is made up is no stream of each format.
        let through = json!({"model": "openai/mock", "api_key": KEY,
            "api_base": format!("http://127.0.0.1:{port}/v1")});
        let text = json!({
            "model_list": [{"model_name": "mock", "litellm_params": mock},
                {"model_name": "through", "litellm_params": through}],
            "general_settings": {"master_key": KEY},
        });
        // JSON is YAML.
        std::fs::write(&config, text.to_string()).unwrap();
        let process = Command::new(program.join("bin/litellm"))
            .arg("--config")
            .arg(&config)
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let proxy = Proxy { process, port, _place: place };
        // The first start compiles all that it imports.
        within(std::time::Duration::from_secs(300), "the proxy answers", || {
            let mut connection = Connection::open(([127, 0, 0, 1], port).into()).ok()?;
            let ask = b"GET /health/liveliness HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            connection.write(ask).ok()?;
            (connection.head().ok()?.0 == 200).then_some(())
        });
        Some(proxy)
    }
}

/// A connection to a model of the proxy, in the format of a kind of provider, with this key; its id.
fn connected(owner: &Caller, port: u16, (kind, model): (&str, &str), key: &str) -> String {
    let body = json!({"name": "Proxy", "provider": kind, "apiKey": key,
        "baseUrl": format!("http://127.0.0.1:{port}/v1"), "config": {"model": model}});
    owner.post("/llm-providers", body).id()
}

/// Fails unless a model has answered as it should, and says what that took.
#[track_caller]
fn has_answered(said: &Value) {
    assert_eq!(said["text"], "Good morning, Ada.", "{said}");
    for tokens in ["inputTokens", "outputTokens"] {
        assert!(said[tokens].as_u64().is_some_and(|tokens| tokens > 0), "{said}");
    }
}

/// Tries a prompt and reads the answer as it comes; returns what is said at its end.
#[track_caller]
fn streamed(acme: &Acme, body: &Value) -> Value {
    let mut stream = Connection::open(acme.serving.address).unwrap();
    let ask = acme.owner.ask("POST", "/prompts/hello/try").with("Accept", "text/event-stream");
    stream.write(&ask.json(body).to_bytes()).unwrap();
    assert_eq!(stream.head().unwrap().0, 200);
    let mut all = String::new();
    while !all.contains("event: done") {
        all += &stream.chunk().unwrap();
    }
    let data =
        |line: &str| -> Option<Value> { serde_json::from_str(line.strip_prefix("data: ")?).ok() };
    let mut parts: Vec<Value> = all.lines().filter_map(data).collect();
    let last = parts.pop().unwrap();
    assert!(parts.len() > 1, "it comes in parts: {all}");
    let text: String = parts.iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert_eq!(json!(text), last["text"]);
    last
}

#[test]
fn a_prompt_is_tried_on_a_proxy_of_models() {
    let Some(proxy) = Proxy::start() else { return };
    let acme = Acme::start(&["--allow-private-network", "127.0.0.0/8"]);
    let owner = &acme.owner;
    owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let provider = connected(owner, proxy.port, ("custom", "mock"), KEY);
    let body = json!({"registryRef": "acme/main", "source": "Greet {{NAME}}.", "message": "Go",
        "variables": {"NAME": "Ada"}, "llmProviderId": provider, "orgSlug": "acme"});
    let tried = owner.post("/prompts/hello/try", body.clone()).ok();
    has_answered(&tried);
    assert_eq!(pick(&tried, "model stopReason missing"), json!(["mock", "stop", []]));
    assert_eq!(streamed(&acme, &body)["text"], "Good morning, Ada.");

    // The same proxy speaks as Anthropic does.
    let mut other = body.clone();
    other["llmProviderId"] = json!(connected(owner, proxy.port, ("anthropic", "through"), KEY));
    let tried = owner.post("/prompts/hello/try", other.clone()).ok();
    has_answered(&tried);
    assert_eq!(pick(&tried, "stopReason missing"), json!(["end_turn", []]));
    has_answered(&streamed(&acme, &other));

    let input = json!({"registryRef": "acme/main", "name": "first", "variables": {"NAME": "Ada"},
        "expect": {"contains": ["Ada"]}, "orgSlug": "acme"});
    owner.post("/prompts/hello/inputs", input).ok();
    let sides = json!({"registryRef": "acme/main", "left": {"source": "Greet {{NAME}}."},
        "right": {"source": "Praise {{NAME}}."}, "llmProviderId": provider, "orgSlug": "acme"});
    let compared = owner.post("/prompts/hello/compare", sides).ok();
    assert_eq!(pick(&compared, "same stopped"), json!([1, null]), "{compared}");
    assert_eq!(compared["inputs"][0]["left"]["text"], "Good morning, Ada.");

    let mut refused = body;
    for kind in ["custom", "anthropic"] {
        let wrong = connected(owner, proxy.port, (kind, "mock"), "sk-wrong-0123456789");
        refused["llmProviderId"] = json!(wrong);
        let reply = owner.post("/prompts/hello/try", refused.clone());
        reply.refused(502, "llm_provider_failed");
        assert!(!reply.text().contains("0123456789"), "{}", reply.text());
    }
}
