//! `roadstead agent`

use std::rc::Rc;

use clap::Args;
use serde_json::{Value, json};

use super::api::{Api, segment};
use super::flags::ClientFlags;
use super::listed::Limit;
use super::lookup::{Team, TeamFlag};
use super::table::{cell, cells, time};
use super::tags::{TagFilter, tags};
use crate::cli::commands::commands;
use crate::cli::failure::Failure;
use crate::cli::output;

commands! {
    /// List, pause and resume agents
    #[command(
        after_help = "A paused agent is handed no wakes and claims no tasks; what comes for it \
                      meanwhile waits. ROADSTEAD_TEAM does not take the place of --team here.\n\n\
                      A key needs the scope agent:write for an agent everywhere, team:write in a \
                      team. --all is for admins."
    )]
    pub Agent of AgentCommand { List(List), Pause(Pause), Resume(Resume) }
}

/// List agents, newest first
#[derive(Args)]
#[command(after_help = "A key needs the scope agent:read.\n\n\
                        Example: roadstead agent list --tag billing")]
struct List {
    #[command(flatten)]
    tag: TagFilter,

    #[command(flatten)]
    shown: Limit,

    #[command(flatten)]
    client: ClientFlags,
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let listed = api.first_in_org("/agents", &self.tag.with([]), self.shown.limit)?;
        let head = ["AGENT", "NAME", "STATUS", "VERSION", "TAGS"];
        listed.show(self.client.json, head, "no agents", |item| {
            let [key, name, status] = cells(item, ["stableKey", "name", "status"]);
            [key, name, status, cell(&item["latestVersion"]), tags(item)]
        })
    }
}

/// What is paused or resumed.
#[derive(Args)]
struct Which {
    /// Agent, by stable key; with --team also by its id there
    #[arg(conflicts_with = "all", required_unless_present_any = ["all", "team"])]
    agent: Option<String>,

    /// Only in this team, by slug or id; without an agent, all of its agents
    #[arg(long, value_name = "TEAM", conflicts_with = "all")]
    team: Option<String>,

    /// All agents in all teams of the organization
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    client: ClientFlags,
}

impl Which {
    fn path(&self, api: &Rc<Api>) -> Result<String, Failure> {
        let Some(team) = &self.team else {
            let agent = self.agent.as_deref().map(segment);
            return Ok(agent.map_or("/teams".into(), |agent| format!("/agents/{agent}")));
        };
        let team = Team::find(api, &TeamFlag { team: team.clone() })?;
        let below = match &self.agent {
            Some(agent) => format!("/agents/{}", segment(&team.agent(agent)?)),
            None => String::new(),
        };
        Ok(team.path(&below))
    }

    fn send(self, verb: &str, body: Value) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let answer = api.post_in_org(&format!("{}/{verb}", self.path(&api)?), body)?;
        output::print(self.client.json, &answer, state(&answer["paused"]))
    }
}

fn state(paused: &Value) -> String {
    if paused.is_null() {
        return "not paused".into();
    }
    let end = match &paused["endsAt"] {
        Value::Null => "it is raised".into(),
        end => format!("{}, or it is raised", time(end)),
    };
    let scope = match paused["scope"].as_str() {
        Some("team_budget") => {
            return format!("the team's budget is used up: nothing is begun until {end}");
        }
        Some("agent_budget") => {
            return format!(
                "the agent's budget in this team is used up: it begins nothing until {end}"
            );
        }
        Some("organization") => "all agents are paused",
        Some("team") => "the team is paused",
        Some("schedule") => "the schedule is paused",
        Some("team_agent") => "the agent is paused in this team",
        _ => "the agent is paused",
    };
    let why = paused["reason"]
        .as_str()
        .map_or(String::new(), |_| format!(": {}", cell(&paused["reason"])));
    format!("{scope} since {}{why}", time(&paused["since"]))
}

/// Pause an agent everywhere or in a team, a team, or all agents
#[derive(Args)]
#[command(after_help = "Examples: roadstead agent pause scribe --reason \"It loops\"\n          \
                        roadstead agent pause scribe --team shipping\n          \
                        roadstead agent pause --all")]
struct Pause {
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    which: Which,
}

impl Pause {
    fn run(self) -> Result<(), Failure> {
        self.which.send("pause", json!({"reason": self.reason}))
    }
}

/// Resume what was paused; what waited is handed out
#[derive(Args)]
#[command(after_help = "Example: roadstead agent resume scribe")]
struct Resume {
    #[command(flatten)]
    which: Which,
}

impl Resume {
    fn run(self) -> Result<(), Failure> {
        self.which.send("resume", json!({}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_budget_holds_back_was_paused_by_nobody() {
        let state = |scope: &str, by: Value, end: Value| {
            state(&json!({"scope": scope, "by": by, "since": "2026-11-21T18:23:03.120Z",
                "endsAt": end, "reason": null}))
        };
        let end = json!("2026-12-01T00:00:00.000Z");
        assert_eq!(
            state("team_budget", Value::Null, end.clone()),
            "the team's budget is used up: nothing is begun until 2026-12-01 00:00:00, or it is raised"
        );
        assert!(
            state("agent_budget", Value::Null, end).contains("it begins nothing until 2026-12-01")
        );
        assert_eq!(
            state("agent_budget", Value::Null, Value::Null),
            "the agent's budget in this team is used up: it begins nothing until it is raised"
        );
        assert_eq!(
            state("team", json!("somebody"), Value::Null),
            "the team is paused since 2026-11-21 18:23:03"
        );
    }
}
