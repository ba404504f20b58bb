//! Changes of agents and tools on which something deployed relies: their routes are here, since agents
//! and tools do not know of deployments.
//!
//! - What a version of a tool stands for never changes once it was part of a deployment.
//! - A tool stays while a deployment of it waits, since who deletes it may not be who deploys it.
//! - Who deletes an agent ends its being live, which takes what a deployment to its environments takes.
//! - Who moves an agent that is live, or that a job waits for, changes who may deploy it and fetch
//!   what is live, which is for admins if a restricted fleet is left or entered.

use super::contents::BY_TOOL_VERSION;
use super::live::LiveDeployment;
use super::target::{TOOL_TARGETS, WAITING, WAITING_TOOLS};
use crate::api::{Deleted, OrgSource, Req, Resource, Route, op};
use crate::auth::{Access, Caller, MEMBER, Restrictable as _, Restricted, ScopeName};
use crate::base::{Error, Id, Result, Version};
use crate::resources::agents::{self, Agent, AgentInfo, AgentPatch, Fleet};
use crate::resources::environments::{self, Environment};
use crate::resources::tools::{self, Tool, ToolPatch};
use crate::store::{ListSource, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── Tools ────────────────────────────────────────────────────────────────────

/// Whether a version of a tool is or was part of a deployment, in whatever state: jobs are not removed.
pub(super) fn is_deployed(view: &View, tool: Id<Tool>, version: &Version) -> Result<bool> {
    let [major, minor, patch] = version.numbers();
    let key = (tool, major, minor, patch);
    // Jobs of earlier releases that only moved references have no definition among their contents.
    Ok(view.count(&BY_TOOL_VERSION, &key, 1)? > 0 || view.count(&TOOL_TARGETS, &key, 1)? > 0)
}

pub(super) fn update_tool(tx: &mut Tx, req: &Req<Id<Tool>, ToolPatch>) -> Result<Tool> {
    tools::update(tx, req, is_deployed)
}

/// Whether a deployment of a tool waits or runs.
fn is_waited_for(view: &View, tool: Id<Tool>) -> Result<bool> {
    Ok(view.count(&WAITING_TOOLS, &tool, 1)? > 0)
}

pub(super) fn delete_tool(tx: &mut Tx, req: &Req<Id<Tool>>) -> Result<Deleted> {
    tools::delete(tx, req, is_waited_for)
}

// ── Agents ───────────────────────────────────────────────────────────────────

/// What is live of an agent.
fn live_of(view: &View, agent: &Agent) -> Result<Vec<LiveDeployment>> {
    view.all(ListSource::TABLE, &agent.id)
}

/// Checks that a caller may end what is live of an agent.
///
/// # Errors
/// 403 for an environment to which the caller may not deploy, then 409 for one with approvals.
fn check_deletion(view: &View, caller: &Caller, agent: &Agent) -> Result<()> {
    let mut opened = Vec::new();
    for live in live_of(view, agent)? {
        let environment: Restricted<Environment> = view.fetch(&live.environment)?;
        opened.push(environments::open_to_deploy(view, caller, environment)?);
    }
    match opened.iter().find(|environment| environment.approvals.is_some()) {
        None => Ok(()),
        Some(environment) => Err(Error::conflict(
            "deployment_live",
            format!(
                "the agent is live in the environment \"{}\", which has approvals, and a deletion \
                 cannot wait for them; an admin takes them off the environment first",
                environment.name
            ),
        )),
    }
}

/// Checks that a caller may put an agent under another access.
///
/// # Errors
/// 403 for others than admins if the agent is live, or if a job waits for it: its creator may not
/// be allowed to deploy it any more.
fn check_move(view: &View, caller: &Caller, old: &Agent, new: &Agent) -> Result<()> {
    if caller.is_admin() || old.fleet_id == new.fleet_id {
        return Ok(());
    }
    if gate(view, old)? == gate(view, new)? {
        return Ok(());
    }
    if live_of(view, old)?.is_empty() && view.count(&WAITING, &old.id, 1)? == 0 {
        return Ok(());
    }
    Err(Error::forbidden(
        "admin_required",
        "the agent is live, or a deployment waits for it, and who may use it would change with \
         this fleet; only an owner or admin of the organization may do this",
    ))
}

/// The fleet whose grants decide who may use an agent; none if every member may.
fn gate(view: &View, agent: &Agent) -> Result<Option<Id<Fleet>>> {
    Ok(match agent.access(view)? {
        Access::Restricted => agent.fleet_id,
        Access::Organization => None,
    })
}

pub(super) fn update_agent(tx: &mut Tx, req: &Req<String, AgentPatch>) -> Result<AgentInfo> {
    agents::update(tx, req, check_move)
}

pub(super) fn delete_agent(tx: &mut Tx, req: &Req<String>) -> Result<Deleted> {
    agents::delete(tx, req, check_deletion)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const AGENT: &str = "/agents/{stableKey}";
    vec![
        Route::patch("/tools/{toolId}", MEMBER, "tool.update", op::write(update_tool))
            .org_source(OrgSource::InferFromPath(tools::is_in_organization))
            .needs(ScopeName::ToolWrite)
            .about("Update a tool and environments that use it"),
        Route::delete("/tools/{toolId}", MEMBER, "tool.delete", op::write(delete_tool))
            .needs(ScopeName::ToolWrite)
            .about("Delete a tool with its versions"),
        Route::patch(AGENT, MEMBER, "agent.update", op::write(update_agent))
            .needs(ScopeName::AgentWrite)
            .about("Update an agent or its draft"),
        Route::delete(AGENT, MEMBER, "agent.delete", op::write(delete_agent))
            .needs(ScopeName::AgentWrite)
            .about("Delete an agent with its versions"),
    ]
}
