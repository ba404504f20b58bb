//! `/o/{org}/operations/system`: the state of the server and its figures of the last hour, what it
//! keeps for how long, and the last backup.

use askama::Template;
use serde::Deserialize;

use super::channels::tabs;
use crate::base::{Result, Time};
use crate::console::chart::{Chart, HEIGHT, Series, Summary, WIDTH};
use crate::console::frame::{Frame, render};
use crate::console::measures::{bytes, duration};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/operations/system").get(|visit| Box::pin(show(visit)))];

/// A row of the table has the figures of five minutes.
const ROW_SECS: u64 = 300;

/// Others take the work of a server over that is silent for eight seconds; a second is lost by
/// rounding.
const MAX_SILENCE_SECS: i64 = 9;

#[derive(Template)]
#[template(path = "system.html")]
struct System {
    frame: Frame,
    status: Status,
    charts: Vec<Chart>,
    columns: Vec<&'static str>,
    /// The minutes before now of each row, and its cells.
    rows: Vec<(String, Vec<String>)>,
    width: usize,
    height: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    version: String,
    started_at: Time,
    measured_at: Time,
    storage: Storage,
    nodes: Vec<Node>,
    retention: Retention,
    last_backup: Nullable<Backup>,
    backup_due: bool,
    panics: u64,
    tls: Nullable<Tls>,
    history: History,
}

/// The certificate of the server.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tls {
    self_signed: bool,
    fingerprint: String,
    names: Vec<String>,
    not_after: Time,
    problem: Nullable<String>,
    acme: Nullable<Acme>,
}

/// The authority that the certificate is of.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Acme {
    directory: String,
    domains: Vec<String>,
    last_attempt_at: Nullable<Time>,
    failures: u32,
    error: Nullable<String>,
    next_attempt_at: Time,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Storage {
    database_bytes: Nullable<u64>,
    reusable_bytes: Nullable<u64>,
    log_bytes: u64,
    free_bytes: Nullable<u64>,
    space_low: bool,
    failed_commits: u64,
    failed_checkpoints: u64,
    replicated: Nullable<bool>,
    writes_refused: bool,
}

/// One of several servers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: String,
    name: String,
    address: Nullable<String>,
    version: String,
    last_beat_at: Time,
    answering: bool,
    background_work: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Retention {
    memory_secs: i64,
    log_secs: i64,
    stale_after_secs: i64,
}

/// The last backup.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    pub taken_at: Time,
    bytes: u64,
    records: u64,
    encrypted: bool,
}

impl Storage {
    fn database(&self) -> String {
        self.database_bytes.map_or("–".into(), bytes)
    }

    /// Empty while unknown.
    fn reusable(&self) -> String {
        self.reusable_bytes.map_or(String::new(), bytes)
    }

    fn log(&self) -> String {
        bytes(self.log_bytes)
    }

    fn free(&self) -> String {
        self.free_bytes.map_or("–".into(), |free| format!("{} free", bytes(free)))
    }

    fn has_failed(&self) -> bool {
        self.failed_commits + self.failed_checkpoints > 0
    }
}

impl Node {
    /// How long it has been silent, in seconds, when this was measured.
    fn silence(&self, measured_at: &Time) -> i64 {
        measured_at.secs() - self.last_beat_at.secs()
    }

    /// Whether it has shown no sign of life for so long that others take its work over.
    fn is_silent(&self, measured_at: &Time) -> bool {
        self.silence(measured_at) > MAX_SILENCE_SECS
    }
}

impl Retention {
    fn memories(&self) -> String {
        duration(self.memory_secs)
    }

    fn logs(&self) -> String {
        duration(self.log_secs)
    }

    fn stale_after(&self) -> String {
        duration(self.stale_after_secs)
    }
}

impl Backup {
    fn size(&self) -> String {
        bytes(self.bytes)
    }
}

/// The figures of one kind, which may be missing for an interval.
type Figures = Vec<Option<f64>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct History {
    interval_secs: u64,
    requests: Figures,
    failed_requests: Figures,
    p50_millis: Figures,
    p99_millis: Figures,
    writes: Figures,
    queued: Figures,
    waiting: Figures,
    failed_deliveries: Figures,
    memory_bytes: Figures,
}

impl History {
    fn memory_mib(&self) -> Figures {
        self.memory_bytes.iter().map(|bytes| bytes.map(|bytes| bytes / 1_048_576.0)).collect()
    }

    fn charts(&self) -> Vec<Chart> {
        let memory = self.memory_mib();
        let one = |id, title, unit, series: Series| Chart::of(id, title, unit, &[series]);
        vec![
            Chart::of(
                "requests",
                "Requests",
                "/s",
                &[("answered", &self.requests), ("failed", &self.failed_requests)],
            ),
            Chart::of(
                "latency",
                "Time to answer",
                " ms",
                &[("half within", &self.p50_millis), ("99 of 100 within", &self.p99_millis)],
            ),
            one("writes", "Writes", "/s", ("committed", &self.writes)),
            one("queue", "Queue of writes", "", ("waiting to be committed", &self.queued)),
            one("waiting", "Agents and pages that wait", "", ("requests", &self.waiting)),
            one("deliveries", "Failed deliveries", "", ("attempts", &self.failed_deliveries)),
            one("memory", "Memory", " MiB", ("in use", &memory)),
        ]
    }

    /// The heads and the cells of the table, column by column.
    fn columns(&self) -> Vec<(&'static str, Vec<String>)> {
        use Summary::{Highest, Mean, Sum};
        let size = usize::try_from(ROW_SECS / self.interval_secs.max(1)).unwrap_or(1).max(1);
        let column =
            |head, figures: &Figures, summary: Summary| (head, summary.rows(figures, size));
        vec![
            column("Requests/s", &self.requests, Mean),
            column("Failed/s", &self.failed_requests, Mean),
            column("Half within, ms", &self.p50_millis, Highest),
            column("99 of 100 within, ms", &self.p99_millis, Highest),
            column("Writes/s", &self.writes, Mean),
            column("Queue", &self.queued, Highest),
            column("Waiting", &self.waiting, Highest),
            column("Failed deliveries", &self.failed_deliveries, Sum),
            column("Memory, MiB", &self.memory_mib(), Highest),
        ]
    }
}

/// The rows of a table of which there are the columns. The first has the last five minutes.
fn rows(columns: &[(&'static str, Vec<String>)]) -> Vec<(String, Vec<String>)> {
    let count = columns.first().map_or(0, |(_, cells)| cells.len());
    let minutes = ROW_SECS / 60;
    let label = |row: u64| format!("{}–{}", row * minutes, (row + 1) * minutes);
    let cells = |row: usize| columns.iter().map(|(_, cells)| cells[row].clone()).collect();
    (0..).zip(0..count).map(|(number, row)| (label(number), cells(row))).collect()
}

async fn show(visit: &Visit) -> Result<Reply> {
    let status: Status = visit.api.get("/system", &[]).await?;
    let columns = status.history.columns();
    let page = System {
        frame: visit.frame("System").tabs(&tabs(visit)).live(),
        charts: status.history.charts(),
        rows: rows(&columns),
        columns: columns.into_iter().map(|(head, _)| head).collect(),
        status,
        width: WIDTH,
        height: HEIGHT,
    };
    render(page.frame.status, &page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{SystemAcme, SystemTls};

    #[test]
    fn the_state_of_a_certificate_is_read_as_the_api_tells_it() {
        let at = Time::from_millis(0);
        let mut status = SystemTls {
            certificate: "a.pem".into(),
            self_signed: false,
            fingerprint: "00:11".into(),
            names: vec!["a.test".into()],
            not_before: at,
            not_after: at,
            problem: None,
            acme: None,
        };
        let read = |status: &SystemTls| {
            serde_json::from_value::<Tls>(serde_json::to_value(status).unwrap()).unwrap()
        };
        assert!(read(&status).acme.0.is_none());
        status.acme = Some(Box::new(SystemAcme {
            directory: "https://ca.test/dir".into(),
            domains: vec!["a.test".into()],
            last_attempt_at: None,
            failures: 2,
            error: Some("why".into()),
            next_attempt_at: at,
        }));
        let acme = read(&status).acme.0.unwrap();
        assert_eq!((acme.failures, acme.error.0.as_deref()), (2, Some("why")));
    }
}
