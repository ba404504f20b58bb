//! The HTTP client: one connection per call, to addresses that were checked for it; for many calls to
//! one server see [`KeptConnections`].

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::call::{BodyLimit, Call, Failure, MAX_IN_FLIGHT, Response};
use super::child::Children;
use super::connect::{self, Connection, Lookup, Resolver, Target};
use super::idle::IdleConnections;
use super::lookup_limit::{LookupLimit, is_lookup};
use super::mail::{MailSender, NotConfigured};
use super::span::Spans;
use crate::base::{self, TraceParent};

/// How long an ignored body is still read. Servers that write status and body in two steps take a
/// connection closed between them for an error.
const IGNORED_BODY_TIME: Duration = Duration::from_secs(1);

/// How much of an ignored body is read.
const IGNORED_BODY_BYTES: usize = 64 * 1024;

/// Headers that the client sets itself. Two statements about where a body ends allow request
/// smuggling.
const RESERVED_HEADERS: [HeaderName; 6] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TRANSFER_ENCODING,
    header::USER_AGENT,
];

/// Settings of the client, from the command line.
#[derive(Clone, Debug, Default)]
pub struct ClientConfig {
    /// Networks that may be called although they are not public (`--allow-private-network`).
    pub allow_private: Vec<IpNet>,
    /// PEM certificates to trust in addition to the built-in ones (`--ca-file`).
    pub extra_roots_pem: Option<Vec<u8>>,
}

impl ClientConfig {
    /// The same settings for a server that an operator or user has named: it may have any address but
    /// those of a cloud's metadata.
    pub fn to_everywhere(self) -> Self {
        let everywhere = [Ipv4Net::default().into(), Ipv6Net::default().into()];
        ClientConfig { allow_private: everywhere.to_vec(), ..self }
    }
}

/// The HTTP client for outgoing calls. Clones are cheap and share one limit of calls in flight.
///
/// It pools no connections: a reused one would go to an address that was checked for an earlier
/// call, and outgoing calls are too rare and too scattered to gain much from it. [`KeptConnections`]
/// does, for clients of one server.
#[derive(Clone)]
pub struct Outside {
    pub(super) lookup: Lookup,
    allow: Arc<[IpNet]>,
    tls: TlsConnector,
    /// One permit per call in flight.
    pub(super) slots: Arc<Semaphore>,
    /// How often hosts are asked for handles.
    lookups: Arc<LookupLimit>,
    /// Whether look-ups take what is kept for holders.
    for_holder: bool,
    /// Where the spans of calls go, if anywhere.
    pub(super) spans: Option<Arc<Spans>>,
    /// The part of a trace that makes the calls, if there is one.
    pub(super) part_of: Option<TraceParent>,
    /// Sends mail.
    pub mail: Arc<dyn MailSender>,
    /// Starts child processes.
    pub children: Children,
}

impl Outside {
    /// Creates the client.
    ///
    /// # Errors
    /// The extra roots hold no certificate, or one that cannot be parsed.
    pub fn new(config: ClientConfig) -> base::Result<Self> {
        Ok(Outside {
            lookup: Resolver::default().0,
            allow: config.allow_private.into(),
            tls: connect::tls(config.extra_roots_pem.as_deref())?,
            slots: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            lookups: Arc::default(),
            for_holder: false,
            spans: None,
            part_of: None,
            mail: Arc::new(NotConfigured),
            children: Children::default(),
        })
    }

    /// Sends mail through this sender; without one every mail fails.
    pub fn with_mail(self, mail: Arc<dyn MailSender>) -> Self {
        Outside { mail, ..self }
    }

    /// Exports a span of each call.
    pub fn with_spans(self, spans: Option<Arc<Spans>>) -> Self {
        Outside { spans, ..self }
    }

    /// Returns the client for calls that this part of a trace makes.
    pub fn part_of(self, part_of: Option<TraceParent>) -> Self {
        Outside { part_of, ..self }
    }

    /// Returns the client for look-ups by which a domain is asked again for what it has confirmed: some
    /// are kept for these, whatever others look up there.
    pub fn for_holder(self) -> Self {
        Outside { for_holder: true, ..self }
    }

    /// Starts child processes in this way; without one none can be started.
    pub fn with_children(self, children: Children) -> Self {
        Outside { children, ..self }
    }

    /// Returns the client with another way to resolve names. The addresses are checked as ever.
    pub fn resolving(self, resolver: Resolver) -> Self {
        Outside { lookup: resolver.0, ..self }
    }

    /// Returns the client without verification of certificates: whoever answers is believed, and may
    /// read what is sent. For calls to this machine that carry no secret.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn without_verification(self) -> base::Result<Self> {
        Ok(Outside { tls: connect::unverified_tls()?, ..self })
    }

    /// Sends one call, without retries, to the addresses that its host has now. Dropping the future
    /// closes the connection.
    ///
    /// # Errors
    /// See [`Failure`]. An error status is an answer, not an error.
    pub async fn send(&self, call: Call) -> Result<Response, Failure> {
        self.send_over(call, None).await
    }

    /// Sends one call, with a span of it.
    async fn send_over(
        &self,
        call: Call,
        kept: Option<&IdleConnections>,
    ) -> Result<Response, Failure> {
        let span = self.spans.as_ref().and_then(|spans| spans.calling(&call, self.part_of));
        let answer = self.make(call, kept).await;
        if let Some(span) = span {
            span.end(&answer);
        }
        answer
    }

    /// Sends one call over a connection that was kept, if there is one.
    async fn make(&self, call: Call, kept: Option<&IdleConnections>) -> Result<Response, Failure> {
        let limits = call.limits;
        let deadline = Instant::now() + limits.total;
        let Begun { target, mut connection, answer, slot: _slot } =
            self.begin(call, kept, deadline).await?;
        let timed_out = |_| Failure::TimedOut { host: target.host.clone(), after: limits.total };
        let (head, body) = answer.into_parts();
        let body = match limits.answer {
            BodyLimit::UpTo(bytes) => {
                let body = timeout_at(deadline, read(&target.host, body, bytes));
                let body = body.await.map_err(timed_out)??;
                if let Some(kept) = kept
                    && timeout_at(deadline, connection.is_ready()).await.unwrap_or(false)
                {
                    kept.keep(&target, connection);
                }
                body
            }
            BodyLimit::Ignored => {
                let until = deadline.min(Instant::now() + IGNORED_BODY_TIME);
                let _ = timeout_at(until, read(&target.host, body, IGNORED_BODY_BYTES)).await;
                Vec::new()
            }
        };
        Ok(response_of(&head, body))
    }

    /// Sends a call and waits for the head of its answer.
    pub(super) async fn begin(
        &self,
        call: Call,
        kept: Option<&IdleConnections>,
        deadline: Instant,
    ) -> Result<Begun, Failure> {
        let limits = call.limits;
        let target = Target::parse(&call.url, limits.https_only)?;
        if is_lookup(&call) && !self.lookups.take(&target.host, self.for_holder) {
            return Err(Failure::TooOften { host: target.host });
        }
        let mut request = request(&target, call)?;
        if kept.is_none() {
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let timed_out = |_| Failure::TimedOut { host: target.host.clone(), after: limits.total };

        let slot = timeout_at(deadline, self.slots.clone().acquire_owned())
            .await
            .map_err(|_| Failure::Busy)?
            .expect("nobody closes the semaphore");
        let slot = Arc::new(slot);

        let exchange = self.exchange(&target, request, kept, slot.clone());
        let (connection, answer) = timeout_at(deadline, exchange).await.map_err(timed_out)??;
        Ok(Begun { target, connection, answer, slot })
    }

    /// Sends a request and waits for the head of its answer.
    async fn exchange(
        &self,
        target: &Target,
        mut request: Request<Full<Bytes>>,
        kept: Option<&IdleConnections>,
        slot: Arc<OwnedSemaphorePermit>,
    ) -> Result<(Connection, hyper::Response<Incoming>), Failure> {
        let failed = |error: &hyper::Error| Failure::protocol(&target.host, error);
        if let Some(mut connection) = kept.and_then(|kept| kept.take(target)) {
            match connection.send(request).await {
                Ok(answer) => return Ok((connection, answer)),
                // The server has closed it, and nothing was sent.
                Err(mut unsent) => match unsent.take_message() {
                    Some(back) => request = back,
                    None => return Err(failed(unsent.error())),
                },
            }
        }
        let open = connect::open(target, &self.lookup, &self.allow, &self.tls, slot);
        let mut connection = open.await?;
        let answer = connection.send(request).await;
        let answer = answer.map_err(|unsent| failed(unsent.error()))?;
        Ok((connection, answer))
    }
}

/// A call whose answer has begun.
pub(super) struct Begun {
    pub target: Target,
    pub connection: Connection,
    pub answer: hyper::Response<Incoming>,
    /// Held until the answer is read.
    pub slot: Arc<OwnedSemaphorePermit>,
}

/// An answer with this head and body.
pub(super) fn response_of(head: &Parts, body: Vec<u8>) -> Response {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    Response { status: head.status.as_u16(), headers: headers.collect(), body }
}

/// A client for many calls in a row. Unlike [`Outside`] it uses a connection again, to the address that
/// was checked when it was opened: for a server that the user of this process has named.
#[derive(Clone)]
pub struct KeptConnections {
    outside: Outside,
    idle: Arc<IdleConnections>,
}

impl KeptConnections {
    /// A client without connections.
    pub fn new(outside: Outside) -> Self {
        KeptConnections { outside, idle: Arc::default() }
    }

    /// The client without the connections.
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Sends one call, as [`Outside::send`] does, by a connection of an earlier call where there is one.
    /// What was not sent because the server had closed that is sent by a new one.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn send(&self, call: Call) -> Result<Response, Failure> {
        self.outside.send_over(call, Some(&self.idle)).await
    }
}

/// Whether the client sets this header itself.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    RESERVED_HEADERS.contains(name)
}

fn request(target: &Target, call: Call) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::new(Full::new(Bytes::from(call.body)));
    *request.method_mut() = call.method;
    *request.uri_mut() = target.path.clone();
    let headers = request.headers_mut();
    for (name, value) in call.headers {
        let pair = (HeaderName::try_from(&name), HeaderValue::try_from(value));
        let (Ok(key), Ok(value)) = pair else { return Err(Failure::Header { name }) };
        if is_reserved(&key) {
            return Err(Failure::Header { name });
        }
        headers.append(key, value);
    }
    const AGENT: &str = concat!("roadstead/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::HOST, target.authority.clone());
    headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(request)
}

/// Reads a body of at most `limit` bytes.
async fn read(host: &str, mut body: Incoming, limit: usize) -> Result<Vec<u8>, Failure> {
    let too_large = || Failure::TooLarge { host: host.to_string(), bytes: limit };
    // A body whose announced length is too large is refused unread.
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
