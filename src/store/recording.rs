//! The recording of erasures in the ledger, before they are acknowledged.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::erasure::{Erasure, ErasureLedger, Ledger};
use super::list_source::ListSource;
use super::{Key as _, Order, Store};
use crate::base::{Error, Id, LogLimit, Result};

/// This many erasures are read, recorded and forgotten at once: few enough for one transaction, and in
/// memory.
const CHUNK: usize = 2_000;

impl Store {
    /// Sets the ledger that records erasures from now on, and records those that an earlier process
    /// left: [later](Store::record_rest_of_erasures) if it cannot be written now, so that a server starts
    /// on a full disk, too. None of them was acknowledged, or it is there already. Without a ledger
    /// nothing waits for it. Blocks.
    pub fn set_ledger(&self, ledger: Arc<dyn ErasureLedger>) {
        if let Err(error) = self.record_erasures(&*ledger) {
            let why = error.log_detail().unwrap_or(error.message());
            tracing::error!(why, "earlier deletions could not be recorded in the file `erasures`");
        }
        // A second one would be of another directory; there is none.
        let _ = self.context.ledger.ledger.set(ledger);
    }

    /// Returns the erasures that may not be recorded yet, oldest first.
    pub fn erasures(&self) -> Result<Vec<Erasure>> {
        self.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &()))
    }

    /// Records all erasures that are in the store when it is called, in chunks: there are many after
    /// a time in which the ledger could not be written, and one transaction cannot forget them all.
    fn record_erasures(&self, ledger: &dyn ErasureLedger) -> Result<()> {
        let mut after = None;
        let mut can_forget = true;
        loop {
            let chunk = self.next_erasures(after)?;
            let Some(last) = chunk.last().map(Erasure::id) else { return Ok(()) };
            let is_last = chunk.len() < CHUNK;
            if ledger.record(&chunk)? && can_forget {
                can_forget = self.forget_erasures(ledger, chunk);
            }
            if is_last {
                return Ok(());
            }
            after = Some(last);
        }
    }

    /// Returns the next erasures in the store, in the order of their ids: at most [`CHUNK`].
    fn next_erasures(&self, after: Option<Id<Erasure>>) -> Result<Vec<Erasure>> {
        let after = after.map(|id| id.to_bytes());
        let mut chunk = Vec::new();
        self.read_now(Id::NIL, |view| {
            let source = ListSource::TABLE;
            view.scan_records(source, &(), Order::Ascending, after.as_deref(), &mut |_, _, one| {
                chunk.push(one);
                let is_full = chunk.len() == CHUNK;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })
        })?;
        Ok(chunk)
    }

    /// Forgets erasures that the ledger has recorded. Returns whether that was possible: otherwise
    /// they stay, and are given to the ledger again, which knows them.
    fn forget_erasures(&self, ledger: &dyn ErasureLedger, recorded: Vec<Erasure>) -> bool {
        static LIMIT: LogLimit = LogLimit::new();
        let ids: Vec<_> = recorded.iter().map(Erasure::id).collect();
        match self.write_blocking(Id::NIL, move |tx| tx.forget_erasures(&recorded)) {
            Ok(()) => {
                ledger.forgotten(&ids);
                true
            }
            Err(error) => {
                if let Some(suppressed) = LIMIT.admit(Instant::now()) {
                    tracing::warn!(%error, suppressed, "recorded deletions stay in the store for now");
                }
                false
            }
        }
    }

    /// Records the erasures that nobody waits for: those whose caller has gone, whose commit had an
    /// unknown outcome, or that could not be recorded before. The store says which there are, not
    /// what happened to the attempts, so none is forgotten; it holds few. A failure is logged.
    pub async fn record_rest_of_erasures(&self) {
        let _ = self.erasures_recorded().await;
    }

    /// Waits until the ledger has recorded all erasures that are in the store.
    pub(super) async fn erasures_recorded(&self) -> Result<()> {
        /// Every deletion fails so while the file cannot be written.
        static LIMIT: LogLimit = LogLimit::new();
        let Ledger { ledger, begun, recorded } = &self.context.ledger;
        let Some(ledger) = ledger.get() else { return Ok(()) };
        // A recording that began before may have read the store before.
        let before = begun.load(Ordering::SeqCst);
        let mut recorded = recorded.clone().lock_owned().await;
        if *recorded > before {
            return Ok(());
        }
        let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
        let (store, ledger) = (self.clone(), ledger.clone());
        // It goes on if this caller is gone, and nobody records beside it.
        let record = move || {
            let done = store.record_erasures(&*ledger);
            if done.is_ok() {
                *recorded = number;
            }
            done
        };
        let done = self.heavy_threads.run(record).await?;
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
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::base::{Keys, Time};
    use crate::store::engine::{CommitOutcome, LocalStorage, Memory, Reader, WriteBatch};
    use crate::store::record::Record as _;
    use crate::store::sample::{note, org};
    use crate::store::{Clock, MAX_WRITES, Tx};

    /// Notes what was in the store at each recording; fails while it is told to.
    #[derive(Default)]
    struct Notes {
        seen: Mutex<Vec<usize>>,
        /// How many each call brought.
        asked: Mutex<Vec<usize>>,
        fails: Mutex<bool>,
    }

    impl ErasureLedger for Notes {
        fn record(&self, erasures: &[Erasure]) -> Result<bool> {
            self.asked.lock().unwrap().push(erasures.len());
            if *self.fails.lock().unwrap() {
                return Err(Error::internal("no space"));
            }
            self.seen.lock().unwrap().extend((!erasures.is_empty()).then_some(erasures.len()));
            Ok(true)
        }

        fn forgotten(&self, _: &[Id<Erasure>]) {}
    }

    fn store() -> (Store, Arc<Notes>) {
        let store = Store::in_memory(Clock::at(Time::from_millis(1_800_000_000_000)), &[]);
        let notes = Arc::<Notes>::default();
        store.set_ledger(notes.clone());
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
        store.record_rest_of_erasures().await;
        assert_eq!(*notes.seen.lock().unwrap(), [1]);
        store.record_rest_of_erasures().await;
        store.write(org(2), erase).await.unwrap();
        assert_eq!(*notes.seen.lock().unwrap(), [1, 1], "there was nothing to try again");
    }

    #[tokio::test]
    async fn what_an_earlier_process_left_is_recorded_later_if_it_cannot_be_at_the_start() {
        let clock = Clock::at(Time::from_millis(1_800_000_000_000));
        let store = Store::in_memory(clock, &[]);
        store.write(org(1), erase).await.unwrap();
        let notes = Arc::<Notes>::default();
        *notes.fails.lock().unwrap() = true;
        store.set_ledger(notes.clone());
        *notes.fails.lock().unwrap() = false;
        store.record_rest_of_erasures().await;
        assert_eq!(*notes.seen.lock().unwrap(), [1]);
    }

    #[tokio::test]
    async fn an_erasure_whose_caller_has_gone_is_recorded_without_another() {
        let (store, notes) = store();
        // It is polled once, which submits it, and dropped, as when a client resets its connection.
        let _ = tokio::time::timeout(Duration::ZERO, store.write(org(1), erase)).await;
        let is_seen = || !notes.seen.lock().unwrap().is_empty();
        while store.erasures().unwrap().is_empty() && !is_seen() {
            tokio::task::yield_now().await;
        }
        store.record_rest_of_erasures().await;
        assert!(is_seen() && store.erasures().unwrap().is_empty());
    }

    /// Stores each batch, and does not know it.
    struct Unsure(Memory);

    impl LocalStorage for Unsure {
        fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
            self.0.snapshot()
        }

        fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
            match self.0.commit(writes) {
                CommitOutcome::Done(_) if writes.tables.contains_key(Erasure::TABLE) => {
                    CommitOutcome::Unknown(Error::internal("the disk does not answer"))
                }
                known => known,
            }
        }

        fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
            self.0.reopen()
        }
    }

    #[tokio::test]
    async fn an_erasure_whose_outcome_was_unknown_is_recorded_if_it_was_stored() {
        let clock = Clock::at(Time::from_millis(1_800_000_000_000));
        let storage = Unsure(Memory::default());
        let store = Store::start(storage, clock, Keys::new([7; 32]), &[]).unwrap();
        let notes = Arc::<Notes>::default();
        store.set_ledger(notes.clone());
        let unknown = store.write(org(1), erase).await.unwrap_err();
        assert_eq!(unknown.code(), "outcome_unknown");
        store.record_rest_of_erasures().await;
        assert_eq!(*notes.seen.lock().unwrap(), [1]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn any_number_is_recorded_and_forgotten_and_no_deletion_reads_all_of_it() {
        let (store, notes) = store();
        *notes.fails.lock().unwrap() = true;
        // More than one transaction can forget, as after days in which the file could not be written.
        let many = MAX_WRITES + 1;
        for part in (0..many).collect::<Vec<_>>().chunks(5_000) {
            let part = part.len();
            let (store, erase_part) =
                (store.clone(), move |tx: &mut Tx| (0..part).try_for_each(|_| erase(tx)));
            let written =
                tokio::task::spawn_blocking(move || store.write_blocking(org(1), erase_part));
            written.await.unwrap().unwrap();
        }
        store.write(org(1), erase).await.unwrap_err();
        *notes.fails.lock().unwrap() = false;
        store.write(org(1), erase).await.unwrap();
        assert!(store.erasures().unwrap().is_empty());
        assert_eq!(notes.seen.lock().unwrap().iter().sum::<usize>(), many + 2);
        assert!(notes.asked.lock().unwrap().iter().all(|asked| *asked <= CHUNK));
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
