//! `roadstead wakes`: an agent's loop whose work is any command (reference: teams-and-wakes, "An
//! agent's loop").
//!
//! One wake at a time is leased and handed to the command. It is acknowledged when the command ends
//! with 0; otherwise it comes back when its lease ends. A server that is away is waited for.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::api::{Api, segment};
use super::backoff::Backoff;
use super::flags::ClientFlags;
use super::listed::Listed;
use super::lookup::{Team, TeamFlag};
use super::refusal::Refusal;
use super::stop::Stop;
use super::table::{cell, cells, time};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// The longest wait of a request: the server ends it before, and a proxy later.
const WAIT_SECS: &str = "60";

/// How long an acknowledgement is tried after the process was asked to stop: a service manager
/// commonly gives it 90 seconds for everything.
const LAST_ACK: Duration = Duration::from_secs(10);

/// What is said where no wake is shown: whether one is leased is not known here.
const NONE_WAIT: &str = "no wakes wait; one that was handed out, and not acknowledged, waits again when its \
                         lease of 60 seconds ends";

/// Run a command for each wake of an agent, or show the wakes that wait
#[derive(Args)]
#[command(after_help = "The command runs in a shell, with the wake as JSON on its stdin and \
                        ROADSTEAD_URL, ROADSTEAD_ORG, ROADSTEAD_TEAM and ROADSTEAD_AGENT set, one \
                        at a time. If it ends with 0 the wake is acknowledged; otherwise it comes \
                        back after its lease of 60 seconds, later on after growing pauses. The server may be restarted meanwhile. \
                        SIGTERM and Ctrl-C wait for the command that runs; a second one ends it.\n\n\
                        A wake comes at least once: a command that runs for more than 60 seconds \
                        keeps its wake, unless another process fetches wakes of the same agent.\n\n\
                        A key needs the scopes team:read and team:work.\n\n\
                        Example: roadstead wakes --team shipping --agent scribe --exec ./loop.sh")]
pub struct Wakes {
    /// Agent of the team, by stable key or id
    #[arg(long, value_name = "AGENT", env = "ROADSTEAD_AGENT")]
    agent: String,

    /// Command to run for each wake; without it, the wakes are shown and stay
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,

    /// Show the wakes that failed: handed out again and again, and never acknowledged
    #[arg(long, conflicts_with = "exec")]
    failed: bool,

    /// Hand them out again
    #[arg(long, requires = "failed")]
    retry: bool,

    /// End when no wake is left
    #[arg(long, requires = "exec")]
    once: bool,

    #[command(flatten)]
    team: TeamFlag,

    #[command(flatten)]
    client: ClientFlags,
}

impl Wakes {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let Some(command) = &self.exec else {
            return match (self.failed, self.retry) {
                (true, true) => self.retry(&api),
                (true, false) => self.show_failed(&api),
                (false, _) => self.show(&api),
            };
        };
        let stop = api.block_on(async { Stop::new() });
        let mut stop = stop.map_err(Failure::io("signals"))?;
        // The rest of the preparation is done with a server that is there.
        if !api.block_on(answering(&api, &mut stop))? {
            return Ok(());
        }
        let path = self.path(&api)?;
        let variables = [
            ("ROADSTEAD_URL", api.base().to_string()),
            ("ROADSTEAD_ORG", api.org()?.to_string()),
            ("ROADSTEAD_TEAM", self.team.team.clone()),
            ("ROADSTEAD_AGENT", self.agent.clone()),
        ];
        let wait = if self.once { "0" } else { WAIT_SECS };
        let mut worker = Worker {
            api: &api,
            org: api.org()?,
            path,
            command,
            variables,
            json: self.client.json,
            wait,
            done: 0,
            failed: 0,
        };
        api.block_on(worker.run(&mut stop))?;
        let Worker { done, failed, .. } = worker;
        let text = format!("{done} wakes done, {failed} failed");
        output::print(self.client.json, &json!({"done": done, "failed": failed}), &text)?;
        if self.once && failed > 0 {
            return Err(Failure::Failed("a command failed; its wake comes back".into()));
        }
        Ok(())
    }

    fn path(&self, api: &Rc<Api>) -> Result<String, Failure> {
        let team = Team::find(api, &self.team)?;
        Ok(team.path(&format!("/agents/{}/wakes", segment(&team.agent(&self.agent)?))))
    }

    /// Shows the wakes that wait, without leasing them.
    fn show(&self, api: &Rc<Api>) -> Result<(), Failure> {
        let wakes = api.list_in_org(&self.path(api)?, &[("peek", Some("true"))])?;
        let listed = Listed::whole(wakes);
        let head = ["SINCE (UTC)", "REASON", "ATTEMPTS", "TASK"];
        listed.show(self.client.json, head, NONE_WAIT, |wake| {
            let [reason, attempts, task] = cells(wake, ["reason", "attempts", "taskId"]);
            [time(&wake["createdAt"]), reason, attempts, task]
        })
    }

    fn show_failed(&self, api: &Rc<Api>) -> Result<(), Failure> {
        let path = format!("{}/failed", self.path(api)?);
        let listed = Listed::whole(api.list_in_org(&path, &[])?);
        let head = ["FAILED (UTC)", "REASON", "ATTEMPTS", "TASK", "ID"];
        listed.show(self.client.json, head, "no failed wakes", |failed| {
            let fields = ["reason", "attempts", "taskId", "id"];
            let [reason, attempts, task, id] = cells(&failed["wake"], fields);
            [time(&failed["failedAt"]), reason, attempts, task, id]
        })
    }

    /// Hands all failed wakes out again, as many at once as a request may.
    fn retry(&self, api: &Rc<Api>) -> Result<(), Failure> {
        let path = format!("{}/retry", self.path(api)?);
        let mut retried = 0;
        loop {
            let answer = api.post_in_org(&path, json!({}))?;
            let of = |field: &str| answer[field].as_u64().unwrap_or_default();
            retried += of("retried");
            if of("left") == 0 || of("retried") == 0 {
                break;
            }
        }
        let text = format!("{retried} wakes are handed out again");
        output::print(self.client.json, &json!({"retried": retried}), &text)
    }
}

/// Waits until the server answers; whether it did before the process was asked to stop.
async fn answering(api: &Api, stop: &mut Stop) -> Result<bool, Failure> {
    let mut backoff = Backoff::default();
    loop {
        let refusal = match api.once(Method::GET, "/whoami", &[], None).await {
            Ok(_) => return Ok(true),
            Err(refusal) => refusal,
        };
        if !backoff.pause(refusal, stop).await? {
            return Ok(false);
        }
    }
}

/// The loop.
struct Worker<'a> {
    api: &'a Api,
    org: &'a str,
    /// The path of the agent's wakes.
    path: String,
    command: &'a str,
    variables: [(&'static str, String); 4],
    json: bool,
    wait: &'static str,
    done: u64,
    failed: u64,
}

impl Worker<'_> {
    /// Works until the process is asked to stop, or with `--once` until no wake is left.
    async fn run(&mut self, stop: &mut Stop) -> Result<(), Failure> {
        let mut backoff = Backoff::default();
        loop {
            let fetched = tokio::select! {
                () = stop.asked() => return Ok(()),
                fetched = self.fetch() => fetched,
            };
            match fetched {
                Ok(None) if self.wait == "0" => return Ok(()),
                Ok(None) => backoff = Backoff::default(),
                Ok(Some(wake)) => {
                    backoff = Backoff::default();
                    self.work(&wake, stop).await?;
                    if stop.is_asked() {
                        return Ok(());
                    }
                }
                Err(refusal) => {
                    if !backoff.pause(refusal, stop).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn fetch(&self) -> Result<Option<Value>, Refusal> {
        let query = [("orgSlug", Some(self.org)), ("wait", Some(self.wait)), ("limit", Some("1"))];
        let mut page = self.api.once(Method::GET, &self.path, &query, None).await?;
        Ok(page["items"].as_array_mut().and_then(Vec::pop))
    }

    /// Runs the command for a wake, and acknowledges it if that succeeded.
    async fn work(&mut self, wake: &Value, stop: &mut Stop) -> Result<(), Failure> {
        let name = format!("{} {}", cell(&wake["reason"]), cell(&wake["id"]));
        let ended = self.execute(wake, stop).await?;
        if !ended.success() {
            self.failed += 1;
            output::status(&format!("{name}: {ended}; it comes back"));
            return Ok(());
        }
        self.done += 1;
        output::status(&format!("{name}: done"));
        self.acknowledge(wake, stop).await
    }

    async fn execute(&self, wake: &Value, stop: &mut Stop) -> Result<ExitStatus, Failure> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(self.command).stdin(Stdio::piped());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Ctrl-C in a terminal goes to a whole group: the command is to end its work.
        command.process_group(0);
        if self.json {
            // What this process prints on stdout is one object.
            let stderr = io::stderr().as_fd().try_clone_to_owned();
            command.stdout(Stdio::from(stderr.map_err(Failure::io("stderr"))?));
        }
        let mut child: Child = command.spawn().map_err(Failure::io("/bin/sh"))?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let mut waiting = tokio::task::spawn_blocking({
            let wake = format!("{wake}\n");
            move || {
                if let Some(mut stdin) = child.stdin.take() {
                    // A command that does not read it may have ended.
                    let _ = stdin.write_all(wake.as_bytes());
                }
                child.wait()
            }
        });
        loop {
            tokio::select! {
                ended = &mut waiting => {
                    let ended = ended.map_err(|error| Failure::Failed(error.to_string()))?;
                    return ended.map_err(Failure::io("/bin/sh"));
                }
                () = stop.asked_again() => {
                    if let Some(group) = group {
                        let _ = kill_process_group(group, Signal::TERM);
                    }
                }
            }
        }
    }

    /// Acknowledges a wake, which is done: otherwise it would be done again.
    async fn acknowledge(&self, wake: &Value, stop: &mut Stop) -> Result<(), Failure> {
        let mut backoff = Backoff::default();
        let path = format!("{}/ack", self.path);
        let body = json!({"orgSlug": self.org, "wakeIds": [wake["id"]]});
        let mut until = None;
        loop {
            let refusal = match self.api.once(Method::POST, &path, &[], Some(&body)).await {
                Ok(_) => return Ok(()),
                Err(refusal) => refusal,
            };
            if stop.is_asked() {
                let end = *until.get_or_insert_with(|| tokio::time::Instant::now() + LAST_ACK);
                if tokio::time::Instant::now() >= end || !refusal.is_temporary() {
                    return Err(refusal.into());
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            } else {
                backoff.pause(refusal, stop).await?;
            }
        }
    }
}
