//! Following a list: a page of it, if need be once it has grown, or a stream of all that comes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::context::RequestContext;
use crate::api::action::{FollowAction, FollowFrom, FollowPoint, Followed, TakenItem};
use crate::base::{Id, Result};
use crate::store::ACCESS_CHANGED;

/// Reads at least this often, with or without a signal.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Reads a page, waiting for the first item up to the time in the request.
pub async fn page(context: &RequestContext, operation: Arc<dyn FollowAction>) -> Result<Vec<u8>> {
    let until = Instant::now() + Duration::from_secs(operation.wait_secs());
    let mut follower = Follower::of(context, operation);
    let Followed { items, next, .. } = follower.read_until(until).await?;
    let next_cursor = next.map(|position| follower.operation.cursor(&position));
    let items: Vec<_> = items.into_iter().map(|item| item.json).collect();
    Ok(json!({"items": items, "nextCursor": next_cursor}).to_string().into_bytes())
}

/// Starts a stream. Errors known now are ordinary responses; later ones end it.
pub async fn stream(
    context: &RequestContext,
    operation: Arc<dyn FollowAction>,
) -> Result<Follower> {
    let mut follower = Follower::of(context, operation);
    follower.is_stream = true;
    if let Some(id) = &context.request.last_event_id {
        follower.from = FollowFrom::Event(id.clone());
    }
    follower.first = Some(follower.read().await?);
    Ok(follower)
}

/// Checks that the caller may read the list.
pub async fn probe(context: &RequestContext, operation: Arc<dyn FollowAction>) -> Result<()> {
    Follower::of(context, operation).read().await.map(drop)
}

/// Somebody who follows a list, with where they are.
pub struct Follower {
    context: RequestContext,
    operation: Arc<dyn FollowAction>,
    from: FollowFrom,
    is_stream: bool,
    /// What the first read of a stream has found.
    first: Option<Followed<TakenItem>>,
}

impl Follower {
    fn of(context: &RequestContext, operation: Arc<dyn FollowAction>) -> Self {
        let context = context.clone();
        Follower { context, operation, from: FollowFrom::Request, is_stream: false, first: None }
    }

    /// Returns the id of the event after which a stream begins that has not sent any, if it has one.
    pub fn begin(&self) -> Option<&str> {
        self.first.as_ref().and_then(|first| first.begin.as_deref())
    }

    /// Returns the next items of a stream, or none if there were none until `until`. When the process
    /// stops, the stream ends with `None`.
    ///
    /// # Errors
    /// What ends the stream: the credential was revoked, or the resource deleted.
    pub async fn next(&mut self, until: Instant) -> Option<Result<Vec<TakenItem>>> {
        let found = self.read_until(until).await;
        let is_end = self.context.executor.is_stopping();
        match found {
            Ok(found) if found.items.is_empty() && is_end => None,
            found => Some(found.map(|found| found.items)),
        }
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
            operation.read(&view, &who, &point)
        });
        let found = found.await?;
        if let Some(end) = &found.end {
            self.from = FollowFrom::Position(end.clone());
        }
        Ok(found)
    }

    /// Reads what there is, waiting for some until `until` or until the process stops.
    async fn read_until(&mut self, until: Instant) -> Result<Followed<TakenItem>> {
        let executor = self.context.executor.clone();
        let mut stopping = executor.stopping.clone();
        let mut access = executor.store.signals().subscribe(ACCESS_CHANGED);
        let mut subscription = None;
        loop {
            let found = match self.first.take() {
                Some(first) => first,
                None => self.read().await?,
            };
            let now = Instant::now();
            let is_over = now >= until || *stopping.borrow();
            if !found.items.is_empty() || is_over || (found.next.is_some() && found.end.is_none()) {
                return Ok(found);
            }
            if found.next.is_some() {
                yield_now().await;
                continue; // Nothing of what was looked through so far is for this one.
            }
            let Some(subscription) = &mut subscription else {
                // Reads again after subscribing, so that no commit in between is missed.
                subscription = Some(executor.store.signals().subscribe(found.topic));
                continue;
            };
            let mut next = until.min(now + POLL_INTERVAL);
            if let Some(again_at) = found.again_at {
                let wait = again_at.millis() - executor.store.clock().now().millis();
                next = next.min(now + Duration::from_millis(wait.max(1) as u64));
            }
            let _waiting = executor.meters.waiting.hold();
            tokio::select! {
                () = subscription.notified() => {}
                () = access.notified() => {}
                () = sleep_until(next) => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        }
    }
}
