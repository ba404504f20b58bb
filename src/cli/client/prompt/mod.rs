//! `roadstead prompt`: reading, publishing, importing and promoting prompts.

mod artifact;
mod changes;
mod check;
mod diff;
mod import;
mod inputs;
mod labels;
mod newest;
mod publish;
mod read;
mod tag;
mod try_it;
mod unpublished;
mod which;

use crate::cli::commands::commands;

commands! {
    /// Read, try, check, publish, import, tag and promote prompts
    #[command(
        after_help = "A prompt is named REGISTRY/NAME, or ORG/REGISTRY/NAME; where a version is \
                      read, @ and a version, a range or a label may follow: \
                      main/scribe@production."
    )]
    pub Prompt of PromptCommand {
        List(read::List),
        Get(read::Get),
        Render(read::Render),
        Try(try_it::Try),
        Diff(diff::Diff),
        History(read::History),
        Inputs(inputs::Inputs),
        Compare(inputs::Compare),
        Check(check::Check),
        Publish(publish::Publish),
        Import(import::Import),
        Tag(tag::Tag),
        Promote(labels::Promote),
        Rollback(labels::Rollback),
        Changes(changes::Changes),
        Approve(changes::Approve),
        Deny(changes::Deny),
        Cancel(changes::Cancel),
    }
}
