//! The artifact that a command is about.

use clap::{Args, ValueEnum};

use crate::cli::client::artifact_name::ArtifactName;

/// The kinds of artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArtifactKind {
    Prompt,
    Promptlet,
}

impl ArtifactKind {
    /// Its name in the API.
    pub fn text(self) -> &'static str {
        match self {
            ArtifactKind::Prompt => "prompt",
            ArtifactKind::Promptlet => "promptlet",
        }
    }
}

/// The artifact of a command.
#[derive(Args)]
pub struct Which {
    /// The artifact: REGISTRY/NAME, optionally with @VERSION
    #[arg(value_name = "ARTIFACT", value_parser = |text: &str| ArtifactName::parse(text))]
    pub artifact: ArtifactName,

    /// Its type
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value = "prompt")]
    pub kind: ArtifactKind,
}
