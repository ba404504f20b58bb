//! Costly work: few at a time, users and organizations in turns, on threads that may block.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

use super::admission::{AdmissionFigures, Permit};
use super::blocking::blocking;
use super::engine::{Budget, Lane, Meter, REOPENING, Reader};
use super::record::Org;
use super::view::View;
use super::{Store, WorkHints};
use crate::base::{Error, Id, Result};

/// How long a read waits while the storage is opened anew: that takes some 100 ms, and cannot succeed
/// while nothing can be written.
const MAX_REOPENING: Duration = Duration::from_secs(2);

/// How long a state of a remote engine is waited for.
const MAX_POINT_WAIT: Duration = Duration::from_secs(10);

/// A state of the store that several reads share, so that what they find fits together. While it is
/// held, the storage keeps what later writes replace. If the storage is opened anew meanwhile, it is the
/// newest state then.
#[derive(Clone)]
pub struct ReadPoint {
    reader: Arc<Mutex<Arc<dyn Reader>>>,
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl ReadPoint {
    fn reader(&self) -> MutexGuard<'_, Arc<dyn Reader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Returns the newest durable state.
    ///
    /// # Errors
    /// 503 if no snapshot is available, or too many hold one.
    pub async fn read_point(&self) -> Result<ReadPoint> {
        let permit = match self.read_points.clone() {
            None => None,
            Some(points) => match timeout(MAX_POINT_WAIT, points.acquire_owned()).await {
                Ok(Ok(permit)) => Some(Arc::new(permit)),
                _ => {
                    let many = || Error::busy("overloaded", "too many pages are being made", 1);
                    return Err(self.engine.unavailable().unwrap_or_else(many));
                }
            },
        };
        let reader = self.engine.begin_snapshot().wait().await?;
        Ok(ReadPoint { reader: Arc::new(Mutex::new(reader)), _permit: permit })
    }

    /// Does the same as [`Store::read`], and returns the state that it saw as well, for a read that follows
    /// at once. It is one of the bounded number that reads have: who holds it waits for nothing, or those
    /// who wait for a state would wait for that, too.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub async fn read_first<T>(
        &self,
        org: Id<Org>,
        mut read: impl FnMut(&View) -> Result<T>,
    ) -> Result<(T, ReadPoint)> {
        let reader = self.engine.begin_snapshot().wait().await?;
        let point = ReadPoint { reader: Arc::new(Mutex::new(reader)), _permit: None };
        let read = |reader: &dyn Reader| read(&self.view(reader, org));
        let found = self.read_at(Some(&point), self.engine.is_remote(), read).await?;
        Ok((found, point))
    }

    /// Waits for the turn of costly work.
    ///
    /// # Errors
    /// 503 if too much of it waits, in all, of its person or in its lane, or after the longest wait.
    pub(super) async fn turn(&self, hints: WorkHints) -> Result<Permit<Lane>> {
        let entered = self.heavy.enter(hints.keys(), hints.bytes).await;
        entered.map_err(|refusal| self.engine.unavailable().unwrap_or(refusal))
    }

    /// How many pieces of costly work have their turn, and how many wait.
    pub fn costly_work(&self) -> AdmissionFigures {
        self.heavy.figures()
    }

    /// Runs costly work in the turn of its lane, on a thread of its own.
    ///
    /// # Errors
    /// 503 if too much work waits, in all or in this lane.
    pub async fn run_in_turn<T: Send + 'static>(
        &self,
        hints: WorkHints,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let permit = self.turn(hints).await?;
        // The work goes on if its caller is gone, and so does its turn.
        let work = move || (work(), drop(permit)).0;
        self.heavy_threads.run(work).await
    }

    /// Does the same as [`Store::read`] with a read that may run twice: here, as far as it stays
    /// within [`Budget::LIGHT`], otherwise in the turn of its lane. It sees the state `at`, without
    /// one the newest.
    ///
    /// # Errors
    /// What `read` returns; 503 if no snapshot is available or too much work waits.
    pub async fn read_in_turn<T>(
        &self,
        hints: WorkHints,
        org: Id<Org>,
        at: Option<&ReadPoint>,
        mut read: impl FnMut(&View) -> Result<T>,
    ) -> Result<T> {
        if !hints.is_large()
            && let Some(end) = self.read_light(org, at, &mut read).await
        {
            return end;
        }
        self.read_heavy(hints, org, at, read).await
    }

    /// Reads in the turn of its lane, as [`Store::read_in_turn`] does what costs much.
    ///
    /// # Errors
    /// What `read` returns; 503 if no snapshot is available or too much work waits.
    pub async fn read_heavy<T>(
        &self,
        hints: WorkHints,
        org: Id<Org>,
        at: Option<&ReadPoint>,
        mut read: impl FnMut(&View) -> Result<T>,
    ) -> Result<T> {
        let _permit = self.turn(hints).await?;
        // Without a state, a new snapshot: none is held while a turn is waited for. With one, no second
        // one beside it: those who hold one each would wait for each other.
        self.read_at(at, true, |reader| read(&self.view(reader, org))).await
    }

    /// Reads here, as far as that stays within [`Budget::LIGHT`]; `None` if it does not. It waits for
    /// nobody's turn.
    pub async fn read_light<T>(
        &self,
        org: Id<Org>,
        at: Option<&ReadPoint>,
        mut read: impl FnMut(&View) -> Result<T>,
    ) -> Option<Result<T>> {
        let mut is_exceeded = false;
        let light = |reader: &dyn Reader| {
            let meter = Meter::new(reader, Budget::LIGHT);
            let end = read(&self.view(&meter, org));
            is_exceeded = meter.is_exceeded();
            end
        };
        let end = self.read_at(at, self.engine.is_remote(), light).await;
        (!is_exceeded).then_some(end)
    }

    /// Reads at a state, without one at the newest. If the storage is opened anew meanwhile, it reads
    /// again at the newest state then: those before can be read only as far as they are in memory.
    pub(super) async fn read_at<T>(
        &self,
        at: Option<&ReadPoint>,
        blocks: bool,
        mut read: impl FnMut(&dyn Reader) -> Result<T>,
    ) -> Result<T> {
        let mut reader = match at {
            Some(point) => point.reader().clone(),
            None => self.engine.begin_snapshot().wait().await?,
        };
        let mut latest = None;
        loop {
            let end = if blocks { blocking(|| read(&*reader)) } else { read(&*reader) };
            let error = match end {
                Err(error) if error.code() == REOPENING => error,
                end => return end,
            };
            let latest = *latest.get_or_insert_with(|| Instant::now() + MAX_REOPENING);
            let next = self.engine.snapshot_after(reader);
            reader = match timeout_at(latest, next).await {
                Ok(Some(next)) if Instant::now() < latest => next,
                _ => return Err(error),
            };
            if let Some(point) = at {
                *point.reader() = reader.clone();
            }
        }
    }
}

#[cfg(test)]
impl Store {
    /// Takes every turn there is, until what it returns is dropped.
    pub(crate) async fn take_turns(&self) -> Vec<impl Drop + use<>> {
        let mut permits = Vec::new();
        for _ in 0..super::admission::max_heavy(false) {
            permits.push(self.turn(WorkHints::small(Id::NIL)).await.expect("it is free"));
        }
        permits
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use tokio::task::JoinHandle;

    use super::super::sample::{Note, TABLES, note, org};
    use super::*;
    use crate::base::Keys;
    use crate::store::engine::{
        CommitOutcome, KeyRange, LocalStorage, Memory, Order, ScanFn, WriteBatch,
    };
    use crate::store::{Clock, LARGE_BYTES, ListSource, Tx};

    const LARGE: WorkHints = WorkHints { lane: [1; 16], user: [1; 16], bytes: LARGE_BYTES + 1 };

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test]
    async fn large_work_waits_for_its_turn_and_small_work_does_not() {
        let store = Store::in_memory(Clock::system(), TABLES);
        let permits = store.take_turns().await;
        let small = WorkHints::small(org(1));
        let write = |id| move |tx: &mut Tx| tx.insert(&note(id, &id.to_string(), "t"));
        store.write_as(small, org(1), write(1)).await.unwrap();
        let mut large = Box::pin(store.write_as(LARGE, org(1), write(2)));
        assert!(soon(&mut large).await.is_none());
        let count = |view: &View| view.count::<Note>(ListSource::TABLE, &(), 9);
        let mut large_read = Box::pin(store.read_in_turn(LARGE, org(1), None, count));
        assert!(soon(&mut large_read).await.is_none());
        assert_eq!(store.read_in_turn(small, org(1), None, count).await.unwrap(), 1);
        drop(permits);
        large.await.unwrap();
        assert_eq!(large_read.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn reads_at_one_point_see_nothing_of_later_writes() {
        let store = Store::in_memory(Clock::system(), TABLES);
        let small = WorkHints::small(org(1));
        store.write(org(1), |tx| tx.insert(&note(1, "a", "t"))).await.unwrap();
        let point = store.read_point().await.unwrap();
        store.write(org(1), |tx| tx.insert(&note(2, "b", "t"))).await.unwrap();
        let count = |view: &View| view.count::<Note>(ListSource::TABLE, &(), 9);
        for (at, seen) in [(Some(&point), 1), (None, 2)] {
            assert_eq!(store.read_in_turn(small, org(1), at, count).await.unwrap(), seen);
        }
    }

    #[tokio::test]
    async fn a_read_in_its_turn_sees_the_point_that_is_held() {
        let store = Store::in_memory(Clock::system(), TABLES);
        store.write(org(1), |tx| tx.insert(&note(1, "a", "t"))).await.unwrap();
        let point = store.read_point().await.unwrap();
        store.write(org(1), |tx| tx.insert(&note(2, "b", "t"))).await.unwrap();
        let count = |view: &View| view.count::<Note>(ListSource::TABLE, &(), 9);
        for (at, seen) in [(Some(&point), 1), (None, 2)] {
            assert_eq!(store.read_in_turn(LARGE, org(1), at, count).await.unwrap(), seen);
        }
    }

    #[tokio::test]
    async fn a_read_over_the_light_budget_is_repeated_in_its_turn() {
        let store = Store::in_memory(Clock::system(), TABLES);
        store.write(org(1), |tx| tx.insert(&note(1, "a", "t"))).await.unwrap();
        let permits = store.take_turns().await;
        let small = WorkHints::small(org(1));
        let mut runs = 0;
        let mut read = Box::pin(store.read_in_turn(small, org(1), None, |view| {
            runs += 1;
            // Whatever an operation makes of the error, it is repeated.
            let found = (0..=Budget::LIGHT.reads).filter(|_| view.get::<Note>(&1).is_ok());
            Ok(found.count())
        }));
        assert!(soon(&mut read).await.is_none());
        drop(permits);
        assert_eq!(read.await.unwrap(), Budget::LIGHT.reads + 1);
        assert_eq!(runs, 2);
    }

    #[tokio::test]
    async fn a_light_read_over_its_budget_is_given_up_without_waiting_for_a_turn() {
        let store = Store::in_memory(Clock::system(), TABLES);
        let _permits = store.take_turns().await;
        for (reads, is_light) in [(Budget::LIGHT.reads, true), (Budget::LIGHT.reads + 1, false)] {
            let read = Box::pin(store.read_light(org(1), None, |view| {
                (0..reads).try_for_each(|_| view.get::<Note>(&1).map(drop))
            }));
            assert_eq!(soon(read).await.expect("it waits for nothing").is_some(), is_light);
        }
    }

    /// Storage whose next commit fails; its reads do from then on, until it is opened anew once it may.
    struct Failing {
        memory: Memory,
        fails: Arc<AtomicBool>,
        closed: Arc<AtomicBool>,
        may_open: mpsc::Receiver<()>,
    }

    struct FailingReader(Arc<dyn Reader>, Arc<AtomicBool>);

    impl FailingReader {
        fn open(&self) -> Result<&dyn Reader> {
            match self.1.load(Ordering::SeqCst) {
                true => Err(Error::busy(REOPENING, "as scripted", 1)),
                false => Ok(&*self.0),
            }
        }
    }

    impl Reader for FailingReader {
        fn get(
            &self,
            table: &'static str,
            key: &[u8],
            see: &mut dyn FnMut(&[u8]) -> Result<()>,
        ) -> Result<bool> {
            self.open()?.get(table, key, see)
        }
        fn scan(
            &self,
            table: &'static str,
            range: KeyRange<'_>,
            order: Order,
            each: &mut ScanFn<'_>,
        ) -> Result<()> {
            self.open()?.scan(table, range, order, each)
        }
        fn access_version(&self) -> Option<u64> {
            self.0.access_version()
        }
    }

    impl LocalStorage for Failing {
        fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
            Ok(Arc::new(FailingReader(self.memory.snapshot()?, self.closed.clone())))
        }
        fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
            if self.fails.load(Ordering::SeqCst) {
                self.closed.store(true, Ordering::SeqCst);
                return CommitOutcome::Unknown(Error::internal("as scripted"));
            }
            match self.memory.commit(writes) {
                CommitOutcome::Done(_) => CommitOutcome::Done(self.snapshot().unwrap()),
                other => other,
            }
        }
        fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
            self.may_open.recv().map_err(|_| Error::internal("as scripted"))?;
            self.fails.store(false, Ordering::SeqCst);
            self.closed = Arc::default();
            self.snapshot()
        }
    }

    /// A store with a note, over storage that has just failed; it is opened anew once that is sent. With
    /// a point of before, and the write that failed.
    async fn failed() -> (Store, mpsc::Sender<()>, ReadPoint, JoinHandle<Result<()>>) {
        let (fails, closed) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (opens, may_open) = mpsc::channel();
        let mut memory = Memory::default();
        crate::store::build_indexes(&mut memory, TABLES, &|_| {}).unwrap();
        let storage = Failing { memory, fails: fails.clone(), closed: closed.clone(), may_open };
        let store = Store::start(storage, Clock::system(), Keys::new([7; 32]), TABLES).unwrap();
        store.write(org(1), |tx| tx.insert(&note(1, "a", "t"))).await.unwrap();
        let point = store.read_point().await.unwrap();
        fails.store(true, Ordering::SeqCst);
        let writer = store.clone();
        let write =
            tokio::spawn(
                async move { writer.write(org(1), |tx| tx.insert(&note(2, "b", "t"))).await },
            );
        while !closed.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        (store, opens, point, write)
    }

    fn count(view: &View) -> Result<usize> {
        view.count::<Note>(ListSource::TABLE, &(), 9)
    }

    #[tokio::test]
    async fn while_the_storage_is_opened_anew_reads_wait_for_it() {
        let (store, opens, point, write) = failed().await;
        let small = WorkHints::small(org(1));
        let mut read = Box::pin(store.read(org(1), count));
        let mut in_turn = Box::pin(store.read_in_turn(small, org(1), None, count));
        let mut at_point = Box::pin(store.read_in_turn(small, org(1), Some(&point), count));
        assert!(soon(&mut read).await.is_none());
        assert!(soon(&mut in_turn).await.is_none());
        assert!(soon(&mut at_point).await.is_none());
        opens.send(()).unwrap();
        assert_eq!(read.await.unwrap(), 1);
        assert_eq!(in_turn.await.unwrap(), 1);
        assert_eq!(at_point.await.unwrap(), 1);
        assert_eq!(write.await.unwrap().unwrap_err().code(), "outcome_unknown");
        // The point is of the storage that was opened, and sees nothing of later writes.
        store.write(org(1), |tx| tx.insert(&note(3, "c", "t"))).await.unwrap();
        let again = store.read_in_turn(small, org(1), Some(&point), count);
        assert_eq!(soon(Box::pin(again)).await.unwrap().unwrap(), 1);
        assert_eq!(store.read(org(1), count).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn reads_do_not_wait_for_a_storage_that_cannot_be_opened_anew() {
        let (store, opens, _, write) = failed().await;
        let mut read = Box::pin(store.read(org(1), count));
        assert!(soon(&mut read).await.is_none());
        drop(opens);
        assert_eq!(read.await.unwrap_err().code(), REOPENING);
        write.await.unwrap().unwrap_err();
        let at_once = soon(Box::pin(store.read(org(1), count))).await;
        assert_eq!(at_once.unwrap().unwrap_err().code(), REOPENING);
    }
}
