//! Completing removals that were too large for one transaction.

use super::{Settings, Sweep, SweepProgress};
use crate::store::Tx;

/// Completes what transactions left to do for references to records that they removed, in steps of
/// [`MAX_DEFERRED_CHANGES`](crate::store::MAX_DEFERRED_CHANGES).
pub const COMPLETE_REMOVALS: Sweep = Sweep {
    name: "complete removals",
    every_secs: 60,
    run: |tx: &mut Tx, _: &Settings| match tx.continue_removals()? {
        true => Ok(SweepProgress::More),
        false => Ok(SweepProgress::Clean),
    },
    installation: false,
};
