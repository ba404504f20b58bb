//! Notifications between nodes: which slots the commits of a node moved, and which topics changed. Commits
//! that come while a notification is under way share the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::slot::{SeenSlot, Slot, Token, sequence_in};
use crate::store::Topic;
use crate::store::codec::hex;

/// A notification has at most 8,000 bytes in PostgreSQL: so many topics, and slots, fit.
const MAX_TOPICS: usize = 150;
const MAX_SLOTS: usize = 100;

/// The commits that other nodes have not been notified of.
#[derive(Default)]
pub struct Notifications {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    next: Notification,
    is_closed: bool,
}

/// What other nodes are notified of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notification {
    /// The largest number of each slot.
    slots: BTreeMap<u32, u64>,
    topics: BTreeSet<Topic>,
    /// Whether everything may have changed.
    is_everything: bool,
}

impl Notification {
    fn is_empty(&self) -> bool {
        self.slots.is_empty() && !self.is_everything
    }

    /// The text of the notification: the token of this node, its slots, and the topics, `*` if they
    /// are too many.
    pub fn text(&self, own: Token) -> String {
        let slots: Vec<_> =
            self.slots.iter().map(|(slot, last)| format!("{slot}:{last}")).collect();
        let topics: String = match self.is_everything {
            true => "*".into(),
            false => self.topics.iter().map(|topic| topic.simple().to_string()).collect(),
        };
        format!("{} {} {topics}", hex(&own), slots.join(","))
    }
}

/// A notification of another node.
#[derive(Debug, PartialEq, Eq)]
pub struct ReceivedNotification {
    pub slots: Vec<SeenSlot>,
    /// `None`: everything may have changed.
    pub topics: Option<Vec<Topic>>,
}

impl ReceivedNotification {
    /// Reads the text of a notification; `None` if it is one of this node's own, or none that it
    /// understands.
    pub fn read(text: &str, own: Token) -> Option<Self> {
        let mut parts = text.split(' ');
        let (node, slots, topics) = (parts.next()?, parts.next()?, parts.next()?);
        let node = u128::from_str_radix(node, 16).ok()?.to_be_bytes();
        if node == own {
            return None;
        }
        let slot = |text: &str| {
            let (slot, last) = text.split_once(':')?;
            let id = [node.as_slice(), &slot.parse::<u32>().ok()?.to_be_bytes()].concat();
            Some((id, last.parse().ok()?))
        };
        let slots = slots.split(',').filter_map(slot).collect();
        if topics == "*" {
            return Some(ReceivedNotification { slots, topics: None });
        }
        let topics = topics.as_bytes().chunks(32).map(Topic::try_parse_ascii);
        let topics = topics.collect::<Result<_, _>>().ok()?;
        Some(ReceivedNotification { slots, topics: Some(topics) })
    }
}

impl Notifications {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding it")
    }

    /// Adds a commit that moved this slot.
    pub fn add(&self, slot: &Slot, topics: &[Topic]) {
        {
            let State { next, .. } = &mut *self.state();
            next.slots.insert(slot.number(), sequence_in(&slot.value));
            next.topics.extend(topics);
            if next.topics.len() > MAX_TOPICS || next.slots.len() > MAX_SLOTS {
                next.topics.clear();
                next.is_everything = true;
            }
            while next.slots.len() > MAX_SLOTS {
                next.slots.pop_first();
            }
        }
        self.filled.notify_one();
    }

    /// Notes that others may have missed something.
    pub fn add_everything(&self) {
        self.state().next.is_everything = true;
    }

    /// Waits until there is something to notify of, at most for so long.
    pub fn next(&self, time: Duration) -> Option<Notification> {
        let idle = |state: &mut State| state.next.is_empty() && !state.is_closed;
        let waited = self.filled.wait_timeout_while(self.state(), time, idle);
        let (mut state, _) = waited.expect("no thread panics while holding it");
        let next = std::mem::take(&mut state.next);
        (!next.is_empty()).then_some(next)
    }

    /// Waits until it is closed, at most for so long.
    pub fn wait_closed(&self, time: Duration) {
        let is_open = |state: &mut State| !state.is_closed;
        drop(self.filled.wait_timeout_while(self.state(), time, is_open));
    }

    /// Ends all waiting.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.filled.notify_all();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state().is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::Slots;
    use super::*;

    const OWN: Token = [3; 16];

    fn moved(slots: &Slots, slot: &Slot) -> Slot {
        Slot { value: slots.next_value(), ..slot.clone() }
    }

    #[test]
    fn commits_share_a_notification_which_is_read_as_it_was_written() {
        let (notifications, slots) = (Notifications::default(), Slots::default());
        let slot = slots.create(OWN);
        let topics = [Topic::from_u128(7), Topic::from_u128(8)];
        notifications.add(&moved(&slots, &slot), &topics[..1]);
        notifications.add(&moved(&slots, &slot), &topics);
        let text = notifications.next(Duration::ZERO).unwrap().text(OWN);
        assert_eq!(notifications.next(Duration::ZERO), None);
        let received = ReceivedNotification {
            slots: vec![(slot.id.to_vec(), 2)],
            topics: Some(topics.to_vec()),
        };
        assert_eq!(ReceivedNotification::read(&text, [4; 16]), Some(received));
        assert_eq!(ReceivedNotification::read(&text, OWN), None, "it knows its own");
        notifications.add(&moved(&slots, &slot), &[]);
        let text = notifications.next(Duration::ZERO).unwrap().text(OWN);
        let wakes_nobody = ReceivedNotification::read(&text, [4; 16]).unwrap();
        assert_eq!(wakes_nobody.topics, Some(vec![]));
        for other in ["", "a b c", "hello", "00 1:2"] {
            assert_eq!(ReceivedNotification::read(other, OWN), None, "{other}");
        }
    }

    #[test]
    fn a_notification_is_never_too_long() {
        let (notifications, slots) = (Notifications::default(), Slots::default());
        for slot in 0..400_u32 {
            let slot = Slot { value: [0xFF; 16], ..slots.create([slot as u8; 16]) };
            notifications.add(&slot, &[Topic::from_u128(slot.number().into())]);
            let next = notifications.state().next.clone();
            assert!(next.text(OWN).len() < 8000, "{next:?}");
        }
        let last = notifications.next(Duration::ZERO).unwrap();
        assert_eq!(ReceivedNotification::read(&last.text(OWN), [4; 16]).unwrap().topics, None);
    }
}
