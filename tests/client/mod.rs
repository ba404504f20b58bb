//! A small HTTP/1.1 client over plain sockets, for tests: it sends exactly the bytes it is told to,
//! which a real client would not, and blocks, so that tests read from top to bottom.

// Two test binaries use this file, each a part of it.
#![allow(dead_code)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// An answer that takes longer has not come: more than any long poll here waits.
const PATIENCE: Duration = Duration::from_secs(30);

// ── Answers ──────────────────────────────────────────────────────────────────

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {} {}", self.status, self.text()))
    }

    /// What a success says.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// The items of a list.
    #[track_caller]
    pub fn items(&self) -> Vec<Value> {
        self.ok()["items"].as_array().unwrap_or_else(|| panic!("no list: {}", self.text())).clone()
    }

    /// The `id` of what a success says.
    #[track_caller]
    pub fn id(&self) -> String {
        self.ok()["id"].as_str().unwrap_or_else(|| panic!("no id: {}", self.text())).into()
    }

    /// Fails unless it is this refusal, in the form that every error has.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let problem = self.problem();
        assert_eq!((self.status, &problem["code"]), (status, &json!(code)), "{}", self.text());
        problem
    }

    /// Fails unless it is a 400 whose issues stand at these paths.
    #[track_caller]
    pub fn invalid(&self, paths: &[&str]) -> Value {
        let problem = self.refused(400, "invalid_request");
        let issues = problem["issues"].as_array().cloned().unwrap_or_default();
        let found: Vec<_> = issues.iter().map(|i| i["path"].as_str().unwrap_or("?")).collect();
        assert_eq!(found, paths, "{}", self.text());
        problem
    }

    /// Fails unless it is an error in the form that every error has (contract §1, "Error body").
    #[track_caller]
    pub fn problem(&self) -> Value {
        assert!(self.status >= 400, "no error: {} {}", self.status, self.text());
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text());
        let problem = self.json();
        assert!(problem["message"].as_str().is_some_and(|m| !m.is_empty()), "{problem}");
        assert!(problem["code"].as_str().is_some_and(is_snake_case), "{problem}");
        assert_eq!(problem["requestId"].as_str(), self.header("x-request-id"), "{problem}");
        assert!(problem.get("issues").is_none() || self.status == 400, "{problem}");
        problem
    }

    /// Status and body without the request's id: what must not differ between two refusals that
    /// must look the same.
    #[track_caller]
    pub fn likeness(&self) -> String {
        let id = self.header("x-request-id").expect("every answer has one");
        let mut headers: Vec<_> = self
            .headers
            .iter()
            .filter(|(name, _)| name != "x-request-id" && name != "date")
            .collect();
        headers.sort();
        format!("{} {headers:?} {}", self.status, self.text().replace(id, "ID"))
    }
}

fn is_snake_case(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

// ── Connections ──────────────────────────────────────────────────────────────

/// One connection.
pub struct Connection {
    stream: TcpStream,
    /// What was read and not yet used.
    read: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, read: Vec::new() })
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Says that no more will be sent.
    pub fn finish_writing(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Reads an answer whose length is told. `bodiless` for the answer to a HEAD.
    pub fn reply(&mut self, bodiless: bool) -> io::Result<Reply> {
        let (status, headers) = self.head()?;
        let mut reply = Reply { status, headers, body: Vec::new() };
        if let Some(length) = reply.header("content-length").filter(|_| !bodiless) {
            let length = length.parse().map_err(io::Error::other)?;
            reply.body = self.take(length)?;
        }
        Ok(reply)
    }

    /// Reads status and headers.
    pub fn head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let head = self.until(b"\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status in {head:?}")))?;
        let header = |line: &str| {
            line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_string()))
        };
        Ok((status, lines.filter_map(header).collect()))
    }

    /// Reads the next chunk of a body without a length; empty at its end.
    pub fn chunk(&mut self) -> io::Result<String> {
        let size = self.until(b"\r\n")?;
        let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
        let chunk = self.take(size)?;
        self.take(2)?;
        String::from_utf8(chunk).map_err(io::Error::other)
    }

    /// Whether the other side has closed it, and sent nothing more before.
    pub fn is_closed(&mut self) -> bool {
        // A reset is as closed as an end: the other side did not read all we sent.
        self.read.is_empty() && matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }

    fn until(&mut self, end: &[u8]) -> io::Result<String> {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|window| window == end) {
                let text = self.take(at)?;
                self.take(end.len())?;
                return String::from_utf8(text).map_err(io::Error::other);
            }
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.read.len() < length {
            self.fill()?;
        }
        Ok(self.read.drain(..length).collect())
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.read.extend_from_slice(&bytes[..read]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Sends bytes on a connection of their own and reads the answer.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> Reply {
    let mut connection = Connection::open(address).unwrap();
    // The server may answer, and close, before it has read everything.
    let _ = connection.write(bytes);
    connection.reply(false).unwrap()
}

// ── Callers ──────────────────────────────────────────────────────────────────

/// Somebody who sends requests to the API: an organization's slug, which every request names, and
/// a credential.
pub struct Caller {
    address: SocketAddr,
    pub org: String,
    /// Header fields that every request has.
    pub fields: Vec<(String, String)>,
    /// Looks at every answer: method, target and answer.
    pub check: fn(&str, &str, &Reply),
    idle: Mutex<Vec<Connection>>,
}

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
    /// Somebody without a credential.
    pub fn nobody(address: SocketAddr, org: &str) -> Self {
        let (fields, check) = (Vec::new(), |_: &str, _: &str, _: &Reply| {});
        Caller { address, org: org.into(), fields, check, idle: Mutex::default() }
    }

    /// The same somebody with an API key alone.
    pub fn with_key(&self, key: &str) -> Self {
        self.with_fields(&[("X-API-Key", key)])
    }

    /// The same somebody with a bearer token alone.
    pub fn with_bearer(&self, token: &str) -> Self {
        self.with_fields(&[("Authorization", &format!("Bearer {token}"))])
    }

    /// The same somebody with other header fields.
    pub fn with_fields(&self, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Caller { fields: fields.collect(), ..self.clone() }
    }

    /// The same somebody about another organization.
    pub fn about(&self, org: &str) -> Self {
        Caller { org: org.into(), ..self.clone() }
    }

    /// Its key or token.
    pub fn credential(&self) -> &str {
        let value = self.fields.first().map_or("", |(_, value)| value);
        value.strip_prefix("Bearer ").unwrap_or(value)
    }

    /// Begins a request to a path below `/api`, just as it is given.
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

    /// All items of a list, walked in pages of `limit`.
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
            Some(connection) => connection,
            None => Connection::open(self.address)?,
        };
        let written = connection.write(bytes);
        // The server may answer, and close, before it has read everything.
        let reply = connection.reply(bodiless)?;
        if written.is_ok() && reply.header("connection") != Some("close") {
            self.idle.lock().unwrap().push(connection);
        }
        Ok(reply)
    }
}

/// A request on its way.
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

    /// Adds a body of JSON, just as it is given.
    pub fn json(self, body: &Value) -> Self {
        self.with("Content-Type", "application/json").bytes(body.to_string())
    }

    /// Adds a body of JSON that names the caller's organization, unless it names one itself.
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

    /// The request as it goes over the wire.
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

    /// Sends it and reads the answer.
    #[track_caller]
    pub fn send(&self) -> Reply {
        let reply = self.try_send();
        let reply = reply.unwrap_or_else(|e| panic!("{} {}: {e}", self.method, self.target));
        (self.caller.check)(self.method, &self.target, &reply);
        reply
    }

    /// The same where the server may go away.
    pub fn try_send(&self) -> io::Result<Reply> {
        self.caller.exchange(&self.to_bytes(), self.method == "HEAD")
    }
}

/// The values of some fields, named with blanks between them, as a list.
#[track_caller]
pub fn pick(value: &Value, fields: &str) -> Value {
    let field = |name| value.get(name).unwrap_or_else(|| panic!("no {name} in {value}")).clone();
    fields.split(' ').map(field).collect()
}

// ── Waiting ──────────────────────────────────────────────────────────────────

/// Looks again and again until there is something; fails after ten seconds.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{what} did not happen in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Does the same `n` times at once and says what came of each.
pub fn at_once<T: Send>(n: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(n);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n)
            .map(|i| {
                let (act, start) = (&act, &start);
                scope.spawn(move || {
                    start.wait();
                    act(i)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not fail")).collect()
    })
}
