//! Trying a prompt on a model, without scripts and as the script asks for it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::json;

use crate::journeys::{sign_in, with_and_without_scripts};
use crate::receiver::{Receiver, json_response};
use crate::server::{PASSWORD, Running};
use crate::webdriver::{Browser, Driver};

const TRY: &str = "/o/acme/prompts/main/hello/try";

/// A server with the prompt `hello` and a model that answers so.
fn server(model: &Receiver) -> Running {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "hello", "1.0.0", "Greet {{NAME}}.");
    let provider = json!({"name": "Ours", "provider": "custom", "baseUrl": model.url,
        "config": {"model": "small"}});
    server.ada().post("/llm-providers", provider).ok();
    server
}

fn saying(text: &'static str) -> Receiver {
    Receiver::responding(move |_| {
        json_response(
            200,
            &json!({"model": "small", "choices": [{"message": {"content": text},
            "finish_reason": "stop"}], "usage": {"prompt_tokens": 31, "completion_tokens": 42}}),
        )
    })
}

#[test]
fn a_version_is_tried_and_the_page_shows_what_the_model_says_and_what_it_took() {
    let model = saying("Good <b>morning</b>.");
    let server = server(&model);
    let ada = server.signed_in("ada@acme.test");
    let version = ada.get("/o/acme/prompts/main/hello/versions/1.0.0");
    assert!(version.links().iter().any(|link| link.starts_with(TRY)), "{:?}", version.links());
    let page = ada.get(&format!("{TRY}?version=1.0.0"));
    page.shows("NAME").shows("None yet.");
    let tried = ada.send(&page, TRY, &[("v.NAME", "Ada"), ("message", " Go ")]);
    assert_eq!(tried.status, 200);
    tried.shows("Good <b>morning</b>.").shows("31").shows("42").shows("no price of small");
    assert!(!tried.text.contains("<b>morning"), "it is no markup");
    let messages = model.next().json()["messages"].clone();
    assert_eq!(messages[0]["content"], "Greet Ada.");
    assert_eq!(messages[1]["content"], "Go");
    assert_eq!(tried.field(TRY, "v.NAME"), "Ada", "what was entered stays");
    // Nothing is kept unless one says so.
    const NEW: &str = "/o/acme/prompts/main/hello/new-input";
    let links = tried.links();
    let keep = links.iter().find(|link| link.starts_with(NEW)).expect("it can be kept");
    let kept = ada.get(keep);
    assert_eq!(kept.field(NEW, "variables"), "{\n  \"NAME\": \"Ada\"\n}");
    ada.send(&kept, NEW, &[("name", "first")]);
    let inputs = server.ada().get("/prompts/hello/inputs?registryRef=main").items();
    assert_eq!(
        (&inputs[0]["variables"]["NAME"], &inputs[0]["message"]),
        (&json!("Ada"), &json!("Go"))
    );

    // A text that is not saved is tried instead, and has variables of its own.
    let other = ada.send(&tried, TRY, &[("source", "Praise {{WHOM}}."), ("message", "")]);
    other.shows("WHOM").shows("Without a value");
    assert_eq!(model.next().json()["messages"][0]["content"], "Praise {{WHOM}}.");
    let stored =
        server.ada().get("/registries/artifact-versions?registryRef=main&promptName=hello");
    assert_eq!(stored.items().len(), 1, "nothing is saved");
}

#[test]
fn a_draft_is_tried_and_what_fails_says_why() {
    let model = saying("ok");
    let server = server(&model);
    let draft = json!({"registryRef": "main", "artifactType": "prompt", "draftVersion": "2.0.0",
        "body": "Draft for {{TEAM}}."});
    let draft = server.ada().post("/prompts/hello/drafts", draft).id();
    let ada = server.signed_in("ada@acme.test");
    let link = format!("{TRY}?draft={draft}");
    assert!(ada.get("/o/acme/prompts/main/hello").links().contains(&link));
    let page = ada.get(&link);
    page.shows("A draft").shows("TEAM");
    ada.send(&page, TRY, &[("v.TEAM", "Shipping")]).shows("ok");
    assert_eq!(model.next().json()["messages"][0]["content"], "Draft for Shipping.");
    let wrong = ada.send(&page, TRY, &[("source", "{{ import \"none\" }}")]);
    assert_eq!(wrong.status, 400);
    assert!(wrong.has_problem("source"), "{}", wrong.text);
}

#[test]
fn the_editor_brings_its_text_and_nothing_else_and_no_model_is_asked() {
    let model = saying("ok");
    let server = server(&model);
    let ada = server.signed_in("ada@acme.test");
    let editor = ada.get("/o/acme/prompts/main/hello/edit");
    let text = "Praise {{WHOM}}.";
    let fields = [("source", text), ("message", "Why"), ("model", "gpt"), ("action", "try")];
    let page = ada.send(&editor, TRY, &fields);
    assert_eq!(page.status, 200);
    page.shows("WHOM").shows("None yet.");
    assert_eq!(page.field(TRY, "source"), text);
    for other in ["version", "model", "message"] {
        assert_eq!(page.field(TRY, other), "", "{other}");
    }
    // Without a text it is the newest version, and not the one that is being written.
    let page = ada.send(&editor, TRY, &[("source", ""), ("action", "try")]);
    page.shows("NAME");
    assert!(model.is_idle());
}

#[test]
fn the_script_is_answered_with_events() {
    let model = saying("ok");
    let server = server(&model);
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(TRY);
    let stream = ada.send(&page, TRY, &[("stream", "yes")]);
    assert_eq!(stream.status, 200);
    assert_eq!(stream.reply.header("content-type"), Some("text/event-stream"));
    model.next();
    let refused = ada.send(&page, TRY, &[("stream", "yes"), ("version", "9.0.0")]);
    assert_eq!(refused.reply.header("content-type"), Some("text/event-stream"));
    let said = &refused.text;
    assert!(said.starts_with("event: error\n") && said.contains("not_found"), "{said}");
    assert!(model.is_idle());
}

#[test]
fn a_viewer_is_not_offered_to_try() {
    let model = saying("ok");
    let server = server(&model);
    server.add("vera", "viewer");
    let vera = server.signed_in("vera@acme.test");
    let version = vera.get("/o/acme/prompts/main/hello/versions/1.0.0");
    assert!(version.links().iter().all(|link| !link.contains("/try")), "{:?}", version.links());
    assert_eq!(vera.get(TRY).status, 403);
}

/// A model that says its answer in parts.
fn streaming(parts: &[&str]) -> Receiver {
    let part = |part: &&str| json!({"model": "small", "choices": [{"delta": {"content": part}}]});
    let end = json!({"choices": [{"finish_reason": "stop"}],
        "usage": {"prompt_tokens": 31, "completion_tokens": 42}});
    let all = parts.iter().map(part).chain([end]);
    let body: String = all.map(|part| format!("data: {part}\n\n")).collect();
    Receiver::responding(move |_| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{body}data: [DONE]\n\n")
    })
}

/// A browser in which Ada has filled what the first version is tried with.
fn filled<'a>(driver: &'a Driver, server: &Running, scripts: bool) -> Browser<'a> {
    let browser = driver.browser(1280, 800, scripts);
    sign_in(&browser, server, "ada@acme.test");
    browser.open(&format!("http://{}{TRY}?version=1.0.0", server.address));
    browser.fill("#v-NAME", "Ada");
    browser.fill("#f-message", "Go");
    browser
}

#[test]
fn a_person_tries_a_prompt_and_changes_what_she_says() {
    with_and_without_scripts(|driver, scripts| {
        let model = streaming(&["Good ", "<b>morning</b>", " Ada"]);
        let server = server(&model);
        let browser = filled(driver, &server, scripts);
        browser.click("main button.primary");
        browser.shows("Good <b>morning</b> Ada");
        browser.shows("42");
        let first = model.next().json()["messages"].clone();
        assert_eq!(first[0]["content"], "Greet Ada.");
        // What is refused says why, with scripts, too; what was entered is still there.
        browser.fill("#f-source", "{{ import \"none\" }}");
        browser.click("main button.primary");
        browser.shows("A text that is not saved does not compile");
        assert!(model.is_idle());
        assert_eq!(browser.value("#f-message"), "Go", "what was entered is still there");
        browser.fill("#f-source", "Praise Ada.");
        browser.click("main button.primary");
        browser.shows("Good <b>morning</b> Ada");
        let second = model.next().json()["messages"].clone();
        assert_eq!(
            (&second[0]["content"], &second[1]["content"]),
            (&json!("Praise Ada."), &json!("Go"))
        );
    });
}

#[test]
fn a_session_that_ends_on_the_page_asks_no_model_and_loses_nothing_that_was_entered() {
    with_and_without_scripts(|driver, scripts| {
        let model = streaming(&["Good ", "morning"]);
        let server = server(&model);
        let browser = filled(driver, &server, scripts);
        // All but that of this call.
        server.ada().delete("/auth/sessions").ok();
        browser.click("main button.primary");
        browser.shows("Your session is over.");
        browser.fill("#f-email", "ada@acme.test");
        browser.fill("#f-password", PASSWORD);
        browser.click("main button.primary");
        browser.shows("was not sent yet");
        let entered = ["#f-version", "#v-NAME", "#f-message"].map(|field| browser.value(field));
        assert_eq!(entered, ["1.0.0", "Ada", "Go"]);
        assert!(model.is_idle(), "nothing is sent by itself");
        browser.click("main button.primary");
        browser.shows("Good morning");
        assert_eq!(model.next().json()["messages"][0]["content"], "Greet Ada.");
    });
}

#[test]
fn a_browser_that_goes_away_ends_the_call_without_scripts_too() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let model = format!("http://{}/v1", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 65_536]).unwrap() > 0);
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: alive\n\n";
        stream.write_all(head).unwrap();
        tell.send("asked").unwrap();
        // Until the connection ends, after what is left of the request.
        while stream.read(&mut [0; 65_536]).is_ok_and(|read| read > 0) {}
        let _ = tell.send("gone");
    });
    let server = server(&saying("not asked"));
    let provider = json!({"name": "Slow", "provider": "custom", "baseUrl": model, "isDefault": true,
        "config": {"model": "small"}});
    let provider = server.ada().post("/llm-providers", provider).id();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(TRY);
    let mut fields = page.form(TRY).fields;
    fields.retain(|(name, _)| name != "llmProviderId");
    fields.push(("llmProviderId".into(), provider));
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let connection = ada.post_and_leave(TRY, &body);
    let next = || told.recv_timeout(Duration::from_secs(50)).expect("the model is told");
    assert_eq!(next(), "asked");
    drop(connection);
    assert_eq!(next(), "gone");
}

#[test]
fn a_model_that_fails_is_asked_once_and_the_page_says_why() {
    with_and_without_scripts(|driver, scripts| {
        let model = Receiver::answering(&[500]);
        let server = server(&model);
        let browser = driver.browser(1280, 800, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}{TRY}?version=1.0.0", server.address));
        browser.fill("#f-message", "Go");
        browser.click("main button.primary");
        browser.shows("it fails; try again later");
        model.next();
        assert!(model.is_idle(), "a trial that was refused is not asked again");
        // The page that is shown works as the first one.
        browser.click("main button.primary");
        model.next();
    });
}
