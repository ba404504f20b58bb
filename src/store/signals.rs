//! Notifications of commits, by topic: those of this process, and of others that serve its store.
//!
//! A signal carries no data and may be lost: a waiter reads the rows again after each signal, and
//! from time to time without one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use uuid::Uuid;

/// What can be waited for: the id of the resource that changes.
pub type Topic = Uuid;

/// The topic of changes to records that affect access: a waiter that has lost its right to wait is
/// woken at once.
pub const ACCESS_CHANGED: Topic = Uuid::nil();

/// The last signals whose topics are known: as many as there are within some milliseconds, in which a
/// waiter reads.
const RECENT: usize = 1024;

/// The subscriptions to all topics, within this process.
#[derive(Default)]
pub struct Signals {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<Topic, watch::Sender<Signal>>,
    /// How many topics were signalled.
    sent: u64,
    /// The last of them, in their order. Each before these may have been any topic.
    recent: VecDeque<Topic>,
}

impl State {
    fn note(&mut self, topic: Topic) {
        self.sent += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(topic);
    }

    /// Whether a topic was signalled since a position, or may have been.
    fn is_sent_since(&self, topic: Topic, position: SignalPosition) -> bool {
        let since = usize::try_from(self.sent - position.0).unwrap_or(usize::MAX);
        since > self.recent.len() || self.recent.iter().rev().take(since).any(|one| *one == topic)
    }
}

/// A position among the signals: how many were sent before.
#[derive(Clone, Copy, Debug)]
pub struct SignalPosition(u64);

/// Why a subscriber is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signal {
    /// Its topic may have changed.
    #[default]
    Topic,
    /// Anything may have changed: all subscribers are woken at once, and should not read at once.
    Everything,
}

impl Signals {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding it")
    }

    /// Returns the position of the next signal, for [`Signals::subscribe_since`].
    pub fn position(&self) -> SignalPosition {
        SignalPosition(self.state().sent)
    }

    /// Subscribes to a topic. Read the rows after subscribing and before waiting: every later commit
    /// ends the wait.
    pub fn subscribe(&self, topic: Topic) -> Listener {
        let waiting = &mut self.state().waiting;
        // Topics without subscriptions are dropped when the map would have to grow.
        if waiting.len() == waiting.capacity() {
            waiting.retain(|_, sender| sender.receiver_count() > 0);
        }
        let sender = waiting.entry(topic).or_insert_with(|| watch::channel(Signal::Topic).0);
        Listener(sender.subscribe())
    }

    /// Subscribes to a topic after the rows were read, whose snapshot was taken after `position`: every
    /// commit that the read did not see ends the wait. Such a commit was not visible at that position, and is
    /// signalled only once it is: its signal is behind the position. If it came before this subscription, the
    /// wait ends at once.
    pub fn subscribe_since(&self, topic: Topic, position: SignalPosition) -> Listener {
        let mut listener = self.subscribe(topic);
        // After subscribing: what is signalled in between is among the recent ones.
        if self.state().is_sent_since(topic, position) {
            listener.0.mark_changed();
        }
        listener
    }

    /// Wakes the subscribers of these topics.
    pub(super) fn notify(&self, topics: &[Topic]) {
        if topics.is_empty() {
            return;
        }
        let mut state = self.state();
        for topic in topics {
            state.note(*topic);
            // The topic has no subscription left: dropped, so that the map does not grow.
            if state.waiting.get(topic).is_some_and(|sender| sender.send(Signal::Topic).is_err()) {
                state.waiting.remove(topic);
            }
        }
    }

    /// Wakes all subscribers: something was committed that nobody here has heard of.
    #[cfg(any(test, feature = "postgres"))]
    pub(crate) fn notify_all(&self) {
        let mut state = self.state();
        state.sent += 1;
        // It may have been any topic.
        state.recent.clear();
        state.waiting.retain(|_, sender| sender.send(Signal::Everything).is_ok());
    }
}

/// A subscription to a topic.
pub struct Listener(watch::Receiver<Signal>);

impl Listener {
    /// Waits for the next signal; returns the last one, if there were several since the last wait.
    pub async fn notified(&mut self) -> Signal {
        if self.0.changed().await.is_err() {
            // The signals themselves were dropped: the process is ending.
            std::future::pending::<()>().await;
        }
        *self.0.borrow_and_update()
    }

    /// Forgets the signals until now. Do so before reading: the read sees what they were for.
    pub fn forget(&mut self) {
        self.0.mark_unchanged();
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

    #[tokio::test]
    async fn a_waiter_is_told_whether_its_topic_or_everything_may_have_changed() {
        let signals = Signals::default();
        let mut listener = signals.subscribe(Uuid::from_u128(1));
        signals.notify_all();
        assert_eq!(listener.notified().await, Signal::Everything);
        signals.notify(&[Uuid::from_u128(1)]);
        assert_eq!(listener.notified().await, Signal::Topic);
    }

    #[test]
    fn what_is_forgotten_does_not_end_a_wait_and_what_follows_does() {
        let signals = Signals::default();
        let mut listener = signals.subscribe(Uuid::from_u128(1));
        signals.notify_all();
        listener.forget();
        assert!(!is_notified(&mut listener));
        signals.notify(&[Uuid::from_u128(1)]);
        assert!(is_notified(&mut listener));
    }

    #[test]
    fn who_subscribes_after_reading_hears_of_what_was_signalled_since() {
        let signals = Signals::default();
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        signals.notify(&[one]);
        let position = signals.position();
        assert!(!is_notified(&mut signals.subscribe_since(one, position)), "it was before");
        signals.notify(&[two]);
        assert!(!is_notified(&mut signals.subscribe_since(one, position)));
        assert!(is_notified(&mut signals.subscribe_since(two, position)));
        let mut later = signals.subscribe_since(two, signals.position());
        assert!(!is_notified(&mut later));
        signals.notify(&[two]);
        assert!(is_notified(&mut later), "it hears of later ones as any other");
    }

    #[test]
    fn who_reads_for_long_or_while_all_are_woken_reads_again() {
        let signals = Signals::default();
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let position = signals.position();
        for _ in 0..RECENT {
            signals.notify(&[two]);
        }
        assert!(!is_notified(&mut signals.subscribe_since(one, position)), "all of them are known");
        signals.notify(&[two]);
        assert!(
            is_notified(&mut signals.subscribe_since(one, position)),
            "one is not known any more"
        );
        let position = signals.position();
        signals.notify_all();
        assert!(is_notified(&mut signals.subscribe_since(one, position)));
        assert!(!is_notified(&mut signals.subscribe_since(one, signals.position())));
    }

    #[test]
    fn dropped_subscriptions_are_removed() {
        let signals = Signals::default();
        let staying = signals.subscribe(Uuid::from_u128(0));
        for topic in 1..10_000 {
            drop(signals.subscribe(Uuid::from_u128(topic)));
        }
        let waiting = &signals.state().waiting;
        assert!(waiting.len() < 100, "{}", waiting.len());
        assert!(waiting.contains_key(&Uuid::from_u128(0)));
        drop(staying);
    }
}
