//! `roadstead prompt tag`

use clap::Args;
use serde_json::json;

use super::artifact::Artifact;
use super::which::Which;
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::tags::tags;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// Set the tags of a prompt: those that are given, and no others
#[derive(Args)]
#[command(after_help = "A key needs the scope artifact:publish.\n\n\
                        Example: roadstead prompt tag main/scribe docs weekly")]
pub struct Tag {
    #[command(flatten)]
    which: Which,

    /// The tags
    #[arg(value_name = "TAG", required_unless_present = "none", value_delimiter = ',')]
    tags: Vec<String>,

    /// Take all tags off
    #[arg(long, conflicts_with = "tags")]
    none: bool,

    #[command(flatten)]
    client: ClientFlags,
}

impl Tag {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.which.artifact.without_selector()?;
        let api = self.client.connect()?;
        let artifact = Artifact::of(&self.which, &api)?;
        let mut body = artifact.body();
        body["tags"] = json!(self.tags);
        let answer = api.send(Method::PATCH, "/registries/artifacts", &body)?;
        let text = match tags(&answer) {
            all if all.is_empty() => "no tags".to_string(),
            all => format!("tags: {all}"),
        };
        output::print(self.client.json, &answer, text)
    }
}
