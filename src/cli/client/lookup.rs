//! From names that people write to ids: teams by slug, agents by stable key, tasks by number.

use clap::Args;
use serde_json::Value;

use super::api::{Api, segment};
use crate::cli::failure::Failure;

/// Which team a command is about.
#[derive(Args, Clone)]
pub struct TeamFlag {
    /// Team, by slug or id
    #[arg(long, value_name = "TEAM", env = "ROADSTEAD_TEAM")]
    pub team: String,
}

/// Which agent acts.
#[derive(Args, Clone)]
pub struct AgentFlag {
    /// Agent of the team that acts, by stable key or id; without it, you do
    #[arg(long, value_name = "AGENT", env = "ROADSTEAD_AGENT")]
    pub agent: Option<String>,
}

/// A team, and its agents as they are asked for.
pub struct Team<'a> {
    api: &'a Api,
    pub id: String,
}

impl<'a> Team<'a> {
    /// Finds a team by its slug or id.
    pub fn find(api: &'a Api, flag: &TeamFlag) -> Result<Self, Failure> {
        let id = if is_id(&flag.team) {
            flag.team.clone()
        } else {
            let teams = api.list_in_org("/teams", &[])?;
            find(&teams, "slug", &flag.team, "team")?
        };
        Ok(Team { api, id })
    }

    /// A path below the team's.
    pub fn path(&self, below: &str) -> String {
        format!("/teams/{}{below}", segment(&self.id))
    }

    /// Returns the id of an agent of the team, by its stable key or id.
    pub fn agent(&self, name: &str) -> Result<String, Failure> {
        if is_id(name) {
            return Ok(name.to_string());
        }
        let agents = self.api.list_in_org(&self.path("/agents"), &[])?;
        find(&agents, "stableKey", name, "agent in this team")
    }

    /// Returns the id of the agent that acts, if it is one.
    pub fn acting(&self, flag: &AgentFlag) -> Result<Option<String>, Failure> {
        flag.agent.as_deref().map(|name| self.agent(name)).transpose()
    }

    /// Returns the id of a task, by its number in the team or its id.
    pub fn task(&self, name: &str) -> Result<String, Failure> {
        let Ok(number) = name.trim_start_matches('#').parse::<u64>() else {
            return Ok(name.to_string());
        };
        // What is no number of a task is none of the API, either.
        let is_possible = (1..=u64::from(u32::MAX)).contains(&number);
        let text = number.to_string();
        let query = [("number", Some(text.as_str()))];
        let found = match is_possible {
            true => self.api.list_in_org(&self.path("/tasks"), &query)?,
            false => Vec::new(),
        };
        let id = found.first().and_then(|task| task["id"].as_str());
        id.map(str::to_string)
            .ok_or_else(|| Failure::Failed(format!("there is no task {number} in this team")))
    }
}

/// Whether a text has the form of an id; slugs and stable keys never have.
fn is_id(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

fn find(items: &[Value], field: &str, name: &str, kind: &str) -> Result<String, Failure> {
    let item = items.iter().find(|item| item[field] == name);
    if let Some(id) = item.and_then(|item| item["id"].as_str()) {
        return Ok(id.to_string());
    }
    let known: Vec<&str> = items.iter().filter_map(|item| item[field].as_str()).take(10).collect();
    let known = if known.is_empty() { "none".into() } else { known.join(", ") };
    Err(Failure::Failed(format!("there is no {kind} called {name:?}; there is: {known}")))
}
