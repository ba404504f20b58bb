//! `/metrics`: Prometheus text, to this machine, else with an admin's key (routes, last section).

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Context, Reply, gate};
use crate::api::Metric;
use crate::auth::{Through, org_of_key};
use crate::base::{Error, Id, Result};
use crate::store::{Org, Store};

/// Lists the organizations, whose values a gauge sums up.
type Organizations = fn(&Store) -> Result<Vec<Id<Org>>>;

/// What `/metrics` shows.
pub struct Metrics {
    requests: Family<[(&'static str, u16); 1], Counter>,
    gauges: Vec<&'static Metric>,
    organizations: Organizations,
}

impl Metrics {
    /// The gauges of the product, beside the requests that the server counts itself.
    pub fn new(gauges: Vec<&'static Metric>, organizations: Organizations) -> Self {
        Metrics { requests: Family::default(), gauges, organizations }
    }

    /// Counts an answer.
    pub(super) fn answered(&self, status: u16) {
        self.requests.get_or_create(&[("status", status)]).inc();
    }

    fn text(&self, store: &Store) -> Result<String> {
        let mut registry = Registry::with_prefix("roadstead");
        registry.register("http_requests", "Requests answered, by status", self.requests.clone());
        let organizations = (self.organizations)(store)?;
        for Metric { name, help, read } in self.gauges.iter().copied() {
            let values = organizations.iter().map(|org| store.read(*org, read));
            let sum = values.sum::<Result<u64>>()?;
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(sum).unwrap_or(i64::MAX));
            registry.register(*name, *help, gauge);
        }
        let mut text = String::new();
        encode(&mut text, &registry).map_err(|e| Error::internal(format!("metrics: {e}")))?;
        Ok(text)
    }
}

/// The page.
pub(super) fn page(
    context: &Arc<Context>,
    address: IpAddr,
    headers: &HeaderMap,
) -> Result<Response<Reply>> {
    if !address.is_loopback() {
        must_be_admins_key(context, headers)?;
    }
    let text = context.metrics.text(&context.store)?;
    let mut response = Response::new(Reply::Whole(Full::new(Bytes::from(text))));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

fn must_be_admins_key(context: &Context, headers: &HeaderMap) -> Result<()> {
    let presented = gate::presented(headers);
    context.store.read(Id::NOTHING, |view| {
        let identity = context.gatekeeper.identify(view, &presented)?;
        let org = match identity.through {
            Through::Key { .. } => org_of_key(&identity),
            Through::Session(_) => None,
        };
        let caller = context.gatekeeper.admit_to(view, &presented, org.unwrap_or(Id::NOTHING));
        match caller {
            Ok(caller) if caller.is_admin() => Ok(()),
            _ => Err(Error::forbidden(
                "admin_required",
                "from another machine this takes the API key of an organization admin",
            )),
        }
    })
}
