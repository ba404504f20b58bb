//! Write transactions: submitted to the engine, and submitted again when they are given back.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::admission::Permit;
use super::clock::UncommittedIds;
use super::engine::{
    Attempt, Budget, GivenBack, Lane, OnConflict, Reader, Terms, WriteBatch, is_outcome_unknown,
    outcome_unknown,
};
use super::erasure::Erasure;
use super::id_watermark::IdWatermark;
use super::record::{Org, Record as _};
use super::{Store, StoreContext, Tx, WorkHints};
use crate::base::{Error, Id, Result};

/// After 3 conflicts an attempt runs while the others of its lane wait. Only writes of other lanes can
/// conflict then, which share little with it: after one more it runs on the writer thread.
const MAX_CONFLICTS: usize = 3;

impl Store {
    /// Runs `write` in a transaction of `org`, as [`Store::write_as`] does small work of `org`.
    ///
    /// # Errors
    /// As [`Store::write_as`].
    pub async fn write<T, F>(&self, org: Id<Org>, write: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        self.write_as(WorkHints::small(org), org, write).await
    }

    /// Runs `write` in a transaction of `org` and waits until its changes are durable. `write` may
    /// run several times.
    ///
    /// Small work runs on this task or on the writer thread while it stays within
    /// [`Budget::LIGHT`], other work in the turn of its lane on a thread of its own. The turn
    /// ends when it is durable: what has been prepared is in memory, and others of the lane would
    /// likely conflict with it.
    ///
    /// # Errors
    /// What `write` returns; nothing is stored then. 413 if it reads or writes too much at once; 503
    /// if too many writes wait, or if it is unknown whether the changes were stored.
    pub async fn write_as<T, F>(&self, hints: WorkHints, org: Id<Org>, write: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        let mut pending = self.pending(hints, org, write);
        let budget = if hints.is_large() { Budget::FULL } else { Budget::LIGHT };
        let mut terms = Terms { budget, on_conflict: OnConflict::GiveBack };
        let mut conflicts = 0;
        loop {
            let (reply, answer) = oneshot::channel();
            if terms.budget == Budget::LIGHT {
                self.engine.submit(Box::new(WriteAttempt { pending, reply }), terms)?;
            } else {
                if pending.permit.is_none() {
                    pending.permit = Some(self.turn(hints).await?);
                }
                let attempt = Box::new(WriteAttempt { pending, reply });
                let engine = self.engine.clone();
                self.heavy_threads.run(move || engine.submit(attempt, terms)).await??;
            }
            match answer.await {
                Ok(AttemptOutcome::Completed(end, Erases(false))) => return end,
                Ok(AttemptOutcome::Completed(end, Erases(true))) => {
                    let out = end?;
                    return self.erasures_recorded().await.map(|()| out);
                }
                Ok(AttemptOutcome::GivenBack(given_back, why)) => {
                    pending = given_back;
                    terms.budget = Budget::FULL;
                    conflicts += usize::from(why == GivenBack::Conflict);
                    terms.on_conflict = match conflicts {
                        0..MAX_CONFLICTS => OnConflict::GiveBack,
                        MAX_CONFLICTS => OnConflict::HoldLane,
                        _ => OnConflict::RunOnWriter,
                    };
                }
                Err(_) => return Err(outcome_unknown().detail("the attempt was lost")),
            }
        }
    }

    /// Does the same as [`Store::write`] from a thread that may block, except that it does not wait
    /// for erasures to be recorded.
    pub fn write_blocking<T, F>(&self, org: Id<Org>, write: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let pending = self.pending(WorkHints::small(org), org, write);
        let attempt = WriteAttempt { pending, reply };
        let terms = Terms { budget: Budget::FULL, on_conflict: OnConflict::RunOnWriter };
        self.engine.submit(Box::new(attempt), terms)?;
        match answer.blocking_recv() {
            Ok(AttemptOutcome::Completed(end, _)) => end,
            Ok(AttemptOutcome::GivenBack(..)) => {
                Err(Error::internal("an attempt was given back on its last terms"))
            }
            Err(_) => Err(outcome_unknown().detail("the attempt was lost")),
        }
    }

    pub(super) fn pending<T, F>(
        &self,
        hints: WorkHints,
        org: Id<Org>,
        write: F,
    ) -> PendingWrite<T, F> {
        PendingWrite {
            context: self.context.clone(),
            org,
            hints,
            write,
            out: None,
            watermark: None,
            uncommitted: None,
            erases: Erases(false),
            permit: None,
        }
    }
}

/// An operation with the outcome of its last run.
pub(super) struct PendingWrite<T, F> {
    context: Arc<StoreContext>,
    org: Id<Org>,
    hints: WorkHints,
    write: F,
    out: Option<T>,
    /// The id watermark that it wrote, in milliseconds.
    watermark: Option<i64>,
    /// Marks the ids that it made.
    uncommitted: Option<UncommittedIds>,
    erases: Erases,
    /// The turn of an attempt that is not light, held even if its caller is gone.
    permit: Option<Permit<Lane>>,
}

/// An operation queued for the writer thread, with the channel for its reply.
pub(super) struct WriteAttempt<T, F> {
    pub(super) pending: PendingWrite<T, F>,
    pub(super) reply: oneshot::Sender<AttemptOutcome<T, F>>,
}

/// Whether an attempt wrote an erasure, which must be recorded before it is acknowledged.
#[derive(Clone, Copy)]
pub(super) struct Erases(bool);

/// The reply to an attempt.
pub(super) enum AttemptOutcome<T, F> {
    /// It is over, with this outcome.
    Completed(Result<T>, Erases),
    /// It must be submitted again.
    GivenBack(PendingWrite<T, F>, GivenBack),
}

impl<T, F> Attempt for WriteAttempt<T, F>
where
    T: Send,
    F: FnMut(&mut Tx) -> Result<T> + Send,
{
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        let PendingWrite { context, org, write, out, watermark, uncommitted, erases, .. } =
            &mut self.pending;
        *uncommitted = None; // Those of a run before.
        let StoreContext { clock, keys, references, damage, .. } = &**context;
        let mut tx = Tx::new(reader, clock, keys, references, damage);
        tx.set_org(*org);
        *out = Some(write(&mut tx)?);
        *watermark = if tx.has_changes() { context.clock.watermark_due() } else { None };
        if let Some(newest_millis) = *watermark {
            // Another server of the store may have stored a later one.
            let stored = tx.get::<IdWatermark>(&())?;
            if stored.is_none_or(|stored| stored.newest_millis < newest_millis) {
                tx.put(&IdWatermark { newest_millis })?;
            }
        }
        *uncommitted = tx.take_uncommitted();
        let writes = tx.into_writes();
        *erases = Erases(writes.tables.contains_key(Erasure::TABLE));
        Ok(writes)
    }

    fn lane(&self) -> Lane {
        self.pending.hints.lane
    }

    fn bytes(&self) -> usize {
        self.pending.hints.bytes
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        let WriteAttempt { pending, reply } = *self;
        let PendingWrite { context, out, watermark, uncommitted, erases, permit, .. } = pending;
        match (&end, uncommitted) {
            // It may be found to be stored when the store is read anew.
            (Err(error), Some(ids)) if is_outcome_unknown(error) => context.clock.keep(ids),
            _ => {} // Snapshots have them by now, or never.
        }
        if let (Ok(()), Some(watermark)) = (&end, watermark) {
            context.clock.mark_stored(watermark);
        }
        let answer = end.and_then(|()| {
            out.ok_or_else(|| Error::internal("an attempt was completed but never run"))
        });
        drop(permit);
        // The caller may be gone; what was written stays.
        let _ = reply.send(AttemptOutcome::Completed(answer, erases));
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        let WriteAttempt { mut pending, reply } = *self;
        pending.uncommitted = None;
        let _ = reply.send(AttemptOutcome::GivenBack(pending, why));
    }
}
