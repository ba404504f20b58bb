//! `roadstead schedule`

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api::segment;
use super::listed::Listed;
use super::lookup::{Team, TeamFlags};
use super::table::{cell, cells, time};
use super::text_file::text_if;
use crate::cli::failure::Failure;
use crate::cli::output;

/// List, create, pause and delete the schedules of a team
#[derive(Args)]
#[command(
    after_help = "A schedule is named by its id. ROADSTEAD_TEAM takes the place of --team.\n\n\
                        A key needs the scopes team:read and, to change anything, team:write."
)]
pub struct Schedule {
    #[command(subcommand)]
    command: ScheduleCommand,
}

#[derive(Subcommand)]
enum ScheduleCommand {
    List(List),
    /// Print a schedule with what it caused
    Get(One),
    Create(Create),
    Pause(Pause),
    /// Resume a schedule
    Resume(One),
    /// Delete a schedule with its history
    Delete(One),
}

impl Schedule {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            ScheduleCommand::List(command) => command.run(),
            ScheduleCommand::Get(command) => command.get(),
            ScheduleCommand::Create(command) => command.run(),
            ScheduleCommand::Pause(command) => command.run(),
            ScheduleCommand::Resume(command) => command.post("resume", json!({})),
            ScheduleCommand::Delete(command) => command.delete(),
        }
    }
}

/// List schedules, newest first
#[derive(Args)]
struct List {
    #[command(flatten)]
    flags: TeamFlags,
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let listed = Listed::whole(team.list_all("/schedules", &[])?);
        let names = ["ID", "WHEN", "NEXT", "NAME"];
        listed.show(self.flags.client.json, names, "no schedules", |one| {
            [cell(&one["id"]), when(one), next(one), cell(&one["name"])]
        })
    }
}

fn when(schedule: &Value) -> String {
    if schedule["cron"].is_null() {
        return format!("every {} s", cell(&schedule["everySecs"]));
    }
    format!("{} {}", cell(&schedule["cron"]), cell(&schedule["timeZone"]))
}

fn next(schedule: &Value) -> String {
    match schedule["nextTimes"].get(0) {
        _ if schedule["paused"]["scope"] == "team_budget" => "budget used up".into(),
        _ if !schedule["paused"].is_null() => "paused".into(),
        _ if !schedule["stopped"].is_null() => "stopped".into(),
        Some(at) => time(at),
        None => "never".into(),
    }
}

/// One schedule.
#[derive(Args)]
struct One {
    /// Its id
    schedule: String,

    #[command(flatten)]
    flags: TeamFlags,
}

impl One {
    fn path(&self, team: &Team) -> String {
        team.path(&format!("/schedules/{}", segment(&self.schedule)))
    }

    fn get(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let path = self.path(&team);
        let mut schedule = team.api.get_in_org(&path, &[])?;
        let runs = team.api.list_in_org(&format!("{path}/runs"), &[])?;
        let mut text = schedule_text(&schedule);
        for run in &runs {
            let [outcome, error] = cells(run, ["outcome", "error"]);
            text.push_str(&format!("\n{} {outcome} {error}", time(&run["dueAt"])));
        }
        schedule["runs"] = runs.into();
        output::print(self.flags.client.json, &schedule, text)
    }

    fn post(self, verb: &str, body: Value) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let path = format!("{}/{verb}", self.path(&team));
        let schedule = team.api.post_in_org(&path, body)?;
        output::print(self.flags.client.json, &schedule, schedule_text(&schedule))
    }

    fn delete(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let deleted = team.api.delete_in_org(&self.path(&team), &[])?;
        let text = if deleted { "deleted" } else { "there is no such schedule" };
        output::print(self.flags.client.json, &json!({"deleted": deleted}), text)
    }
}

fn schedule_text(schedule: &Value) -> String {
    let [id, name] = cells(schedule, ["id", "name"]);
    let times = schedule["nextTimes"].as_array().cloned().unwrap_or_default();
    let times: Vec<_> = times.iter().map(time).collect();
    let next = if times.is_empty() { next(schedule) } else { times.join(", ") };
    let why = schedule["stopped"].as_str().map_or(String::new(), |why| format!(" ({why})"));
    format!("{id} {name}\nwhen: {}\nnext: {next}{why}", when(schedule))
}

/// Create a schedule
#[derive(Args)]
#[command(after_help = "Examples: roadstead schedule create \"Weekly report\" --team shipping \
                        --cron \"0 9 * * mon\" --zone Europe/Berlin \
                        --task \"Write the weekly report\"\n          \
                        roadstead schedule create Look --team shipping --every 600 \
                        --wake scribe --text \"Look at the queue.\"")]
struct Create {
    /// What people call it
    name: String,

    /// Minute, hour, day of the month, month and day of the week
    #[arg(long, value_name = "FIELDS", required_unless_present = "every")]
    cron: Option<String>,

    /// Seconds between two times
    #[arg(long, value_name = "SECS", conflicts_with = "cron")]
    every: Option<u32>,

    /// Time zone, such as Europe/Berlin; UTC if absent
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Title of the task to create
    #[arg(long, value_name = "TITLE", required_unless_present = "wake")]
    task: Option<String>,

    /// What to do at length, or - to read it from stdin
    #[arg(long, value_name = "TEXT", requires = "task")]
    description: Option<String>,

    /// Agent of the team to assign the task to, by stable key or id
    #[arg(long, value_name = "AGENT", requires = "task")]
    assign: Option<String>,

    /// Agent of the team to wake, by stable key or id
    #[arg(long, value_name = "AGENT", conflicts_with = "task", requires = "text")]
    wake: Option<String>,

    /// What the agent is told, or - to read it from stdin
    #[arg(long, value_name = "TEXT", requires = "wake")]
    text: Option<String>,

    /// skip or once: what happens with missed times
    #[arg(long, value_name = "WHAT")]
    on_missed: Option<String>,

    /// skip or queue: what happens while the last task is open
    #[arg(long, value_name = "WHAT")]
    overlap: Option<String>,

    #[command(flatten)]
    flags: TeamFlags,
}

impl Create {
    fn run(self) -> Result<(), Failure> {
        let description = text_if(self.description.as_deref())?;
        let text = text_if(self.text.as_deref())?;
        let team = self.flags.connect()?;
        let mut body = json!({
            "name": self.name, "cron": self.cron, "everySecs": self.every, "timeZone": self.zone,
            "onMissed": self.on_missed, "overlap": self.overlap,
        });
        if let Some(agent) = team.agent_if(self.wake.as_deref())? {
            body["wake"] = json!({"agentId": agent, "text": text});
        } else {
            body["task"] = json!({"title": self.task, "description": description,
                "assigneeAgentId": team.agent_if(self.assign.as_deref())?});
        }
        let schedule = team.api.post_in_org(&team.path("/schedules"), body)?;
        output::print(self.flags.client.json, &schedule, schedule_text(&schedule))
    }
}

/// Pause a schedule
#[derive(Args)]
struct Pause {
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    one: One,
}

impl Pause {
    fn run(self) -> Result<(), Failure> {
        self.one.post("pause", json!({"reason": self.reason}))
    }
}
