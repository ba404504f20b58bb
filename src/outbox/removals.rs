//! Completing removals that were too large for one transaction.

use super::{RetentionSettings, Sweep, SweepProgress};
use crate::store::Tx;

/// Completes the deferred part of removals: cascades and cleared references, in steps of
/// [`MAX_DEFERRED_CHANGES`](crate::store::MAX_DEFERRED_CHANGES).
pub const COMPLETE_REMOVALS: Sweep = Sweep {
    name: "complete removals",
    every_secs: 60,
    run: |tx: &mut Tx, _: &RetentionSettings| {
        let more = tx.continue_removals()?;
        Ok(if more { SweepProgress::More } else { SweepProgress::Clean })
    },
    installation: false,
};
