//! The Model Context Protocol (reference: mcp): messages of both eras, over sockets.

mod brief;
mod conformance;
mod content;
mod listening;
mod messages;
mod restricted;
mod sdk;
mod tools;

use serde_json::{Value, json};

use crate::client::{Caller, Reply};
use crate::fixture::key_of;

/// The revision without a handshake.
const MODERN: &str = "2026-07-28";
/// One with a handshake.
const LEGACY: &str = "2025-11-25";
/// The one whose clients send no header with their version.
const OLDEST: &str = "2025-03-26";

/// A client of the protocol.
pub struct Client {
    key: Caller,
    version: &'static str,
}

impl Client {
    /// A client of the newest revision with this key.
    fn modern(key: &Caller) -> Self {
        Client { key: quiet(key), version: MODERN }
    }

    /// A client of a revision with a handshake, after it.
    fn legacy(key: &Caller) -> Self {
        Client { key: quiet(key), version: LEGACY }
    }

    /// A client of the oldest revision, after its handshake.
    fn oldest(key: &Caller) -> Self {
        Client { key: quiet(key), version: OLDEST }
    }

    /// A client of the newest revision with a new key of this session that has these scopes.
    fn with_access(session: &Caller, access: Value) -> Self {
        let made = session.post("/api-keys", json!({"name": "a key", "access": access})).ok();
        Client::modern(&session.with_key(made["key"].as_str().unwrap()))
    }

    /// A client of the newest revision with a new key of this session.
    fn of(session: &Caller) -> Self {
        Client::modern(&key_of(session))
    }

    /// The message of a request.
    fn message(&self, method: &str, params: &Value) -> Value {
        let mut params = params.clone();
        if self.version == MODERN {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    }

    /// The bytes of a request with the headers that belong to it.
    fn request(&self, method: &str, params: &Value) -> Vec<u8> {
        let message = self.message(method, params);
        let mut ask = self.key.ask("POST", "/mcp").json(&message);
        for (name, value) in self.headers(method, params) {
            ask = ask.with(name, &value);
        }
        ask.to_bytes()
    }

    fn headers(&self, method: &str, params: &Value) -> Vec<(&'static str, String)> {
        if self.version == OLDEST {
            return vec![];
        }
        let mut headers = vec![("MCP-Protocol-Version", self.version.to_string())];
        if self.version == MODERN {
            headers.push(("Mcp-Method", method.into()));
            let name = if method == "resources/read" { "uri" } else { "name" };
            let named = ["tools/call", "prompts/get", "resources/read"].contains(&method);
            headers.extend(
                params[name].as_str().filter(|_| named).map(|name| ("Mcp-Name", name.into())),
            );
        }
        headers
    }

    /// Sends a request.
    #[track_caller]
    fn send(&self, method: &str, params: Value) -> Reply {
        let message = self.message(method, &params);
        let mut ask = self.key.ask("POST", "/mcp").json(&message);
        for (name, value) in self.headers(method, &params) {
            ask = ask.with(name, &value);
        }
        ask.send()
    }

    /// The result of a request that succeeds.
    #[track_caller]
    fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.send(method, params).ok();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)), "{answer}");
        assert!(answer["result"].is_object(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// What a tool answers.
    #[track_caller]
    fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.result("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(result.get("isError").is_none(), "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(result["structuredContent"], serde_json::from_str::<Value>(text).unwrap());
        result["structuredContent"].clone()
    }

    /// What a tool says that refuses.
    #[track_caller]
    fn refused(&self, tool: &str, arguments: Value) -> String {
        let result = self.result("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(result["isError"], true, "{tool}: {result}");
        assert!(result.get("structuredContent").is_none(), "{result}");
        result["content"][0]["text"].as_str().unwrap().into()
    }

    /// The error of a request that fails with this status and code.
    #[track_caller]
    fn fails(&self, status: u16, code: i32, method: &str, params: Value) -> Value {
        failed(&self.send(method, params), status, code)
    }
}

/// The same caller, whose responses are none of the document.
fn quiet(key: &Caller) -> Caller {
    let mut caller = key.clone();
    caller.check = |_, _, _| {};
    caller
}

/// The error of a response with this status and code.
#[track_caller]
fn failed(reply: &Reply, status: u16, code: i32) -> Value {
    let answer = reply.json();
    let found = (reply.status, &answer["error"]["code"]);
    assert_eq!(found, (status, &json!(code)), "{answer}");
    assert_eq!(answer["jsonrpc"], "2.0");
    assert!(answer.get("result").is_none(), "{answer}");
    answer["error"].clone()
}
