//! What a server knows of itself and tells the admins of its organizations (reference:
//! command-line, "State of the server").
//!
//! `app` measures it every few seconds and records it here, in memory: a request reads what was
//! measured last, so that asking often costs nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Time;

/// The interval of the figures, in seconds.
pub const SAMPLE_SECS: u64 = 10;

/// The figures of an hour are kept: some 30 KB, whatever the server does.
const MAX_SAMPLES: usize = 360;

// ── What admins see ──────────────────────────────────────────────────────────

/// The state of the server. It is that of the whole installation: figures are sums over all
/// organizations.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemStatus {
    /// The version of the server.
    pub version: String,
    /// When the server was started.
    pub started_at: Time,
    /// When this was measured; it is measured every 10 seconds.
    pub measured_at: Time,
    pub storage: SystemStorage,
    /// The servers of a store in PostgreSQL, the one that answers among them; empty over a data
    /// directory.
    pub nodes: Vec<SystemNode>,
    pub retention: SystemRetention,
    /// The last completed backup; null before the first.
    pub last_backup: Option<SystemBackup>,
    /// Whether a backup should have been made: there is none, or the last one is older than two days.
    pub backup_due: bool,
    /// Panics since the start. Each is a fault of the program, and the log of the server says where.
    pub panics: u64,
    /// The TLS of the server's own; null if it has none, as behind a proxy that has.
    pub tls: Option<SystemTls>,
    pub history: SystemHistory,
}

/// The certificate that a server shows its clients.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemTls {
    /// The file of the certificate on the server.
    pub certificate: String,
    /// Whether the server has made it itself.
    pub self_signed: bool,
    /// Its SHA-256 in hexadecimal, with colons.
    pub fingerprint: String,
    /// The hosts that it is for.
    pub names: Vec<String>,
    /// Since when it is valid.
    pub not_before: Time,
    /// Until when it is valid.
    pub not_after: Time,
    /// Why the files as they are now are not served: an earlier certificate is; or why a certificate of an
    /// authority that is served cannot be written. Null if neither is so.
    pub problem: Option<String>,
    /// The authority that the server gets its certificates from; null if it gets none itself.
    pub acme: Option<Box<SystemAcme>>,
}

/// The authority that a server gets its certificates from (`--tls acme`). Until it has issued the first,
/// a certificate that the server has made itself is served.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemAcme {
    /// The URL of its directory.
    pub directory: String,
    /// The domains that certificates are asked for.
    pub domains: Vec<String>,
    /// When the server asked last; null before the first time.
    pub last_attempt_at: Option<Time>,
    /// How many attempts have failed in a row.
    pub failures: u32,
    /// Why the last attempt failed; null if it did not.
    pub error: Option<String>,
    /// When the server asks for the next certificate.
    pub next_attempt_at: Time,
}

/// The store of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemStorage {
    /// The size of the database file, measured once a minute; null while unknown.
    pub database_bytes: Option<u64>,
    /// How much of the file is free for later writes; null while unknown.
    pub reusable_bytes: Option<u64>,
    /// The part of the write-ahead log that is not in the database file yet.
    pub log_bytes: u64,
    /// Free space on the disk of the data directory; null if unknown.
    pub free_bytes: Option<u64>,
    /// Whether that is little: less than 256 MiB, or less than the database has.
    pub space_low: bool,
    /// Commits since the start that failed or whose outcome is unknown.
    pub failed_commits: u64,
    /// Checkpoints of the write-ahead log since the start that failed; each is tried again.
    pub failed_checkpoints: u64,
    /// Whether each commit is on a second database server before it is acknowledged, or the URL of the store
    /// declares that the service replicates by itself, as last checked; null over a data directory.
    pub replicated: Option<bool>,
    /// Whether this server refuses writes, since the database server does not finish commits, as when its
    /// synchronous standby is away; false over a data directory.
    pub writes_refused: bool,
}

/// A server of a store in PostgreSQL, as the one that answers sees it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemNode {
    /// Eight hexadecimal digits, others at each of its starts.
    pub id: String,
    /// What it says of itself: its address, host and process.
    pub name: String,
    /// Where it listens; null if it does not say so.
    pub address: Option<String>,
    /// The version of the server.
    pub version: String,
    /// When its last sign of life was seen, or it was first seen. It gives one every two seconds; after
    /// ten minutes without any it is forgotten.
    pub last_beat_at: Time,
    /// Whether it is the one that answers.
    pub answering: bool,
    /// Whether it does the background work of all of them.
    pub background_work: bool,
}

/// How long the server keeps what it removes by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemRetention {
    /// How long deleted and superseded memories are kept, in seconds (`--memory-retention`).
    pub memory_secs: i64,
    /// How long entries of the notification and audit logs, the history of labels, and closed drafts
    /// are kept, in seconds (`--log-retention`).
    pub log_secs: i64,
    /// The silence after which an agent that has sent a heartbeat counts as stale, in seconds
    /// (`--stale-after`).
    pub stale_after_secs: i64,
}

/// A backup that was completed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemBackup {
    /// When it was begun: what was acknowledged before is in it.
    pub taken_at: Time,
    /// Its size as stored.
    pub bytes: u64,
    /// How many records are in it.
    pub records: u64,
    /// Whether reading it takes a passphrase or an identity.
    pub encrypted: bool,
}

/// The figures of the last hour, or since the start if that is later: one for each interval, oldest
/// first. The last interval ended at `measuredAt`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemHistory {
    /// The length of an interval, in seconds.
    pub interval_secs: u64,
    /// Requests answered per second.
    pub requests: Vec<f64>,
    /// Requests answered with a status of 500 or more, per second.
    pub failed_requests: Vec<f64>,
    /// The milliseconds that half of the requests took at most, estimated; null without requests. Of
    /// those that may wait for a change none counts.
    pub p50_millis: Vec<Option<f64>>,
    /// The milliseconds that 99 of 100 requests took at most, in the same way.
    pub p99_millis: Vec<Option<f64>>,
    /// Transactions committed per second, those of background work included.
    pub writes: Vec<f64>,
    /// Transactions that waited for the writer at the end of the interval.
    pub queued: Vec<u64>,
    /// Long polls and event streams that waited at the end of the interval: agents waiting for wakes,
    /// and open pages.
    pub waiting: Vec<u64>,
    /// Attempts to deliver an event, a wake or a manifest that failed in the interval.
    pub failed_deliveries: Vec<u64>,
    /// The memory of the process at the end of the interval; null if unknown.
    pub memory_bytes: Vec<Option<u64>>,
}

// ── Recording ────────────────────────────────────────────────────────────────

/// The figures of one interval; [`SystemHistory`] says what each is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemSample {
    /// Per second.
    pub requests: f64,
    /// Per second.
    pub failed_requests: f64,
    /// In milliseconds.
    pub p50_millis: Option<f64>,
    /// In milliseconds.
    pub p99_millis: Option<f64>,
    /// Per second.
    pub writes: f64,
    /// At the end.
    pub queued: u64,
    /// At the end.
    pub waiting: u64,
    /// In the interval.
    pub failed_deliveries: u64,
    /// At the end.
    pub memory_bytes: Option<u64>,
}

/// Who may create organizations, by `--who-may-create-organizations`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrganizationCreators {
    /// Every user.
    #[default]
    Everyone,
    /// Those who administer the installation.
    InstallationAdmins,
}

/// What was measured last, the figures of the last hour, and what the operator has decided.
#[derive(Debug, Default)]
pub struct SystemMonitor {
    measured: Mutex<Measured>,
    /// Who may create organizations.
    pub organization_creators: OrganizationCreators,
}

#[derive(Debug, Default)]
struct Measured {
    /// Without its history.
    status: SystemStatus,
    samples: VecDeque<SystemSample>,
}

/// Of a server that was not measured yet.
impl Default for SystemStatus {
    fn default() -> Self {
        SystemStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            started_at: Time::from_millis(0),
            measured_at: Time::from_millis(0),
            storage: SystemStorage::default(),
            nodes: Vec::new(),
            retention: SystemRetention::default(),
            last_backup: None,
            backup_due: false,
            panics: 0,
            tls: None,
            history: SystemHistory::default(),
        }
    }
}

impl SystemMonitor {
    /// Creates the monitor of a server that was not measured yet.
    pub fn new(organization_creators: OrganizationCreators) -> Self {
        SystemMonitor { measured: Mutex::default(), organization_creators }
    }

    /// Records what was measured, whose history is ignored, and the figures of the interval that
    /// ended then.
    pub fn record(&self, status: SystemStatus, sample: Option<SystemSample>) {
        let mut measured = self.lock();
        measured.status = status;
        let Some(sample) = sample else { return };
        if measured.samples.len() == MAX_SAMPLES {
            measured.samples.pop_front();
        }
        measured.samples.push_back(sample);
    }

    /// Returns what was measured last.
    pub fn status(&self) -> SystemStatus {
        let measured = self.lock();
        SystemStatus { history: SystemHistory::of(&measured.samples), ..measured.status.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SystemHistory {
    fn of(samples: &VecDeque<SystemSample>) -> Self {
        fn each<T>(
            samples: &VecDeque<SystemSample>,
            figure: impl Fn(&SystemSample) -> T,
        ) -> Vec<T> {
            samples.iter().map(figure).collect()
        }
        SystemHistory {
            interval_secs: SAMPLE_SECS,
            requests: each(samples, |one| rounded(one.requests)),
            failed_requests: each(samples, |one| rounded(one.failed_requests)),
            p50_millis: each(samples, |one| one.p50_millis.map(rounded)),
            p99_millis: each(samples, |one| one.p99_millis.map(rounded)),
            writes: each(samples, |one| rounded(one.writes)),
            queued: each(samples, |one| one.queued),
            waiting: each(samples, |one| one.waiting),
            failed_deliveries: each(samples, |one| one.failed_deliveries),
            memory_bytes: each(samples, |one| one.memory_bytes),
        }
    }
}

/// To two places: more would only make the answer longer.
fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_an_hour_are_kept_the_oldest_first() {
        let monitor = SystemMonitor::default();
        assert_eq!(monitor.status().history.requests, [0.0; 0]);
        monitor.record(SystemStatus::default(), None);
        assert_eq!(monitor.status().history.requests, [0.0; 0], "no interval has ended");
        for queued in 0..400 {
            let sample = SystemSample { queued, requests: 1.0 / 3.0, ..SystemSample::default() };
            let measured_at = Time::from_millis(queued as i64);
            monitor.record(SystemStatus { measured_at, ..SystemStatus::default() }, Some(sample));
        }
        let status = monitor.status();
        assert_eq!(status.measured_at.millis(), 399);
        assert_eq!(status.history.queued, (40..400).collect::<Vec<_>>());
        assert_eq!(status.history.requests, [0.33; 360]);
        assert_eq!(status.history.p99_millis, [None; 360]);
    }
}
