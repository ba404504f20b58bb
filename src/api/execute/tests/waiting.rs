//! What a wait costs over a store that is elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::waiter::Waiter;
use super::*;
use crate::base::Keys;
use crate::store::Signals;
use crate::store::engine::{
    Attempt, Engine, GroupCommit, Memory, Reader, Snapshot, StoreMeters, Terms,
};

/// An engine that says it is elsewhere, and counts its snapshots.
struct Elsewhere {
    engine: GroupCommit,
    snapshots: Arc<AtomicUsize>,
}

impl Engine for Elsewhere {
    fn snapshot(&self) -> Arc<dyn Reader> {
        self.snapshots.fetch_add(1, Ordering::SeqCst);
        self.engine.snapshot()
    }
    fn begin_snapshot(&self) -> Snapshot {
        Snapshot::Ready(self.snapshot())
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn submit(&self, attempt: Box<dyn Attempt>, terms: Terms) -> Result<()> {
        self.engine.submit(attempt, terms)
    }
    fn close(&self) {
        self.engine.close();
    }
    fn meters(&self) -> Arc<StoreMeters> {
        self.engine.meters()
    }
}

/// A world over such an engine, with the count of its snapshots.
async fn elsewhere() -> (Arc<Fixture>, Arc<AtomicUsize>) {
    let (signals, snapshots) = (Arc::<Signals>::default(), Arc::<AtomicUsize>::default());
    let engine = GroupCommit::start(Memory::default(), signals.clone()).unwrap();
    let engine = Arc::new(Elsewhere { engine, snapshots: snapshots.clone() });
    let keys = Keys::new([7; 32]);
    let store = Store::start_over(engine, signals, Clock::system(), keys, &[]).unwrap();
    (Arc::new(Fixture::over(store).await), snapshots)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wait_in_which_nothing_happens_reads_no_more_than_no_wait() {
    let (fixture, snapshots) = elsewhere().await;
    for route in ["note.take", "note.follow"] {
        let count = async |wait: u32| {
            let before = snapshots.load(Ordering::SeqCst);
            let asked = fixture.call(route, &[], json!({"wait": wait}), |_| ()).await;
            assert_eq!(json_of(asked.unwrap())["items"], json!([]));
            snapshots.load(Ordering::SeqCst) - before
        };
        let at_once = count(0).await;
        assert_eq!(count(1).await, at_once, "{route}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wait_ends_with_the_first_signal_also_one_that_comes_while_it_begins() {
    let (fixture, _) = elsewhere().await;
    for number in 0..50 {
        let waiting = tokio::spawn({
            let fixture = fixture.clone();
            async move { fixture.call("note.take", &[], json!({"wait": 30}), |_| ()).await }
        });
        // Before, while or after it has read for the first time.
        let note = fixture.create(&number.to_string()).await;
        let begun = Instant::now();
        assert_eq!(json_of(waiting.await.unwrap().unwrap())["items"], json!([note]));
        assert!(begun.elapsed() < Duration::from_secs(20), "it was woken");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_is_woken_with_all_others_reads_once() {
    let (fixture, _) = elsewhere().await;
    let mut waiter = Waiter::new(&fixture.executor, Duration::from_secs(60));
    let later = || Instant::now() + Duration::from_secs(20);
    assert!(waiter.wait(later()).await, "it reads before it waits");
    waiter.found_nothing(TOPIC, None);
    // Whatever it depends on may have changed: its topic, and its rights.
    fixture.executor.store.signals().notify_all();
    assert!(waiter.wait(later()).await, "it reads again");
    waiter.found_nothing(TOPIC, None);
    let soon = Instant::now() + Duration::from_millis(100);
    assert!(!waiter.wait(soon).await, "and then it waits");
    fixture.executor.store.signals().notify_all();
    assert!(waiter.wait(later()).await, "until it is woken again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn those_who_are_woken_at_once_do_not_read_at_once() {
    const WAITERS: usize = 64;
    let (fixture, _) = elsewhere().await;
    let later = Instant::now() + Duration::from_secs(60);
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        let mut waiter = Waiter::new(&fixture.executor, Duration::from_secs(60));
        assert!(waiter.wait(later).await, "it reads before it waits");
        waiter.found_nothing(TOPIC, None);
        waiters.push(waiter);
    }
    let woken = Instant::now();
    fixture.executor.store.signals().notify_all();
    let reads = waiters.into_iter().map(|mut waiter| {
        tokio::spawn(async move {
            assert!(waiter.wait(later).await);
            woken.elapsed()
        })
    });
    let mut times = Vec::new();
    for read in reads.collect::<Vec<_>>() {
        times.push(read.await.unwrap());
    }
    times.sort();
    // At random times of a second: hardly ever is the middle one of so many in its first fifth.
    assert!(times[WAITERS / 2] > Duration::from_millis(200), "{times:?}");
    assert!(times[WAITERS - 1] < Duration::from_secs(5), "{times:?}");
}
