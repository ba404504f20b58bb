//! What becomes of attempts of which others are in the way, without a database.

use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::runtime::Runtime;

use super::super::super::{Budget, GivenBack, Lane, OnConflict, Reader, Terms};
use super::super::connection::Connector;
use super::super::queue::DRAIN_TIME;
use super::super::shared::start_runtime;
use super::super::url::PostgresUrl;
use super::*;
use crate::store::Signal;

const TERMS: Terms = Terms { budget: Budget::LIGHT, on_conflict: OnConflict::GiveBack };

/// Enough for another run, and much less than [`MAX_TIME`].
const SHORT: Duration = Duration::from_secs(2);

/// What a database that is away shares, with what drives its connections.
fn away() -> (Arc<Shared>, Runtime) {
    let runtime = start_runtime().unwrap();
    let url = PostgresUrl::parse("postgres://nobody@127.0.0.1:1/nothing").unwrap();
    let connector = Connector::new(url, None, runtime.handle().clone());
    (Arc::new(Shared::new(connector, Arc::default(), None)), runtime)
}

/// Writes a row of its lane.
struct Writes(u8, Sender<Result<()>>);

impl Attempt for Writes {
    fn run(&mut self, _: &dyn Reader) -> Result<WriteBatch> {
        let mut writes = WriteBatch::default();
        writes.add("rows", vec![self.0], WriteOp::Delete);
        Ok(writes)
    }

    fn lane(&self) -> Lane {
        [self.0; 16]
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        self.1.send(end).unwrap();
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        panic!("given back: {why:?}");
    }
}

/// An attempt that has so much time left.
fn waiting(lane: u8, left: Duration) -> (Waiting, Receiver<Result<()>>) {
    let (end, ended) = channel();
    let submitted = Instant::now().checked_sub(MAX_TIME - left).expect("the machine is up");
    let waiting = Waiting::new(Box::new(Writes(lane, end)), TERMS, None);
    (Waiting { submitted, ..waiting }, ended)
}

/// Why one has ended.
fn error(ended: &Receiver<Result<()>>) -> Error {
    ended.try_recv().expect("it has ended").expect_err("nothing can be stored")
}

#[test]
fn while_the_database_is_away_all_that_wait_are_told_so() {
    let (shared, _runtime) = away();
    // More than a group, so that most never run.
    let ends: Vec<_> = (0..200)
        .map(|nth| {
            let (waiting, end) = waiting(1 + nth % 2, SHORT);
            shared.queue.push(waiting).unwrap();
            end
        })
        .collect();
    while shared.meters.queued.value() > 0 {
        let (group, running) = shared.queue.next_group().unwrap();
        shared.queue.put_back(shared.run_group(group));
        drop(running);
    }
    let codes: Vec<_> = ends.iter().map(|end| error(end).code()).collect();
    assert_eq!(codes, ["store_unavailable"; 200]);
}

#[test]
fn one_whose_time_is_over_leaves_its_group_which_has_the_time_of_the_others() {
    let (shared, _runtime) = away();
    let ((old, old_end), (young, young_end)) = (waiting(1, Duration::ZERO), waiting(1, MAX_TIME));
    let again = shared.run_group(vec![old, young]);
    assert_eq!(error(&old_end).to_string(), too_many_wait().to_string());
    assert!(young_end.try_recv().is_err());
    assert!(matches!(again[0].last, Some(Failure::Unavailable(_))));
    assert_eq!(again.len(), 1);
}

#[test]
fn when_the_time_of_the_oldest_is_over_the_others_run_again_with_their_own() {
    let (shared, _runtime) = away();
    let ((old, old_end), (young, young_end)) = (waiting(1, Duration::ZERO), waiting(1, MAX_TIME));
    let again = shared.after_failure(Failure::TooLong, vec![old, young]);
    assert!(matches!(again[0].last, Some(Failure::TooLong)));
    assert!(again[1].last.is_none());
    assert!(again.iter().all(|one| !one.must_be_single));
    assert_eq!(again.len(), 2);
    assert!(old_end.try_recv().is_err() && young_end.try_recv().is_err());
    let again = shared.run_group(again);
    assert_eq!(error(&old_end).to_string(), Failure::TooLong.error().to_string());
    assert_eq!(again.len(), 1);
    // Who was alone in that may have been the only one that wrote.
    let (young, young_end) = waiting(1, MAX_TIME);
    assert_eq!(shared.after_failure(Failure::TooLong, vec![young]).len(), 1);
    assert!(young_end.try_recv().is_err());
    let (old, old_end) = waiting(1, Duration::ZERO);
    let again = shared.after_failure(Failure::TooLong, vec![old]);
    assert!(shared.run_group(again).is_empty());
    assert_eq!(error(&old_end).to_string(), Failure::TooLong.error().to_string());
}

#[test]
fn what_is_refused_of_several_is_told_none_of_them() {
    let (shared, _runtime) = away();
    let refused = || Failure::Refused(Error::internal("not to be told"));
    let (one, two) = (waiting(1, SHORT), waiting(1, SHORT));
    let again = shared.after_failure(refused(), vec![one.0, two.0]);
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|one| one.must_be_single && one.last.is_none()));
    let (alone, end) = waiting(1, SHORT);
    assert!(shared.after_failure(refused(), vec![alone]).is_empty());
    assert_eq!(error(&end).code(), "internal");
}

#[test]
fn what_waits_behind_a_commit_that_was_not_answered_is_given_up_in_time() {
    let (shared, _runtime) = away();
    let ends = [Duration::ZERO, MAX_TIME].map(|left| {
        let (waiting, end) = waiting(1, left);
        shared.queue.push(waiting).unwrap();
        end
    });
    let mut slot = shared.slots().create(shared.token);
    let next = shared.slots().next_value();
    let until = Instant::now() + SHORT;
    let resolved = shared.unanswered.count(|| shared.resolve(&mut slot, next, until));
    assert!(resolved == Resolved::Unknown);
    assert_eq!(error(&ends[0]).code(), "store_unavailable");
    assert!(ends[1].try_recv().is_err());
    assert_eq!(shared.meters.queued.value(), 1);
}

#[test]
fn one_that_has_no_time_for_another_run_joins_no_group() {
    let (shared, _runtime) = away();
    let ((old, old_end), (young, _young_end)) =
        (waiting(1, MIN_TIME - MIN_TIME / 10), waiting(1, MAX_TIME));
    assert_eq!(shared.run_group(vec![old, young]).len(), 1);
    assert_eq!(error(&old_end).to_string(), too_many_wait().to_string());
}

#[test]
fn a_heavy_one_whose_time_is_over_holds_nobody_up() {
    let (shared, _runtime) = away();
    // Something of its lane is under way.
    let (first, _first_end) = waiting(1, MAX_TIME);
    shared.queue.push(first).unwrap();
    let (_group, _running) = shared.queue.next_group().unwrap();
    let (old, old_end) = waiting(1, Duration::ZERO);
    let begun = Instant::now();
    shared.process(Waiting { conflicts: MAX_CONFLICTS_IN_LANE, ..old });
    assert!(begun.elapsed() < DRAIN_TIME, "it waited for those under way");
    assert_eq!(error(&old_end).to_string(), too_many_wait().to_string());
}

#[test]
fn a_lock_is_told_to_none_but_those_that_met_it() {
    let (shared, _runtime) = away();
    let told = |failure: Failure| {
        let (waits, _waits_end) = waiting(2, MAX_TIME);
        shared.queue.push(waits).unwrap();
        let (met, _met_end) = waiting(1, MAX_TIME);
        assert_eq!(shared.after_failure(failure, vec![met]).len(), 1);
        let (group, _running) = shared.queue.next_group().unwrap();
        group[0].last.is_some()
    };
    assert!(!told(Failure::Blocked));
    assert!(told(Failure::Unavailable("away".into())));
}

#[test]
fn who_waits_looks_again_once_a_write_is_visible_whose_outcome_was_unknown() {
    let (shared, runtime) = away();
    let mut listener = shared.signals.subscribe(Topic::from_u128(7));
    let mut is_woken = || {
        let quiet = Duration::from_millis(50);
        let woken = async { tokio::time::timeout(quiet, listener.notified()).await };
        runtime.block_on(woken).is_ok_and(|signal| signal == Signal::Everything)
    };
    let slot = shared.slots().create(shared.token);
    let none = std::collections::HashSet::new;
    let see = |number| shared.note_others(none(), vec![(slot.id.to_vec(), number)]);
    shared.unknown_outcomes.add(slot.clone());
    see(0);
    assert!(is_woken(), "at the first look");
    shared.note_committed();
    see(0);
    assert!(!is_woken(), "a heartbeat may be visible before it");
    see(1);
    assert!(is_woken());
    see(1);
    see(2);
    assert!(!is_woken(), "once");
}

#[test]
fn a_database_that_does_not_finish_commits_does_not_answer() {
    let (shared, _runtime) = away();
    let long = Duration::from_secs(3600);
    assert!(shared.is_answering(long) && !shared.is_answering(Duration::ZERO));
    shared.commits_hang.set(true, &shared.meters.refuses_writes);
    assert!(!shared.is_answering(long));
    shared.note_committed();
    assert!(shared.is_answering(long));
}

#[test]
fn while_commits_hang_nothing_runs_and_is_told_so_unless_it_failed_by_itself() {
    let (shared, _runtime) = away();
    shared.commits_hang.set(true, &shared.meters.refuses_writes);
    let told = |last| {
        let (waiting, end) = waiting(1, MAX_TIME);
        assert!(shared.run_group(vec![Waiting { last, ..waiting }]).is_empty());
        error(&end)
    };
    for last in [None, Some(Failure::Conflict)] {
        assert_eq!(told(last).to_string(), Failure::Blocked.error().to_string());
    }
    assert_eq!(told(Some(Failure::Refused(Error::internal("its own")))).code(), "internal");
    // The reason is what was found before, and not what is so by now.
    let (mut waiting, end) = waiting(1, MAX_TIME);
    waiting.note_blocked();
    shared.note_committed();
    shared.give_up(vec![waiting]);
    assert_eq!(error(&end).to_string(), Failure::Blocked.error().to_string());
}

#[test]
fn what_was_at_a_server_that_was_replaced_runs_again_and_says_nothing_to_others() {
    let (shared, _runtime) = away();
    let (waits, _waits_end) = waiting(2, MAX_TIME);
    shared.queue.push(waits).unwrap();
    let (met, _met_end) = waiting(1, MAX_TIME);
    let again = shared.after_failure(Failure::Replaced, vec![met]);
    assert!(again.len() == 1 && matches!(again[0].last, Some(Failure::Replaced)));
    let (group, _running) = shared.queue.next_group().unwrap();
    assert!(group[0].last.is_none());
}
