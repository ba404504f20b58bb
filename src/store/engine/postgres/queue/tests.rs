//! Which attempts run at once, and which wait.

use std::sync::mpsc::channel;

use super::super::super::{Budget, GivenBack, OnConflict, Reader, WriteBatch};
use super::*;

const LONG: Duration = Duration::from_secs(60);
const TERMS: Terms = Terms { budget: Budget::LIGHT, on_conflict: OnConflict::GiveBack };

/// An attempt of a lane.
struct Of(u8);

impl Attempt for Of {
    fn run(&mut self, _: &dyn Reader) -> Result<WriteBatch> {
        Ok(WriteBatch::default())
    }
    fn lane(&self) -> Lane {
        [self.0; 16]
    }
    fn complete(self: Box<Self>, _: Result<()>) {}
    fn give_back(self: Box<Self>, _: GivenBack) {}
}

fn queue() -> Queue {
    Queue::new(Arc::default())
}

fn long() -> Instant {
    Instant::now() + LONG
}

fn is_idle(queue: &Queue) -> bool {
    let state = queue.lock();
    state.held.is_empty() && state.running == 0 && !state.is_one_alone
}

fn push(queue: &Queue, lane: u8) {
    queue.push(Waiting::new(Box::new(Of(lane)), TERMS, None)).unwrap();
}

fn next_lane(queue: &Queue) -> Option<u8> {
    queue.next().map(|(waiting, _)| waiting.attempt.lane()[0])
}

#[test]
fn threads_pass_over_a_held_lane_until_the_hold_ends() {
    let queue = queue();
    let held = queue.hold([1; 16], long()).unwrap();
    for lane in [1, 1, 2, 1, 2] {
        push(&queue, lane);
    }
    assert_eq!([next_lane(&queue), next_lane(&queue)], [Some(2), Some(2)]);
    std::thread::scope(|scope| {
        let next = scope.spawn(|| next_lane(&queue));
        drop(held);
        assert_eq!(next.join().unwrap(), Some(1));
    });
    queue.close();
    assert_eq!([next_lane(&queue), next_lane(&queue), next_lane(&queue)], [Some(1), Some(1), None]);
    assert!(is_idle(&queue));
}

#[test]
fn what_is_put_back_is_handed_out_when_its_lane_is_free_also_after_the_queue_was_closed() {
    let queue = queue();
    push(&queue, 1);
    let (waiting, run) = queue.next().unwrap();
    let held = queue.hold([1; 16], long()).unwrap();
    drop(run);
    queue.put_back(waiting);
    queue.close();
    std::thread::scope(|scope| {
        let all = scope.spawn(|| [next_lane(&queue), next_lane(&queue)]);
        drop(held);
        assert_eq!(all.join().unwrap(), [Some(1), None]);
    });
}

#[test]
fn nothing_is_handed_out_while_one_runs_alone() {
    let queue = queue();
    push(&queue, 2);
    let alone = queue.run_alone(long()).unwrap();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| next_lane(&queue));
        assert!(queue.run([3; 16], Instant::now()).is_none());
        assert_eq!(queue.lock().waiting.len(), 1);
        drop(alone);
        assert_eq!(next.join().unwrap(), Some(2));
    });
    assert!(is_idle(&queue));
}

#[test]
fn others_of_a_held_lane_wait_and_other_lanes_do_not() {
    let queue = queue();
    let held = queue.hold([1; 16], long()).unwrap();
    drop(queue.run_held(long()).unwrap());
    drop(queue.run([2; 16], long()).unwrap());
    drop(queue.hold([2; 16], long()).unwrap());
    assert!(queue.run([1; 16], Instant::now()).is_none());
    assert!(queue.hold([1; 16], Instant::now()).is_none(), "one holds it");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.run([1; 16], long()).is_some());
        drop(held);
        assert!(waiting.join().unwrap());
    });
    assert!(is_idle(&queue));
}

#[test]
fn one_alone_waits_for_those_under_way_and_all_others_wait_for_it() {
    let queue = queue();
    let held = queue.hold([1; 16], long()).unwrap();
    let before = queue.run([3; 16], long()).unwrap();
    let (note, noted) = channel();
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| {
            let run = queue.run_alone(long());
            note.send("alone").unwrap();
            drop(run);
        });
        while !queue.lock().is_one_alone {
            std::thread::yield_now();
        }
        let later = [false, true].map(|is_holder| {
            let (queue, note) = (&queue, note.clone());
            scope.spawn(move || {
                let run =
                    if is_holder { queue.run_held(long()) } else { queue.run([2; 16], long()) };
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
    assert!(is_idle(&queue));
}

#[test]
fn one_alone_does_not_wait_for_one_that_hangs() {
    let queue = queue();
    let hanging = queue.run([3; 16], long());
    drop(queue.run_alone(long()));
    drop(hanging);
    assert!(is_idle(&queue));
}
