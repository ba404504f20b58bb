//! Metrics at `/metrics` (reference: command-line, "Metrics").

mod access;
mod exposition;
mod requests;
mod stored;
mod token;

pub use requests::{Endpoint, RequestTotals};
pub use stored::StoredSources;
pub use token::MetricsToken;

pub(super) use access::require_access;
pub(super) use exposition::Format;

use std::time::Duration;

use requests::RequestMeters;
use stored::{STORE_TIME, SUMS_TIME};

use super::within::within;
use crate::api::{Method, Route};
use crate::base::metrics::{Counter, Family, Gauge, GaugeGuard};
use crate::store::Store;

/// Returns the families of another layer.
pub type Source = Box<dyn Fn() -> Vec<Family> + Send + Sync>;

/// What the metrics consist of besides what the HTTP server counts.
pub struct Sources {
    /// What is read from the store.
    pub stored: StoredSources,
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

    /// Writes all metrics; without those of the store that cannot be read in time.
    pub(super) async fn text(&self, store: &Store, format: Format) -> String {
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
        let (sources, of) = (self.sources.stored.clone(), store.clone());
        let organizations = within(STORE_TIME, async move { (sources.organizations)(&of) }).await;
        families.push(Family::gauge(
            "roadstead_store_up",
            "Whether the store could be read",
            if organizations.is_ok() { 1.0 } else { 0.0 },
        ));
        if let Ok(organizations) = organizations {
            let sources = self.sources.stored.clone();
            let read = within(SUMS_TIME, sources.families(store.clone(), organizations)).await;
            families.extend(read.unwrap_or_default());
        }
        format.write(families)
    }
}

/// The endpoint of a route.
pub(super) fn endpoint_of(route: &Route) -> Endpoint {
    Endpoint::Route(route.method, route.path)
}
