//! `serve --otlp-endpoint`: spans go to the operator's collector, with its secret, and nothing else may go
//! where it is (reference: command-line, "Traces").

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::process::{Place, Serving};
use crate::receiver::Receiver;

const SECRET: &str = "geheim-5f0c9a";

/// A file of headers with this mode.
fn headers(place: &Place, text: &str, mode: u32) -> String {
    let file = place.data().with_file_name("headers");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    file.to_str().unwrap().into()
}

#[test]
fn a_collector_on_this_machine_is_reached_by_no_other_calls_and_its_secret_is_nowhere_else() {
    let (place, key) = Place::founded();
    // It repeats what it is sent.
    let collector = Receiver::responding(|sent| {
        let length = sent.head.len();
        format!("HTTP/1.1 401 X\r\ncontent-length: {length}\r\n\r\n{}", sent.head)
    });
    let file = headers(&place, &format!("Authorization: Bearer {SECRET}\n"), 0o600);
    let flags = ["--otlp-endpoint", &collector.url, "--otlp-header-file", &file];
    let mut serving = Serving::start(&place, &[&flags[..], &["--log-level", "debug"]].concat());
    let caller = serving.caller(&key);
    let config = json!({"url": collector.url});
    let hook = json!({"name": "Hook", "workflow": "webhook", "config": config});
    let channel = caller.post("/notifications/channels", hook).id();
    let tested = caller.post(&format!("/notifications/channels/{channel}/test"), json!({})).ok();
    let message = tested["message"].as_str().unwrap();
    assert!(tested["ok"] == false && message.contains("--allow-private-network"), "{tested}");

    let request = collector.next();
    assert!(request.head.starts_with("post /hook/v1/traces "), "{}", request.head);
    assert_eq!(request.field("authorization"), format!("bearer {SECRET}"));
    assert!(request.body.contains("POST /api/notifications/channels"), "{}", request.body);
    // The call that was refused is a span of a client, without its path.
    let spans = &request.json()["resourceSpans"][0]["scopeSpans"][0]["spans"];
    let calls = spans.as_array().unwrap().iter().filter(|span| span["kind"] == 3);
    let [call] = &calls.collect::<Vec<_>>()[..] else { panic!("{spans}") };
    let text = call.to_string();
    assert!(text.contains("\"address_not_allowed\"") && text.contains("\"127.0.0.1\""), "{text}");
    assert!(!text.contains("/hook"), "{text}");

    let mut shown = caller.get("/system").ok().to_string();
    for command in ["doctor", "config"] {
        let args: &[&str] = if command == "config" { &["config", "show"] } else { &["doctor"] };
        let ended = place.run(args);
        shown += &(ended.stdout + &ended.stderr);
    }
    serving.signal("TERM");
    let (code, out, log) = serving.ends();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("spans could not be exported") && log.contains(" answered 401"), "{log}");
    assert!(shown.contains("--otlp-endpoint"), "{shown}");
    for text in [&shown, &out, &log] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn an_endpoint_or_headers_that_cannot_be_used_are_refused_without_their_secrets() {
    let place = Place::new();
    for (endpoint, why) in [
        ("http://u:geheim@a.test", "--otlp-endpoint must not contain user information"),
        ("http://a.test/?key=geheim", "--otlp-endpoint must be without a query"),
        ("geheim.test:4317", "--otlp-endpoint must be the http or https URL"),
    ] {
        let ended = place.run(&["serve", "--otlp-endpoint", endpoint]);
        ended.fails(2, why);
        assert!(!ended.stderr.contains("geheim"), "{ended:?}");
    }
    let good = format!("X-Key: {SECRET}\n");
    for (endpoint, text, mode, why) in [
        ("http://localhost:4318", &*good, 0o640, "accessible to other users"),
        ("http://[::1]:4318", SECRET, 0o600, "line 1 is no header"),
        ("https://a.test", "Host: geheim", 0o600, "line 1 is a header that the server sets"),
        ("http://a.test:4318", &*good, 0o600, "must begin with https://"),
    ] {
        let file = headers(&place, text, mode);
        let flags = ["serve", "--otlp-endpoint", endpoint, "--otlp-header-file", &file];
        let ended = place.run(&flags);
        ended.fails(2, why);
        assert!(!ended.stderr.contains("geheim"), "{ended:?}");
    }
    place.run(&["serve", "--otlp-header-file", "headers"]).fails(2, "--otlp-endpoint");
    assert!(!place.data().exists());
}
