//! Metrics at `/metrics` (reference: command-line, "Metrics").

mod access;
mod exposition;
mod requests;
mod token;

pub use requests::{Endpoint, RequestTotals};
pub use token::MetricsToken;

pub(super) use access::require_access;
pub(super) use exposition::Format;

use std::time::Duration;

use requests::RequestMeters;

use crate::api::{Method, Metric, OldestRow, Route};
use crate::base::metrics::{Counter, Family, FamilyKind, Gauge, GaugeGuard, SampleValue};
use crate::base::{Id, Result, Time};
use crate::store::{Org, Store};

/// Lists the organizations over which a number is summed.
type Organizations = fn(&Store) -> Result<Vec<Id<Org>>>;

/// Returns the families of another layer.
pub type Source = Box<dyn Fn() -> Vec<Family> + Send + Sync>;

/// What the metrics consist of besides what the HTTP server counts.
pub struct Sources {
    /// Numbers kept in the records of organizations.
    pub stored: Vec<&'static Metric>,
    /// Records that a retention removes.
    pub oldest: Vec<&'static OldestRow>,
    /// Lists the organizations.
    pub organizations: Organizations,
    /// The families of other layers.
    pub others: Vec<Source>,
}

/// The metrics at `/metrics`.
pub struct Metrics {
    requests: RequestMeters,
    connections: Gauge,
    accepted: Counter,
    sources: Sources,
}

impl Metrics {
    /// Creates the metrics of a server with these routes (method, path, whether its requests may
    /// wait for a change) and pages.
    pub fn new(
        routes: impl IntoIterator<Item = (Method, &'static str, bool)>,
        pages: impl IntoIterator<Item = &'static str>,
        sources: Sources,
    ) -> Self {
        Metrics {
            requests: RequestMeters::new(routes, pages),
            connections: Gauge::default(),
            accepted: Counter::default(),
            sources,
        }
    }

    /// Counts a response.
    pub(super) fn answered(&self, endpoint: Endpoint, status: u16, duration: Duration) {
        self.requests.count(endpoint, status, duration);
    }

    /// Counts a connection, as open until the guard is dropped.
    pub(super) fn connected(&self) -> GaugeGuard<'_> {
        self.accepted.add_one();
        self.connections.hold()
    }

    /// Returns what was answered so far.
    pub fn totals(&self) -> RequestTotals {
        self.requests.totals()
    }

    /// Writes all metrics.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) async fn text(&self, store: &Store, format: Format) -> Result<String> {
        let mut families: Vec<_> = self.requests.families().into();
        let open = self.connections.value() as f64;
        families.push(Family::gauge("roadstead_http_connections", "Open connections", open));
        let accepted = "Connections accepted";
        families.push(Family::counter(
            "roadstead_http_connections_accepted",
            accepted,
            &self.accepted,
        ));
        families.extend(self.sources.others.iter().flat_map(|source| source()));
        let organizations = (self.sources.organizations)(store)?;
        for Metric { name, kind, help, read } in self.sources.stored.iter().copied() {
            let mut sum = 0;
            for org in &organizations {
                sum += store.read(*org, read).await?;
            }
            families.push(Family::single(name, help, *kind, SampleValue::Number(sum as f64)));
        }
        families.push(self.oldest_rows(store, &organizations).await?);
        Ok(format.write(families))
    }

    /// The time of the oldest record of each table with a retention, of all organizations.
    async fn oldest_rows(&self, store: &Store, organizations: &[Id<Org>]) -> Result<Family> {
        let mut times = Vec::new();
        for OldestRow { table, read } in self.sources.oldest.iter().copied() {
            let mut oldest: Option<Time> = None;
            for org in organizations {
                let time = store.read(*org, read).await?;
                oldest = oldest.into_iter().chain(time).min();
            }
            times.extend(oldest.map(|time| (*table, time.millis().max(0) as u64 / 1000)));
        }
        let help = "Time of the oldest record kept, of those that a retention removes";
        let name = "roadstead_oldest_row_timestamp_seconds";
        Ok(Family::by_label(name, help, FamilyKind::Gauge, "table", times))
    }
}

/// The endpoint of a route.
pub(super) fn endpoint_of(route: &Route) -> Endpoint {
    Endpoint::Route(route.method, route.path)
}
