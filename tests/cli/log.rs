//! The log: failed sign-ins, reached rate limits, start and stop at `info`, requests at `debug`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use regex::Regex;
use serde_json::{Value, json};

use crate::client::{raw, server_log};
use crate::process::{Place, Serving};

/// Serves, lets a test make requests, stops, and returns the log.
fn logged(flags: &[&str], requests: impl FnOnce(&Serving, &str)) -> (Place, String) {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, flags);
    requests(&serving, &key);
    serving.signal("TERM");
    let (code, _, log) = serving.ends();
    assert_eq!(code, Some(0), "{log}");
    (place, log)
}

fn sign_in(serving: &Serving, email: &str, from: &str) -> u16 {
    let body = json!({"email": email, "password": "not a password"});
    let anonymous = serving.caller("").with_fields(&[("X-Forwarded-For", from)]);
    anonymous.ask("POST", "/auth/sign-in").json(&body).send().status
}

/// The pattern of the fail2ban filter, with the part that stands for an address as a group.
fn fail2ban() -> Regex {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/fail2ban/filter.conf");
    let text = fs::read_to_string(file).unwrap();
    let pattern = text.lines().find_map(|line| line.strip_prefix("failregex = ")).unwrap();
    Regex::new(&pattern.replace("<ADDR>", r"(?P<addr>\S+)")).unwrap()
}

#[test]
fn failed_sign_ins_have_a_line_that_fail2ban_reads() {
    let trusted = ["--trusted-proxy", "127.0.0.1"];
    let (_, log) = logged(&trusted, |serving, _| {
        assert_eq!(sign_in(serving, "ada@acme.test", "203.0.113.7"), 401);
        assert_eq!(sign_in(serving, "nobody@acme.test", "2001:db8::7"), 401);
    });
    let pattern = fail2ban();
    let banned: Vec<_> =
        log.lines().filter_map(|line| Some(pattern.captures(line)?["addr"].to_string())).collect();
    assert_eq!(banned, ["203.0.113.7", "2001:db8::7"], "{log}");
    assert_eq!(log.matches("route=\"/api/auth/sign-in\"").count(), 2, "{log}");
    assert!(!log.contains("not a password") && !log.contains("@acme.test"), "{log}");
    assert!(!log.contains("/api-keys"), "requests are logged at debug only: {log}");
}

#[test]
fn a_reached_rate_limit_has_a_line_a_second_at_most() {
    let (_, log) = logged(&["--rate-limit", "1"], |serving, key| {
        let ada = serving.caller(key);
        let refused = (0..50).filter(|_| ada.get("/tools").status == 429).count();
        assert!(refused > 30, "{refused}");
    });
    let lines = log.lines().filter(|line| line.contains("rate limit reached")).count();
    assert!((1..=10).contains(&lines), "{log}");
    let line = log.lines().find(|line| line.contains("rate limit reached")).unwrap();
    for part in ["client=127.0.0.1", "limit=\"default\"", "/api/tools", "principal=\"user:"] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn start_and_stop_name_the_directory() {
    let (place, log) = logged(&[], |_, _| {});
    let data = fs::canonicalize(place.data()).unwrap().display().to_string();
    for event in ["starting", "stopping", "stopped"] {
        let line = log.lines().find(|line| line.contains(event));
        assert!(line.is_some_and(|line| line.contains(&data)), "{event}: {log}");
    }
}

#[test]
fn at_debug_each_request_has_a_line() {
    let flags = ["--log-level", "debug", "--log-format", "json"];
    let (_, log) = logged(&flags, |serving, key| {
        serving.caller(key).get("/tools/no-such-tool").refused(404, "not_found");
        let target = "GET /api/tools HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\"b\r\n\r\n";
        assert_eq!(raw(serving.address, target.as_bytes()).status, 401);
    });
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["message"] == "answered")
        .collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert_eq!(lines[0]["route"], "/api/tools/{toolId}");
    assert_eq!((&lines[0]["method"], &lines[0]["status"]), (&json!("GET"), &json!(404)));
    assert_eq!(lines[0]["client"], "127.0.0.1");
    let principal = lines[0]["principal"].as_str().unwrap();
    assert!(principal.starts_with("user:") && principal.contains("/key:"), "{principal}");
    assert!(lines[0]["duration_ms"].as_f64().is_some_and(|millis| millis < 10_000.0));
    assert_eq!(
        (&lines[1]["principal"], &lines[1]["request_id"]),
        (&json!("anonymous"), &json!("a\"b"))
    );
}

#[test]
fn errors_and_panics_that_no_test_asked_for_are_found_in_a_log() {
    let faults = [
        "2026-01-01T00:00:00.000000Z ERROR a sweep failed sweep=\"a\"",
        "{\"timestamp\":\"2026-01-01T00:00:00.000000Z\",\"level\":\"ERROR\",\"sweep\":\"a\"}",
        "thread 'writer' (7) panicked at src/a.rs:1:2:",
        "2026-01-01T00:00:00.000000Z ERROR a request failed request_id=\"log-2\" code=\"internal\"",
    ];
    let others = [
        "2026-01-01T00:00:00.000000Z  WARN no ERROR, and nothing has panicked",
        "2026-01-01T00:00:00.000000Z ERROR a request failed request_id=\"log-1\" code=\"internal\"",
        "2026-01-01T00:00:00.000000Z ERROR the disk is full",
    ];
    server_log::asked_for("log-1");
    let log = [&faults[..], &others].concat().join("\n");
    assert_eq!(server_log::unexpected(&log, &["the disk is full"]), faults);
}

#[test]
fn a_test_fails_whose_server_logged_an_error_that_it_did_not_ask_for() {
    let (place, _) = Place::founded();
    fs::write(place.file("erasures"), "no ledger\n").unwrap();
    let serving = Serving::start(&place, &[]);
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(serving))).unwrap_err();
    let message = dropped.downcast_ref::<String>().unwrap();
    assert!(message.contains("ERROR the ledger of erasures cannot be used"), "{message}");
}

#[test]
fn a_provider_of_sign_ins_that_fails_has_a_line() {
    // At a private address that nothing allows.
    let provider = "name=kc,issuer=http://127.0.0.1:1,client-id=roadstead";
    let (_, log) = logged(&["--oidc", provider], |serving, _| {
        let anonymous = serving.caller("").with_fields(&[]);
        let begun = anonymous.post("/auth/providers/begin", json!({"provider": "kc"}));
        begun.refused(502, "sign_in_provider_failed");
    });
    let line = log.lines().find(|line| line.contains("a provider of sign-ins fails"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("WARN") && line.contains("provider=\"kc\""), "{line}");
}
