//! Teams: the record, its monthly spending, and the operations on it.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, TargetFinder, op};
use crate::auth::{ADMIN, Caller, MEMBER, ScopeName, ScopeTarget};
use crate::base::{Description, Id, Name, Nullable, Result, Slug, Time, Usd};
use crate::resources::pauses::{self, Pause, PauseScope, Paused};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    TableInfo, Tx, View, codec, no_upgrade,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Team>(), TableInfo::of::<MonthlySpending>()],
    ..Resource::EMPTY
};

// ── Records ──────────────────────────────────────────────────────────────────

/// A team.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Team {
    pub id: Id<Team>,
    /// Unique in the organization; outside agents address the team by it. Never changes.
    pub slug: Slug,
    pub name: Name,
    pub description: Option<Description>,
    /// The budget for a calendar month (UTC), in US dollars.
    pub monthly_usd: Option<f64>,
    pub created_at: Time,
    pub updated_at: Time,
    /// Set while the team is paused.
    pub paused: Option<Paused>,
}
crate::base::portable!(Team {
    id,
    slug,
    name,
    description,
    monthly_usd,
    created_at,
    updated_at,
    paused,
});

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
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("paused.by", "history: who paused it may have left")];
    const VERSION: u8 = 2;
    type Key = Id<Team>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => codec::decode_shorter(body),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// The cost of a team's runs in a calendar month (UTC). One record per month, so no job has to reset
/// it when a month ends.
#[derive(Clone, Debug, Encode, Decode)]
pub struct MonthlySpending {
    pub team: Id<Team>,
    /// The month's first moment ([`Time::month_start`]).
    pub month_start: Time,
    /// In US dollars.
    pub spent_usd: f64,
    /// Whether the event that the budget was exceeded was published: it is, once a month.
    pub exhaustion_published: bool,
}
crate::base::portable!(MonthlySpending { team, month_start, spent_usd, exhaustion_published });

static TEAM: Reference<MonthlySpending, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |spending: &MonthlySpending, _| vec![spending.team.to_bytes()],
)
.deferred();

impl Record for MonthlySpending {
    const TABLE: &'static str = "teams.spending";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    type Key = (Id<Team>, Time);
    fn key(&self) -> Self::Key {
        (self.team, self.month_start)
    }
}

/// Returns the team with this id, or 404.
pub fn fetch_team(view: &View, id: Id<Team>) -> Result<Team> {
    view.fetch(&id)
}

/// Whether a team exists and the scopes of the caller's key reach it. What cannot be read is not
/// listed.
pub fn reaches(view: &View, caller: &Caller, scope: ScopeName, team: Id<Team>) -> bool {
    let team = view.get::<Team>(&team).ok().flatten();
    team.is_some_and(|team| caller.covers(scope, Some(&ScopeTarget::named(&team.slug))))
}

/// Returns the id if the team exists, or 404.
pub fn require_team(view: &View, id: Id<Team>) -> Result<Id<Team>> {
    if view.has::<Team>(&id)? { Ok(id) } else { Err(Team::missing(&id)) }
}

impl Team {
    /// Returns what holds the whole team back: its own pause, or that of all.
    pub fn pause(&self, view: &View) -> Result<Option<Pause>> {
        let own = self.paused.clone().map(|paused| Pause::of(PauseScope::Team, paused));
        Ok(pauses::of_all(view)?.or(own))
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

// ── What callers send and see ────────────────────────────────────────────────

/// A team to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"slug": "crew", "name": "Crew", "budget": {"monthlyUsd": 50}}],
))]
struct NewTeam {
    /// Unique in the organization; cannot be changed later.
    slug: Slug,
    name: Name,
    description: Option<Description>,
    /// No budget if absent.
    budget: Option<NewBudget>,
}
impl Input for NewTeam {}

/// Changes to a team; absent fields keep their value.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"budget": {"monthlyUsd": 80}}],
))]
struct TeamPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    #[serde(default)]
    budget: Nullable<NewBudget>,
}
impl Input for TeamPatch {}

#[derive(Deserialize, JsonSchema)]
struct TeamFilter {
    /// Only the team with this slug.
    slug: Option<String>,
}
impl Input for TeamFilter {}

/// A team's budget.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NewTeamBudget")]
struct NewBudget {
    /// US dollars per calendar month (UTC).
    monthly_usd: Usd,
}

/// A team as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Team")]
pub struct TeamInfo {
    id: Id<Team>,
    slug: Slug,
    name: Name,
    description: Option<Description>,
    budget: Option<Budget>,
    /// What holds all of its agents back; null if nothing does.
    paused: Option<Pause>,
    created_at: Time,
    updated_at: Time,
}

impl Output for TeamInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// A team's budget for a calendar month (UTC), and its spending in the current one.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TeamBudget")]
struct Budget {
    /// The budget in US dollars.
    monthly_usd: f64,
    /// The cost of the runs reported this month, in US dollars.
    spent_usd: f64,
}

/// Returns a team as the API returns it.
pub fn info(view: &View, team: Team) -> Result<TeamInfo> {
    let paused = team.pause(view)?;
    let Team { id, slug, name, description, monthly_usd, created_at, updated_at, .. } = team;
    let budget = match monthly_usd {
        None => None,
        Some(monthly_usd) => {
            let spending = view.get::<MonthlySpending>(&(id, view.now().month_start()))?;
            let spent_usd = spending.map_or(0.0, |spending| spending.spent_usd);
            Some(Budget { monthly_usd, spent_usd })
        }
    };
    Ok(TeamInfo { id, slug, name, description, budget, paused, created_at, updated_at })
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), TeamFilter>) -> Result<Page<TeamInfo>> {
    let is_listed = |team: &Team| may_read(req.caller(), team);
    if let Some(slug) = &req.input.slug {
        let found = Slug::parse(slug).ok().map(|slug| view.find(&BY_SLUG, &slug)).transpose()?;
        let team = found.flatten().filter(is_listed);
        return Page::single(team.into_iter().collect()).try_map(|team| info(view, team));
    }
    view.page(ListSource::TABLE, &(), Order::Descending, &req.page, is_listed)?
        .try_map(|team| info(view, team))
}

fn may_read(caller: &Caller, team: &Team) -> bool {
    caller.covers(ScopeName::TeamRead, Some(&ScopeTarget::named(&team.slug)))
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
        paused: None,
    };
    tx.insert(&team)?;
    info(&tx.view(), team)
}

fn get(view: &View, req: &Req<Id<Team>>) -> Result<TeamInfo> {
    info(view, fetch_team(view, req.params)?)
}

fn update(tx: &mut Tx, req: &Req<Id<Team>, TeamPatch>) -> Result<TeamInfo> {
    let old = fetch_team(&tx.view(), req.params)?;
    let patch = &req.input;
    let mut team = old.clone();
    if let Some(name) = &patch.name {
        team.name = name.clone();
    }
    patch.description.clone().apply(&mut team.description);
    match &patch.budget {
        Nullable::Absent => {}
        Nullable::Clear => team.monthly_usd = None,
        Nullable::Set(budget) => team.monthly_usd = Some(budget.monthly_usd.get()),
    }
    if team != old {
        team.updated_at = tx.now();
        tx.replace(&old, &team)?;
    }
    info(&tx.view(), team)
}

/// Deletes a team with its contents.
pub fn delete(tx: &mut Tx, req: &Req<Id<Team>>) -> Result<Deleted> {
    let team = fetch_team(&tx.view(), req.params)?;
    tx.remove(&team)?;
    tx.record_erasure(MEMORIES, &team.id)?;
    Ok(Deleted::new(team.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

/// The routes of teams.
pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/teams", MEMBER, "team.list", op::list(list))
            .needs_listed(ScopeName::TeamRead)
            .about("List teams, newest first"),
        Route::post("/teams", MEMBER, "team.create", op::write(create))
            .needs(ScopeName::TeamWrite)
            .about("Create a team"),
        Route::get("/teams/{teamId}", MEMBER, "team.get", op::read(get))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("Get a team"),
        Route::patch("/teams/{teamId}", MEMBER, "team.update", op::write(update))
            .needs_for(ScopeName::TeamWrite, &TEAM_IN_PATH)
            .about("Update a team"),
        Route::delete("/teams/{teamId}", ADMIN, "team.delete", op::write(delete))
            .needs_for(ScopeName::TeamWrite, &TEAM_IN_PATH)
            .about("Delete a team with its contents"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resources::teams::testing::code;
    use crate::resources::testing::Fixture;

    fn make(fixture: &Fixture, body: Value) -> Result<TeamInfo> {
        fixture.write(create, (), Fixture::input(body)?)
    }

    fn budget(fixture: &Fixture, team: Id<Team>) -> Option<Budget> {
        fixture.read(get, team, ()).unwrap().budget
    }

    #[test]
    fn a_slug_is_unique_in_its_organization_until_the_team_is_deleted() {
        let fixture = Fixture::new();
        let body = json!({"slug": "crew", "name": "Crew"});
        let made = make(&fixture, body.clone()).unwrap();
        assert_eq!(code(make(&fixture, body.clone())), "team_slug_taken");
        let (_, eve) = fixture.other_org("other");
        fixture.write_as(&eve, create, (), Fixture::input(body.clone()).unwrap()).unwrap();
        fixture.write(delete, made.id, ()).unwrap();
        make(&fixture, body).unwrap();
        fixture.assert_sound();
    }

    #[test]
    fn a_patch_updates_the_given_fields_and_null_clears() {
        let fixture = Fixture::new();
        let body = json!({
            "slug": "crew", "name": "Crew", "description": "sails", "budget": {"monthlyUsd": 10},
        });
        let made = make(&fixture, body).unwrap();
        fixture.pass_secs(1);
        let patch = |body| fixture.write(update, made.id, Fixture::input(body).unwrap()).unwrap();

        let renamed = patch(json!({"name": "New"}));
        let expected = json!({
            "id": made.id, "slug": "crew", "name": "New", "description": "sails",
            "budget": {"monthlyUsd": 10.0, "spentUsd": 0.0}, "paused": null,
            "createdAt": "2026-01-15T12:00:00.000Z", "updatedAt": "2026-01-15T12:00:01.000Z",
        });
        assert_eq!(serde_json::to_value(renamed).unwrap(), expected);
        let cleared = patch(json!({"description": null, "budget": null, "name": null}));
        assert_eq!(cleared.name.as_str(), "New");
        assert!(cleared.description.is_none() && cleared.budget.is_none());
        assert_eq!(patch(json!({"budget": {"monthlyUsd": 5}})).budget.unwrap().monthly_usd, 5.0);

        let changed_at = cleared.updated_at;
        fixture.pass_secs(1);
        assert_eq!(patch(json!({"name": "New"})).updated_at, changed_at);
    }

    #[test]
    fn spending_counts_from_the_start_of_the_month() {
        let fixture = Fixture::new();
        let body = json!({"slug": "crew", "name": "Crew", "budget": {"monthlyUsd": 10}});
        let team = make(&fixture, body).unwrap().id;
        let spent = fixture.store.write_blocking(fixture.org, move |tx| {
            let month_start = tx.now().month_start();
            tx.insert(&MonthlySpending {
                team,
                month_start,
                spent_usd: 2.5,
                exhaustion_published: false,
            })
        });
        spent.unwrap();
        assert_eq!(budget(&fixture, team), Some(Budget { monthly_usd: 10.0, spent_usd: 2.5 }));
        fixture.pass_secs(17 * 24 * 3600);
        assert_eq!(budget(&fixture, team), Some(Budget { monthly_usd: 10.0, spent_usd: 0.0 }));
    }

    #[test]
    fn teams_of_the_organization_only_are_listed_newest_first() {
        let fixture = Fixture::new();
        let made = ["one", "two"].map(|slug| make(&fixture, json!({"slug": slug, "name": slug})));
        let ids = made.map(|team| team.unwrap().id);
        let filter = |query| Fixture::input(query).unwrap();
        let found = |query| -> Vec<_> {
            let page = fixture.read(list, (), filter(query)).unwrap();
            page.items.iter().map(|team| team.id).collect()
        };
        assert_eq!(found(json!({})), [ids[1], ids[0]]);
        assert_eq!(found(json!({"slug": "one"})), [ids[0]]);
        assert!(found(json!({"slug": "three"})).is_empty());
        assert!(found(json!({"slug": "No slug"})).is_empty());
        let (_, eve) = fixture.other_org("other");
        for query in [json!({}), json!({"slug": "one"})] {
            assert!(fixture.read_as(&eve, list, (), filter(query)).unwrap().items.is_empty());
        }
        assert_eq!(code(fixture.read_as(&eve, get, ids[0], ())), "not_found");
        assert_eq!(code(fixture.write_as(&eve, delete, ids[0], ())), "not_found");
    }
}
