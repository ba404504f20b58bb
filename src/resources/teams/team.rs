//! The record of a team, and lookups of teams (reference: teams-and-wakes, "Teams").

use bincode::{Decode, Encode};

use super::budget::{Budget, OnExhausted};
use super::zone::{Calendar, ZoneName};
use crate::api::{Resource, TargetFinder};
use crate::auth::{Caller, ScopeName, ScopeTarget, User};
use crate::base::{Description, Id, Name, Result, Slug, Time};
use crate::resources::pauses::Paused;
use crate::store::{AnyIndex, Export, Index, Record, TableInfo, View, upgrade_shorter};

pub(super) const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<Team>()], ..Resource::EMPTY };

// ── Record ──────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A team.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Team {
    pub id: Id<Team>,
    /// Unique in the organization; outside agents address the team by it. Never changes.
    pub slug: Slug,
    pub name: Name,
    pub description: Option<Description>,
    /// The budget for a calendar month, in US dollars.
    pub monthly_usd: Option<f64>,
    pub created_at: Time,
    pub updated_at: Time,
    /// Set while the team is paused.
    pub paused: Option<Paused>,
    /// What happens when its budget is used up; of no meaning without one.
    pub on_exhausted: OnExhausted,
    /// The zone of its days and months, unless that is UTC.
    pub time_zone: Option<ZoneName>,
    /// Who last changed it; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<User>>,
}
}

/// Teams by slug.
pub static BY_SLUG: Index<Team, Slug> = Index::unique(
    "teams.by_slug",
    "team_slug_taken",
    "the organization has a team with this slug already; choose another slug",
    |team| Some(team.slug.clone()),
);

/// The table of memories, which are erased with their agent and with the team.
pub const MEMORIES: &str = "memories";

impl Record for Team {
    const TABLE: &'static str = "teams";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SLUG];
    const VERSION: u8 = 3;
    type Key = Id<Team>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 2, body)
    }
}

/// Returns the team with this id, or 404.
pub fn fetch_team(view: &View, id: Id<Team>) -> Result<Team> {
    view.fetch(&id)
}

/// Whether a team exists and the scopes of the caller's key reach it. What cannot be read is not
/// listed.
pub fn reaches(view: &View, caller: &Caller, scope: ScopeName, team: Id<Team>) -> bool {
    try_reaches(view, caller, scope, team).unwrap_or(false)
}

/// The same where what cannot be read is an error: who follows a list does not come back to what was left
/// out.
///
/// # Errors
/// 500 if the team cannot be read.
pub fn try_reaches(view: &View, caller: &Caller, scope: ScopeName, team: Id<Team>) -> Result<bool> {
    let team = view.get::<Team>(&team)?;
    Ok(team.is_some_and(|team| caller.covers(scope, Some(&ScopeTarget::named(&team.slug)))))
}

/// Returns the id if the team exists, or 404.
pub fn require_team(view: &View, id: Id<Team>) -> Result<Id<Team>> {
    if view.has::<Team>(&id)? { Ok(id) } else { Err(Team::missing(&id)) }
}

impl Team {
    /// Its budget, if it has one.
    pub fn budget(&self) -> Option<Budget> {
        let on_exhausted = self.on_exhausted;
        self.monthly_usd.map(|monthly_usd| Budget { monthly_usd, on_exhausted })
    }

    /// The same with this budget.
    pub fn with_budget(self, budget: Option<Budget>) -> Self {
        let on_exhausted = budget.map_or(OnExhausted::Notify, |budget| budget.on_exhausted);
        Team { monthly_usd: budget.map(|budget| budget.monthly_usd), on_exhausted, ..self }
    }

    /// Its days and months.
    pub fn calendar(&self) -> Calendar {
        Calendar::of(self.time_zone.as_ref())
    }
}

/// The team in the first parameter of the path.
pub static TEAM_IN_PATH: TargetFinder = TargetFinder {
    arguments: &[],
    find: |view, hint| {
        let id = hint.params.first().map_or(Id::NIL, |param| Id::parse(param));
        Ok(view.get::<Team>(&id)?.map(|team| ScopeTarget::named(&team.slug)))
    },
};
