//! A bounded queue in which both users and organizations take turns.
//!
//! With turns between organizations alone, a user of many organizations has many turns; with turns
//! between users alone, an organization of many users has. The next item is searched among all that
//! wait, which is too slow for the writer's thousands a second: its queue is a `FairQueue`.

use std::collections::{HashMap, VecDeque};

use super::WorkHints;
use super::engine::{Bounds, Lane};

/// A queue of items, each of a user and an organization. The next item is the one for which the later
/// of the two's last turns is the earliest; then the one that has waited longest.
pub struct TurnQueue<T> {
    bounds: Bounds,
    /// What waits, the oldest first.
    waiting: VecDeque<(WorkHints, T)>,
    /// Who waits: users and organizations.
    sharers: HashMap<Lane, Sharer>,
    /// The turns that were given.
    turns: u64,
    bytes: usize,
}

struct Sharer {
    /// Its last turn since it began to wait; before that, the last turn that was given to anyone: a
    /// newcomer comes after those that have waited longer.
    last_turn: u64,
    items: usize,
    bytes: usize,
}

impl<T> TurnQueue<T> {
    /// Creates an empty queue. What the bounds allow a lane, each user and each organization may have
    /// waiting.
    pub fn new(bounds: Bounds) -> Self {
        let (waiting, sharers) = (VecDeque::new(), HashMap::new());
        TurnQueue { bounds, waiting, sharers, turns: 0, bytes: 0 }
    }

    /// Appends an item.
    ///
    /// # Errors
    /// Returns the item if the queue is full, or what its user or its organization may have waiting.
    /// The bounds never refuse the first item of either.
    pub fn push(&mut self, hints: WorkHints, item: T) -> Result<(), T> {
        let Bounds { items, lane_items, bytes, lane_bytes } = self.bounds;
        if self.waiting.len() >= items
            || (!self.waiting.is_empty() && self.bytes + hints.bytes > bytes)
        {
            return Err(item);
        }
        let is_full =
            |sharer: &Sharer| sharer.items >= lane_items || sharer.bytes + hints.bytes > lane_bytes;
        if sharers_of(hints).any(|who| self.sharers.get(&who).is_some_and(is_full)) {
            return Err(item);
        }
        for who in sharers_of(hints) {
            let new = || Sharer { last_turn: self.turns, items: 0, bytes: 0 };
            let sharer = self.sharers.entry(who).or_insert_with(new);
            sharer.items += 1;
            sharer.bytes += hints.bytes;
        }
        self.bytes += hints.bytes;
        self.waiting.push_back((hints, item));
        Ok(())
    }

    /// Removes the next item.
    pub fn pop(&mut self) -> Option<T> {
        let last_turn = |who: &Lane| self.sharers.get(who).map_or(0, |sharer| sharer.last_turn);
        let last_turns = |(hints, _): &(WorkHints, T)| {
            let (user, lane) = (last_turn(&hints.user), last_turn(&hints.lane));
            (user.max(lane), user.min(lane))
        };
        // No more wait than the bounds allow, and what they wait for takes much longer than this.
        let next = (0..self.waiting.len()).min_by_key(|at| last_turns(&self.waiting[*at]))?;
        let (hints, item) = self.waiting.remove(next)?;
        self.turns += 1;
        self.bytes -= hints.bytes;
        for who in sharers_of(hints) {
            let sharer = self.sharers.get_mut(&who).expect("each waiting item has its sharers");
            sharer.last_turn = self.turns;
            sharer.items -= 1;
            sharer.bytes -= hints.bytes;
            if sharer.items == 0 {
                // They come and go with users and organizations; the map must not grow with them.
                self.sharers.remove(&who);
            }
        }
        Some(item)
    }
}

/// The user and the organization of an item; one of them, where they are the same.
fn sharers_of(hints: WorkHints) -> impl Iterator<Item = Lane> {
    let WorkHints { lane, user, .. } = hints;
    std::iter::once(lane).chain((user != lane).then_some(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Bounds = Bounds { items: 100, lane_items: 50, bytes: 1000, lane_bytes: 500 };

    fn of(user: u8, lane: u8) -> WorkHints {
        WorkHints { lane: [lane; 16], user: [user; 16], bytes: 1 }
    }

    fn large(user: u8, lane: u8, bytes: usize) -> WorkHints {
        WorkHints { bytes, ..of(user, lane) }
    }

    fn drain(queue: &mut TurnQueue<&'static str>) -> Vec<&'static str> {
        let drained: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert!(queue.bytes == 0 && queue.sharers.is_empty());
        drained
    }

    #[test]
    fn a_user_of_many_organizations_and_an_organization_of_many_users_have_one_turn_in_a_round() {
        let of_user: fn(u8) -> (u8, u8) = |lane| (1, lane);
        let of_organization: fn(u8) -> (u8, u8) = |user| (user, 1);
        for many in [of_user, of_organization] {
            let mut queue = TurnQueue::new(WIDE);
            for (n, item) in [(11, "a1"), (12, "a2"), (13, "a3"), (14, "a4")] {
                let (user, lane) = many(n);
                queue.push(of(user, lane), item).unwrap();
            }
            queue.push(of(20, 20), "b1").unwrap();
            queue.push(of(20, 20), "b2").unwrap();
            assert_eq!(drain(&mut queue), ["a1", "b1", "a2", "b2", "a3", "a4"]);
        }
    }

    #[test]
    fn users_of_an_organization_take_turns_and_each_keeps_its_order() {
        let mut queue = TurnQueue::new(WIDE);
        for (user, item) in [(11, "a1"), (11, "a2"), (12, "b1"), (12, "b2")] {
            queue.push(of(user, 1), item).unwrap();
        }
        queue.push(of(20, 2), "c1").unwrap();
        assert_eq!(queue.pop(), Some("a1"));
        assert_eq!(queue.pop(), Some("c1"));
        // A newcomer waits for its turn too.
        queue.push(of(30, 3), "d1").unwrap();
        assert_eq!(drain(&mut queue), ["b1", "d1", "a2", "b2"]);
    }

    #[test]
    fn neither_a_user_nor_an_organization_fills_the_queue() {
        let mut queue = TurnQueue::new(WIDE);
        let of_user = (0..200).take_while(|n| queue.push(of(1, 50 + n), "a").is_ok()).count();
        assert_eq!(of_user, 50);
        let mut queue = TurnQueue::new(WIDE);
        let of_lane = (0..200).take_while(|n| queue.push(of(50 + n, 1), "a").is_ok()).count();
        assert_eq!(of_lane, 50);
        assert!(queue.push(of(2, 2), "b").is_ok());
        let all = (3..200).take_while(|n| queue.push(of(*n, *n), "c").is_ok()).count();
        assert_eq!(all, 49);
    }

    #[test]
    fn bytes_are_bounded_and_an_empty_queue_takes_one_large_item() {
        let mut queue = TurnQueue::new(WIDE);
        assert!(queue.push(large(1, 1, 600), "large").is_ok());
        assert_eq!(queue.push(large(1, 2, 1), "of the user"), Err("of the user"));
        assert_eq!(queue.push(large(2, 1, 1), "of the lane"), Err("of the lane"));
        assert_eq!(queue.push(large(2, 2, 500), "over all"), Err("over all"));
        assert!(queue.push(large(2, 2, 400), "fits").is_ok());
        drain(&mut queue);
        // Nothing waits, so the largest item there can be must get through.
        assert!(queue.push(large(1, 1, 5000), "huge").is_ok());
    }
}
