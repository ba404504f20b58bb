//! What is counted, as Prometheus text.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::base::{Error, Result};
use crate::store::Store;

/// A number that the product keeps in its rows: name, what it is, how it is read.
pub type Counted = (&'static str, &'static str, fn(&Store) -> Result<u64>);

/// What is counted while the server runs.
#[derive(Default)]
pub struct Metrics {
    requests: Family<[(&'static str, u16); 1], Counter>,
    /// What the product counts.
    pub counted: Vec<Counted>,
}

impl Metrics {
    /// What the product counts, beside the requests.
    pub fn new(counted: Vec<Counted>) -> Self {
        Metrics { requests: Family::default(), counted }
    }

    /// Counts an answer.
    pub(super) fn answered(&self, status: u16) {
        self.requests.get_or_create(&[("status", status)]).inc();
    }

    /// Prometheus text of what is counted.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) fn text(&self, store: &Store) -> Result<String> {
        let mut registry = Registry::with_prefix("roadstead");
        registry.register("http_requests", "Requests answered, by status", self.requests.clone());
        for (name, about, count) in &self.counted {
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(count(store)?).unwrap_or(i64::MAX));
            registry.register(*name, *about, gauge);
        }
        let mut text = String::new();
        encode(&mut text, &registry).map_err(|e| Error::internal(format!("metrics: {e}")))?;
        Ok(text)
    }
}
