//! Completing removals that were too large for one transaction, and forgetting erasures.

use super::{RetentionSettings, Sweep, SweepProgress, delete_due};
use crate::store::{ERASURES_KEPT_SECS, Erasure, ListSource, Tx};

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

/// Removes erasures that are older than they are kept. A store in PostgreSQL is their ledger; over a
/// data directory a ledger beside it has them, and removes its own lines.
pub const FORGET_ERASURES: Sweep = Sweep {
    name: "forget expired erasures",
    every_secs: 3600,
    run: |tx: &mut Tx, _: &RetentionSettings| {
        let end = tx.now().minus_secs(ERASURES_KEPT_SECS);
        // Their ids begin with their times.
        delete_due(tx, ListSource::TABLE, |erasure: &Erasure| erasure.at < end)
    },
    installation: true,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Id, Time};
    use crate::store::{Clock, Store};

    #[test]
    fn erasures_are_forgotten_after_400_days_and_not_before() {
        let now = Time::from_millis(1_800_000_000_000);
        let store = Store::in_memory(Clock::at(now), &[]);
        let days = [900, 401, 399, 1].map(|days| now.minus_secs(days * 24 * 3600));
        store
            .write_blocking(Id::NIL, move |tx| {
                for at in days {
                    tx.insert(&Erasure::recorded(at, "memories".into(), vec![7]))?;
                }
                Ok(())
            })
            .unwrap();
        let sweep = |tx: &mut Tx| (FORGET_ERASURES.run)(tx, &RetentionSettings::default());
        assert_eq!(store.write_blocking(Id::NIL, sweep).unwrap(), SweepProgress::Clean);
        let kept: Vec<_> = store.erasures().unwrap().iter().map(|one| one.at).collect();
        assert_eq!(kept, days[2..]);
    }
}
