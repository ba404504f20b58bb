//! `roadstead message`

use clap::Args;
use serde_json::json;

use super::api::segment;
use super::listed::{Limit, Listed};
use super::lookup::ActingFlags;
use super::table::{cell, time};
use super::task::put_given;
use super::text_file::text_or_stdin;
use crate::cli::commands::commands;
use crate::cli::failure::Failure;
use crate::cli::output;

commands! {
    /// Send and read the mail of a team
    #[command(
        after_help = "ROADSTEAD_TEAM and ROADSTEAD_AGENT take the place of --team and --agent.\n\n\
                      A key needs the scopes team:read and, to send or acknowledge, team:work."
    )]
    pub Message of MessageCommand { List(List), Inbox(Inbox), Send(Send), Ack(Ack) }
}

fn show(messages: &Listed, json: bool, nothing: &str) -> Result<(), Failure> {
    messages.show(json, ["SENT (UTC)", "FROM", "ID", "READ", "TEXT"], nothing, |message| {
        let read = if message["readAt"].is_null() { "no" } else { "yes" };
        let text = match message["subject"].as_str() {
            Some(subject) => format!("{subject}: {}", cell(&message["body"])),
            None => cell(&message["body"]),
        };
        let (from, id) = (cell(&message["from"]["name"]), cell(&message["id"]));
        [time(&message["createdAt"]), from, id, read.into(), text]
    })
}

/// List the messages of a team, newest first
#[derive(Args)]
struct List {
    /// Only those about this task, by number or id
    #[arg(long, value_name = "TASK")]
    task: Option<String>,

    #[command(flatten)]
    shown: Limit,

    #[command(flatten)]
    flags: ActingFlags,
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let task = team.task_if(self.task.as_deref())?;
        let agent = self.flags.acting(&team)?;
        let query = [("taskId", task.as_deref()), ("agentId", agent.as_deref())];
        let messages = team.list("/messages", &query, self.shown.limit)?;
        show(&messages, self.flags.client.json, "no messages")
    }
}

/// List the unread mail of --agent; without it, that to the people
#[derive(Args)]
#[command(after_help = "Example: roadstead message inbox --team shipping --agent scribe")]
struct Inbox {
    #[command(flatten)]
    flags: ActingFlags,
}

impl Inbox {
    fn run(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let agent = self.flags.acting(&team)?;
        let query = [
            ("unread", Some("true")),
            ("agentId", agent.as_deref()),
            ("audience", agent.is_none().then_some("human")),
        ];
        let messages = Listed::whole(team.list_all("/messages", &query)?);
        show(&messages, self.flags.client.json, "no unread mail")
    }
}

/// Send mail to an agent, or from --agent to the people
#[derive(Args)]
#[command(after_help = "Examples:\n  \
                        roadstead message send \"On one page, please\" --to scribe --team shipping\n  \
                        roadstead message send - --to-people --agent scribe --team shipping < report")]
struct Send {
    /// The text, or - to read it from stdin
    text: String,

    /// Agent of the team, by stable key or id
    #[arg(long, value_name = "AGENT", required_unless_present = "to_people")]
    to: Option<String>,

    /// To the people of the team
    #[arg(long, conflicts_with = "to")]
    to_people: bool,

    /// What it is about, in a line
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,

    /// Task that it is about, by number or id
    #[arg(long, value_name = "TASK")]
    task: Option<String>,

    /// Process of --agent that sends it, whose leases it renews
    #[arg(long, value_name = "NAME", requires = "agent")]
    worker: Option<String>,

    #[command(flatten)]
    flags: ActingFlags,
}

impl Send {
    fn run(self) -> Result<(), Failure> {
        let text = text_or_stdin(&self.text)?;
        let team = self.flags.connect()?;
        let from = self.flags.acting(&team)?;
        let task = team.task_if(self.task.as_deref())?;
        let mut body = json!({
            "body": text,
            "subject": self.subject,
            "taskId": task,
            "fromAgentId": from,
        });
        put_given(&mut body, "worker", self.worker);
        let path = if self.to_people {
            if body["fromAgentId"].is_null() {
                return Err(Failure::Usage("--to-people takes --agent: who writes?".into()));
            }
            team.path("/inbox")
        } else {
            let to = team.agent_if(self.to.as_deref())?;
            body["toAgentId"] = json!(to);
            team.path("/messages")
        };
        let message = team.api.post_in_org(&path, body)?;
        let shown = format!("sent: {}", cell(&message["id"]));
        output::print(self.flags.client.json, &message, &shown)
    }
}

/// Mark a message as read: by --agent, or without it one to the people
#[derive(Args)]
struct Ack {
    /// Id of the message
    message: String,

    #[command(flatten)]
    flags: ActingFlags,
}

impl Ack {
    fn run(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let path = team.path(&format!("/messages/{}", segment(&self.message)));
        let message = match self.flags.acting(&team)? {
            Some(agent) => {
                team.api.post_in_org(&format!("{path}/consume"), json!({"agentId": agent}))?
            }
            None => team.api.patch_in_org(&path, json!({}))?,
        };
        let shown = if message["readAt"].is_null() {
            "not read: mail to an agent is acknowledged with --agent"
        } else {
            "read"
        };
        output::print(self.flags.client.json, &message, shown)
    }
}
