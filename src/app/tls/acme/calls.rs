//! How an authority is called: through the client for outgoing calls, with bounds for an attempt.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::{Request, Response as HttpResponse, Uri};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::schedule::LONGEST_PAUSE_SECS;
use crate::base::{self, Time};
use crate::outside::{BodyLimit, Call, ClientConfig, Limits, Method, Outside, Resolver, Response};
use crate::store::Clock;

/// Time for a call.
const CALL_TIME: Duration = Duration::from_secs(30);

/// Limit of an answer: a certificate with those of its issuers has some 6 KB. A little less than what is
/// read of the file that it is kept in with its key.
const MAX_ANSWER_BYTES: usize = 60 * 1024;

/// Calls of an attempt: for each of a hundred domains two, and some more to wait for the authority.
const MAX_CALLS: usize = 400;

/// What the protocol looks at of the headers of an answer, beside when to come back. An authority may send
/// anything in them.
const HEADERS: [&str; 2] = ["replay-nonce", "location"];

/// The clients for calls to an authority.
#[derive(Clone)]
pub struct Callers {
    /// For its own host: the operator has named it, so it may have any address, as a mail server may.
    of_authority: Outside,
    /// For what its answers name: what any outgoing call may reach.
    of_others: Outside,
}

impl Callers {
    /// Clients with these settings for outgoing calls.
    ///
    /// # Errors
    /// As [`Outside::new`].
    pub fn new(config: ClientConfig, resolver: Resolver) -> base::Result<Self> {
        Ok(Callers {
            of_authority: Outside::new(config.clone().to_everywhere())?.resolving(resolver.clone()),
            of_others: Outside::new(config)?.resolving(resolver),
        })
    }
}

/// The calls of one attempt.
#[derive(Clone)]
pub struct Calls(Arc<Attempt>);

struct Attempt {
    callers: Callers,
    directory: String,
    /// Where the directory is: its host and port.
    place: String,
    left: AtomicUsize,
    /// How many seconds the authority asks to be left alone.
    asked_pause: AtomicI64,
}

impl Calls {
    /// The calls to the authority with this directory.
    pub fn new(callers: Callers, directory: &str) -> Self {
        let place = call(Method::GET, directory).place();
        let (left, asked_pause) = (AtomicUsize::new(MAX_CALLS), AtomicI64::new(0));
        let directory = directory.to_string();
        Calls(Arc::new(Attempt { callers, directory, place, left, asked_pause }))
    }

    /// How many seconds the authority has asked to be left alone, if it has refused a call so.
    pub fn asked_pause(&self) -> Option<i64> {
        Some(self.0.asked_pause.load(Ordering::Relaxed)).filter(|secs| *secs > 0)
    }
}

impl Attempt {
    async fn send(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, String> {
        let take = |left: usize| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_err(|_| {
            format!("the authority had the server make more than {MAX_CALLS} calls")
        })?;
        let (head, body) = request.into_parts();
        let mut call = call(head.method, &head.uri.to_string());
        if let Some(value) = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) {
            call.headers.push((CONTENT_TYPE.to_string(), value.to_string()));
        }
        let Ok(body) = body.collect().await;
        call.body = body.to_bytes().to_vec();
        let is_of_authority = call.place() == self.place;
        let Callers { of_authority, of_others } = &self.callers;
        let caller = if is_of_authority { of_authority } else { of_others };
        let is_directory = call.url == self.directory;
        let answer = caller.send(call).await.map_err(|failure| failure.to_string())?;
        if is_directory && (200..300).contains(&answer.status) {
            require_urls(&answer.body)?;
        }
        self.answered(answer)
    }

    /// Hands an answer on, with what the protocol needs of its headers.
    fn answered(&self, answer: Response) -> Result<BytesResponse, String> {
        let mut response = HttpResponse::builder().status(answer.status);
        for name in HEADERS {
            if let Some(value) = answer.header(name) {
                response = response.header(name, value);
            }
        }
        let now = Clock::system().now();
        if let Some(secs) = answer.header("retry-after").and_then(|value| pause(value, now)) {
            response = response.header(RETRY_AFTER, secs);
            if matches!(answer.status, 429 | 503) {
                self.asked_pause.store(secs, Ordering::Relaxed);
            }
        }
        let response = response.body(Full::new(Bytes::from(answer.body)));
        response.map(BytesResponse::from).map_err(|error| error.to_string())
    }
}

impl HttpClient for Calls {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let attempt = self.0.clone();
        Box::pin(async move { attempt.send(request).await.map_err(|why| Error::Other(why.into())) })
    }
}

fn call(method: Method, url: &str) -> Call {
    Call {
        method,
        url: url.to_string(),
        headers: Vec::new(),
        body: Vec::new(),
        limits: Limits {
            total: CALL_TIME,
            answer: BodyLimit::UpTo(MAX_ANSWER_BYTES),
            https_only: true,
        },
    }
}

/// Refuses a directory whose addresses are none: the library takes them for valid.
fn require_urls(directory: &[u8]) -> Result<(), String> {
    let directory: serde_json::Value = serde_json::from_slice(directory).unwrap_or_default();
    for name in ["newNonce", "newAccount", "newOrder"] {
        let url = directory[name].as_str().and_then(|url| url.parse::<Uri>().ok());
        if !url.is_some_and(|url| url.scheme_str() == Some("https") && url.host().is_some()) {
            return Err(format!(
                "the authority names no https address as {name}: --acme-directory must be the URL of \
                 its directory"
            ));
        }
    }
    Ok(())
}

/// The seconds that a `Retry-After` asks for: a number, or a date.
fn pause(value: &str, now: Time) -> Option<i64> {
    let secs = match value.trim() {
        digits if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().unwrap_or(i64::MAX)
        }
        date => OffsetDateTime::parse(date, &Rfc2822).ok()?.unix_timestamp() - now.secs(),
    };
    Some(secs.clamp(0, LONGEST_PAUSE_SECS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_addresses() {
        let of = |nonce: &str| {
            let rest = r#""newAccount":"https://ca.test/a","newOrder":"https://ca.test/o""#;
            require_urls(format!(r#"{{"newNonce":"{nonce}",{rest}}}"#).as_bytes())
        };
        assert_eq!(of("https://ca.test/n"), Ok(()));
        for wrong in ["", " ", "/n", "http://ca.test/n", "https://b\u{fc}ro.test/n", "https:///n"] {
            assert!(of(wrong).unwrap_err().contains("newNonce"), "{wrong}");
        }
        assert!(require_urls(b"[]").is_err() && require_urls(b"<html>").is_err());
    }

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_until_a_date_and_is_bounded() {
        let now = Time::parse("2030-01-01T00:00:00Z").unwrap();
        for (value, secs) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("18446744073709551616", Some(LONGEST_PAUSE_SECS)),
            ("Tue, 01 Jan 2030 00:10:00 GMT", Some(600)),
            ("Tue, 01 Jan 2019 00:10:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(LONGEST_PAUSE_SECS)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(pause(value, now), secs, "{value:?}");
        }
    }
}
