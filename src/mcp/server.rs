//! The endpoint: from a POST to a message, and from its outcome to a response.

use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use super::api::Api;
use super::era::Era;
use super::failure::{Failure, INVALID_REQUEST};
use super::message::{Message, Sent, parse};
use super::methods::{Answer, answer};
use super::origin::require_own_origin;
use super::revision::{era_in, era_of};
use super::tools::Tools;
use crate::api::Origin;
use crate::api::execute::Executor;
use crate::auth::{Identity, RawCredential};
use crate::base::Error;
use crate::http::{
    Protocol, ResponseBody, Router, SiteFuture, SiteReply, SiteRequest, json_response, log_failure,
    user_agent,
};

/// The path of the endpoint.
pub const PATH: &str = "/api/mcp";

/// The Model Context Protocol.
pub struct Mcp {
    router: Arc<Router>,
    tools: Tools,
}

impl Mcp {
    /// Creates the endpoint for these routes.
    pub fn new(router: Arc<Router>) -> Self {
        Mcp { tools: Tools::new(router.clone()), router }
    }
}

impl Protocol for Mcp {
    fn path(&self) -> &'static str {
        PATH
    }

    fn answer<'a>(&'a self, request: SiteRequest<'a>) -> SiteFuture<'a> {
        Box::pin(async move {
            // Errors before the message is read look as the client's headers say.
            let mut era = era_in(&request.head.headers);
            let mut caller = None;
            let (request_id, trace) = (request.request_id, request.trace);
            let answered = self.handle(request, &mut era, &mut caller).await;
            let response = answered.unwrap_or_else(|failure| {
                if let Some(error) = failure.error() {
                    log_failure(error, request_id, trace);
                }
                failure.response(era)
            });
            SiteReply { response, caller }
        })
    }
}

impl Mcp {
    async fn handle(
        &self,
        request: SiteRequest<'_>,
        era: &mut Era,
        caller: &mut Option<Arc<Identity>>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let credential = request.credential();
        let SiteRequest { head, body, address, request_id, trace, link_base, executor, .. } =
            request;
        require_own_origin(&head.headers, &link_base)?;
        let entrance = Entrance {
            executor: executor.clone(),
            router: self.router.clone(),
            credential,
            origin: Origin {
                address,
                link_base,
                request_id: request_id.into(),
                trace,
                user_agent: user_agent(&head.headers),
            },
        };
        let api = entrance.enter().await?;
        *caller = Some(api.identity.clone());
        let sent = body.read_json(api.fingerprint(), address).await?;
        match parse(&sent.bytes, *era)? {
            Sent::Batch(messages) => self.reply_to_all(head, &entrance, api, messages).await,
            Sent::Message(message) if message.id.is_some() => {
                let id = message.id.clone();
                let known =
                    era_of(&head.headers, &message).map_err(|failure| failure.of(id.clone()))?;
                *era = known;
                let answered = self.reply(head, api, message, known).await;
                answered.map_err(|failure| failure.of(id))
            }
            // A notification, or an answer to a request that nobody has sent: nothing changes.
            Sent::Message(_) | Sent::Answer => Ok(accepted()),
        }
    }

    async fn reply(
        &self,
        head: &Parts,
        api: Api,
        message: Message,
        era: Era,
    ) -> Result<Response<ResponseBody>, Failure> {
        let id = message.id.clone().unwrap_or_default();
        match answer(&self.tools, api, head, message, era).await? {
            Answer::Outcome(outcome) => {
                Ok(json_response(outcome.response(&id, era), None::<&Error>))
            }
            Answer::Stream(response) => Ok(response),
        }
    }

    /// The response to a batch: those to its requests, in their order, or none. Each request after the
    /// first counts for itself. Beside others none may wait: what it has leased would come with the last
    /// of them, or not at all.
    async fn reply_to_all(
        &self,
        head: &Parts,
        entrance: &Entrance,
        first: Api,
        messages: Vec<Result<Sent, Failure>>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let mut first = Some(first);
        let is_alone = messages.len() == 1;
        let mut replies = Vec::new();
        for sent in messages {
            let reply = match sent {
                Ok(Sent::Message(message)) if message.id.is_some() => {
                    let id = message.id.clone();
                    let api = match first.take() {
                        Some(api) => Ok(api),
                        None => entrance.enter().await.map_err(Failure::from),
                    };
                    let replied = match api {
                        Ok(api) => self.reply_in_batch(head, api, message, is_alone).await,
                        Err(failure) => Err(failure),
                    };
                    replied.map_err(|failure| failure.of(id))
                }
                Ok(_) => continue,
                Err(failure) => Err(failure),
            };
            let reply = reply.unwrap_or_else(|failure| {
                if let Some(error) = failure.error() {
                    log_failure(error, &entrance.origin.request_id, entrance.origin.trace);
                }
                failure.body(Era::Oldest).to_string().into_bytes()
            });
            replies.push(reply);
        }
        if replies.is_empty() {
            return Ok(accepted());
        }
        let body = [&b"["[..], &replies.join(&b','), b"]"].concat();
        Ok(json_response(body, None::<&Error>))
    }

    async fn reply_in_batch(
        &self,
        head: &Parts,
        api: Api,
        message: Message,
        is_alone: bool,
    ) -> Result<Vec<u8>, Failure> {
        let id = message.id.clone().unwrap_or_default();
        let refused = |text: &str| Err(Failure::new(INVALID_REQUEST, text.to_string()));
        if message.method == "initialize" {
            return refused("initialize must not be part of a batch");
        }
        if !is_alone && message.method == "tools/call" && self.tools.waits(&message.params) {
            return refused(
                "this tool can wait and must not be called beside others: send it alone",
            );
        }
        match answer(&self.tools, api, head, message, Era::Oldest).await? {
            Answer::Outcome(outcome) => Ok(outcome.response(&id, Era::Oldest)),
            Answer::Stream(_) => {
                Err(Error::internal("a stream in a revision that has none").into())
            }
        }
    }
}

/// What a request needs to call the API.
struct Entrance {
    executor: Arc<Executor>,
    router: Arc<Router>,
    credential: RawCredential,
    origin: Origin,
}

impl Entrance {
    /// Authenticates, which counts for the rate limit.
    async fn enter(&self) -> Result<Api, Error> {
        let Entrance { executor, router, credential, origin } = self;
        Api::enter(executor.clone(), router.clone(), credential.clone(), origin.clone()).await
    }
}

/// The response to what needs none.
fn accepted() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}
