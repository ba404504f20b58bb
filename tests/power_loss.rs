//! What a failing disk and power cuts may do to the store: nothing that was acknowledged is lost
//! or changed, nothing is half done, every index is consistent, and writes continue in the same process.
//!
//! `ROADSTEAD_TEST_CYCLES` sets how many power cuts are tried (500 by default). What fails names
//! its seed; `ROADSTEAD_TEST_SEED` runs that one alone (with threads it is not the same each time).
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

mod disk;
#[allow(dead_code)] // A part of it is enough here.
#[path = "tools/optional.rs"]
mod optional;
mod random;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use disk::{Fault, SimDisk};
use optional::{CANNOT_MOUNT, needs_root, run, works};
use random::{Random, number_from};
use records::*;
use redb::StorageBackend as _;
use roadstead::base::{Error, Kind, Result};
use roadstead::store::engine::{
    LogBeside, LogFile, LogFiles, LogPlace, LogSettings, LoggedRedb, Redb,
};
use roadstead::store::{ListSource, Store, Tx};

// ── What is written ──────────────────────────────────────────────────────────

#[derive(Clone, Debug)]
enum Change {
    Put(Task),
    Remove(u32),
    PutAccount(Account),
}

/// One of forty ids, which are scattered: of what is new, some is before all that was there.
fn id(random: &mut Random) -> u32 {
    (random.below(40) as u32).wrapping_mul(0x9e37_79b1)
}

/// A transaction of one to five changes, some of them of several pages.
fn transaction(random: &mut Random, number: usize) -> (u8, Vec<Change>) {
    let org = random.below(2) as u8;
    let changes = (0..1 + random.below(5))
        .map(|_| match random.below(10) {
            0..6 => {
                let id = id(random);
                let len = if random.one_in(20) { 9000 } else { random.below(600) };
                Change::Put(Task {
                    id,
                    slug: random.one_in(2).then(|| format!("slug-{id}-{}", random.below(3))),
                    state: random.below(3) as u8,
                    assignee: random.one_in(2).then(|| random.one_in(2).then_some(7)),
                    text: format!("{number} {}", "x".repeat(len)),
                })
            }
            6..9 => Change::Remove(id(random)),
            _ => {
                let name = format!("account-{}", random.below(5));
                let email = format!("{name}@{number}.example");
                Change::PutAccount(Account { name, email, admin: random.one_in(2) })
            }
        })
        .collect();
    (org, changes)
}

fn write(store: &Store, (owner, changes): (u8, Vec<Change>)) -> Result<()> {
    store.write_blocking(org(owner), move |tx| {
        changes.iter().try_for_each(|change| apply(tx, change))
    })
}

fn apply(tx: &mut Tx, change: &Change) -> Result<()> {
    match change {
        Change::Put(task) => tx.put(task),
        Change::PutAccount(account) => tx.put(account),
        Change::Remove(id) => match tx.get::<Task>(id)? {
            Some(task) => tx.remove(&task),
            None => Ok(()),
        },
    }
}

/// Everything that is stored, every value of it.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    tasks: BTreeMap<(u8, u32), Task>,
    accounts: BTreeMap<String, Account>,
}

impl State {
    fn of(store: &Store) -> Result<State> {
        let mut state = State::default();
        for owner in 0..2 {
            let tasks =
                store.read_now(org(owner), |view| view.all::<Task>(ListSource::TABLE, &()))?;
            state.tasks.extend(tasks.into_iter().map(|task| ((owner, task.id), task)));
        }
        let accounts =
            store.read_now(org(0), |view| view.all::<Account>(ListSource::TABLE, &()))?;
        state.accounts.extend(accounts.into_iter().map(|account| (account.name.clone(), account)));
        Ok(state)
    }

    fn after(&self, (owner, changes): &(u8, Vec<Change>)) -> State {
        let mut state = self.clone();
        for change in changes {
            match change.clone() {
                Change::Put(task) => drop(state.tasks.insert((*owner, task.id), task)),
                Change::Remove(id) => drop(state.tasks.remove(&(*owner, id))),
                Change::PutAccount(account) => {
                    drop(state.accounts.insert(account.name.clone(), account));
                }
            }
        }
        state
    }
}

// ── On such a disk ───────────────────────────────────────────────────────────

/// The storage under test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Engine {
    /// A redb file.
    Plain,
    /// A redb file with a log, which is so small that checkpoints happen all the time. What happens is
    /// the same each time: commits do the steps of checkpoints.
    Logged,
    /// The same with the threads that a server has: one does the steps, and one fills the log ahead. So
    /// all three files have something that is not synced yet.
    Threaded,
}

const ENGINES: [Engine; 2] = [Engine::Plain, Engine::Logged];

/// The log in the second and third file of a disk; one that is empty does not exist.
struct SimLog(SimDisk);

impl SimLog {
    fn files(&self) -> LogFiles {
        [1, 2].map(|file| Arc::new(self.0.file(file)) as LogFile)
    }
}

impl LogPlace for SimLog {
    fn open(&self) -> io::Result<Option<LogFiles>> {
        let files = self.files();
        let exist = files[0].len()? > 0 && files[1].len()? > 0;
        Ok(exist.then_some(files))
    }
    fn create(&self) -> io::Result<LogFiles> {
        let files = self.files();
        files.iter().try_for_each(|file| file.set_len(0))?;
        Ok(files)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn name(&self) -> String {
        "the log".into()
    }
}

impl Engine {
    fn open(self, disk: &SimDisk) -> Result<Store> {
        self.open_with(disk, 1 << 26)
    }

    fn open_with(self, disk: &SimDisk, cache_bytes: usize) -> Result<Store> {
        let file = disk.file(0);
        let open = move || {
            let mut builder = Redb::builder();
            let opened = builder.set_cache_size(cache_bytes).create_with_backend(file.clone());
            opened.map_err(|error| Error::internal(error.to_string()))
        };
        let redb = Redb::open_by(Box::new(open), None, tables())?;
        if self == Engine::Plain {
            return Ok(start(redb));
        }
        let settings = if self == Engine::Threaded {
            LogSettings { ahead_bytes: 2048, ..LogSettings::SMALL }
        } else {
            LogSettings { is_stepwise: true, ..LogSettings::SMALL }
        };
        LoggedRedb::over(redb, Box::new(SimLog(disk.clone())), settings).map(start)
    }

    /// A disk with an empty database on it.
    fn empty(self) -> Vec<Vec<u8>> {
        let disk = SimDisk::with_files(vec![Vec::new(); 3], 0);
        drop(self.open(&disk).unwrap());
        disk.contents()
    }
}

fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// Reads and checks everything.
fn sound_state(store: &Store) -> Result<State, String> {
    let findings = store.check(TABLES).map_err(|error| error.to_string())?;
    must(findings.wrong == 0, || format!("the check found {:?}", findings.messages))?;
    State::of(store).map_err(|error| error.to_string())
}

/// Runs `f`; a panic is something wrong too.
fn caught(f: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| Err("it panicked".into()))
}

// ── A disk that fails ────────────────────────────────────────────────────────

/// So many transactions are about 350 operations of the disk.
const SCRIPT_LEN: usize = 20;

/// Runs a script on a disk with this fault and says what is wrong afterwards, and how many
/// operations the disk saw.
fn run_with(engine: Engine, contents: &[Vec<u8>], fault: Fault) -> Result<u64, String> {
    let disk = SimDisk::with_files(contents.to_vec(), 42);
    disk.set_fault(fault);
    let store = match engine.open(&disk) {
        Ok(store) => store,
        // It failed while being opened: nothing was promised yet.
        Err(_) => loop {
            if let Ok(store) = engine.open(&disk) {
                break store;
            }
        },
    };
    let mut random = Random(7);
    let mut state = State::default();
    for number in 0..SCRIPT_LEN {
        let transaction = transaction(&mut random, number);
        let after = state.after(&transaction);
        let mut tries = 0;
        loop {
            tries += 1;
            match write(&store, transaction.clone()) {
                Ok(()) => {
                    state = after;
                    break;
                }
                Err(error) if error.code() == "outcome_unknown" && error.kind() == Kind::Busy => {
                    // A read, if possible, sees the state before or after.
                    if let Ok(seen) = State::of(&store) {
                        let known = seen == state || seen == after;
                        must(known, || format!("transaction {number} is half done"))?;
                    }
                }
                Err(error) if error.code() == "read_only" && error.kind() == Kind::Busy => {}
                Err(error) => return Err(format!("transaction {number}: {error:?}")),
            }
            // At most one try for each operation that fails, and the one that succeeds.
            must(tries < 10, || format!("writes do not go on after transaction {number}"))?;
        }
        let seen = State::of(&store).map_err(|error| error.to_string())?;
        must(seen == state, || format!("other values after transaction {number}"))?;
    }
    must(sound_state(&store)? == state, || "other values in the end".into())?;
    let operations = disk.operations();

    // What was acknowledged is on the disk, not only in memory, whether the store is
    // closed before the power goes or not.
    if matches!(fault, Fault::Fails { at, .. } if at % 3 == 0) {
        drop(store);
    }
    let restarted = engine.open(&disk.restarted(1)).map_err(|error| error.to_string())?;
    must(sound_state(&restarted)? == state, || "other values after a restart".into())?;
    Ok(operations)
}

fn nothing_is_lost_wherever_the_disk_fails(engine: Engine) {
    let empty = engine.empty();
    let operations = run_with(engine, &empty, Fault::None).unwrap();
    assert!(operations > 150, "{operations}");
    for times in [1, 4] {
        for at in 1..=operations {
            let fault = Fault::Fails { at, times };
            let ran = caught(|| run_with(engine, &empty, fault).map(drop));
            assert_eq!(ran, Ok(()), "with {fault:?}");
        }
    }
}

#[test]
fn wherever_the_disk_fails_nothing_acknowledged_is_lost_and_writes_continue() {
    nothing_is_lost_wherever_the_disk_fails(Engine::Plain);
}

#[test]
fn wherever_the_disk_fails_nothing_acknowledged_is_lost_of_log_or_database() {
    nothing_is_lost_wherever_the_disk_fails(Engine::Logged);
}

#[test]
fn wherever_the_disk_fails_while_three_threads_write_nothing_acknowledged_is_lost() {
    // How many operations there are, and which is the one that fails, differs each time.
    let empty = Engine::Threaded.empty();
    for at in 1..=400 {
        let fault = Fault::Fails { at, times: 1 + 3 * (at % 2) };
        let ran = caught(|| run_with(Engine::Threaded, &empty, fault).map(drop));
        assert_eq!(ran, Ok(()), "with {fault:?}");
    }
}

/// A disk of one page that was made longer by another, and whose sync then failed.
fn longer_after_a_failed_sync(seed: u64) -> SimDisk {
    let disk = SimDisk::new(vec![0; 4096], seed);
    disk.set_fault(Fault::Fails { at: 2, times: 1 });
    disk.set_len(8192).unwrap();
    disk.sync_data().unwrap_err();
    disk
}

#[test]
fn a_length_whose_sync_failed_may_be_lost_until_a_sync_succeeds_and_not_after_it() {
    let mut lengths = BTreeSet::new();
    for seed in 0..32 {
        lengths.insert(longer_after_a_failed_sync(seed).restarted(0).contents()[0].len());

        let disk = longer_after_a_failed_sync(seed);
        disk.write(4096, &[1; 4096]).unwrap();
        disk.sync_data().unwrap();
        let content = disk.restarted(0).contents().remove(0);
        assert!(content[4096..] == [1; 4096], "with the seed {seed}");
    }
    assert_eq!(lengths, BTreeSet::from([4096, 8192]));
}

fn task(id: u32, len: usize) -> Change {
    let text = "x".repeat(len);
    Change::Put(Task { id, slug: None, state: 0, assignee: Some(None), text })
}

#[test]
fn a_read_that_fails_ends_neither_reads_nor_writes() {
    for engine in ENGINES {
        let disk = SimDisk::with_files(engine.empty(), 0);
        let store = engine.open(&disk).unwrap();
        // More pages than redb keeps in hardly any memory.
        write(&store, (0, (0..500).map(|id| task(id, 3000)).collect())).unwrap();
        drop(store);
        let store = engine.open_with(&disk, 8192).unwrap();
        disk.set_fault(Fault::FailsRead);
        assert_eq!(State::of(&store).map(drop).unwrap_err().kind(), Kind::Internal);
        // From now on redb refuses reads and writes, and would leave open how a commit ended.
        write(&store, (0, vec![task(500, 0)])).unwrap();
        assert_eq!(sound_state(&store).unwrap().tasks.len(), 501);
    }
}

/// A small file system of its own, gone when dropped.
struct Small(tempfile::TempDir);

impl Small {
    /// Returns `None` without permission to mount.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(dir.path());
        mount.output().is_ok_and(|ended| ended.status.success()).then_some(Small(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Set where a test runs in a namespace of its own.
const INSIDE: &str = "ROADSTEAD_INSIDE_A_NAMESPACE";

/// A small file system for a test. `None` if the test was left out, which is said aloud, or has run in
/// another process: an ordinary user may mount one only in a namespace.
fn small_disk(test: &str) -> Option<Small> {
    let small = Small::mount();
    if small.is_some() {
        return small;
    }
    assert!(std::env::var_os(INSIDE).is_none(), "nothing can be mounted in a namespace of its own");
    let can_mount = works("unshare", &["-Urm", "mount", "-t", "tmpfs", "tmpfs", "/tmp"]);
    if !needs_root("MOUNTS", "a full disk", (!can_mount).then_some(CANNOT_MOUNT)) {
        let mut again = std::process::Command::new("unshare");
        again.arg("-Urm").arg(std::env::current_exe().unwrap());
        run(again.args(["--exact", test, "--nocapture"]).env(INSIDE, "yes"));
    }
    None
}

#[test]
fn a_full_disk_refuses_writes_serves_reads_and_recovers_when_space_is_free() {
    let test = "a_full_disk_refuses_writes_serves_reads_and_recovers_when_space_is_free";
    let Some(small) = small_disk(test) else { return };
    let (path, ballast) = (small.0.path().join("store.redb"), small.0.path().join("ballast"));
    // More than the log can become meanwhile: a checkpoint needs about as much, without a reserve.
    std::fs::write(&ballast, vec![1; 10 << 20]).unwrap();
    let store = start(LoggedRedb::create(&path, tables()).unwrap());
    let mut state = State::default();
    let mut unknown = 0;
    let mut refused = 0;
    for id in 0.. {
        let transaction = (0, vec![task(id, 9000)]);
        let after = state.after(&transaction);
        match write(&store, transaction) {
            Ok(()) => state = after,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Busy);
                assert!(error.retry_after_secs().is_some());
                unknown += usize::from(error.code() == "outcome_unknown");
                refused += usize::from(error.code() == "disk_full");
                let seen = State::of(&store).unwrap();
                assert!(seen == state || seen == after);
                state = seen;
            }
        }
        if unknown + refused == 60 {
            break;
        }
    }
    assert!(refused > 50, "{unknown} outcomes were unknown");
    std::fs::remove_file(&ballast).unwrap();
    let small = (0, vec![task(0, 1)]);
    state = state.after(&small);
    // It is not looked at for each write whether there is space.
    let begun = Instant::now();
    while let Err(error) = write(&store, small.clone()) {
        assert_eq!(error.code(), "disk_full");
        assert!(begun.elapsed() < Duration::from_secs(60), "it is not noticed that there is space");
        std::thread::yield_now();
    }
    assert_eq!(sound_state(&store), Ok(state.clone()));
    drop(store);
    let store = start(LoggedRedb::open(&path, tables()).unwrap());
    assert_eq!(sound_state(&store), Ok(state));
}

/// The log of a server, with a twentieth of its sizes.
fn a_twentieth_of_the_log() -> LogSettings {
    let settings = LogSettings::default();
    LogSettings {
        part_bytes: settings.part_bytes / 20,
        checkpoint_bytes: settings.checkpoint_bytes / 20,
        step_bytes: settings.step_bytes / 20,
        gentle_step_bytes: settings.gentle_step_bytes / 20,
        max_age: settings.max_age / 20,
        retry_interval: settings.retry_interval / 20,
        ahead_bytes: settings.ahead_bytes / 20,
        reserve_bytes: settings.reserve_bytes / 20,
        ..settings
    }
}

#[test]
fn on_a_disk_that_the_store_itself_filled_everything_can_be_deleted() {
    let test = "on_a_disk_that_the_store_itself_filled_everything_can_be_deleted";
    let Some(small) = small_disk(test) else { return };
    let path = small.0.path().join("store.redb");
    let (redb, log) = (Redb::create(&path, tables()).unwrap(), LogBeside::database(&path));
    let mut storage = LoggedRedb::over(redb, Box::new(log), a_twentieth_of_the_log()).unwrap();
    storage.hold_reserve();
    let store = start(storage);
    // Small ones in no order: the pages of the database are half full, and both parts of the log are
    // when the disk is.
    let mut random = Random(7);
    let mut ids = Vec::new();
    loop {
        let new: Vec<u32> = (0..20).map(|_| random.next() as u32).collect();
        match write(&store, (0, new.iter().map(|id| task(*id, 100)).collect())) {
            Ok(()) => ids.extend(new),
            Err(error) if error.code() == "disk_full" => break,
            Err(error) => assert_eq!(error.kind(), Kind::Busy, "{error:?}"),
        }
    }
    assert!(ids.len() > 20_000, "{}", ids.len());
    for (number, ids) in ids.chunks(20).enumerate() {
        let ids = ids.to_vec();
        let deleted = store.write_blocking(org(0), move |tx| {
            tx.mark_deletion();
            ids.iter().try_for_each(|id| apply(tx, &Change::Remove(*id)))
        });
        deleted.unwrap_or_else(|error| panic!("deletion {number}: {error:?}"));
    }
    let left = sound_state(&store).unwrap();
    drop(store);
    assert_eq!(sound_state(&start(LoggedRedb::open(&path, tables()).unwrap())), Ok(left));
}

#[test]
fn a_disk_that_leaves_out_operations_is_noticed() {
    for engine in ENGINES {
        let empty = engine.empty();
        let operations = run_with(engine, &empty, Fault::None).unwrap();
        let swallowed = |at: &u64| {
            caught(|| run_with(engine, &empty, Fault::Swallows { at: *at }).map(drop)).is_err()
        };
        assert!((1..=operations).filter(swallowed).count() > 10);
    }
}

// ── Power cuts ───────────────────────────────────────────────────────────────

/// Writes until the power goes, starts again (and perhaps loses power while starting), compares,
/// and goes on so for a few rounds.
fn cycle(engine: Engine, contents: &[Vec<u8>], seed: u64, syncs: bool) -> Result<(), String> {
    let cut = |at| if syncs { Fault::Cut { at } } else { Fault::CutWithoutSyncs { at } };
    let mut random = Random(seed);
    let mut disk = SimDisk::with_files(contents.to_vec(), random.next());
    let mut state = State::default();
    for round in 0..3 {
        disk.set_fault(cut(1 + random.below(150) as u64));
        let mut states = vec![state.clone()];
        if let Ok(store) = engine.open(&disk) {
            let mut number = round * 1000;
            loop {
                number += 1;
                must(number % 1000 < 900, || "commits do not reach the disk".into())?;
                let transaction = transaction(&mut random, number);
                let after = state.after(&transaction);
                if let Err(error) = write(&store, transaction) {
                    must(error.kind() == Kind::Busy, || format!("{error:?}"))?;
                    states.push(after);
                    break;
                }
                state = after;
                states = vec![state.clone()];
            }
        }
        disk = disk.restarted(random.next());
        for _ in 0..random.below(3) {
            disk.set_fault(cut(1 + random.below(6) as u64));
            let _ = engine.open(&disk);
            disk = disk.restarted(random.next());
        }
        let store = engine.open(&disk).map_err(|error| format!("does not open: {error}"))?;
        let seen = sound_state(&store)?;
        must(states.contains(&seen), || {
            let lost = state.tasks.iter().find(|(key, task)| seen.tasks.get(key) != Some(task));
            format!("round {round}: other values; for example {lost:?}")
        })?;
        state = seen;
        drop(store);
    }
    Ok(())
}

fn nothing_is_lost_wherever_the_power_fails(engine: Engine) {
    let empty = engine.empty();
    let seeds = match number_from("ROADSTEAD_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from("ROADSTEAD_TEST_CYCLES").unwrap_or(500),
    };
    for seed in seeds {
        let ended = caught(|| cycle(engine, &empty, seed, true));
        assert_eq!(ended, Ok(()), "with ROADSTEAD_TEST_SEED={seed}");
    }
}

#[test]
fn wherever_the_power_fails_what_was_acknowledged_is_stored_and_nothing_is_half_done() {
    nothing_is_lost_wherever_the_power_fails(Engine::Plain);
}

#[test]
fn wherever_the_power_fails_log_and_database_have_together_what_was_acknowledged() {
    nothing_is_lost_wherever_the_power_fails(Engine::Logged);
}

#[test]
fn wherever_the_power_fails_while_three_threads_write_what_was_acknowledged_is_stored() {
    nothing_is_lost_wherever_the_power_fails(Engine::Threaded);
}

#[test]
fn a_disk_that_does_not_sync_loses_something() {
    for engine in [Engine::Plain, Engine::Logged, Engine::Threaded] {
        let empty = engine.empty();
        let loses = |seed: &u64| caught(|| cycle(engine, &empty, *seed, false)).is_err();
        assert!((0..20).filter(loses).count() > 10);
    }
}
