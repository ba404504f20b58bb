//! `roadstead deploy`

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::api::{Api, segment};
use super::artifact_name::registry_ref;
use super::assignments::Assignments;
use super::flags::ClientFlags;
use super::table::{cell, cells, one_line};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::values::duration_secs;
use crate::resources::deployments::JobState;

/// The pauses between two looks at a job grow to this: people approve it.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Deploy a prompt to agents in an environment
#[derive(Args)]
#[command(after_help = "With --preview nothing is deployed: it prints what would change, and the \
                        hash of the plan; with --plan-hash nothing but that plan is deployed. With \
                        --wait the command ends with the job, with code 0 if that is complete.\n\n\
                        A key needs the scope deployment:create, for --preview deployment:preview, \
                        for --wait deployment:read.\n\n\
                        Example: roadstead deploy scribe --prompt main/scribe@production \
                        --environment staging --provider anthropic --wait")]
pub struct Deploy {
    /// Agents, by stable key or id
    #[arg(required = true, value_name = "AGENT")]
    agents: Vec<String>,

    /// The prompt: NAME@VERSION, REGISTRY/NAME@VERSION or ORG/REGISTRY/NAME@VERSION; without a
    /// registry, in that of each agent's draft
    #[arg(long, value_name = "PROMPT", required_unless_present = "agent_version")]
    prompt: Option<String>,

    /// Deploy this version of the agents instead of their drafts
    #[arg(long, value_name = "NUMBER", conflicts_with = "prompt")]
    agent_version: Option<u32>,

    /// Environment, by slug or id
    #[arg(long, value_name = "ENVIRONMENT")]
    environment: String,

    /// Provider of the model; that of the agents' version, with --agent-version
    #[arg(long, value_name = "PROVIDER", required_unless_present = "agent_version")]
    provider: Option<String>,

    /// Model; by default that of each agent's draft
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    #[command(flatten)]
    values: Assignments,

    /// Print what would be deployed, and deploy nothing
    #[arg(long, conflicts_with_all = ["wait", "plan_hash"])]
    preview: bool,

    /// Deploy only this plan, of a preview
    #[arg(long, value_name = "HASH")]
    plan_hash: Option<String>,

    /// Wait until the job has ended
    #[arg(long)]
    wait: bool,

    /// How long to wait at most
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration_secs)]
    timeout: i64,

    #[command(flatten)]
    client: ClientFlags,
}

impl Deploy {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let variables = self.values.read()?;
        let api = self.client.connect()?;
        let mut body = json!({
            "agentIds": self.agents,
            "environment": self.environment,
            "provider": self.provider,
            "model": self.model,
            "agentVersion": self.agent_version,
            "agentVariables": variables,
            "planHash": self.plan_hash,
        });
        if let Some(prompt) = &self.prompt {
            let (path, version) = prompt.split_once('@').ok_or_else(|| {
                Failure::Usage("--prompt takes a version: scribe@production".into())
            })?;
            body["version"] = json!(version);
            body["promptName"] = json!(path.rsplit('/').next());
            if let Some((registry, _)) = path.rsplit_once('/') {
                body["registryRef"] = json!(registry_ref(registry, &api)?);
            }
        }
        if self.preview {
            let preview = api.post_in_org("/agents/deployments/preview", body)?;
            return output::print(self.client.json, &preview, preview_text(&preview));
        }
        let mut job = api.post_in_org("/agents/deployments", body)?;
        if self.wait {
            let secs = u64::try_from(self.timeout).unwrap_or_default();
            job = ended(&api, job, Duration::from_secs(secs))?;
        }
        print_job(&job, self.client.json)?;
        let state = cell(&job["state"]);
        if self.wait && state != "complete" {
            return Err(Failure::Failed(format!("the deployment is {state}")));
        }
        Ok(())
    }
}

/// Waits until a job has ended, or the time is over.
fn ended(api: &Api, job: Value, time: Duration) -> Result<Value, Failure> {
    let path = format!("/agents/deployments/{}", segment(&cell(&job["id"])));
    // One that only a newer server knows may change.
    let is_final = |state: &str| {
        serde_json::from_value::<JobState>(json!(state)).is_ok_and(JobState::is_final)
    };
    until_ended(api, ("job", &path), job, is_final, time)
}

/// Looks at something, called `noun` and at this path, until its state is a final one, or the time is over.
pub fn until_ended(
    api: &Api,
    (noun, path): (&str, &str),
    mut seen: Value,
    is_final: impl Fn(&str) -> bool,
    time: Duration,
) -> Result<Value, Failure> {
    let until = Instant::now() + time;
    let mut pause = Duration::from_millis(100);
    let mut shown = String::new();
    while !is_final(seen["state"].as_str().unwrap_or_default()) {
        let state = cell(&seen["state"]);
        if state != shown {
            output::status(&format!("{noun} {}: {state}", cell(&seen["id"])));
            shown = state;
        }
        if Instant::now() >= until {
            break;
        }
        api.block_on(async { tokio::time::sleep(pause).await });
        pause = (pause * 2).min(MAX_PAUSE);
        seen = api.get_in_org(path, &[])?;
    }
    Ok(seen)
}

/// Prints a job and its targets.
pub fn print_job(job: &Value, json: bool) -> Result<(), Failure> {
    output::print(json, job, job_text(job))
}

/// A job, its targets and, while it waits for approval, its plan.
pub fn job_text(job: &Value) -> String {
    let mut text = format!("job {}: {}", cell(&job["id"]), cell(&job["state"]));
    if let Some(count @ 1..) = job["plan"]["invisibleCharacters"].as_u64() {
        text.push_str(&format!("\n  invisible characters: {count}"));
    }
    for target in job["targets"].as_array().into_iter().flatten() {
        text.push_str(&format!("\n  {}: {}", subject(target), cell(&target["state"])));
        if let Some(error) = target["error"].as_str() {
            text.push_str(&format!(", {}", one_line(error)));
        }
    }
    if let Some(why) = job["obstacle"].as_str() {
        text.push_str(&format!("\n  not applied any more: {}", one_line(why)));
    }
    if job["state"] == "pending_approval" {
        let plan = plan_text(&job["plan"]);
        text.push_str(&format!("\nplan: {}\n{}", cell(&job["planHash"]), plan.trim_end()));
    }
    text.trim_end().into()
}

/// The stable key of the agent that a target is, or the id of the tool.
fn subject(target: &Value) -> String {
    let agent = &target["stableKey"];
    cell(if agent.is_null() { &target["toolId"] } else { agent })
}

/// What is live of each target, and how it changes.
pub fn changes_text(targets: &Value) -> String {
    let mut text = String::new();
    for target in targets.as_array().into_iter().flatten() {
        let live = match target["live"].as_object() {
            Some(live) => format!("live is version {}", cell(&live["version"])),
            None => "nothing is live".into(),
        };
        text.push_str(&format!(
            "{}: {live}\n{}",
            subject(target),
            target["diff"].as_str().unwrap_or_default()
        ));
        for change in target["changes"].as_array().into_iter().flatten() {
            let [path, from, to] = cells(change, ["path", "from", "to"]);
            text.push_str(&format!("  {path}: {from} -> {to}\n"));
        }
    }
    text
}

fn preview_text(preview: &Value) -> String {
    let mut text = changes_text(&preview["targets"]);
    if let Some(count @ 1..) = preview["plan"]["invisibleCharacters"].as_u64() {
        text.push_str(&format!("invisible characters: {count}\n"));
    }
    text.push_str(&plan_text(&preview["plan"]));
    if !preview["plan"]["approvals"].is_null() {
        let needed = cell(&preview["plan"]["approvals"]["minApprovals"]);
        text.push_str(&format!("approvals needed: {needed}\n"));
    }
    text.push_str(&format!("plan: {}", cell(&preview["planHash"])));
    text
}

/// What runs beside the texts: the definitions of the tools, and where manifests go.
fn plan_text(plan: &Value) -> String {
    let mut text = String::new();
    for tool in plan["tools"].as_array().into_iter().flatten() {
        let [name, version, kind] = cells(tool, ["name", "version", "type"]);
        text.push_str(&format!("tool {name} {version} ({kind})\n"));
        if let Some(prompt) = tool["prompt"].as_str() {
            text.push_str("  prompt:\n");
            prompt.lines().for_each(|line| text.push_str(&format!("    {}\n", one_line(line))));
        }
        text.push_str(&format!("  providerConfig: {}\n", cell(&tool["providerConfig"])));
        let names: Vec<_> =
            tool["placeholders"].as_array().into_iter().flatten().map(cell).collect();
        if !names.is_empty() {
            text.push_str(&format!("  filled in: {}\n", names.join(", ")));
        }
        for warning in tool["warnings"].as_array().into_iter().flatten() {
            text.push_str(&format!("  warning: {}\n", cell(warning)));
        }
    }
    let delivery = &plan["delivery"];
    if delivery.is_object() {
        let [to, set] = cells(delivery, ["endpoint", "credentialSetAt"]);
        text.push_str(&format!("posted to {to} (credential set {set})\n"));
        for secret in delivery["secrets"].as_array().into_iter().flatten() {
            let [name, set] = cells(secret, ["name", "setAt"]);
            text.push_str(&format!("  secret {name} (set {set})\n"));
        }
        for (name, value) in delivery["variables"].as_object().into_iter().flatten() {
            text.push_str(&format!("  variable {name} = {}\n", cell(value)));
        }
    }
    text
}
