//! `/o/{org}/waiting/…`: all that waits for people in the teams: one's tasks, questions, mail, outside
//! agents, overdue tasks, failed wakes, low budgets.

use askama::Template;

use super::today_group::Row;
use super::today_teams::{Teams, Waiting};
use crate::base::Result;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/waiting/tasks").get(|visit| Box::pin(show(visit, Waiting::Assigned))),
    Page::of_org("/o/{org}/waiting/approvals")
        .get(|visit| Box::pin(show(visit, Waiting::Approvals))),
    Page::of_org("/o/{org}/waiting/mail").get(|visit| Box::pin(show(visit, Waiting::Mail))),
    Page::of_org("/o/{org}/waiting/peers").get(|visit| Box::pin(show(visit, Waiting::Peers))),
    Page::of_org("/o/{org}/waiting/overdue").get(|visit| Box::pin(show(visit, Waiting::Overdue))),
    Page::of_org("/o/{org}/waiting/failed-wakes")
        .get(|visit| Box::pin(show(visit, Waiting::Failed))),
    Page::of_org("/o/{org}/waiting/budgets").get(|visit| Box::pin(show(visit, Waiting::Budgets))),
];

#[derive(Template)]
#[template(path = "waiting.html")]
struct WaitingPage {
    frame: Frame,
    rows: Vec<Row>,
    cursor: Option<String>,
}

async fn show(visit: &Visit, waiting: Waiting) -> Result<Reply> {
    let (rows, cursor) = waiting.rows(visit, &mut Teams::new(), visit.cursor().as_slice()).await?;
    let tabs = Waiting::ALL.map(|one| (one.title().0, one.path()));
    let frame = visit.frame(waiting.title().0).crumb("Today", visit.in_org("")).tabs(&tabs).live();
    let page = WaitingPage { frame, rows, cursor };
    render(page.frame.status, &page)
}
