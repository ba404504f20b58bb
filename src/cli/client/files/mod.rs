//! `roadstead pull`, `plan` and `apply`: an organization as plain files (reference: plain-files).
//!
//! Files and server are both read into a [`state::State`] without ids; their difference is a
//! [`plan::Plan`], whose steps are requests of the API.

mod apply;
mod check;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod kept;
mod kind;
mod kinds;
mod local;
mod names;
mod order;
mod plan;
mod protected;
mod pulled;
mod remote;
mod state;
mod tree;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::api::Api;
use super::bounded;
use super::flags::ClientFlags;
use super::refusal::Refusal;
use crate::base::lines;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;
use apply::Journal;
use check::Refused;
use kinds::{AGENT, FLEET};
use plan::Plan;
use protected::ProtectedLabels;
use pulled::Pulled;
use remote::Remote;
use state::{State, Text, VersionName, version_hash};
use tree::{Tree, Written};

/// Write an organization into a directory as plain files
#[derive(Args)]
#[command(
    after_help = "Registries with their prompts as Markdown and these prompts' inputs, policies, tools, environments \
                        without secrets, agents, fleets, channels and listings. Files of an earlier \
                        pull are replaced, and removed where the server has nothing any more; not \
                        those that were written or changed since, and not applied. Comments and the form \
                        of files stay, and the names of those that are no prompts.\n\n\
                        Fleets take a session: roadstead login --email ADDRESS. With a key they stay \
                        as they are in the directory.\n\n\
                        Example: roadstead pull acme"
)]
pub struct Pull {
    /// The directory: empty, new, or one that was pulled before
    dir: PathBuf,

    /// Replace files that were changed here and not applied
    #[arg(long)]
    force: bool,

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
        let before = tree::before(&self.dir)?;
        // Where plan would refuse a file, it is somebody's, and not replaced or removed.
        let local = if before.is_empty() { State::default() } else { local::parse(&before)? };
        let api = self.client.connect()?;
        let remote = remote::read(&api)?;
        let Remote { state, left_out, .. } = &remote;
        let mut pulled = State {
            resources: state.resources.clone(),
            labels: state.labels.clone(),
            tags: state.tags.clone(),
            inputs: state.inputs.clone(),
            ..State::default()
        };
        if !remote.known.has_fleets {
            keep_fleets(&local, &mut pulled);
        }
        // Those that are still published need not be read again.
        let mut known = local.versions;
        let mut wanted = Vec::new();
        for version in order::kept(state) {
            let is_same =
                |text: &Text| version_hash(&version, text) == state.versions[&version].hash;
            match known.remove(&version).filter(is_same) {
                Some(text) => drop(pulled.versions.insert(version, text)),
                None => wanted.push(version),
            }
        }
        let texts = texts_of(&api, &remote.known.org, &wanted)?;
        pulled.versions.extend(wanted.into_iter().zip(texts));
        // The hash of a version does not say it.
        for (version, text) in &mut pulled.versions {
            text.message = state.versions[version].message.clone();
        }
        let tree = kept::keeping(&before, local::to_tree(&pulled)?);
        if !self.force {
            refuse_changed(&self.dir, &before, &tree)?;
        }
        let Written { written, removed } = tree::write(&self.dir, &before, &tree)?;
        Pulled::write(&self.dir, &tree, |_| false)?;
        let warnings = names::warnings(tree.keys());
        warn(&warnings);
        let value = json!({
            "directory": self.dir,
            "files": tree.len(),
            "written": written.len(),
            "removed": removed.len(),
            "leftOut": left_out,
            "warnings": warnings,
        });
        let (files, count) = (tree.len(), (written.len(), removed.len()));
        let mut text = format!("{files} files: {} written, {} removed", count.0, count.1);
        removed.iter().for_each(|path| text.push_str(&format!("\nremoved: {path}")));
        left_out.iter().for_each(|what| text.push_str(&format!("\nleft out: {what}")));
        output::print(self.client.json, &value, text)
    }
}

/// Takes fleets, and whose they are, from the files: without a session the server does not tell.
fn keep_fleets(local: &State<Text>, pulled: &mut State<Text>) {
    for ((kind, name), fields) in &local.resources {
        if **kind == FLEET {
            pulled.resources.insert((*kind, name.clone()), fields.clone());
        } else if **kind == AGENT
            && let Some(fleet) = fields.get("fleet")
            && let Some(agent) = pulled.resources.get_mut(&(*kind, name.clone()))
        {
            agent.insert("fleet".into(), fleet.clone());
        }
    }
}

/// Refuses to replace what was written here since the last pull or apply.
fn refuse_changed(dir: &Path, before: &Tree, new: &Tree) -> Result<(), Failure> {
    let pulled = Pulled::read(dir);
    let changed = pulled.changed_since(before, new);
    if changed.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "these were changed here since the last pull or apply, as far as is known; apply them, or \
         replace them with --force:\n  {}",
        changed.join("\n  ")
    )))
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
    let content = api.request(Method::GET, path, &query, None).await?;
    Ok(Text {
        source: content["source"].as_str().unwrap_or_default().to_string(),
        metadata: content["metadata"].as_object().cloned().unwrap_or_default(),
        message: content["message"].as_str().map(str::to_string),
    })
}

/// A plan, and what is to be known beside it.
struct Planned {
    plan: Plan,
    remote: Remote,
    warnings: Vec<String>,
    /// How many of its steps ask for an approval, and so are not done by it.
    approvals: usize,
}

/// Compares files with the server, the files first: nothing is sent where they are wrong.
fn planned(
    files: &Tree,
    (prune, is_carried_out): (bool, bool),
    api: &Api,
) -> Result<Planned, Failure> {
    let local = local::parse(files)?;
    let sorted = order::sorted(&local.versions).map_err(|cycle| {
        let names: Vec<String> = cycle.iter().map(ToString::to_string).collect();
        Failure::Usage(format!("these import each other: {}", names.join(", ")))
    })?;
    let remote = remote::read(api)?;
    let same = published_alike(api, &local, &remote)?;
    let plan = plan::plan(&local, &sorted, &remote, &same, prune)?;
    let Refused { mut always, by_version, without_session } =
        check::refused((files, &local), &remote, &plan)?;
    let mut warnings = names::warnings(files.keys());
    let ProtectedLabels { refused: without_right, waiting } = protected::read(api, &plan)?;
    if !by_version.is_empty() {
        match check::decided_by(remote::version(api).as_deref(), by_version) {
            Ok(decided) => warnings.extend(decided),
            Err(refused) => always.extend(refused),
        }
    }
    if is_carried_out {
        always.extend(without_session.into_iter().chain(without_right));
    } else {
        warn(&without_session);
        warn(&without_right);
    }
    if !always.is_empty() {
        return Err(Failure::Usage(always.join("\n")));
    }
    warnings.extend(check::warnings(files, &plan));
    warnings.extend(check::about_messages(&local, &remote));
    let approvals = waiting.len();
    warnings.extend(waiting);
    warn(&warnings);
    Ok(Planned { plan, remote, warnings, approvals })
}

fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| output::status(&format!("warning: {warning}")));
}

/// Returns the versions of the files that are published with other line ends alone, as by an earlier
/// version from Windows, or by the API. Files have none of their own.
fn published_alike(
    api: &Api,
    local: &State<Text>,
    remote: &Remote,
) -> Result<BTreeSet<VersionName>, Failure> {
    let differ = plan::published_otherwise(local, remote);
    let texts = texts_of(api, &remote.known.org, &differ)?;
    let is_alike = |(version, published): &(VersionName, Text)| {
        let text = &local.versions[version];
        lines::is_same(&text.source, &published.source) && text.metadata == published.metadata
    };
    let all = differ.into_iter().zip(texts);
    Ok(all.filter(is_alike).map(|(version, _)| version).collect())
}

fn value(plan: &Plan, warnings: &[String]) -> Value {
    let steps: Vec<String> = plan.steps.iter().map(plan::Step::line).collect();
    json!({
        "plan": plan.hash(),
        "steps": steps,
        "onlyOnServer": plan.only_on_server,
        "warnings": warnings,
    })
}

fn counted(steps: usize) -> String {
    if steps == 1 { "1 step".into() } else { format!("{steps} steps") }
}

/// What was done by so many steps, some of which ask for an approval alone.
fn applied(steps: usize, approvals: usize) -> String {
    let done = format!("{} done", counted(steps - approvals));
    let waiting = format!("{} for approval: roadstead prompt changes", counted(approvals));
    match approvals {
        0 => done,
        _ if approvals == steps => format!("nothing done; asked by {waiting}"),
        _ => format!("{done}; asked by {waiting}"),
    }
}

impl ShowPlan {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let files = tree::read(&self.dir)?;
        let Planned { plan, warnings, .. } = planned(&files, (self.prune, false), &api)?;
        let mut text: String = plan.steps.iter().map(|step| step.line() + "\n").collect();
        match plan.steps.len() {
            0 => text.push_str("nothing to do"),
            steps => text.push_str(&format!("{}; plan: {}", counted(steps), plan.hash())),
        }
        if !plan.only_on_server.is_empty() {
            let only = plan.only_on_server.join("\n  ");
            text.push_str(&format!("\nonly on the server (removed with --prune):\n  {only}"));
        }
        output::print(self.client.json, &value(&plan, &warnings), text)?;
        if self.check && !plan.steps.is_empty() {
            return Err(Failure::Failed("the server is not as the files say".into()));
        }
        Ok(())
    }
}

impl Apply {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let files = tree::read(&self.dir)?;
        let Planned { plan, mut remote, warnings, approvals } =
            planned(&files, (self.prune, true), &api)?;
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
        let is_left_out = |path: &str| !remote.known.has_fleets && path.starts_with("fleets/");
        if let Err(Failure::Failed(why) | Failure::Usage(why)) =
            Pulled::write(&self.dir, &files, is_left_out)
        {
            // All is done; the next pull asks for --force.
            tracing::warn!("{why}");
        }
        let text = match plan.steps.len() {
            0 => "nothing to do".to_string(),
            steps => applied(steps, approvals),
        };
        output::print(self.client.json, &value(&plan, &warnings), &text)
    }
}
