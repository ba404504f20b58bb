//! Light attempts that wait for each other share a transaction, and each has its own end.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use roadstead::base::{Error, Result};
use roadstead::store::engine::conformance::TABLE;
use roadstead::store::engine::postgres::{Postgres, PostgresSettings};
use roadstead::store::engine::{
    Attempt, Budget, Engine, GivenBack, GroupCommit, Memory, OnConflict, Reader, Terms, WriteBatch,
    WriteOp,
};
use roadstead::store::{Listener, Signals, Topic};

use super::{Run, commit, get, put};
use crate::open;
use crate::postgres_server::{new_schema, shared};

const LIGHT: Terms = Terms { budget: Budget::LIGHT, on_conflict: OnConflict::GiveBack };

/// How an attempt ended.
#[derive(Debug)]
enum End {
    Completed(Result<()>),
    GivenBack(GivenBack),
}

impl End {
    fn is_ok(&self) -> bool {
        matches!(self, End::Completed(Ok(())))
    }

    fn code(&self) -> &'static str {
        match self {
            End::Completed(Err(error)) => error.code(),
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// A light attempt.
struct Light(Run, Sender<End>);

impl Attempt for Light {
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        (self.0)(reader)
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        self.1.send(End::Completed(end)).unwrap();
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        self.1.send(End::GivenBack(why)).unwrap();
    }
}

fn submit(
    engine: &Postgres,
    run: impl FnMut(&dyn Reader) -> Result<WriteBatch> + Send + 'static,
) -> Receiver<End> {
    let (end, ended) = channel();
    engine.submit(Box::new(Light(Box::new(run), end)), LIGHT).unwrap();
    ended
}

/// Has attempts wait while one of their lane runs, so that they are the next group; returns their ends.
fn together(engine: &Postgres, attempts: Vec<Run>) -> Vec<End> {
    let (started, is_started) = channel();
    let (release, is_released) = channel();
    let before = submit(engine, move |_| {
        started.send(()).unwrap();
        is_released.recv().unwrap();
        Ok(WriteBatch::default())
    });
    is_started.recv().unwrap();
    let ends: Vec<_> = attempts.into_iter().map(|run| submit(engine, run)).collect();
    release.send(()).unwrap();
    assert!(before.recv().unwrap().is_ok());
    ends.into_iter().map(|end| end.recv().unwrap()).collect()
}

fn number(reader: &dyn Reader, key: &str) -> u64 {
    get(reader, key.as_bytes()).map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

/// Increments the counter, and writes a row for its new value.
fn count(reader: &dyn Reader) -> WriteBatch {
    let next = number(reader, "counter") + 1;
    let mut writes = put(&[("counter", &next.to_be_bytes())]);
    writes.add(TABLE, format!("row {next}").into_bytes(), WriteOp::Insert(Vec::new()));
    writes
}

fn counts() -> Run {
    Box::new(|reader| Ok(count(reader)))
}

/// Counts, and keeps the new value of the counter.
fn numbered(own: Arc<AtomicU64>) -> Run {
    Box::new(move |reader| {
        own.store(number(reader, "counter") + 1, Ordering::SeqCst);
        Ok(count(reader))
    })
}

/// Keeps a copy of the attempt's number of runs.
fn counted(
    mut run: impl FnMut(&dyn Reader, usize) -> Result<WriteBatch> + Send + 'static,
) -> (Run, Arc<AtomicUsize>) {
    let runs = Arc::<AtomicUsize>::default();
    let own = runs.clone();
    (Box::new(move |reader| run(reader, own.fetch_add(1, Ordering::SeqCst))), runs)
}

/// Fails unless the counter is at `value`, and there is a row for each value and none beyond.
fn assert_counted(engine: &Postgres, value: u64) {
    let reader = engine.snapshot();
    assert_eq!(number(&*reader, "counter"), value);
    for nth in 1..=value + 1 {
        let row = get(&*reader, format!("row {nth}").as_bytes());
        assert_eq!(row.is_some(), nth <= value, "{nth}");
    }
}

#[test]
fn a_group_reads_writes_and_commits_once_and_each_of_it_has_its_own_end() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    commit(&engine, |reader| Ok(count(reader))).unwrap();
    let refused: Run = Box::new(|reader| {
        let seen = number(reader, "counter");
        Err(Error::busy(if seen == 4 { "saw_the_others" } else { "saw_none" }, "no", 1))
    });
    let panics: Run = Box::new(|reader| {
        count(reader);
        panic!("on purpose");
    });
    let ignores: Run = Box::new(|reader| {
        assert!(reader.get("in no catalog", b"x", &mut |_| Ok(())).is_err());
        Ok(count(reader))
    });
    let too_much: Run = Box::new(|reader| {
        let writes = count(reader);
        reader.charge_write(Budget::LIGHT.written_bytes + 1).map(|()| writes)
    });
    let changes_nothing: Run = Box::new(|_| Ok(WriteBatch::default()));
    let before = engine.meters().round_trips.value();
    // The panic last: to print it takes longer than others wait for.
    let attempts = vec![
        counts(),
        counts(),
        counts(),
        refused,
        ignores,
        too_much,
        changes_nothing,
        counts(),
        panics,
    ];
    let ends = together(&engine, attempts);
    // That of the read and that of the writes with their commit; again if this machine was busy for so long that
    // the others did not get to run in the same. Each alone would be 12 or more.
    let trips = engine.meters().round_trips.value() - before;
    assert!(trips < 7, "{trips}");
    for nth in [0, 1, 2, 6, 7] {
        assert!(ends[nth].is_ok(), "{nth}: {ends:?}");
    }
    assert_eq!(ends[3].code(), "saw_the_others");
    assert_eq!([ends[4].code(), ends[8].code()], ["internal"; 2], "{ends:?}");
    assert!(matches!(ends[5], End::GivenBack(GivenBack::OverBudget)), "{ends:?}");
    assert_counted(&engine, 5);
    assert_eq!(engine.meters().conflicts.value(), 0);
}

#[test]
fn one_whose_writes_the_server_refuses_does_no_harm_to_its_group() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    let bad: Run = Box::new(|reader| {
        let mut writes = count(reader);
        // Too long for an index, however it is compressed.
        let key = (0..9_000_u64)
            .flat_map(|n| n.wrapping_mul(n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        writes.add(TABLE, key.collect(), WriteOp::Put(Vec::new()));
        Ok(writes)
    });
    let ends = together(&engine, vec![counts(), counts(), bad, counts()]);
    let is_ok: Vec<_> = ends.iter().map(End::is_ok).collect();
    assert_eq!(is_ok, [true, true, false, true], "{ends:?}");
    assert_eq!(ends[2].code(), "internal");
    assert_counted(&engine, 3);
}

#[test]
fn one_that_reads_for_long_leaves_its_group_and_is_the_first_of_the_next() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    let (later, other) = (Arc::new(Mutex::new(None)), engine.clone());
    let (submitted, numbers) = (later.clone(), [(); 3].map(|()| Arc::<AtomicU64>::default()));
    let [own, next, last] = numbers.clone();
    let (slow, runs) = counted(move |reader, run| {
        if run == 0 {
            // Not before those that wait already.
            *submitted.lock().unwrap() = Some(submit(&other, numbered(last.clone())));
            for nth in 0.. {
                reader.get(TABLE, format!("absent {nth}").as_bytes(), &mut |_| Ok(()))?;
            }
        }
        numbered(own.clone())(reader)
    });
    let ends = together(&engine, vec![counts(), slow, numbered(next)]);
    assert!(ends.iter().all(End::is_ok), "{ends:?}");
    let later = later.lock().unwrap().take().unwrap();
    assert!(later.recv().unwrap().is_ok());
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(numbers.map(|number| number.load(Ordering::SeqCst)), [2, 3, 4]);
    assert_counted(&engine, 4);
}

/// Counts, and says when it is completed how many wait.
struct Looks(Arc<Postgres>, Sender<u64>);

impl Attempt for Looks {
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        Ok(count(reader))
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        end.unwrap();
        self.1.send(self.0.meters().queued.value()).unwrap();
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        panic!("given back: {why:?}");
    }
}

#[test]
fn those_that_a_group_does_not_get_to_are_in_the_queue_while_it_is_committed() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    let (looks, seen) = channel();
    let (started, is_started) = channel();
    let (release, is_released) = channel();
    let before = submit(&engine, move |_| {
        started.send(()).unwrap();
        is_released.recv().unwrap();
        Ok(WriteBatch::default())
    });
    is_started.recv().unwrap();
    engine.submit(Box::new(Looks(engine.clone(), looks)), LIGHT).unwrap();
    let (slow, _) = counted(|reader, run| {
        for nth in 0..if run == 0 { u64::MAX } else { 0 } {
            reader.get(TABLE, format!("absent {nth}").as_bytes(), &mut |_| Ok(()))?;
        }
        Ok(count(reader))
    });
    let others = [slow, counts(), counts()].map(|run| submit(&engine, run));
    release.send(()).unwrap();
    assert!(before.recv().unwrap().is_ok());
    assert_eq!(seen.recv().unwrap(), 3);
    for other in others {
        assert!(other.recv().unwrap().is_ok());
    }
    assert_counted(&engine, 4);
}

#[test]
fn all_of_a_group_run_again_after_a_conflict() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    let (engine, second) = (open(server, &schema, None), open(server, &schema, None));
    commit(&engine, |reader| Ok(count(reader))).unwrap();
    let (overtaken, runs) = counted(move |reader, run| {
        let writes = count(reader);
        if run == 0 {
            commit(&second, |reader| Ok(count(reader))).unwrap();
        }
        Ok(writes)
    });
    let (other, other_runs) = counted(|reader, _| Ok(count(reader)));
    let ends = together(&engine, vec![other, overtaken, counts()]);
    assert!(ends.iter().all(End::is_ok), "{ends:?}");
    assert_eq!([&runs, &other_runs].map(|runs| runs.load(Ordering::SeqCst)), [2, 2]);
    assert_counted(&engine, 5);
}

#[test]
fn who_waits_for_a_group_sees_what_was_stored_since_that_began() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    let (has_read, is_read) = channel();
    let (release, is_released) = channel();
    let (first, _) = counted(move |reader, run| {
        let seen = number(reader, "counter");
        // It may conflict with what is beside it, as their rows are in one page.
        if run == 0 {
            has_read.send(seen).unwrap();
            is_released.recv().unwrap();
        }
        Ok(put(&[("first", b"")]))
    });
    let first = submit(&engine, first);
    assert_eq!(is_read.recv().unwrap(), 0);
    // Beside it, and acknowledged.
    commit(&engine, |reader| Ok(count(reader))).unwrap();
    let (sees, seen) = channel();
    let second = submit(&engine, move |reader| {
        sees.send(number(reader, "counter")).unwrap();
        Ok(WriteBatch::default())
    });
    release.send(()).unwrap();
    assert!(first.recv().unwrap().is_ok() && second.recv().unwrap().is_ok());
    assert_eq!(seen.recv().unwrap(), 1);
}

/// Changes a topic, and says when it is completed whether others have heard of that.
struct Listens(Listener, Sender<bool>);

const TOPIC: Topic = Topic::from_u128(7);

impl Attempt for Listens {
    fn run(&mut self, _: &dyn Reader) -> Result<WriteBatch> {
        Ok(WriteBatch { topics: vec![TOPIC], ..put(&[("listened", b"")]) })
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        end.unwrap();
        let Listens(mut listener, is_heard) = *self;
        let heard = pin!(listener.notified()).poll(&mut Context::from_waker(Waker::noop()));
        is_heard.send(heard.is_ready()).unwrap();
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        panic!("given back: {why:?}");
    }
}

#[tokio::test]
async fn others_hear_of_a_commit_once_its_attempts_are_completed() {
    let Some(server) = shared() else { return };
    let signals = [Arc::<Signals>::default(), Arc::default()];
    let settings = PostgresSettings {
        schema: Some(new_schema()),
        ..PostgresSettings::new(server.parsed_url(), vec![TABLE])
    };
    let engines: [Box<dyn Engine>; 2] = [
        Box::new(Postgres::open(settings, signals[0].clone(), &|_| {}).unwrap()),
        Box::new(GroupCommit::start(Memory::default(), signals[1].clone()).unwrap()),
    ];
    for (engine, signals) in engines.iter().zip(signals) {
        let mut listener = signals.subscribe(TOPIC);
        let (hears, is_heard) = channel();
        engine.submit(Box::new(Listens(signals.subscribe(TOPIC), hears)), LIGHT).unwrap();
        assert!(!is_heard.recv().unwrap());
        listener.notified().await;
    }
}
