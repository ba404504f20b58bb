//! Notifications of commits, by topic: those of this process, and of others that serve its store.
//!
//! A signal carries no data and may be lost: a waiter reads the rows again after each signal, and
//! from time to time without one.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::watch;
use uuid::Uuid;

/// What can be waited for: the id of the resource that changes.
pub type Topic = Uuid;

/// The topic of changes to records that affect access: a waiter that has lost its right to wait is
/// woken at once.
pub const ACCESS_CHANGED: Topic = Uuid::nil();

/// The subscriptions to all topics, within this process.
#[derive(Default)]
pub struct Signals {
    waiting: Mutex<HashMap<Topic, watch::Sender<()>>>,
}

impl Signals {
    /// Subscribes to a topic. Read the rows after subscribing and before waiting: every later commit
    /// ends the wait.
    pub fn subscribe(&self, topic: Topic) -> Listener {
        let mut waiting = self.waiting.lock().expect("no thread panics while holding it");
        // Topics without subscriptions are dropped when the map would have to grow.
        if waiting.len() == waiting.capacity() {
            waiting.retain(|_, sender| sender.receiver_count() > 0);
        }
        Listener(waiting.entry(topic).or_insert_with(|| watch::channel(()).0).subscribe())
    }

    /// Wakes the subscribers of these topics.
    pub(super) fn notify(&self, topics: &[Topic]) {
        if topics.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock().expect("no thread panics while holding it");
        for topic in topics {
            // The topic has no subscription left: dropped, so that the map does not grow.
            if waiting.get(topic).is_some_and(|sender| sender.send(()).is_err()) {
                waiting.remove(topic);
            }
        }
    }

    /// Wakes all subscribers: something was committed that nobody here has heard of.
    #[cfg(any(test, feature = "postgres"))]
    pub(super) fn notify_all(&self) {
        let mut waiting = self.waiting.lock().expect("no thread panics while holding it");
        waiting.retain(|_, sender| sender.send(()).is_ok());
    }
}

/// A subscription to a topic.
pub struct Listener(watch::Receiver<()>);

impl Listener {
    /// Waits for the next signal.
    pub async fn notified(&mut self) {
        if self.0.changed().await.is_err() {
            // The signals themselves were dropped: the process is ending.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_notified(listener: &mut Listener) -> bool {
        listener.0.has_changed().is_ok_and(|changed| changed)
    }

    #[test]
    fn a_subscription_is_notified_of_later_signals_of_its_topic_only() {
        let signals = Signals::default();
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        signals.notify(&[one]);
        let mut ones = [signals.subscribe(one), signals.subscribe(one)];
        let mut other = signals.subscribe(two);
        assert!(!is_notified(&mut ones[0]) && !is_notified(&mut ones[1]));
        signals.notify(&[one, Uuid::from_u128(3)]);
        assert!(is_notified(&mut ones[0]) && is_notified(&mut ones[1]) && !is_notified(&mut other));
        signals.notify_all();
        assert!(is_notified(&mut other));
    }

    #[tokio::test]
    async fn a_signal_that_came_before_the_wait_ends_it() {
        let signals = Signals::default();
        let mut listener = signals.subscribe(Uuid::from_u128(1));
        signals.notify(&[Uuid::from_u128(1)]);
        listener.notified().await;
    }

    #[test]
    fn dropped_subscriptions_are_removed() {
        let signals = Signals::default();
        let staying = signals.subscribe(Uuid::from_u128(0));
        for topic in 1..10_000 {
            drop(signals.subscribe(Uuid::from_u128(topic)));
        }
        let waiting = signals.waiting.lock().unwrap();
        assert!(waiting.len() < 100, "{}", waiting.len());
        assert!(waiting.contains_key(&Uuid::from_u128(0)));
        drop(staying);
    }
}
