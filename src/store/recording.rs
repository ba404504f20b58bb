//! The recording of erasures in the ledger, before they are acknowledged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Store;
use super::erasure::{Erasure, ErasureLedger, Ledger};
use super::view::ListSource;
use crate::base::{Error, Id, LogLimit, Result};

impl Store {
    /// Sets the ledger that records erasures from now on, and records those that an earlier process
    /// left. Without one nothing waits for it. Blocks.
    ///
    /// # Errors
    /// If the ledger cannot be written or the store fails.
    pub fn set_ledger(&self, ledger: Arc<dyn ErasureLedger>) -> Result<()> {
        self.record_erasures(&*ledger)?;
        // A second one would be of another directory; there is none.
        let _ = self.context.ledger.ledger.set(ledger);
        Ok(())
    }

    /// Returns the erasures that may not be recorded yet, oldest first.
    ///
    /// # Errors
    /// If the store fails.
    pub fn erasures(&self) -> Result<Vec<Erasure>> {
        self.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &()))
    }

    fn record_erasures(&self, ledger: &dyn ErasureLedger) -> Result<()> {
        static LIMIT: LogLimit = LogLimit::new();
        let forgotten = ledger.record(&self.erasures()?)?;
        if forgotten.is_empty() {
            return Ok(());
        }
        // They are recorded. What cannot be forgotten now is given to the ledger again.
        if let Err(error) = self.write_blocking(Id::NIL, move |tx| tx.forget_erasures(&forgotten))
            && let Some(suppressed) = LIMIT.admit(Instant::now())
        {
            tracing::warn!(%error, suppressed, "recorded deletions stay in the store for now");
        }
        Ok(())
    }

    /// Records the erasures that could not be recorded before, if there are any. A failure is logged.
    pub async fn retry_erasures(&self) {
        if self.context.ledger.is_behind.load(Ordering::SeqCst) {
            let _ = self.erasures_recorded().await;
        }
    }

    /// Waits until the ledger has recorded all erasures that are in the store.
    pub(super) async fn erasures_recorded(&self) -> Result<()> {
        /// Every deletion fails so while the file cannot be written.
        static LIMIT: LogLimit = LogLimit::new();
        let Ledger { ledger, begun, recorded, is_behind } = &self.context.ledger;
        let Some(ledger) = ledger.get() else { return Ok(()) };
        // A recording that began before may have read the store before.
        let before = begun.load(Ordering::SeqCst);
        let mut recorded = recorded.lock().await;
        if *recorded > before {
            return Ok(());
        }
        let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
        let (store, ledger) = (self.clone(), ledger.clone());
        let done = self.heavy_threads.run(move || store.record_erasures(&*ledger)).await?;
        is_behind.store(done.is_err(), Ordering::SeqCst);
        done.map_err(|error| {
            let why = error.log_detail().unwrap_or(error.message()).to_string();
            if let Some(suppressed) = LIMIT.admit(Instant::now()) {
                tracing::error!(
                    %why, suppressed, "a deletion could not be recorded in the file `erasures`"
                );
            }
            Error::busy(
                "erasure_not_recorded",
                "it is deleted, but this could not be recorded for the case that a backup is \
                 restored; the server tries again every few seconds",
                5,
            )
        })?;
        *recorded = number;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::base::Time;
    use crate::store::sample::{note, org};
    use crate::store::{Clock, Tx};

    /// Notes what was in the store at each recording; fails while it is told to.
    #[derive(Default)]
    struct Notes {
        seen: Mutex<Vec<usize>>,
        fails: Mutex<bool>,
    }

    impl ErasureLedger for Notes {
        fn record(&self, erasures: &[Erasure]) -> Result<Vec<Erasure>> {
            if *self.fails.lock().unwrap() {
                return Err(Error::internal("no space"));
            }
            self.seen.lock().unwrap().extend((!erasures.is_empty()).then_some(erasures.len()));
            Ok(erasures.to_vec())
        }
    }

    fn store() -> (Store, Arc<Notes>) {
        let store = Store::in_memory(Clock::at(Time::from_millis(1_800_000_000_000)), &[]);
        let notes = Arc::<Notes>::default();
        store.set_ledger(notes.clone()).unwrap();
        (store, notes)
    }

    fn erase(tx: &mut Tx) -> Result<()> {
        tx.record_erasure("notes", &7_u32)
    }

    #[tokio::test]
    async fn an_erasure_is_acknowledged_once_it_is_recorded() {
        let (store, notes) = store();
        store.write(org(1), erase).await.unwrap();
        assert_eq!(*notes.seen.lock().unwrap(), [1]);
        assert!(store.erasures().unwrap().is_empty());
        store.write(org(1), |tx| tx.insert(&note(1, "", ""))).await.unwrap();
        assert_eq!(notes.seen.lock().unwrap().len(), 1, "other writes do not wait for the ledger");
    }

    #[tokio::test]
    async fn what_could_not_be_recorded_is_not_acknowledged_and_recorded_later() {
        let (store, notes) = store();
        *notes.fails.lock().unwrap() = true;
        let refused = store.write(org(1), erase).await.unwrap_err();
        assert_eq!(refused.code(), "erasure_not_recorded");
        assert_eq!(store.erasures().unwrap().len(), 1);
        *notes.fails.lock().unwrap() = false;
        store.retry_erasures().await;
        assert_eq!(*notes.seen.lock().unwrap(), [1]);
        store.retry_erasures().await;
        store.write(org(2), erase).await.unwrap();
        assert_eq!(*notes.seen.lock().unwrap(), [1, 1], "there was nothing to try again");
    }

    #[tokio::test]
    async fn many_that_wait_share_a_recording() {
        let (store, notes) = store();
        let erasures = (0..100).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.write(org(1), erase).await })
        });
        for erasure in erasures.collect::<Vec<_>>() {
            erasure.await.unwrap().unwrap();
        }
        let seen = notes.seen.lock().unwrap();
        assert_eq!(seen.iter().sum::<usize>(), 100);
        assert!(store.erasures().unwrap().is_empty());
    }
}
