//! Agents of a team that a caller may use (reference: teams-and-wakes, "Restricted agents").
//!
//! What acts as an agent, gives it work or reads what is its own takes a [`UsableMember`], which only
//! the check here makes. A request names an agent by an [`AgentRef`], which says nothing until it is
//! checked.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use super::member::{Member, fetch_member};
use super::team::Team;
use crate::auth::{Caller, grant_required, was_restricted};
use crate::base::{Id, Result};
use crate::resources::agents;
use crate::store::View;

/// An agent of a team that the caller may use.
pub struct UsableMember(Member);

impl Deref for UsableMember {
    type Target = Member;
    fn deref(&self) -> &Member {
        &self.0
    }
}

impl UsableMember {
    /// Returns the agent of this team with this id. The caller checks that the team exists.
    ///
    /// # Errors
    /// 404 if there is none; 403 if its fleet is restricted and the caller has no grant.
    pub fn fetch(view: &View, caller: &Caller, (team, id): (Id<Team>, Id<Member>)) -> Result<Self> {
        let member = fetch_member(view, team, id)?;
        agents::require_usable(view, caller, member.agent)?;
        Ok(UsableMember(member))
    }
}

/// An agent of a team as a body names it.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct AgentRef(Id<Member>);

impl AgentRef {
    /// Returns the agent.
    ///
    /// # Errors
    /// As [`UsableMember::fetch`].
    pub fn open(&self, view: &View, caller: &Caller, team: Id<Team>) -> Result<UsableMember> {
        UsableMember::fetch(view, caller, (team, self.0))
    }

    /// Whether it names this agent, which may have left.
    pub fn is(&self, id: Id<Member>) -> bool {
        self.0 == id
    }
}

/// Returns the agent that an optional field names.
///
/// # Errors
/// As [`UsableMember::fetch`].
pub fn open_optional(
    view: &View,
    caller: &Caller,
    team: Id<Team>,
    named: Option<&AgentRef>,
) -> Result<Option<UsableMember>> {
    named.map(|named| named.open(view, caller, team)).transpose()
}

impl JsonSchema for AgentRef {
    fn inline_schema() -> bool {
        Id::<Member>::inline_schema()
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Id::<Member>::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Id::<Member>::json_schema(generator)
    }
}

/// The agents of teams whose own records a caller may see, also those that have left: for lists of
/// what belongs to many.
pub struct UsableMembers<'a> {
    view: View<'a>,
    caller: &'a Caller,
    known: RefCell<BTreeMap<Id<Member>, bool>>,
}

impl<'a> UsableMembers<'a> {
    /// Those of a caller.
    pub fn of(view: &View<'a>, caller: &'a Caller) -> Self {
        UsableMembers { view: *view, caller, known: RefCell::default() }
    }

    /// Whether the caller may see what belongs to an agent of this team. What cannot be read is not
    /// shown.
    pub fn has(&self, team: Id<Team>, id: Id<Member>) -> bool {
        self.try_has(team, id).unwrap_or(false)
    }

    /// The same where what cannot be read is an error: who follows a list does not come back to what was
    /// left out.
    ///
    /// # Errors
    /// 500 if the agent cannot be read.
    pub fn try_has(&self, team: Id<Team>, id: Id<Member>) -> Result<bool> {
        if self.caller.is_admin() {
            return Ok(true);
        }
        if let Some(known) = self.known.borrow().get(&id) {
            return Ok(*known);
        }
        let is_usable = self.is_usable(team, id)?;
        self.known.borrow_mut().insert(id, is_usable);
        Ok(is_usable)
    }

    fn is_usable(&self, team: Id<Team>, id: Id<Member>) -> Result<bool> {
        match self.view.get::<Member>(&(team, id))? {
            Some(member) => agents::is_usable(&self.view, self.caller, member.agent),
            None => Ok(!was_restricted(&self.view, id)?),
        }
    }

    /// Requires that the caller may see what belongs to an agent of this team.
    ///
    /// # Errors
    /// 403 otherwise.
    pub fn require(&self, team: Id<Team>, id: Id<Member>) -> Result<()> {
        if self.has(team, id) { Ok(()) } else { Err(grant_required()) }
    }
}
