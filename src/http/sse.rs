//! Server-sent events.

use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::response_body::{BodyAborted, ResponseBody};
use crate::api::TakenItem;
use crate::api::execute::{ItemStream, MAX_TEXT_STALL, StreamEvent, TextStream};
use crate::base::Error;

/// The interval of heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Limit of the events buffered for a slow client: few, since each is leased while it is buffered.
const MAX_UNREAD: usize = 4;
/// A client that takes no event for this long is considered gone, so that the items leased to it
/// become available to others earlier.
const MAX_STALL: Duration = Duration::from_secs(5);

type Events = mpsc::Sender<Result<Bytes, BodyAborted>>;

/// How long a client that lost its connection waits before it connects again.
const RETRY: &str = "retry: 2000";

/// The response that sends each item as an event, until the client disconnects or the server stops.
pub fn stream(event: &'static str, items: ItemStream) -> Response<ResponseBody> {
    let (events, body) = mpsc::channel(MAX_UNREAD);
    tokio::spawn(send(event, items, events));
    event_stream(body)
}

/// The headers of such a response, without a body: for HEAD, which must take nothing.
pub fn empty_stream() -> Response<ResponseBody> {
    event_stream(mpsc::channel(1).1)
}

/// The response with these frames.
pub fn event_stream(body: mpsc::Receiver<Result<Bytes, BodyAborted>>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Stream(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would buffer the events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn send(event: &'static str, mut items: ItemStream, events: Events) {
    if events.send(Ok(first_frame(items.begin()))).await.is_err() {
        return;
    }
    loop {
        let beat = Instant::now() + HEARTBEAT_INTERVAL;
        let taken = tokio::select! {
            taken = timeout_at(beat + HEARTBEAT_INTERVAL, items.next(beat)) => taken,
            () = events.closed() => return,
        };
        let frames = match taken {
            // The server is stopping.
            Ok(None) => return,
            Ok(Some(Ok(taken))) if taken.is_empty() => vec![Bytes::from_static(b": alive\n\n")],
            Ok(Some(Ok(taken))) => taken.iter().map(|taken| frame(event, taken)).collect(),
            Ok(Some(Err(error))) => {
                let _ = events.send(Ok(last_frame(&error))).await;
                return;
            }
            Err(_elapsed) => continue,
        };
        for frame in frames {
            if events.send_timeout(Ok(frame), MAX_STALL).await.is_err() {
                return;
            }
        }
    }
}

/// The response that sends parts of a text as they come, and the whole answer at the end.
pub fn text_stream(text: TextStream) -> Response<ResponseBody> {
    event_stream(text_events(text))
}

/// The frames of such a response.
pub fn text_events(text: TextStream) -> mpsc::Receiver<Result<Bytes, BodyAborted>> {
    let (events, body) = mpsc::channel(MAX_UNREAD);
    tokio::spawn(send_text(text, events));
    body
}

/// Dropping the text ends what it comes from, so this ends when the client has gone.
async fn send_text(mut text: TextStream, events: Events) {
    loop {
        let next = tokio::select! {
            next = timeout(HEARTBEAT_INTERVAL, text.next()) => next,
            () = events.closed() => return,
        };
        let (frame, is_last) = match next {
            Err(_elapsed) => (Bytes::from_static(b": alive\n\n"), false),
            Ok(None) => return,
            Ok(Some(StreamEvent::Text(text))) => {
                let data = json!({"text": text});
                (Bytes::from(format!("event: delta\ndata: {data}\n\n")), false)
            }
            Ok(Some(StreamEvent::Item(name, item))) => (json_frame(name, &item), false),
            Ok(Some(StreamEvent::Done(answer))) => (json_frame("done", &answer), true),
            Ok(Some(StreamEvent::Failed(error))) => (last_frame(&error), true),
        };
        if events.send_timeout(Ok(frame), MAX_TEXT_STALL).await.is_err() || is_last {
            return;
        }
    }
}

/// The events of a text that cannot be had: the error alone.
pub fn failed_events(code: &str, message: &str) -> mpsc::Receiver<Result<Bytes, BodyAborted>> {
    let (events, body) = mpsc::channel(1);
    // There is room for one.
    let _ = events.try_send(Ok(error_frame(code, message)));
    body
}

/// The first frame has no data, so that it is no event; its id is that of the last event nevertheless, for
/// who connects again before one has come.
fn first_frame(begin: Option<&str>) -> Bytes {
    Bytes::from(match begin {
        Some(id) => format!("{RETRY}\nid: {id}\n\n"),
        None => format!("{RETRY}\n\n"),
    })
}

fn frame(event: &str, taken: &TakenItem) -> Bytes {
    Bytes::from(format!("event: {event}\nid: {}\ndata: {}\n\n", taken.id, taken.json))
}

/// An event of JSON without line breaks.
fn json_frame(event: &str, json: &[u8]) -> Bytes {
    let frame = [b"event: ", event.as_bytes(), b"\ndata: ", json, b"\n\n"];
    Bytes::from(frame.concat())
}

/// The last event of a stream that ends with an error: the credential was revoked, or the resource
/// deleted.
fn last_frame(error: &Error) -> Bytes {
    error_frame(error.code(), error.message())
}

fn error_frame(code: &str, message: &str) -> Bytes {
    let data = json!({"code": code, "message": message});
    Bytes::from(format!("event: error\ndata: {data}\n\n"))
}
