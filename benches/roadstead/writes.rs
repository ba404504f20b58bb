//! Writing messages, compared with the same server over redb alone; and the processor time of a
//! message, compared with what its parts cost: an answer of hyper, and its rows in redb.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use redb::{Database, Durability, TableDefinition};
use roadstead::store::engine::WriteOp;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::client::{self, Outcome, load};
use crate::fixture::{Fixture, Storage, file, place};
use crate::processor;
use crate::reads::Bare;
use crate::rounds::{self, PROFILE, TIME, figure, median, ratio};
use crate::table::{Row, Target, time};

/// Number of agents that receive messages in turn.
const AGENTS: usize = 16;

/// Requests whose rows share a commit of raw redb.
const GROUP: usize = 512;

/// The page cache of the store.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Measures writes.
pub fn rows() -> Vec<Row> {
    let logged = Fixture::new(AGENTS);
    let plain = Fixture::over(Storage::Redb, AGENTS);
    let raw = Raw::new(&logged);
    let messages = logged.post_messages();
    let bare = Bare::start(logged.address, &messages[0]);
    let mut rows = Vec::new();
    for connections in [64, 256] {
        let outcomes = rounds::run(&mut [
            &mut || load(logged.address, connections, TIME, &messages),
            &mut || load(plain.address, connections, TIME, &plain.post_messages()),
            &mut || load(bare.address, connections, TIME, &messages),
            &mut || raw.run(GROUP, TIME),
        ]);
        rows.push(Row {
            name: format!("POST of a message, {connections} connections"),
            ours: figure(&outcomes[0]),
            baseline: format!("redb alone {}", figure(&outcomes[1])),
            ratio: ratio(&outcomes[0], &outcomes[1]),
            target: Target::AtLeast(2.0),
        });
        let ours = processor_time(&outcomes[0]);
        let parts = processor_time(&outcomes[2]) + processor_time(&outcomes[3]);
        rows.push(Row {
            name: format!("POST of a message, {connections} connections, processor time"),
            ours: time(ours),
            baseline: format!("bare hyper and raw redb {}", time(parts)),
            ratio: ours.as_secs_f64() / parts.as_secs_f64(),
            target: Target::AtMost(1.25),
        });
    }
    rows
}

/// The median of the processor time of a response.
fn processor_time(outcomes: &[Outcome]) -> Duration {
    let secs = outcomes.iter().map(|outcome| outcome.processor.as_secs_f64());
    Duration::from_secs_f64(median(secs))
}

/// Runs writes for a profiler.
pub fn profile() -> Vec<Row> {
    let fixture = Fixture::new(AGENTS);
    eprintln!("{:?}", load(fixture.address, 64, PROFILE, &fixture.post_messages()));
    vec![]
}

/// Plain redb with waiting callers, which share commits as in the server.
struct Raw {
    queue: mpsc::Sender<oneshot::Sender<()>>,
    _place: TempDir,
}

struct Change {
    table: &'static str,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Raw {
    /// An empty file, for the rows of a message to each agent of `fixture`.
    fn new(fixture: &Fixture) -> Self {
        let place = place();
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create(file(&place, "raw.redb"))
            .expect("the disk is good");
        let requests = fixture.post_messages();
        let requests = requests.iter().map(|request| changes(fixture, request)).collect();
        let mut writer = RawWriter { database, requests, written: (0, 0) };
        let (queue, waiting) = mpsc::channel::<oneshot::Sender<()>>();
        std::thread::spawn(move || {
            while let Ok(first) = waiting.recv() {
                let group: Vec<_> = std::iter::once(first).chain(waiting.try_iter()).collect();
                writer.commit(group.len());
                for caller in group {
                    let _ = caller.send(());
                }
            }
        });
        Raw { queue, _place: place }
    }

    /// Runs `callers` concurrent callers for `time`.
    fn run(&self, callers: usize, time: Duration) -> Outcome {
        client::runtime().block_on(async {
            let before = processor::others();
            let start = Instant::now();
            let mut busy = JoinSet::new();
            for _ in 0..callers {
                let queue = self.queue.clone();
                busy.spawn(async move {
                    let mut written = 0;
                    while start.elapsed() < time {
                        let (caller, durable) = oneshot::channel();
                        queue.send(caller).expect("the writer waits");
                        durable.await.expect("the writer answers");
                        written += 1;
                    }
                    written
                });
            }
            let written: u32 = busy.join_all().await.iter().sum();
            Outcome {
                rate: f64::from(written) / start.elapsed().as_secs_f64(),
                processor: processor::others().saturating_sub(before) / written.max(1),
            }
        })
    }
}

struct RawWriter {
    database: Database,
    /// What each of several requests writes, as the server wrote it.
    requests: Vec<Vec<Change>>,
    /// How many requests and how many keys were written.
    written: (usize, u64),
}

impl RawWriter {
    /// Writes a group of requests as the store does: in one commit of two phases with quick repair,
    /// in the order of keys.
    fn commit(&mut self, requests: usize) {
        let mut tables: BTreeMap<&str, BTreeMap<Vec<u8>, &[u8]>> = BTreeMap::new();
        for _ in 0..requests {
            let request = &self.requests[self.written.0 % self.requests.len()];
            self.written.0 += 1;
            for change in request {
                // Every key that a message writes ends in a new id.
                self.written.1 += 1;
                let mut key = change.key.clone();
                let id = key.len() - 16;
                key[id + 8..].copy_from_slice(&self.written.1.to_be_bytes());
                tables.entry(change.table).or_default().insert(key, &change.value);
            }
        }
        let mut write = self.database.begin_write().expect("the disk is good");
        write.set_durability(Durability::Immediate).expect("no savepoint is open");
        write.set_two_phase_commit(true);
        write.set_quick_repair(true);
        for (name, changes) in tables {
            let table = TableDefinition::<&[u8], &[u8]>::new(name);
            let mut table = write.open_table(table).expect("the disk is good");
            for (key, value) in changes {
                let before = table.insert(key.as_slice(), value).expect("the disk is good");
                assert!(before.is_none(), "every key is new");
            }
        }
        write.commit().expect("the disk is good");
    }
}

/// What one request writes.
fn changes(fixture: &Fixture, request: &[u8]) -> Vec<Change> {
    *fixture.batches.lock().expect("nobody panics holding it") = Some(Vec::new());
    fixture.ask(request);
    let batches = fixture.batches.lock().expect("nobody panics holding it").take();
    // The server may have had something to write of its own meanwhile.
    let batch = batches
        .into_iter()
        .flatten()
        .map(|(batch, _)| batch)
        .find(|batch| batch.tables.contains_key("messages"))
        .expect("a message was written");
    let changes = batch.tables.into_iter().flat_map(|(table, changes)| {
        changes.into_iter().map(move |(key, op)| match op {
            WriteOp::Insert(value) => Change { table, key, value },
            _ => panic!("{table}: a message only adds"),
        })
    });
    changes.collect()
}
