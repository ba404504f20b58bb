//! Cascading removal: a record is removed with everything that its references remove with it.
//!
//! Small parts are removed in the same transaction. Parts that may be large are deferred: the
//! transaction removes as much as one attempt may and stores the rest as a [`PendingRemoval`], which
//! a sweep completes in steps of the same size. The target itself is removed at once, so that the
//! rest can no longer be reached.

use bincode::{Decode, Encode};
use std::ops::ControlFlow;

use super::engine::{KeyRange, Order, Reader};
use super::key::after_prefix;
use super::list_source::ListSource;
use super::record::{AnyRecord, Export, Org, Record, decode, org_prefix};
use super::reference::{Action, AnyReference, Referrers};
use super::tx::Tx;
use crate::base::{Error, Id, Result};

/// One attempt changes about 2,000 keys at most for deferred references: a tenth of what a
/// transaction may, some 20 ms during which other writes wait.
pub const MAX_DEFERRED_CHANGES: usize = 2_000;

/// One attempt removes about 4 MiB of records at most for deferred references: records with long
/// texts are read and compared.
pub const MAX_DEFERRED_BYTES: usize = 4 * 1024 * 1024;

/// One step of the sweep continues at most 100 pending removals: most are small.
const MAX_RESUMED: usize = 100;

crate::base::portable! {
/// A removal to be completed: the target was removed, and records that refer to it may be left, which
/// are to be removed or cleared.
#[derive(Clone, Debug, Encode, Decode)]
pub struct PendingRemoval {
    /// Its id; the oldest removal is continued first.
    id: Id<PendingRemoval>,
    /// The name of the reference.
    reference: String,
    /// The prefix of the referring records' keys.
    prefix: Vec<u8>,
    /// The target's key.
    target: Vec<u8>,
}
}

impl Record for PendingRemoval {
    const TABLE: &'static str = "removals";
    const EXPORT: Export<Self> = Export::WHOLE;
    type Key = Id<PendingRemoval>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The removals of one transaction.
#[derive(Clone, Default)]
pub(super) struct Removal {
    /// Deferred references to follow; the last is next.
    unfinished: Vec<Unfinished>,
    /// The organization in which references are being followed: a record removed meanwhile adds its own.
    running_in: Option<Id<Org>>,
    /// Number of changed keys of the transaction that do not count towards the limit.
    before: usize,
    /// Number of changed keys that count, so far.
    changes: usize,
    /// Bytes of the removed records.
    bytes: usize,
}

#[derive(Clone)]
struct Unfinished {
    reference: &'static dyn AnyReference,
    of: Referrers,
    /// Its row, if an earlier transaction stored it.
    pending: Option<PendingRemoval>,
}

impl Tx<'_> {
    /// Removes a record, which was read in this transaction, and enforces each
    /// [`Reference`](super::Reference) to it: it refuses the removal, removes the referring records,
    /// or clears their field.
    ///
    /// # Errors
    /// 409 of a reference that refuses; nothing is changed then. 500 if the record is not what is
    /// stored. After any other error the transaction must not be committed.
    pub fn remove<R: Record>(&mut self, record: &R) -> Result<()> {
        self.remove_any(record)
    }

    fn remove_any(&mut self, record: &dyn AnyRecord) -> Result<()> {
        if self.removal.running_in.is_some() {
            return self.remove_referrer(record);
        }
        for reference in self.references.to(record.table().name) {
            for of in reference.referrers(record) {
                reference.restrict(self, &of)?;
            }
        }
        self.remove_any_orphan(record)
    }

    /// Removes a record with what its references remove with it, whatever refuses that: for a record that
    /// has outlived what it belonged to.
    ///
    /// # Errors
    /// As [`Tx::remove`], except those of references that refuse.
    pub fn remove_orphan<R: Record>(&mut self, record: &R) -> Result<()> {
        self.remove_any_orphan(record)
    }

    /// See [`Tx::remove_orphan`].
    pub(super) fn remove_any_orphan(&mut self, record: &dyn AnyRecord) -> Result<()> {
        self.removal.running_in = Some(self.org());
        let end = self.remove_referrer(record).and_then(|()| self.follow());
        self.removal.running_in = None;
        end
    }

    /// Continues the pending removals of the organization as far as one attempt may. Returns whether
    /// there were any.
    ///
    /// # Errors
    /// Those of [`Tx::remove`].
    pub fn continue_removals(&mut self) -> Result<bool> {
        let mut pending = Vec::new();
        self.view().for_each(ListSource::TABLE, &(), Order::Ascending, |row: PendingRemoval| {
            // The row of a reference that is no longer declared stays, for the check to report.
            if let Some(reference) = self.references.deferred(&row.reference) {
                pending.push((reference, row));
            }
            Ok(if pending.len() < MAX_RESUMED {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        let is_any = !pending.is_empty();
        self.removal.unfinished =
            Vec::from_iter(pending.into_iter().rev().map(|(reference, row)| {
                let of = Referrers { prefix: row.prefix.clone(), target: row.target.clone() };
                Unfinished { reference, of, pending: Some(row) }
            }));
        self.removal.running_in = Some(self.org());
        let end = self.follow();
        self.removal.running_in = None;
        end.map(|()| is_any)
    }

    /// Removes the record itself, follows the references to it that are not deferred, and queues the
    /// deferred ones.
    pub(super) fn remove_referrer(&mut self, record: &dyn AnyRecord) -> Result<()> {
        self.removal.bytes += self.delete_any(record)?;
        record.was_removed(self)?;
        for &reference in self.references.to(record.table().name) {
            for of in reference.referrers(record) {
                match reference.action() {
                    Action::Restrict => {}
                    _ if reference.is_deferred() => {
                        self.require_same_org()?;
                        self.removal.unfinished.push(Unfinished { reference, of, pending: None });
                    }
                    Action::Cascade | Action::Clear => while !reference.step(self, &of)? {},
                }
            }
        }
        Ok(())
    }

    /// Replaces a record by one from which a reference was cleared.
    pub(super) fn replace_referrer(
        &mut self,
        old: &dyn AnyRecord,
        new: &dyn AnyRecord,
    ) -> Result<()> {
        self.removal.bytes += new.encoded(&[])?.len();
        self.replace_any(old, new)
    }

    /// Returns whether this attempt may do more for deferred references.
    pub(super) fn may_remove_more(&self) -> bool {
        let Removal { before, bytes, .. } = self.removal;
        self.changes() < before + MAX_DEFERRED_CHANGES && bytes < MAX_DEFERRED_BYTES
    }

    /// Follows deferred references as far as this attempt may, and stores the rest. The references to
    /// a removed record are followed before the next record is removed, so that few are queued at a
    /// time.
    fn follow(&mut self) -> Result<()> {
        self.removal.before = self.changes().saturating_sub(self.removal.changes);
        while self.may_remove_more()
            && let Some(at) = self.removal.unfinished.len().checked_sub(1)
        {
            let Unfinished { reference, of, .. } = &self.removal.unfinished[at];
            let (reference, of) = (*reference, of.clone());
            if reference.step(self, &of)? {
                let done = self.removal.unfinished.remove(at);
                if let Some(row) = done.pending {
                    self.delete_any(&row)?;
                }
            }
        }
        self.removal.changes = self.changes().saturating_sub(self.removal.before);
        self.reschedule()
    }

    /// Requires that the organization is still that in which references are followed. What is deferred is
    /// followed, and left to a sweep, there: in another one it would find nothing of its own. Required both
    /// where something is deferred, by what is removed elsewhere before the organization is changed back, and
    /// at the end, where what was deferred before may be left to a sweep.
    fn require_same_org(&self) -> Result<()> {
        if self.removal.running_in.is_some_and(|org| org != self.org()) {
            return Err(Error::internal("a removal goes on in another organization"));
        }
        Ok(())
    }

    /// Stores a row for each deferred reference that may have referring records left.
    fn reschedule(&mut self) -> Result<()> {
        self.require_same_org()?;
        // The sweep begins with the oldest row, so the last of the list is stored first.
        for Unfinished { reference, of, pending } in
            std::mem::take(&mut self.removal.unfinished).into_iter().rev()
        {
            if pending.is_none() && reference.any(&self.view(), &of)? {
                let Referrers { prefix, target } = of;
                let (id, reference) = (self.new_id(), reference.name());
                self.insert(&PendingRemoval { id, reference, prefix, target })?;
            }
        }
        Ok(())
    }

    /// Deletes a record without its references, as damage would.
    #[cfg(test)]
    pub fn lose<R: Record>(&mut self, record: &R) -> Result<()> {
        self.delete_any(record).map(drop)
    }

    /// Returns whether a record is about to be removed with a target that no longer exists.
    pub(super) fn is_orphan(&self, record: &dyn AnyRecord) -> Result<bool> {
        for reference in self.references.from(record.table().name) {
            if reference.action() == Action::Cascade
                && reference.dangling(&self.overlay(), self.org(), record)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns whether the sweep has yet to apply `reference` to the records that refer to `target`,
/// which was removed.
pub(super) fn is_pending(
    reader: &dyn Reader,
    org: Id<Org>,
    reference: &dyn AnyReference,
    target: &[u8],
) -> Result<bool> {
    let from = org_prefix::<PendingRemoval>(org);
    let to = after_prefix(&from);
    let mut found = false;
    let range = KeyRange { from: &from, to: to.as_deref() };
    reader.scan(PendingRemoval::TABLE, range, Order::Ascending, &mut |key, value| {
        let row: PendingRemoval = decode(key, value)?;
        found = row.reference == reference.name() && row.target.starts_with(target);
        Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests;
