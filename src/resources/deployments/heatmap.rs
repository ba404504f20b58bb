//! The heatmap: jobs per day and state, from the counts that are kept with each change of a state.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::Hidden;
use super::days::{Day, DeploymentDay, DeploymentScope, Scope, day_of, start_of};
use super::state::JobState;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op, order_issue};
use crate::auth::SESSION_MEMBER;
use crate::base::{Error, Id, Issue, Result, Time};
use crate::resources::environments::Environment;
use crate::store::{Order, Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// The days shown by default: a year.
const DEFAULT_DAYS: Day = 365;

/// At most ten years are shown at once: a row is read for each day.
const MAX_DAYS: Day = 3_660;

/// The days of a heatmap.
#[derive(Deserialize, JsonSchema)]
pub struct HeatmapQuery {
    /// The time from which days are shown; 365 days before the end by default.
    from: Option<Time>,
    /// The time up to which days are shown; now by default.
    to: Option<Time>,
}

impl Input for HeatmapQuery {
    fn check(&self, issues: &mut Vec<Issue>) {
        issues.extend(order_issue(self.from, self.to));
    }
}

/// The deployment jobs that were created on a day.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HeatmapDay {
    /// The day, UTC.
    #[schemars(extend("format" = "date"))]
    date: String,
    /// The number of jobs by their current state, without zeros.
    counts: BTreeMap<JobState, u64>,
}

impl Output for HeatmapDay {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Lists the days with jobs, newest first, all on one page.
pub(super) fn list(view: &View, req: &Req<(), HeatmapQuery>) -> Result<Page<HeatmapDay>> {
    let to = req.input.to.unwrap_or(view.now().plus_millis(1));
    // The day of the last moment before `to`.
    let end = day_of(to.plus_millis(-1)) + 1;
    let first = end.saturating_sub(DEFAULT_DAYS);
    let start = req.input.from.map_or(first, day_of);
    if end.saturating_sub(start) > MAX_DAYS {
        return Err(Error::invalid_at("from", "must be at most 3,660 days before to"));
    }
    let mut days = Days { view, start, end, counts: BTreeMap::new() };
    days.add(None, None, |count, more| count + more)?;
    let hidden = Hidden::from(view, req.caller(), start_of(start))?;
    for environment in &hidden.environments {
        days.add(Some(*environment), None, u64::saturating_sub)?;
    }
    for (environment, scope) in scopes(view, &hidden)? {
        days.add(Some(environment), Some(scope), u64::saturating_sub)?;
    }
    Ok(Page::single(days.into_items()))
}

type Counts = BTreeMap<JobState, u64>;

/// The counts of the days from `start` until before `end`.
struct Days<'a> {
    view: &'a View<'a>,
    start: Day,
    end: Day,
    counts: BTreeMap<Day, Counts>,
}

impl Days<'_> {
    /// Adds the rows of an environment or scope, or subtracts them.
    fn add(
        &mut self,
        environment: Option<Id<Environment>>,
        scope: Option<Id<Scope>>,
        change: fn(u64, u64) -> u64,
    ) -> Result<()> {
        let (from, to) = ((environment, scope, self.start), (environment, scope, self.end));
        let mut keys = Vec::new();
        self.view.record_keys::<DeploymentDay>(&from, &to, Order::Ascending, |key| {
            keys.push(key);
            Ok(ControlFlow::Continue(()))
        })?;
        for key in keys {
            let row: DeploymentDay = self.view.fetch(&key)?;
            let counts = self.counts.entry(row.day).or_default();
            for (state, number) in row.counts {
                let count = counts.entry(state).or_default();
                *count = change(*count, number);
            }
        }
        Ok(())
    }

    fn into_items(self) -> Vec<HeatmapDay> {
        let newest = self.counts.into_iter().rev();
        let day = |(day, mut counts): (Day, Counts)| {
            counts.retain(|_, count| *count > 0);
            let date = start_of(day).to_string().chars().take(10).collect();
            (!counts.is_empty()).then_some(HeatmapDay { date, counts })
        };
        newest.filter_map(day).collect()
    }
}

/// The scopes of visible environments that have something hidden, each once.
fn scopes(view: &View, hidden: &Hidden) -> Result<BTreeSet<(Id<Environment>, Id<Scope>)>> {
    let mut scopes = BTreeSet::new();
    for subject in &hidden.subjects {
        let end = subject.successor();
        view.record_keys::<DeploymentScope>(subject, &end, Order::Ascending, |key| {
            let (_, environment, scope) = key;
            if !hidden.environments.contains(&environment) {
                scopes.insert((environment, scope));
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(scopes)
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/deployments/heatmap", SESSION_MEMBER, "heatmap.get", op::list(list))
            .about("Count deployment jobs per day and state"),
    ]
}
