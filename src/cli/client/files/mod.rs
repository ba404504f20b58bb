//! `roadstead pull`, `plan` and `apply`: an organization as plain files (reference: plain-files).
//!
//! Files and server are both read into a [`state::State`] without ids; their difference is a
//! [`plan::Plan`], whose steps are requests of the API.

mod apply;
mod local;
mod order;
mod plan;
mod remote;
mod state;
mod tree;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::api::Api;
use super::bounded;
use super::flags::ClientFlags;
use super::refusal::Refusal;
use super::table::printable;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;
use apply::Journal;
use plan::Plan;
use remote::Remote;
use state::{State, Text, VersionName, version_hash};

/// Write an organization into a directory as plain files
#[derive(Args)]
#[command(after_help = "Registries with their prompts as Markdown, policies, tools, environments \
                        without secrets, agents, fleets, channels and listings. Files of an earlier \
                        pull are replaced, and removed where the server has nothing any more.\n\n\
                        Fleets take a session: roadstead login --email ADDRESS. With a key they are \
                        left out.\n\n\
                        Example: roadstead pull acme")]
pub struct Pull {
    /// The directory: empty, new, or one that was pulled before
    dir: PathBuf,

    #[command(flatten)]
    client: ClientFlags,
}

/// Show what apply would do, and do nothing
#[derive(Args)]
#[command(
    after_help = "A line with + is created, ~ changed, - removed. Nothing is removed without \
                        --prune. The hash names exactly these steps.\n\n\
                        Example: roadstead plan acme"
)]
pub struct ShowPlan {
    /// The directory
    dir: PathBuf,

    /// Remove what the files do not have
    #[arg(long)]
    prune: bool,

    /// Fail if there is anything to do
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    client: ClientFlags,
}

/// Change an organization into what the files of a directory say
#[derive(Args)]
#[command(
    after_help = "With --plan nothing but that plan is done: if the files or the server have \
                        changed since, nothing is. A plan that was interrupted goes on with the \
                        same command.\n\n\
                        Registries and fleets take a session: roadstead login --email ADDRESS.\n\n\
                        Example: roadstead apply acme"
)]
pub struct Apply {
    /// The directory
    dir: PathBuf,

    /// Hash of the plan to carry out
    #[arg(long, value_name = "HASH")]
    plan: Option<String>,

    /// Remove what the files do not have
    #[arg(long)]
    prune: bool,

    #[command(flatten)]
    client: ClientFlags,
}

impl Pull {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let remote = remote::read(&api)?;
        let Remote { state, left_out, .. } = &remote;
        let mut pulled = State {
            resources: state.resources.clone(),
            labels: state.labels.clone(),
            ..State::default()
        };
        let mut known = known_texts(&self.dir);
        let mut wanted = Vec::new();
        for version in order::kept(state) {
            let is_same =
                |text: &Text| version_hash(&version, text) == state.versions[&version].hash;
            match known.remove(&version).filter(is_same) {
                Some(text) => drop(pulled.versions.insert(version, text)),
                None => wanted.push(version),
            }
        }
        let texts = texts_of(&api, &remote.org, &wanted)?;
        pulled.versions.extend(wanted.into_iter().zip(texts));
        let tree = local::to_tree(&pulled)?;
        let (written, removed) = tree::write(&self.dir, &tree)?;
        let value = json!({
            "directory": self.dir,
            "files": tree.len(),
            "written": written,
            "removed": removed,
            "leftOut": left_out,
        });
        let mut text = format!("{} files: {written} written, {removed} removed", tree.len());
        left_out.iter().for_each(|what| text.push_str(&format!("\nleft out: {what}")));
        output::print(self.client.json, &value, &printable(&text))
    }
}

/// The texts of an earlier pull: those that are still published need not be read again.
fn known_texts(dir: &Path) -> BTreeMap<VersionName, Text> {
    let files = tree::read(dir).and_then(|tree| local::parse(&tree));
    files.map(|state| state.versions).unwrap_or_default()
}

/// The texts of these versions, in their order.
fn texts_of(api: &Api, org: &str, versions: &[VersionName]) -> Result<Vec<Text>, Failure> {
    let (all, done) = (versions.len(), Cell::new(0));
    let texts = api.block_on(bounded::all(versions, async |version| {
        output::progress(&format!("{} of {all} texts", done.get()));
        let text = text_of(api, org, version).await;
        done.set(done.get() + 1);
        text
    }));
    output::progress("");
    Ok(texts?)
}

async fn text_of(api: &Api, org: &str, version: &VersionName) -> Result<Text, Refusal> {
    let registry = format!("{org}/{}", version.artifact.registry);
    let number = version.version();
    let query = [
        ("registryRef", Some(registry.as_str())),
        ("promptName", Some(&version.artifact.name)),
        ("artifactType", Some(version.artifact.artifact_type())),
        ("version", Some(&number)),
        ("model", Some(&version.model)),
    ];
    let path = "/registries/artifact-versions/content";
    let content = api.request(Method::Get, path, &query, None).await?;
    Ok(Text {
        source: content["source"].as_str().unwrap_or_default().to_string(),
        metadata: content["metadata"].as_object().cloned().unwrap_or_default(),
    })
}

/// Reads files and server, the files first: nothing is sent where they are wrong.
fn planned(dir: &Path, prune: bool, api: &Api) -> Result<(Plan, Remote), Failure> {
    let local = local::parse(&tree::read(dir)?)?;
    let sorted = order::sorted(&local.versions).map_err(|cycle| {
        let names: Vec<String> = cycle.iter().map(ToString::to_string).collect();
        Failure::Usage(format!("these import each other: {}", names.join(", ")))
    })?;
    let remote = remote::read(api)?;
    Ok((plan::plan(&local, &sorted, &remote, prune)?, remote))
}

fn value(plan: &Plan) -> Value {
    let steps: Vec<String> = plan.steps.iter().map(plan::Step::line).collect();
    json!({"plan": plan.hash(), "steps": steps, "onlyOnServer": plan.only_on_server})
}

impl ShowPlan {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let (plan, _) = planned(&self.dir, self.prune, &api)?;
        let mut text: String = plan.steps.iter().map(|step| step.line() + "\n").collect();
        match plan.steps.len() {
            0 => text.push_str("nothing to do"),
            steps => text.push_str(&format!("{steps} steps; plan: {}", plan.hash())),
        }
        if !plan.only_on_server.is_empty() {
            let only = plan.only_on_server.join("\n  ");
            text.push_str(&format!("\nonly on the server (removed with --prune):\n  {only}"));
        }
        output::print(self.client.json, &value(&plan), &printable(&text))?;
        if self.check && !plan.steps.is_empty() {
            return Err(Failure::Failed("the server is not as the files say".into()));
        }
        Ok(())
    }
}

impl Apply {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let (plan, mut remote) = planned(&self.dir, self.prune, &api)?;
        let hash = plan.hash();
        let begun = Journal::of(self.plan.as_deref().unwrap_or(&hash))?;
        if let Some(asked) = &self.plan
            && *asked != hash
            && !begun.covers(&plan)
        {
            return Err(Failure::Failed(format!(
                "the plan is another one now, {hash}, and nothing was done: look at it with \
                 roadstead plan"
            )));
        }
        if self.plan.as_ref().is_none_or(|asked| *asked == hash) {
            begun.begin(&plan)?;
        }
        apply::apply(&api, &mut remote, &plan)?;
        begun.end();
        let text = match plan.steps.len() {
            0 => "nothing to do".to_string(),
            steps => format!("{steps} steps done"),
        };
        output::print(self.client.json, &value(&plan), &text)
    }
}
