//! HTTP/2 within TLS (RFC 9113). hyper speaks it; its limits are here.
//!
//! Whatever is limited for a connection of HTTP/1.1 is limited for each stream as well: a stream counts as
//! a connection does (`streams.rs`), may buffer as many bytes, and ends if its client does not read
//! (`sending.rs`).

mod head;
mod sending;
mod streams;
mod wire;

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use self::streams::{MAX_STREAMS, Serving, Spawner, Streams};
use self::wire::FrameWire;
use super::answering::Arrival;
use super::connection_state::{ConnectionState, HEAD_TIMEOUT, IDLE_TIMEOUT, LAST_WORDS};
use super::connections::Place;
use super::context::ServerContext;
use super::transport::Transport;

/// How much of a body may be sent before it is read: what hyper reads ahead of a body of HTTP/1.1.
const WINDOW_BYTES: u32 = 64 * 1024 - 1;

/// The same of all streams of a connection together. With less, bodies that wait for memory would hold
/// up those that have it.
const CONNECTION_WINDOW_BYTES: u32 = MAX_STREAMS * WINDOW_BYTES;

/// The largest frame: the smallest limit that there may be.
const MAX_FRAME_BYTES: u32 = 16 * 1024;

/// Limit of a head, as of one of HTTP/1.1. HTTP/2 counts 32 bytes more for each field.
const MAX_HEAD_BYTES: u32 = 64 * 1024;

/// Limit of the streams that a client opens and resets before they are looked at: as many as there may be,
/// which on a slow line come together with their ends when somebody leaves a page.
const MAX_UNSEEN_RESETS: usize = MAX_STREAMS as usize;

/// Limit of the streams of a connection that have to be reset for faults of the client.
const MAX_FAULTS: usize = 256;

/// How often a client is asked for a sign of life: more often than the time of a frame ends, since its
/// answer also shows that a part of a TLS record was none of a frame.
const PING_INTERVAL: Duration = Duration::from_secs(15);

/// How long it has to answer, which on a slow line is behind much else.
const PING_TIMEOUT: Duration = Duration::from_secs(120);

/// How often limits of time are looked at, which may have begun to count at any moment.
const LOOK: Duration = Duration::from_secs(5);
/// The same while a connection is to end.
const LAST_LOOK: Duration = Duration::from_millis(200);

/// Serves a connection on which HTTP/2 was agreed.
pub async fn serve(
    transport: Transport,
    arrival: Arrival,
    place: Option<Place>,
    context: Arc<ServerContext>,
    progress: ConnectionState,
    mut ending: watch::Receiver<bool>,
) {
    let Some(streams) = Streams::new(place, arrival.accepted.peer) else { return };
    let wire = FrameWire::new(transport, progress.clone());
    let tasks = Arc::new(Mutex::new(JoinSet::new()));
    let serving = Serving { context, arrival: Arc::new(arrival), streams: streams.clone() };
    let spawner = Spawner::new(serving, &tasks);
    drive(wire, spawner, &streams, &progress, &mut ending).await;
    // What was begun is completed, also for a client that has gone: so it is with HTTP/1.1.
    let mut left = std::mem::take(&mut *tasks.lock().unwrap_or_else(PoisonError::into_inner));
    while left.join_next().await.is_some() {}
}

/// Serves until the connection has ended, or has to.
async fn drive(
    wire: FrameWire,
    spawner: Spawner,
    streams: &Streams,
    progress: &ConnectionState,
    ending: &mut watch::Receiver<bool>,
) {
    let (peer, service) = (streams.peer, spawner.clone());
    let service = service_fn(move |request: Request<Incoming>| service.begin(request));
    let mut connection = pin!(builder(spawner).serve_connection(wire, service));
    let mut ending_since = None;
    loop {
        let look_at = match Next::of(streams, progress, ending_since) {
            Next::Look(at) => at,
            Next::End => {
                ending_since = Some(Instant::now());
                connection.as_mut().graceful_shutdown();
                continue;
            }
            Next::Over => return,
        };
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, %peer, "a connection ended early");
                }
                return;
            }
            _ = ending.wait_for(|ending| *ending), if ending_since.is_none() => {
                ending_since = Some(Instant::now());
                connection.as_mut().graceful_shutdown();
            }
            () = streams.failed() => return,
            () = sleep_until(look_at.into()) => {}
        }
    }
}

fn builder(spawner: Spawner) -> http2::Builder<Spawner> {
    let mut builder = http2::Builder::new(spawner);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_header_list_size(MAX_HEAD_BYTES)
        .max_send_buf_size(sending::MAX_UNSENT_BYTES)
        .max_pending_accept_reset_streams(MAX_UNSEEN_RESETS)
        .max_local_error_reset_streams(MAX_FAULTS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// What is to be done with a connection.
enum Next {
    /// It goes on; when to look again.
    Look(Instant),
    /// The client is told that it ends.
    End,
    /// It is closed.
    Over,
}

impl Next {
    fn of(streams: &Streams, progress: &ConnectionState, ending_since: Option<Instant>) -> Self {
        let now = Instant::now();
        if progress.is_stuck() {
            return Next::Over;
        }
        let idle_since = streams.idle_since();
        if let Some(since) = ending_since {
            return match idle_since {
                Some(idle) if idle.max(since) + LAST_WORDS <= now => Next::Over,
                _ => Next::Look(now + LAST_LOOK),
            };
        }
        // One that never gets to a request has the time of a head.
        let limit = if streams.has_begun() { IDLE_TIMEOUT } else { HEAD_TIMEOUT };
        let idle = idle_since.map(|since| since + limit);
        match idle.into_iter().chain(progress.frames_good_until()).min() {
            Some(end) if end <= now => Next::End,
            Some(end) => Next::Look(end.min(now + LOOK)),
            None => Next::Look(now + LOOK),
        }
    }
}
