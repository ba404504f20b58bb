//! Teams themselves.

use bincode::{Decode, Encode};

use crate::base::{Description, Id, Name, Result, Slug, Time};
use crate::store::{AnyIndex, Index, Record, View};

/// A team (contract §6).
#[derive(Clone, Debug, Encode, Decode)]
pub struct Team {
    /// Its id.
    pub id: Id<Team>,
    /// Its slug, by which outside agents name it; never changes.
    pub slug: Slug,
    /// Its name.
    pub name: Name,
    /// What it is for.
    pub description: Option<Description>,
    /// What it may spend in a calendar month, in US dollars.
    pub monthly_usd: Option<f64>,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

/// Teams by slug.
pub static BY_SLUG: Index<Team, Slug> = Index::unique(
    "teams.by_slug",
    "team_slug_taken",
    "the organization has a team with this slug already; choose another slug",
    |team| Some(team.slug.clone()),
);

impl Record for Team {
    const TABLE: &'static str = "teams";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SLUG];
    type Key = Id<Team>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// What a team's runs cost in a calendar month, UTC. Apart from the team, so that a run changes no
/// `ETag`.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Spending {
    /// Whose.
    pub team: Id<Team>,
    /// The month's first moment ([`Time::month_start`]).
    pub month_start: Time,
    /// How much, in US dollars.
    pub spent_usd: f64,
    /// Whether it was told that this passed the budget: that is told once a month.
    pub exhausted_told: bool,
}

impl Record for Spending {
    const TABLE: &'static str = "teams.spending";
    type Key = (Id<Team>, Time);
    fn key(&self) -> Self::Key {
        (self.team, self.month_start)
    }
}

/// The team with this id, or 404.
pub fn fetch_team(view: &View, id: Id<Team>) -> Result<Team> {
    view.fetch(&id)
}
