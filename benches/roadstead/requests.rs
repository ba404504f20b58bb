//! The bytes of requests, and what some of them send.

use serde_json::{Value, json};

/// The bytes of a GET in the organization `acme`.
pub fn get(host: &str, key: &str, path: &str) -> Vec<u8> {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!(
        "GET /api{path}{separator}orgSlug=acme HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n\r\n"
    )
    .into_bytes()
}

/// The bytes of a request with a body in the organization `acme`.
pub fn send(host: &str, key: &str, method: &str, path: &str, mut body: Value) -> Vec<u8> {
    body["orgSlug"] = "acme".into();
    let body = body.to_string();
    format!(
        "{method} /api{path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A task.
pub fn task() -> Value {
    json!({
        "title": "Find out why the nightly import takes twice as long since Tuesday",
        "description": "It took 40 minutes before. The logs are in the bucket of the import; \
                        the largest customers are read first.",
    })
}

/// A message to an agent.
pub fn message(agent: &str) -> Value {
    json!({
        "toAgentId": agent,
        "subject": "The nightly import",
        "body": "The import waits for a lock that the report holds. Could you move the \
                 report to four in the morning and tell me when it has run once?",
    })
}
