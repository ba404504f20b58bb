//! Fleets: groups of agents (reference: agents, "Fleets").
//!
//! A restricted fleet and its agents are absent from the lists of callers without access, and 403 for
//! them. Deleting a fleet leaves its agents without one. The record is with the agents, which are
//! opened through it.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agents::{Agent, Fleet, NAMES_BY_FLEET};
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    Access, Caller, Restricted, SESSION_ADMIN, SESSION_MEMBER, User, visible_page_map,
};
use crate::base::{Description, Error, Id, Name, Nullable, Result, StableKey, Time};
use crate::store::{ACCESS_CHANGED, ListSource, Order, Page, Tx, View};

/// Fleets.
pub const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// An organization has at most 1,000 fleets: more than a team can tell apart.
const MAX_FLEETS: usize = 1000;

/// A representation lists agents up to 32 KiB, about 250: a page of 200 fleets stays below 8 MiB.
const MAX_AGENTS_BYTES: usize = 32 * 1024;

/// Bytes of an agent in a representation besides its stable key and name.
const AGENT_BYTES: usize = 80;

// ── What callers send and see ────────────────────────────────────────────────

/// A fleet to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "Support", "description": "Agents that answer customers",
        "access": "restricted"}],
))]
pub struct NewFleet {
    name: Name,
    description: Option<Description>,
    access: Option<Access>,
}

impl Input for NewFleet {}

/// Changes to a fleet; absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"name": "Customer support", "access": "organization"}]))]
pub struct FleetPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    access: Option<Access>,
}

impl Input for FleetPatch {}

/// An agent of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetAgent {
    id: Id<Agent>,
    stable_key: StableKey,
    name: Name,
}

/// A fleet.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Fleet")]
pub struct FleetInfo {
    /// Identifier of the fleet.
    pub id: Id<Fleet>,
    name: Name,
    description: Option<Description>,
    access: Access,
    /// Its first agents by stable key, up to 32 KiB; `GET /agents` with `fleetId` lists all of them.
    agents: Vec<FleetAgent>,
    created_at: Time,
    updated_at: Time,
    updated_by: Option<Id<User>>,
}

impl Output for FleetInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn to_info(view: &View, fleet: Fleet) -> Result<FleetInfo> {
    Ok(FleetInfo {
        agents: agents(view, fleet.id)?,
        id: fleet.id,
        name: fleet.name,
        description: fleet.description,
        access: fleet.access,
        created_at: fleet.created_at,
        updated_at: fleet.updated_at,
        updated_by: fleet.updated_by,
    })
}

fn agents(view: &View, fleet: Id<Fleet>) -> Result<Vec<FleetAgent>> {
    let (mut agents, mut bytes) = (Vec::new(), 0);
    let order = Order::Ascending;
    view.entries(
        &NAMES_BY_FLEET,
        &fleet,
        &fleet.successor(),
        order,
        |(_, stable_key, name), id| {
            bytes += AGENT_BYTES + stable_key.len() + name.len();
            if bytes > MAX_AGENTS_BYTES {
                return Ok(ControlFlow::Break(()));
            }
            agents.push(FleetAgent { id, stable_key, name });
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(agents)
}

/// Returns a fleet if the caller may use it: 404, then 403.
fn fetch(view: &View, caller: &Caller, id: Id<Fleet>) -> Result<Fleet> {
    view.fetch::<Restricted<Fleet>>(&id)?.open(view, caller)
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<FleetInfo>> {
    visible_page_map(view, req.caller(), &req.page, |_| true, to_info)
}

fn get(view: &View, req: &Req<Id<Fleet>>) -> Result<FleetInfo> {
    to_info(view, fetch(view, req.caller(), req.params)?)
}

fn create(tx: &mut Tx, req: &Req<(), NewFleet>) -> Result<FleetInfo> {
    let new = &req.input;
    if tx.count(ListSource::<Restricted<Fleet>>::TABLE, &(), MAX_FLEETS)? == MAX_FLEETS {
        return Err(Error::conflict(
            "fleets_full",
            "an organization has at most 1,000 fleets; delete one that is not needed",
        ));
    }
    let fleet = Fleet {
        id: tx.new_id(),
        name: new.name.clone(),
        description: new.description.clone(),
        access: new.access.unwrap_or_default(),
        created_at: tx.now(),
        updated_at: tx.now(),
        updated_by: Some(req.caller().user()),
    };
    tx.insert(&Restricted::new(fleet.clone()))?;
    to_info(&tx.view(), fleet)
}

fn update(tx: &mut Tx, req: &Req<Id<Fleet>, FleetPatch>) -> Result<FleetInfo> {
    let patch = &req.input;
    let old = fetch(&tx.view(), req.caller(), req.params)?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.description.clone().apply(&mut new.description);
    new.access = patch.access.unwrap_or(new.access);
    if new != old {
        (new.updated_at, new.updated_by) = (tx.now(), Some(req.caller().user()));
        tx.replace(&Restricted::new(old), &Restricted::new(new.clone()))?;
        // Requests that wait for something of its agents may no longer be allowed to read it.
        tx.signal(ACCESS_CHANGED);
    }
    to_info(&tx.view(), new)
}

/// Its grants are deleted, and its agents left without a fleet, by reference.
fn delete(tx: &mut Tx, req: &Req<Id<Fleet>>) -> Result<Deleted> {
    let fleet: Restricted<Fleet> = tx.fetch(&req.params)?;
    tx.remove(&fleet)?;
    Ok(Deleted::new(fleet.id()))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/fleets", SESSION_MEMBER, "fleet.list", op::walk(list))
            .about("List accessible fleets, newest first"),
        Route::post("/fleets", SESSION_ADMIN, "fleet.create", op::write(create))
            .about("Create a fleet"),
        Route::get("/fleets/{fleetId}", SESSION_MEMBER, "fleet.get", op::read(get))
            .about("Get a fleet"),
        Route::patch("/fleets/{fleetId}", SESSION_ADMIN, "fleet.update", op::write(update))
            .about("Update a fleet"),
        Route::delete("/fleets/{fleetId}", SESSION_ADMIN, "fleet.delete", op::write(delete))
            .about("Delete a fleet, leaving its agents without one"),
    ]
}

#[cfg(test)]
pub mod tests;
