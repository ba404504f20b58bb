//! Resources that a client wants to be told of, and when they have changed.
//!
//! An inbox changes when a wake comes to it, a text when another version is what its address names.
//! Both wait as the long polls of their routes do, whose rights are looked at again with each poll.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::api::Api;
use super::failure::Failure;
use super::resources::target;
use super::uri::{Target, content_arguments};
use crate::api::execute::{Etag, ItemStream};
use crate::api::{Method, Route};
use crate::base::Result;

/// How long one poll of a text waits: the longest time of its route.
const WAIT_SECS: u64 = 55;

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
    ///
    /// # Errors
    /// What reading the resource would be refused with.
    pub async fn begin(api: &Api, uri: &str) -> Result<Option<Self>, Failure> {
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
                    // Boxed: an inbox, which most listen to, does not take its memory.
                    let new = Box::pin(api.changed(route, arguments.clone(), tag.as_ref()));
                    match new.await {
                        Ok(None) if api.executor().is_stopping() => return (self, None),
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
