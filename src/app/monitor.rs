//! Measures the server every few seconds, for its admins (reference: command-line, "State of the
//! server"): a few hundred counters in memory, three files of `/proc` and the data directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::backup::LastBackup;
use super::doctor::{self, Level};
use super::tls::OwnTls;
use super::{host, panics};
use crate::api::{
    SAMPLE_SECS, SystemBackup, SystemHistory, SystemMonitor, SystemNode, SystemRetention,
    SystemSample, SystemStatus, SystemStorage,
};
use crate::base::Time;
use crate::http::{RequestTotals, ServerContext};
use crate::outbox::{DeliveryMeters, RetentionSettings};
use crate::store::engine::{SeenNode, SeenNodes, StoreMeters};

/// What is measured, and where it is recorded.
pub struct Monitor {
    /// Where requests are counted.
    pub context: Arc<ServerContext>,
    /// Where deliveries are counted.
    pub deliveries: Arc<DeliveryMeters>,
    /// What the server was started with.
    pub settings: RetentionSettings,
    /// The data directory; none of a store in memory.
    pub data_directory: Option<PathBuf>,
    /// The TLS of the server's own.
    pub tls: Option<Arc<OwnTls>>,
    /// The servers of the store; none of a store that has one.
    pub nodes: Option<SeenNodes>,
    /// Where it is recorded.
    pub system: Arc<SystemMonitor>,
}

/// What has been counted since the start.
struct Totals {
    at: Instant,
    requests: RequestTotals,
    writes: u64,
    failed_deliveries: u64,
}

impl Monitor {
    /// Measures now, before the server answers anything, and then after each interval, until it
    /// stops.
    pub fn start(self, stopping: watch::Receiver<bool>) -> JoinHandle<()> {
        let store = self.context.executor.store.meters();
        self.system.record(self.status(&store), None);
        tokio::spawn(self.run(store, stopping))
    }

    async fn run(self, store: Arc<StoreMeters>, mut stopping: watch::Receiver<bool>) {
        let mut last = self.totals(&store);
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(SAMPLE_SECS)) => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
            let totals = self.totals(&store);
            let sample = self.sample(&store, &last, &totals);
            self.system.record(self.status(&store), Some(sample));
            last = totals;
        }
    }

    fn totals(&self, store: &StoreMeters) -> Totals {
        Totals {
            at: Instant::now(),
            requests: self.context.metrics.totals(),
            writes: store.commit_attempts.sum(),
            failed_deliveries: self.deliveries.failed(),
        }
    }

    /// The figures of the interval between two moments.
    fn sample(&self, store: &StoreMeters, last: &Totals, now: &Totals) -> SystemSample {
        let secs = (now.at - last.at).as_secs_f64().max(f64::EPSILON);
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / secs;
        let quantile = |share| {
            let secs = now.requests.quantile_since(&last.requests, share);
            secs.map(|secs| secs * 1000.0)
        };
        SystemSample {
            requests: per_second(now.requests.answered, last.requests.answered),
            failed_requests: per_second(now.requests.failed, last.requests.failed),
            p50_millis: quantile(0.5),
            p99_millis: quantile(0.99),
            writes: per_second(now.writes, last.writes),
            queued: store.queued.value(),
            waiting: self.context.executor.meters.waiting.value(),
            failed_deliveries: now.failed_deliveries.saturating_sub(last.failed_deliveries),
            memory_bytes: host::resident_bytes(),
        }
    }

    fn status(&self, store: &StoreMeters) -> SystemStatus {
        let now = self.context.executor.store.clock().now();
        let dir = self.data_directory.as_deref();
        let last_backup = dir.and_then(LastBackup::read);
        SystemStatus {
            started_at: self.settings.started_at,
            measured_at: now,
            storage: SystemStorage { replicated: self.replicated(), ..storage(store, dir) },
            nodes: self.nodes.as_ref().map_or_else(Vec::new, |nodes| shown(&nodes.borrow(), now)),
            retention: SystemRetention {
                memory_secs: self.settings.memory_retention_secs,
                log_secs: self.settings.log_retention_secs,
                stale_after_secs: self.settings.stale_after_secs,
            },
            backup_due: dir.is_some() && doctor::is_backup_due(last_backup.as_ref(), now),
            last_backup: last_backup.map(|last| SystemBackup {
                taken_at: last.taken_at,
                bytes: last.bytes,
                records: last.records,
                encrypted: last.encrypted,
            }),
            panics: panics::count(),
            tls: self.tls.as_ref().map(|own| own.status()),
            history: SystemHistory::default(),
            ..SystemStatus::default()
        }
    }

    fn replicated(&self) -> Option<bool> {
        self.context.is_replicated.as_ref().map(|replicated| replicated.load(Ordering::Relaxed))
    }
}

/// The servers of a store at this time.
fn shown(nodes: &[SeenNode], now: Time) -> Vec<SystemNode> {
    let millis = |one: &SeenNode| i64::try_from(one.beat_at.elapsed().as_millis());
    let shown = nodes.iter().map(|one| SystemNode {
        id: one.id.clone(),
        name: one.description.clone(),
        address: one.address.clone(),
        version: one.release.clone(),
        last_beat_at: Time::from_millis(now.millis() - millis(one).unwrap_or(i64::MAX / 2)),
        answering: one.is_own,
        background_work: one.has_lease,
    });
    shown.collect()
}

fn storage(store: &StoreMeters, dir: Option<&Path>) -> SystemStorage {
    // Both gauges are 0 while unknown.
    let known = |bytes: u64| (bytes > 0).then_some(bytes);
    let database_bytes = known(store.file_bytes.value());
    let free_bytes = dir.and_then(doctor::free_bytes);
    let is_low = |free| doctor::space_level(free, database_bytes.unwrap_or(0)) != Level::Ok;
    SystemStorage {
        database_bytes,
        reusable_bytes: known(store.page_bytes.value()).map(|_| store.free_bytes()),
        log_bytes: store.log_bytes.value(),
        free_bytes,
        space_low: free_bytes.is_some_and(is_low),
        failed_commits: store.failed_commits.value(),
        failed_checkpoints: store.failed_checkpoints.value(),
        replicated: None,
        writes_refused: store.refuses_writes.value() > 0,
    }
}
