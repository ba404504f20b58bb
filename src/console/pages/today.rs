//! `/o/{org}`: what waits for the visitor, by who is blocked.

use askama::Template;
use serde::Deserialize;

use super::agents::Agent;
use super::deployments::{self, Job};
use super::first_steps::{self, FirstSteps, Step};
use super::label_change::{self, LabelChange};
use super::today_group::{Group, ROWS, Row};
use super::today_operations;
use super::today_teams::{Teams, Waiting};
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::Place;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::roster::member;
use crate::console::strict::List;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}").get(|visit| Box::pin(show(visit)))];

/// Failures are shown for a week.
const RECENT_SECS: i64 = 7 * 24 * 3600;

#[derive(Template)]
#[template(path = "today.html")]
struct Today {
    frame: Frame,
    base: String,
    groups: Vec<Group>,
    is_begun: bool,
    /// What is to be done in a new organization; empty in others.
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flag {
    registry_ref: String,
    artifact_type: String,
    name: String,
    version: String,
    message: String,
    created_at: Time,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let waiting = approvals(visit).await?;
    let failed = jobs(visit, "Deployments that failed", "error", ("state", "error")).await?;
    let mut teams = Teams::new();
    let groups = [
        waiting,
        label_changes(visit).await?,
        Waiting::Assigned.group(visit, &mut teams).await?,
        Waiting::Approvals.group(visit, &mut teams).await?,
        Waiting::Mail.group(visit, &mut teams).await?,
        Waiting::Peers.group(visit, &mut teams).await?,
        Waiting::Overdue.group(visit, &mut teams).await?,
        Waiting::Failed.group(visit, &mut teams).await?,
        Waiting::Budgets.group(visit, &mut teams).await?,
        recent(visit, failed),
        agents(visit, "error", "Agents that report an error").await?,
        agents(visit, "stale", "Agents that are silent").await?,
        agents(visit, "drifted", "Agents that run something else").await?,
        flags(visit).await?,
        today_operations::deliveries(visit, since(visit)).await?,
        today_operations::keys(visit).await?,
        today_operations::backup(visit).await?,
    ];
    let FirstSteps { is_begun, steps } = first_steps::read(visit).await?;
    let page = Today {
        frame: visit.frame("Today").live(),
        base: visit.in_org(""),
        groups: groups.into_iter().filter(|group| !group.rows.is_empty()).collect(),
        steps,
        is_begun,
    };
    render(page.frame.status, &page)
}

/// Jobs of deployments that a parameter selects, as `only` does on their page.
async fn jobs(
    visit: &Visit,
    title: &'static str,
    only: &str,
    parameter: (&str, &str),
) -> Result<Group> {
    let query = [parameter, ("limit", ROWS)];
    let found: List<Job> = visit.api.get("/agents/deployments", &query).await?;
    let row = |job: Job| Row {
        path: deployments::path(visit, &job.id),
        detail: job.to(),
        title: job.title(),
        at: job.created_at,
    };
    let is_cut = found.next_cursor.is_some();
    let rows = found.items.into_iter().map(row).collect();
    let (_, icon, _) = deployments::state("pending_approval");
    let all = visit.in_org(&format!("/deployments?only={only}"));
    Ok(Group { title, icon, kind: "warning", rows, is_cut, all })
}

/// The jobs that wait for the visitor's approval.
async fn approvals(visit: &Visit) -> Result<Group> {
    let group = jobs(visit, "Waits for your approval", "mine", ("approver", "me")).await?;
    unless_unable(visit, group, "You are asked to approve, and cannot yet").await
}

/// What waits for the visitor's approval: with this title as long as they are a viewer or nobody vouches for
/// their address, since they can only look at it.
async fn unless_unable(visit: &Visit, group: Group, title: &'static str) -> Result<Group> {
    let user = &visit.signed_in().user.id;
    if group.rows.is_empty() || member(&visit.api, user).await?.can_approve() {
        return Ok(group);
    }
    Ok(Group { title, kind: "off", ..group })
}

/// Changes of protected labels that wait for the visitor's approval.
async fn label_changes(visit: &Visit) -> Result<Group> {
    let query = [("approver", "me"), ("limit", ROWS)];
    let found: List<LabelChange> =
        visit.api.get("/registries/artifacts/label-changes", &query).await?;
    let row = |change: LabelChange| Row {
        path: label_change::path(visit, &change.id),
        title: change.title(),
        detail: change.detail(),
        at: change.created_at,
    };
    let (kind, icon, _) = label_change::state("pending");
    let group = Group {
        title: "Labels that wait for your approval",
        icon,
        kind,
        all: visit.in_org("/label-changes?only=mine"),
        is_cut: found.next_cursor.is_some(),
        rows: found.items.into_iter().map(row).collect(),
    };
    unless_unable(visit, group, "You are asked to approve labels, and cannot yet").await
}

/// When the last days begin.
fn since(visit: &Visit) -> Time {
    visit.api.calls.executor.store.clock().now().minus_secs(RECENT_SECS)
}

/// What happened in the last days: nobody mends what is older.
fn recent(visit: &Visit, group: Group) -> Group {
    let since = since(visit);
    let (kind, icon, _) = deployments::state("error");
    let rows = group.rows.into_iter().filter(|row| row.at > since).collect();
    Group { rows, kind, icon, ..group }
}

/// Agents with this status.
async fn agents(visit: &Visit, status: &str, title: &'static str) -> Result<Group> {
    let query = [("status", status), ("limit", ROWS)];
    let found: List<Agent> = visit.api.get("/agents", &query).await?;
    let row = |agent: Agent| Row {
        path: visit.in_org(&format!("/agents/{}", segment(&agent.stable_key))),
        title: agent.name,
        detail: agent.draft.prompt(),
        at: agent.updated_at,
    };
    let (kind, icon, _) = super::agents::status(status);
    Ok(Group {
        title,
        icon,
        kind,
        all: visit.in_org(&format!("/agents?only={status}")),
        is_cut: found.next_cursor.is_some(),
        rows: found.items.into_iter().map(row).collect(),
    })
}

/// What was published although a policy warns of it.
async fn flags(visit: &Visit) -> Result<Group> {
    let found: List<Flag> = visit.api.get("/governance/flags", &[("limit", ROWS)]).await?;
    let row = |flag: Flag| {
        let kind = if flag.artifact_type == "promptlet" { "promptlet" } else { "prompt" };
        let registry = flag.registry_ref.rsplit('/').next().unwrap_or_default();
        Row {
            title: format!("{} {}", flag.name, flag.version),
            path: Place::new(visit, registry, kind, &flag.name).version(&flag.version),
            detail: sentence(&flag.message),
            at: flag.created_at,
        }
    };
    Ok(Group {
        title: "Flagged by a policy",
        icon: "triangle",
        kind: "warning",
        all: visit.in_org("/governance/flags"),
        is_cut: found.next_cursor.is_some(),
        rows: found.items.into_iter().map(row).collect(),
    })
}
