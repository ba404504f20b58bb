//! Costly work: few at a time, users and organizations in turns, on threads that may block.

use std::sync::Arc;

use super::blocking::blocking;
use super::engine::{Budget, Meter, Reader};
use super::record::Org;
use super::view::View;
use super::{Store, WorkHints};
use crate::base::{Id, Result};

/// A state of the store that several reads share, so that what they find fits together. While it is
/// held, the storage keeps what later writes replace.
#[derive(Clone)]
pub struct ReadPoint(Arc<dyn Reader>);

impl Store {
    /// Returns the newest durable state.
    ///
    /// # Errors
    /// 503 if no snapshot is available.
    pub async fn read_point(&self) -> Result<ReadPoint> {
        Ok(ReadPoint(self.engine.begin_snapshot().wait().await?))
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
        let permit = self.heavy.acquire(hints).await?;
        // The work goes on if its caller is gone, and so does its turn.
        let work = move || (work(), drop(permit)).0;
        self.heavy_threads.run(work).await
    }

    /// Does the same as [`Store::read`] with a read that may run twice: here, as far as it stays
    /// within [`Budget::LIGHT`], otherwise in the turn of its lane. It sees the state `at`, without
    /// one and in a turn of its lane the newest.
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
        if !hints.is_large() {
            let ReadPoint(reader) = match at {
                Some(point) => point.clone(),
                None => self.read_point().await?,
            };
            let meter = Meter::new(&*reader, Budget::LIGHT);
            let mut light = || read(&self.view(&meter, org));
            let end = if self.engine.is_remote() { blocking(light) } else { light() };
            if !meter.is_exceeded() {
                return end;
            }
        }
        let _permit = self.heavy.acquire(hints).await?;
        // A new snapshot: the first one was not held while this waited.
        let reader = self.engine.begin_snapshot().wait().await?;
        blocking(|| read(&self.view(&*reader, org)))
    }
}

#[cfg(test)]
impl Store {
    /// Takes every turn there is, until what it returns is dropped.
    pub(crate) async fn take_turns(&self) -> Vec<impl Drop + use<>> {
        let mut permits = Vec::new();
        for _ in 0..super::fair_semaphore::max_heavy() {
            permits.push(self.heavy.acquire(WorkHints::small(Id::NIL)).await.expect("it is free"));
        }
        permits
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::sample::{Note, TABLES, note, org};
    use super::*;
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
}
