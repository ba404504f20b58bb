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
pub struct Pause {
    pub scope: String,
    pub by: String,
    pub since: Time,
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
            _ => "The agent is paused in this team",
        }
    }

    /// What a list says of it.
    pub fn word(&self) -> &'static str {
        match self.scope.as_str() {
            "organization" => "Paused with all teams",
            "team" => "Paused with its team",
            "agent" => "Paused in all teams",
            _ => "Paused",
        }
    }

    /// What the list of teams says of it.
    pub fn of_team(&self) -> &'static str {
        if self.is_of("team") { "Paused" } else { self.word() }
    }

    /// Whether it is the one of this scope, which is ended where that is shown.
    pub fn is_of(&self, scope: &str) -> bool {
        self.scope == scope
    }
}

/// The people who may have paused something; none are read if it is not paused.
///
/// # Errors
/// Those of the route.
pub async fn people(api: &Api, paused: &Nullable<Pause>) -> Result<People> {
    if paused.is_some() { People::read(api).await } else { Ok(People::default()) }
}

/// Pauses or resumes what has this path in the API, as the form says that was sent.
///
/// # Errors
/// Those of the route.
pub async fn act(visit: &Visit, path: &str) -> Result<()> {
    let is_begun = visit.form.get("action") == "pause";
    let (verb, body) = if is_begun {
        ("pause", json!({"reason": visit.form.some("reason")}))
    } else {
        ("resume", json!({}))
    };
    visit.api.post::<Value>(&format!("{path}/{verb}"), body).await.map(drop)
}
