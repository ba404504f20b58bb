//! `roadstead prompt promote` and `rollback`: moving labels.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::artifact::Artifact;
use super::changes::{decisions, path_of};
use super::which::Which;
use crate::cli::client::api::Api;
use crate::cli::client::deploy::until_ended;
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::table::cell;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::values::duration_secs;
use crate::outside::Method;

/// What `--if-version` is called for a label that does not exist.
const NONE: &str = "none";

/// Put a label on a version, moving it if it exists
#[derive(Args)]
#[command(after_help = "With --if-version the label is moved only from that version, so that \
                        nobody's later promotion is undone; otherwise the command fails.\n\n\
                        Of a protected label that takes approvals, the move is asked for, and the \
                        command prints the id of the change that waits; with --wait it ends with \
                        the change, with code 0 if that is approved, and says who denied it.\n\n\
                        A key needs the scopes label:move and artifact:read.\n\n\
                        Example: roadstead prompt promote main/scribe 1.1.0 --label production \
                        --if-version 1.0.0")]
pub struct Promote {
    #[command(flatten)]
    which: Which,

    /// The version: exact, a range, or another label
    version: String,

    /// The label
    #[arg(long, value_name = "LABEL", default_value = "production")]
    label: String,

    /// Version that the label must be on now; none for a new label
    #[arg(long, value_name = "VERSION")]
    if_version: Option<String>,

    #[command(flatten)]
    waiting: Waiting,

    #[command(flatten)]
    client: ClientFlags,
}

/// Waiting for approvals.
#[derive(Args)]
struct Waiting {
    /// Wait until the move is approved or denied, if it takes approvals
    #[arg(long)]
    wait: bool,

    /// How long to wait at most
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration_secs)]
    timeout: i64,
}

impl Promote {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.which.artifact.without_selector()?;
        let api = self.client.connect()?;
        let artifact = Artifact::of(&self.which, &api)?;
        let version = if is_exact(&self.version) {
            self.version.clone()
        } else {
            let content = artifact.content(Some(&self.version), None)?;
            content["version"].as_str().unwrap_or_default().to_string()
        };
        let from = self
            .if_version
            .as_ref()
            .map(|version| if version == NONE { Value::Null } else { version.clone().into() });
        moved(&artifact, (&self.label, &version, from), &self.waiting, self.client.json)
    }
}

/// Put a label back on the version that it was moved from last
#[derive(Args)]
#[command(after_help = "A second rollback undoes the first. If the label is moved meanwhile, \
                        nothing is done.\n\n\
                        A key needs the scopes label:move and artifact:read.\n\n\
                        Example: roadstead prompt rollback main/scribe --label production")]
pub struct Rollback {
    #[command(flatten)]
    which: Which,

    /// The label
    #[arg(long, value_name = "LABEL", default_value = "production")]
    label: String,

    #[command(flatten)]
    waiting: Waiting,

    #[command(flatten)]
    client: ClientFlags,
}

impl Rollback {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.which.artifact.without_selector()?;
        let api = self.client.connect()?;
        let artifact = Artifact::of(&self.which, &api)?;
        let of = [("label", Some(self.label.as_str()))];
        let moves = artifact.list("/registries/artifacts/labels/history", &of, 1)?;
        let last = moves
            .items
            .first()
            .ok_or_else(|| Failure::Failed(format!("the label {} was never moved", self.label)))?;
        let Some(version) = last["from"].as_str() else {
            return Err(Failure::Failed(format!(
                "the label {} was on no version before its last move",
                self.label
            )));
        };
        let from = Some(last["to"].clone());
        moved(&artifact, (&self.label, version, from), &self.waiting, self.client.json)
    }
}

/// Moves a label and prints where it is now, or the change that waits for approvals.
fn moved(
    artifact: &Artifact,
    (label, version, from): (&str, &str, Option<Value>),
    waiting: &Waiting,
    json: bool,
) -> Result<(), Failure> {
    let mut body = artifact.body();
    body["label"] = label.into();
    body["version"] = version.into();
    if let Some(from) = from {
        body["from"] = from;
    }
    let mut moved = artifact.api.send(Method::PATCH, "/registries/artifacts/labels", &body)?;
    let at = format!("{label}: {}/{}@{version}", artifact.registry, artifact.name);
    let change = moved["pendingChange"].take();
    // A server of 0.1.0 moves it at once.
    if change.is_null() {
        return output::print(json, &moved, &at);
    }
    let change = waiting.ended(artifact.api, change)?;
    let (state, id) = (cell(&change["state"]), cell(&change["id"]));
    moved["pendingChange"] = change;
    match state.as_str() {
        "pending" => {
            output::print(json, &moved, format!("{at} waits for approval, change {id}"))?;
        }
        "approved" => {
            moved["labels"][label] = version.into();
            return output::print(json, &moved, &at);
        }
        _ => {
            let decisions = decisions(artifact.api, &id)?;
            output::print(json, &moved, format!("{at} is {state}, change {id}{decisions}"))?;
        }
    }
    if waiting.wait {
        return Err(Failure::Failed(format!("the label change is {state}")));
    }
    Ok(())
}

impl Waiting {
    /// The change, once it has ended if that is waited for.
    fn ended(&self, api: &Api, change: Value) -> Result<Value, Failure> {
        if !self.wait {
            return Ok(change);
        }
        let id = cell(&change["id"]);
        let path = path_of(&id);
        let time = Duration::from_secs(u64::try_from(self.timeout).unwrap_or_default());
        until_ended(api, ("change", &path), change, |state| state != "pending", time)
    }
}

/// Whether a text is three numbers with dots.
fn is_exact(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_version_is_three_numbers() {
        assert!(is_exact("1.2.3"));
        for text in ["1.2", "^1.2.3", "1.2.x", "production", "1..3", "1.2.3.4"] {
            assert!(!is_exact(text), "{text}");
        }
    }
}
