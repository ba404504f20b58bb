//! Creating, changing and deleting teams (reference: teams-and-wakes, "Teams").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::{BudgetInfo, NewBudget, OnExhausted};
use super::team::{BY_SLUG, MEMORIES, TEAM_IN_PATH, Team, fetch_team};
use super::team_changes::TeamChange;
use super::zone::{ZoneName, utc};
use super::{accounts, budgets, holds};
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, Caller, MEMBER, ScopeName, ScopeTarget, User};
use crate::base::{Description, Id, Name, Nullable, Result, Slug, Time};
use crate::resources::pauses::Pause;
use crate::store::{ListSource, Order, Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

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
    /// The zone in which its days and months begin, by its IANA name. UTC if absent.
    time_zone: Option<ZoneName>,
}
impl Input for NewTeam {}

/// Changes to a team; absent fields keep their value.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"budget": {"monthlyUsd": 80}}],
))]
pub struct TeamPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    #[serde(default)]
    budget: Nullable<NewBudget>,
    /// Null: UTC.
    #[serde(default)]
    time_zone: Nullable<ZoneName>,
}
impl Input for TeamPatch {}

#[derive(Deserialize, JsonSchema)]
struct TeamFilter {
    /// Only the team with this slug.
    slug: Option<String>,
}
impl Input for TeamFilter {}

/// A team as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Team")]
pub struct TeamInfo {
    id: Id<Team>,
    slug: Slug,
    name: Name,
    description: Option<Description>,
    budget: Option<BudgetInfo>,
    /// The zone in which its days and months begin.
    time_zone: ZoneName,
    /// What holds all of its agents back; null if nothing does.
    paused: Option<Pause>,
    created_at: Time,
    updated_at: Time,
    updated_by: Option<Id<User>>,
}

impl Output for TeamInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Returns a team as the API returns it.
pub fn info(view: &View, team: Team) -> Result<TeamInfo> {
    let paused = holds::of_team(view, &team)?;
    let budget = accounts::info_of_team(view, &team)?;
    Ok(TeamInfo {
        id: team.id,
        slug: team.slug,
        name: team.name,
        description: team.description,
        budget,
        time_zone: team.time_zone.unwrap_or_else(utc),
        paused,
        created_at: team.created_at,
        updated_at: team.updated_at,
        updated_by: team.updated_by,
    })
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
        monthly_usd: None,
        created_at: tx.now(),
        updated_at: tx.now(),
        paused: None,
        on_exhausted: OnExhausted::Notify,
        time_zone: new.time_zone.clone().filter(|zone| *zone != utc()),
        updated_by: Some(req.caller().user()),
    };
    let team = team.with_budget(new.budget.map(NewBudget::stored));
    tx.insert(&team)?;
    if team.monthly_usd.is_some() {
        budgets::team_changed(tx, &team)?;
    }
    info(&tx.view(), team)
}

fn get(view: &View, req: &Req<Id<Team>>) -> Result<TeamInfo> {
    info(view, fetch_team(view, req.params)?)
}

/// Changes a team.
pub fn update(tx: &mut Tx, req: &Req<Id<Team>, TeamPatch>) -> Result<TeamInfo> {
    let old = fetch_team(&tx.view(), req.params)?;
    let patch = &req.input;
    let mut team = old.clone();
    if let Some(name) = &patch.name {
        team.name = name.clone();
    }
    patch.description.clone().apply(&mut team.description);
    patch.time_zone.clone().apply(&mut team.time_zone);
    team.time_zone = team.time_zone.filter(|zone| *zone != utc());
    let mut team = team.with_budget(NewBudget::patch(&patch.budget, old.budget()));
    if team != old {
        (team.updated_at, team.updated_by) = (tx.now(), Some(req.caller().user()));
        tx.replace(&old, &team)?;
    }
    if team.budget() != old.budget() {
        let at = (team.id, None);
        TeamChange::of_budget(tx, at, team.budget(), req.caller().user()).note(tx)?;
    }
    if team.time_zone != old.time_zone {
        budgets::zone_changed(tx, &team)?;
    } else if team.budget() != old.budget() {
        budgets::team_changed(tx, &team)?;
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
        Route::get("/teams", MEMBER, "team.list", op::walk(list))
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
    use crate::resources::teams::budget::Budget;
    use crate::resources::teams::spending::MonthlySpending;
    use crate::resources::teams::testing::code;
    use crate::resources::testing::{Fixture, user};

    fn make(fixture: &Fixture, body: Value) -> Result<TeamInfo> {
        fixture.write(create, (), Fixture::input(body)?)
    }

    fn budget(fixture: &Fixture, team: Id<Team>) -> Option<BudgetInfo> {
        fixture.read(get, team, ()).unwrap().budget
    }

    fn of_ten(spent_usd: f64) -> BudgetInfo {
        let budget = Budget { monthly_usd: 10.0, on_exhausted: OnExhausted::Notify };
        BudgetInfo::of(budget, spent_usd, 0)
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
            "budget": {
                "monthlyUsd": 10.0, "spentUsd": 0.0, "onExhausted": "notify", "unpricedTokens": 0,
            },
            "timeZone": "UTC", "paused": null,
            "createdAt": "2026-01-15T12:00:00.000Z", "updatedAt": "2026-01-15T12:00:01.000Z",
            "updatedBy": user(&fixture.member),
        });
        assert_eq!(serde_json::to_value(renamed).unwrap(), expected);
        let cleared = patch(json!({"description": null, "budget": null, "name": null}));
        assert_eq!(cleared.name.as_str(), "New");
        assert!(cleared.description.is_none() && cleared.budget.is_none());
        assert_eq!(json!(patch(json!({"budget": {"monthlyUsd": 5}})).budget)["monthlyUsd"], 5.0);

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
        assert_eq!(budget(&fixture, team), Some(of_ten(2.5)));
        fixture.pass_secs(17 * 24 * 3600);
        assert_eq!(budget(&fixture, team), Some(of_ten(0.0)));
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
