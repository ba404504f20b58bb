//! The database server that is in force: what connections are opened to first, once it was chosen at all.
//!
//! An epoch ends when another target takes the place of the one before, which may still accept connections,
//! and writes, of which nothing is stored for good: what it has is old. A connection is of the epoch that
//! was in force once it was open. It looks whether that still is before each statement, and after each
//! answer. So no transaction begins at a server that was replaced, none that began there goes on, what was
//! asked there meanwhile is not used, and an answer to a commit is none.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::hanging::LastAnswer;

/// What a connection is opened to: a host of the URL by its number, at one of the addresses of its name, if
/// that has been looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub host: usize,
    pub address: Option<IpAddr>,
}

/// The target that is in force.
#[derive(Clone, Copy, Default)]
pub struct Preferred {
    pub target: Option<Target>,
    /// How often another target took its place.
    pub epoch: u64,
    /// Whether it was chosen while the one before accepted connections. Then only who chooses changes it.
    pub is_chosen: bool,
}

/// The target that is in force, for all connections of a URL, and when it answered last.
#[derive(Clone, Default)]
pub struct InForce(Arc<(Mutex<Preferred>, LastAnswer)>);

impl InForce {
    fn lock(&self) -> MutexGuard<'_, Preferred> {
        self.0.0.lock().expect("no thread panics while holding it")
    }

    /// Returns one that has not answered for so long.
    #[cfg(test)]
    pub fn silent_for(age: Duration) -> Self {
        InForce(Arc::new((Mutex::default(), LastAnswer::of_age(age))))
    }

    /// Returns how long ago it answered last.
    pub fn answer_age(&self) -> Duration {
        self.0.1.age()
    }

    /// Returns the one at present.
    pub fn now(&self) -> Preferred {
        *self.lock()
    }

    /// Has a target be in force to which a connection was opened, which was looked for since `epoch`. Returns
    /// the epoch of that connection; `None` if another target is in force that it must not replace: one that
    /// was chosen, or came meanwhile.
    pub fn prefer(&self, target: Target, epoch: u64) -> Option<Epoch> {
        let mut now = self.lock();
        if now.target != Some(target) {
            if now.is_chosen || now.epoch != epoch {
                return None;
            }
            if now.target.is_some() {
                now.epoch += 1;
                // It has just answered; the silence was of the one before.
                self.0.1.note();
            }
            now.target = Some(target);
        }
        Some(Epoch { in_force: self.clone(), number: now.epoch })
    }

    /// Chooses another target than the one of `epoch`, which accepts connections. Returns whether that one
    /// was still in force: else nothing changes.
    pub fn choose(&self, target: Target, epoch: u64) -> bool {
        let mut now = self.lock();
        if now.epoch != epoch {
            return false;
        }
        *now = Preferred { target: Some(target), epoch: epoch + 1, is_chosen: true };
        self.0.1.note();
        true
    }
}

/// The epoch of a connection.
#[derive(Clone)]
pub struct Epoch {
    in_force: InForce,
    number: u64,
}

impl Epoch {
    /// Whether its target is in force.
    pub fn is_in_force(&self) -> bool {
        self.in_force.now().epoch == self.number
    }

    /// Notes that its target answered, if that is in force.
    pub fn note_answer(&self) {
        if self.is_in_force() {
            self.in_force.0.1.note();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Target = Target { host: 0, address: None };
    const TWO: Target = Target { host: 1, address: None };

    #[test]
    fn a_connection_elsewhere_ends_the_epoch_of_those_before() {
        let in_force = InForce::default();
        let first = in_force.prefer(ONE, 0).unwrap();
        let same = in_force.prefer(ONE, 0).unwrap();
        assert!(first.is_in_force() && same.is_in_force(), "of the same server");
        let next = in_force.prefer(TWO, 0).unwrap();
        assert!(!first.is_in_force() && !same.is_in_force());
        assert!(next.is_in_force() && in_force.now().target == Some(TWO));
    }

    #[test]
    fn of_two_that_were_looked_for_at_once_the_second_does_not_undo_the_first() {
        let in_force = InForce::default();
        in_force.prefer(ONE, 0).unwrap();
        let begun = in_force.now().epoch;
        let next = in_force.prefer(TWO, begun).unwrap();
        assert!(in_force.prefer(ONE, begun).is_none(), "the old one, whose answer is late");
        assert!(in_force.prefer(TWO, begun).is_some_and(|late| late.is_in_force()));
        assert!(next.is_in_force());
    }

    #[test]
    fn once_one_is_chosen_only_another_choice_replaces_it() {
        let in_force = InForce::default();
        let before = in_force.prefer(ONE, 0).unwrap();
        assert!(in_force.choose(TWO, 0));
        assert!(!before.is_in_force());
        // It fails for a moment, and the old one accepts connections.
        assert!(in_force.prefer(ONE, in_force.now().epoch).is_none());
        let chosen = in_force.prefer(TWO, in_force.now().epoch).unwrap();
        assert!(in_force.choose(ONE, in_force.now().epoch));
        assert!(!chosen.is_in_force(), "the chosen one may fail in turn");
        assert!(in_force.prefer(ONE, in_force.now().epoch).is_some());
    }

    #[test]
    fn another_address_of_a_name_is_another_server() {
        let in_force = InForce::default();
        let at = |last| Target { host: 0, address: Some([192, 0, 2, last].into()) };
        let first = in_force.prefer(at(1), 0).unwrap();
        assert!(in_force.prefer(at(2), 0).is_some());
        assert!(!first.is_in_force());
    }

    #[test]
    fn a_choice_does_not_undo_what_came_into_force_while_it_was_made() {
        let in_force = InForce::default();
        in_force.prefer(ONE, 0).unwrap();
        let begun = in_force.now().epoch;
        let next = in_force.prefer(TWO, begun).unwrap();
        assert!(!in_force.choose(ONE, begun));
        let now = in_force.now();
        assert!(next.is_in_force() && now.target == Some(TWO) && !now.is_chosen);
        assert!(in_force.choose(ONE, now.epoch));
        assert!(!next.is_in_force() && in_force.now().is_chosen);
    }

    #[test]
    fn the_silence_of_a_server_ends_with_its_epoch() {
        let long = Duration::from_secs(600);
        let in_force = InForce::silent_for(long);
        in_force.prefer(ONE, 0).unwrap();
        assert!(in_force.answer_age() >= long, "it is the first");
        in_force.prefer(TWO, 0).unwrap();
        assert!(in_force.answer_age() < long);
        let in_force = InForce::silent_for(long);
        in_force.prefer(ONE, 0).unwrap();
        assert!(in_force.choose(TWO, 0) && in_force.answer_age() < long);
    }

    #[test]
    fn an_answer_counts_only_of_the_server_that_is_in_force() {
        let in_force = InForce::default();
        let old = in_force.prefer(ONE, 0).unwrap();
        let new = in_force.prefer(TWO, 0).unwrap();
        let answered = || in_force.0.1.at();
        let begun = answered();
        // Its times are of whole milliseconds.
        while in_force.answer_age() < Duration::from_millis(2) {
            std::thread::yield_now();
        }
        old.note_answer();
        assert_eq!(answered(), begun);
        new.note_answer();
        assert!(answered() > begun);
    }
}
