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
use crate::auth::org_of_key;
use crate::base::{Error, Id, Result};
use crate::store::{Store, View};

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

    fn text(&self, store: &Store) -> Result<String> {
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

/// The page.
pub(super) async fn page(
    context: &Context,
    address: IpAddr,
    headers: &HeaderMap,
) -> Result<Response<Reply>> {
    if !address.is_loopback() {
        must_be_admins_key(context, headers).await?;
    }
    let text = context.metrics.text(&context.executor.store)?;
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
