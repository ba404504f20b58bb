//! The retention of the audit log: what is older than `--log-retention` is removed from the front of
//! the chain, and the position of the last removed entry is kept, so that the rest still verifies.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::chain::{ChainedEntry, Content, Link};
use super::postings::Postings;
use crate::api::OldestRow;
use crate::base::{Id, Keys, Result, Time};
use crate::outbox::{RetentionSettings, Sweep, SweepProgress};
use crate::store::{Export, ListSource, Order, Org, Record, Tx};

/// A step removes at most 100 entries: with their postings as many rows as other sweeps do.
const REMOVED_ROWS: usize = 100;

/// Where an organization's chain begins, once entries were removed: a checkpoint of what is gone.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ChainStart {
    /// The last removed entry; the first one kept continues it.
    pub before: Link,
    /// When it was removed.
    pub removed_at: Time,
    /// A hash of all of this in this organization, which only this installation can compute.
    pub seal: [u8; 32],
}

impl Record for ChainStart {
    const TABLE: &'static str = "audit_log.starts";
    const EXPORT: Export<Self> = Export::LeftOut("another installation begins a chain of its own");
    type Key = ();
    fn key(&self) {}
}

impl ChainStart {
    /// Returns whether its seal is right in this organization.
    pub(super) fn is_sealed(&self, keys: &Keys, org: Id<Org>) -> bool {
        self.seal == self.seal_in(keys, org)
    }

    fn seal_in(&self, keys: &Keys, org: Id<Org>) -> [u8; 32] {
        let mut content = Content::default();
        content.add(org.bytes());
        content.add_link(&self.before);
        content.add(&self.removed_at.millis().to_be_bytes());
        keys.hash("roadstead 2026 audit chain: start", &content.0)
    }
}

/// The oldest entry, for the metrics.
pub const OLDEST: OldestRow = OldestRow {
    table: ChainedEntry::TABLE,
    read: |view| {
        let oldest = view.first(ListSource::TABLE, &(), Order::Ascending)?;
        Ok(oldest.map(|chained: ChainedEntry| chained.latest))
    },
};

/// Removes entries that are older than the operator's `--log-retention`.
pub const DELETE_EXPIRED: Sweep = Sweep {
    name: "delete expired audit entries",
    every_secs: 600,
    run: delete_expired,
    installation: false,
};

/// One step. The last entry is kept, however old: the chain continues after it.
fn delete_expired(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    let end = tx.now().minus_secs(settings.log_retention_secs);
    let mut due: Vec<ChainedEntry> = Vec::new();
    let mut last = None;
    tx.view().for_each(ListSource::TABLE, &(), Order::Ascending, |chained: ChainedEntry| {
        // One is removed when the next is seen, so that the last stays.
        due.extend(last.take());
        if due.len() == REMOVED_ROWS || chained.latest > end {
            return Ok(ControlFlow::Break(()));
        }
        last = Some(chained);
        Ok(ControlFlow::Continue(()))
    })?;
    let Some(newest) = due.last() else { return Ok(SweepProgress::Clean) };
    let (before, removed_at) = (newest.link(), tx.now());
    let mut start = ChainStart { before, removed_at, seal: [0; 32] };
    start.seal = start.seal_in(tx.keys(), tx.org());
    tx.put(&start)?;
    let mut postings = Postings::default();
    for chained in &due {
        tx.remove(chained)?;
        postings.add(chained.sequence, &chained.entry);
    }
    postings.remove(tx)?;
    let is_full = due.len() == REMOVED_ROWS;
    Ok(if is_full { SweepProgress::More } else { SweepProgress::Clean })
}
