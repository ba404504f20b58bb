//! An API client with a credential and an organization.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Connection, Reply};

/// An API client: the organization's slug, which every request names, and a credential.
pub struct Caller {
    address: SocketAddr,
    pub org: String,
    /// Header fields of every request.
    pub fields: Vec<(String, String)>,
    /// Called for every response with method, target and response.
    pub check: fn(&str, &str, &Reply),
    /// Connections that may be used again, with the time of their last use.
    idle: Mutex<Vec<(Connection, Instant)>>,
}

/// How long a connection may have been idle to be used again: half as long as the server keeps it, so
/// that no request meets its end.
const REUSABLE: Duration = Duration::from_secs(60);

impl Clone for Caller {
    fn clone(&self) -> Self {
        Caller {
            address: self.address,
            org: self.org.clone(),
            fields: self.fields.clone(),
            check: self.check,
            idle: Mutex::default(),
        }
    }
}

impl Caller {
    /// A client without a credential.
    pub fn anonymous(address: SocketAddr, org: &str) -> Self {
        let (fields, check) = (Vec::new(), |_: &str, _: &str, _: &Reply| {});
        Caller { address, org: org.into(), fields, check, idle: Mutex::default() }
    }

    /// The same client with an API key only.
    pub fn with_key(&self, key: &str) -> Self {
        self.with_fields(&[("X-API-Key", key)])
    }

    /// The same client with a bearer token only.
    pub fn with_bearer(&self, token: &str) -> Self {
        self.with_fields(&[("Authorization", &format!("Bearer {token}"))])
    }

    /// The same client with other header fields.
    pub fn with_fields(&self, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Caller { fields: fields.collect(), ..self.clone() }
    }

    /// The same client with these header fields besides.
    pub fn with_more_fields(&self, fields: &[(&str, &str)]) -> Self {
        let more = fields.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Caller { fields: self.fields.iter().cloned().chain(more).collect(), ..self.clone() }
    }

    /// The same client for another organization.
    pub fn about(&self, org: &str) -> Self {
        Caller { org: org.into(), ..self.clone() }
    }

    /// Its key or token.
    pub fn credential(&self) -> &str {
        let value = self.fields.first().map_or("", |(_, value)| value);
        value.strip_prefix("Bearer ").unwrap_or(value)
    }

    /// Builds a request to a path below `/api`, verbatim.
    pub fn ask<'a>(&'a self, method: &'a str, path: &str) -> Ask<'a> {
        let target = format!("/api{path}");
        Ask { caller: self, method, target, fields: Vec::new(), body: None }
    }

    /// GET, with `orgSlug` in the query.
    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", &self.in_org(path)).send()
    }

    /// DELETE, with `orgSlug` in the query.
    pub fn delete(&self, path: &str) -> Reply {
        self.ask("DELETE", &self.in_org(path)).send()
    }

    /// POST, with `orgSlug` in the body.
    pub fn post(&self, path: &str, body: Value) -> Reply {
        self.ask("POST", path).org_json(body).send()
    }

    /// PATCH, with `orgSlug` in the body.
    pub fn patch(&self, path: &str, body: Value) -> Reply {
        self.ask("PATCH", path).org_json(body).send()
    }

    /// PUT, with `orgSlug` in the body.
    pub fn put(&self, path: &str, body: Value) -> Reply {
        self.ask("PUT", path).org_json(body).send()
    }

    /// A path with `orgSlug` in its query.
    pub fn in_org(&self, path: &str) -> String {
        let sign = if path.contains('?') { '&' } else { '?' };
        format!("{path}{sign}orgSlug={}", self.org)
    }

    /// All items of a list, read in pages of `limit`.
    #[track_caller]
    pub fn walk(&self, path: &str, limit: usize) -> Vec<Value> {
        let sign = if path.contains('?') { '&' } else { '?' };
        let mut target = format!("{path}{sign}limit={limit}");
        let mut all = Vec::new();
        loop {
            let page = self.get(&target).ok();
            let items = page["items"].as_array().expect("a list").clone();
            assert!(items.len() <= limit, "{page}");
            all.extend(items);
            match page["nextCursor"].as_str() {
                Some(cursor) => target = format!("{path}{sign}limit={limit}&cursor={cursor}"),
                None => return all,
            }
        }
    }

    fn exchange(&self, bytes: &[u8], bodiless: bool) -> io::Result<Reply> {
        let idle = self.idle.lock().unwrap().pop();
        let mut connection = match idle {
            Some((connection, since)) if since.elapsed() < REUSABLE => connection,
            _ => Connection::open(self.address)?,
        };
        let written = connection.write(bytes);
        // The server may respond, and close, before it has read everything.
        let reply = connection.reply(bodiless)?;
        if written.is_ok() && reply.header("connection") != Some("close") {
            self.idle.lock().unwrap().push((connection, Instant::now()));
        }
        Ok(reply)
    }
}

/// A request to send.
pub struct Ask<'a> {
    caller: &'a Caller,
    method: &'a str,
    target: String,
    fields: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Ask<'_> {
    /// Adds a header field.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Adds a JSON body, verbatim.
    pub fn json(self, body: &Value) -> Self {
        self.with("Content-Type", "application/json").bytes(body.to_string())
    }

    /// Adds a JSON body with the client's organization, unless it names one.
    pub fn org_json(self, mut body: Value) -> Self {
        if body.get("orgSlug").is_none() && body.is_object() {
            body["orgSlug"] = json!(self.caller.org);
        }
        self.json(&body)
    }

    /// Adds a body.
    pub fn bytes(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// The bytes of the request.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: localhost\r\n", self.method, self.target);
        for (name, value) in self.caller.fields.iter().chain(&self.fields) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &self.body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), self.body.as_deref().unwrap_or_default()].concat()
    }

    /// Sends the request and reads the response.
    #[track_caller]
    pub fn send(&self) -> Reply {
        let reply = self.try_send();
        let reply = reply.unwrap_or_else(|e| panic!("{} {}: {e}", self.method, self.target));
        (self.caller.check)(self.method, &self.target, &reply);
        reply
    }

    /// Like `send`, for a server that may be gone.
    pub fn try_send(&self) -> io::Result<Reply> {
        self.caller.exchange(&self.to_bytes(), self.method == "HEAD")
    }
}
