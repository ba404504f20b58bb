//! Metrics at `/metrics` (reference: command-line, "Metrics").

mod access;
mod exposition;
mod requests;
mod token;

pub use requests::Endpoint;
pub use token::MetricsToken;

pub(super) use access::require_access;
pub(super) use exposition::Format;

use std::time::Duration;

use requests::RequestMeters;

use crate::api::{Method, Metric, Route};
use crate::base::metrics::{Counter, Family, Gauge, GaugeGuard, SampleValue};
use crate::base::{Id, Result};
use crate::store::{Org, Store};

/// Lists the organizations over which a number is summed.
type Organizations = fn(&Store) -> Result<Vec<Id<Org>>>;

/// Returns the families of another layer.
pub type Source = Box<dyn Fn() -> Vec<Family> + Send + Sync>;

/// What the metrics consist of besides what the HTTP server counts.
pub struct Sources {
    /// Numbers kept in the records of organizations.
    pub stored: Vec<&'static Metric>,
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
    /// Creates the metrics of a server with these routes and pages.
    pub fn new(
        routes: impl IntoIterator<Item = (Method, &'static str)>,
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
        Ok(format.write(families))
    }
}

/// The endpoint of a route.
pub(super) fn endpoint_of(route: &Route) -> Endpoint {
    Endpoint::Route(route.method, route.path)
}
