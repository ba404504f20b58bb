//! Teams themselves.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leftovers;
use crate::api::{Input, Removed, Req, Route};
use crate::auth::Rule;
use crate::base::{Description, Field, Id, Name, Result, Slug, Time, Usd};
use crate::store::{AnyIndex, Index, Order, Page, Record, Source, Tx, View};

// ── Records ──────────────────────────────────────────────────────────────────

/// A team.
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

/// What a team's runs cost in a calendar month, UTC. A record for each month, so that nothing has
/// to happen when a month ends.
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

/// Removes what a team has spent, at most so many months; says how many.
pub fn clear(tx: &mut Tx, team: Id<Team>, at_most: usize) -> Result<usize> {
    leftovers::remove_first::<Spending>(tx, &team, at_most)
}

// ── What callers send and see ────────────────────────────────────────────────

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewTeam {
    slug: Slug,
    name: Name,
    description: Option<Description>,
    budget: Option<NewBudget>,
}
impl Input for NewTeam {}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TeamPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Field<Description>,
    #[serde(default)]
    budget: Field<NewBudget>,
}
impl Input for TeamPatch {}

/// What a team may spend.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NewTeamBudget")]
struct NewBudget {
    monthly_usd: Usd,
}

/// A team, as it is shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Team")]
struct TeamInfo {
    id: Id<Team>,
    slug: Slug,
    name: Name,
    description: Option<Description>,
    budget: Option<Budget>,
    created_at: Time,
    updated_at: Time,
}

/// What a team may spend in a calendar month (UTC), and what it has spent in this one.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TeamBudget")]
struct Budget {
    monthly_usd: f64,
    spent_usd: f64,
}

fn info(view: &View, team: Team) -> Result<TeamInfo> {
    let Team { id, slug, name, description, monthly_usd, created_at, updated_at } = team;
    let budget = match monthly_usd {
        None => None,
        Some(monthly_usd) => {
            let spending = view.get::<Spending>(&(id, view.now().month_start()))?;
            let spent_usd = spending.map_or(0.0, |spending| spending.spent_usd);
            Some(Budget { monthly_usd, spent_usd })
        }
    };
    Ok(TeamInfo { id, slug, name, description, budget, created_at, updated_at })
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<()>) -> Result<Page<TeamInfo>> {
    view.page(Source::TABLE, &(), Order::Descending, &req.part, |_| true)?
        .try_map(|team| info(view, team))
}

fn create(tx: &mut Tx, req: &Req<(), NewTeam>) -> Result<TeamInfo> {
    let new = &req.input;
    let team = Team {
        id: tx.new_id(),
        slug: new.slug.clone(),
        name: new.name.clone(),
        description: new.description.clone(),
        monthly_usd: new.budget.as_ref().map(|budget| budget.monthly_usd.get()),
        created_at: tx.now(),
        updated_at: tx.now(),
    };
    tx.insert(&team)?;
    info(&tx.view(), team)
}

fn show(view: &View, req: &Req<Id<Team>>) -> Result<TeamInfo> {
    info(view, fetch_team(view, req.at)?)
}

fn change(tx: &mut Tx, req: &Req<Id<Team>, TeamPatch>) -> Result<TeamInfo> {
    let old = fetch_team(&tx.view(), req.at)?;
    let patch = &req.input;
    let mut team = Team { updated_at: tx.now(), ..old.clone() };
    if let Some(name) = &patch.name {
        team.name = name.clone();
    }
    patch.description.clone().apply(&mut team.description);
    match &patch.budget {
        Field::Absent => {}
        Field::Clear => team.monthly_usd = None,
        Field::Set(budget) => team.monthly_usd = Some(budget.monthly_usd.get()),
    }
    tx.replace(&old, &team)?;
    info(&tx.view(), team)
}

fn remove(tx: &mut Tx, req: &Req<Id<Team>>) -> Result<Removed> {
    let team = fetch_team(&tx.view(), req.at)?;
    tx.remove(&team)?;
    leftovers::clear_team(tx, team.id)?;
    Ok(Removed::new(team.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub fn routes() -> Vec<Route> {
    vec![
        Route::list("/teams", Rule::Member, "team.list", list).about("List the teams"),
        Route::post("/teams", Rule::Member, "team.create", create).about("Make a team"),
        Route::get("/teams/{teamId}", Rule::Member, "team.show", show).about("Show a team"),
        Route::patch("/teams/{teamId}", Rule::Member, "team.change", change).about("Change a team"),
        Route::delete("/teams/{teamId}", Rule::Admin, "team.remove", remove)
            .about("Delete a team with everything in it"),
    ]
}
