//! Accepts connections and shuts them down gracefully.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};
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

use super::connections::Places;
use super::context::ServerContext;
use super::framing::Head;
use super::handler::answer;
use super::headers::{has_known_coding, has_valid_host};
use super::metrics::Endpoint;
use super::response_body::ResponseBody;
use super::wire::{self, ConnectionState, Wire};
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

/// Time to write the error response to a client whose head was too slow.
const LAST_WORDS: Duration = Duration::from_secs(1);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

/// Serves until `stopping`, then completes the requests in flight and returns.
pub async fn serve(
    listener: TcpListener,
    context: Arc<ServerContext>,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Places::new(&context);
    let mut connections = JoinSet::new();
    let (end, ending) = watch::channel(false);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Some((stream, place)) = places.admit(stream, peer.ip()) {
                    let (context, ending) = (context.clone(), ending.clone());
                    connections.spawn(async move {
                        connection(stream, peer.ip(), context, ending).await;
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
        connections.spawn(connection(stream, peer.ip(), context.clone(), ending.clone()));
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
/// socket, of which it waits for bytes.
async fn connection(
    stream: TcpStream,
    peer: IpAddr,
    context: Arc<ServerContext>,
    mut ending: watch::Receiver<bool>,
) {
    let counted = context.clone();
    let _open = counted.metrics.connected();
    // Responses are small and complete: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let (mut wire, progress) = Wire::new(stream);
    while is_readable(&wire, &progress, &mut ending).await {
        // Not by way of a variable, which would keep its place in this future.
        let idle = Box::pin(serve_until_idle(wire, peer, &context, &progress, &mut ending)).await;
        let Some(idle) = idle else { return };
        wire = idle;
        progress.released();
    }
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
    peer: IpAddr,
    context: &Arc<ServerContext>,
    progress: &ConnectionState,
    ending: &mut watch::Receiver<bool>,
) -> Option<Wire> {
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(request_of(context, request, peer, progress).await)
    });
    let mut connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(wire, service);
    let mut asked_to_end = false;
    // Looked at after the first poll: the bytes that woke the connection are not read yet.
    let mut release_at: Option<std::time::Instant> = None;
    while let Some(good_until) = progress.good_until() {
        let next_look = release_at.map_or(good_until, |at| at.min(good_until));
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
        let mut stream = connection.into_parts().io.into_stream();
        let last_words = wire::raw_answer(&head_timeout());
        let _ = tokio::time::timeout(LAST_WORDS, stream.write_all(&last_words)).await;
    }
    None
}

fn head_timeout() -> Error {
    Error::new(Kind::Timeout, "head_too_slow", "the head of the request took more than 10 seconds")
}

async fn request_of(
    context: &Arc<ServerContext>,
    request: Request<Incoming>,
    peer: IpAddr,
    progress: &ConnectionState,
) -> Response<ResponseBody> {
    let known = progress.begin();
    let (mut head, mut body) = request.into_parts();
    head.extensions.insert(progress.clone());
    let id = request_id(&head.headers, context);
    let refused = refuse(&head, known);
    let mut last = refused.is_some();
    let mut response = match refused {
        None => answer(context, &head, &mut body, peer, &id).await,
        Some(error) => {
            let response = problem::reply(&error, &id);
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
    if target > wire::MAX_TARGET_BYTES {
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
