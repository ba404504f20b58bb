//! `roadstead task`

use clap::Args;
use serde_json::{Value, json};

use super::api::segment;
use super::listed::Limit;
use super::lookup::{ActingFlags, Team, person_if};
use super::table::{cell, cells, indented, time};
use super::text_file::{text_if, text_or_stdin};
use crate::cli::commands::commands;
use crate::cli::failure::Failure;
use crate::cli::output;

commands! {
    /// List, create, claim and update the tasks of a team
    #[command(
        after_help = "A task is named by its number in the team or by its id. ROADSTEAD_TEAM and \
                      ROADSTEAD_AGENT take the place of --team and --agent.\n\n\
                      A key needs the scopes team:read and, to change anything, team:work."
    )]
    pub Task of TaskCommand {
        List(List),
        Get(Get),
        Create(Create),
        Claim(Claim),
        Heartbeat(Heartbeat),
        Update(Update),
        Note(Note),
    }
}

/// List tasks, newest first
#[derive(Args)]
#[command(after_help = "Example: roadstead task list --team shipping --status open")]
struct List {
    /// Only those with this status: open, in_progress, blocked, done or cancelled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,

    /// Only those of --agent
    #[arg(long, conflicts_with = "unassigned")]
    mine: bool,

    /// Only those that nobody has
    #[arg(long)]
    unassigned: bool,

    /// Only those with this label
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,

    /// Only those of this person, by e-mail address or id; me for oneself
    #[arg(long, value_name = "PERSON")]
    person: Option<String>,

    /// Only the parts of this task, by number or id
    #[arg(long, value_name = "TASK")]
    parent: Option<String>,

    #[command(flatten)]
    shown: Limit,

    #[command(flatten)]
    flags: ActingFlags,
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let agent = if self.mine { self.flags.acting(&team)? } else { None };
        if self.mine && agent.is_none() {
            return Err(Failure::Usage("--mine takes --agent: whose tasks are meant?".into()));
        }
        let parent = team.task_if(self.parent.as_deref())?;
        let person = person_if(&team, self.person.as_deref())?;
        let query = [
            ("assigneeUserId", person.as_deref()),
            ("status", self.status.as_deref()),
            ("assigneeAgentId", agent.as_deref()),
            ("unassigned", self.unassigned.then_some("true")),
            ("label", self.label.as_deref()),
            ("parentTaskId", parent.as_deref()),
        ];
        let listed = team.list("/tasks", &query, self.shown.limit)?;
        let agents = team.list_all("/agents", &[])?;
        let people = people_of(&team, &listed.items);
        let head = ["#", "STATUS", "ASSIGNEE", "DUE", "PLAN", "TITLE"];
        listed.show(self.flags.client.json, head, "no tasks", |task| {
            let [number, status, title] = cells(task, ["number", "status", "title"]);
            let due = if task["dueAt"].is_string() { time(&task["dueAt"]) } else { "-".into() };
            let whose = assignee_of(task, &agents, &people);
            [number, status, whose, due, plan_of(task), title]
        })
    }
}

/// What a list says of a task's plan: how many it depends on, how far its parts are, its labels.
fn plan_of(task: &Value) -> String {
    let items = |field: &str| task[field].as_array().cloned().unwrap_or_default();
    let mut plan = Vec::new();
    if let before @ 1.. = items("dependsOn").len() {
        plan.push(format!("after {before}"));
    }
    if task["children"]["total"].as_u64().is_some_and(|total| total > 0) {
        let [total, done] = cells(&task["children"], ["total", "done"]);
        plan.push(format!("{done}/{total} parts"));
    }
    plan.extend(items("labels").iter().map(cell));
    if plan.is_empty() { "-".into() } else { plan.join(", ") }
}

/// The stable key of an agent with this id.
fn agent_name(agents: &[Value], id: &Value) -> String {
    let agent = agents.iter().find(|agent| agent["id"] == *id);
    agent.map_or_else(|| cell(id), |agent| cell(&agent["stableKey"]))
}

/// Who has a task: an agent, a person or both.
fn assignee_of(task: &Value, agents: &[Value], people: &[Value]) -> String {
    let (agent, person) = (&task["assigneeAgentId"], &task["assigneeUserId"]);
    let name = || {
        let known = people.iter().find(|one| one["userId"] == *person);
        known.map_or_else(|| cell(person), |one| cell(&one["name"]))
    };
    match (agent.is_string(), person.is_string()) {
        (true, true) => format!("{}, {}", agent_name(agents, agent), name()),
        (false, true) => name(),
        _ => agent_name(agents, agent),
    }
}

/// The members, if one has any of these tasks. A key that may not read them sees ids.
fn people_of(team: &Team, tasks: &[Value]) -> Vec<Value> {
    if !tasks.iter().any(|task| task["assigneeUserId"].is_string()) {
        return Vec::new();
    }
    team.api.list_in_org("/organizations/members", &[]).unwrap_or_default()
}

/// Print a task with the notes on it
#[derive(Args)]
struct Get {
    /// Number or id
    task: String,

    #[command(flatten)]
    flags: ActingFlags,
}

impl Get {
    fn run(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let id = team.task(&self.task)?;
        let path = team.path(&format!("/tasks/{}", segment(&id)));
        let mut task = team.api.get_in_org(&path, &[])?;
        let notes = team.list_all("/messages", &[("taskId", Some(&id))])?;
        let mut text = task_text(&task, &related(&team, &task)?);
        for note in notes.iter().rev() {
            let (from, at) = (cell(&note["from"]["name"]), time(&note["createdAt"]));
            let body = indented(note["body"].as_str().unwrap_or_default());
            text.push_str(&format!("\n\n{from}, {at}:\n{body}"));
        }
        task["notes"] = notes.into();
        output::print(self.flags.client.json, &task, text)
    }
}

/// What a task is a part of and depends on, a line each.
fn related(team: &Team, task: &Value) -> Result<Vec<String>, Failure> {
    let line = |what: &str, id: &str| {
        let path = team.path(&format!("/tasks/{}", segment(id)));
        let other = match team.api.get(&path, &[("orgSlug", Some(team.api.org()?))]) {
            // It did not come with the others from where they were exported.
            Err(refusal) if refusal.with_code("not_found").is_some() => {
                return Ok(format!("{what}: {id}"));
            }
            found => found?,
        };
        let [number, title, status] = cells(&other, ["number", "title", "status"]);
        Ok(format!("{what}: #{number} {title} ({status})"))
    };
    let before = task["dependsOn"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let parent = task["parentTaskId"].as_str().map(|id| line("part of", id));
    parent.into_iter().chain(before.map(|id| line("depends on", id))).collect()
}

fn task_text(task: &Value, related: &[String]) -> String {
    let [number, title, status] = cells(task, ["number", "title", "status"]);
    let mut text = format!("#{number} {title}\nstatus: {status}");
    if !related.is_empty() {
        text.push_str(&format!("\n{}", related.join("\n")));
    }
    if task["dueAt"].is_string() {
        text.push_str(&format!("\ndue: {}", time(&task["dueAt"])));
    }
    if let Some(labels) = task["labels"].as_array().filter(|labels| !labels.is_empty()) {
        let labels: Vec<String> = labels.iter().map(cell).collect();
        text.push_str(&format!("\nlabels: {}", labels.join(", ")));
    }
    if task["children"]["total"].as_u64().is_some_and(|total| total > 0) {
        let [total, done] = cells(&task["children"], ["total", "done"]);
        text.push_str(&format!("\nparts: {done} of {total} done"));
    }
    if let Some(worker) = task["claim"]["worker"].as_str() {
        let claim = &task["claim"];
        text.push_str(&format!(
            "\nworker: {}, since {}",
            cell(&worker.into()),
            time(&claim["since"])
        ));
        if let Some(secs) = claim["leaseSecs"].as_u64() {
            text.push_str(&format!("; open again after {secs} s without a sign of life"));
        }
    }
    if let Some(description) = task["description"].as_str() {
        text.push_str(&format!("\n\n{}", indented(description)));
    }
    text
}

/// When and after what a task is done.
#[derive(Args)]
struct Plan {
    /// Task that has to be done before, by number or id; several times for several
    #[arg(long, value_name = "TASK")]
    after: Vec<String>,

    /// Task that it is a part of, by number or id
    #[arg(long, value_name = "TASK")]
    part_of: Option<String>,

    /// When it is to be closed, such as 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    due: Option<String>,

    /// Word to find it by; several times for several
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
}

impl Plan {
    /// Puts what was given into the body of a request.
    fn put(&self, team: &Team, body: &mut Value) -> Result<(), Failure> {
        if !self.after.is_empty() {
            let ids = self.after.iter().map(|task| team.task(task));
            body["dependsOn"] = ids.collect::<Result<Vec<String>, _>>()?.into();
        }
        if let Some(parent) = &self.part_of {
            body["parentTaskId"] = team.task(parent)?.into();
        }
        if let Some(due) = &self.due {
            body["dueAt"] = due.as_str().into();
        }
        if !self.label.is_empty() {
            body["labels"] = self.label.clone().into();
        }
        Ok(())
    }
}

/// Create a task
#[derive(Args)]
#[command(
    after_help = "Example: roadstead task create \"Write the release notes\" --team shipping \
                        --assign scribe"
)]
struct Create {
    /// What to do, in a line
    title: String,

    /// What to do at length, or - to read it from stdin
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Agent of the team to assign it to, by stable key or id
    #[arg(long, value_name = "AGENT")]
    assign: Option<String>,

    /// Person to assign it to, by e-mail address or id; me for oneself
    #[arg(long, value_name = "PERSON")]
    person: Option<String>,

    /// From 0 to 4; 2 if absent
    #[arg(long, value_name = "N")]
    priority: Option<u8>,

    #[command(flatten)]
    plan: Plan,

    #[command(flatten)]
    flags: ActingFlags,
}

impl Create {
    fn run(self) -> Result<(), Failure> {
        let description = text_if(self.description.as_deref())?;
        let team = self.flags.connect()?;
        let mut body = json!({
            "title": self.title,
            "description": description,
            "assigneeAgentId": team.agent_if(self.assign.as_deref())?,
            "priority": self.priority,
            "fromAgentId": self.flags.acting(&team)?,
        });
        put_given(&mut body, "assigneeUserId", person_if(&team, self.person.as_deref())?);
        self.plan.put(&team, &mut body)?;
        print_changed(&self.flags, &team.api.post_in_org(&team.path("/tasks"), body)?)
    }
}

/// Take a task for an agent
#[derive(Args)]
#[command(after_help = "Of many who claim a task at once, one gets it. With --worker also of \
                        several processes of one agent.\n\n\
                        Example: roadstead task claim 7 --team shipping --agent scribe \
                        --worker host-1:4242 --lease 300")]
struct Claim {
    /// Number or id
    task: String,

    /// Process of the agent that takes it
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,

    /// Seconds without a sign of life of the worker after which the task is open again
    #[arg(long, value_name = "SECONDS", requires = "worker")]
    lease: Option<u32>,

    #[command(flatten)]
    flags: ActingFlags,
}

impl Claim {
    fn run(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let agent = self.flags.required(&team, "claim")?;
        let path = format!("{}/claim", team.task_path(&self.task)?);
        let mut body = json!({"agentId": agent});
        put_given(&mut body, "worker", self.worker);
        put_given(&mut body, "leaseSecs", self.lease);
        print_changed(&self.flags, &team.api.post_in_org(&path, body)?)
    }
}

/// Renew the leases of a worker
#[derive(Args)]
#[command(after_help = "Prints the ids of the tasks that it still has.\n\n\
                        Example: roadstead task heartbeat --team shipping --agent scribe --worker \
                        host-1:4242")]
struct Heartbeat {
    /// Process of the agent that has the tasks
    #[arg(long, value_name = "NAME")]
    worker: String,

    #[command(flatten)]
    flags: ActingFlags,
}

impl Heartbeat {
    fn run(self) -> Result<(), Failure> {
        let team = self.flags.connect()?;
        let agent = self.flags.required(&team, "heartbeat")?;
        let path = team.path(&format!("/agents/{}/heartbeat", segment(&agent)));
        let answer = team.api.post_in_org(&path, json!({"worker": self.worker}))?;
        let leases = answer["leases"].as_array().into_iter().flatten();
        let text = leases.map(|lease| cell(&lease["taskId"])).collect::<Vec<_>>().join("\n");
        output::print(self.flags.client.json, &answer, text)
    }
}

/// Change a task
#[derive(Args)]
#[command(after_help = "Example: roadstead task update 7 --team shipping --status done")]
struct Update {
    /// Number or id
    task: String,

    /// open, in_progress, blocked, done or cancelled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,

    /// What to do, in a line
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// What to do at length, or - to read it from stdin
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Agent of the team to assign it to, by stable key or id
    #[arg(long, value_name = "AGENT", conflicts_with = "unassign")]
    assign: Option<String>,

    /// Let any agent claim it
    #[arg(long)]
    unassign: bool,

    /// Person to assign it to, by e-mail address or id; me for oneself
    #[arg(long, value_name = "PERSON", conflicts_with = "no_person")]
    person: Option<String>,

    /// Take it from the person who has it
    #[arg(long)]
    no_person: bool,

    /// From 0 to 4
    #[arg(long, value_name = "N")]
    priority: Option<u8>,

    #[command(flatten)]
    plan: Plan,

    /// Depend on no other task
    #[arg(long, conflicts_with = "after")]
    no_after: bool,

    /// Be a part of no other task
    #[arg(long, conflicts_with = "part_of")]
    no_part_of: bool,

    /// Be due at no time
    #[arg(long, conflicts_with = "due")]
    no_due: bool,

    /// Have no labels
    #[arg(long, conflicts_with = "label")]
    no_label: bool,

    /// Process of the agent that changes it; refused unless it has the task
    #[arg(long, value_name = "NAME", requires = "agent")]
    worker: Option<String>,

    #[command(flatten)]
    flags: ActingFlags,
}

impl Update {
    fn run(self) -> Result<(), Failure> {
        let description = text_if(self.description.as_deref())?;
        let team = self.flags.connect()?;
        let mut body = json!({});
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body[name] = value;
            }
        };
        put("status", self.status.map(Value::from));
        put("title", self.title.map(Value::from));
        put("description", description.map(Value::from));
        put("priority", self.priority.map(Value::from));
        put("worker", self.worker.map(Value::from));
        put("fromAgentId", self.flags.acting(&team)?.map(Value::from));
        let assign = team.agent_if(self.assign.as_deref())?;
        put("assigneeAgentId", assign.map(Value::from));
        put("assigneeAgentId", self.unassign.then_some(Value::Null));
        let person = person_if(&team, self.person.as_deref())?;
        put("assigneeUserId", person.map(Value::from));
        put("assigneeUserId", self.no_person.then_some(Value::Null));
        put("dependsOn", self.no_after.then(|| json!([])));
        put("parentTaskId", self.no_part_of.then_some(Value::Null));
        put("dueAt", self.no_due.then_some(Value::Null));
        put("labels", self.no_label.then(|| json!([])));
        self.plan.put(&team, &mut body)?;
        let path = team.task_path(&self.task)?;
        print_changed(&self.flags, &team.api.patch_in_org(&path, body)?)
    }
}

/// Write a note on a task, for whoever has it
#[derive(Args)]
#[command(after_help = "Example: roadstead task note 7 \"On one page, please\" --team shipping")]
struct Note {
    /// Number or id
    task: String,

    /// The note, or - to read it from stdin
    text: String,

    /// Process of the agent that writes it, whose leases it renews
    #[arg(long, value_name = "NAME", requires = "agent")]
    worker: Option<String>,

    #[command(flatten)]
    flags: ActingFlags,
}

impl Note {
    fn run(self) -> Result<(), Failure> {
        let text = text_or_stdin(&self.text)?;
        let team = self.flags.connect()?;
        let mut body = json!({
            "taskId": team.task(&self.task)?,
            "body": text,
            "fromAgentId": self.flags.acting(&team)?,
        });
        put_given(&mut body, "worker", self.worker);
        let message = team.api.post_in_org(&team.path("/messages"), body)?;
        output::print(self.flags.client.json, &message, "noted")
    }
}

/// Puts a field into a body, if it is given: servers before it refuse it, even as null.
pub(super) fn put_given(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

fn print_changed(flags: &ActingFlags, task: &Value) -> Result<(), Failure> {
    output::print(flags.client.json, task, task_text(task, &[]))
}
