//! `subscriptions/listen`: what a client wants to be told of.

use std::collections::BTreeSet;

use hyper::Response;
use serde_json::Value;

use super::api::Api;
use super::failure::{Failure, INVALID_PARAMS};
use super::listen_stream::stream;
use super::watched::Watched;
use crate::http::ResponseBody;

/// The resources of a subscription: each waits as a long poll does, and a client has few.
const MAX_RESOURCES: usize = 16;

/// The answer to `subscriptions/listen`: a stream.
///
/// # Errors
/// [`INVALID_PARAMS`] for another filter than one of the protocol, and what reading the resources
/// would be refused with.
pub async fn listen(
    api: Api,
    id: Value,
    params: &Value,
) -> Result<Response<ResponseBody>, Failure> {
    let addresses = addresses(params)?;
    let slot = api.stream_slot().await?;
    let mut watched = Vec::new();
    for uri in addresses {
        if let Some(resource) = Watched::begin(&api, &uri).await? {
            watched.push(resource);
        }
    }
    Ok(stream(api.executor().clone(), id, watched, slot))
}

/// The addresses of a filter, each once.
fn addresses(params: &Value) -> Result<BTreeSet<String>, Failure> {
    let invalid = |message: &str| Failure::new(INVALID_PARAMS, message.into());
    let filter = params["notifications"].as_object();
    let filter = filter.ok_or_else(|| invalid("params.notifications must be an object"))?;
    let wanted = match filter.get("resourceSubscriptions") {
        None => return Ok(BTreeSet::new()),
        Some(wanted) => wanted.as_array().and_then(|wanted| {
            wanted.iter().map(|uri| uri.as_str().map(String::from)).collect::<Option<BTreeSet<_>>>()
        }),
    };
    match wanted {
        Some(wanted) if wanted.len() <= MAX_RESOURCES => Ok(wanted),
        Some(_) => Err(invalid(
            "params.notifications.resourceSubscriptions has more than 16; use several subscriptions",
        )),
        None => Err(invalid("params.notifications.resourceSubscriptions must be a list of texts")),
    }
}
