//! Waiting between two reads of what a request waits for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::executor::Executor;
use crate::base::Time;
use crate::store::{ACCESS_CHANGED, Listener, Topic};

/// Waits until it is worth reading again: after a commit, a change of rights or some time. A loop waits, reads,
/// and ends if it found something or the waiter is over; otherwise it says what the read depended on. A stream
/// keeps its waiter, and so reads once for each time that it finds nothing.
pub struct Waiter {
    executor: Arc<Executor>,
    /// It is read at least this often, with or without a signal.
    interval: Duration,
    stopping: Receiver<bool>,
    /// What the last read depended on, if it found nothing: a topic and a time.
    found_nothing: Option<(Topic, Option<Time>)>,
    /// The topic of the last read, and what hears of it and of changes of rights.
    heard: Option<(Topic, Listener, Listener)>,
}

impl Waiter {
    /// Creates a waiter before the first read.
    pub fn new(executor: &Arc<Executor>, interval: Duration) -> Self {
        let (executor, stopping) = (executor.clone(), executor.stopping.clone());
        Waiter { executor, interval, stopping, found_nothing: None, heard: None }
    }

    /// Whether nothing is waited for any longer: it is `until`, or the process stops.
    pub fn is_over(&self, until: Instant) -> bool {
        Instant::now() >= until || self.executor.is_stopping()
    }

    /// Notes that a read found nothing, which depends on `topic` and on nothing else before `again_at`.
    pub fn found_nothing(&mut self, topic: Topic, again_at: Option<Time>) {
        self.found_nothing = Some((topic, again_at));
    }

    /// Waits, at most until `until`, if the last read found nothing. Returns at once after the first read of a
    /// topic: it was before the subscription, and a commit in between would be missed.
    pub async fn wait(&mut self, until: Instant) {
        let Some((topic, again_at)) = self.found_nothing.take() else { return };
        let (subscription, access) = match &mut self.heard {
            Some((heard, subscription, access)) if *heard == topic => (subscription, access),
            _ => {
                let subscribe = |topic| self.executor.store.signals().subscribe(topic);
                self.heard = Some((topic, subscribe(topic), subscribe(ACCESS_CHANGED)));
                return;
            }
        };
        let now = Instant::now();
        let mut next = until.min(now + self.interval);
        if let Some(again_at) = again_at {
            let wait = again_at.millis() - self.executor.store.clock().now().millis();
            // One millisecond more, so that what ends then has ended.
            next = next.min(now + Duration::from_millis(wait.max(0) as u64 + 1));
        }
        let _waiting = self.executor.meters.waiting.hold();
        tokio::select! {
            () = subscription.notified() => {}
            () = access.notified() => {}
            () = sleep_until(next) => {}
            _ = self.stopping.wait_for(|stopping| *stopping) => {}
        }
    }
}
