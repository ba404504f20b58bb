//! `roadstead prompt`: reading, publishing, importing and promoting prompts.

mod check;
mod diff;
mod import;
mod labels;
mod newest;
mod publish;
mod read;
mod unpublished;
mod which;

use clap::{Args, Subcommand};

use crate::cli::failure::Failure;

/// Read, check, publish, import and promote prompts
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
    Diff(diff::Diff),
    History(read::History),
    Check(check::Check),
    Publish(publish::Publish),
    Import(import::Import),
    Promote(labels::Promote),
    Rollback(labels::Rollback),
}

impl Prompt {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            PromptCommand::List(command) => command.run(),
            PromptCommand::Get(command) => command.run(),
            PromptCommand::Render(command) => command.run(),
            PromptCommand::Diff(command) => command.run(),
            PromptCommand::History(command) => command.run(),
            PromptCommand::Check(command) => command.run(),
            PromptCommand::Publish(command) => command.run(),
            PromptCommand::Import(command) => command.run(),
            PromptCommand::Promote(command) => command.run(),
            PromptCommand::Rollback(command) => command.run(),
        }
    }
}
