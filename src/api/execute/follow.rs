//! Following a list: a page of it, if need be once it has grown, or a stream of all that comes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::context::RequestContext;
use super::waiter::Waiter;
use crate::api::action::{FollowAction, FollowFrom, FollowPoint, Followed, TakenItem};
use crate::base::{Id, Result};

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
        let mut waiter = Waiter::new(&executor, until, POLL_INTERVAL);
        loop {
            let found = match self.first.take() {
                Some(first) => first,
                None => self.read().await?,
            };
            let is_cut_off = found.next.is_some() && found.end.is_none();
            if !found.items.is_empty() || waiter.is_over() || is_cut_off {
                return Ok(found);
            }
            if found.next.is_some() {
                yield_now().await; // Nothing of what was looked through so far is for this one.
            } else {
                waiter.wait(found.topic, found.again_at).await;
            }
        }
    }
}
