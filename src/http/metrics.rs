//! Metrics in the Prometheus text format.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::api::Metric;
use crate::base::{Error, Id, Result};
use crate::store::{Org, Store};

/// Lists the organizations over which a gauge is summed.
type Organizations = fn(&Store) -> Result<Vec<Id<Org>>>;

/// The metrics at `/metrics`.
pub struct Metrics {
    requests: Family<[(&'static str, u16); 1], Counter>,
    gauges: Vec<&'static Metric>,
    organizations: Organizations,
}

impl Metrics {
    /// Creates the metrics: these gauges, and the requests that the server counts.
    pub fn new(gauges: Vec<&'static Metric>, organizations: Organizations) -> Self {
        Metrics { requests: Family::default(), gauges, organizations }
    }

    /// Counts a response.
    pub(super) fn answered(&self, status: u16) {
        self.requests.get_or_create(&[("status", status)]).inc();
    }

    /// Formats the metrics.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) async fn text(&self, store: &Store) -> Result<String> {
        let mut registry = Registry::with_prefix("roadstead");
        registry.register("http_requests", "Requests answered, by status", self.requests.clone());
        let organizations = (self.organizations)(store)?;
        for Metric { name, help, read } in self.gauges.iter().copied() {
            let mut sum = 0;
            for org in &organizations {
                sum += store.read(*org, read).await?;
            }
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(sum).unwrap_or(i64::MAX));
            registry.register(*name, *help, gauge);
        }
        let mut text = String::new();
        encode(&mut text, &registry).map_err(|e| Error::internal(format!("metrics: {e}")))?;
        Ok(text)
    }
}
