//! The heatmap: jobs per day and state, from the counts that are kept with each change of a state.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::Visible;
use super::days::{Day, DeploymentDay, day_of, start_of};
use super::state::JobState;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Restricted, SESSION_MEMBER};
use crate::base::{Error, Id, Result, Time};
use crate::resources::environments::Environment;
use crate::store::{ListSource, Order, Page, View};

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

impl Input for HeatmapQuery {}

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

/// Lists the days with jobs, oldest first, all on one page.
pub(super) fn list(view: &View, req: &Req<(), HeatmapQuery>) -> Result<Page<HeatmapDay>> {
    let to = req.input.to.unwrap_or(view.now().plus_millis(1));
    // The day of the last moment before `to`.
    let end = day_of(to.plus_millis(-1)) + 1;
    let first = end.saturating_sub(DEFAULT_DAYS);
    let start = req.input.from.map_or(first, day_of);
    if end.saturating_sub(start) > MAX_DAYS {
        return Err(Error::invalid_at("from", "must be at most 3,660 days before to"));
    }
    let mut counts = read(view, None, start, end)?;
    let visible = Visible::to(view, req.caller())?;
    for environment in hidden(view, &visible)? {
        for (day, hidden) in read(view, Some(environment), start, end)? {
            subtract(counts.entry(day).or_default(), &hidden);
        }
    }
    counts.retain(|_, counts| !counts.is_empty());
    let day = |(day, counts): (Day, BTreeMap<JobState, u64>)| {
        let date = start_of(day).to_string().chars().take(10).collect();
        HeatmapDay { date, counts }
    };
    Ok(Page::single(counts.into_iter().map(day).collect()))
}

type Counts = BTreeMap<JobState, u64>;

fn subtract(counts: &mut Counts, hidden: &Counts) {
    for (state, hidden) in hidden {
        if let Some(count) = counts.get_mut(state) {
            *count = count.saturating_sub(*hidden);
        }
    }
    counts.retain(|_, count| *count > 0);
}

fn read(
    view: &View,
    environment: Option<Id<Environment>>,
    start: Day,
    end: Day,
) -> Result<BTreeMap<Day, Counts>> {
    let mut days = BTreeMap::new();
    let (from, to) = ((environment, start), (environment, end));
    view.record_keys::<DeploymentDay>(&from, &to, Order::Ascending, |key| {
        let row: DeploymentDay = view.fetch(&key)?;
        days.insert(row.day, row.counts);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(days)
}

/// The environments whose jobs the caller may not see.
fn hidden(view: &View, visible: &Visible) -> Result<Vec<Id<Environment>>> {
    let all: Vec<Restricted<Environment>> = view.all(ListSource::TABLE, &())?;
    let ids = all.iter().map(Restricted::id);
    Ok(ids.filter(|id| !visible.has_environment(*id)).collect())
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/deployments/heatmap", SESSION_MEMBER, "heatmap.get", op::list(list))
            .about("Count deployment jobs per day and state"),
    ]
}
