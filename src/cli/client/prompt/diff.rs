//! `roadstead prompt diff`

use clap::Args;
use serde_json::json;

use super::artifact::Artifact;
use super::which::Which;
use crate::base::{diff, lines};
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::prompt_file::PromptFile;
use crate::cli::failure::Failure;
use crate::cli::output;

/// Compare two versions, or a version and a file, as a unified diff
#[derive(Args)]
#[command(after_help = "Compares the texts as they were published, before imports.\n\n\
                        Examples:\n  \
                        roadstead prompt diff main/scribe 1.0.0 production\n  \
                        roadstead prompt diff main/scribe production --file scribe.md")]
pub struct Diff {
    #[command(flatten)]
    which: Which,

    /// The older one: a version, a range or a label
    from: String,

    /// The newer one; by default the newest
    #[arg(conflicts_with = "file")]
    to: Option<String>,

    /// Compare with this file, - for stdin, instead of another version
    #[arg(long, value_name = "FILE")]
    file: Option<String>,

    /// Model that the texts are for
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    #[command(flatten)]
    client: ClientFlags,
}

impl Diff {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.which.artifact.without_selector()?;
        let file = self.file.as_deref().map(PromptFile::read).transpose()?;
        let api = self.client.connect()?;
        let artifact = Artifact::of(&self.which, &api)?;
        let diff = match &file {
            Some(file) => {
                let model = self.model.as_deref().or(file.model.as_deref());
                let from = artifact.content(Some(&self.from), model)?;
                let source = from["source"].as_str().unwrap_or_default();
                let version = from["version"].as_str().unwrap_or_default();
                json!({"from": version, "to": file.path, "diff": unified(source, version, file)})
            }
            None => {
                let of = [
                    ("from", Some(self.from.as_str())),
                    ("to", Some(self.to.as_deref().unwrap_or("*"))),
                    ("model", self.model.as_deref()),
                ];
                artifact.get("/registries/artifact-versions/diff", &of)?
            }
        };
        let text = diff["diff"].as_str().unwrap_or_default();
        if text.is_empty() && !self.client.json {
            // The line ends of a file are no part of its text.
            let aside = if self.file.is_some() { ", line ends aside" } else { "" };
            output::status(&format!("no difference{aside}"));
            return Ok(());
        }
        output::print(self.client.json, &diff, text)
    }
}

fn unified(source: &str, version: &str, file: &PromptFile) -> String {
    let source = lines::published(source);
    let mut max_lines = diff::MAX_COMPARED_LINES;
    diff::unified(&source, &file.source, (version, &file.path), &mut max_lines)
}
