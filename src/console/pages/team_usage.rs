//! `/o/{org}/teams/{slug}/usage?by=&month=`: what the runs of a team have used and cost in a month, day by
//! day, and by model, agent and task.

use std::collections::BTreeMap;

use askama::Template;

use crate::base::Result;
use crate::console::api::segment;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::TeamPlace;
use crate::console::usage::{Days, HEIGHT, Sum};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/teams/{slug}/usage").get(|visit| Box::pin(show(visit)))];

/// Months that may be chosen: two years.
const MONTHS: &str = "24";
/// More than a month has.
const DAYS: &str = "40";
/// Rows of the table.
const ROWS: &str = "20";

/// So many models without a price are named.
const UNPRICED: &str = "10";

/// What the table may be summed by, and the heading of its first column.
const BY: [(&str, &str); 3] = [("model", "Model"), ("agent", "Agent"), ("task", "Task")];

#[derive(Template)]
#[template(path = "team_usage.html")]
struct UsagePage {
    frame: Frame,
    place: TeamPlace,
    /// The newest first.
    months: Vec<Sum>,
    /// All of the month that is shown; none if there were no runs in it.
    month: Option<Sum>,
    /// What the table may be summed by.
    choices: [(&'static str, &'static str); 3],
    by: (&'static str, &'static str),
    days: Days,
    rows: List<Sum>,
    /// Models of which something counts nothing, since it has no cost.
    unpriced: List<Sum>,
    /// Numbers of the tasks in it, by id.
    tasks: BTreeMap<String, u32>,
    /// The page of prices.
    prices: String,
}

impl UsagePage {
    /// The height of the drawing.
    fn height(&self) -> f64 {
        HEIGHT
    }

    /// The page with another month, or summed by something else.
    fn at(&self, by: &str, month: &str) -> String {
        format!("{}?by={by}&month={}", self.frame.path, segment(month))
    }

    /// The name of a row, and the page of what it is about; empty if there is none.
    fn subject(&self, row: &Sum) -> (String, String) {
        if let Some(id) = row.agent_id.as_deref() {
            let path = |_| self.place.at(&format!("/agents/{}", segment(id)));
            let name = row.agent_name.as_ref();
            return (
                name.map_or("an agent that has left".into(), String::clone),
                name.map_or(String::new(), path),
            );
        }
        if let Some(id) = row.task_id.as_deref() {
            let number = self.tasks.get(id);
            let title = row.task_title.as_deref().unwrap_or("a task");
            return (
                number.map_or(title.into(), |number| format!("{title} #{number}")),
                number.map_or(String::new(), |number| self.place.task(number)),
            );
        }
        if self.by.0 == "task" {
            return ("no task".into(), String::new());
        }
        (self.model(row), String::new())
    }

    /// The model of a row.
    fn model(&self, row: &Sum) -> String {
        row.model.as_deref().unwrap_or("no model named").into()
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let (api, path) = (&visit.api, place.api("/usage"));
    let months: List<Sum> = api.get(&path, &[("by", "month"), ("limit", MONTHS)]).await?;
    let months = months.items;
    let newest = months.first().map(|month| month.month.clone());
    let name = visit.query.some("month").map(String::from).or(newest).unwrap_or_default();
    let month = months.iter().find(|month| month.month == name).cloned();
    let by = BY.into_iter().find(|(by, _)| *by == visit.query.get("by")).unwrap_or(BY[0]);
    let [mut days, mut rows, mut unpriced] = [(); 3].map(|()| List::<Sum>::none());
    if !name.is_empty() {
        let of = [("month", name.as_str())];
        days = api.get(&path, &[&of[..], &[("by", "day"), ("limit", DAYS)]].concat()).await?;
        let mut query = [&of[..], &[("by", by.0), ("limit", ROWS)]].concat();
        query.extend(visit.cursor());
        rows = api.get(&path, &query).await?;
        if month.as_ref().is_some_and(|month| month.unpriced_tokens > 0) {
            let models = [("by", "model"), ("unpriced", "true"), ("limit", UNPRICED)];
            unpriced = api.get(&path, &[&of[..], &models].concat()).await?;
        }
    }
    let tasks = rows.items.iter().filter_map(|row| row.task_id.as_deref());
    let page = UsagePage {
        frame: place.crumbs(visit, visit.frame("Usage")).live(),
        tasks: place.numbers_of(api, tasks).await?,
        days: Days::of(&name, days.items),
        prices: visit.in_org("/settings/model-prices"),
        months,
        month,
        choices: BY,
        by,
        rows,
        unpriced,
        place,
    };
    render(page.frame.status, &page)
}
