//! Looking up the public key of a handle at its domain, exactly by NIP-05
//! (reference: agent-index, "Verification").
//!
//! [`lookup`] is the call, [`read`] understands its result:
//!
//! ```text
//! calls.send_parsed(nip05::lookup(&handle), |result| nip05::read(result, handle.name()))
//! ```

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::call::{BodyLimit, Call, Failure, Limits};
use super::lookup_limit::LOOKUP_PATH;
use super::many::CallResult;
use crate::base::{Handle, PublicKey};

/// The time for one look-up, name resolution and TLS included, in seconds.
pub const LOOKUP_SECS: u64 = 5;

/// The largest document, in bytes: some 800 names.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024;

/// What a domain says of one name. A reason is a phrase that a person can act on; it contains no part
/// of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nip05Answer {
    /// The name has this key.
    Key(String),
    /// The domain does not know the name.
    Missing,
    /// There is no answer with status 200: the reason.
    Unreachable(String),
    /// The answer is too long, or not such a document: the reason.
    Invalid(String),
}

impl Nip05Answer {
    /// Returns whether the name has exactly this key.
    pub fn confirms(&self, key: &PublicKey) -> bool {
        matches!(self, Nip05Answer::Key(found) if found == key.as_str())
    }
}

/// Returns the call that looks up a handle.
pub fn lookup(handle: &Handle) -> Call {
    Call {
        method: Method::GET,
        // Neither part has characters with a meaning in a URL.
        url: format!("https://{}{LOOKUP_PATH}{}", handle.domain(), handle.name()),
        headers: vec![("accept".into(), "application/json".into())],
        body: Vec::new(),
        limits: Limits {
            total: Duration::from_secs(LOOKUP_SECS),
            answer: BodyLimit::UpTo(MAX_DOCUMENT_BYTES),
            https_only: true,
        },
    }
}

/// The part of the document that is read.
#[derive(Deserialize)]
struct Document {
    names: Map<String, Value>,
}

/// Returns what the result of [`lookup`] says of the name before the `@`.
pub fn read(result: &CallResult, name: &str) -> Nip05Answer {
    let answer = match &result.answer {
        Ok(answer) => answer,
        // The limit of all calls of a request says nothing about this document.
        Err(failure @ Failure::TooLarge { bytes: MAX_DOCUMENT_BYTES, .. }) => {
            return Nip05Answer::Invalid(failure.to_string());
        }
        Err(failure) => return Nip05Answer::Unreachable(failure.to_string()),
    };
    match answer.status {
        200 => {}
        status @ 300..400 => {
            let reason = format!("it redirects (status {status}), which NIP-05 forbids to follow");
            return Nip05Answer::Unreachable(reason);
        }
        status => return Nip05Answer::Unreachable(format!("it answered with status {status}")),
    }
    match serde_json::from_slice::<Document>(&answer.body) {
        Ok(Document { mut names }) => match names.remove(name) {
            Some(Value::String(key)) => Nip05Answer::Key(key),
            None => Nip05Answer::Missing,
            Some(_) => Nip05Answer::Invalid("the key of the name is not a text".into()),
        },
        Err(_) => Nip05Answer::Invalid("its answer is not JSON with an object \"names\"".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::{Response, is_lookup};

    const KEY: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";

    fn answered(status: u16, body: &str) -> Nip05Answer {
        let answer = Ok(Response { status, headers: vec![], body: body.as_bytes().to_vec() });
        read(&CallResult { answer, took: Duration::ZERO }, "bob")
    }

    fn failed(failure: Failure) -> Nip05Answer {
        read(&CallResult { answer: Err(failure), took: Duration::ZERO }, "bob")
    }

    #[test]
    fn a_lookup_asks_the_domain_over_https_alone() {
        let call = lookup(&Handle::parse("bob.b_c-d@Bücher.Example").unwrap());
        let url = "https://xn--bcher-kva.example/.well-known/nostr.json?name=bob.b_c-d";
        assert_eq!(call.url, url);
        assert!(call.limits.https_only && is_lookup(&call));
    }

    #[test]
    fn the_key_of_exactly_this_name_counts() {
        let key = PublicKey::parse(KEY).unwrap();
        let body = format!(r#"{{"names": {{"Bob": "x", "bob": "{KEY}"}}, "relays": []}}"#);
        assert!(answered(200, &body).confirms(&key));
        for body in [r#"{"names": {}}"#, &format!(r#"{{"names": {{"Bob": "{KEY}"}}}}"#)] {
            assert_eq!(answered(200, body), Nip05Answer::Missing, "{body}");
        }
        for other in [&KEY.to_uppercase(), "npub1", "", &format!("{KEY} ")] {
            let found = answered(200, &format!(r#"{{"names": {{"bob": "{other}"}}}}"#));
            assert_eq!(found, Nip05Answer::Key(other.to_string()));
            assert!(!found.confirms(&key), "{other}");
        }
    }

    #[test]
    fn what_is_no_such_document_is_invalid() {
        let strange = ["", "<html>", "[]", "null", "{}", r#"{"names": []}"#, r#"{"names": null}"#];
        for body in strange.into_iter().chain([r#"{"names": {"bob": 1}}"#]) {
            let found = answered(200, body);
            assert!(matches!(found, Nip05Answer::Invalid(_)), "{body}: {found:?}");
        }
        let (host, bytes) = ("a.test".to_string(), MAX_DOCUMENT_BYTES);
        let long = failed(Failure::TooLarge { host, bytes });
        assert!(matches!(long, Nip05Answer::Invalid(_)), "{long:?}");
    }

    #[test]
    fn without_an_answer_of_status_200_the_domain_is_unreachable() {
        let body = format!(r#"{{"names": {{"bob": "{KEY}"}}}}"#);
        for status in [204, 301, 302, 307, 404, 500] {
            let found = answered(status, &body);
            assert!(matches!(found, Nip05Answer::Unreachable(_)), "{status}: {found:?}");
        }
        let host = "a.test".to_string();
        let after = Duration::from_secs(5);
        let all_calls = Failure::TooLarge { host: host.clone(), bytes: 64 * 1024 * 1024 };
        for failure in [Failure::TimedOut { host, after }, Failure::Busy, all_calls] {
            let found = failed(failure);
            assert!(matches!(found, Nip05Answer::Unreachable(_)), "{found:?}");
        }
    }
}
