//! What the runner counts for the metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::effects::EffectResult;
use super::handlers::Settled;
use crate::base::metrics::{Counter, Family, FamilyKind};

/// Attempts of jobs with an effect (deliveries through channels, wakes posted to agents), by
/// outcome; records that sweeps removed, by table.
#[derive(Debug, Default)]
pub struct DeliveryMeters {
    sent: Counter,
    failed: Counter,
    dead: Counter,
    broken: Counter,
    swept: Mutex<BTreeMap<&'static str, u64>>,
}

impl DeliveryMeters {
    /// Counts an attempt whose result is stored.
    pub(super) fn settled(&self, result: &EffectResult, settled: &Settled) {
        match (result.failure(""), settled) {
            (None, _) => &self.sent,
            (Some(_), Settled::RetryAt(_)) => &self.failed,
            (Some(_), Settled::Done | Settled::Warning(_)) => &self.dead,
        }
        .add_one();
    }

    /// Counts a job that could not be executed.
    pub(super) fn broken(&self) {
        self.broken.add_one();
    }

    /// Counts the records that a step of a sweep removed.
    pub(super) fn swept(&self, removed: &BTreeMap<&'static str, u64>) {
        if removed.is_empty() {
            return;
        }
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        for (table, rows) in removed {
            *swept.entry(table).or_default() += rows;
        }
    }

    fn swept_rows(&self) -> BTreeMap<&'static str, u64> {
        self.swept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the families for `/metrics`.
    pub fn families(&self) -> Vec<Family> {
        let outcomes = [
            ("sent", self.sent.value()),
            ("failed", self.failed.value()),
            ("dead", self.dead.value()),
        ];
        vec![
            Family::by_label(
                "roadstead_deliveries",
                "Attempts to deliver events and wakes: sent, failed (to be repeated), or given up",
                FamilyKind::Counter,
                "outcome",
                outcomes,
            ),
            Family::counter(
                "roadstead_jobs_broken",
                "Background jobs that failed for a reason of this server; the log has it",
                &self.broken,
            ),
            Family::by_label(
                "roadstead_rows_swept",
                "Records that retention and other sweeps removed",
                FamilyKind::Counter,
                "table",
                self.swept_rows(),
            ),
        ]
    }
}
