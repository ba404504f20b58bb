//! Accepts connections and shuts them down gracefully.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::connection_state::{ConnectionState, MAX_TARGET_BYTES};
use super::connections::Places;
use super::context::{ServerContext, may_be_strict};
use super::framing::Head;
use super::handler::answer;
use super::headers::{has_known_coding, has_valid_host};
use super::listener::{Accepted, Listener, Speaks};
use super::metrics::Endpoint;
use super::response_body::ResponseBody;
use super::securing::{Secured, secured};
use super::tls::OverTls;
use super::transport::{Socket, Transport};
use super::wire::{self, Wire};
use super::{body, problem};
use crate::base::{Error, Kind, LogLimit};

/// Limit of a request head; hyper reads no further.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Limit of the pending connections that are accepted at shutdown: more than a listener holds.
const MAX_PENDING: usize = 4096;
/// Time for requests in flight at shutdown; from SIGTERM to exit it is at most 10 s.
const GRACE: Duration = Duration::from_secs(8);

/// Time at shutdown to read requests that were already sent.
const UNREAD: Duration = Duration::from_millis(100);

/// Time to write the error response to a client whose head was too slow, and the end of TLS.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Once a response was sent over TLS whose certificate browsers trust: a year.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

/// Serves all listeners until `stopping`, then completes the requests in flight and returns.
pub async fn serve(
    listeners: Vec<Listener>,
    context: Arc<ServerContext>,
    stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Places::new(&context));
    let mut serving = JoinSet::new();
    for listener in listeners {
        let (context, stopping) = (context.clone(), stopping.clone());
        serving.spawn(serve_at(listener, places.clone(), context, stopping));
    }
    while serving.join_next().await.is_some() {}
}

async fn serve_at(
    Listener { socket: listener, speaks }: Listener,
    places: Arc<Places>,
    context: Arc<ServerContext>,
    mut stopping: watch::Receiver<bool>,
) {
    let port = listener.local_addr().map_or(0, |address| address.port());
    let is_plain = !matches!(speaks, Speaks::Https(_));
    let accepted = |peer| Accepted { peer, port, speaks: speaks.clone() };
    let mut connections = JoinSet::new();
    let (end, ending) = watch::channel(false);
    loop {
        let next = tokio::select! {
            next = listener.accept() => next,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        match next {
            Ok((stream, peer)) => {
                if let Some((stream, place)) = places.admit(stream, peer.ip(), is_plain) {
                    let (context, ending) = (context.clone(), ending.clone());
                    let accepted = accepted(peer);
                    connections.spawn(async move {
                        connection(stream, accepted, context, ending).await;
                        drop(place);
                    });
                }
            }
            Err(error) => {
                static LIMIT: LogLimit = LogLimit::new();
                // Out of file descriptors, most likely: others must end before more can begin.
                if let Some(suppressed) = LIMIT.admit(std::time::Instant::now()) {
                    tracing::warn!(%error, suppressed, "a connection could not be accepted");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    // Clients that have connected may have sent a request that was not read yet.
    for (stream, peer) in waiting(listener) {
        connections.spawn(connection(stream, accepted(peer), context.clone(), ending.clone()));
    }
    tokio::time::sleep(UNREAD).await;
    end.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all).await.is_err() {
        tracing::warn!("some connections did not end in time and are closed");
    }
}

/// Accepts the pending connections and closes the listener.
fn waiting(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accepted = std::iter::from_fn(|| listener.accept().ok());
    let ready = accepted.filter_map(|(stream, peer)| {
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, peer))
    });
    ready.take(MAX_PENDING).collect()
}

/// Serves a connection. While it is idle it has neither buffers nor the state of hyper: only its
/// socket, of which it waits for bytes, and that of TLS.
async fn connection(
    stream: TcpStream,
    accepted: Accepted,
    context: Arc<ServerContext>,
    mut ending: watch::Receiver<bool>,
) {
    let counted = context.clone();
    let _open = counted.metrics.connected();
    // Responses are small and complete: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let progress = ConnectionState::new();
    let mut over_tls = None;
    let transport = match &accepted.speaks {
        Speaks::Http | Speaks::Redirect(_) => {
            Transport::Plain(Socket::new(stream, progress.clone()))
        }
        Speaks::Https(tls) => {
            let done = Box::pin(secured(stream, tls, &accepted, &progress, &mut ending)).await;
            let Some(Secured { transport, arrived }) = done else { return };
            over_tls = Some(arrived);
            transport
        }
    };
    let arrival = Arrival { accepted, over_tls };
    let mut wire = Wire::new(transport, progress.clone());
    while is_readable(&wire, &progress, &mut ending).await {
        // Not by way of a variable, which would keep its place in this future.
        let idle =
            Box::pin(serve_until_idle(wire, &arrival, &context, &progress, &mut ending)).await;
        let Some(idle) = idle else { return };
        wire = idle;
        progress.released();
    }
    if arrival.over_tls.is_some() {
        // Says that nothing was cut off.
        let mut transport = wire.into_transport();
        let _ = tokio::time::timeout(LAST_WORDS, transport.shutdown()).await;
    }
}

/// How the requests of a connection arrive.
struct Arrival {
    accepted: Accepted,
    over_tls: Option<OverTls>,
}

/// Waits for bytes of an idle connection; returns false if it is to be closed.
async fn is_readable(
    wire: &Wire,
    progress: &ConnectionState,
    ending: &mut watch::Receiver<bool>,
) -> bool {
    while let Some(good_until) = progress.good_until() {
        tokio::select! {
            biased;
            is_readable = wire.readable() => return is_readable,
            _ = ending.wait_for(|ending| *ending) => return false,
            () = sleep_until(Instant::from_std(good_until)) => {}
        }
    }
    false
}

/// Serves requests until the connection ends, or has been idle for a while: then it is returned.
async fn serve_until_idle(
    wire: Wire,
    arrival: &Arrival,
    context: &Arc<ServerContext>,
    progress: &ConnectionState,
    ending: &mut watch::Receiver<bool>,
) -> Option<Wire> {
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(request_of(context, request, arrival, progress).await)
    });
    let mut connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(wire, service);
    let mut asked_to_end = false;
    // Looked at after the first poll: the bytes that woke the connection are not read yet.
    let mut release_at: Option<std::time::Instant> = None;
    while let Some(good_until) = progress.good_until() {
        // One that is asked to end is not released: that time may have passed long ago.
        let release = release_at.filter(|_| !asked_to_end);
        let next_look = release.map_or(good_until, |at| at.min(good_until));
        // Returns also when the connection becomes idle.
        let mut polled = poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending if release_at.is_none() && progress.release_at().is_some() => {
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        });
        tokio::select! {
            biased;
            ended = &mut polled => match ended {
                Some(Ok(())) => return None,
                Some(Err(error)) => {
                    let peer = arrival.accepted.peer;
                    tracing::debug!(%error, %peer, "a connection ended early");
                    return None;
                }
                None => {}
            },
            _ = ending.wait_for(|ending| *ending), if !asked_to_end => {
                asked_to_end = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            () = sleep_until(Instant::from_std(next_look)) => {}
        }
        release_at = progress.release_at();
        if release_at.is_some_and(|at| at <= std::time::Instant::now()) && !asked_to_end {
            return Some(connection.into_parts().io);
        }
    }
    // The head was too slow, or the connection was idle for too long.
    if progress.is_reading_head() {
        let mut transport = connection.into_parts().io.into_transport();
        let last_words = async {
            transport.write_all(&wire::raw_answer(&head_timeout())).await?;
            transport.shutdown().await
        };
        let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    }
    None
}

fn head_timeout() -> Error {
    Error::new(Kind::Timeout, "head_too_slow", "the head of the request took more than 10 seconds")
}

async fn request_of(
    context: &Arc<ServerContext>,
    request: Request<Incoming>,
    Arrival { accepted, over_tls }: &Arrival,
    progress: &ConnectionState,
) -> Response<ResponseBody> {
    let known = progress.begin();
    let (mut head, mut body) = request.into_parts();
    head.extensions.insert(progress.clone());
    if let Some(over_tls) = over_tls {
        head.extensions.insert(over_tls.clone());
    }
    let id = request_id(&head.headers, context);
    let answered_here = match (refuse(&head, known), &accepted.speaks) {
        (Some(error), _) => Some(problem::reply(&error, &id)),
        (None, Speaks::Redirect(redirect)) => Some(redirect.answer(&head, &id)),
        (None, Speaks::Http | Speaks::Https(_)) => None,
    };
    let mut last = answered_here.is_some();
    let mut response = match answered_here {
        None => answer(context, &head, &mut body, accepted.peer.ip(), &id).await,
        Some(response) => {
            let (status, unmatched) = (response.status().as_u16(), Endpoint::Unmatched);
            context.metrics.answered(unmatched, status, Duration::ZERO);
            response
        }
    };
    // A client that was too slow is not waited for again.
    last |= response.status() == StatusCode::REQUEST_TIMEOUT
        || !body::drain(&head.headers, &mut body).await
        || progress.has_ended();
    // A stream uses its connection to the end; the client's next request needs another one.
    let is_stream = response.body().is_stream();
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if over_tls.as_ref().is_some_and(|tls| tls.is_strict) && may_be_strict(&head.headers) {
        headers.insert(STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT);
    }
    if is_stream || last {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if !is_stream {
        progress.end();
    }
    response
}

/// Refuses requests that must not reach a route.
fn refuse(head: &Parts, known: Head) -> Option<Error> {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > MAX_TARGET_BYTES {
        return Some(wire::target_too_long());
    }
    match known {
        Head::Good if !has_valid_host(head.version, &head.headers) => Some(Error::invalid_at(
            "Host",
            "must be given once: the name or address of this server, optionally with a port",
        )),
        Head::Good if !has_known_coding(&head.headers) => {
            Some(Error::invalid_at("Transfer-Encoding", "must be chunked; send the body uncoded"))
        }
        Head::Good => None,
        Head::TooLarge => Some(wire::head_too_large()),
        Head::BothLengths => Some(Error::invalid_at(
            "",
            "a request has either Content-Length or Transfer-Encoding, not both",
        )),
    }
}

/// The id that was sent, or a new one (reference: conventions, "Request ids").
fn request_id(headers: &HeaderMap, context: &ServerContext) -> String {
    let sent = headers.get(&REQUEST_ID).map(HeaderValue::as_bytes).filter(|id| {
        (1..=128).contains(&id.len()) && id.iter().all(|byte| (0x20..=0x7E).contains(byte))
    });
    match sent.and_then(|id| std::str::from_utf8(id).ok()) {
        Some(id) => id.into(),
        None => {
            let id = context.executor.store.clock().new_id();
            id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_string()
        }
    }
}
