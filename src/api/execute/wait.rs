//! Waiting until there is something to take: once, or again and again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::authorize::AuthContext;
use super::context::RequestContext;
use crate::api::action::{Readiness, TakenItem, TakenPage, WaitAction};
use crate::api::scope::OrgHint;
use crate::base::{Id, Result};
use crate::store::{ACCESS, View};

/// Whoever waits looks at least this often, signal or not.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Waits for the items that come first, as long as the request says.
pub async fn wait(
    context: &RequestContext<'_>,
    operation: Arc<dyn WaitAction>,
    hint: &OrgHint,
) -> Result<Vec<u8>> {
    let until = Instant::now() + Duration::from_secs(operation.wait_secs());
    let waiting = Waiting { auth: context.auth(hint), operation };
    let TakenPage { items, next_cursor } = waiting.take_until(until, &mut Vec::new()).await?;
    let items: Vec<_> = items.into_iter().map(|taken| taken.json).collect();
    Ok(json!({"items": items, "nextCursor": next_cursor}).to_string().into_bytes())
}

/// A stream of all items that come. Problems known now are answered as such; later ones end it.
pub async fn stream(
    context: &RequestContext<'_>,
    operation: Arc<dyn WaitAction>,
    hint: &OrgHint,
) -> Result<ItemStream> {
    let waiting = Waiting { auth: context.auth(hint), operation };
    waiting.poll().await?;
    Ok(ItemStream { waiting, shown: Vec::new() })
}

/// Items as they come. Whoever takes none for long should be dropped: what is handed out to them is
/// others' again the sooner.
pub struct ItemStream {
    waiting: Waiting,
    /// What was there the last time.
    shown: Vec<Value>,
}

impl ItemStream {
    /// The items that come next; none if nothing came until then. When the process stops, `None`
    /// follows what there is.
    ///
    /// # Errors
    /// What ends the stream: the credential was revoked, what is waited at removed.
    pub async fn next(&mut self, until: Instant) -> Option<Result<Vec<TakenItem>>> {
        let taken = self.waiting.take_until(until, &mut self.shown).await;
        let is_end = self.waiting.auth.executor.is_stopping();
        match taken {
            Ok(taken) if taken.items.is_empty() && is_end => None,
            taken => Some(taken.map(|taken| taken.items)),
        }
    }
}

/// One who waits, with all that is needed to look again.
struct Waiting {
    auth: AuthContext,
    operation: Arc<dyn WaitAction>,
}

impl Waiting {
    async fn poll(&self) -> Result<Readiness> {
        let store = &self.auth.executor.store;
        let poll = |view: &View| {
            let (who, view) = self.auth.authorize(view)?;
            self.operation.poll(&view, &who)
        };
        store.read(Id::NIL, poll).await
    }

    async fn take(&self) -> Result<TakenPage> {
        let (auth, operation) = (self.auth.clone(), self.operation.clone());
        let taken = self.auth.executor.store.write(Id::NIL, move |tx| {
            let who = auth.enter(tx)?;
            operation.take(tx, &who)
        });
        taken.await
    }

    /// Takes what there is, waiting for it until `until` or until the process stops. What was
    /// `shown` the last time, and is the same still, is there to be looked at (`peek`): who waits
    /// gets it once.
    async fn take_until(&self, until: Instant, shown: &mut Vec<Value>) -> Result<TakenPage> {
        let executor = &self.auth.executor;
        let mut stopping = executor.stopping.clone();
        // Listening begins before looking, so that nothing is missed between the two.
        let mut access = executor.coordination.subscribe(ACCESS);
        let mut subscription = executor.coordination.subscribe(self.poll().await?.topic);
        loop {
            let poll = self.poll().await?;
            if poll.ready {
                let mut taken = self.take().await?;
                exclude(&mut taken.items, shown);
                if !taken.items.is_empty() {
                    return Ok(taken);
                }
            }
            let now = Instant::now();
            if now >= until || *stopping.borrow() {
                return Ok(TakenPage { items: Vec::new(), next_cursor: None });
            }
            let mut next = until.min(now + POLL_INTERVAL);
            if let Some(again_at) = poll.again_at {
                let wait = again_at.millis() - executor.store.clock().now().millis();
                // A millisecond more: the lease has ended then, not almost.
                next = next.min(now + Duration::from_millis(wait.max(0) as u64 + 1));
            }
            tokio::select! {
                () = subscription.heard() => {}
                () = access.heard() => {}
                () = sleep_until(next) => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        }
    }
}

/// Leaves out what was `shown` the last time and is the same still; `shown` is then what there is.
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
