//! Accepts connections and shuts them down gracefully.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::answering::{Answered, Arrival, answered};
use super::asker::Asker;
use super::connection_state::{ConnectionState, LAST_WORDS};
use super::connections::{Place, Places};
use super::context::ServerContext;
use super::http2;
use super::listener::{Accepted, Listener, Speaks};
use super::response_body::ResponseBody;
use super::securing::{Secured, secured};
use super::transport::{Socket, Transport};
use super::wire::{self, Wire};
use crate::base::{Error, Kind, LogLimit};

/// Limit of a request head; hyper reads no further.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Limit of the pending connections that are accepted at shutdown: more than a listener holds.
const MAX_PENDING: usize = 4096;
/// Time for requests in flight at shutdown; from SIGTERM to exit it is at most 10 s.
const GRACE: Duration = Duration::from_secs(8);

/// Time at shutdown to read requests that were already sent.
const UNREAD: Duration = Duration::from_millis(100);

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
                    let serving = connection(stream, accepted, Some(place), context, ending);
                    connections.spawn(serving);
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
        let (accepted, context, ending) = (accepted(peer), context.clone(), ending.clone());
        connections.spawn(connection(stream, accepted, None, context, ending));
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

/// Serves a connection. While it is idle it has neither buffers nor the state of hyper, unless it speaks
/// HTTP/2: only its socket, of which it waits for bytes, and that of TLS.
async fn connection(
    stream: TcpStream,
    accepted: Accepted,
    place: Option<Place>,
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
    if arrival.over_tls.as_ref().is_some_and(|over_tls| over_tls.is_http2) {
        let serving = http2::serve(transport, arrival, place, context, progress, ending);
        return Box::pin(serving).await;
    }
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
    arrival: &Arrival,
    progress: &ConnectionState,
) -> Response<ResponseBody> {
    let known = progress.begin();
    let asker = Asker::Connection(progress.clone());
    let Answered { mut response, is_cut } = answered(context, request, arrival, asker, known).await;
    // A stream uses its connection to the end; the client's next request needs another one.
    let is_stream = response.body().is_stream();
    if is_stream || is_cut || progress.has_ended() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if !is_stream {
        progress.end();
    }
    response
}
