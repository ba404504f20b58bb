//! The storage engine alone: commits into redb with its log in front of it, compared with redb without
//! one and with what the disk itself does; and what a checkpoint and a start cost.
//!
//! A request writes 6 records and 12 index entries, half of which are scattered, some 2.5 KB in all,
//! as publishing does. Callers that share a commit are one batch.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use roadstead::store::engine::{
    CommitOutcome, LocalStorage, LogBeside, LogSettings, LoggedRedb, Redb, WriteBatch, WriteOp,
};

use crate::fixture::{file, place};
use crate::rounds::median;
use crate::table::{Row, Target, time};

const RECORDS: [&str; 6] = ["r0", "r1", "r2", "r3", "r4", "r5"];
const GROWING: [&str; 6] = ["g0", "g1", "g2", "g3", "g4", "g5"];
const SCATTERED: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];

/// How long the 99th percentiles are measured: a thousand commits.
const COMMITS_TIME: Duration = Duration::from_secs(10);

/// How long one measurement in a short run takes; there are [`ROUNDS`] of each.
const TIME: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

/// The rows of requests, each new.
struct Requests {
    number: u64,
    random: u64,
}

impl Requests {
    fn batch(&mut self, requests: usize) -> WriteBatch {
        let mut writes = WriteBatch::default();
        for _ in 0..requests {
            self.number += 1;
            let id = [[7; 24].as_slice(), &self.number.to_be_bytes()].concat();
            for table in RECORDS {
                writes.add(table, id.clone(), WriteOp::Insert(vec![b'x'; 250]));
            }
            for table in GROWING {
                let key = [&id, [3; 16].as_slice()].concat();
                writes.add(table, key, WriteOp::Insert(vec![1; 16]));
            }
            for table in SCATTERED {
                self.random = self.random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                let key = [[7; 16].as_slice(), &self.random.to_be_bytes(), &id].concat();
                writes.add(table, key, WriteOp::Insert(vec![1; 16]));
            }
        }
        writes
    }
}

fn tables() -> Vec<&'static str> {
    [RECORDS, GROWING, SCATTERED].concat()
}

/// Storage with its requests, and when each commit began and how long it took.
struct Engine<S> {
    storage: S,
    requests: Requests,
}

impl<S: LocalStorage> Engine<S> {
    /// With so many requests stored before.
    fn new(storage: S, stored: usize) -> Self {
        let mut engine = Engine { storage, requests: Requests { number: 0, random: 1 } };
        for _ in 0..stored.div_ceil(1000) {
            engine.commit(1000);
        }
        engine
    }

    fn commit(&mut self, requests: usize) -> Duration {
        let writes = self.requests.batch(requests);
        let begun = Instant::now();
        match self.storage.commit(&writes) {
            CommitOutcome::Done(_) => begun.elapsed(),
            CommitOutcome::Refused(error) | CommitOutcome::Unknown(error) => panic!("{error:?}"),
        }
    }

    /// Returns the requests a second of `callers` that share commits.
    fn rate(&mut self, callers: usize, time: Duration) -> f64 {
        let (begun, mut written) = (Instant::now(), 0);
        while begun.elapsed() < time {
            self.commit(callers);
            written += callers;
        }
        written as f64 / begun.elapsed().as_secs_f64()
    }

    /// Returns the 99th percentile of commits of `callers` that come at a rate.
    fn p99(&mut self, callers: usize, rate: f64, time: Duration) -> Duration {
        let pause = Duration::from_secs_f64(callers as f64 / rate);
        let (begun, mut next) = (Instant::now(), Instant::now());
        let mut times = Vec::new();
        while begun.elapsed() < time {
            times.push(self.commit(callers));
            next += pause;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        times.sort();
        times[times.len() * 99 / 100]
    }
}

/// A log of this size.
fn logged(path: &Path, settings: LogSettings) -> LoggedRedb {
    let open = if path.exists() { Redb::open } else { Redb::create };
    let redb = open(path, tables()).expect("the disk is good");
    LoggedRedb::over(redb, Box::new(LogBeside::database(path)), settings).expect("the disk is good")
}

/// Returns the synced appends of 1 KB a second of the disk, into blocks that were written before.
pub fn appends(path: &Path, time: Duration) -> f64 {
    const LEN: u64 = 32 * 1024 * 1024;
    let file = File::create(path).expect("a new file");
    file.write_all_at(&vec![1; LEN as usize], 0).expect("the disk is good");
    file.sync_all().expect("the disk is good");
    let (begun, mut appended) = (Instant::now(), 0u64);
    while begun.elapsed() < time {
        file.write_all_at(&[2; 1024], appended * 1024 % LEN).expect("the disk is good");
        file.sync_data().expect("the disk is good");
        appended += 1;
    }
    appended as f64 / begun.elapsed().as_secs_f64()
}

fn rate(rate: f64) -> String {
    format!("{rate:.0}/s")
}

/// Measures commits.
pub fn rows(quick: bool) -> Vec<Row> {
    let place = place();
    let stored = if quick { 20_000 } else { 100_000 };
    let plain = Redb::create(&file(&place, "plain.redb"), tables()).expect("a new file");
    let mut plain = Engine::new(plain, stored);
    let with_log = LoggedRedb::create(&file(&place, "logged.redb"), tables()).expect("a new file");
    let mut with_log = Engine::new(with_log, stored);
    let mut rows = Vec::new();
    let mut rate_of_16 = 0.0;
    for (callers, wanted) in [(1, 4.0), (16, 2.5), (128, 1.5)] {
        let (mut ours, mut old, mut disk) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            disk.push(appends(&file(&place, "appends"), TIME / 4));
            ours.push(with_log.rate(callers, TIME));
            old.push(plain.rate(callers, TIME));
        }
        let [ours, old, disk] = [ours, old, disk].map(|rates| median(rates.into_iter()));
        if callers == 16 {
            rate_of_16 = ours;
        }
        let mut row = |baseline: &str, other: f64, wanted| {
            rows.push(Row {
                name: format!("commits of the engine, {callers} callers"),
                ours: rate(ours),
                baseline: format!("{baseline} {}", rate(other)),
                ratio: ours / other,
                target: Target::AtLeast(wanted),
            });
        };
        row("redb alone", old, wanted);
        if callers == 1 {
            row("1 KB appends, synced", disk, 0.5);
        }
    }
    let (burst, long) = if quick { (5, 20) } else { (30, 300) };
    for (name, secs, wanted) in [("burst", burst, 4.0), ("sustained", long, 2.5)] {
        let ours = with_log.rate(16, Duration::from_secs(secs));
        let old = plain.rate(16, Duration::from_secs(secs.min(30)));
        rows.push(Row {
            name: format!("commits of the engine, 16 callers, {name} ({secs} s)"),
            ours: rate(ours),
            baseline: format!("redb alone {}", rate(old)),
            ratio: ours / old,
            target: Target::AtLeast(wanted),
        });
    }
    drop((with_log, plain));
    rows.push(during_checkpoints(&file(&place, "logged.redb"), rate_of_16 / 4.0));
    rows.push(start(&file(&place, "started.redb")));
    rows
}

/// The 99th percentile of commits at a quarter of the rate of 16 callers, with and without
/// checkpoints.
fn during_checkpoints(path: &Path, at: f64) -> Row {
    let never = LogSettings {
        part_bytes: usize::MAX,
        checkpoint_bytes: usize::MAX,
        max_age: Duration::MAX,
        ..LogSettings::default()
    };
    // One after the other, all the time.
    let always = LogSettings { checkpoint_bytes: 1024 * 1024, ..LogSettings::default() };
    let p99 = |settings, seed: u64| {
        let mut engine = Engine::new(logged(path, settings), 0);
        // Its rows are none that are stored.
        engine.requests = Requests { number: seed << 40, random: seed << 20 };
        engine.p99(16, at, COMMITS_TIME)
    };
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS as u64 {
        for (nth, settings) in [never, always].into_iter().enumerate() {
            let seed = 2 + round * 2 + nth as u64;
            times[nth].push(p99(settings, seed).as_secs_f64());
        }
    }
    let [without, with] = times.map(|times| Duration::from_secs_f64(median(times.into_iter())));
    Row {
        name: "a commit during checkpoints, p99".into(),
        ours: time(with),
        baseline: format!("without {}", time(without)),
        ratio: with.as_secs_f64() / without.as_secs_f64(),
        target: Target::AtMost(3.0),
    }
}

/// The time to open a database whose log has 60 MB.
fn start(path: &Path) -> Row {
    const LOG_BYTES: usize = 60_000_000;
    let large = LogSettings {
        part_bytes: usize::MAX,
        checkpoint_bytes: LOG_BYTES / 2,
        ..LogSettings::default()
    };
    // As a server that is killed leaves it.
    let mut engine = Engine::new(logged(path, large).for_inspection(), 0);
    for _ in 0..LOG_BYTES / (16 * 2800) {
        engine.commit(16);
    }
    drop(engine);
    let bytes: u64 = ["wal-1", "wal-2"]
        .iter()
        .filter_map(|ending| path.with_extension(ending).metadata().ok())
        .map(|file| file.len())
        .sum();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let opened = logged(path, large).for_inspection();
        times.push(begun.elapsed().as_secs_f64());
        drop(opened);
    }
    let opened = Duration::from_secs_f64(median(times.into_iter()));
    Row {
        name: format!("opening with a log of {} MB", bytes / 1_000_000),
        ours: time(opened),
        baseline: "300 ms".into(),
        ratio: opened.as_secs_f64() / 0.3,
        target: Target::AtMost(1.0),
    }
}
