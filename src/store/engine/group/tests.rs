//! Group commit over a disk that does as it is told: batches, failures, opening again.

use std::sync::Condvar;
use std::sync::mpsc::{Sender, channel};

use super::super::{Each, Memory, Op, Order, Span};
use super::*;
use crate::base::Kind;

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
    fn wait_for(&self, line: &str) {
        let lines = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(lines, |lines| !lines.iter().any(|l| l == line)).unwrap());
    }
}

/// Memory whose next commits and openings go as told.
struct Told {
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
    UnknownButKept,
    UnknownAndLost,
    Panics,
}

fn told(commits: &[Go], opens: &[bool]) -> (Group, Log) {
    let log = Log::default();
    let reversed = |list: &[Go]| list.iter().rev().copied().collect();
    let disk = Told {
        memory: Memory::default(),
        commits: reversed(commits),
        opens: opens.iter().rev().copied().collect(),
        log: log.clone(),
    };
    (Group::start(disk, Arc::default()).unwrap(), log)
}

impl Disk for Told {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        self.memory.snapshot()
    }
    fn commit(&mut self, writes: &Writes) -> Commit {
        let how = self.commits.pop().unwrap_or(Go::Kept);
        self.log.add(format!("commit of {}", writes.len()));
        let kept = match how {
            Go::Refused => return Commit::Refused(Error::busy("full", "full", 1)),
            Go::Panics => panic!("as told"),
            Go::UnknownAndLost => None,
            Go::Kept | Go::UnknownButKept => Some(self.memory.commit(writes)),
        };
        match kept {
            Some(done) if how == Go::Kept => done,
            _ => Commit::Unknown(Error::internal("as told")),
        }
    }
    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        let opens = self.opens.pop().unwrap_or(true);
        self.log.add(format!("opened again: {opens}"));
        match opens {
            true => self.memory.snapshot(),
            false => Err(Error::internal("as told")),
        }
    }
}

/// An attempt that does as it is written.
struct Try<F> {
    name: &'static str,
    run: F,
    log: Log,
    answer: Sender<(&'static str, Result<()>)>,
}

impl<F: FnMut(&dyn Reader) -> Result<Writes> + Send> Attempt for Try<F> {
    fn run(&mut self, reader: &dyn Reader) -> Result<Writes> {
        (self.run)(reader)
    }
    fn settle(self: Box<Self>, end: Result<()>) {
        self.log.add(format!("{} answered", self.name));
        let _ = self.answer.send((self.name, end));
    }
}

fn one(key: &str) -> Writes {
    let mut writes = Writes::default();
    writes.add("t", key.into(), Op::Put(b"value".to_vec()));
    writes
}

fn keys(reader: &dyn Reader) -> Vec<String> {
    let mut keys = Vec::new();
    let each: &mut Each = &mut |key, _| {
        keys.push(String::from_utf8(key.to_vec()).unwrap());
        Ok(super::super::Step::More)
    };
    reader.scan("t", Span { from: &[], to: None }, Order::Ascending, each).unwrap();
    keys
}

type Run = fn(&dyn Reader) -> Result<Writes>;

/// Hands in attempts that all wait when the writer comes to them, so that they share a commit;
/// gives their answers in the order they were given in.
fn together(group: &Group, log: &Log, runs: &[(&'static str, Run)]) -> Vec<Result<()>> {
    let (answer, answers) = channel();
    let (go, wait) = channel::<()>();
    let hold = move |_: &dyn Reader| {
        wait.recv().unwrap();
        Ok(Writes::default())
    };
    let holding = Try { name: "holding", run: hold, log: log.clone(), answer: answer.clone() };
    group.submit(Box::new(holding)).unwrap();
    for (name, run) in runs {
        let attempt = Try { name, run: *run, log: log.clone(), answer: answer.clone() };
        group.submit(Box::new(attempt)).unwrap();
    }
    go.send(()).unwrap();
    drop(answer);
    let answers: Vec<_> = answers.iter().collect();
    assert_eq!(answers[0].0, "holding");
    let names: Vec<_> = answers[1..].iter().map(|(name, _)| *name).collect();
    assert_eq!(names, runs.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    answers.into_iter().skip(1).map(|(_, end)| end).collect()
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
    _ => Ok(Writes::default()),
});

#[test]
fn a_group_shares_a_commit_and_nobody_is_answered_before_it() {
    let (group, log) = told(&[], &[]);
    let ends = together(&group, &log, &[WRITE_A, REFUSE_BECAUSE_OF_A, WRITE_B]);
    assert_eq!(codes(ends), ["ok", "a_is_there", "ok"]);
    assert_eq!(
        log.lines(),
        ["commit of 2", "holding answered", "a answered", "refused answered", "b answered"]
    );
    assert_eq!(keys(&*group.snapshot()), ["a", "b"]);
}

#[test]
fn who_was_refused_because_of_a_change_that_did_not_last_is_not_told_so() {
    let (group, log) = told(&[Go::UnknownAndLost], &[]);
    let ends = together(&group, &log, &[WRITE_A, REFUSE_BECAUSE_OF_A]);
    assert_eq!(codes(ends), ["outcome_unknown", "outcome_unknown"]);
    assert_eq!(keys(&*group.snapshot()), [""; 0]);
}

#[test]
fn a_panic_in_an_attempt_is_its_own_500_and_keeps_nothing_of_it() {
    let (group, log) = told(&[], &[]);
    let ends = together(&group, &log, &[WRITE_A, PANIC, WRITE_B]);
    assert_eq!(ends[1].as_ref().unwrap_err().kind(), Kind::Internal);
    assert_eq!(codes(ends), ["ok", "internal", "ok"]);
    assert_eq!(codes(together(&group, &log, &[PANIC, REFUSE])), ["internal", "no"]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A])), ["ok"]);
}

#[test]
fn after_an_unknown_outcome_the_disk_is_opened_again_before_anybody_is_told() {
    for how in [Go::UnknownButKept, Go::UnknownAndLost, Go::Panics] {
        let (group, log) = told(&[how], &[]);
        let ends = together(&group, &log, &[WRITE_A]);
        let error = ends[0].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Busy, "outcome_unknown"));
        assert_eq!(log.lines()[..2], ["commit of 1", "opened again: true"]);
        // Whoever looks sees what is there.
        let kept = how == Go::UnknownButKept;
        assert_eq!(keys(&*group.snapshot()).len(), usize::from(kept));
        assert_eq!(codes(together(&group, &log, &[WRITE_B])), ["ok"]);
    }
}

#[test]
fn while_the_disk_cannot_be_opened_writes_are_refused_and_reads_go_on() {
    let (group, log) = told(&[Go::Kept, Go::UnknownAndLost], &[false, false, true]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A])), ["ok"]);
    assert_eq!(codes(together(&group, &log, &[WRITE_B])), ["outcome_unknown"]);
    let (answer, answers) = channel();
    let attempt = Try { name: "b", run: WRITE_B.1, log: log.clone(), answer };
    group.submit(Box::new(attempt)).unwrap();
    let error = answers.recv().unwrap().1.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Busy, "read_only"));
    assert_eq!(keys(&*group.snapshot()), ["a"]);
    assert_eq!(codes(together(&group, &log, &[WRITE_B])), ["ok"]);
}

#[test]
fn the_disk_is_opened_again_without_anybody_asking() {
    let (group, log) = told(&[Go::UnknownButKept], &[false, true]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A])), ["outcome_unknown"]);
    log.wait_for("opened again: true");
    together(&group, &log, &[]); // The writer has come back from it.
    assert_eq!(keys(&*group.snapshot()), ["a"]);
}

#[test]
fn a_refused_commit_is_everybodys_answer_and_the_next_goes_on() {
    let (group, log) = told(&[Go::Refused], &[]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A, REFUSE])), ["full", "full"]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A, REFUSE])), ["ok", "no"]);
    assert!(!log.lines().iter().any(|line| line.starts_with("opened")));
}

#[test]
fn what_is_too_much_for_one_commit_goes_into_the_next() {
    const LARGE: (&str, Run) = ("large", |_| {
        let mut writes = one("large");
        writes.add("t", b"large".to_vec(), Op::Put(vec![0; MAX_GROUP_BYTES]));
        Ok(writes)
    });
    let (group, log) = told(&[], &[]);
    assert_eq!(codes(together(&group, &log, &[WRITE_A, LARGE, WRITE_B])), ["ok", "ok", "ok"]);
    let commits = |log: &Log| {
        log.lines().into_iter().filter(|line| line.starts_with("commit")).collect::<Vec<_>>()
    };
    assert_eq!(commits(&log), ["commit of 2", "commit of 1"]);

    let (group, log) = told(&[], &[]);
    together(&group, &log, &[WRITE_A; MAX_GROUP + 1]);
    assert_eq!(commits(&log).len(), 2);
}

#[test]
fn a_full_queue_turns_away_and_everything_handed_in_is_settled_before_the_end() {
    let (group, log) = told(&[], &[]);
    let (answer, answers) = channel();
    let (go, wait) = channel::<()>();
    let hold = move |_: &dyn Reader| {
        wait.recv().unwrap();
        Ok(Writes::default())
    };
    group
        .submit(Box::new(Try { name: "", run: hold, log: log.clone(), answer: answer.clone() }))
        .unwrap();
    let mut taken = 1;
    let refused = loop {
        let attempt = Try { name: "", run: WRITE_A.1, log: log.clone(), answer: answer.clone() };
        match group.submit(Box::new(attempt)) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((refused.kind(), refused.retry_after_secs()), (Kind::Busy, Some(1)));
    assert!(taken >= MAX_WAITING);
    go.send(()).unwrap();
    drop(group);
    drop(answer);
    assert_eq!(answers.iter().filter(|(_, end)| end.is_ok()).count(), taken);
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
    let (group, log) = told(&[], &[]);
    let (answer, answers) = channel();
    let (dropped, panicked) = channel();
    let (go, wait) = channel::<()>();
    let group = Arc::new(group);
    let held = (group.clone(), Dropped(dropped));
    let run = move |_: &dyn Reader| {
        let _ = &held;
        wait.recv().unwrap();
        Ok(one("a"))
    };
    group.submit(Box::new(Try { name: "a", run, log: log.clone(), answer })).unwrap();
    drop(group);
    go.send(()).unwrap();
    assert!(answers.recv().unwrap().1.is_ok());
    assert!(!panicked.recv().unwrap());
}

#[test]
fn as_many_as_the_last_time_are_waited_for_and_no_more() {
    let attempt = || -> Box<dyn Attempt> {
        let (log, answer) = (Log::default(), channel().0);
        Box::new(Try { name: "", run: WRITE_A.1, log, answer })
    };
    let (queue, waiting) = sync_channel(1);
    let long = Duration::from_secs(3600);
    let last = |attempts, took| Last { attempts, took, ended: Instant::now() };

    std::thread::scope(|scope| {
        scope.spawn(|| queue.send(attempt()).unwrap());
        assert!(last(2, long).next(&waiting, 1).is_some(), "one of two is still missing");
    });
    assert!(last(2, long).next(&waiting, 2).is_none(), "two are two");
    assert!(last(2, Duration::ZERO).next(&waiting, 1).is_none(), "the commit took no time");
    queue.send(attempt()).unwrap();
    assert!(last(0, long).next(&waiting, 1).is_some(), "who waits is taken");
}
