//! The stream of a subscription: its acknowledgment, a notification for each change, and why it ends.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::era::Era;
use super::failure::Failure;
use super::watched::Watched;
use crate::api::execute::{Executor, Slot};
use crate::base::Result;
use crate::http::{BodyAborted, ResponseBody, event_stream};

/// The interval of comments, which keep proxies from closing the stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Limit of the messages buffered for a slow client.
const MAX_UNREAD: usize = 4;

/// A client that takes no message for this long is considered gone.
const MAX_STALL: Duration = Duration::from_secs(5);

/// Where every message of a subscription names it.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

type Events = mpsc::Sender<Result<Bytes, BodyAborted>>;
type Change = Pin<Box<dyn Future<Output = (Watched, Option<Result<()>>)> + Send>>;

/// The response that tells of each change until the client disconnects, the server stops, or the
/// caller may not see a resource any longer.
pub fn stream(
    executor: Arc<Executor>,
    id: Value,
    watched: Vec<Watched>,
    slot: Slot,
) -> Response<ResponseBody> {
    let (events, body) = mpsc::channel(MAX_UNREAD);
    tokio::spawn(async move {
        let _slot = slot;
        send(executor, id, watched, events).await;
    });
    event_stream(body)
}

async fn send(executor: Arc<Executor>, id: Value, watched: Vec<Watched>, events: Events) {
    let mut next = Some(frame(&acknowledged(&id, &watched)));
    let mut changes: Vec<Change> = watched.into_iter().map(change).collect();
    loop {
        if let Some(frame) = next.take()
            && events.send_timeout(Ok(frame), MAX_STALL).await.is_err()
        {
            return;
        }
        tokio::select! {
            (at, (watched, outcome)) = first(&mut changes) => match outcome {
                Some(Ok(())) => {
                    next = Some(frame(&updated(&id, &watched.uri)));
                    changes[at] = change(watched);
                }
                Some(Err(error)) => {
                    let failure = Failure::from(error).of_resource(&watched.uri).of(Some(id));
                    let _ = events.send(Ok(frame(&failure.body(Era::Modern)))).await;
                    return;
                }
                None => return end(&id, &events).await,
            },
            () = sleep(HEARTBEAT) => next = Some(Bytes::from_static(b": alive\n\n")),
            () = executor.stopped() => return end(&id, &events).await,
            () = events.closed() => return,
        }
    }
}

/// Waits for the change of a resource.
fn change(watched: Watched) -> Change {
    Box::pin(watched.changed())
}

/// The first of several changes, with its place. The others go on waiting.
async fn first(changes: &mut [Change]) -> (usize, (Watched, Option<Result<()>>)) {
    poll_fn(|cx| {
        for (at, change) in changes.iter_mut().enumerate() {
            if let Poll::Ready(changed) = change.as_mut().poll(cx) {
                return Poll::Ready((at, changed));
            }
        }
        Poll::Pending
    })
    .await
}

/// Ends a subscription whose server stops.
async fn end(id: &Value, events: &Events) {
    let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION: id}});
    let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
    let _ = events.send_timeout(Ok(frame(&message)), MAX_STALL).await;
}

/// Says what of the filter is honored.
fn acknowledged(id: &Value, watched: &[Watched]) -> Value {
    let uris: Vec<&str> = watched.iter().map(|watched| watched.uri.as_str()).collect();
    let honored = if uris.is_empty() { json!({}) } else { json!({"resourceSubscriptions": uris}) };
    notification(id, "notifications/subscriptions/acknowledged", json!({"notifications": honored}))
}

/// Says that a resource has changed.
fn updated(id: &Value, uri: &str) -> Value {
    notification(id, "notifications/resources/updated", json!({"uri": uri}))
}

fn notification(id: &Value, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({SUBSCRIPTION: id});
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn frame(message: &Value) -> Bytes {
    Bytes::from(format!("event: message\ndata: {message}\n\n"))
}
