//! Agents: the organization's records of its AI agents (reference: agents, "Agents"). An
//! agent has a draft that is changed in place ([`config`]) and numbered versions, each a
//! permanent copy of the draft ([`versions`]).
//!
//! An agent is addressed by its stable key. `deployments` declares the routes that change and delete
//! one, which depends on where it is live. It cannot be deleted while it is in a team. In a
//! restricted fleet ([`Fleet`]) it is for admins and those with a grant for the fleet.

mod agent;
mod config;
mod status;
mod usable;
mod versions;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::{Deleted, Input, Req, Resource, Route, op};
use crate::auth::{Caller, MEMBER, Restricted, ScopeName, visible_page_map, visible_page_map_of};
use crate::base::{Description, Error, Id, Issue, Name, Nullable, Result, StableKey};
use crate::resources::tags::{self, Tags, Wanted};
use crate::store::{ACCESS_CHANGED, Page, TableInfo, Tx, View};

pub use super::fleet::Fleet;
pub use agent::{
    Agent, AgentInfo, NAMES_BY_FLEET, WITHOUT_PLACES, by_stable_key, fetch, find, pause_of,
    set_paused, set_statuses, shown,
};
use agent::{BY_FLEET, BY_STATUS, BY_TAG, info, save};
use config::AgentConfigPatch;
pub use config::{
    AgentConfig, MAX_TOOL_REFS, Model, PromptName, PromptVersion, Provider, RegistryRef, ToolRef,
    Variables, VariablesSchema,
};
use status::SeenStatus;
pub use status::{AgentStatus, PlaceStatus};
pub use usable::{exists, is_open, is_usable, require_usable};
#[cfg(test)]
pub use versions::create as create_version;
pub use versions::{AgentChange, changes, changes_at, version};

/// Agents and their versions.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Restricted<Agent>>()],
    children: &[&versions::RESOURCE],
    ..Resource::EMPTY
};

// ── What callers send and see ────────────────────────────────────────────────

/// An agent to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"stableKey": "scribe", "name": "Scribe", "draft": {"registryRef": "acme/main",
        "promptName": "release-notes", "model": "gpt-4o"}}],
))]
pub struct NewAgent {
    stable_key: StableKey,
    name: Name,
    description: Option<Description>,
    fleet_id: Option<Id<Fleet>>,
    tags: Option<Tags>,
    draft: Option<AgentConfigPatch>,
}

impl Input for NewAgent {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        tags::check(self.tags.as_ref(), issues);
    }
}

/// Changes to an agent; absent fields keep their value.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "Scribe", "draft": {"promptVersion": "^1",
        "variables": {"TONE": "calm"}}}],
))]
pub struct AgentPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    #[serde(default)]
    fleet_id: Nullable<Id<Fleet>>,
    /// All of its tags from now on.
    tags: Option<Tags>,
    draft: Option<AgentConfigPatch>,
}

impl Input for AgentPatch {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        tags::check(self.tags.as_ref(), issues);
    }
}

/// The filter of a list of agents.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentFilter {
    fleet_id: Option<Id<Fleet>>,
    /// Only those with this status.
    status: Option<AgentStatus>,
    /// Only those with all of these tags.
    tag: Option<Tags>,
}

impl Input for AgentFilter {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), AgentFilter>) -> Result<Page<AgentInfo>> {
    let AgentFilter { fleet_id, status, tag } = &req.input;
    let (caller, page) = (req.caller(), &req.page);
    let seen = SeenStatus::of(view, caller)?;
    let tags = Wanted::of(tag.as_ref());
    let is_wanted = |agent: &Agent| {
        status.is_none_or(|status| agent.status(&seen) == status)
            && fleet_id.is_none_or(|fleet| agent.fleet_id == Some(fleet))
            && tags.are_in(&agent.tags)
    };
    let info = |view: &View, agent| info(view, &seen, agent);
    if let Some(fleet) = fleet_id
        && !view.has::<Restricted<Fleet>>(fleet)?
    {
        return Ok(Page::single(Vec::new())); // Agents may still name a deleted fleet for a while.
    }
    if let Some(tag) = tags.first() {
        return visible_page_map_of(view, caller, &BY_TAG, tag, page, (is_wanted, info));
    }
    match (fleet_id, status) {
        (None, Some(status)) if seen.is_whole() => {
            visible_page_map_of(view, caller, &BY_STATUS, status, page, (is_wanted, info))
        }
        (None, _) => visible_page_map(view, caller, page, is_wanted, info),
        (Some(fleet), _) => {
            visible_page_map_of(view, caller, &BY_FLEET, fleet, page, (is_wanted, info))
        }
    }
}

fn get(view: &View, req: &Req<String>) -> Result<AgentInfo> {
    shown(view, req.caller(), fetch(view, req.caller(), &req.params)?)
}

fn create(tx: &mut Tx, req: &Req<(), NewAgent>) -> Result<AgentInfo> {
    let new = &req.input;
    require_fleet(&tx.view(), req.caller(), new.fleet_id.as_ref())?;
    let nothing = AgentConfig::default();
    let draft = match &new.draft {
        Some(draft) => draft.applied_to(&tx.view(), &nothing)?,
        None => nothing,
    };
    let agent = Agent {
        id: tx.new_id(),
        stable_key: new.stable_key.clone(),
        name: new.name.clone(),
        description: new.description.clone(),
        fleet_id: new.fleet_id,
        draft,
        draft_revision: 1,
        latest_version: None,
        status: AgentStatus::Undeployed,
        created_at: tx.now(),
        updated_at: tx.now(),
        places: Some(Vec::new()),
        paused: None,
        updated_by: Some(req.caller().user()),
        tags: new.tags.as_deref().unwrap_or_default().to_vec(),
    };
    tx.insert(&Restricted::new(agent.clone()))?;
    shown(&tx.view(), req.caller(), agent)
}

/// Requires that a fleet exists (404) and that the caller may use it (403).
fn require_fleet(view: &View, caller: &Caller, fleet: Option<&Id<Fleet>>) -> Result<()> {
    let Some(fleet) = fleet else { return Ok(()) };
    let found = view.get::<Restricted<Fleet>>(fleet)?;
    let missing = || Error::no_such("fleet").at("fleetId");
    found.ok_or_else(missing)?.open(view, caller).map(|_| ())
}

/// Whether a caller may make an agent another one. Deployments, which agents do not know, answer it.
pub type CheckMove = fn(&View, &Caller, &Agent, &Agent) -> Result<()>;

/// Whether a caller may delete an agent. Deployments, which agents do not know, answer it.
pub type CheckDeletion = fn(&View, &Caller, &Agent) -> Result<()>;

/// Changes an agent or its draft.
///
/// # Errors
/// 404, 403, and those of `check`, which sees the agent before and after.
pub fn update(tx: &mut Tx, req: &Req<String, AgentPatch>, check: CheckMove) -> Result<AgentInfo> {
    let patch = &req.input;
    let old = fetch(&tx.view(), req.caller(), &req.params)?;
    require_fleet(&tx.view(), req.caller(), patch.fleet_id.value())?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.description.clone().apply(&mut new.description);
    patch.fleet_id.clone().apply(&mut new.fleet_id);
    new.tags = patch.tags.as_deref().map_or(new.tags, <[_]>::to_vec);
    if let Some(draft) = &patch.draft {
        new.draft = draft.applied_to(&tx.view(), &old.draft)?;
    }
    check(&tx.view(), req.caller(), &old, &new)?;
    let new = save(tx, req.caller(), &old, new)?;
    if new.fleet_id != old.fleet_id {
        tx.signal(ACCESS_CHANGED); // Who waits for its wakes may have to stop.
    }
    shown(&tx.view(), req.caller(), new)
}

/// Deletes an agent with its versions.
///
/// # Errors
/// 404, 403, those of `check`, and 409 while it is in a team.
pub fn delete(tx: &mut Tx, req: &Req<String>, check: CheckDeletion) -> Result<Deleted> {
    let agent = fetch(&tx.view(), req.caller(), &req.params)?;
    check(&tx.view(), req.caller(), &agent)?;
    tx.remove(&Restricted::new(agent.clone()))?;
    Ok(Deleted::new(agent.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/agents", MEMBER, "agent.list", op::walk(list))
            .needs(ScopeName::AgentRead)
            .about("List agents, newest first"),
        Route::post("/agents", MEMBER, "agent.create", op::write(create))
            .needs(ScopeName::AgentWrite)
            .about("Create an agent"),
        Route::get("/agents/{stableKey}", MEMBER, "agent.get", op::read(get))
            .needs(ScopeName::AgentRead)
            .about("Get an agent"),
    ]
}

#[cfg(test)]
pub mod tests;
