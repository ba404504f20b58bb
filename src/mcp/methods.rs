//! The methods of the protocol, and what the server says of itself.

use hyper::Response;
use hyper::http::request::Parts;
use serde_json::{Value, json};

use super::api::Api;
use super::era::Era;
use super::failure::{Failure, INVALID_PARAMS, METHOD_NOT_FOUND};
use super::message::{HOUR_MS, Message, Outcome, server_info};
use super::revision::{negotiated, supported};
use super::strict::{List, Registry};
use super::tools::Tools;
use super::{completion, listen, prompts, resources};
use crate::auth::{Credential, Role, ScopeName};
use crate::http::ResponseBody;

/// How to begin, for models.
const INSTRUCTIONS: &str = "\
Roadstead keeps the prompts, tasks, messages and memories of a team of AI agents. Find your team with \
team_list and yourself with team_agent_list; their ids are the teamId and agentId of the other tools. \
Wait for work with wake_wait, acknowledge it with wake_acknowledge, then read your tasks and messages. \
A registryRef is <organization>/<registry>";

/// The registries that the instructions name. Most keys may use fewer.
const MAX_NAMED: u32 = 20;

/// The answer to a request.
pub enum Answer {
    Outcome(Outcome),
    /// Messages that follow as they come about.
    Stream(Response<ResponseBody>),
}

/// Answers a request.
///
/// # Errors
/// [`METHOD_NOT_FOUND`], and those of the method.
pub async fn answer(
    tools: &Tools,
    mut api: Api,
    head: &Parts,
    message: Message,
    era: Era,
) -> Result<Answer, Failure> {
    let Message { id, method, params } = message;
    let outcome = match (method.as_str(), era) {
        ("server/discover", Era::Modern) => {
            Outcome::kept(&discovered(&Box::pin(instructions(&api)).await?), era, HOUR_MS, false)
        }
        ("initialize", _) if era.has_handshake() => {
            Outcome::of(&initialized(&params, &Box::pin(instructions(&api)).await?))
        }
        ("ping", _) if era.has_handshake() => Outcome::of(&json!({})),
        ("tools/list", _) if !params["cursor"].is_null() => {
            let message = "params.cursor is of no page: the list of tools has one".into();
            return Err(Failure::new(INVALID_PARAMS, message));
        }
        ("tools/list", _) => Box::pin(listed_tools(tools, &api, era)).await?,
        ("tools/call", _) => tools.call(&mut api, head, params, era).await?,
        // Boxed: a call of a tool, which is frequent, does not take their memory.
        ("prompts/list", _) => Box::pin(prompts::list(&api, &params, era)).await?,
        ("prompts/get", _) => Box::pin(prompts::get(&api, &params)).await?,
        ("resources/list", _) => Box::pin(resources::list(&api, &params, era)).await?,
        ("resources/templates/list", _) => resources::templates(era),
        ("resources/read", _) => Box::pin(resources::read(&api, &params, era)).await?,
        ("completion/complete", _) => Box::pin(completion::complete(&api, &params)).await?,
        ("subscriptions/listen", Era::Modern) => {
            let id = id.unwrap_or_default();
            return Box::pin(listen::listen(api, id, &params)).await.map(Answer::Stream);
        }
        _ => return Err(unknown(era)),
    };
    Ok(Answer::Outcome(outcome))
}

/// The tools that the role of the key may call: all for members, and for viewers those that change
/// nothing, which are for nobody else to keep.
async fn listed_tools(tools: &Tools, api: &Api, era: Era) -> Result<Outcome, Failure> {
    let role = api.executor().key_role(&api.identity).await?.unwrap_or(Role::Viewer);
    let ttl_ms = if role >= Role::Member { HOUR_MS } else { 0 };
    Ok(Outcome::kept(&tools.list(era, role), era, ttl_ms, role >= Role::Member))
}

/// What this server can do. Lists change too often to tell everybody of it; what changes is told of
/// single resources.
fn capabilities(era: Era) -> Value {
    let resources = if era == Era::Modern { json!({"subscribe": true}) } else { json!({}) };
    json!({"tools": {}, "prompts": {}, "resources": resources, "completions": {}})
}

/// The instructions for a key: with the registries that it may use, since no tool lists them.
async fn instructions(api: &Api) -> Result<String, Failure> {
    let may_list = match &api.identity.credential {
        Credential::Key { access, .. } => access.has_some(ScopeName::RegistryRead),
        Credential::Session(_) => false,
    };
    if !may_list {
        return Ok(format!("{INSTRUCTIONS}."));
    }
    let list: List<Registry> = api.get("/registries", &[], json!({"limit": MAX_NAMED})).await?;
    let names: Vec<&str> = list.items.iter().map(|of| of.reference.as_str()).collect();
    let others = if list.next_cursor.is_some() { ", and others" } else { "" };
    Ok(match names[..] {
        [] => format!("{INSTRUCTIONS}; there is none yet."),
        _ => format!("{INSTRUCTIONS}; you may use {}{others}.", names.join(", ")),
    })
}

fn discovered(instructions: &str) -> Value {
    json!({
        "supportedVersions": supported(),
        "capabilities": capabilities(Era::Modern),
        "instructions": instructions,
    })
}

fn initialized(params: &Value, instructions: &str) -> Value {
    json!({
        "protocolVersion": negotiated(params),
        "capabilities": capabilities(Era::Legacy),
        "serverInfo": server_info(),
        "instructions": instructions,
    })
}

fn unknown(era: Era) -> Failure {
    let message = match era {
        Era::Modern => "there is no such method in this revision of the protocol",
        Era::Legacy | Era::Oldest => {
            "there is no such method in this revision of the protocol, or it is not offered"
        }
    };
    Failure::new(METHOD_NOT_FOUND, message.into()).with_data(json!({"supported": supported()}))
}
