//! Which due jobs are leased, and how many entries are looked at for it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use std::ops::ControlFlow;

use super::*;
use crate::base::Keys;
use crate::outbox::in_flight::MAX_PER_KEY;
use crate::outbox::jobs::BY_DUE;
use crate::store::Order;
use crate::store::engine::{Counting, GroupCommit, Memory};
use crate::store::{Signals, build_indexes};

#[tokio::test]
async fn jobs_with_an_exhausted_key_do_not_delay_others() {
    let runner = runner();
    let [busy, other] = [1, 2].map(|n| Some(Id::new(uuid::Uuid::from_u128(n))));
    for key in [busy, busy, other, None] {
        write_job_with_key(&runner, &DONE, key).await;
        runner.store.clock().advance_secs(1);
    }
    let due = |running: &[Option<Id<Target>>]| {
        let mut in_flight = InFlight::default();
        for key in running.iter().chain([&busy, &other]) {
            in_flight.begin(task(), *key, org(1));
        }
        // Both are known to be fast.
        for key in [busy, other] {
            let fast = task();
            in_flight.begin(fast, key, org(1));
            in_flight.end(Ok((fast, Duration::ZERO)));
        }
        let due = |view: &View| DueScan::default().next(view, &in_flight, MAX_IN_FLIGHT);
        let due = runner.store.read_now(Id::NIL, due).unwrap();
        let all: Vec<_> = jobs(&runner).iter().map(|job| job.id).collect();
        let numbered = all.iter().enumerate().filter(|(_, id)| due.contains(id));
        numbered.map(|(n, _)| n).collect::<Vec<_>>()
    };
    assert_eq!(due(&[]), [0, 1, 2, 3]);
    assert_eq!(due(&[busy; MAX_PER_KEY - 2]), [0, 2, 3], "one more of that key");
    assert_eq!(due(&[busy; MAX_PER_KEY - 1]), [2, 3]);
    let both = [[busy; MAX_PER_KEY - 1], [other; MAX_PER_KEY - 1]].concat();
    assert_eq!(due(&both), [3]);
}

/// The id of a task.
fn task() -> tokio::task::Id {
    tokio::spawn(async {}).id()
}

#[tokio::test]
async fn a_key_has_one_job_at_a_time_until_one_is_fast() {
    let key = Some(Id::new(uuid::Uuid::from_u128(1)));
    let runner = runner();
    for _ in 0..9 {
        write_job_with_key(&runner, &DONE, key).await;
    }
    let mut in_flight = InFlight::default();
    let free = |in_flight: &InFlight| {
        let due = |view: &View| DueScan::default().next(view, in_flight, MAX_IN_FLIGHT);
        runner.store.read_now(Id::NIL, due).unwrap().len()
    };
    assert_eq!(free(&in_flight), 1);
    for (took, then) in [(10, 1), (1, 1), (0, MAX_PER_KEY), (1, 1)] {
        let task = task();
        in_flight.begin(task, key, org(1));
        in_flight.end(Ok((task, Duration::from_secs(took))));
        assert_eq!(free(&in_flight), then, "after {took} s");
    }
}

#[tokio::test]
async fn no_organization_takes_all_places() {
    let runner = runner();
    let mut in_flight = InFlight::default();
    let mut taken = vec![];
    for number in 1..=3 {
        for _ in 0..MAX_IN_FLIGHT {
            let now = runner.store.clock().now();
            let write = move |tx: &mut Tx| enqueue(tx, &DONE, Id::NIL, None, now);
            runner.store.write(org(number), write).await.unwrap();
        }
        let due = |view: &View| DueScan::default().next(view, &in_flight, MAX_IN_FLIGHT);
        let due = runner.store.read_now(Id::NIL, due).unwrap();
        let owners = jobs(&runner).into_iter().filter(|job| due.contains(&job.id));
        assert!(owners.clone().all(|job| job.org == org(number)), "the others have their share");
        for job in owners {
            in_flight.begin(task(), None, job.org);
        }
        taken.push(due.len());
    }
    assert_eq!(taken, [MAX_IN_FLIGHT / 2, MAX_IN_FLIGHT / 4, MAX_IN_FLIGHT / 8]);
}

#[tokio::test]
async fn a_scan_in_parts_sees_every_due_job_behind_a_long_backlog() {
    let runner = runner();
    let key = Some(Id::new(uuid::Uuid::from_u128(1)));
    let now = runner.store.clock().now();
    for _ in 0..5 {
        let write = move |tx: &mut Tx| {
            (0..1000).try_for_each(|_| enqueue(tx, &DONE, Id::NIL, key, now).map(drop))
        };
        runner.store.write(org(1), write).await.unwrap();
    }
    runner.store.clock().advance_secs(10);
    write_job(&runner, &DONE).await;
    let mut scan = DueScan::default();
    let mut seen = vec![];
    let begun = Instant::now();
    let next = |scan: &mut DueScan| {
        let in_flight = InFlight::default();
        let part = |view: &View| scan.next(view, &in_flight, MAX_IN_FLIGHT);
        runner.store.read_now(Id::NIL, part).unwrap()
    };
    scan.begin(HashSet::new(), false, begun);
    while !scan.is_over() {
        seen.push(next(&mut scan).len());
    }
    // In each part those of the backlog that its key allows; at the end the other job.
    assert_eq!(seen, [1, 1, 2, 0]);
    scan.begin(HashSet::new(), true, begun);
    assert_eq!(next(&mut scan).len(), 1, "it begins where the last one ended");
    assert_eq!(next(&mut scan).len(), 0);
    assert!(scan.is_over());
    scan.begin(HashSet::new(), false, begun + Duration::from_secs(1));
    assert_eq!(next(&mut scan).len(), 1, "it begins again");
    assert!(!scan.is_over());
}

// ── Rounds ───────────────────────────────────────────────────────────────────

/// A runner whose jobs start and end as the test says. No time passes for its scans, so that they
/// look at all due jobs only once.
struct Rounds {
    runner: Runner,
    looked_at: Arc<AtomicUsize>,
    begun: Instant,
    in_flight: InFlight,
    scan: DueScan,
    running: VecDeque<(task::Id, Job)>,
}

impl Rounds {
    fn new() -> Self {
        let mut storage = Memory::default();
        build_indexes(&mut storage, TABLES, &|_| {}).unwrap();
        let (signals, looked_at) = (Arc::<Signals>::default(), Arc::<AtomicUsize>::default());
        let engine = GroupCommit::start(storage, signals.clone()).unwrap();
        let engine = Counting::over(Arc::new(engine), "jobs.by_due", looked_at.clone());
        let (clock, keys) = (Clock::at(NOON), Keys::new([7; 32]));
        let store = Store::start_over(engine, signals, clock, keys, TABLES).unwrap();
        Rounds {
            runner: Runner { store, ..runner() },
            looked_at,
            begun: Instant::now(),
            in_flight: InFlight::default(),
            scan: DueScan::default(),
            running: VecDeque::new(),
        }
    }

    /// Enqueues jobs that are due now.
    async fn enqueue(&self, jobs: Vec<(Option<u128>, u128)>) {
        let now = self.runner.store.clock().now();
        for part in jobs.chunks(1000).map(<[_]>::to_vec) {
            let write = move |tx: &mut Tx| {
                for (key, owner) in &part {
                    tx.set_org(org(*owner));
                    let key = key.map(|key| Id::new(uuid::Uuid::from_u128(key)));
                    enqueue(tx, &DONE, Id::NIL, key, now)?;
                }
                Ok(())
            };
            self.runner.store.write(Id::NIL, write).await.unwrap();
        }
    }

    /// Starts what may run.
    async fn round(&mut self, is_new: bool) {
        self.scan.begin(self.in_flight.take_freed(), is_new, self.begun);
        let running = &mut self.running;
        let start = |job| {
            let id = task();
            running.push_back((id, job));
            id
        };
        self.runner.start_due(&mut self.in_flight, &mut self.scan, start).await;
    }

    /// Ends one of the running jobs.
    fn end(&mut self, which: usize, took: Duration) -> Option<Job> {
        let (task, job) = self.running.remove(which)?;
        self.in_flight.end(Ok((task, took)));
        Some(job)
    }

    /// Ends the running jobs one after another, the first first, until nothing is due; returns them.
    async fn drain(&mut self) -> Vec<Job> {
        let mut done = Vec::new();
        self.round(true).await;
        while let Some(job) = self.end(0, Duration::ZERO) {
            done.push(job);
            self.round(false).await;
        }
        done
    }

    fn looked_at(&self) -> usize {
        self.looked_at.load(Ordering::Relaxed)
    }

    /// The due jobs that do not run although they may.
    fn held_up(&self) -> Vec<(Option<Id<Target>>, Id<Org>)> {
        let places = self.in_flight.places();
        let mut held_up = Vec::new();
        let (start, end) = (Time::from_millis(i64::MIN), self.runner.store.clock().now());
        let read = |view: &View| {
            view.entries(&BY_DUE, &start, &end.plus_millis(1), Order::Ascending, |entry, _| {
                let (_, key, org) = entry;
                held_up.extend(places.full(key, org).is_none().then_some((key, org)));
                Ok(ControlFlow::Continue(()))
            })
        };
        self.runner.store.read_now(Id::NIL, read).unwrap();
        held_up
    }
}

#[tokio::test]
async fn what_is_looked_at_grows_as_the_backlog_of_one_key_and_not_as_its_square() {
    for backlog in [250, 1_000] {
        let mut rounds = Rounds::new();
        rounds.enqueue(vec![(Some(1), 1); backlog]).await;
        rounds.runner.store.clock().advance_secs(10);
        assert_eq!(rounds.drain().await.len(), backlog);
        let looked_at = rounds.looked_at();
        assert!(looked_at <= 5 * backlog, "{looked_at} for {backlog}");
    }
}

#[tokio::test]
async fn nor_does_it_with_many_keys_or_when_all_places_are_taken() {
    const EACH: usize = 12;
    let mut rounds = Rounds::new();
    for _ in 0..EACH {
        // With more keys than there are places, of as many organizations as fill them.
        rounds.enqueue((1..=100).map(|key| (Some(key), key % 12 + 1)).collect()).await;
        rounds.runner.store.clock().advance_secs(1);
    }
    rounds.runner.store.clock().advance_secs(10);
    let done = rounds.drain().await;
    assert_eq!(done.len(), EACH * 100);
    // Those of a key may be as far from each other as there are keys.
    let looked_at = rounds.looked_at();
    assert!(looked_at <= 3 * 100 * done.len(), "{looked_at}");
    // No key is far ahead of another.
    let mut of_key = BTreeMap::<_, usize>::new();
    for job in &done[..done.len() / 2] {
        *of_key.entry(job.concurrency_key).or_default() += 1;
    }
    let fewest = of_key.values().min().unwrap();
    assert!(of_key.len() == 100 && *fewest >= EACH / 4, "{of_key:?}");
}

#[tokio::test]
async fn an_organization_at_its_limit_keeps_no_other_waiting_and_goes_on_with_its_first() {
    let mut rounds = Rounds::new();
    rounds.enqueue(vec![(None, 1); 1000]).await;
    rounds.runner.store.clock().advance_secs(10);
    rounds.round(true).await;
    assert_eq!(rounds.running.len(), MAX_IN_FLIGHT / 2);
    let before = rounds.looked_at();
    rounds.enqueue(vec![(Some(7), 2)]).await;
    rounds.round(true).await;
    assert_eq!(rounds.running.back().unwrap().1.org, org(2));
    let done = rounds.drain().await;
    let own: Vec<_> = done.iter().filter(|job| job.org == org(1)).map(|job| job.id).collect();
    assert!(own.len() == 1000 && own.is_sorted(), "those that were enqueued first are first");
    let looked_at = rounds.looked_at() - before;
    assert!(looked_at <= 5 * 1000, "{looked_at}");
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[tokio::test]
async fn in_any_history_no_job_waits_that_may_run_and_each_key_goes_in_order() {
    for seed in 1..=6 {
        let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let mut rounds = Rounds::new();
        let mut newest = BTreeMap::new();
        let mut seen = HashSet::new();
        for _ in 0..40 {
            let is_new = random.below(2) == 0;
            if is_new {
                let key = |random: &mut Random| match random.below(14) {
                    0..4 => (None, random.below(3).into()),
                    key => (Some(key.into()), (key % 3).into()),
                };
                let number = 1 + random.below(120);
                let jobs = (0..number).map(|_| key(&mut random)).collect();
                rounds.enqueue(jobs).await;
            }
            for _ in 0..random.below(30) {
                let which = random.below(rounds.running.len().max(1) as u64) as usize;
                let took = if random.below(5) == 0 { 2 } else { 0 };
                rounds.end(which, Duration::from_secs(took));
            }
            rounds.runner.store.clock().advance_secs(random.below(2) as i64);
            rounds.round(is_new).await;
            let is_full = rounds.in_flight.len() == MAX_IN_FLIGHT;
            assert!(is_full || rounds.held_up().is_empty(), "seed {seed}: {:?}", rounds.held_up());
            for (_, job) in rounds.running.iter().filter(|(_, job)| seen.insert(job.id)) {
                let last = newest.insert((job.concurrency_key, job.org), job.created_at);
                assert!(last.is_none_or(|last| last <= job.created_at), "seed {seed}");
            }
        }
        assert!(seen.len() > 200, "seed {seed}: {}", seen.len());
    }
}
