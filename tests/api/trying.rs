//! Trying a prompt on a model (reference: registries-and-templates, "Trying a prompt").

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Channel, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Caller, Connection, eventually, first_limited, pick};
use crate::fixture::{Fixture, Running, config, key_of, unknown_id};
use crate::receiver::{Receiver, json_response, read};
use crate::registries::{publish, registry};

const KEY: &str = "sk-0123456789abcdef";

/// A stream of OpenAI's API that says this, with what it used.
fn openai(parts: &[&str]) -> String {
    let part = |part: &&str| {
        let body =
            json!({"model": "small-1", "choices": [{"index": 0, "delta": {"content": part}}]});
        format!("data: {body}\n\n")
    };
    let parts: String = parts.iter().map(part).collect();
    let end = json!({"model": "small-1", "choices": [{"delta": {}, "finish_reason": "stop"}]});
    let used = json!({"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 500}});
    format!("{parts}data: {end}\n\ndata: {used}\n\ndata: [DONE]\n\n")
}

/// An answer whose end is that of the connection.
fn streaming(media_type: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\n\r\n{body}")
}

/// An organization with the prompt `hello` and a model.
struct Lab {
    acme: Fixture,
    model: String,
}

impl Lab {
    fn of(acme: Fixture, kind: &str, url: &str) -> Self {
        registry(&acme, "main", json!({}));
        publish(&acme, ["main", "prompt", "hello", "1.0.0"], "Greet {{NAME}} in {{LANGUAGE}}.");
        let body = json!({"name": "Ours", "provider": kind, "baseUrl": url, "apiKey": KEY,
            "config": {"model": "small"}, "isDefault": true});
        let model = acme.admin.post("/llm-providers", body).id();
        Lab { acme, model }
    }

    fn new(model: &Receiver) -> Self {
        Self::of(Fixture::new(), "custom", &model.url)
    }

    fn body(&self, more: Value) -> Value {
        let mut body = json!({"registryRef": format!("{}/main", self.acme.slug)});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    fn ask(&self, caller: &Caller, more: Value) -> crate::client::Reply {
        caller.post("/prompts/hello/try", self.body(more))
    }

    /// Sends a request for a stream; returns its connection, and the status.
    fn stream(&self, more: Value) -> (Connection, u16) {
        self.stream_for(&self.acme.member, more)
    }

    fn stream_for(&self, caller: &Caller, more: Value) -> (Connection, u16) {
        let mut stream = Connection::open(self.acme.address).unwrap();
        let ask = caller.ask("POST", "/prompts/hello/try");
        let ask = ask.with("Accept", "text/event-stream").org_json(self.body(more));
        stream.write(&ask.to_bytes()).unwrap();
        let (status, headers) = stream.head().unwrap();
        if status == 200 {
            let is_stream = |(name, value): &(String, String)| {
                name == "content-type" && value == "text/event-stream"
            };
            assert!(headers.iter().any(is_stream), "{headers:?}");
        }
        (stream, status)
    }

    /// The entries of the audit log of prompts that were tried, the newest first.
    fn entries(&self) -> Vec<Value> {
        self.acme.owner.get("/audit-logs?action=prompt.try").items()
    }

    /// The newest entry of the audit log of a prompt that was tried.
    fn logged(&self) -> Value {
        let find = || {
            // One says what begins, and the next one what came of it.
            let newest = self.entries().into_iter().next()?;
            let detail = newest["resource"]["detail"].as_str()?;
            (!detail.ends_with(", to begin")).then_some(newest)
        };
        eventually("it is logged", find)
    }
}

/// The events of a stream until its end: names and data.
fn events(mut stream: Connection) -> Vec<(String, Value)> {
    let mut all = String::new();
    loop {
        let chunk = stream.chunk().unwrap();
        if chunk.is_empty() {
            break;
        }
        all += &chunk;
    }
    let event = |event: &str| {
        let (name, data) = event.strip_prefix("event: ")?.split_once("\ndata: ")?;
        Some((name.to_string(), serde_json::from_str(data).unwrap()))
    };
    all.split("\n\n").filter_map(event).collect()
}

#[test]
fn a_prompt_is_tried_and_its_answer_says_what_it_took() {
    let model =
        Receiver::responding(|_| streaming("text/event-stream", &openai(&["Good ", "day"])));
    let lab = Lab::new(&model);
    let values =
        json!({"variables": {"NAME": "Ada"}, "message": "Go", "maxTokens": 50, "temperature": 0.5});
    let tried = lab.ask(&lab.acme.member, values).ok();
    let shown = pick(
        &tried,
        "text version missing llmProviderId model stopReason inputTokens outputTokens",
    );
    let expected =
        json!(["Good day", "1.0.0", ["LANGUAGE"], lab.model, "small-1", "stop", 1000, 500]);
    assert_eq!(shown, expected);
    assert_eq!(tried["costUsd"], Value::Null);
    assert!(tried["costNote"].as_str().unwrap().contains("no price of small"), "{tried}");
    assert!(tried["tookMs"].is_u64());
    let sent = model.next();
    assert!(sent.head.starts_with("post /hook/chat/completions "), "{}", sent.head);
    assert_eq!(sent.field("authorization"), format!("bearer {KEY}"));
    let messages = json!([
        {"role": "system", "content": "Greet Ada in {{LANGUAGE}}."},
        {"role": "user", "content": "Go"},
    ]);
    let body = sent.json();
    assert_eq!(
        pick(&body, "messages model max_tokens temperature stream"),
        json!([messages, "small", 50, 0.5, true])
    );

    // With a price, also of the model that was asked for; without a message the prompt is it.
    let price = json!({"inputUsd": 2, "outputUsd": 4});
    lab.acme.admin.put("/model-prices/small", price).ok();
    let tried = lab.ask(&lab.acme.member, json!({"model": "other"})).ok();
    assert_eq!(tried["costUsd"], Value::Null, "{tried}");
    let tried = lab.ask(&lab.acme.member, json!({})).ok();
    assert_eq!(pick(&tried, "costUsd costNote"), json!([0.004, null]));
    let messages = json!([{"role": "user", "content": "Greet {{NAME}} in {{LANGUAGE}}."}]);
    assert_eq!(model.next().json()["model"], "other");
    assert_eq!(model.next().json()["messages"], messages);
}

#[test]
fn the_stream_sends_the_text_as_it_comes_and_then_the_figures() {
    let (sender, go_on) = channel::<()>();
    let url = serving(move |mut stream| {
        let answer = streaming("text/event-stream", &openai(&["Good ", "day"]));
        let (first, rest) = answer.split_at(answer.find("\n\ndata: ").unwrap() + 2);
        stream.write_all(first.as_bytes()).unwrap();
        go_on.recv().unwrap();
        let _ = stream.write_all(rest.as_bytes());
    });
    let lab = Lab::of(Fixture::new(), "custom", &url);
    let (mut stream, status) = lab.stream(json!({"message": "Go"}));
    assert_eq!(status, 200);
    // The rest is not written before this has come.
    assert_eq!(stream.chunk().unwrap(), "event: delta\ndata: {\"text\":\"Good \"}\n\n");
    sender.send(()).unwrap();
    let events = events(stream);
    let (last, parts) = events.split_last().unwrap();
    let rest: String = parts.iter().map(|(_, data)| data["text"].as_str().unwrap()).collect();
    assert_eq!(rest, "day");
    assert_eq!(last.0, "done");
    assert_eq!(pick(&last.1, "text outputTokens stopReason"), json!(["Good day", 500, "stop"]));
}

/// Has connections handled by `serve`, each with its request read; returns the URL.
fn serving(serve: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            if read(&mut stream).is_some() {
                serve(stream);
            }
        }
    });
    url
}

#[test]
fn each_api_is_spoken_as_its_vendor_has_it() {
    let anthropic = [
        json!({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 7}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ];
    let event =
        |body: &Value| format!("event: {}\ndata: {body}\n\n", body["type"].as_str().unwrap_or("x"));
    let anthropic: String = anthropic.iter().map(event).collect();
    let google = event(
        &json!({"modelVersion": "m", "candidates": [{"content": {"parts": [{"text": "Hi"}]},
        "finishReason": "end_turn"}], "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2}}),
    );
    let ollama = [
        json!({"model": "m", "message": {"role": "assistant", "content": "Hi"}, "done": false}),
        json!({"model": "m", "message": {"content": ""}, "done": true, "done_reason": "end_turn",
            "prompt_eval_count": 7, "eval_count": 2}),
    ];
    let ollama: String = ollama.iter().map(|line| format!("{line}\n")).collect();
    for (kind, media_type, body, path, key) in [
        ("anthropic", "text/event-stream", anthropic, "/hook/messages ", "x-api-key"),
        (
            "google",
            "text/event-stream",
            google,
            "/hook/models/small:streamgeneratecontent?alt=sse ",
            "x-goog-api-key",
        ),
        ("ollama", "application/x-ndjson", ollama, "/hook/api/chat ", "authorization"),
    ] {
        let model = Receiver::responding(move |_| streaming(media_type, &body));
        let lab = Lab::of(Fixture::new(), kind, &model.url);
        let tried = lab.ask(&lab.acme.member, json!({"message": "Go"})).ok();
        let shown = pick(&tried, "text model stopReason inputTokens outputTokens");
        assert_eq!(shown, json!(["Hi", "m", "end_turn", 7, 2]), "{kind}");
        let sent = model.next();
        assert!(sent.head.starts_with(&format!("post {path}")), "{}", sent.head);
        assert!(sent.field(key).ends_with(KEY));
    }
}

#[test]
fn a_label_a_draft_and_an_unsaved_text_can_be_tried_and_only_one_of_them() {
    let model = Receiver::responding(|_| streaming("text/event-stream", &openai(&["ok"])));
    let lab = Lab::new(&model);
    let acme = &lab.acme;
    let said = |more: Value| {
        let version = lab.ask(&acme.member, more).ok()["version"].clone();
        (model.next().json()["messages"][0]["content"].as_str().unwrap().to_string(), version)
    };
    publish(acme, ["main", "prompt", "hello", "2.0.0"], "Second.");
    let label = json!({"registryRef": lab.body(json!({}))["registryRef"], "promptName": "hello",
        "label": "production", "version": "1.0.0"});
    acme.member.patch("/registries/artifacts/labels", label).ok();
    assert_eq!(said(json!({})), ("Second.".into(), json!("2.0.0")));
    let (text, version) = said(json!({"version": "production", "variables": {"NAME": "Ada"}}));
    assert_eq!((text.as_str(), version), ("Greet Ada in {{LANGUAGE}}.", json!("1.0.0")));
    let draft = json!({"registryRef": lab.body(json!({}))["registryRef"], "artifactType": "prompt",
        "draftVersion": "3.0.0", "body": "Draft for {{NAME}}."});
    let draft = acme.member.post("/prompts/hello/drafts", draft).id();
    let (text, version) = said(json!({"draftId": draft, "variables": {"NAME": "Ben"}}));
    assert_eq!((text.as_str(), version), ("Draft for Ben.", Value::Null));
    // A prompt that is not there yet has a text.
    let body = lab.body(json!({"source": "Fresh."}));
    acme.member.post("/prompts/unheard-of/try", body).ok();
    assert_eq!(model.next().json()["messages"][0]["content"], "Fresh.");
    let list = acme.member.get("/registries/artifacts?registryRef=main");
    assert!(list.text().contains("hello") && !list.text().contains("unheard-of"), "it is not kept");

    let both = lab.ask(&acme.member, json!({"draftId": draft, "source": "x", "version": "1"}));
    both.invalid(&["draftId", "source"]);
    lab.ask(&acme.member, json!({"source": "{{ import \"none\" }}"})).invalid(&["source"]);
    lab.ask(&acme.member, json!({"version": "9.0.0"})).refused(404, "not_found");
    lab.ask(&acme.member, json!({"draftId": unknown_id()})).refused(404, "not_found");
    lab.ask(&acme.member, json!({"llmProviderId": unknown_id()})).refused(404, "not_found");
    for (name, value) in [
        ("maxTokens", json!(0)),
        ("maxTokens", json!(32_769)),
        ("temperature", json!(3)),
        ("temperature", json!("warm")),
        ("message", json!("")),
        ("model", json!("")),
    ] {
        lab.ask(&acme.member, json!({name: value})).invalid(&[name]);
    }
    assert!(model.is_idle(), "what is refused asks no model");
    acme.admin.patch(&format!("/llm-providers/{}", lab.model), json!({"isDefault": false})).ok();
    lab.ask(&acme.member, json!({})).refused(409, "no_default_llm_provider");
}

#[test]
fn the_variables_of_an_environment_are_filled_in_and_its_secrets_are_not() {
    let model = Receiver::responding(|_| streaming("text/event-stream", &openai(&["ok"])));
    let lab = Lab::new(&model);
    let acme = &lab.acme;
    let environment = acme.owner.post("/environments", json!({"slug": "dev", "name": "Dev"})).id();
    let below = |path: &str| format!("/environments/{environment}{path}");
    acme.owner.put(&below("/variables/NAME"), json!({"value": "Ada"})).ok();
    acme.owner.put(&below("/secrets/LANGUAGE"), json!({"value": "hidden-language"})).ok();
    let tried = lab.ask(&acme.member, json!({"environment": "dev"})).ok();
    assert_eq!(tried["missing"], json!(["LANGUAGE"]));
    let sent = model.next();
    assert!(sent.body.contains("Greet Ada in {{LANGUAGE}}."), "{}", sent.body);
    assert!(!sent.body.contains("hidden-language"));
    // By the rights of the caller.
    let vault = json!({"slug": "vault", "name": "V", "access": "restricted"});
    acme.owner.post("/environments", vault).ok();
    lab.ask(&acme.member, json!({"environment": "vault"})).refused(403, "grant_required");
    let scopes = json!(["artifact:read", "llm-provider:test"]);
    let narrow = acme.owner.post("/api-keys", json!({"name": "k", "access": scopes})).ok();
    let narrow = acme.owner.with_key(narrow["key"].as_str().unwrap());
    lab.ask(&narrow, json!({})).ok();
    lab.ask(&narrow, json!({"environment": "dev"})).refused(403, "scope_missing");
    lab.ask(&narrow, json!({"draftId": unknown_id()})).refused(403, "scope_missing");
}

#[test]
fn members_may_try_and_viewers_and_others_may_not() {
    let model = Receiver::responding(|_| streaming("text/event-stream", &openai(&["ok"])));
    let lab = Lab::new(&model);
    let acme = &lab.acme;
    for caller in [&acme.member, &key_of(&acme.member), &acme.admin, &acme.owner] {
        lab.ask(caller, json!({})).ok();
    }
    let (vera, _) = acme.person("vera", roadstead::auth::Role::Viewer);
    lab.ask(&vera, json!({})).refused(403, "member_required");
    lab.ask(&acme.anonymous, json!({})).refused(401, "unauthenticated");
    let other = Fixture::new();
    let body = lab.body(json!({}));
    other
        .owner
        .ask("POST", "/prompts/hello/try")
        .json(&body)
        .send()
        .refused(404, "organization_not_found");
    let reading =
        acme.owner.post("/api-keys", json!({"name": "k", "access": ["artifact:read"]})).ok();
    let reading = acme.owner.with_key(reading["key"].as_str().unwrap());
    lab.ask(&reading, json!({})).refused(403, "scope_missing");
    assert_eq!(model.arrived().len(), 4);
    // A provider of another organization is not there.
    registry(&other, "main", json!({}));
    publish(&other, ["main", "prompt", "hello", "1.0.0"], "Hello.");
    let body = json!({"registryRef": format!("{}/main", other.slug), "llmProviderId": lab.model});
    other.owner.post("/prompts/hello/try", body).refused(404, "not_found");
}

#[test]
fn who_tried_what_on_which_model_is_logged_and_no_text() {
    let model = Receiver::responding(|_| streaming("text/event-stream", &openai(&["the answer"])));
    let lab = Lab::new(&model);
    let source = json!({"source": "An unsaved text.", "message": "A first message."});
    lab.ask(&lab.acme.member, source).ok();
    let entry = lab.logged();
    assert_eq!(entry["actor"]["id"], json!(lab.acme.member_id));
    let resource = &entry["resource"];
    assert_eq!(resource["id"], json!(format!("{}/main/prompt/hello", lab.acme.slug)));
    let detail = resource["detail"].as_str().unwrap();
    for part in ["text ", "LLM provider Ours", &lab.model, "small-1", "1000 + 500 tokens"] {
        assert!(detail.contains(part), "{detail}");
    }
    for text in ["unsaved", "first message", "answer"] {
        assert!(!entry.to_string().contains(text), "{entry}");
    }
}

#[test]
fn what_a_provider_refuses_is_502_and_its_key_is_nowhere() {
    let wrong = json!({"error": {"message": format!("Incorrect API key provided: {KEY}")}});
    let model = Receiver::responding(move |_| json_response(401, &wrong));
    let lab = Lab::new(&model);
    for (caller, shows_reason) in [(&lab.acme.member, false), (&lab.acme.admin, true)] {
        let reply = lab.ask(caller, json!({}));
        let problem = reply.refused(502, "llm_provider_failed");
        let message = problem["message"].as_str().unwrap();
        let begin = "LLM provider \"Ours\": it does not accept the key";
        assert!(message.starts_with(begin), "{message}");
        // What a provider says is for those who may change the connection.
        let says = message.ends_with("it says: \"Incorrect API key provided: …\"");
        assert_eq!(says, shows_reason, "{message}");
        assert!(!reply.text().contains("0123456789"));
    }
    // What fails before the first word is no stream.
    let (_, status) = lab.stream(json!({}));
    assert_eq!(status, 502);
    let detail = lab.logged()["resource"]["detail"].as_str().unwrap().to_string();
    assert!(detail.ends_with("no whole answer"), "{detail}");
}

#[test]
fn an_error_within_a_stream_is_its_last_event() {
    let broken = json!({"error": {"message": format!("overloaded, key {KEY}")}});
    let answer = openai(&["Good "]);
    let body = format!("{}\n\ndata: {broken}\n\n", answer.split("\n\n").next().unwrap());
    let model = Receiver::responding(move |_| streaming("text/event-stream", &body));
    let lab = Lab::new(&model);
    let (stream, status) = lab.stream_for(&lab.acme.admin, json!({}));
    assert_eq!(status, 200);
    let events = events(stream);
    assert_eq!(events[0], ("delta".into(), json!({"text": "Good "})));
    let (name, data) = events.last().unwrap();
    assert_eq!((name.as_str(), &data["code"]), ("error", &json!("llm_provider_failed")));
    let message = data["message"].as_str().unwrap();
    assert!(message.contains("overloaded, key …") && !message.contains("0123"), "{message}");
    assert_eq!(events.len(), 2);
}

#[test]
fn a_body_without_end_is_given_up() {
    let url = serving(|mut stream| {
        let _ = stream.write_all(streaming("text/event-stream", "data: ").as_bytes());
        while stream.write_all(&[b'x'; 65_536]).is_ok() {}
    });
    let lab = Lab::of(Fixture::new(), "custom", &format!("{url}/v1"));
    let reply = lab.ask(&lab.acme.member, json!({}));
    let problem = reply.refused(502, "llm_provider_failed");
    assert!(problem["message"].as_str().unwrap().contains("too long"), "{problem}");
}

/// A model that says a part, and then nothing; it tells when it has, and when its client has gone.
fn hanging() -> (String, Channel<&'static str>) {
    let (tell, told) = channel();
    let url = serving(move |mut stream| {
        let tell = tell.clone();
        std::thread::spawn(move || {
            let answer = streaming("text/event-stream", &openai(&["Good ", "day"]));
            let (first, _) = answer.split_at(answer.find("\n\ndata: ").unwrap() + 2);
            stream.write_all(first.as_bytes()).unwrap();
            let _ = tell.send("said");
            let _ = std::io::Read::read(&mut stream, &mut [0]);
            let _ = tell.send("gone");
        });
    });
    (format!("{url}/v1"), told)
}

#[test]
fn a_client_that_goes_away_ends_the_call_and_is_logged() {
    let (url, told) = hanging();
    let next = || told.recv_timeout(Duration::from_secs(60)).expect("the model is told");
    let lab = Lab::of(Fixture::new(), "custom", &url);
    let (mut stream, _) = lab.stream(json!({}));
    assert!(stream.chunk().unwrap().contains("Good "));
    drop(stream);
    assert_eq!([next(), next()], ["said", "gone"]);
    assert!(lab.logged()["resource"]["detail"].as_str().unwrap().ends_with("no whole answer"));

    // One that waits for the whole answer, too.
    let mut waiting = Connection::open(lab.acme.address).unwrap();
    let ask = lab.acme.member.ask("POST", "/prompts/hello/try").org_json(lab.body(json!({})));
    waiting.write(&ask.to_bytes()).unwrap();
    assert_eq!(next(), "said");
    // What was begun is logged before it ends.
    let begun = lab.entries();
    assert_eq!(begun.len(), 3, "{begun:?}");
    assert!(begun[0]["resource"]["detail"].as_str().unwrap().ends_with(", to begin"));
    drop(waiting);
    assert_eq!(next(), "gone");
    let logged = lab.logged();
    assert!(logged["resource"]["detail"].as_str().unwrap().ends_with("no whole answer"));
    assert_eq!(lab.entries().len(), 4);
}

#[test]
fn a_person_has_four_at_a_time_and_others_are_not_held_up() {
    let (url, _told) = hanging();
    let lab = Lab::of(Fixture::new(), "custom", &url);
    let held: Vec<_> = (0..4).map(|_| lab.stream(json!({})).0).collect();
    let (_, status) = lab.stream(json!({}));
    assert_eq!(status, 503, "the fifth waits in vain");
    let ok = Receiver::responding(|_| streaming("text/event-stream", &openai(&["ok"])));
    let other = Lab::new(&ok);
    other.ask(&other.acme.member, json!({})).ok();
    // Who has gone holds up nobody.
    drop(held);
    let (_fifth, status) = lab.stream(json!({}));
    assert_eq!(status, 200);
}

#[test]
fn a_person_tries_thirty_a_minute() {
    let model = Receiver::responding(|_| streaming("text/event-stream", &openai(&["ok"])));
    let running = Running::start(config());
    let lab = Lab::of(running.fixture(), "custom", &model.url);
    let limited =
        first_limited(30, Duration::from_secs(2), || lab.ask(&lab.acme.member, json!({})));
    limited.refused(429, "rate_limited");
    assert!(limited.header("retry-after").is_some());
    lab.ask(&lab.acme.admin, json!({})).ok();
}

#[test]
fn an_idempotency_key_keeps_no_answer() {
    let model = Receiver::responding(|_| streaming("text/event-stream", &openai(&["ok"])));
    let lab = Lab::new(&model);
    let twice = || {
        let ask = lab.acme.member.ask("POST", "/prompts/hello/try").with("Idempotency-Key", "a");
        ask.org_json(lab.body(json!({}))).send()
    };
    assert!(twice().header("idempotency-replayed").is_none());
    assert!(twice().header("idempotency-replayed").is_none());
    assert_eq!(model.arrived().len(), 2);
}
