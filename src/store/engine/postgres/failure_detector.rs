//! The failure detector: for how long the heartbeats of the other members of a store have not changed, on
//! the clock of this process alone. No clocks of two machines are compared.

use std::time::{Duration, Instant};

use super::member_rows::SeenMember;
use super::membership::{LEASE, Member};
use crate::store::engine::SeenNode;

/// After a longer time without an observation nothing is known of it: this process was paused, or the
/// database away, and nobody could change a heartbeat.
const MAX_GAP: Duration = Duration::from_secs(3);

/// What was observed of the members of a store.
#[derive(Default)]
pub struct FailureDetector {
    members: Vec<Tracked>,
    observed_at: Option<Instant>,
}

struct Tracked {
    seen: SeenMember,
    /// Since when its heartbeat has been the same.
    since: Instant,
    /// Whether it changed while it was observed.
    has_changed: bool,
}

impl FailureDetector {
    /// Notes which members there are now.
    pub fn observe(&mut self, members: Vec<SeenMember>, now: Instant) {
        let is_gap = self.observed_at.is_none_or(|at| now - at > MAX_GAP);
        let before = std::mem::take(&mut self.members);
        let tracked = members.into_iter().map(|seen| {
            let old = before.iter().find(|old| old.seen.member == seen.member);
            let is_same = old.is_some_and(|old| old.seen.heartbeat == seen.heartbeat);
            Tracked {
                seen,
                since: old.map_or(now, |old| if is_same && !is_gap { old.since } else { now }),
                has_changed: old.is_some_and(|old| old.has_changed || !is_same),
            }
        });
        self.members = tracked.collect();
        self.observed_at = Some(now);
    }

    /// Forgets for how long their heartbeats have not changed.
    pub fn reset(&mut self) {
        self.observed_at = None;
    }

    /// Returns those whose heartbeats had not changed for so long, at the last observation.
    pub fn suspected(&self, timeout: Duration) -> Vec<SeenMember> {
        let is_suspected =
            |one: &&Tracked| self.observed_at.is_some_and(|now| now - one.since >= timeout);
        self.members.iter().filter(is_suspected).map(|one| one.seen.clone()).collect()
    }

    /// Returns when the heartbeat of the member of this key will not have changed for so long.
    pub fn suspected_at(&self, key: &[u8], timeout: Duration) -> Option<Instant> {
        let one = self.members.iter().find(|one| one.seen.member.key == key)?;
        Some(one.since + timeout)
    }

    /// Returns the nodes, as the one that observes sees them; who observes from outside is none of them.
    pub fn nodes(&self, own: Option<&Member>) -> Vec<SeenNode> {
        let members = || self.members.iter().map(|one| (one, &one.seen.member));
        let lease = members().find(|(_, member)| member.key == LEASE);
        let holder = lease.map(|(_, lease)| lease.holder());
        let nodes = members().filter(|(_, member)| member.is_node());
        let seen = nodes.map(|(one, member)| SeenNode {
            id: member.id(),
            description: member.description(),
            address: member.address(),
            release: member.release(),
            beat_at: one.since,
            is_alive: one.has_changed,
            is_own: own == Some(member),
            has_lease: holder == Some(member.id()),
        });
        seen.collect()
    }

    /// Returns those that are alive for certain: their heartbeats have changed.
    pub fn alive(&self) -> impl Iterator<Item = &SeenMember> {
        self.members.iter().filter(|one| one.has_changed).map(|one| &one.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::super::membership::Node;
    use super::*;

    #[test]
    fn who_does_not_change_its_heartbeat_is_suspected_unless_nobody_observed() {
        let (running, paused) = (Node::new("1", "a").member, Node::new("1", "b").member);
        let members = |heartbeat| {
            let seen = |member: &super::super::membership::Member, heartbeat: u8| SeenMember {
                member: member.clone(),
                heartbeat: vec![heartbeat],
            };
            vec![seen(&running, heartbeat), seen(&paused, 0)]
        };
        let (start, limit) = (Instant::now(), Duration::from_secs(8));
        let mut detector = FailureDetector::default();
        for second in 0..=8 {
            assert!(detector.suspected(limit).is_empty(), "{second}");
            detector.observe(members(second), start + Duration::from_secs(second.into()));
        }
        let names = |seen: Vec<SeenMember>| -> Vec<_> {
            seen.iter().map(|one| one.member.description()).collect()
        };
        assert_eq!(names(detector.suspected(limit)), ["b"]);
        assert_eq!(names(detector.alive().cloned().collect()), ["a"]);
        let nodes = detector.nodes(Some(&running));
        let mut shown: Vec<_> =
            nodes.iter().map(|one| (&*one.description, one.is_alive, one.is_own)).collect();
        shown.sort();
        assert_eq!(shown, [("a", true, true), ("b", false, false)]);
        assert!(nodes.iter().all(|one| !one.has_lease));
        // Nobody could observe for a while, so nobody knows whether it was alive.
        detector.observe(members(8), start + Duration::from_secs(60));
        assert!(detector.suspected(limit).is_empty());
        detector.observe(members(8), start + Duration::from_secs(61));
        detector.reset();
        detector.observe(members(8), start + Duration::from_secs(62));
        assert!(detector.suspected(Duration::from_secs(1)).is_empty());
        assert_eq!(
            detector.suspected_at(&paused.key, limit),
            Some(start + Duration::from_secs(70))
        );
    }
}
