//! What pages show of a pause, and the forms that begin and end one.

use serde::Deserialize;
use serde_json::{Value, json};

use super::api::Api;
use super::place::People;
use super::strict::Nullable;
use super::visit::Visit;
use crate::base::{Result, Time};

/// A pause that is in effect.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    pub scope: String,
    /// Who paused it; nobody did if a budget holds it back.
    pub by: Nullable<String>,
    pub since: Time,
    /// When it ends by itself.
    pub ends_at: Nullable<Time>,
    pub reason: Nullable<String>,
}

impl Pause {
    /// What is paused, as a sentence without its end.
    pub fn sentence(&self) -> &'static str {
        match self.scope.as_str() {
            "organization" => "All agents in all teams are paused",
            "team" => "The team is paused",
            "schedule" => "The schedule is paused",
            "agent" => "The agent is paused in all of its teams",
            "team_budget" => "The team's budget is used up, so that nothing is begun",
            "agent_budget" => {
                "The agent's budget in this team is used up, so that it begins nothing"
            }
            _ => "The agent is paused in this team",
        }
    }

    /// What a list says of it.
    pub fn word(&self) -> &'static str {
        match self.scope.as_str() {
            "organization" => "Paused with all teams",
            "team" => "Paused with its team",
            "agent" => "Paused in all teams",
            "team_budget" => "The team's budget is used up",
            "agent_budget" => "Its budget is used up",
            _ => "Paused",
        }
    }

    /// What the list of teams says of it.
    pub fn of_team(&self) -> &'static str {
        match self.scope.as_str() {
            "team" => "Paused",
            "team_budget" => "Nothing is begun",
            _ => self.word(),
        }
    }

    /// Whether it is the one of this scope, which is ended where that is shown.
    pub fn is_of(&self, scope: &str) -> bool {
        self.scope == scope
    }
}

/// What the form is headed by that pauses a scope.
pub fn heading(scope: &str) -> &'static str {
    match scope {
        "organization" => "Pause all agents in all teams",
        "team" => "Pause the team",
        "schedule" => "Pause the schedule",
        "agent" => "Pause the agent in all of its teams",
        _ => "Pause the agent in this team",
    }
}

/// The people who may have paused something; none are read if nobody has.
pub async fn people(api: &Api, paused: &Nullable<Pause>) -> Result<People> {
    let is_by_somebody = paused.0.as_ref().is_some_and(|pause| pause.by.is_some());
    if is_by_somebody { People::read(api).await } else { Ok(People::default()) }
}

/// Pauses or resumes what has this path in the API, as the form says that was sent.
pub async fn act(visit: &Visit, path: &str) -> Result<()> {
    let is_begun = visit.form.get("action") == "pause";
    let (verb, body) = if is_begun {
        ("pause", json!({"reason": visit.form.some("reason")}))
    } else {
        ("resume", json!({}))
    };
    visit.api.post::<Value>(&format!("{path}/{verb}"), body).await.map(drop)
}
