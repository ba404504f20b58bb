//! The endpoint: from a POST to a message, and from its outcome to a response.

use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use super::api::Api;
use super::era::Era;
use super::failure::Failure;
use super::message::{Message, Sent, parse};
use super::methods::{Answer, answer};
use super::origin::require_own_origin;
use super::revision::{LEGACY, era_of};
use super::tools::Tools;
use crate::auth::Identity;
use crate::base::Error;
use crate::http::{
    Origin, Protocol, ResponseBody, Router, SiteFuture, SiteReply, SiteRequest, json_response,
    log_failure,
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
            // Errors before the message is read look as the client's header says.
            let version = request.head.headers.get("mcp-protocol-version");
            let is_legacy = LEGACY.iter().any(|known| version.is_some_and(|sent| sent == known));
            let mut era = if is_legacy { Era::Legacy } else { Era::Modern };
            let mut caller = None;
            let request_id = request.request_id;
            let answered = self.handle(request, &mut era, &mut caller).await;
            let response = answered.unwrap_or_else(|failure| {
                if let Some(error) = failure.error() {
                    log_failure(error, request_id);
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
        let SiteRequest { head, body, address, request_id, link_base, executor, .. } = request;
        require_own_origin(&head.headers, &link_base)?;
        let origin = Origin { address, link_base, request_id: request_id.into() };
        let router = self.router.clone();
        let api = Api::enter(executor.clone(), router, credential, origin).await?;
        *caller = Some(api.identity.clone());
        let sent = body.read_json(api.fingerprint(), address).await?;
        let message = match parse(&sent.bytes)? {
            // An answer to a request that nobody has sent changes nothing.
            Sent::Answer => return Ok(accepted()),
            Sent::Message(Message { id: None, .. }) => return Ok(accepted()),
            Sent::Message(message) => message,
        };
        let id = message.id.clone();
        let known = era_of(&head.headers, &message).map_err(|failure| failure.of(id.clone()))?;
        *era = known;
        let answered = self.reply(head, api, message, known).await;
        answered.map_err(|failure| failure.of(id))
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
}

/// The response to what needs none.
fn accepted() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}
