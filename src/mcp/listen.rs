//! `subscriptions/listen`: what a client wants to be told of, and when it has changed.
//!
//! An inbox changes when a wake comes to it, a text when another version is what its address names.
//! Both wait as the long polls of their routes do, whose rights are looked at again with each poll.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::api::Api;
use super::failure::{Failure, INVALID_PARAMS};
use super::listen_stream::stream;
use super::resources::target;
use super::uri::{Target, content_arguments};
use crate::api::execute::{Etag, ItemStream};
use crate::api::{Method, Route};
use crate::base::Result;
use crate::http::ResponseBody;

/// The resources of a subscription: each waits as a long poll does, and a client has few.
const MAX_RESOURCES: usize = 16;

/// How long one poll of a text waits: the longest time of its route.
const WAIT_SECS: u64 = 55;

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
    let mut watched = Vec::new();
    for uri in addresses(params)? {
        if let Some(resource) = Watched::begin(&api, &uri).await? {
            watched.push(resource);
        }
    }
    Ok(stream(api.executor, id, watched))
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

/// A resource that a client wants to be told of.
pub struct Watched {
    pub uri: String,
    source: Source,
}

/// How its changes are known.
enum Source {
    /// The wakes of an agent, without leasing them.
    Wakes(Box<ItemStream>),
    /// The tag of a text.
    Content { api: Box<Api>, route: Arc<Route>, arguments: Value, tag: Option<Etag> },
}

impl Watched {
    /// Begins to watch a resource; none if its changes are not known, as those of a task.
    async fn begin(api: &Api, uri: &str) -> Result<Option<Self>, Failure> {
        let source = match target(uri)? {
            Target::Task { .. } => return Ok(None),
            Target::Inbox { org, team, agent } => {
                let path = "/teams/{teamId}/agents/{agentId}/wakes";
                let route = api.route(Method::Get, path)?;
                let arguments = json!({"orgSlug": org, "peek": true});
                let items = api.stream(&route, vec![team, agent], arguments).await;
                items.map(|items| Source::Wakes(Box::new(items)))
            }
            Target::Content { registry_ref, artifact_type, name, version } => {
                let route = api.route(Method::Get, "/registries/artifact-versions/content")?;
                let mut arguments =
                    content_arguments(&registry_ref, artifact_type, &name, version.as_deref());
                let tag = api.changed(&route, arguments.clone(), None).await;
                arguments["wait"] = json!(WAIT_SECS);
                let api = Box::new(api.clone());
                tag.map(|tag| Source::Content { api, route, arguments, tag })
            }
        };
        let source = source.map_err(|error| Failure::from(error).of_resource(uri))?;
        Ok(Some(Watched { uri: uri.into(), source }))
    }

    /// Returns when it has changed, to be asked again; without a result when the server stops.
    ///
    /// # Errors
    /// What ends the subscription: the key was revoked, or the resource deleted.
    pub async fn changed(mut self) -> (Self, Option<Result<()>>) {
        loop {
            let changed = match &mut self.source {
                Source::Wakes(items) => {
                    let until = Instant::now() + Duration::from_secs(WAIT_SECS);
                    match items.next(until).await {
                        None => return (self, None),
                        Some(items) => items.map(|items| !items.is_empty()),
                    }
                }
                Source::Content { api, route, arguments, tag } => {
                    let new = api.changed(route, arguments.clone(), tag.as_ref()).await;
                    match new {
                        Ok(None) if api.executor.is_stopping() => return (self, None),
                        Ok(None) => Ok(false),
                        Ok(new) => {
                            *tag = new;
                            Ok(true)
                        }
                        Err(error) => Err(error),
                    }
                }
            };
            match changed {
                Ok(false) => {}
                Ok(true) => return (self, Some(Ok(()))),
                Err(error) => return (self, Some(Err(error))),
            }
        }
    }
}
