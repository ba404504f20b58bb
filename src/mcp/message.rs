//! JSON-RPC messages: what a client sends, and the frame of what it gets.

use std::sync::LazyLock;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::era::Era;
use super::failure::{Failure, INVALID_REQUEST, PARSE_ERROR};
use crate::api::read::parse_body;

/// A request or a notification.
#[derive(Debug)]
pub struct Message {
    /// A text or an integer; none of a notification.
    pub id: Option<Value>,
    pub method: String,
    /// An object.
    pub params: Value,
}

/// How long a client may keep what changes with a new version of the server only, in milliseconds.
pub const HOUR_MS: u32 = 3_600_000;

/// What is wrong with an id.
const BAD_ID: &str = "id must be a text or an integer";

/// What a client sent.
#[derive(Debug)]
pub enum Sent {
    Message(Message),
    /// The answer to a request, of which this server sends none.
    Answer,
    /// Several messages, of the oldest revision. Each is good or bad by itself.
    Batch(Vec<Result<Sent, Failure>>),
}

/// The messages of a batch: more than clients send at once, and not a way around a rate limit.
const MAX_BATCH: usize = 16;

/// Parses a body with the limits that the bodies of all routes have.
///
/// # Errors
/// [`PARSE_ERROR`] if it is not JSON, [`INVALID_REQUEST`] if it is no message, or several in another
/// revision than the oldest.
pub fn parse(bytes: &[u8], era: Era) -> Result<Sent, Failure> {
    if bytes.trim_ascii().first() == Some(&b'[') {
        return batch(bytes, era);
    }
    one(parse_body(bytes).map_err(|error| not_parsed(bytes, error.message()))?)
}

/// Parses a list of messages.
fn batch(bytes: &[u8], era: Era) -> Result<Sent, Failure> {
    // What has one value has no more in an object either.
    let body = [&b"{\"batch\":"[..], bytes, b"}"].concat();
    let list = if is_json(bytes) { parse_body(&body) } else { parse_body(bytes) };
    let mut list = list.map_err(|error| not_parsed(bytes, error.message()))?;
    if era != Era::Oldest {
        return Err(invalid("send one message at a time, not a batch"));
    }
    match list["batch"].take() {
        Value::Array(messages) if (1..=MAX_BATCH).contains(&messages.len()) => {
            Ok(Sent::Batch(messages.into_iter().map(one).collect()))
        }
        _ => Err(invalid("a batch must have 1 to 16 messages")),
    }
}

/// Of what is large only the form: its values may take much memory.
fn is_json(bytes: &[u8]) -> bool {
    const SMALL_BYTES: usize = 64 * 1024;
    if serde_json::from_slice::<IgnoredAny>(bytes).is_err() {
        return false;
    }
    // Half of a surrogate pair is found only where texts are read; what is nested deeper is JSON.
    bytes.len() > SMALL_BYTES
        || match serde_json::from_slice::<Value>(bytes) {
            Ok(_) => true,
            Err(error) => error.to_string().starts_with("recursion limit"),
        }
}

/// Why a body could not be parsed: it is no JSON, or beyond a limit.
fn not_parsed(bytes: &[u8], why: &str) -> Failure {
    if is_json(bytes) { invalid(why) } else { Failure::new(PARSE_ERROR, why.to_string()) }
}

/// A message of its own.
///
/// # Errors
/// [`INVALID_REQUEST`].
fn one(body: Value) -> Result<Sent, Failure> {
    let Value::Object(mut body) = body else {
        return Err(invalid("a message must be a JSON object"));
    };
    if body.get("jsonrpc").is_none_or(|version| version != "2.0") {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    let id = match body.shift_remove("id") {
        None => None,
        Some(Value::Number(id)) if id.is_f64() => return Err(invalid(BAD_ID)),
        Some(id @ (Value::String(_) | Value::Number(_))) => Some(id),
        Some(_) => return Err(invalid(BAD_ID)),
    };
    let Some(Value::String(method)) = body.shift_remove("method") else {
        let is_answer = body.contains_key("result") || body.contains_key("error");
        let refused = invalid("method must be a text").of(id);
        return if is_answer { Ok(Sent::Answer) } else { Err(refused) };
    };
    let params = match body.shift_remove("params") {
        None => json!({}),
        Some(params @ Value::Object(_)) => params,
        Some(_) => return Err(invalid("params must be an object").of(id)),
    };
    Ok(Sent::Message(Message { id, method, params }))
}

fn invalid(message: &str) -> Failure {
    Failure::new(INVALID_REQUEST, message.to_string())
}

/// The result of a request: JSON objects, of which those that are large are not parsed again.
pub struct Outcome {
    /// The fields of the result, without the braces.
    fields: String,
    /// Whether something is left out of it.
    is_cut: bool,
}

impl Outcome {
    /// A result with these fields.
    pub fn of(fields: &Value) -> Self {
        let text = fields.to_string();
        Outcome { fields: text[1..text.len() - 1].into(), is_cut: false }
    }

    /// A result with these fields, written as JSON without braces.
    pub fn written(fields: String) -> Self {
        Outcome { fields, is_cut: false }
    }

    /// The same of a result from which something is left out: its `_meta` says so to programs.
    pub fn cut(self) -> Self {
        Outcome { is_cut: true, ..self }
    }

    /// A result that a client may keep for a while: fresh for `ttl_ms` milliseconds, for every
    /// client if `is_public`. Clients of the older revisions do not know this.
    pub fn kept(fields: &Value, era: Era, ttl_ms: u32, is_public: bool) -> Self {
        let mut fields = fields.clone();
        if era == Era::Modern {
            fields["ttlMs"] = json!(ttl_ms);
            fields["cacheScope"] = json!(if is_public { "public" } else { "private" });
        }
        Outcome::of(&fields)
    }

    /// The response to the request with this id.
    pub fn response(self, id: &Value, era: Era) -> Vec<u8> {
        let Outcome { fields, is_cut } = self;
        let mut frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{");
        frame.reserve_exact(fields.len() + RESULT_HEAD.len() + 32);
        let cut = if is_cut { "\"roadstead/cut\":true" } else { "" };
        match (era, is_cut) {
            (Era::Modern, false) => frame.push_str(&format!("{}}}", *RESULT_HEAD)),
            (Era::Modern, true) => frame.push_str(&format!("{},{cut}}}", *RESULT_HEAD)),
            (_, true) => frame.push_str(&format!("\"_meta\":{{{cut}}}")),
            (_, false) => {}
        }
        if !fields.is_empty() && !frame.ends_with('{') {
            frame.push(',');
        }
        frame.push_str(&fields);
        frame.push_str("}}");
        frame.into_bytes()
    }
}

/// How every result of the newest revision begins.
static RESULT_HEAD: LazyLock<String> = LazyLock::new(|| {
    let info = server_info();
    format!("\"resultType\":\"complete\",\"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{info}")
});

/// What the server says of itself.
pub fn server_info() -> Value {
    json!({"name": "roadstead", "title": "Roadstead", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_from_which_something_is_left_out_says_so_in_every_revision() {
        for era in [Era::Modern, Era::Legacy, Era::Oldest] {
            for (fields, is_cut) in [("", false), ("", true), ("\"a\":1", false), ("\"a\":1", true)]
            {
                let whole = Outcome::written(fields.into());
                let outcome = if is_cut { whole.cut() } else { whole };
                let response: Value =
                    serde_json::from_slice(&outcome.response(&json!(7), era)).unwrap();
                let result = &response["result"];
                assert_eq!(result["_meta"]["roadstead/cut"] == true, is_cut, "{response}");
                assert_eq!(result["a"] == 1, !fields.is_empty(), "{response}");
                let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
                assert_eq!(info["name"] == "roadstead", era == Era::Modern, "{response}");
            }
        }
    }

    #[test]
    fn a_message_has_an_id_unless_it_is_a_notification() {
        for (body, id) in [
            (r#"{"jsonrpc": "2.0", "id": 7, "method": "ping"}"#, Some(json!(7))),
            (r#"{"jsonrpc": "2.0", "id": "", "method": "ping"}"#, Some(json!(""))),
            (r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#, None),
        ] {
            let Ok(Sent::Message(message)) = parse(body.as_bytes(), Era::Legacy) else {
                panic!("{body}")
            };
            assert_eq!((message.id, message.params), (id, json!({})), "{body}");
        }
        let answer = parse(br#"{"jsonrpc": "2.0", "id": 1, "error": {}}"#, Era::Legacy);
        assert!(matches!(answer, Ok(Sent::Answer)));
    }

    #[test]
    fn several_messages_at_once_are_of_the_oldest_revision() {
        let batch = br#" [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, 7]"#;
        for era in [Era::Modern, Era::Legacy] {
            let refused = parse(batch, era).unwrap_err().body(era);
            assert_eq!(refused["error"]["code"], INVALID_REQUEST);
            assert!(refused["error"]["message"].as_str().unwrap().contains("batch"), "{refused}");
        }
        let Ok(Sent::Batch(each)) = parse(batch, Era::Oldest) else { panic!("no batch") };
        assert!(matches!(each[..], [Ok(Sent::Message(_)), Err(_)]), "{each:?}");
        let many = format!("[{}]", ["{}"; 17].join(","));
        for (wrong, code) in [
            ("[]", INVALID_REQUEST),
            (&*many, INVALID_REQUEST),
            (r#"[{"id": 1, "id": 1}]"#, INVALID_REQUEST),
            ("[", PARSE_ERROR),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "\ud800"}"#, PARSE_ERROR),
            (r#"[], "batch": []"#, PARSE_ERROR),
        ] {
            let refused = parse(wrong.as_bytes(), Era::Oldest).unwrap_err().body(Era::Oldest);
            assert_eq!(refused["error"]["code"], code, "{wrong}");
        }
    }

    #[test]
    fn a_result_says_its_type_in_the_newest_revision_alone() {
        let response = |era| -> Value {
            let outcome = Outcome::kept(&json!({"a": 1}), era, 5, false);
            serde_json::from_slice(&outcome.response(&json!("x"), era)).unwrap()
        };
        let legacy = json!({"jsonrpc": "2.0", "id": "x", "result": {"a": 1}});
        assert_eq!(response(Era::Legacy), legacy);
        let mut result = response(Era::Modern)["result"].take();
        result.as_object_mut().unwrap().shift_remove("_meta").unwrap();
        let expected =
            json!({"resultType": "complete", "a": 1, "ttlMs": 5, "cacheScope": "private"});
        assert_eq!(result, expected);
        let empty = Outcome::of(&json!({})).response(&json!(1), Era::Modern);
        assert!(serde_json::from_slice::<Value>(&empty).is_ok());
    }
}
