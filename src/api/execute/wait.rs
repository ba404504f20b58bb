//! Waiting for items to take: once (long poll), or repeatedly (stream).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::context::RequestContext;
use super::follow::Follower;
use super::waiter::Waiter;
use crate::api::action::{Readiness, TakenItem, TakenPage, WaitAction};
use crate::base::{Id, Result};
use crate::store::View;

/// Polls at least this often, with or without a signal; more rarely over a store that is elsewhere.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Waits for the first items, up to the time in the request.
pub async fn wait(context: &RequestContext, operation: WaitAction) -> Result<Vec<u8>> {
    let until = Instant::now() + Duration::from_secs(operation.wait_secs);
    let mut waiting = LongPoll::new(context, operation);
    let TakenPage { items, next_cursor } = waiting.take_until(until, &mut Vec::new()).await?;
    let items: Vec<_> = items.into_iter().map(|taken| taken.json).collect();
    Ok(json!({"items": items, "nextCursor": next_cursor}).to_string().into_bytes())
}

/// Checks that the caller may take items, and takes none.
pub async fn probe(context: &RequestContext, operation: WaitAction) -> Result<()> {
    LongPoll::new(context, operation).poll().await.map(drop)
}

/// Starts a stream of items. Errors known now are ordinary responses; later ones end the stream.
pub async fn stream(context: &RequestContext, operation: WaitAction) -> Result<ItemStream> {
    let waiting = LongPoll::new(context, operation);
    waiting.poll().await?;
    Ok(ItemStream(Source::Taken { waiting, shown: Vec::new() }))
}

/// A stream of items. A client that stalls should be dropped, so that the items leased to it become
/// available to others earlier.
pub struct ItemStream(Source);

enum Source {
    /// Items that are taken, with those of the previous poll.
    Taken { waiting: LongPoll, shown: Vec<Value> },
    /// A list that grows.
    Followed(Follower),
}

impl From<Follower> for ItemStream {
    fn from(follower: Follower) -> Self {
        ItemStream(Source::Followed(follower))
    }
}

impl ItemStream {
    /// Returns the id that a client sends to go on from the beginning of the stream, if it has one.
    pub fn begin(&self) -> Option<&str> {
        match &self.0 {
            Source::Taken { .. } => None,
            Source::Followed(follower) => follower.begin(),
        }
    }

    /// Returns the next items, or none if there were none until `until`. When the process stops,
    /// the stream ends with `None`.
    ///
    /// # Errors
    /// What ends the stream: the credential was revoked, or the resource deleted.
    pub async fn next(&mut self, until: Instant) -> Option<Result<Vec<TakenItem>>> {
        let (items, context) = match &mut self.0 {
            Source::Taken { waiting, shown } => {
                let taken = waiting.take_until(until, shown).await;
                (taken.map(|taken| taken.items), &waiting.context)
            }
            Source::Followed(follower) => {
                let found = follower.read_until(until).await;
                (found.map(|(items, _)| items), &follower.context)
            }
        };
        match items {
            Ok(items) if items.is_empty() && context.executor.is_stopping() => None,
            items => Some(items),
        }
    }
}

/// A waiting request, with what it needs to poll again.
struct LongPoll {
    context: RequestContext,
    operation: WaitAction,
    waiter: Waiter,
}

impl LongPoll {
    fn new(context: &RequestContext, operation: WaitAction) -> Self {
        let (context, waiter) = (context.clone(), Waiter::new(&context.executor, POLL_INTERVAL));
        LongPoll { context, operation, waiter }
    }

    async fn poll(&self) -> Result<Readiness> {
        let store = &self.context.executor.store;
        let poll = |view: &View| {
            let (who, view) = self.context.authorize(view)?;
            (self.operation.poll)(&view, &who)
        };
        store.read(Id::NIL, poll).await
    }

    async fn take(&self) -> Result<TakenPage> {
        let (context, take) = (self.context.clone(), self.operation.take.clone());
        let store = &self.context.executor.store;
        let taken = store.write_as(self.context.work, Id::NIL, move |tx| {
            let who = context.enter(tx)?;
            take(tx, &who)
        });
        taken.await
    }

    /// Takes the items there are, waiting for some until `until` or until the process stops. Items
    /// that were `shown` by the previous poll and are unchanged (`peek`) are left out.
    async fn take_until(&mut self, until: Instant, shown: &mut Vec<Value>) -> Result<TakenPage> {
        while self.waiter.wait(until).await {
            let poll = self.poll().await?;
            if poll.ready {
                let mut taken = self.take().await?;
                exclude(&mut taken.items, shown);
                if !taken.items.is_empty() {
                    return Ok(taken);
                }
            }
            self.waiter.found_nothing(poll.topic, poll.again_at);
            if self.waiter.is_over(until) {
                break;
            }
        }
        Ok(TakenPage { items: Vec::new(), next_cursor: None })
    }
}

/// Removes items that were `shown` by the previous poll and are unchanged; updates `shown`.
fn exclude(taken: &mut Vec<TakenItem>, shown: &mut Vec<Value>) {
    let there = taken.iter().map(|taken| taken.json.clone()).collect();
    taken.retain(|taken| !shown.contains(&taken.json));
    *shown = there;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(things: &[(&str, u32)]) -> Vec<TakenItem> {
        let taken = |(id, attempts): &(&str, u32)| TakenItem {
            id: id.to_string(),
            json: json!({"id": id, "attempts": attempts}),
        };
        things.iter().map(taken).collect()
    }

    #[test]
    fn a_pending_wake_is_streamed_once_and_a_returned_one_again() {
        let mut shown = Vec::new();
        let mut looks = |things: &[(&str, u32)]| -> Vec<String> {
            let mut taken = there(things);
            exclude(&mut taken, &mut shown);
            taken.into_iter().map(|taken| taken.id).collect()
        };
        assert_eq!(looks(&[("a", 0), ("b", 0)]), ["a", "b"]);
        assert!(looks(&[("a", 0), ("b", 0)]).is_empty());
        assert_eq!(looks(&[("a", 0), ("c", 0)]), ["c"]);
        assert_eq!(looks(&[("a", 1), ("b", 0)]), ["a", "b"]);
        assert!(looks(&[]).is_empty());
    }
}
