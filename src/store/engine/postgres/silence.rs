//! How long others at a store have been silent, on the clock of this process alone: no clocks of two
//! machines are compared.

use std::time::{Duration, Instant};

use super::attendance::Seen;
use super::presence::{LEASE, Presence};
use crate::store::engine::SeenNode;

/// After a longer time without a look nothing is known of it: this process was paused, or the
/// database away, and nobody could change a beat.
const MAX_GAP: Duration = Duration::from_secs(3);

/// What was seen in looks at the store.
#[derive(Default)]
pub struct Watch {
    there: Vec<Watched>,
    looked_at: Option<Instant>,
}

struct Watched {
    seen: Seen,
    /// Since when its beat has been the same.
    since: Instant,
    /// Whether it changed while it was watched.
    has_moved: bool,
}

impl Watch {
    /// Notes who is there now.
    pub fn look(&mut self, there: Vec<Seen>, now: Instant) {
        let is_gap = self.looked_at.is_none_or(|at| now - at > MAX_GAP);
        let before = std::mem::take(&mut self.there);
        let watched = there.into_iter().map(|seen| {
            let old = before.iter().find(|old| old.seen.presence == seen.presence);
            let is_same = old.is_some_and(|old| old.seen.beat == seen.beat);
            Watched {
                seen,
                since: old.map_or(now, |old| if is_same && !is_gap { old.since } else { now }),
                has_moved: old.is_some_and(|old| old.has_moved || !is_same),
            }
        });
        self.there = watched.collect();
        self.looked_at = Some(now);
    }

    /// Forgets how long they have been silent.
    pub fn forget(&mut self) {
        self.looked_at = None;
    }

    /// Returns those that have been silent for so long, at the last look.
    pub fn silent(&self, time: Duration) -> Vec<Seen> {
        let is_silent = |one: &&Watched| self.looked_at.is_some_and(|now| now - one.since >= time);
        self.there.iter().filter(is_silent).map(|one| one.seen.clone()).collect()
    }

    /// Returns when one of these rows will have been silent for so long.
    pub fn silent_at(&self, key: &[u8], time: Duration) -> Option<Instant> {
        let one = self.there.iter().find(|one| one.seen.presence.key == key)?;
        Some(one.since + time)
    }

    /// Returns the nodes, as the one that looks sees them; who looks from outside is none of them.
    pub fn nodes(&self, own: Option<&Presence>) -> Vec<SeenNode> {
        let there = || self.there.iter().map(|one| (one, &one.seen.presence));
        let lease = there().find(|(_, presence)| presence.key == LEASE);
        let holder = lease.map(|(_, lease)| lease.holder());
        let nodes = there().filter(|(_, presence)| presence.is_node());
        let seen = nodes.map(|(one, presence)| SeenNode {
            id: presence.id(),
            description: presence.description(),
            address: presence.address(),
            release: presence.release(),
            beat_at: one.since,
            is_alive: one.has_moved,
            is_own: own == Some(presence),
            has_lease: holder == Some(presence.id()),
        });
        seen.collect()
    }

    /// Returns those that are there for certain: their beats have changed.
    pub fn alive(&self) -> impl Iterator<Item = &Seen> {
        self.there.iter().filter(|one| one.has_moved).map(|one| &one.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::super::presence::Node;
    use super::*;

    #[test]
    fn who_does_not_change_its_beat_is_silent_unless_nobody_looked() {
        let (moving, paused) = (Node::new("1", "a").presence, Node::new("1", "b").presence);
        let there = |beat| {
            let seen = |presence: &super::super::presence::Presence, beat: u8| Seen {
                presence: presence.clone(),
                beat: vec![beat],
            };
            vec![seen(&moving, beat), seen(&paused, 0)]
        };
        let (start, limit) = (Instant::now(), Duration::from_secs(8));
        let mut watch = Watch::default();
        for second in 0..=8 {
            assert!(watch.silent(limit).is_empty(), "{second}");
            watch.look(there(second), start + Duration::from_secs(second.into()));
        }
        let names = |seen: Vec<Seen>| -> Vec<_> {
            seen.iter().map(|one| one.presence.description()).collect()
        };
        assert_eq!(names(watch.silent(limit)), ["b"]);
        assert_eq!(names(watch.alive().cloned().collect()), ["a"]);
        let nodes = watch.nodes(Some(&moving));
        let mut shown: Vec<_> =
            nodes.iter().map(|one| (&*one.description, one.is_alive, one.is_own)).collect();
        shown.sort();
        assert_eq!(shown, [("a", true, true), ("b", false, false)]);
        assert!(nodes.iter().all(|one| !one.has_lease));
        // Nobody could look for a while, so nobody knows whether it was silent.
        watch.look(there(8), start + Duration::from_secs(60));
        assert!(watch.silent(limit).is_empty());
        watch.look(there(8), start + Duration::from_secs(61));
        watch.forget();
        watch.look(there(8), start + Duration::from_secs(62));
        assert!(watch.silent(Duration::from_secs(1)).is_empty());
        assert_eq!(watch.silent_at(&paused.key, limit), Some(start + Duration::from_secs(70)));
    }
}
