//! A bounded queue in which lanes take turns: one organization's thousand writes delay another's
//! single one by one turn, not by a thousand.

use std::collections::{HashMap, VecDeque};

/// The key of a lane: an organization's id, or that of another sharer of the queue. Zero is a lane
/// too.
pub type Lane = [u8; 16];

/// The maximum contents of a queue, in total and for one lane.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Items waiting.
    pub items: usize,
    /// Items waiting in one lane.
    pub lane_items: usize,
    /// Bytes of all items waiting.
    pub bytes: usize,
    /// Bytes of the items waiting in one lane.
    pub lane_bytes: usize,
}

/// A queue of items in lanes. A lane is first in, first out; the lanes that are not empty take turns.
pub struct FairQueue<T> {
    bounds: Bounds,
    lanes: HashMap<Lane, LaneQueue<T>>,
    /// The lanes that are not empty, the next one first.
    turns: VecDeque<Lane>,
    items: usize,
    bytes: usize,
}

struct LaneQueue<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
}

impl<T> FairQueue<T> {
    /// Creates an empty queue.
    pub fn new(bounds: Bounds) -> Self {
        FairQueue { bounds, lanes: HashMap::new(), turns: VecDeque::new(), items: 0, bytes: 0 }
    }

    /// Returns the number of waiting items.
    pub fn len(&self) -> usize {
        self.items
    }

    /// Returns whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Returns whether an item of this lane waits.
    pub fn has_lane(&self, lane: Lane) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// Returns the number of waiting bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends an item of so many bytes to its lane.
    ///
    /// # Errors
    /// Returns the item if the queue or the lane is full. The bounds of a lane never refuse the first
    /// item of an empty one.
    pub fn push(&mut self, lane: Lane, bytes: usize, item: T) -> Result<(), T> {
        let Bounds { items, lane_items, bytes: all_bytes, lane_bytes } = self.bounds;
        if self.items >= items || (self.items > 0 && self.bytes + bytes > all_bytes) {
            return Err(item);
        }
        let waiting = self.lane(lane);
        let occupied = !waiting.items.is_empty();
        if occupied && (waiting.items.len() >= lane_items || waiting.bytes + bytes > lane_bytes) {
            return Err(item);
        }
        waiting.items.push_back((item, bytes));
        waiting.bytes += bytes;
        self.items += 1;
        self.bytes += bytes;
        Ok(())
    }

    /// Puts an item of so many bytes back that was the first of its lane. It is not refused: it was in
    /// the queue before.
    pub fn put_back(&mut self, lane: Lane, bytes: usize, item: T) {
        let waiting = self.lane(lane);
        waiting.items.push_front((item, bytes));
        waiting.bytes += bytes;
        self.items += 1;
        self.bytes += bytes;
    }

    fn lane(&mut self, lane: Lane) -> &mut LaneQueue<T> {
        self.lanes.entry(lane).or_insert_with(|| {
            self.turns.push_back(lane);
            LaneQueue { items: VecDeque::new(), bytes: 0 }
        })
    }

    /// Returns whether an item waits in a lane that `is_free` accepts.
    pub fn has_in(&self, is_free: impl Fn(&Lane) -> bool) -> bool {
        self.turns.iter().any(is_free)
    }

    /// Removes the first item of the lane whose turn it is; the lane's next turn comes after that of
    /// all others.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_in(|_| true)
    }

    /// Does the same, but skips the lanes that `is_free` does not accept.
    pub fn pop_in(&mut self, is_free: impl Fn(&Lane) -> bool) -> Option<T> {
        let next = self.turns.iter().position(is_free)?;
        let lane = self.turns.remove(next)?;
        self.turns.push_back(lane);
        self.pop_of(lane, |_| true)
    }

    /// Removes the first item of a lane if there is one that is wanted; the lane's turn stays.
    pub fn pop_of(&mut self, lane: Lane, is_wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let waiting = self.lanes.get_mut(&lane)?;
        waiting.items.front().filter(|(item, _)| is_wanted(item))?;
        let (item, bytes) = waiting.items.pop_front()?;
        waiting.bytes -= bytes;
        self.items -= 1;
        self.bytes -= bytes;
        if waiting.items.is_empty() {
            // Lanes come and go with organizations; the map must not grow with them.
            self.lanes.remove(&lane);
            let turn = self.turns.iter().rposition(|one| *one == lane);
            turn.and_then(|turn| self.turns.remove(turn));
        }
        Some(item)
    }

    /// Removes what is wanted of each lane, up to its first item that is not.
    pub fn remove(&mut self, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for lane in self.turns.clone() {
            removed.extend(std::iter::from_fn(|| self.pop_of(lane, &is_wanted)));
        }
        removed
    }

    /// All items, in no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let lanes = self.lanes.values_mut();
        lanes.flat_map(|waiting| waiting.items.iter_mut().map(|(item, _)| item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Bounds = Bounds { items: 100, lane_items: 50, bytes: 1000, lane_bytes: 500 };

    fn drain(queue: &mut FairQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn lanes_take_turns_and_each_keeps_its_order() {
        let mut queue = FairQueue::new(WIDE);
        for item in ["a1", "a2", "a3", "a4"] {
            queue.push([1; 16], 1, item).unwrap();
        }
        queue.push([2; 16], 1, "b1").unwrap();
        queue.push([3; 16], 1, "c1").unwrap();
        queue.push([2; 16], 1, "b2").unwrap();
        assert_eq!(queue.pop(), Some("a1"));
        // A lane that empties and comes back waits for its turn like any other.
        queue.push([4; 16], 1, "d1").unwrap();
        assert_eq!(drain(&mut queue), ["b1", "c1", "a2", "d1", "b2", "a3", "a4"]);
        assert!(queue.is_empty() && queue.bytes() == 0 && queue.lanes.is_empty());
    }

    #[test]
    fn an_item_that_is_put_back_is_the_next_of_its_lane() {
        let mut queue = FairQueue::new(WIDE);
        for item in ["a1", "a2"] {
            queue.push([1; 16], 1, item).unwrap();
        }
        queue.push([2; 16], 1, "b1").unwrap();
        assert_eq!(queue.pop(), Some("a1"));
        queue.put_back([1; 16], 1, "a1");
        assert_eq!((queue.len(), queue.bytes()), (3, 3));
        assert_eq!(drain(&mut queue), ["b1", "a1", "a2"]);
        queue.put_back([1; 16], 1, "a1");
        assert_eq!(drain(&mut queue), ["a1"]);
        assert!(queue.bytes() == 0 && queue.lanes.is_empty());
    }

    #[test]
    fn what_is_wanted_of_a_lane_is_taken_in_its_order_and_its_turn_stays() {
        let mut queue = FairQueue::new(WIDE);
        for (lane, item) in [(1, "a1"), (2, "b1"), (1, "a2"), (1, "a3"), (3, "c1")] {
            queue.push([lane; 16], 1, item).unwrap();
        }
        assert_eq!(queue.pop_of([1; 16], |item| *item == "a2"), None, "it is not the first");
        assert_eq!(queue.pop_of([4; 16], |_| true), None);
        assert_eq!(queue.pop_of([1; 16], |_| true), Some("a1"));
        assert_eq!(queue.pop_of([2; 16], |_| true), Some("b1"));
        assert_eq!(queue.pop_in(|lane| *lane != [1; 16]), Some("c1"));
        assert_eq!(drain(&mut queue), ["a2", "a3"]);
        assert!(queue.is_empty() && queue.lanes.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn what_is_wanted_of_all_lanes_is_removed_up_to_what_is_not() {
        let mut queue = FairQueue::new(WIDE);
        for (lane, item) in [(1, "a1"), (2, "b1"), (1, "a2"), (1, "a3"), (3, "c1"), (2, "b2")] {
            queue.push([lane; 16], 1, item).unwrap();
        }
        queue.iter_mut().filter(|item| item.starts_with('b')).for_each(|item| *item = "changed");
        assert_eq!(queue.remove(|item| ["a1", "a3", "c1"].contains(item)), ["a1", "c1"]);
        assert_eq!((queue.len(), queue.bytes()), (4, 4));
        assert_eq!(queue.remove(|_| true), ["a2", "a3", "changed", "changed"]);
        assert!(queue.is_empty() && queue.lanes.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn no_lane_fills_the_queue() {
        let mut queue = FairQueue::new(WIDE);
        let taken = (0..200).take_while(|_| queue.push([1; 16], 1, "a").is_ok()).count();
        assert_eq!(taken, 50);
        assert!(queue.push([2; 16], 1, "b").is_ok());
        let lanes = (3..100u8).take_while(|n| queue.push([*n; 16], 1, "c").is_ok()).count();
        assert_eq!(lanes, 49);
        assert_eq!(queue.len(), 100);
    }

    #[test]
    fn bytes_are_bounded_and_an_empty_lane_takes_one_large_item() {
        let mut queue = FairQueue::new(WIDE);
        assert!(queue.push([1; 16], 600, "large").is_ok());
        assert_eq!(queue.push([1; 16], 1, "more"), Err("more"));
        assert_eq!(queue.push([2; 16], 500, "over all"), Err("over all"));
        assert!(queue.push([2; 16], 400, "fits").is_ok());
        drain(&mut queue);
        // Nothing waits, so the largest item there can be must get through.
        assert!(queue.push([1; 16], 5000, "huge").is_ok());
    }
}
