//! Messages: discovery, the handshake of older revisions, headers, and what is refused.

use roadstead::app::ServerConfig;
use serde_json::{Value, json};

use super::{Client, LEGACY, MODERN, OLDEST, failed, quiet};
use crate::client::{Caller, pick};
use crate::fixture::{Fixture, Running, config, key_of};
use crate::registries::registry;
use crate::teams::Crew;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const HEADER_MISMATCH: i32 = -32020;
const UNSUPPORTED_VERSION: i32 = -32022;

/// Sends a body with these headers besides the credential.
fn post(key: &Caller, headers: &[(&str, &str)], body: &str) -> crate::client::Reply {
    let mut ask = key.ask("POST", "/mcp").with("Content-Type", "application/json");
    for (name, value) in headers {
        ask = ask.with(name, value);
    }
    ask.bytes(body).send()
}

#[test]
fn a_server_is_discovered_without_a_handshake() {
    let acme = Fixture::new();
    let found = Client::modern(&acme.key).result("server/discover", json!({}));
    assert_eq!(found["supportedVersions"], json!([MODERN, LEGACY, "2025-06-18", OLDEST]));
    assert_eq!(found["resultType"], "complete");
    assert_eq!(found["capabilities"]["resources"], json!({"subscribe": true}));
    assert_eq!((&found["ttlMs"], &found["cacheScope"]), (&json!(3_600_000), &json!("private")));
    let server = &found["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server["name"], "roadstead");
    assert_eq!(server["version"], env!("CARGO_PKG_VERSION"));
    // The older revisions have a handshake instead, and results without these fields.
    let legacy = Client::legacy(&acme.key);
    legacy.fails(200, METHOD_NOT_FOUND, "server/discover", json!({}));
    let list = legacy.result("tools/list", json!({}));
    assert_eq!(list.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
    assert_eq!(legacy.result("ping", json!({})), json!({}));
    Client::modern(&acme.key).fails(404, METHOD_NOT_FOUND, "ping", json!({}));
    Client::modern(&acme.key).fails(404, METHOD_NOT_FOUND, "initialize", json!({}));
}

#[test]
fn the_instructions_name_the_registries_that_a_key_may_use() {
    let acme = Fixture::new();
    let told = |client: &Client| {
        let found = client.result("server/discover", json!({}));
        found["instructions"].as_str().unwrap().to_string()
    };
    let client = Client::modern(&acme.key);
    assert!(told(&client).ends_with("<organization>/<registry>; there is none yet."));
    registry(&acme, "main", json!({}));
    registry(&acme, "other", json!({}));
    let named = told(&client);
    let [main, other] = ["main", "other"].map(|slug| format!("{}/{slug}", acme.slug));
    assert!(named.contains(&main) && named.contains(&other), "{named}");
    let narrow = json!(["registry:read@main"]);
    let named = told(&Client::with_access(&acme.owner, narrow));
    assert!(named.contains(&main) && !named.contains(&other), "{named}");
    // Without the scope nothing is asked for, and no refusal is in the audit log.
    let named = told(&Client::with_access(&acme.owner, json!(["team:read"])));
    assert!(named.ends_with("<organization>/<registry>."), "{named}");
    assert!(acme.audited().iter().all(|entry| entry.action != "registry.list"));
}

#[test]
fn an_older_client_gets_the_revision_it_asks_for_and_no_session() {
    let acme = Fixture::new();
    let key = quiet(&acme.key);
    for (asked, given) in [
        ("2025-06-18", "2025-06-18"),
        (LEGACY, LEGACY),
        (OLDEST, OLDEST),
        ("2024-11-05", LEGACY),
        ("2099-01-01", LEGACY),
    ] {
        let params = json!({"protocolVersion": asked, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let message =
            json!({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params});
        let reply = post(&key, &[], &message.to_string());
        let answer = reply.ok();
        assert_eq!(
            (&answer["id"], &answer["result"]["protocolVersion"]),
            (&json!("a"), &json!(given))
        );
        let server = &answer["result"]["serverInfo"];
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!((&server["name"], &server["version"]), (&json!("roadstead"), &json!(version)));
        assert_eq!(reply.header("mcp-session-id"), None);
    }
    let version = [("MCP-Protocol-Version", "2025-06-18")];
    let initialized = r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#;
    let reply = post(&key, &version, initialized);
    assert_eq!((reply.status, reply.body.len()), (202, 0));
    // An answer, which nobody asked for.
    let reply = post(&key, &version, r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#);
    assert_eq!(reply.status, 202);
    for method in ["GET", "DELETE", "PUT"] {
        let reply = key.ask(method, "/mcp").with("Accept", "text/event-stream").send();
        reply.refused(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some("POST"));
    }
    // A session that the client believes in is ignored.
    let ping = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;
    let reply = post(&key, &[version[0], ("Mcp-Session-Id", "x")], ping);
    assert_eq!(reply.ok()["result"], json!({}));
}

#[test]
fn headers_repeat_what_the_body_says() {
    let acme = Fixture::new();
    let key = quiet(&acme.key);
    let body = |version: Value, name: &str| {
        let mut params = json!({"name": name, "arguments": {}, "_meta": {
            "io.modelcontextprotocol/clientCapabilities": {}}});
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = version;
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    };
    let modern = body(json!(MODERN), "who_am_i");
    let version = ("MCP-Protocol-Version", MODERN);
    let (method, name) = (("Mcp-Method", "tools/call"), ("Mcp-Name", "who_am_i"));
    post(&key, &[version, method, name], &modern).ok();
    // Whoever encodes a name that needs no encoding is understood.
    post(&key, &[version, method, ("Mcp-Name", "=?base64?d2hvX2FtX2k=?=")], &modern).ok();
    let old = ("MCP-Protocol-Version", LEGACY);
    for headers in [
        &[method, name][..],
        &[old, method, name],
        &[version, name],
        &[version, method],
        &[version, ("Mcp-Method", "tools/list"), name],
        &[version, method, ("Mcp-Name", "team_list")],
        &[version, method, ("Mcp-Name", "Who_am_i")],
        &[version, method, ("Mcp-Name", "=?base64?%%?=")],
        &[version, version, method, name],
    ] {
        let error = failed(&post(&key, headers, &modern), 400, HEADER_MISMATCH);
        assert!(error["message"].as_str().unwrap().to_lowercase().contains("mcp-"), "{error}");
    }
    let unknown = body(json!("1900-01-01"), "who_am_i");
    let headers = [("MCP-Protocol-Version", "1900-01-01"), method, name];
    let error = failed(&post(&key, &headers, &unknown), 400, UNSUPPORTED_VERSION);
    assert_eq!(
        error["data"],
        json!({"requested": "1900-01-01",
        "supported": [MODERN, LEGACY, "2025-06-18", OLDEST]})
    );
    // Of a revision with a handshake the version is in the header alone.
    let ping = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;
    failed(&post(&key, &[("MCP-Protocol-Version", "2024-11-05")], ping), 400, UNSUPPORTED_VERSION);
    // A request that says no version at all is of the oldest revision.
    for headers in [&[][..], &[("MCP-Protocol-Version", OLDEST)]] {
        assert_eq!(post(&key, headers, ping).ok()["result"], json!({}));
    }
    failed(&post(&key, &[method], ping), 400, HEADER_MISMATCH);
    for (without, meta) in [
        ("protocolVersion", json!({"io.modelcontextprotocol/clientCapabilities": {}})),
        ("clientCapabilities", json!({"io.modelcontextprotocol/protocolVersion": MODERN})),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list",
            "params": {"_meta": meta}});
        let headers = [version, ("Mcp-Method", "tools/list")];
        let error = failed(&post(&key, &headers, &message.to_string()), 400, INVALID_PARAMS);
        assert!(error["message"].as_str().unwrap().contains(without), "{error}");
    }
}

#[test]
fn what_is_no_message_is_refused_by_the_codes_of_json_rpc() {
    let acme = Fixture::new();
    let key = quiet(&acme.key);
    let headers = [("MCP-Protocol-Version", LEGACY)];
    let deep = |depth: usize| {
        format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {{"a": {}{}}}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    for (body, code) in [
        ("{", PARSE_ERROR),
        ("{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"\u{1}\"}", PARSE_ERROR),
        ("nothing", PARSE_ERROR),
        (&deep(5000), INVALID_REQUEST),
        (&deep(65), INVALID_REQUEST),
        ("[]", INVALID_REQUEST),
        (r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#, INVALID_REQUEST),
        ("7", INVALID_REQUEST),
        ("", INVALID_REQUEST),
        ("{}", INVALID_REQUEST),
        (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, INVALID_REQUEST),
        (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, INVALID_REQUEST),
        (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, INVALID_REQUEST),
        (r#"{"jsonrpc": "2.0", "id": [], "method": "ping"}"#, INVALID_REQUEST),
        (r#"{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}"#, INVALID_REQUEST),
    ] {
        failed(&post(&key, &headers, body), 400, code);
    }
    for body in [
        r#"{"jsonrpc": "2.0", "id": 1}"#,
        r#"{"jsonrpc": "2.0", "id": 1, "method": 5}"#,
        r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}"#,
    ] {
        let reply = post(&key, &headers, body);
        failed(&reply, 200, INVALID_REQUEST);
        assert_eq!(reply.json()["id"], 1);
    }
    let large = format!(
        r#"{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {{"a": "{}"}}}}"#,
        "a".repeat(1024 * 1024)
    );
    failed(&post(&key, &headers, &large), 413, 413);
    let ask = key.ask("POST", "/mcp").with("Content-Type", "text/plain").bytes("{}");
    failed(&ask.send(), 415, 415);
}

#[test]
fn only_an_api_key_is_let_in_and_no_page_of_another_site() {
    let acme = Fixture::new();
    let ping = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;
    let version = ("MCP-Protocol-Version", LEGACY);
    let anonymous = quiet(&acme.anonymous);
    let unknown = anonymous.with_bearer("rsk_nothing");
    for caller in [&anonymous, &unknown, &quiet(&acme.owner)] {
        let reply = post(caller, &[version], ping);
        let error = failed(&reply, 401, 401);
        assert!(error["data"]["code"].is_string(), "{error}");
        assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"));
    }
    // Before the credential is looked at, the body is not.
    failed(&post(&anonymous, &[version], "{"), 401, 401);
    let key = quiet(&key_of(&acme.owner));
    post(&key, &[version], ping).ok();
    // As a bearer token too.
    let bearer = anonymous.with_bearer(key.credential());
    post(&bearer, &[version], ping).ok();
    for origin in ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"] {
        failed(&post(&key, &[version, ("Origin", origin)], ping), 403, 403);
    }
    // The client of the tests says that it asks localhost.
    post(&key, &[version, ("Origin", "http://localhost")], ping).ok();
}

#[test]
fn a_key_that_is_revoked_is_refused_at_once() {
    let acme = Fixture::new();
    let made = acme.owner.post("/api-keys", json!({"name": "a key"})).ok();
    let client = Client::modern(&acme.owner.with_key(made["key"].as_str().unwrap()));
    client.result("tools/list", json!({}));
    acme.owner.delete(&format!("/api-keys/{}", made["id"].as_str().unwrap())).ok();
    client.fails(401, 401, "tools/list", json!({}));
}

#[test]
fn the_oldest_revision_has_texts_alone_and_batches() {
    let acme = Fixture::new();
    let client = Client::oldest(&acme.key);
    let list = client.result("tools/list", json!({}));
    let tools = list["tools"].as_array().unwrap();
    assert!(!tools.is_empty() && tools.iter().all(|tool| tool.get("outputSchema").is_none()));
    let called = client.result("tools/call", json!({"name": "who_am_i"}));
    assert_eq!(called.as_object().unwrap().keys().collect::<Vec<_>>(), ["content"]);
    let text = called["content"][0]["text"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(text).unwrap()["userId"].is_string(), "{text}");
    client.fails(
        200,
        -32002,
        "resources/read",
        json!({"uri": format!("roadstead://{}/main/prompts/none", acme.slug)}),
    );

    let key = quiet(&acme.key);
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let begin = json!({"jsonrpc": "2.0", "id": 3, "method": "initialize",
        "params": {"protocolVersion": OLDEST}});
    let call = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call",
        "params": {"name": "team_list"}});
    let batch = json!([ping(1), notice, 7, begin, call, ping(1)]);
    let answers = post(&key, &[], &batch.to_string()).ok();
    let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(null), &json!(3), &json!(4), &json!(1)]);
    assert!(answers[1].get("id").is_some(), "null, and not left out: {answers}");
    assert_eq!(answers[0]["result"], json!({}));
    for refused in [1, 2] {
        assert_eq!(answers[refused]["error"]["code"], INVALID_REQUEST, "{answers}");
    }
    assert!(answers[3]["result"]["content"].is_array());
    let reply = post(&key, &[], &json!([notice]).to_string());
    assert_eq!((reply.status, reply.body.len()), (202, 0));
    let many: Vec<Value> = (0..17).map(ping).collect();
    failed(&post(&key, &[], &json!(many).to_string()), 400, INVALID_REQUEST);
    let newer = [("MCP-Protocol-Version", "2025-06-18")];
    failed(&post(&key, &newer, &json!([ping(1)]).to_string()), 400, INVALID_REQUEST);
}

#[test]
fn a_tool_that_can_wait_is_refused_beside_others_and_leases_nothing() {
    let crew = Crew::new();
    let agent = crew.hire("ann");
    let task = crew.task(json!({"title": "Write", "assigneeAgentId": agent}));
    let key = quiet(&crew.acme.key);
    let call = |id: u32, tool: &str| {
        let arguments = json!({"teamId": crew.team, "agentId": agent, "wait": 1});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}})
    };
    let waiting = ["wake_wait", "prompt_get", "deployed_get"];
    let mut batch: Vec<Value> = (0..).zip(waiting).map(|(id, tool)| call(id, tool)).collect();
    batch.push(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"}));
    let answers = post(&key, &[], &json!(batch).to_string()).ok();
    for (id, tool) in waiting.iter().enumerate() {
        let error = &answers[id]["error"];
        assert_eq!((&answers[id]["id"], &error["code"]), (&json!(id), &json!(INVALID_REQUEST)));
        assert!(error["message"].as_str().unwrap().ends_with("send it alone"), "{tool}: {error}");
    }
    assert_eq!(answers[3], json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    // Alone it is answered, and the wake comes for the first time.
    let answers = post(&key, &[], &json!([call(4, "wake_wait")]).to_string()).ok();
    let text = answers[0]["result"]["content"][0]["text"].as_str().unwrap();
    let wakes: Value = serde_json::from_str(text).unwrap();
    assert_eq!(pick(&wakes["items"][0], "taskId attempts"), json!([task, 1]));
}

#[test]
fn each_request_of_a_batch_counts_for_the_rate_limit() {
    let running = Running::start(ServerConfig { rate_limit: 1, ..config() });
    let acme = running.fixture();
    let key = quiet(&key_of(&acme.owner));
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let batch: Vec<Value> = (0..16).map(ping).collect();
    let answers = post(&key, &[], &json!(batch).to_string()).ok();
    assert_eq!(answers[0]["result"], json!({}));
    let answers = answers.as_array().unwrap();
    let limited = answers.iter().filter(|answer| answer["error"]["code"] == 429);
    let (mut count, mut said) = (0, Value::Null);
    limited.for_each(|answer| (count, said) = (count + 1, answer["error"].clone()));
    // A second request is let in after a second.
    assert!(answers.len() == 16 && count >= 8, "{answers:?}");
    assert_eq!(said["data"]["code"], "rate_limited");
    assert!(said["message"].as_str().unwrap().contains("Try again in"), "{said}");
}
