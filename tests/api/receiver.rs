//! An external server: a real listener that records the requests it receives.

// Two test binaries use this file, each only in part.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver as Channel, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

/// A received request.
pub struct Sent {
    /// Method, path and header fields, in lower case.
    pub head: String,
    pub body: String,
}

impl Sent {
    pub fn field(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("it is JSON")
    }

    /// Whether it is signed with a `whsec_…` secret as Standard Webhooks has it.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key);
        let (id, at) = (self.field("webhook-id"), self.field("webhook-timestamp"));
        let content = format!("{id}.{at}.{}", self.body);
        // The head was put into lower case, and base64 with it.
        let expected = BASE64.encode(aws_lc_rs::hmac::sign(&key, content.as_bytes()));
        let expected = format!("v1,{expected}").to_lowercase();
        self.field("webhook-signature").split(' ').any(|one| one == expected)
    }
}

/// A response with a JSON body.
pub fn json_response(status: u16, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// A listener on this machine.
pub struct Receiver {
    pub url: String,
    sent: Channel<Sent>,
}

impl Receiver {
    /// One that responds with these statuses in turn, and then always with the last one.
    pub fn answering(statuses: &'static [u16]) -> Self {
        let mut left = statuses.iter();
        Self::responding(move |_| {
            let status = left.next().unwrap_or(statuses.last().unwrap());
            format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n")
        })
    }

    /// One that responds to each request in turn with the result of `respond`; an empty one only
    /// closes the connection.
    pub fn responding(mut respond: impl FnMut(&Sent) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (note, sent) = channel();
        // The thread ends with the process: a port that was given up could become another test's, which
        // then got what is sent here again.
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let Some(read) = read(&mut stream) else { continue };
                let response = respond(&read);
                // First: who has the response finds the request noted.
                if note.send(read).is_err() {
                    continue;
                }
                let _ = stream.write_all(response.as_bytes());
            }
        });
        Receiver { url, sent }
    }

    /// The next request.
    #[track_caller]
    pub fn next(&self) -> Sent {
        self.sent.recv_timeout(Duration::from_secs(60)).expect("it is called in time")
    }

    /// The requests that have arrived since the last look.
    pub fn arrived(&self) -> Vec<Sent> {
        self.sent.try_iter().collect()
    }

    /// Whether no further request has arrived.
    pub fn is_idle(&self) -> bool {
        self.sent.try_recv().is_err()
    }
}

/// Reads a request.
pub fn read(stream: &mut std::net::TcpStream) -> Option<Sent> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Some(Sent { head, body: body.into() });
            }
        }
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
        }
    }
}
