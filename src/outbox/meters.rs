//! What the runner counts for the metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::effects::EffectResult;
use super::handlers::Settled;
use crate::base::metrics::{Counter, Family, FamilyKind, Sample, SampleValue};

/// Attempts of jobs with an effect (deliveries through channels, wakes posted to agents), by kind and
/// outcome; records that sweeps removed, by table.
#[derive(Debug, Default)]
pub struct DeliveryMeters {
    /// By the kind of the job, so that wakes that do not reach an agent are told from events that do
    /// not reach a channel.
    settled: Mutex<BTreeMap<&'static str, Outcomes>>,
    broken: Counter,
    swept: Mutex<BTreeMap<&'static str, u64>>,
}

/// The attempts of the jobs of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Outcomes {
    sent: u64,
    failed: u64,
    dead: u64,
}

impl DeliveryMeters {
    /// Counts an attempt of a job of this kind whose result is stored.
    pub(super) fn settled(&self, kind: &'static str, result: &EffectResult, settled: &Settled) {
        let mut all = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = all.entry(kind).or_default();
        *match (result.failure(""), settled) {
            (None, _) => &mut outcomes.sent,
            (Some(_), Settled::RetryAt(_)) => &mut outcomes.failed,
            (Some(_), Settled::Done | Settled::Warning(_)) => &mut outcomes.dead,
        } += 1;
    }

    /// Returns how many attempts have failed so far, whether they are repeated or given up.
    pub fn failed(&self) -> u64 {
        let all = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().map(|outcomes| outcomes.failed + outcomes.dead).sum()
    }

    fn deliveries(&self) -> Family {
        let all = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = all.iter().flat_map(|(kind, Outcomes { sent, failed, dead })| {
            [("sent", *sent), ("failed", *failed), ("dead", *dead)].map(|(outcome, value)| Sample {
                labels: vec![("job", (*kind).into()), ("outcome", outcome.into())],
                value: SampleValue::Number(value as f64),
            })
        });
        Family {
            name: "roadstead_deliveries",
            help: "Attempts to deliver events, wakes and manifests, by the kind of the job: sent, \
                   failed (to be repeated), or given up",
            kind: FamilyKind::Counter,
            samples: samples.collect(),
        }
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
        vec![
            self.deliveries(),
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
