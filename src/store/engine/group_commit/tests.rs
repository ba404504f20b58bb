//! Group commit over storage with scripted outcomes: batches, failures, reopening.

use std::ops::ControlFlow;
use std::sync::Condvar;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use super::super::storage::MAX_GROUP;
use super::super::{KeyRange, Lane, Memory, Order, ScanFn, WriteOp};
use super::queue::WAITING;
use super::*;
use crate::base::Kind;

mod failed_reads;
mod holds;
mod kinds;

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<(Mutex<Vec<String>>, Condvar)>);

impl Log {
    fn add(&self, line: String) {
        self.0.0.lock().unwrap().push(line);
        self.0.1.notify_all();
    }
    fn lines(&self) -> Vec<String> {
        self.0.0.lock().unwrap().clone()
    }
    /// The lines, those about holding the writer aside.
    fn lines_without_holds(&self) -> Vec<String> {
        self.lines().into_iter().filter(|line| !line.starts_with("hold")).collect()
    }
    fn wait_for(&self, line: &str) {
        let lines = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(lines, |lines| !lines.iter().any(|l| l == line)).unwrap());
    }
}

/// Memory whose next commits and reopenings have scripted outcomes.
struct ScriptedStorage {
    memory: Memory,
    commits: Vec<Go>,
    opens: Vec<bool>,
    log: Log,
}

/// How a commit goes.
#[derive(Clone, Copy, PartialEq)]
enum Go {
    Kept,
    Refused,
    FindsFault,
    UnknownButKept,
    UnknownAndLost,
    Panics,
    /// The look for space before it panics.
    PanicsBefore,
}

fn scripted(commits: &[Go], opens: &[bool]) -> (GroupCommit, Log) {
    let log = Log::default();
    let reversed = |list: &[Go]| list.iter().rev().copied().collect();
    let disk = ScriptedStorage {
        memory: Memory::default(),
        commits: reversed(commits),
        opens: opens.iter().rev().copied().collect(),
        log: log.clone(),
    };
    (GroupCommit::start(disk, Arc::default()).unwrap(), log)
}

impl LocalStorage for ScriptedStorage {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        self.memory.snapshot()
    }
    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        if writes.tables.contains_key(HOLD) {
            self.log.add("holding".into());
            self.log.wait_for("hold no longer");
            return self.memory.commit(writes);
        }
        let how = self.commits.pop().unwrap_or(Go::Kept);
        self.log.add(format!("commit of {}", writes.len()));
        let kept = match how {
            Go::Refused => return CommitOutcome::Refused(Error::busy("full", "full", 1)),
            Go::FindsFault => return CommitOutcome::Refused(Error::internal("as scripted")),
            Go::Panics | Go::PanicsBefore => panic!("as scripted"),
            Go::UnknownAndLost => None,
            Go::Kept | Go::UnknownButKept => Some(self.memory.commit(writes)),
        };
        match kept {
            Some(done) if how == Go::Kept => done,
            _ => CommitOutcome::Unknown(Error::internal("as scripted")),
        }
    }
    fn check_space(&mut self) -> Result<()> {
        if self.commits.pop_if(|how| *how == Go::PanicsBefore).is_some() {
            panic!("as scripted");
        }
        Ok(())
    }
    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        let opens = self.opens.pop().unwrap_or(true);
        self.log.add(format!("opened again: {opens}"));
        if opens { self.memory.snapshot() } else { Err(Error::internal("as scripted")) }
    }
}

/// An attempt that does as it is written.
struct Try<F> {
    number: usize,
    name: &'static str,
    run: F,
    lane: Lane,
    log: Log,
    answer: Sender<(usize, AttemptOutcome)>,
}

/// What becomes of an attempt.
#[derive(Debug)]
enum AttemptOutcome {
    Completed(Result<()>),
    GivenBack(GivenBack),
}

impl<F: FnMut(&dyn Reader) -> Result<WriteBatch> + Send> Attempt for Try<F> {
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        (self.run)(reader)
    }
    fn lane(&self) -> Lane {
        self.lane
    }
    fn complete(self: Box<Self>, end: Result<()>) {
        self.log.add(format!("{} answered", self.name));
        let _ = self.answer.send((self.number, AttemptOutcome::Completed(end)));
    }
    fn give_back(self: Box<Self>, why: GivenBack) {
        self.log.add(format!("{} given back", self.name));
        let _ = self.answer.send((self.number, AttemptOutcome::GivenBack(why)));
    }
}

/// The table whose commits wait for the test.
const HOLD: &str = "hold";

/// The last terms: whatever it costs, and run again by the writer after a conflict.
const LAST: Terms = Terms { budget: Budget::FULL, on_conflict: OnConflict::RunOnWriter };
/// Terms of which a conflict is no part.
const FULL: Terms = Terms { budget: Budget::FULL, on_conflict: OnConflict::GiveBack };
const LIGHT: Terms = Terms { budget: Budget::LIGHT, on_conflict: OnConflict::GiveBack };

fn one(key: &str) -> WriteBatch {
    let mut writes = WriteBatch::default();
    writes.add("t", key.into(), WriteOp::Put(b"value".to_vec()));
    writes
}

fn keys(reader: &dyn Reader) -> Vec<String> {
    let mut keys = Vec::new();
    let each: &mut ScanFn = &mut |key, _| {
        keys.push(String::from_utf8(key.to_vec()).unwrap());
        Ok(ControlFlow::Continue(()))
    };
    reader.scan("t", KeyRange { from: &[], to: None }, Order::Ascending, each).unwrap();
    keys
}

type Run = fn(&dyn Reader) -> Result<WriteBatch>;

/// Hands in attempts that all wait when the writer comes to them, so that they share a commit;
/// gives what became of them in the order of submission.
fn submitted(
    group: &GroupCommit,
    log: &Log,
    runs: &[(&'static str, Run, Terms)],
) -> Vec<AttemptOutcome> {
    let (answer, answers) = channel();
    let hold = |_: &dyn Reader| {
        let mut writes = WriteBatch::default();
        writes.add(HOLD, Vec::new(), WriteOp::Put(Vec::new()));
        Ok(writes)
    };
    let attempt = |number, name, run| {
        let (log, answer) = (log.clone(), answer.clone());
        Try { number, name, run, lane: Lane::default(), log, answer }
    };
    group.submit(Box::new(attempt(0, "hold", hold as Run)), LAST).unwrap();
    log.wait_for("holding");
    for (number, (name, run, terms)) in runs.iter().enumerate() {
        group.submit(Box::new(attempt(number + 1, name, *run)), *terms).unwrap();
    }
    log.add("hold no longer".into());
    drop(answer);
    let mut answers: Vec<_> = answers.iter().collect();
    // The next commit in this test holds again.
    log.0.0.lock().unwrap().retain(|line| !line.starts_with("hold"));
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().skip(1).map(|(_, end)| end).collect()
}

/// The same on the last terms, on which each is settled.
fn together(group: &GroupCommit, log: &Log, runs: &[(&'static str, Run)]) -> Vec<Result<()>> {
    let runs: Vec<_> = runs.iter().map(|(name, run)| (*name, *run, LAST)).collect();
    let settled = |end| match end {
        AttemptOutcome::Completed(end) => end,
        AttemptOutcome::GivenBack(why) => panic!("given back: {why:?}"),
    };
    submitted(group, log, &runs).into_iter().map(settled).collect()
}

fn codes(ends: Vec<Result<()>>) -> Vec<&'static str> {
    ends.into_iter().map(|end| end.map_or_else(|error| error.code(), |()| "ok")).collect()
}

const WRITE_A: (&str, Run) = ("a", |_| Ok(one("a")));
const WRITE_B: (&str, Run) = ("b", |_| Ok(one("b")));
const REFUSE: (&str, Run) = ("refused", |_| Err(Error::conflict("no", "no")));
const PANIC: (&str, Run) = ("panicking", |_| panic!("on purpose"));
/// Refused because of what another in the group wrote before it.
const REFUSE_BECAUSE_OF_A: (&str, Run) = ("refused", |reader| match keys(reader).as_slice() {
    [a] if a == "a" => Err(Error::conflict("a_is_there", "no")),
    _ => Ok(one("z")),
});

#[test]
fn a_group_shares_a_commit_and_results_follow_it() {
    let (group, log) = scripted(&[], &[]);
    let ends = together(&group, &log, &[WRITE_A, REFUSE_BECAUSE_OF_A, WRITE_B]);
    assert_eq!(codes(ends), ["ok", "a_is_there", "ok"]);
    assert_eq!(
        log.lines_without_holds(),
        ["commit of 2", "a answered", "refused answered", "b answered"]
    );
    assert_eq!(keys(&*group.snapshot()), ["a", "b"]);
}

#[test]
fn a_refusal_based_on_a_failed_commit_is_not_returned() {
    let (group, log) = scripted(&[Go::UnknownAndLost], &[]);
    let ends = together(&group, &log, &[WRITE_A, REFUSE_BECAUSE_OF_A]);
    assert_eq!(codes(ends), ["outcome_unknown", "outcome_unknown"]);
    assert_eq!(keys(&*group.snapshot()), [""; 0]);
}

#[test]
fn a_panic_in_an_attempt_is_its_own_500_and_keeps_nothing_of_it() {
    let (group, log) = scripted(&[], &[]);
    let ends = together(&group, &log, &[WRITE_A, PANIC, WRITE_B]);
    assert_eq!(ends[1].as_ref().unwrap_err().kind(), Kind::Internal);
    assert_eq!(codes(ends), ["ok", "internal", "ok"]);
    assert_eq!(codes(together(&group, &log, &[PANIC, REFUSE])), ["internal", "no"]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A])), ["ok"]);
}

#[test]
fn after_an_unknown_outcome_storage_is_reopened_before_results_are_sent() {
    for how in [Go::UnknownButKept, Go::UnknownAndLost, Go::Panics] {
        let (group, log) = scripted(&[how], &[]);
        let ends = together(&group, &log, &[WRITE_A]);
        let error = ends[0].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Busy, "outcome_unknown"));
        assert_eq!(log.lines_without_holds()[..2], ["commit of 1", "opened again: true"]);
        // A reader sees what is there.
        let kept = how == Go::UnknownButKept;
        assert_eq!(keys(&*group.snapshot()).len(), usize::from(kept));
        assert_eq!(codes(together(&group, &log, &[WRITE_B])), ["ok"]);
    }
}

#[test]
fn a_panic_of_the_storage_loses_a_group_and_not_the_writer_thread() {
    let (group, log) = scripted(&[Go::Kept, Go::PanicsBefore], &[]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A])), ["ok"]);
    let (answer, answers) = channel();
    let log_of = log.clone();
    let attempt =
        Try { number: 0, name: "b", run: WRITE_B.1, lane: Lane::default(), log: log_of, answer };
    group.submit(Box::new(attempt), LAST).unwrap();
    assert!(answers.recv().is_err(), "it was dropped");
    assert_eq!(codes(together(&group, &log, &[WRITE_B])), ["ok"]);
    assert_eq!(keys(&*group.snapshot()), ["a", "b"]);
    assert!(log.lines().contains(&"opened again: true".to_string()));
}

#[test]
fn while_the_disk_cannot_be_opened_writes_are_refused_and_reads_go_on() {
    let (group, log) = scripted(&[Go::Kept, Go::UnknownAndLost], &[false, false, true]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A])), ["ok"]);
    assert_eq!(codes(together(&group, &log, &[WRITE_B])), ["outcome_unknown"]);
    let (answer, answers) = channel();
    let log_of = log.clone();
    let attempt =
        Try { number: 0, name: "b", run: WRITE_B.1, lane: Lane::default(), log: log_of, answer };
    group.submit(Box::new(attempt), LAST).unwrap();
    let AttemptOutcome::Completed(Err(error)) = answers.recv().unwrap().1 else {
        panic!("it was not refused")
    };
    assert_eq!((error.kind(), error.code()), (Kind::Busy, "read_only"));
    assert_eq!(keys(&*group.snapshot()), ["a"]);
    assert_eq!(codes(together(&group, &log, &[WRITE_B])), ["ok"]);
}

#[test]
fn storage_is_reopened_without_a_request() {
    let (group, log) = scripted(&[Go::UnknownButKept], &[false, true]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A])), ["outcome_unknown"]);
    log.wait_for("opened again: true");
    together(&group, &log, &[]); // The writer has come back from it.
    assert_eq!(keys(&*group.snapshot()), ["a"]);
}

#[test]
fn a_refused_commit_is_the_answer_to_all_who_share_it_and_the_next_goes_on() {
    let (group, log) = scripted(&[Go::Refused], &[]);
    // A durable snapshot gave the reason of the second: no commit can make it untrue.
    assert_eq!(codes(together(&group, &log, &[WRITE_A, REFUSE])), ["full", "no"]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A, REFUSE])), ["ok", "no"]);
    assert!(!log.lines().iter().any(|line| line.starts_with("opened")));
}

#[test]
fn a_write_refused_by_storage_fails_alone() {
    use Go::{FindsFault, Kept};
    let (group, log) = scripted(&[FindsFault, Kept, FindsFault], &[]);
    let ends = together(&group, &log, &[WRITE_A, WRITE_B, REFUSE, ("c", |_| Ok(one("c")))]);
    assert_eq!(codes(ends), ["ok", "internal", "no", "ok"]);
    assert_eq!(keys(&*group.snapshot()), ["a", "c"]);

    // The outcome of one may stay unknown; those after it are run on what is there then.
    let (group, log) = scripted(&[FindsFault, Go::UnknownAndLost], &[]);
    let ends = together(&group, &log, &[WRITE_A, REFUSE_BECAUSE_OF_A, WRITE_B]);
    assert_eq!(codes(ends), ["outcome_unknown", "ok", "ok"]);
    assert_eq!(keys(&*group.snapshot()), ["b", "z"]);
}

#[test]
fn a_group_over_the_limit_continues_in_the_next_commit() {
    const LARGE: (&str, Run) = ("large", |_| {
        let mut writes = one("large");
        writes.add("t", b"large".to_vec(), WriteOp::Put(vec![0; MAX_GROUP_BYTES]));
        Ok(writes)
    });
    let (group, log) = scripted(&[], &[]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A, LARGE, WRITE_B])), ["ok", "ok", "ok"]);
    let commits = |log: &Log| {
        log.lines_without_holds()
            .into_iter()
            .filter(|line| line.starts_with("commit"))
            .collect::<Vec<_>>()
    };
    assert_eq!(commits(&log), ["commit of 2", "commit of 1"]);
}

#[test]
fn what_was_read_and_has_changed_since_is_read_again() {
    // Both count what is there and add one: the second must see the first.
    fn count(reader: &dyn Reader) -> Result<WriteBatch> {
        Ok(one(&format!("counted {}", keys(reader).len())))
    }
    let (group, log) = scripted(&[], &[]);
    let ends = together(&group, &log, &[("one", count), ("two", count), ("three", count)]);
    assert_eq!(codes(ends), ["ok", "ok", "ok"]);
    assert_eq!(keys(&*group.snapshot()), ["counted 0", "counted 1", "counted 2"]);
    // Also where the change came in a commit before.
    let (group, log) = scripted(&[], &[]);
    let ends = together(&group, &log, &[("one", count), LARGE_ELSEWHERE, ("two", count)]);
    assert_eq!(codes(ends), ["ok", "ok", "ok"]);
    assert_eq!(keys(&*group.snapshot()), ["counted 0", "counted 1"]);
}

/// Fills a commit, so that what comes after it is in the next.
const LARGE_ELSEWHERE: (&str, Run) = ("large", |_| {
    let mut writes = WriteBatch::default();
    writes.add("u", Vec::new(), WriteOp::Put(vec![0; MAX_GROUP_BYTES]));
    Ok(writes)
});

#[test]
fn an_attempt_that_costs_much_comes_back_after_a_conflict_and_a_light_one_does_not() {
    fn see_all(reader: &dyn Reader) -> Result<WriteBatch> {
        Ok(one(&format!("saw {}", keys(reader).len())))
    }
    let (group, log) = scripted(&[], &[]);
    let ends = submitted(
        &group,
        &log,
        &[("a", WRITE_A.1, LIGHT), ("light", see_all, LIGHT), ("full", see_all, FULL)],
    );
    assert!(matches!(
        ends.as_slice(),
        [
            AttemptOutcome::Completed(Ok(())),
            AttemptOutcome::Completed(Ok(())),
            AttemptOutcome::GivenBack(GivenBack::Conflict)
        ]
    ));
    assert_eq!(keys(&*group.snapshot()), ["a", "saw 1"]);
}

#[test]
fn an_attempt_over_its_budget_comes_back_and_over_the_largest_is_refused() {
    fn read_much(reader: &dyn Reader) -> Result<WriteBatch> {
        for _ in 0..=Budget::LIGHT.reads {
            // Whatever an operation makes of the error, it ends.
            let _ = reader.get("t", b"x", &mut |_| Ok(()));
        }
        Ok(one("read"))
    }
    let (group, log) = scripted(&[], &[]);
    let ends = submitted(&group, &log, &[("much", read_much, LIGHT), ("more", read_much, FULL)]);
    let [AttemptOutcome::GivenBack(GivenBack::OverBudget), AttemptOutcome::Completed(Ok(()))] =
        ends.as_slice()
    else {
        panic!("{ends:?}")
    };
    fn write_much(reader: &dyn Reader) -> Result<WriteBatch> {
        reader.charge_write(Budget::FULL.written_bytes + 1)?;
        Ok(one("written"))
    }
    let ends = submitted(&group, &log, &[("much", write_much, LIGHT), ("more", write_much, FULL)]);
    let [AttemptOutcome::GivenBack(GivenBack::OverBudget), AttemptOutcome::Completed(Err(error))] =
        ends.as_slice()
    else {
        panic!("{ends:?}")
    };
    assert_eq!((error.kind(), error.code()), (Kind::TooLarge, "transaction_too_large"));
    assert_eq!(keys(&*group.snapshot()), ["read"]);
}

#[test]
fn a_full_lane_turns_away_others_do_not_and_every_submitted_attempt_is_completed_before_the_end() {
    let (group, log) = scripted(&[], &[]);
    let (answer, answers) = channel();
    let attempt = |lane: u8, run: Run| {
        let (log, answer) = (log.clone(), answer.clone());
        Box::new(Try { number: 0, name: "", run, lane: [lane; 16], log, answer })
    };
    let hold = |_: &dyn Reader| {
        let mut writes = WriteBatch::default();
        writes.add(HOLD, Vec::new(), WriteOp::Put(Vec::new()));
        Ok(writes)
    };
    group.submit(attempt(0, hold), LAST).unwrap();
    log.wait_for("holding");
    let mut taken = 1;
    for lane in 1..=4 {
        let refused = loop {
            match group.submit(attempt(lane, WRITE_A.1), LAST) {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((refused.kind(), refused.retry_after_secs()), (Kind::Busy, Some(1)));
        assert_eq!(taken, 1 + usize::from(lane) * WAITING.lane_items);
    }
    assert_eq!(taken, 1 + WAITING.items);
    assert!(group.submit(attempt(5, WRITE_A.1), LAST).is_err());
    log.add("hold no longer".into());
    drop(group);
    drop(answer);
    let settled =
        answers.iter().filter(|(_, end)| matches!(end, AttemptOutcome::Completed(Ok(()))));
    assert_eq!(settled.count(), taken);
    let commits =
        log.lines_without_holds().into_iter().filter(|line| line.starts_with("commit")).count();
    // A group ends early only if it takes long to run, on a machine that is busy.
    let fewest = WAITING.items / MAX_GROUP;
    assert!((fewest..=fewest + 2).contains(&commits), "{commits}");
}

/// Tells when it is dropped, and whether that was in a panic.
struct Dropped(Sender<bool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(std::thread::panicking());
    }
}

#[test]
fn the_last_handle_may_be_dropped_by_an_attempt() {
    let (group, log) = scripted(&[], &[]);
    let (answer, answers) = channel();
    let (dropped, panicked) = channel();
    let group = Arc::new(group);
    let held = (group.clone(), Dropped(dropped));
    let run = move |_: &dyn Reader| {
        let _ = &held;
        let mut writes = one("a");
        writes.add(HOLD, Vec::new(), WriteOp::Put(Vec::new()));
        Ok(writes)
    };
    let attempt =
        Try { number: 0, name: "a", run, lane: Lane::default(), log: log.clone(), answer };
    group.submit(Box::new(attempt), LAST).unwrap();
    drop(group);
    log.add("hold no longer".into());
    assert!(matches!(answers.recv().unwrap().1, AttemptOutcome::Completed(Ok(()))));
    assert!(!panicked.recv().unwrap());
}

/// An attempt that tells how often it has run.
fn counting(
    log: &Log,
    lane: Lane,
    runs: &Arc<AtomicUsize>,
    answer: &Sender<(usize, AttemptOutcome)>,
) -> Box<dyn Attempt> {
    let (runs, log, answer) = (runs.clone(), log.clone(), answer.clone());
    let run = move |reader: &dyn Reader| {
        runs.fetch_add(1, Ordering::Relaxed);
        Ok(one(&format!("saw {}", keys(reader).len())))
    };
    Box::new(Try { number: 0, name: "counted", run, lane, log, answer })
}

/// Submits an attempt whose commit lasts until the log has the line "hold no longer".
fn hold_writer(group: &GroupCommit, log: &Log, answer: &Sender<(usize, AttemptOutcome)>) {
    let run = |_: &dyn Reader| {
        let mut writes = WriteBatch::default();
        writes.add(HOLD, Vec::new(), WriteOp::Put(Vec::new()));
        Ok(writes)
    };
    let (log_of, answer) = (log.clone(), answer.clone());
    let attempt = Try { number: 0, name: "hold", run, lane: Lane::default(), log: log_of, answer };
    group.submit(Box::new(attempt), LAST).unwrap();
    log.wait_for("holding");
}

#[test]
fn a_light_attempt_whose_lane_has_others_ahead_runs_once_on_top_of_them() {
    let (group, log) = scripted(&[], &[]);
    let (answer, answers) = channel();
    hold_writer(&group, &log, &answer);
    let (same, other) = (Arc::default(), Arc::default());
    for _ in 0..3 {
        group.submit(counting(&log, Lane::default(), &same, &answer), LIGHT).unwrap();
    }
    let ran = |runs: &Arc<AtomicUsize>| runs.load(Ordering::Relaxed);
    assert_eq!(ran(&same), 0, "the commit of their lane is not over");
    group.submit(counting(&log, [1; 16], &other, &answer), LIGHT).unwrap();
    assert_eq!(ran(&other), 1, "nothing of its lane is ahead");
    log.add("hold no longer".into());
    drop(group);
    drop(answer);
    assert!(answers.iter().all(|(_, end)| matches!(end, AttemptOutcome::Completed(Ok(())))));
    assert_eq!(ran(&same), 3);
}

#[test]
fn the_writer_runs_attempts_for_a_limited_time_before_it_commits() {
    fn slow(_: &dyn Reader) -> Result<WriteBatch> {
        let begin = Instant::now();
        while begin.elapsed() < MAX_GROUP_TIME {}
        Ok(one("slow"))
    }
    let (group, log) = scripted(&[], &[]);
    let ends = submitted(&group, &log, &[("a", slow, LIGHT), ("b", slow, LIGHT)]);
    assert!(ends.iter().all(|end| matches!(end, AttemptOutcome::Completed(Ok(())))));
    let lines = log.lines_without_holds();
    assert_eq!(lines, ["commit of 1", "a answered", "commit of 1", "b answered"]);
}

#[test]
fn writes_of_attempts_run_by_the_writer_count_towards_the_limit_of_a_group() {
    // As many as the light budget allows; more than a group in all.
    const PART: usize = MAX_GROUP_BYTES / 64;
    fn large(_: &dyn Reader) -> Result<WriteBatch> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let mut writes = WriteBatch::default();
        let key = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
        writes.add("t", key.into(), WriteOp::Put(vec![0; PART]));
        Ok(writes)
    }
    let (group, log) = scripted(&[], &[]);
    let ends = submitted(&group, &log, &[("large", large as Run, LIGHT); 70]);
    assert!(ends.iter().all(|end| matches!(end, AttemptOutcome::Completed(Ok(())))));
    for line in log.lines_without_holds() {
        let writes = line.strip_prefix("commit of ").map(|writes| writes.parse::<usize>().unwrap());
        assert!(writes.is_none_or(|writes| writes <= 64), "{line}");
    }
}
