//! Which attempts are a group, and which wait.

use super::super::super::{Budget, GivenBack, OnConflict, Reader, WriteBatch};
use super::super::membership::{LEASE, Member};
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
    let lanes = &queue.lock().lanes;
    lanes.held.is_empty() && !lanes.is_any_under_way() && !lanes.is_all_held
}

fn waiting(lane: u8) -> Waiting {
    Waiting::new(Box::new(Of(lane)), TERMS, None)
}

fn push(queue: &Queue, lane: u8) {
    queue.push(waiting(lane)).unwrap();
}

fn lanes(group: &[Waiting]) -> Vec<u8> {
    group.iter().map(|waiting| waiting.attempt.lane()[0]).collect()
}

/// The lanes of the attempts of the next group, which is over at once.
fn next(queue: &Queue) -> Option<Vec<u8>> {
    queue.next_group().map(|(group, _)| lanes(&group))
}

#[test]
fn what_waits_of_a_lane_is_a_group_and_what_comes_later_waits_until_it_is_over() {
    let queue = queue();
    for lane in [1, 2, 1, 1] {
        push(&queue, lane);
    }
    let (one, first) = queue.next_group().unwrap();
    assert_eq!(lanes(&one), [1, 1, 1]);
    push(&queue, 1);
    let (two, second) = queue.next_group().unwrap();
    assert_eq!(lanes(&two), [2]);
    queue.close();
    std::thread::scope(|scope| {
        let third = scope.spawn(|| next(&queue));
        drop(first);
        assert_eq!(third.join().unwrap(), Some(vec![1]));
    });
    drop(second);
    assert_eq!(next(&queue), None);
    assert!(is_idle(&queue));
}

#[test]
fn a_group_is_bounded_and_smaller_while_others_wait() {
    let queue = queue();
    (0..100).for_each(|_| push(&queue, 1));
    push(&queue, 2);
    let sizes: [usize; 4] = std::array::from_fn(|_| next(&queue).unwrap().len());
    assert_eq!(sizes, [MAX_GROUP_IN_TURN, 1, MAX_GROUP, 100 - MAX_GROUP_IN_TURN - MAX_GROUP]);
}

#[test]
fn what_is_put_back_is_the_first_of_its_lane_also_after_the_queue_was_closed() {
    let queue = queue();
    push(&queue, 1);
    push(&queue, 1);
    let (mut group, run) = queue.next_group().unwrap();
    group[0].conflicts = 1;
    push(&queue, 1);
    queue.close();
    queue.put_back(group);
    drop(run);
    let (group, run) = queue.next_group().unwrap();
    assert_eq!(group.iter().map(|one| one.conflicts).collect::<Vec<_>>(), [1, 0, 0]);
    drop(run);
    assert!(queue.next_group().is_none());
}

#[test]
fn what_is_drained_waits_no_more() {
    let queue = queue();
    [1, 1, 2].into_iter().for_each(|lane| push(&queue, lane));
    let (_, run) = queue.next_group().unwrap();
    assert_eq!(lanes(&queue.remove(|_| true)), [2]);
    queue.close();
    drop(run);
    assert!(queue.next_group().is_none());
}

#[test]
fn groups_are_halved_after_conflicts_and_one_whose_writes_were_refused_is_single() {
    let sizes = [0, 2, 3, 4, 8, 9, 39].map(|conflicts| {
        let queue = queue();
        let mut group: Vec<_> = (0..MAX_GROUP).map(|_| waiting(1)).collect();
        group[0].conflicts = conflicts;
        queue.put_back(group);
        next(&queue).unwrap().len()
    });
    assert_eq!(sizes, [64, 64, 32, 16, 1, 1, 1]);
    let queue = queue();
    let mut group: Vec<_> = (0..5).map(|_| waiting(1)).collect();
    group[1].must_be_single = true;
    group[3].conflicts = 7;
    queue.put_back(group);
    let sizes: Vec<_> = std::iter::from_fn(|| {
        let is_empty = queue.lock().waiting.is_empty();
        (!is_empty).then(|| next(&queue).unwrap().len())
    })
    .collect();
    assert_eq!(sizes, [1, 1, 2, 1]);
}

#[test]
fn a_group_has_one_lease() {
    let queue = queue();
    let lease = |value: u8| Some(Arc::new(Member { key: LEASE.into(), value: vec![value] }));
    for of in [lease(1), lease(1), None, None, lease(2), lease(1)] {
        queue.push(Waiting { lease: of, ..waiting(1) }).unwrap();
    }
    let sizes: [_; 4] = std::array::from_fn(|_| next(&queue).unwrap().len());
    assert_eq!(sizes, [2, 2, 1, 1]);
}

#[test]
fn threads_pass_over_a_held_lane_until_the_hold_ends() {
    let queue = queue();
    let held = queue.hold([1; 16], long()).unwrap();
    for lane in [1, 2, 1, 2] {
        push(&queue, lane);
    }
    assert_eq!(next(&queue), Some(vec![2, 2]));
    assert!(queue.hold([1; 16], Instant::now()).is_none(), "one holds it");
    drop(queue.hold([2; 16], long()).unwrap());
    std::thread::scope(|scope| {
        let next = scope.spawn(|| next(&queue));
        drop(held);
        assert_eq!(next.join().unwrap(), Some(vec![1, 1]));
    });
    assert!(is_idle(&queue));
}

#[test]
fn a_hold_waits_for_the_group_under_way_and_no_other_begins_before_it() {
    let queue = queue();
    push(&queue, 1);
    let (_, run) = queue.next_group().unwrap();
    std::thread::scope(|scope| {
        let holds = scope.spawn(|| queue.hold([1; 16], long()).unwrap());
        while queue.lock().lanes.held.is_empty() {
            std::thread::yield_now();
        }
        push(&queue, 1);
        assert!(!queue.lock().has_next());
        drop(run);
        let held = holds.join().unwrap();
        assert!(!queue.lock().has_next());
        drop(held);
    });
    assert_eq!(next(&queue), Some(vec![1]));
}

#[test]
fn a_hold_waits_for_the_heavy_run_under_way_of_its_lane_and_keeps_others_of_it_out() {
    let queue = queue();
    let of = |lane: u8, has_hold| queue.run_heavy([lane; 16], has_hold, false, long());
    let before = of(1, false);
    std::thread::scope(|scope| {
        let holds = scope.spawn(|| {
            let hold = queue.hold([1; 16], long()).unwrap();
            assert!(queue.lock().lanes.heavy.is_empty());
            hold
        });
        while queue.lock().lanes.held.is_empty() {
            std::thread::yield_now();
        }
        let next = scope.spawn(|| drop(of(1, false)));
        drop(before);
        let held = holds.join().unwrap();
        // It runs as often as it must, others of the lane never.
        for _ in 0..3 {
            let own = of(1, true);
            let other = of(2, false);
            assert_eq!(queue.lock().lanes.heavy, [[1; 16], [2; 16]]);
            drop((own, other));
        }
        assert!(!next.is_finished());
        drop(held);
        next.join().unwrap();
    });
    assert!(is_idle(&queue));
}

#[test]
fn nothing_is_handed_out_while_one_runs_alone_which_waits_for_those_under_way() {
    let queue = queue();
    push(&queue, 3);
    let (_, before) = queue.next_group().unwrap();
    let heavy = queue.run_heavy([3; 16], false, false, long());
    push(&queue, 2);
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| queue.run_heavy([1; 16], true, true, long()));
        while !queue.lock().lanes.is_all_held {
            std::thread::yield_now();
        }
        assert!(!queue.lock().has_next());
        assert!(queue.hold([1; 16], Instant::now()).is_none(), "one runs alone");
        drop((before, heavy));
        let alone = alone.join().unwrap();
        assert_eq!(queue.lock().lanes.heavy, [[1; 16]]);
        let next = scope.spawn(|| next(&queue));
        let waits = scope.spawn(|| drop(queue.run_heavy([4; 16], true, true, long())));
        assert_eq!(queue.lock().waiting.len(), 1);
        assert!(!waits.is_finished());
        drop(alone);
        assert_eq!(next.join().unwrap(), Some(vec![2]));
        waits.join().unwrap();
    });
    assert!(is_idle(&queue));
}

#[test]
fn one_alone_does_not_wait_for_one_that_hangs() {
    let queue = queue();
    push(&queue, 3);
    let hanging = queue.next_group();
    assert!(queue.run_heavy([1; 16], false, true, long()).is_alone);
    drop(hanging);
    assert!(is_idle(&queue));
}

#[test]
fn a_hold_does_not_wait_for_a_heavy_run_that_takes_long() {
    let queue = queue();
    let slow = queue.run_heavy([1; 16], false, false, long());
    let begun = Instant::now();
    let hold = queue.hold([1; 16], long()).unwrap();
    assert!((DRAIN_TIME..LONG).contains(&begun.elapsed()));
    drop((slow, hold));
    assert!(is_idle(&queue));
}

#[test]
fn who_closes_waits_for_the_heavy_attempts_of_others_and_none_begins() {
    let queue = queue();
    let own = queue.enter_heavy().unwrap();
    // Its own cannot end meanwhile.
    queue.wait_heavy(LONG);
    std::thread::scope(|scope| {
        let (entered, has_entered) = std::sync::mpsc::channel();
        let (leave, may_leave) = std::sync::mpsc::channel::<()>();
        let queue = &queue;
        scope.spawn(move || {
            let _other = queue.enter_heavy().unwrap();
            entered.send(()).unwrap();
            may_leave.recv().unwrap();
        });
        has_entered.recv().unwrap();
        queue.close();
        assert!(queue.enter_heavy().is_none());
        queue.wait_heavy(Duration::ZERO);
        assert_eq!(queue.lock().heavy_threads.len(), 2, "it is not waited for without end");
        leave.send(()).unwrap();
        queue.wait_heavy(LONG);
        assert_eq!(queue.lock().heavy_threads.len(), 1);
    });
    drop(own);
    assert!(queue.lock().heavy_threads.is_empty());
}
