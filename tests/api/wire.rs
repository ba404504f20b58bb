//! HTTP: heads, bodies, limits, request ids, and paths outside of the API
//! (reference: conventions, "Bodies", "Answers", "Request ids", "Texts and names").

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Connection, Reply, raw};
use crate::fixture::{Fixture, Running, config};

fn post(acme: &Fixture, body: impl Into<Vec<u8>>) -> Reply {
    acme.owner.ask("POST", "/tools").bytes(body).send()
}

/// A body that makes a tool, with something more in it.
fn tool_with(acme: &Fixture, more: &str) -> String {
    format!(r#"{{"orgSlug":"{}","name":"a","type":"function"{more}}}"#, acme.slug)
}

/// A head for [`raw`], of the owner.
fn head(acme: &Fixture, method: &str, target: &str, fields: &str) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {}\r\n{fields}\r\n",
        acme.key.credential()
    )
}

#[test]
fn every_json_media_type_is_accepted() {
    let acme = Fixture::new();
    let body = tool_with(&acme, "");
    let send = |value: &str| {
        acme.owner.ask("POST", "/tools").with("Content-Type", value).bytes(body.clone()).send()
    };
    for good in [
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/merge-patch+json",
        "application/vnd.acme+json;v=1",
    ] {
        send(good).ok();
    }
    for bad in ["text/plain", "text/json", "application/jsonx", "+json", "application/+json", ""] {
        send(bad).refused(415, "unsupported_media_type");
    }
    post(&acme, body).ok();
}

#[test]
fn bodies_are_read_strictly() {
    let acme = Fixture::new();
    for bad in [&b"[]"[..], b"null", b"{", b"{} x", b"{\"a\":\"\xff\"}", b"\xef\xbb\xbf{}", b" "] {
        post(&acme, bad).invalid(&[""]);
    }
    post(&acme, tool_with(&acme, r#","name":"b""#)).invalid(&["name"]);
    post(&acme, tool_with(&acme, r#","x":{"y":[{"z":1,"z":2}]}"#)).invalid(&["x.y[0].z"]);
    post(&acme, tool_with(&acme, r#","x":1e999"#)).invalid(&[""]);
    // An empty body counts as {}.
    post(&acme, "").invalid(&["orgSlug", "name", "type"]);
}

#[test]
fn nesting_is_taken_to_64_levels() {
    let acme = Fixture::new();
    // The body is one level, `providerConfig` the second.
    let nested = |levels: usize| {
        let (open, close) = ("{\"a\":".repeat(levels - 1), "}".repeat(levels - 1));
        tool_with(&acme, &format!(r#","providerConfig":{open}{{}}{close}"#))
    };
    post(&acme, nested(63)).ok();
    post(&acme, nested(64)).invalid(&[""]);
    post(&acme, nested(100_000)).invalid(&[""]);
}

#[test]
fn text_is_stored_as_sent() {
    let acme = Fixture::new();
    let text = " \u{feff}ä a\u{308} 😀\u{202e}\u{0}\r\n\t ";
    let made = acme.owner.post("/tools", json!({"name": "a", "type": "x", "description": text}));
    assert_eq!(made.ok()["description"], text);
    assert_eq!(acme.owner.get(&format!("/tools/{}", made.id())).ok()["description"], text);
    // A name has 1 to 200 characters, counted as code points, and no control characters.
    let named = |name: &str| acme.owner.post("/tools", json!({"name": name, "type": "x"}));
    named(&"😀".repeat(200)).ok();
    for bad in ["", " ", "a\u{0}", "a\nb", "\u{7f}", "\u{85}", &"😀".repeat(201)] {
        named(bad).invalid(&["name"]);
    }
}

#[test]
fn a_body_has_at_most_one_mebibyte() {
    let acme = Fixture::new();
    let body = |size: usize| {
        let body = tool_with(&acme, r#","providerConfig":{"pad":"PAD"}"#);
        let pad = "x".repeat(size - (body.len() - 3));
        body.replace("PAD", &pad)
    };
    post(&acme, body(1 << 20)).ok();
    post(&acme, body((1 << 20) + 1)).refused(413, "body_too_large");
    // A client that sends more gets the response, and may continue.
    for size in [2 << 20, 8 << 20] {
        let owner = acme.owner.clone();
        owner.ask("POST", "/tools").bytes(body(size)).send().refused(413, "body_too_large");
        owner.get("/tools").ok();
    }
    // An announced length is checked before the body is read.
    let fields = "Content-Length: 99999999999\r\n";
    let reply = raw(acme.address, head(&acme, "POST", "/api/tools", fields).as_bytes());
    reply.refused(413, "body_too_large");
    assert_eq!(reply.header("connection"), Some("close"));
}

#[test]
fn expect_continue_gets_the_error_instead_of_100() {
    let acme = Fixture::new();
    let fields = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", 2 << 20);
    for (key, status) in [("X-API-Key", 413), ("X-No-Key", 401)] {
        let request = head(&acme, "POST", "/api/tools", &fields).replace("X-API-Key", key);
        let reply = raw(acme.address, request.as_bytes());
        assert_eq!((reply.status, reply.header("connection")), (status, Some("close")));
    }
}

#[test]
fn a_chunked_body_is_limited_while_it_is_read() {
    let acme = Fixture::new();
    let fields = "Transfer-Encoding: chunked\r\n";
    let head = head(&acme, "POST", "/api/tools", fields);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let small = tool_with(&acme, "");
    let (a, b) = small.split_at(20);
    let sent = format!("{head}{}{}0\r\n\r\n", chunk(a), chunk(b));
    raw(acme.address, sent.as_bytes()).ok();

    let mut connection = Connection::open(acme.address).unwrap();
    let chunk = chunk(&" ".repeat(1 << 16));
    connection.write(head.as_bytes()).unwrap();
    for _ in 0..17 {
        let _ = connection.write(chunk.as_bytes());
    }
    connection.reply(false).unwrap().refused(413, "body_too_large");
}

#[test]
fn a_request_with_two_lengths_is_refused_and_the_connection_closes() {
    let acme = Fixture::new();
    let both = [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "transfer-encoding: chunked\r\nCONTENT-LENGTH:4\r\n",
    ];
    for fields in both {
        let mut connection = Connection::open(acme.address).unwrap();
        let smuggled = head(&acme, "GET", "/api/tools", "");
        let request = head(&acme, "POST", "/api/tools", fields);
        connection.write(format!("{request}0\r\n\r\n{smuggled}").as_bytes()).unwrap();
        let reply = connection.reply(false).unwrap();
        assert_eq!(reply.problem()["code"], "invalid_request", "{fields}");
        assert_eq!((reply.status, reply.header("connection")), (400, Some("close")));
        assert!(connection.is_closed(), "{fields}");
    }
}

#[test]
fn a_transfer_coding_other_than_chunked_is_refused_and_the_connection_closes() {
    let acme = Fixture::new();
    let body = tool_with(&acme, "");
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for fields in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: identity, chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: xchunked\r\n",
    ] {
        let mut connection = Connection::open(acme.address).unwrap();
        let request = head(&acme, "POST", "/api/tools", fields);
        connection.write(format!("{request}{chunks}").as_bytes()).unwrap();
        let reply = connection.reply(false).unwrap();
        reply.problem();
        assert_eq!((reply.status, reply.header("connection")), (400, Some("close")), "{fields}");
        assert!(connection.is_closed(), "{fields}");
    }
    for fields in ["Transfer-Encoding: chunked\r\n", "transfer-encoding:  Chunked \r\n"] {
        let request = head(&acme, "POST", "/api/tools", fields);
        raw(acme.address, format!("{request}{chunks}").as_bytes()).ok();
    }
}

#[test]
fn a_host_that_is_none_is_refused() {
    let acme = Fixture::new();
    let get = |host: &str| {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
        raw(acme.address, request.as_bytes())
    };
    for bad in ["a:99999", "-", ".", "a..b", "[::1]:70000", "a:b", "a b", ""] {
        get(bad).invalid(&["Host"]);
    }
    for good in ["a", "a:", "A.test.:65535", "[::1]:1", "10.0.0.1:80"] {
        get(good).ok();
    }
}

#[test]
fn a_malformed_head_gets_a_problem_and_the_connection_closes() {
    let acme = Fixture::new();
    for bad in [
        "nonsense\r\n\r\n",
        "GET /api/tools\r\n\r\n",
        "GET /a b HTTP/1.1\r\n\r\n",
        "GET /api/registries?version=>1 HTTP/1.1\r\n\r\n",
    ] {
        let mut connection = Connection::open(acme.address).unwrap();
        connection.write(bad.as_bytes()).unwrap();
        let reply = connection.reply(false).unwrap();
        assert_eq!(reply.status, 400, "{bad}");
        let message = reply.problem()["message"].to_string();
        assert!(message.contains("percent-encoded"), "{bad}: {message}");
        assert!(connection.is_closed(), "{bad}");
    }
    let fields = "Content-Length: 1\r\nContent-Length: 2\r\n";
    raw(acme.address, head(&acme, "POST", "/api/tools", fields).as_bytes()).problem();
}

#[test]
fn a_head_has_at_most_100_fields_and_64_kib() {
    let acme = Fixture::new();
    let get = |fields: &str| {
        let target = acme.key.in_org("/api/tools");
        raw(acme.address, head(&acme, "GET", &target, fields).as_bytes())
    };
    let many = |count: usize| (0..count).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
    get(&many(98)).ok();
    get(&many(99)).refused(431, "head_too_large");
    get(&format!("X-Long: {}\r\n", "x".repeat(60 * 1024))).ok();
    get(&format!("X-Long: {}\r\n", "x".repeat(65 * 1024))).refused(431, "head_too_large");
}

#[test]
fn path_and_query_have_at_most_16_kib() {
    let acme = Fixture::new();
    let get = |length: usize| {
        let target = acme.key.in_org("/api/tools?x=");
        let target = target.replace("x=", &format!("x={}", "x".repeat(length - target.len())));
        assert_eq!(target.len(), length);
        raw(acme.address, head(&acme, "GET", &target, "Prefer: handling=lenient\r\n").as_bytes())
    };
    get(16 * 1024).ok();
    get(16 * 1024 + 1).refused(414, "target_too_long");
    get(70_000).refused(414, "target_too_long");
}

#[test]
fn a_connection_serves_requests_in_order_also_pipelined() {
    let acme = Fixture::new();
    let mut connection = Connection::open(acme.address).unwrap();
    let get = head(&acme, "GET", &acme.key.in_org("/api/tools"), "");
    let none = head(&acme, "GET", "/api/nothing", "");
    connection.write(format!("{get}{none}{get}").as_bytes()).unwrap();
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(connection.reply(false).unwrap().status);
    }
    assert_eq!(statuses, [200, 404, 200]);
    // A refusal before the body was read does not make the body a request.
    let body = tool_with(&acme, "");
    let fields = format!("Content-Length: {}\r\n", body.len());
    let post = head(&acme, "POST", "/api/tools", &fields).replace("X-API-Key", "X-No-Key");
    connection.write(format!("{post}{body}{get}").as_bytes()).unwrap();
    assert_eq!(connection.reply(false).unwrap().status, 401);
    assert_eq!(connection.reply(false).unwrap().status, 200);
}

#[test]
fn expect_continue_gets_100() {
    let acme = Fixture::new();
    let body = tool_with(&acme, "");
    let fields = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", body.len());
    let mut connection = Connection::open(acme.address).unwrap();
    connection.write(head(&acme, "POST", "/api/tools", &fields).as_bytes()).unwrap();
    assert_eq!(connection.head().unwrap().0, 100);
    connection.write(body.as_bytes()).unwrap();
    connection.reply(false).unwrap().ok();
}

#[test]
fn a_valid_request_id_is_echoed_and_otherwise_generated() {
    let acme = Fixture::new();
    let ask = |id: &str| acme.owner.ask("GET", "/nothing").with("X-Request-Id", id).send();
    for good in ["x", "a b ~!\"{}", &"i".repeat(128)] {
        let reply = ask(good);
        assert_eq!(reply.header("x-request-id"), Some(good));
        assert_eq!(reply.problem()["requestId"], good);
    }
    for bad in ["", "ü", "a\tb", &"i".repeat(129)] {
        let reply = ask(bad);
        let made = reply.header("x-request-id").unwrap();
        assert!(uuid::Uuid::parse_str(made).is_ok(), "{bad}: {made}");
        assert_eq!(reply.problem()["requestId"], made);
    }
    let two = [acme.owner.get("/tools"), acme.owner.get("/tools")];
    assert_ne!(two[0].header("x-request-id"), two[1].header("x-request-id"));
    assert!(two[0].header("x-request-id").is_some());
}

#[test]
fn responses_are_json_without_sniffing_or_caching() {
    let acme = Fixture::new();
    for reply in
        [acme.owner.get("/tools"), acme.owner.get("/nothing"), acme.anonymous.get("/tools")]
    {
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert!(reply.header("cache-control").is_some_and(|value| value.contains("no-")));
    }
}

#[test]
fn health_document_and_page_need_no_credential() {
    let acme = Fixture::new();
    let get = |method: &str, target: &str| {
        raw(acme.address, format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
    };
    for target in ["/healthz", "/readyz"] {
        assert_eq!(get("GET", target).ok(), json!({"status": "ok"}));
    }
    let document = get("GET", "/api/openapi.json").ok();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
    let whole = get("GET", "/api/openapi.json?webhooks=true").ok();
    assert!(whole == document && document["webhooks"].is_object());
    // A client sends the organization everywhere.
    assert!(get("GET", "/api/openapi.json?orgSlug=acme").ok() == document);
    let routes = get("GET", "/api/openapi.json?webhooks=false").ok();
    assert!(routes.get("webhooks").is_none() && routes["paths"] == document["paths"]);
    for wrong in ["webhooks=no", "webhooks=false&webhooks=false", "webhook=false"] {
        let reply = get("GET", &format!("/api/openapi.json?{wrong}"));
        reply.refused(400, "invalid_request");
    }
    let page = get("GET", "/setup");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text().contains("Roadstead"));
    let home = get("GET", "/");
    assert_eq!((home.status, home.header("location")), (303, Some("/sign-in")));
    for target in ["/", "/healthz", "/api/openapi.json"] {
        let reply = get("POST", target);
        reply.refused(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some("GET, HEAD"));
    }
    for target in ["/nothing", "/api", "/apitools", "/../etc/passwd", "/healthz/"] {
        get("GET", target).refused(404, "no_such_path");
    }
    // A path of the API is one however it is spelled, also for who prefers pages.
    let request = "GET /%61pi/nothing HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n";
    let spelled = raw(acme.address, request.as_bytes());
    assert_eq!(spelled.header("content-type"), Some("application/json"));
    let anonymous = acme.anonymous.ask("HEAD", "/openapi.json").send();
    assert_eq!((anonymous.status, anonymous.body.len()), (200, 0));
}

#[test]
fn before_setup_a_public_listener_serves_only_setup_and_health() {
    let running = Running::listen("0.0.0.0:0", config());
    let anonymous = running.anonymous();
    // Asking whether it is set up sets nothing up.
    assert_eq!(anonymous.ask("GET", "/setup").send().ok(), json!({"isSetUp": false}));
    for path in ["/tools", "/auth/sign-in", "/nothing"] {
        let reply = anonymous.ask("GET", path).send();
        reply.refused(503, "setup_required");
        assert!(reply.header("retry-after").is_some());
    }
    let health = raw(running.address, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(health.ok(), json!({"status": "ok"}));
    let set_up = json!({
        "token": "wrong",
        "organization": {"slug": "acme", "name": "Acme"},
        "user": {"name": "Ada", "email": "ada@acme.test", "password": "correct horse battery"},
    });
    let reply = anonymous.ask("POST", "/setup").json(&set_up).send();
    assert_eq!(reply.problem()["code"], "unauthenticated");

    let token = running
        .store
        .write_blocking(roadstead::base::Id::NIL, |tx| {
            roadstead::resources::organizations::issue_setup_token(tx)
        })
        .unwrap()
        .unwrap();
    let mut good = set_up;
    good["token"] = Value::String(token);
    let session = anonymous.ask("POST", "/setup").json(&good).send().ok();
    let owner = anonymous.with_bearer(session["token"].as_str().unwrap()).about("acme");
    assert_eq!(owner.get("/tools").status, 200);
    // The setup route is 404 now.
    assert_eq!(anonymous.ask("POST", "/setup").json(&good).send().status, 404);
}

#[test]
fn an_endless_head_does_not_delay_others() {
    let acme = Fixture::new();
    let mut slow: Vec<_> = (0..200).map(|_| Connection::open(acme.address).unwrap()).collect();
    for connection in &mut slow {
        connection.write(b"GET /api/tools HTTP/1.1\r\nX-Slow: ").unwrap();
    }
    let begun = Instant::now();
    acme.owner.get("/tools").ok();
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[test]
fn common_mistakes_get_a_hint() {
    let acme = Fixture::new();
    let slash = acme.owner.get("/tools/").refused(404, "no_such_path");
    assert!(slash["message"].as_str().unwrap().contains("without the slash"), "{slash}");
    let unknown = acme.owner.get("/nothing/").refused(404, "no_such_path");
    assert!(!unknown["message"].as_str().unwrap().contains("slash"), "{unknown}");
    let key = acme.key.credential();
    for (name, value) in [
        ("X-API-Key", format!("\"{key}\"")),
        ("X-API-Key", format!("'{key}'")),
        ("Authorization", format!("Bearer \"{key}\"")),
    ] {
        let quoted = acme.anonymous.with_fields(&[(name, &value)]);
        let problem = quoted.get("/tools").refused(401, "unauthenticated");
        assert!(problem["message"].as_str().unwrap().contains("quotation marks"), "{problem}");
    }
}
