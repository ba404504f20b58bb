//! `/o/{org}/teams/{slug}/activity`: what happens in a team, as it happens; and what of it other pages show.

use askama::Template;
use serde::Deserialize;

use super::board;
use crate::base::{Error, Result, Time};
use crate::console::api::Api;
use crate::console::field::Field;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/teams/{slug}/activity").get(|visit| Box::pin(show(visit)))];

/// The kinds of entries, with what the filter calls them.
const KINDS: &[(&str, &str)] = &[
    ("task_created", "Tasks created"),
    ("task_changed", "Tasks changed"),
    ("message_sent", "Messages"),
    ("run_reported", "Runs"),
    ("approval_requested", "Questions"),
    ("approval_decided", "Decisions"),
    ("timeline_entry", "Timeline"),
    ("memory_stored", "Memories"),
    ("schedule_ran", "Schedules that ran"),
    ("schedule_created", "Schedules created"),
    ("schedule_changed", "Schedules changed"),
    ("schedule_deleted", "Schedules deleted"),
    ("agent_hired", "Agents that joined"),
    ("agent_left", "Agents that left"),
    ("skills_granted", "Skills"),
    ("paused", "Pauses"),
    ("resumed", "Ends of pauses"),
    ("budget_changed", "Budgets changed"),
    ("budget_exhausted", "Budgets used up"),
    ("budget_renewed", "Budgets of a new month"),
    ("wake_failed", "Failed wakes"),
    ("external_request", "Outside agents"),
];

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityPage {
    frame: Frame,
    place: TeamPlace,
    activity: Activity,
    crew: Crew,
    kinds: Vec<(&'static str, &'static str)>,
    agent: Field,
    is_filtered: bool,
}

/// An entry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub kind: String,
    pub agent_id: Nullable<String>,
    pub user_id: Nullable<String>,
    pub name: Nullable<String>,
    pub task: Nullable<TaskName>,
    pub text: Nullable<String>,
    pub status: Nullable<String>,
    pub old_status: Nullable<String>,
    pub assignee_agent_id: Nullable<String>,
    pub created_at: Time,
}

/// The task of an entry.
#[derive(Deserialize)]
pub struct TaskName {
    pub number: u32,
    pub title: String,
}

/// Entries, newest first, with what their lines say of people and agents.
pub struct Activity {
    pub entries: List<Entry>,
    pub people: People,
}

impl Activity {
    /// Reads those that a query selects.
    pub async fn read(api: &Api, place: &TeamPlace, query: &[(&str, &str)]) -> Result<Self> {
        let entries = api.get(&place.api("/activity"), query).await?;
        Ok(Activity { entries, people: People::read(api).await? })
    }

    /// Who did it, or to whom it happened; empty if the sentence says it.
    pub fn who<'a>(&'a self, entry: &'a Entry) -> &'a str {
        let user = entry.user_id.as_deref();
        match (entry.kind.as_str(), user, entry.name.as_deref()) {
            ("external_request", ..) => "",
            ("budget_exhausted" | "budget_renewed", ..) if entry.agent_id.is_none() => "",
            ("approval_decided" | "paused" | "resumed" | "budget_changed", Some(user), _)
            | (_, Some(user), None) => self.people.name(user),
            (_, _, Some(name)) => name,
            _ if entry.agent_id.is_some() => "An agent that has left",
            _ => "Roadstead",
        }
    }
}

impl Entry {
    /// What happened, as what follows who did it.
    pub fn what(&self, crew: &Crew) -> String {
        match self.kind.as_str() {
            "task_created" => "created the task".into(),
            "task_changed" => self.change(crew),
            "message_sent" => "wrote".into(),
            "run_reported" => format!("reported a run: {}", self.outcome()),
            "approval_requested" => "asks for a decision".into(),
            "approval_decided" => format!("decided: {}", self.outcome()),
            "timeline_entry" => "added to the timeline".into(),
            "memory_stored" => "stored a memory".into(),
            "schedule_ran" => format!("ran a schedule: {}", self.outcome()),
            "agent_hired" => "joined the team".into(),
            "agent_left" => "left the team".into(),
            "skills_granted" => "was given skills".into(),
            "wake_failed" => "could not be woken".into(),
            "budget_exhausted" if self.agent_id.is_some() => "has used up its budget".into(),
            "budget_exhausted" => "The team's budget is used up".into(),
            "external_request" => "An outside agent asks for access".into(),
            "paused" => format!("paused {}", self.subject()),
            "resumed" => format!("resumed {}", self.subject()),
            "budget_changed" if self.text.is_none() => format!("removed {}", self.budget()),
            "budget_changed" => format!("changed {}", self.budget()),
            "budget_renewed" if self.agent_id.is_some() => "has a new month's budget".into(),
            "budget_renewed" => "The team has a new month's budget".into(),
            "schedule_created" => "created a schedule".into(),
            "schedule_changed" => "changed a schedule".into(),
            "schedule_deleted" => "deleted a schedule".into(),
            other => other.replace('_', " "),
        }
    }

    fn change(&self, crew: &Crew) -> String {
        let word = |status: &Nullable<String>| board::status(status.as_deref().unwrap_or("")).2;
        let assignee = self.assignee_agent_id.as_deref();
        match (assignee, &self.old_status.0) {
            (Some(_), _) if self.assignee_agent_id.0 == self.agent_id.0 => "took the task".into(),
            (Some(agent), _) => format!("gave the task to {}", crew.name(agent)),
            (None, Some(_)) => {
                format!("moved from {} to {}", word(&self.old_status), word(&self.status))
            }
            (None, None) => "changed the task".into(),
        }
    }

    /// What was paused or resumed.
    fn subject(&self) -> String {
        match self.status.as_deref() {
            Some("organization") => "all agents of all teams".into(),
            Some("team") => "the team".into(),
            Some("schedule") => "a schedule".into(),
            Some("agent") => format!("{} in all teams", self.agent()),
            _ => self.agent().into(),
        }
    }

    /// Whose budget it is.
    fn budget(&self) -> String {
        match self.agent_id.as_deref() {
            Some(_) => format!("the budget of {}", self.agent()),
            None => "the budget of the team".into(),
        }
    }

    fn agent(&self) -> &str {
        self.name.as_deref().unwrap_or("an agent that has left")
    }

    fn outcome(&self) -> String {
        self.status.as_deref().unwrap_or("unknown").replace('_', " ")
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let crew = Crew::read(&visit.api, &place).await?;
    // What the form does not offer is not asked for, and not shown as chosen.
    let kind = visit.query.some("kind").filter(|kind| KINDS.iter().any(|(known, _)| known == kind));
    let typed = visit.query.some("agentId").map(|word| crew.meant(word));
    let agent = typed.filter(|id| crew.find(id).is_some());
    let field = crew.field("agentId", Some("Any")).holding(typed.unwrap_or_default());
    let is_unknown = field.chooser().is_some() && typed.is_some() && agent.is_none();
    let error = is_unknown.then(|| Error::invalid_at("agentId", "must be an agent of this team"));
    let filters = [("kind", kind), ("agentId", agent)];
    let mut query: Vec<_> =
        filters.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let is_filtered = !query.is_empty();
    query.extend(visit.cursor());
    let frame = place.crumbs(visit, visit.frame("Activity")).live().failed(error.as_ref());
    let page = ActivityPage {
        frame: frame.picking(visit, &[&field]).await?,
        activity: Activity::read(&visit.api, &place, &query).await?,
        crew,
        place,
        kinds: [("", "Anything")].into_iter().chain(KINDS.iter().copied()).collect(),
        agent: field,
        is_filtered,
    };
    render(page.frame.status, &page)
}
