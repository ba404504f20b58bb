//! What leaves the process: the guarded HTTP client, the only place that opens outgoing sockets.
//!
//! It resolves names as the system does, refuses addresses that are not public, follows no
//! redirect, knows no proxy, and bounds every call in time and size (contract §4, last paragraph).
//! It knows no resource: a caller prepares a [`Call`] as data, sends it outside of any transaction
//! and settles what came of it.

mod addresses;
mod connect;
pub mod mail;
mod many;
pub mod webhook;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use ipnet::IpNet;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::base;
use connect::{Lookup, Target};
pub use many::Heard;

/// Calls in flight. Each holds a socket, perhaps a thread that waits for DNS, and an answer of up to
/// its limit: this many fit into the 1,024 files and 512 blocking threads that a process has by
/// default, and leave most of them to those who call us.
const IN_FLIGHT: usize = 64;

/// How long we go on reading a body that nobody wants. Servers that write status and body in two
/// steps take a connection closed between them for an error.
const UNWANTED_BODY: Duration = Duration::from_secs(1);

/// How much of a body that nobody wants we read.
const UNWANTED_BYTES: usize = 64 * 1024;

/// Headers that the client writes itself. A second opinion on where a body ends is how requests
/// are smuggled.
const OWN_HEADERS: [HeaderName; 6] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TRANSFER_ENCODING,
    header::USER_AGENT,
];

/// What the operator decides.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Addresses that may be called though they are not public (`--allow-private-network`).
    pub allow_private: Vec<IpNet>,
    /// PEM certificates to trust beside the built-in ones (`--ca-file`).
    pub extra_roots_pem: Option<Vec<u8>>,
}

/// A method that we call with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// To fetch.
    Get,
    /// To tell.
    Post,
    /// To change.
    Patch,
}

/// One call to make. There is no `Debug`: the URL and the headers may hold secrets.
#[derive(Clone)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Absolute, `http` or `https`, without user information.
    pub url: String,
    /// Name and value. `Host`, `User-Agent` and those about length, coding and connection are the
    /// client's.
    pub headers: Vec<(String, String)>,
    /// What is sent; empty for none.
    pub body: Vec<u8>,
    /// How much this call may take.
    pub limits: Limits,
}

/// How much a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the call of [`Outside::send`] to the end of the answer: waiting for a free place,
    /// resolution and TLS included.
    pub total: Duration,
    /// What becomes of the answer's body.
    pub answer: AnswerBody,
    /// Whether `http` is refused.
    pub https_only: bool,
}

/// What becomes of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerBody {
    /// It is wanted whole; more than this many bytes is [`Failure::TooLarge`].
    UpTo(usize),
    /// Only the status counts, for example that a webhook was taken. [`Answer::body`] is empty, and
    /// what goes wrong after the head is no failure: it would be sent again in vain.
    Ignored,
}

/// What came back, whatever its status: a redirect is an answer like any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 100 to 999.
    pub status: u16,
    /// Names in lower case. Bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// As it was sent: compression was not asked for and is not undone.
    pub body: Vec<u8>,
}

impl Answer {
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of this name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Why there is no answer. As text it is one sentence without a final full stop that a person can
/// act on. It names the host, but neither the URL (some are secrets), nor the address (names of the
/// operator's network are not for all to resolve), nor anything of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The URL cannot be called; why, as a phrase.
    Url(&'static str),
    /// A header that HTTP does not allow, or that is the client's own.
    Header { name: String },
    /// Too many calls in flight for all of the call's time. Nothing was sent.
    Busy,
    /// One of so many calls of one request that none of them is made.
    TooMuch,
    /// The name has no address.
    Name { host: String, reason: String },
    /// The address is not public and not allowed. For the log: which it was.
    Address { host: String, address: IpAddr },
    /// No connection.
    Connect { host: String, reason: String },
    /// No TLS, or not with the one we meant.
    Tls { host: String, reason: String },
    /// The time was over; whether the request arrived is unknown.
    TimedOut { host: String, after: Duration },
    /// The body is over the limit, which is given.
    TooLarge { host: String, bytes: usize },
    /// The connection broke, or what came is not HTTP/1.1.
    Protocol { host: String, reason: String },
}

impl Failure {
    fn protocol(host: &str, error: &hyper::Error) -> Self {
        // Its text is a fixed phrase for the kind of error, its source one more.
        let reason = match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        Failure::Protocol { host: host.to_string(), reason }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Url(why) => write!(f, "the URL cannot be called: {why}"),
            Failure::Header { name } => write!(f, "the header {name:?} cannot be sent"),
            Failure::Busy => write!(f, "{IN_FLIGHT} other calls are in flight; try again later"),
            Failure::TooMuch => {
                write!(f, "this takes more calls than one request may make; ask for less at once")
            }
            Failure::Name { host, reason } => write!(f, "{host} cannot be resolved: {reason}"),
            Failure::Address { host, .. } => write!(
                f,
                "{host} has an address that is not public; the operator can allow it with \
                 --allow-private-network"
            ),
            Failure::Connect { host, reason } => {
                write!(f, "{host} cannot be connected to: {reason}")
            }
            Failure::Tls { host, reason } => write!(f, "no TLS with {host}: {reason}"),
            Failure::TimedOut { host, after } => {
                // What is left of a deadline is seldom a round number.
                let secs = (after.as_secs_f64() * 10.0).round() / 10.0;
                write!(f, "{host} gave no complete answer within {secs} s")
            }
            Failure::TooLarge { host, bytes } => {
                write!(f, "the answer of {host} is longer than {bytes} bytes")
            }
            Failure::Protocol { host, reason } => {
                write!(f, "{host} did not answer as HTTP asks: {reason}")
            }
        }
    }
}

impl std::error::Error for Failure {}

/// The client. Cloning it is cheap; all clones share one count of calls in flight.
///
/// It keeps no connection: one that is used again would go to an address that was checked for an
/// earlier call, and our calls are seldom and scattered enough that there is little to win.
#[derive(Clone)]
pub struct Outside {
    lookup: Lookup,
    allow: Arc<[IpNet]>,
    tls: TlsConnector,
    slots: Arc<Semaphore>,
}

impl Outside {
    /// Makes the client.
    ///
    /// # Errors
    /// The extra roots hold no certificate, or one that cannot be read.
    pub fn new(config: Config) -> base::Result<Self> {
        Ok(Outside {
            lookup: Arc::new(connect::system_lookup),
            allow: config.allow_private.into(),
            tls: connect::tls(config.extra_roots_pem.as_deref())?,
            slots: Arc::new(Semaphore::new(IN_FLIGHT)),
        })
    }

    /// Makes one call: once, to the addresses that the name has now. Dropping the future closes the
    /// connection.
    ///
    /// # Errors
    /// Everything but an answer; see [`Failure`]. An error status is an answer.
    pub async fn send(&self, call: Call) -> Result<Answer, Failure> {
        let limits = call.limits;
        let deadline = Instant::now() + limits.total;
        let target = Target::parse(&call.url, limits.https_only)?;
        let request = request(&target, call)?;
        let timed_out = |_| Failure::TimedOut { host: target.host.clone(), after: limits.total };

        let slot = timeout_at(deadline, self.slots.clone().acquire_owned())
            .await
            .map_err(|_| Failure::Busy)?
            .expect("nobody closes the semaphore");
        let slot = Arc::new(slot);

        let exchange = async {
            let open = connect::open(&target, &self.lookup, &self.allow, &self.tls, slot.clone());
            let mut line = open.await?;
            let answer = line.send(request).await;
            let answer = answer.map_err(|error| Failure::protocol(&target.host, &error))?;
            Ok((line, answer))
        };
        let (_line, answer) = timeout_at(deadline, exchange).await.map_err(timed_out)??;

        let (head, body) = answer.into_parts();
        let body = match limits.answer {
            AnswerBody::UpTo(bytes) => {
                timeout_at(deadline, read(&target.host, body, bytes)).await.map_err(timed_out)??
            }
            AnswerBody::Ignored => {
                let until = deadline.min(Instant::now() + UNWANTED_BODY);
                let _ = timeout_at(until, read(&target.host, body, UNWANTED_BYTES)).await;
                Vec::new()
            }
        };
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
        Ok(Answer { status: head.status.as_u16(), headers: headers.collect(), body })
    }
}

fn request(target: &Target, call: Call) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::new(Full::new(Bytes::from(call.body)));
    *request.method_mut() = match call.method {
        Method::Get => hyper::Method::GET,
        Method::Post => hyper::Method::POST,
        Method::Patch => hyper::Method::PATCH,
    };
    *request.uri_mut() = target.path.clone();
    let headers = request.headers_mut();
    for (name, value) in call.headers {
        let pair = (HeaderName::try_from(&name), HeaderValue::try_from(value));
        let (Ok(key), Ok(value)) = pair else { return Err(Failure::Header { name }) };
        if OWN_HEADERS.contains(&key) {
            return Err(Failure::Header { name });
        }
        headers.append(key, value);
    }
    const AGENT: &str = concat!("roadstead/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::HOST, target.authority.clone());
    headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

/// Reads a body; the first byte over `limit` ends it.
async fn read(host: &str, mut body: Incoming, limit: usize) -> Result<Vec<u8>, Failure> {
    let too_large = || Failure::TooLarge { host: host.to_string(), bytes: limit };
    // What the head announced need not be read in order to be refused.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::protocol(host, &error))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
