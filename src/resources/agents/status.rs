//! The status of an agent: one in each environment, of which everybody sees the worst among the
//! environments that they may use (reference: deployments, "Heartbeats").

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::{Caller, hidden_ids, usable_ids};
use crate::base::{Id, Result};
use crate::resources::environments::Environment;
use crate::store::View;

/// The status of an agent over all environments it is deployed to: the worst, in this order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// It reported an error.
    Error,
    /// It has not reported for too long.
    Stale,
    /// It runs something other than what was deployed.
    Drifted,
    /// It is deployed.
    Deployed,
    /// It is deployed nowhere.
    Undeployed,
}
crate::store::stored_enum!(AgentStatus {
    Error = 0,
    Stale = 1,
    Drifted = 2,
    Deployed = 3,
    Undeployed = 4,
});

crate::base::portable! {
/// The status of an agent in one environment.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PlaceStatus {
    pub environment: Id<Environment>,
    pub status: AgentStatus,
}
}

/// The worst of several statuses.
pub fn worst(statuses: impl Iterator<Item = AgentStatus>) -> AgentStatus {
    statuses.min().unwrap_or(AgentStatus::Undeployed)
}

/// What a caller sees of the status of agents.
pub struct SeenStatus {
    /// The environments that they may use; none if that is all of them.
    usable: Option<BTreeSet<Id<Environment>>>,
}

impl SeenStatus {
    /// What a caller sees. Reads all environments, of which there are few.
    pub fn of(view: &View, caller: &Caller) -> Result<Self> {
        let is_whole = hidden_ids::<Environment>(view, caller)?.is_empty();
        let usable = if is_whole { None } else { Some(usable_ids(view, caller)?) };
        Ok(SeenStatus { usable })
    }

    /// Whether it is the status over all environments.
    pub fn is_whole(&self) -> bool {
        self.usable.is_none()
    }

    /// The status that the caller sees of an agent that has this one over all environments, and these
    /// in each.
    pub fn seen(&self, whole: AgentStatus, places: Option<&[PlaceStatus]>) -> AgentStatus {
        let Some(usable) = &self.usable else { return whole };
        let seen = places.into_iter().flatten().filter(|at| usable.contains(&at.environment));
        worst(seen.map(|place| place.status))
    }
}
