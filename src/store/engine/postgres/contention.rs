//! Attempts that conflict with each other: any number run at once, until one has conflicted several
//! times. Then no other of its lane begins before it is over, and after more conflicts it runs while
//! no other of this server does.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::super::Lane;

/// How long an attempt that runs alone waits for those that began before: as long as the slowest
/// ordinary one takes. If one hangs for longer the attempt runs beside it.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Who waits for whom at this server.
#[derive(Default)]
pub struct Contention {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The lanes of which one attempt holds off the others.
    held: HashSet<Lane>,
    running: usize,
    is_one_alone: bool,
}

/// Holds off the other attempts of a lane until it is dropped.
pub struct LaneHold<'a> {
    contention: &'a Contention,
    lane: Lane,
}

/// A run of an attempt, which ends when this is dropped.
pub struct Run<'a> {
    contention: &'a Contention,
    is_alone: bool,
}

impl Contention {
    /// Begins a run when nobody else holds its lane and no attempt runs alone, at the latest at
    /// `deadline`.
    pub fn run(&self, lane: Lane, deadline: Instant) -> Run<'_> {
        self.begin(self.wait(deadline, |state| state.is_one_alone || state.held.contains(&lane)))
    }

    /// Keeps others of the lane from beginning, as soon as nobody else does, at the latest at
    /// `deadline`. Then runs begin with [`Contention::run_held`].
    pub fn hold(&self, lane: Lane, deadline: Instant) -> LaneHold<'_> {
        self.wait(deadline, |state| state.held.contains(&lane)).held.insert(lane);
        LaneHold { contention: self, lane }
    }

    /// Begins a run in a lane that its caller holds, when no attempt runs alone, at the latest at
    /// `deadline`.
    pub fn run_held(&self, deadline: Instant) -> Run<'_> {
        self.begin(self.wait(deadline, |state| state.is_one_alone))
    }

    /// Begins a run while no other of any lane begins, after those under way ended, at the latest at
    /// `deadline`.
    pub fn run_alone(&self, deadline: Instant) -> Run<'_> {
        self.wait(deadline, |state| state.is_one_alone).is_one_alone = true;
        let deadline = deadline.min(Instant::now() + DRAIN_TIME);
        self.wait(deadline, |state| state.running > 0).running += 1;
        Run { contention: self, is_alone: true }
    }

    fn begin(&self, mut state: MutexGuard<'_, State>) -> Run<'_> {
        state.running += 1;
        Run { contention: self, is_alone: false }
    }

    fn wait(&self, deadline: Instant, must: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.state(), left, |state| must(state));
        waited.expect("no thread panics while holding it").0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding it")
    }
}

impl Drop for LaneHold<'_> {
    fn drop(&mut self) {
        self.contention.state().held.remove(&self.lane);
        self.contention.changed.notify_all();
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let mut state = self.contention.state();
        state.running -= 1;
        if self.is_alone {
            state.is_one_alone = false;
        }
        drop(state);
        self.contention.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn others_of_a_held_lane_wait_and_other_lanes_do_not() {
        let contention = Contention::default();
        let long = Instant::now() + LONG;
        let held = contention.hold([1; 16], long);
        drop(contention.run_held(long));
        drop(contention.run([2; 16], long));
        drop(contention.hold([2; 16], long));
        let began = Instant::now();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(contention.run([1; 16], long)));
            drop(contention.run([1; 16], Instant::now() + Duration::from_millis(5)));
            assert!(began.elapsed() >= Duration::from_millis(5));
            drop(held);
            waiting.join().unwrap();
        });
        let state = contention.state();
        assert!(state.held.is_empty() && state.running == 0 && began.elapsed() < LONG);
    }

    #[test]
    fn one_alone_waits_for_those_under_way_and_all_others_wait_for_it() {
        let contention = Contention::default();
        let long = Instant::now() + LONG;
        let held = contention.hold([1; 16], long);
        let before = contention.run([3; 16], long);
        let (note, noted) = channel();
        std::thread::scope(|scope| {
            let alone = scope.spawn(|| {
                let run = contention.run_alone(long);
                note.send("alone").unwrap();
                drop(run);
            });
            while !contention.state().is_one_alone {
                std::thread::yield_now();
            }
            let later = [false, true].map(|is_holder| {
                let (contention, note) = (&contention, note.clone());
                scope.spawn(move || {
                    let run = if is_holder {
                        contention.run_held(long)
                    } else {
                        contention.run([2; 16], long)
                    };
                    note.send("later").unwrap();
                    drop(run);
                })
            });
            assert!(noted.try_recv().is_err());
            drop(before);
            assert_eq!([0; 3].map(|_| noted.recv().unwrap()), ["alone", "later", "later"]);
            alone.join().unwrap();
            for one in later {
                one.join().unwrap();
            }
        });
        drop(held);
        assert_eq!(contention.state().running, 0);
    }

    #[test]
    fn one_alone_does_not_wait_for_one_that_hangs() {
        let contention = Contention::default();
        let long = Instant::now() + LONG;
        let hanging = contention.run([3; 16], long);
        drop(contention.run_alone(long));
        drop(hanging);
        assert_eq!(contention.state().running, 0);
    }
}
