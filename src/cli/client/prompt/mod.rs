//! `roadstead prompt`: reading, publishing and promoting prompts.

mod check;
mod labels;
mod publish;
mod read;

use clap::{Args, Subcommand, ValueEnum};

use super::artifact_name::ArtifactName;
use crate::cli::failure::Failure;

/// Read, check, publish and promote prompts
#[derive(Args)]
#[command(
    after_help = "A prompt is named REGISTRY/NAME, or ORG/REGISTRY/NAME; where a version is \
                        read, @ and a version, a range or a label may follow: \
                        main/scribe@production."
)]
pub struct Prompt {
    #[command(subcommand)]
    command: PromptCommand,
}

#[derive(Subcommand)]
enum PromptCommand {
    List(read::List),
    Get(read::Get),
    Render(read::Render),
    Diff(read::Diff),
    History(read::History),
    Check(check::Check),
    Publish(publish::Publish),
    Promote(labels::Promote),
    Rollback(labels::Rollback),
}

impl Prompt {
    pub(in crate::cli) fn run(self) -> Result<(), Failure> {
        match self.command {
            PromptCommand::List(command) => command.run(),
            PromptCommand::Get(command) => command.run(),
            PromptCommand::Render(command) => command.run(),
            PromptCommand::Diff(command) => command.run(),
            PromptCommand::History(command) => command.run(),
            PromptCommand::Check(command) => command.run(),
            PromptCommand::Publish(command) => command.run(),
            PromptCommand::Promote(command) => command.run(),
            PromptCommand::Rollback(command) => command.run(),
        }
    }
}

/// The kinds of artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArtifactKind {
    Prompt,
    Promptlet,
}

impl ArtifactKind {
    /// Its name in the API.
    fn text(self) -> &'static str {
        match self {
            ArtifactKind::Prompt => "prompt",
            ArtifactKind::Promptlet => "promptlet",
        }
    }
}

/// The artifact of a command.
#[derive(Args)]
struct Which {
    /// The artifact: REGISTRY/NAME, optionally with @VERSION
    #[arg(value_name = "ARTIFACT", value_parser = |text: &str| ArtifactName::parse(text))]
    artifact: ArtifactName,

    /// Its type
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value = "prompt")]
    kind: ArtifactKind,
}
