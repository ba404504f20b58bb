//! Waiting between two reads of what a request waits for.

use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::executor::Executor;
use crate::base::Time;
use crate::store::{ACCESS_CHANGED, Listener, Topic};

/// Waits until it is worth reading again: after a commit, a change of rights or some time. A loop reads, ends
/// if it found something or the waiter is over, and waits.
pub struct Waiter<'a> {
    executor: &'a Executor,
    until: Instant,
    /// It is read at least this often, with or without a signal.
    interval: Duration,
    stopping: Receiver<bool>,
    /// The topic of the last read, and what hears of it and of changes of rights.
    heard: Option<(Topic, Listener, Listener)>,
}

impl<'a> Waiter<'a> {
    /// Creates a waiter for as long as `until`.
    pub fn new(executor: &'a Executor, until: Instant, interval: Duration) -> Self {
        let stopping = executor.stopping.clone();
        Waiter { executor, until, interval, stopping, heard: None }
    }

    /// Whether nothing is waited for any longer: the time is over, or the process stops.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until || self.executor.is_stopping()
    }

    /// Waits after a read that found nothing, which depends on `topic` and on nothing else before `again_at`.
    /// Returns at once after the first read of a topic: it was before the subscription, and a commit in
    /// between would be missed.
    pub async fn wait(&mut self, topic: Topic, again_at: Option<Time>) {
        let (subscription, access) = match &mut self.heard {
            Some((heard, subscription, access)) if *heard == topic => (subscription, access),
            _ => {
                let subscribe = |topic| self.executor.store.signals().subscribe(topic);
                self.heard = Some((topic, subscribe(topic), subscribe(ACCESS_CHANGED)));
                return;
            }
        };
        let now = Instant::now();
        let mut next = self.until.min(now + self.interval);
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
