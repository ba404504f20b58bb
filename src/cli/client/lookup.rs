//! From names that people write to ids: teams by slug, agents by stable key, tasks by number.

use std::rc::Rc;

use clap::Args;
use serde_json::Value;

use super::api::{Api, Query, segment};
use super::flags::ClientFlags;
use super::listed::Listed;
use super::table::cell;
use crate::base::{Email, is_uuid};
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

/// Flags of every command about a team.
#[derive(Args)]
pub struct TeamFlags {
    #[command(flatten)]
    pub team: TeamFlag,

    #[command(flatten)]
    pub client: ClientFlags,
}

impl TeamFlags {
    /// Connects to the server, and finds the team.
    pub fn connect(&self) -> Result<Team, Failure> {
        Team::find(&self.client.connect()?, &self.team)
    }
}

/// Flags of every command about the work of a team, which an agent may do.
#[derive(Args)]
pub struct ActingFlags {
    #[command(flatten)]
    pub team: TeamFlag,

    #[command(flatten)]
    pub agent: AgentFlag,

    #[command(flatten)]
    pub client: ClientFlags,
}

impl ActingFlags {
    /// Connects to the server, and finds the team.
    pub fn connect(&self) -> Result<Team, Failure> {
        Team::find(&self.client.connect()?, &self.team)
    }

    /// Returns the id of the agent that acts, if it is one.
    pub fn acting(&self, team: &Team) -> Result<Option<String>, Failure> {
        team.agent_if(self.agent.agent.as_deref())
    }

    /// Returns the id of the agent that acts in `command`, which people cannot.
    pub fn required(&self, team: &Team, command: &str) -> Result<String, Failure> {
        let needed = || Failure::Usage(format!("{command} takes --agent"));
        self.acting(team)?.ok_or_else(needed)
    }
}

/// A team on a server, and its agents and tasks as they are asked for.
pub struct Team {
    pub api: Rc<Api>,
    pub id: String,
}

impl Team {
    /// Finds a team by its slug or id.
    pub fn find(api: &Rc<Api>, flag: &TeamFlag) -> Result<Self, Failure> {
        let id = if is_uuid(&flag.team) {
            flag.team.clone()
        } else {
            let teams = api.list_in_org("/teams", &[])?;
            find(&teams, "slug", &flag.team, "team")?
        };
        Ok(Team { api: api.clone(), id })
    }

    /// A path below the team's.
    pub fn path(&self, below: &str) -> String {
        format!("/teams/{}{below}", segment(&self.id))
    }

    /// Returns the id of an agent of the team, by its stable key or id.
    pub fn agent(&self, name: &str) -> Result<String, Failure> {
        if is_uuid(name) {
            return Ok(name.to_string());
        }
        let agents = self.list_all("/agents", &[])?;
        find(&agents, "stableKey", name, "agent in this team")
    }

    /// Returns the id of an agent, if one is named.
    pub fn agent_if(&self, name: Option<&str>) -> Result<Option<String>, Failure> {
        name.map(|name| self.agent(name)).transpose()
    }

    /// Returns the id of a task, if one is named.
    pub fn task_if(&self, name: Option<&str>) -> Result<Option<String>, Failure> {
        name.map(|name| self.task(name)).transpose()
    }

    /// The path of a task, by its number in the team or its id.
    pub fn task_path(&self, name: &str) -> Result<String, Failure> {
        Ok(self.path(&format!("/tasks/{}", segment(&self.task(name)?))))
    }

    /// The first items of a list of the team.
    pub fn list(&self, below: &str, query: Query, limit: usize) -> Result<Listed, Failure> {
        self.api.first_in_org(&self.path(below), query, limit)
    }

    /// All items of a list of the team.
    pub fn list_all(&self, below: &str, query: Query) -> Result<Vec<Value>, Failure> {
        self.api.list_in_org(&self.path(below), query)
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
            true => self.list_all("/tasks", &query)?,
            false => Vec::new(),
        };
        let id = found.first().and_then(|task| task["id"].as_str());
        id.map(str::to_string)
            .ok_or_else(|| Failure::Failed(format!("there is no task {number} in this team")))
    }
}

/// Returns the id of a person, if one is named: by address or id, or as `me`.
pub fn person_if(team: &Team, name: Option<&str>) -> Result<Option<String>, Failure> {
    name.map(|name| person(&team.api, name)).transpose()
}

fn person(api: &Api, name: &str) -> Result<String, Failure> {
    if is_uuid(name) {
        return Ok(name.to_string());
    }
    if name == "me" {
        return Ok(cell(&api.whoami()?["userId"]));
    }
    let nobody = || {
        let what = format!("there is no member with the address {name}; name the whole address");
        Failure::Failed(what)
    };
    Email::parse(name).map_err(|_| nobody())?;
    let query = [("kind", Some("person")), ("email", Some(name))];
    let found = api.list_in_org("/organizations/members", &query)?;
    let id = found.first().and_then(|one| one["userId"].as_str());
    id.map(str::to_string).ok_or_else(nobody)
}

/// Returns the id of something of the organization, by its name or id.
///
/// # Errors
/// There is none of this name, or the list cannot be read.
pub fn id_of(api: &Api, list: &str, name: &str, kind: &str) -> Result<String, Failure> {
    if is_uuid(name) {
        return Ok(name.to_string());
    }
    find(&api.list_in_org(list, &[])?, "name", name, kind)
}

/// Returns the id of the LLM provider of this name or id, if one is named.
///
/// # Errors
/// As [`id_of`].
pub fn llm_provider(api: &Api, name: Option<&str>) -> Result<Option<String>, Failure> {
    name.map(|name| id_of(api, "/llm-providers", name, "LLM provider")).transpose()
}

fn find(items: &[Value], field: &str, name: &str, kind: &str) -> Result<String, Failure> {
    let mut named = items.iter().filter(|item| item[field] == name);
    let id = named.next().and_then(|item| item["id"].as_str());
    match id {
        Some(_) if named.next().is_some() => Err(Failure::Failed(format!(
            "there is more than one {kind} called {name:?}; write its id instead"
        ))),
        Some(id) => Ok(id.to_string()),
        None => Err(none_called(items, field, name, kind)),
    }
}

/// The failure of a command that names what there is not: it says what there is.
pub fn none_called(items: &[Value], field: &str, name: &str, kind: &str) -> Failure {
    let known: Vec<&str> = items.iter().filter_map(|item| item[field].as_str()).take(10).collect();
    let known = if known.is_empty() { "none".into() } else { known.join(", ") };
    Failure::Failed(format!("there is no {kind} called {name:?}; there is: {known}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_several_have_leads_to_none_of_them() {
        let items = [
            json!({"id": "1", "name": "Ours"}),
            json!({"id": "2", "name": "Theirs"}),
            json!({"id": "3", "name": "Theirs"}),
        ];
        let found = |name: &str| match find(&items, "name", name, "LLM provider") {
            Err(Failure::Failed(why)) => why,
            found => found.unwrap_or_default(),
        };
        assert_eq!(found("Ours"), "1");
        assert!(found("Theirs").contains("write its id"), "{}", found("Theirs"));
        assert!(found("None").contains("there is: Ours, Theirs"), "{}", found("None"));
    }
}
