//! Waiting: a long poll, or a stream of events, over the same operation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::gate::{Passing, admit};
use super::{Context, Reply, json_bytes};
use crate::api::{Look, Named, Route, Shape, Taken, TakenPart, WaitAction};
use crate::auth::Presented;
use crate::base::{Error, Id, Result};
use crate::store::ACCESS;

/// Whoever waits looks at least this often, signal or not.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A stream says that it lives.
const BEAT_EVERY: Duration = Duration::from_secs(15);
/// Events that a slow reader has not taken yet: few, since each is leased while it waits here.
const MAX_UNREAD: usize = 4;

/// Who takes nothing for so long has gone without saying so: what is handed out to them is others'
/// again the sooner.
const MAX_STALL: Duration = Duration::from_secs(5);

/// One who waits, with all that is needed to look again.
struct Waiting {
    context: Arc<Context>,
    route: Arc<Route>,
    presented: Presented,
    named: Named,
    operation: Arc<dyn WaitAction>,
}

/// Answers a route that waits.
pub(super) async fn wait(
    passing: &Passing<'_>,
    operation: Arc<dyn WaitAction>,
    named: &Named,
) -> Result<Response<Reply>> {
    let until = Instant::now() + Duration::from_secs(operation.wait_secs());
    let waiting = Waiting {
        context: passing.context.clone(),
        route: passing.route.clone(),
        presented: passing.presented.clone(),
        named: named.clone(),
        operation,
    };
    let accepts = passing.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    if accepts.is_some_and(|accept| accept.contains("text/event-stream")) {
        // Problems known now are answered as such; later ones end the stream.
        waiting.look()?;
        return Ok(stream(waiting));
    }
    let TakenPart { items, next_cursor } = waiting.take_until(until, &mut Vec::new()).await?;
    let items: Vec<_> = items.into_iter().map(|taken| taken.json).collect();
    Ok(json_bytes(json!({"items": items, "nextCursor": next_cursor}).to_string().into_bytes()))
}

impl Waiting {
    fn look(&self) -> Result<Look> {
        self.context.store.read(Id::NOTHING, |view| {
            let (who, view) =
                admit(&self.context, &self.route, &self.presented, view, &self.named)?;
            self.operation.look(&view, &who)
        })
    }

    async fn take(&self) -> Result<TakenPart> {
        let (context, route) = (self.context.clone(), self.route.clone());
        let (presented, named) = (self.presented.clone(), self.named.clone());
        let operation = self.operation.clone();
        let taken = self.context.store.write(Id::NOTHING, move |tx| {
            let (who, org) = {
                let view = tx.view();
                let (who, view) = admit(&context, &route, &presented, &view, &named)?;
                (who, view.org())
            };
            tx.enter(org);
            operation.take(tx, &who)
        });
        taken.await
    }

    /// Takes what there is, waiting for it until `until` or until the server stops. What was
    /// `shown` the last time, and is the same still, is there to be looked at (`peek`): who waits
    /// gets it once.
    async fn take_until(&self, until: Instant, shown: &mut Vec<Value>) -> Result<TakenPart> {
        let mut stopping = self.context.stopping.clone();
        // Listening begins before looking, so that nothing is missed between the two.
        let signals = self.context.store.signals();
        let mut access = signals.listen(ACCESS);
        let mut listener = signals.listen(self.look()?.topic);
        loop {
            let look = self.look()?;
            if look.ready {
                let mut taken = self.take().await?;
                leave_out(&mut taken.items, shown);
                if !taken.items.is_empty() {
                    return Ok(taken);
                }
            }
            let now = Instant::now();
            if now >= until || *stopping.borrow() {
                return Ok(TakenPart { items: Vec::new(), next_cursor: None });
            }
            let mut next = until.min(now + LOOK_EVERY);
            if let Some(again_at) = look.again_at {
                let wait = again_at.millis() - self.context.store.moment().now().millis();
                // A millisecond more: the lease has ended then, not almost.
                next = next.min(now + Duration::from_millis(wait.max(0) as u64 + 1));
            }
            tokio::select! {
                () = listener.heard() => {}
                () = access.heard() => {}
                () = sleep_until(next) => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        }
    }
}

/// Leaves out what was `shown` the last time and is the same still; `shown` is then what there is.
fn leave_out(taken: &mut Vec<Taken>, shown: &mut Vec<Value>) {
    let there = taken.iter().map(|taken| taken.json.clone()).collect();
    taken.retain(|taken| !shown.contains(&taken.json));
    *shown = there;
}

fn stream(waiting: Waiting) -> Response<Reply> {
    let (events, body) = mpsc::channel(MAX_UNREAD);
    let Shape::Wait(name) = waiting.route.shape else {
        unreachable!("only routes that wait get here")
    };
    tokio::spawn(async move {
        let stopping = waiting.context.stopping.clone();
        let mut shown = Vec::new();
        loop {
            let beat = Instant::now() + BEAT_EVERY;
            // When the server stops it ends with what there is.
            let taken = tokio::select! {
                taken = timeout_at(beat + BEAT_EVERY, waiting.take_until(beat, &mut shown)) => taken,
                () = events.closed() => return,
            };
            let frames = match taken {
                Ok(Ok(taken)) if taken.items.is_empty() && *stopping.borrow() => return,
                Ok(Ok(taken)) if taken.items.is_empty() => {
                    vec![Bytes::from_static(b": alive\n\n")]
                }
                Ok(Ok(taken)) => taken.items.iter().map(|taken| event(name, taken)).collect(),
                Ok(Err(error)) => {
                    end(&events, &error).await;
                    return;
                }
                Err(_elapsed) => continue,
            };
            for frame in frames {
                if events.send_timeout(frame, MAX_STALL).await.is_err() {
                    return;
                }
            }
        }
    });
    let mut response = Response::new(Reply::events(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn event(name: &str, taken: &Taken) -> Bytes {
    Bytes::from(format!("event: {name}\nid: {}\ndata: {}\n\n", taken.id, taken.json))
}

/// A stream that cannot go on (the credential was revoked, the agent removed) says why.
async fn end(events: &mpsc::Sender<Bytes>, error: &Error) {
    let data = json!({"code": error.code(), "message": error.message()});
    let _ = events.send(Bytes::from(format!("event: error\ndata: {data}\n\n"))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(things: &[(&str, u32)]) -> Vec<Taken> {
        let taken = |(id, attempts): &(&str, u32)| Taken {
            id: id.to_string(),
            json: json!({"id": id, "attempts": attempts}),
        };
        things.iter().map(taken).collect()
    }

    #[test]
    fn what_stays_there_is_shown_once_and_what_comes_back_again() {
        let mut shown = Vec::new();
        let mut looks = |things: &[(&str, u32)]| -> Vec<String> {
            let mut taken = there(things);
            leave_out(&mut taken, &mut shown);
            taken.into_iter().map(|taken| taken.id).collect()
        };
        assert_eq!(looks(&[("a", 0), ("b", 0)]), ["a", "b"]);
        assert!(looks(&[("a", 0), ("b", 0)]).is_empty());
        assert_eq!(looks(&[("a", 0), ("c", 0)]), ["c"]);
        assert_eq!(looks(&[("a", 1), ("b", 0)]), ["a", "b"]);
        assert!(looks(&[]).is_empty());
    }
}
