//! Waiting between two reads of what a request waits for.
//!
//! Over a store that is elsewhere each read is some round trips, and thousands may wait: there they read
//! rarely without a signal, do not read again at the end of a wait, and if all are woken at once, they read
//! within a second and not at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::executor::Executor;
use crate::base::Time;
use crate::store::{ACCESS_CHANGED, Listener, Signal, SignalPosition, Topic};

/// The longest time between two reads of a store that is elsewhere: longer than a request waits, which so
/// reads once. A signal can be lost, but is missed within two seconds: then all are woken.
const REMOTE_INTERVAL: Duration = Duration::from_secs(60);

/// Over how long those read that are all woken at once.
const SPREAD: Duration = Duration::from_secs(1);

/// Waits until it is worth reading again: after a commit, a change of rights or some time. A loop waits, reads,
/// and ends if it found something or the waiter is over; otherwise it says what the read depended on. A stream
/// keeps its waiter, and so reads once for each time that it finds nothing.
pub struct Waiter {
    executor: Arc<Executor>,
    /// It is read at least this often, with or without a signal.
    interval: Duration,
    is_remote: bool,
    stopping: Receiver<bool>,
    /// Whether the last read found nothing, and when to read again then.
    found_nothing: Option<Option<Time>>,
    /// Where the signals were before the last read, and when it ended.
    read_after: SignalPosition,
    read_at: Instant,
    /// The topic of the last read that found nothing, and what hears of it and of changes of rights.
    heard: Option<(Topic, Listener, Listener)>,
}

/// Why a wait ended.
enum Ended {
    Signalled(Signal),
    /// It is time to read again.
    Due,
    /// It is the end of the wait, or of the process.
    Over,
}

impl Waiter {
    /// Creates a waiter before the first read.
    pub fn new(executor: &Arc<Executor>, interval: Duration) -> Self {
        let (executor, stopping) = (executor.clone(), executor.stopping.clone());
        let is_remote = executor.store.is_remote();
        let interval = if is_remote { interval.max(REMOTE_INTERVAL) } else { interval };
        let (read_after, read_at) = (executor.store.signals().position(), Instant::now());
        Waiter {
            executor,
            interval,
            is_remote,
            stopping,
            found_nothing: None,
            read_after,
            read_at,
            heard: None,
        }
    }

    /// Whether nothing is waited for any longer: it is `until`, or the process stops.
    pub fn is_over(&self, until: Instant) -> bool {
        Instant::now() >= until || self.executor.is_stopping()
    }

    /// Notes that a read found nothing, which depends on `topic` and on nothing else before `again_at`.
    pub fn found_nothing(&mut self, topic: Topic, again_at: Option<Time>) {
        if self.heard.as_ref().is_none_or(|(heard, ..)| *heard != topic) {
            let signals = self.executor.store.signals();
            let subscribe = |topic| signals.subscribe_since(topic, self.read_after);
            self.heard = Some((topic, subscribe(topic), subscribe(ACCESS_CHANGED)));
        }
        self.found_nothing = Some(again_at);
        self.read_at = Instant::now();
    }

    /// Waits, at most until `until`, if the last read found nothing. Returns whether to read again: not if
    /// nothing was heard of meanwhile, of a store that is elsewhere. Then the next wait goes on.
    #[must_use]
    pub async fn wait(&mut self, until: Instant) -> bool {
        if let Some(again_at) = self.found_nothing {
            match self.wait_for_signal(until, again_at).await {
                Ended::Over if self.is_remote => return false,
                ended => {
                    // Before a pause: if that is given up, the signal is not heard again.
                    self.found_nothing = None;
                    if self.is_remote && matches!(ended, Ended::Signalled(Signal::Everything)) {
                        self.spread(until).await;
                    }
                }
            }
        }
        // Not before the first time that nothing was found: what was read may be of before this wait.
        if let Some((_, subscription, access)) = &mut self.heard {
            // The read that follows sees what both were woken for until here: if all are woken, that is both,
            // and one of them would have it read once more.
            subscription.forget();
            access.forget();
            self.read_after = self.executor.store.signals().position();
        }
        true
    }

    async fn wait_for_signal(&mut self, until: Instant, again_at: Option<Time>) -> Ended {
        let mut next = self.read_at + self.interval;
        if let Some(again_at) = again_at {
            let wait = again_at.millis() - self.executor.store.clock().now().millis();
            // One millisecond more, so that what ends then has ended.
            next = next.min(Instant::now() + Duration::from_millis(wait.max(0) as u64 + 1));
        }
        let Some((_, subscription, access)) = &mut self.heard else { return Ended::Due };
        let _waiting = self.executor.meters.waiting.hold();
        tokio::select! {
            biased;
            signal = subscription.notified() => Ended::Signalled(signal),
            // All who wait are woken by a change of anybody's rights.
            _ = access.notified() => Ended::Signalled(Signal::Everything),
            () = sleep_until(next) => Ended::Due,
            () = sleep_until(until) => Ended::Over,
            _ = self.stopping.wait_for(|stopping| *stopping) => Ended::Over,
        }
    }

    /// Waits for a random time, unless the topic itself is signalled meanwhile. Of several signals the last
    /// one counts: if all are woken right after the topic was signalled, its waiters are answered within
    /// [`SPREAD`], too.
    async fn spread(&mut self, until: Instant) {
        let part = u32::from(u16::from_be_bytes(self.executor.store.clock().random()));
        let end = until.min(Instant::now() + SPREAD * part / u32::from(u16::MAX));
        let Some((_, subscription, _)) = &mut self.heard else { return };
        let signalled = async { while subscription.notified().await != Signal::Topic {} };
        tokio::select! {
            () = signalled => {}
            () = sleep_until(end) => {}
            _ = self.stopping.wait_for(|stopping| *stopping) => {}
        }
    }
}
