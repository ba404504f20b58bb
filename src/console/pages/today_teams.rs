//! What waits in the teams, for the page of today and those that have all of it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::inbox::{Message, beginning};
use super::today_group::{Group, ROWS, Row};
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::budget::Budget;
use crate::console::strict::{List, Nullable};
use crate::console::texts::text;
use crate::console::visit::Visit;

/// The teams: slugs and names by id.
pub struct Teams(BTreeMap<String, (String, String)>);

#[derive(Deserialize)]
struct Team {
    id: String,
    slug: String,
    name: String,
}

/// What an agent asks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    team_id: String,
    title: String,
    created_at: Time,
}

/// A task whose time has passed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Overdue {
    team_id: String,
    number: u32,
    title: String,
    due_at: Time,
}

/// A task of the visitor.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assigned {
    team_id: String,
    number: u32,
    title: String,
    updated_at: Time,
}

/// A wake that its agent never acknowledged.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failed {
    team_id: String,
    agent_id: String,
    agent_name: String,
    failed_at: Time,
    wake: Reason,
}

#[derive(Deserialize)]
struct Reason {
    reason: String,
}

/// A budget of which little or nothing is left.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Low {
    team_id: String,
    agent_id: Nullable<String>,
    agent_name: Nullable<String>,
    budget: Budget,
    low_since: Time,
    exhausted_at: Nullable<Time>,
}

/// An outside agent that asks to write to a team.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Peer {
    id: String,
    team_id: String,
    handle: String,
    created_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mail {
    team_id: String,
    #[serde(flatten)]
    message: Message,
}

impl Teams {
    /// No team is known yet: those that are met are read.
    pub fn new() -> Self {
        Teams(BTreeMap::new())
    }

    /// The path of a team's page, and its name.
    async fn at(&mut self, visit: &Visit, id: &str, below: &str) -> Result<(String, String)> {
        if !self.0.contains_key(id) {
            let team: Team = visit.api.get(&format!("/teams/{}", segment(id)), &[]).await?;
            self.0.insert(team.id, (team.slug, team.name));
        }
        let (slug, name) = self.0.get(id).cloned().unwrap_or_default();
        Ok((visit.in_org(&format!("/teams/{}{below}", segment(&slug))), name))
    }
}

/// What waits in the teams.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Open tasks of the visitor.
    Assigned,
    /// Questions of agents.
    Approvals,
    /// Unread mail of agents.
    Mail,
    /// Outside agents that ask to write.
    Peers,
    /// Tasks whose time has passed.
    Overdue,
    /// Wakes that agents never acknowledged.
    Failed,
    /// Budgets of which little or nothing is left.
    Budgets,
}

impl Waiting {
    /// All of them.
    pub const ALL: [Waiting; 7] = [
        Waiting::Assigned,
        Waiting::Approvals,
        Waiting::Mail,
        Waiting::Peers,
        Waiting::Overdue,
        Waiting::Failed,
        Waiting::Budgets,
    ];

    /// The path of the page with all of its kind, below the organization's.
    pub fn path(self) -> &'static str {
        match self {
            Waiting::Assigned => "/waiting/tasks",
            Waiting::Approvals => "/waiting/approvals",
            Waiting::Mail => "/waiting/mail",
            Waiting::Peers => "/waiting/peers",
            Waiting::Overdue => "/waiting/overdue",
            Waiting::Failed => "/waiting/failed-wakes",
            Waiting::Budgets => "/waiting/budgets",
        }
    }

    /// Its title, and the class and the icon of its state.
    pub fn title(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Waiting::Assigned => ("Your tasks", "working", "half"),
            Waiting::Approvals => ("Agents ask for a decision", "warning", "clock"),
            Waiting::Mail => ("Unread mail", "unread", "inbox"),
            Waiting::Peers => ("Outside agents ask to write", "warning", "clock"),
            Waiting::Overdue => ("Tasks that are overdue", "warning", "clock"),
            Waiting::Failed => ("Wakes that nobody acknowledged", "bad", "octagon"),
            Waiting::Budgets => ("Budgets that are low or used up", "warning", "triangle"),
        }
    }

    /// A page of what waits, and the cursor of the next.
    pub async fn rows(
        self,
        visit: &Visit,
        teams: &mut Teams,
        query: &[(&str, &str)],
    ) -> Result<(Vec<Row>, Option<String>)> {
        match self {
            Waiting::Assigned => assigned(visit, teams, query).await,
            Waiting::Approvals => questions(visit, teams, query).await,
            Waiting::Mail => mail(visit, teams, query).await,
            Waiting::Peers => peers(visit, teams, query).await,
            Waiting::Overdue => overdue(visit, teams, query).await,
            Waiting::Failed => failed(visit, teams, query).await,
            Waiting::Budgets => budgets(visit, teams, query).await,
        }
    }

    /// The group of it on the page of today.
    pub async fn group(self, visit: &Visit, teams: &mut Teams) -> Result<Group> {
        let (rows, next) = self.rows(visit, teams, &[("limit", ROWS)]).await?;
        let (title, kind, icon) = self.title();
        let all = visit.in_org(self.path());
        Ok(Group { title, icon, kind, rows, is_cut: next.is_some(), all })
    }
}

type Rows = (Vec<Row>, Option<String>);

async fn assigned(visit: &Visit, teams: &mut Teams, query: &[(&str, &str)]) -> Result<Rows> {
    let found: List<Assigned> = visit.api.get("/teams/assigned", query).await?;
    let mut rows = Vec::new();
    for task in found.items {
        let (path, detail) =
            teams.at(visit, &task.team_id, &format!("/tasks/{}", task.number)).await?;
        rows.push(Row { title: task.title, path, detail, at: task.updated_at });
    }
    Ok((rows, found.next_cursor.0))
}

async fn questions(visit: &Visit, teams: &mut Teams, query: &[(&str, &str)]) -> Result<Rows> {
    let found: List<Question> = visit.api.get("/teams/approvals", query).await?;
    let mut rows = Vec::new();
    for one in found.items {
        let (path, detail) = teams.at(visit, &one.team_id, "/approvals").await?;
        rows.push(Row { title: one.title, path, detail, at: one.created_at });
    }
    Ok((rows, found.next_cursor.0))
}

async fn mail(visit: &Visit, teams: &mut Teams, query: &[(&str, &str)]) -> Result<Rows> {
    let found: List<Mail> = visit.api.get("/teams/inbox", query).await?;
    let mut rows = Vec::new();
    for Mail { team_id, message } in found.items {
        let below = format!("/inbox/{}", segment(&message.id));
        let (path, team) = teams.at(visit, &team_id, &below).await?;
        let detail = format!("{} in {team}", message.from.name);
        rows.push(Row { title: message.title(), path, detail, at: message.created_at });
    }
    Ok((rows, found.next_cursor.0))
}

async fn peers(visit: &Visit, teams: &mut Teams, query: &[(&str, &str)]) -> Result<Rows> {
    let found: List<Peer> = visit.api.get("/teams/exchange/peers", query).await?;
    let mut rows = Vec::new();
    for peer in found.items {
        let below = format!("/peers/{}", segment(&peer.id));
        let (path, detail) = teams.at(visit, &peer.team_id, &below).await?;
        let title = beginning(&peer.handle);
        rows.push(Row { title, path, detail, at: peer.created_at });
    }
    Ok((rows, found.next_cursor.0))
}

async fn overdue(visit: &Visit, teams: &mut Teams, query: &[(&str, &str)]) -> Result<Rows> {
    let found: List<Overdue> = visit.api.get("/teams/overdue", query).await?;
    let mut rows = Vec::new();
    for task in found.items {
        let (path, detail) =
            teams.at(visit, &task.team_id, &format!("/tasks/{}", task.number)).await?;
        rows.push(Row { title: task.title, path, detail, at: task.due_at });
    }
    Ok((rows, found.next_cursor.0))
}

async fn failed(visit: &Visit, teams: &mut Teams, query: &[(&str, &str)]) -> Result<Rows> {
    let found: List<Failed> = visit.api.get("/teams/failed-wakes", query).await?;
    let mut rows = Vec::new();
    for one in found.items {
        let below = format!("/agents/{}", segment(&one.agent_id));
        let (path, team) = teams.at(visit, &one.team_id, &below).await?;
        let detail = format!("{} in {team}", one.agent_name);
        let title = text(&format!("wake.{}", one.wake.reason)).to_string();
        rows.push(Row { title, path, detail, at: one.failed_at });
    }
    Ok((rows, found.next_cursor.0))
}

async fn budgets(visit: &Visit, teams: &mut Teams, query: &[(&str, &str)]) -> Result<Rows> {
    let found: List<Low> = visit.api.get("/teams/low-budgets", query).await?;
    let mut rows = Vec::new();
    for low in found.items {
        let agent = low.agent_id.as_deref().map(segment);
        let below = agent.map_or("/usage".into(), |agent| format!("/agents/{agent}"));
        let (path, team) = teams.at(visit, &low.team_id, &below).await?;
        let whose = low.agent_name.as_deref().unwrap_or("The whole team");
        let what = match low.exhausted_at.0 {
            None => "low",
            Some(_) if low.budget.pauses() => "used up, nothing is begun",
            Some(_) => "used up",
        };
        rows.push(Row {
            title: format!("{whose}: {} of {}", low.budget.spent(), low.budget.monthly()),
            path,
            detail: format!("{what}, in {team}"),
            at: low.exhausted_at.0.unwrap_or(low.low_since),
        });
    }
    Ok((rows, found.next_cursor.0))
}
