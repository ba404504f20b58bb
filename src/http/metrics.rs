//! `/metrics`: Prometheus text, to this machine, else with an admin's key (routes, last section).

use std::net::IpAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::context::Context;
use super::headers::raw_credential;
use super::reply::Reply;
use crate::api::Metric;
use crate::auth::org_of_key;
use crate::base::{Error, Id, Result};
use crate::store::{Org, Store, View};

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

    async fn text(&self, store: &Store) -> Result<String> {
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

/// The page.
pub(super) async fn page(
    context: &Context,
    address: IpAddr,
    headers: &HeaderMap,
) -> Result<Response<Reply>> {
    if !address.is_loopback() {
        must_be_admins_key(context, headers).await?;
    }
    let text = context.metrics.text(&context.executor.store).await?;
    let mut response = Response::new(Reply::Whole(Full::new(Bytes::from(text))));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

async fn must_be_admins_key(context: &Context, headers: &HeaderMap) -> Result<()> {
    let credential = raw_credential(headers);
    let gatekeeper = &context.executor.gatekeeper;
    let check = |view: &View| {
        let identity = gatekeeper.identify(view, &credential)?;
        let org = org_of_key(&identity).unwrap_or(Id::NOTHING);
        match gatekeeper.admit_to(view, &credential, org) {
            Ok(caller) if caller.is_admin() => Ok(()),
            _ => Err(Error::forbidden(
                "admin_required",
                "from another machine this takes the API key of an organization admin",
            )),
        }
    };
    context.executor.store.read(Id::NOTHING, check).await
}
