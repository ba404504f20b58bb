//! Removing a record with everything that its references say goes with it.
//!
//! What is small goes in the same transaction. What may be large is deferred: the transaction
//! removes as much as one attempt may and notes the rest as a [`PendingRemoval`], which a sweep
//! completes in steps of the same size. The target itself is gone at once, so that nothing leads
//! to the rest any more.

use bincode::{Decode, Encode};
use std::ops::ControlFlow;

use super::codec;
use super::engine::{KeyRange, Order, Reader};
use super::key::after_prefix;
use super::record::{Org, Record, org_prefix};
use super::reference::{Action, AnyReference, Referrers};
use super::tx::Tx;
use super::view::Source;
use crate::base::{Id, Result};

/// One attempt changes at most about so many keys for deferred references: a tenth of what a
/// transaction may, some 20 ms during which everybody else waits.
pub const MAX_DEFERRED_CHANGES: usize = 2_000;

/// The same in bytes of the records removed, which are read and compared: for long texts.
pub const MAX_DEFERRED_BYTES: usize = 4 * 1024 * 1024;

/// One step of the sweep takes up at most so many pending removals: most are small.
const MAX_RESUMED: usize = 100;

/// That a target was removed and records that refer to it may be left, which are to be removed or
/// cleared.
#[derive(Clone, Debug, Encode, Decode)]
pub struct PendingRemoval {
    /// Its id; the oldest is continued first.
    id: Id<PendingRemoval>,
    /// The reference's name.
    reference: String,
    /// The beginning of the referring records' keys.
    prefix: Vec<u8>,
    /// The target's key.
    target: Vec<u8>,
}

impl Record for PendingRemoval {
    const TABLE: &'static str = "removals";
    type Key = Id<PendingRemoval>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The removals of one transaction.
#[derive(Default)]
pub(super) struct Removal {
    /// What is left to do; the last is next.
    unfinished: Vec<Unfinished>,
    /// Whether references are being followed: what is removed meanwhile joins them.
    is_running: bool,
    /// How many keys the transaction changes that do not count as removed by this.
    before: usize,
    /// How many do, so far.
    changes: usize,
    /// The bytes of the records removed.
    bytes: usize,
}

struct Unfinished {
    reference: &'static dyn AnyReference,
    of: Referrers,
    /// Its row, if an earlier transaction left it.
    pending: Option<PendingRemoval>,
}

impl Tx<'_> {
    /// Removes a record, which was read in this transaction, with what refers to it: as each
    /// [`Reference`](super::Reference) to it says, that refuses the removal, goes too, or is
    /// cleared.
    ///
    /// # Errors
    /// 409 of a reference that refuses; nothing of it is written then. 500 if the record is not
    /// what is there. After any other error the transaction must not go on.
    pub fn remove<R: Record>(&mut self, record: &R) -> Result<()> {
        if self.removal.is_running {
            return self.remove_referrer(record);
        }
        for reference in self.references.to(R::TABLE) {
            if let Some(of) = reference.referrers(record) {
                reference.restrict(self, &of)?;
            }
        }
        self.removal.is_running = true;
        let end = self.remove_referrer(record).and_then(|()| self.follow());
        self.removal.is_running = false;
        end
    }

    /// Continues what earlier transactions of the organization left to do, for as much as one
    /// attempt may. Whether there was anything.
    pub fn continue_removals(&mut self) -> Result<bool> {
        let mut pending = Vec::new();
        self.view().each(Source::TABLE, &(), Order::Ascending, |row: PendingRemoval| {
            // One of a reference that is no longer declared stays, for the check to tell.
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
        self.removal.is_running = true;
        let end = self.follow();
        self.removal.is_running = false;
        end.map(|()| is_any)
    }

    /// Removes the record itself, follows the references that are not deferred, and notes those
    /// that are.
    pub(super) fn remove_referrer<R: Record>(&mut self, record: &R) -> Result<()> {
        self.removal.bytes += self.delete(record)?;
        record.removed(self)?;
        for &reference in self.references.to(R::TABLE) {
            let Some(of) = reference.referrers(record) else { continue };
            match reference.action() {
                Action::Restrict => {}
                _ if reference.is_deferred() => {
                    self.removal.unfinished.push(Unfinished { reference, of, pending: None });
                }
                Action::Cascade | Action::Clear => while !reference.step(self, &of)? {},
            }
        }
        Ok(())
    }

    /// Puts a record in the place of one from which a reference was cleared.
    pub(super) fn replace_referrer<R: Record>(&mut self, old: &R, new: &R) -> Result<()> {
        self.removal.bytes += codec::encode(new, &[])?.len();
        self.replace(old, new)
    }

    /// Whether this attempt may do more for deferred references.
    pub(super) fn may_remove_more(&self) -> bool {
        let Removal { before, bytes, .. } = self.removal;
        self.changes() < before + MAX_DEFERRED_CHANGES && bytes < MAX_DEFERRED_BYTES
    }

    /// Follows deferred references as far as this attempt may, and writes down the rest. What a
    /// removed record leaves comes before the next record, so that little is noted at a time.
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
                    self.delete(&row)?;
                }
            }
        }
        self.removal.changes = self.changes().saturating_sub(self.removal.before);
        self.reschedule()
    }

    /// Notes what is left to do, where anything is.
    fn reschedule(&mut self) -> Result<()> {
        // The sweep begins with the oldest row, and the last of the list is next.
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

    /// Deletes a record and nothing that refers to it, as damage would.
    #[cfg(test)]
    pub fn lose<R: Record>(&mut self, record: &R) -> Result<()> {
        self.delete(record).map(drop)
    }

    /// Whether a record is about to go with a target that is gone already.
    pub(super) fn is_orphan<R: Record>(&self, record: &R) -> Result<bool> {
        for reference in self.references.from(R::TABLE) {
            if reference.action() == Action::Cascade
                && reference.dangling(&self.overlay(), self.org(), record)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether the sweep has still to do what removing `target`, which is gone, does by `reference`.
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
        let row: PendingRemoval = codec::decode(key, value)?;
        found = row.reference == reference.name() && row.target.starts_with(target);
        Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests;
