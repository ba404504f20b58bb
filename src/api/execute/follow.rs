//! Following a list: a page of it, if need be once it has grown, or a stream of all that comes.

use std::time::Duration;

use serde_json::json;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::context::RequestContext;
use super::waiter::Waiter;
use crate::api::action::{FollowAction, FollowFrom, FollowPoint, Followed, TakenItem};
use crate::api::common_params::cursor;
use crate::base::{Id, Result};

/// Reads at least this often, with or without a signal; more rarely over a store that is elsewhere.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Reads a page, waiting for the first item up to the time in the request.
pub async fn page(context: &RequestContext, operation: FollowAction) -> Result<Vec<u8>> {
    let until = Instant::now() + Duration::from_secs(operation.wait_secs);
    let mut follower = Follower::of(context, operation);
    let (items, next) = follower.read_until(until).await?;
    let next_cursor = next.map(|position| cursor(&follower.operation.list, &position));
    let items: Vec<_> = items.into_iter().map(|item| item.json).collect();
    Ok(json!({"items": items, "nextCursor": next_cursor}).to_string().into_bytes())
}

/// Starts a stream. Errors known now are ordinary responses; later ones end it.
pub async fn stream(context: &RequestContext, operation: FollowAction) -> Result<Follower> {
    let mut follower = Follower::of(context, operation);
    follower.is_stream = true;
    if let Some(id) = &context.request.last_event_id {
        follower.from = FollowFrom::Event(id.clone());
    }
    follower.first = Some(follower.read().await?);
    Ok(follower)
}

/// Checks that the caller may read the list.
pub async fn probe(context: &RequestContext, operation: FollowAction) -> Result<()> {
    Follower::of(context, operation).read().await.map(drop)
}

/// Somebody who follows a list, with where they are.
pub struct Follower {
    pub context: RequestContext,
    operation: FollowAction,
    from: FollowFrom,
    is_stream: bool,
    waiter: Waiter,
    /// What the first read of a stream has found.
    first: Option<Followed<TakenItem>>,
}

impl Follower {
    fn of(context: &RequestContext, operation: FollowAction) -> Self {
        let (context, waiter) = (context.clone(), Waiter::new(&context.executor, POLL_INTERVAL));
        let from = FollowFrom::Request;
        Follower { context, operation, from, is_stream: false, waiter, first: None }
    }

    /// Returns the id of the event after which a stream begins that has not sent any, if it has one.
    pub fn begin(&self) -> Option<&str> {
        self.first.as_ref().and_then(|first| first.begin.as_deref())
    }

    /// Reads from where the last read ended.
    async fn read(&mut self) -> Result<Followed<TakenItem>> {
        let (context, operation) = (&self.context, &self.operation);
        let store = &context.executor.store;
        // Before the snapshot, which has all that is settled by now.
        let settled = store.settled_id();
        let point = FollowPoint { from: &self.from, settled, is_stream: self.is_stream };
        let found = store.read_in_turn(context.work, Id::NIL, None, |view| {
            let (who, view) = context.authorize(view)?;
            (operation.read)(&view, &who, &point)
        });
        let found = found.await?;
        if let Some(end) = &found.end {
            self.from = FollowFrom::Position(end.clone());
        }
        Ok(found)
    }

    /// Reads what there is, waiting for some until `until` or until the process stops. Returns it with the
    /// position at which it was cut off, if more follows.
    ///
    /// # Errors
    /// What ends a stream: the credential was revoked, or the resource deleted.
    pub async fn read_until(
        &mut self,
        until: Instant,
    ) -> Result<(Vec<TakenItem>, Option<Vec<u8>>)> {
        while self.waiter.wait(until).await {
            let found = match self.first.take() {
                Some(first) => first,
                None => self.read().await?,
            };
            let is_cut_off = found.next.is_some() && found.end.is_none();
            if !found.items.is_empty() || is_cut_off {
                return Ok((found.items, found.next));
            }
            if found.next.is_none() {
                self.waiter.found_nothing(found.topic, found.again_at);
            }
            if self.waiter.is_over(until) {
                return Ok((found.items, found.next));
            }
            if found.next.is_some() {
                yield_now().await; // Nothing of what was looked through so far is for this one.
            }
        }
        Ok((Vec::new(), None))
    }
}
