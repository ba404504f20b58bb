//! `roadstead prompt publish`

use clap::Args;
use serde_json::{Value, json};

use super::artifact::Artifact;
use super::newest::{Bump, is_same};
use super::which::Which;
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::prompt_file::PromptFile;
use crate::cli::client::refusal::{Problem, Refusal};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// How often a version is raised again that another pipeline has published meanwhile.
const RACES: usize = 3;

/// Publish a file as a version of a prompt, unless nothing has changed
#[derive(Args)]
#[command(after_help = "The file is the text, below an optional front matter in TOML between two \
                        lines of +++: version, model, metadata, message. With --bump it is \
                        published as the next version after the highest one, and as 1.0.0 if \
                        there is none, but not if the newest has the same text and metadata.\n\n\
                        Every problem is a line FILE:LINE:COLUMN: MESSAGE.\n\n\
                        A key needs the scopes artifact:publish and artifact:read.\n\n\
                        Example: roadstead prompt publish main/scribe scribe.md --bump minor \
                        -m \"Shorter.\"")]
pub struct Publish {
    #[command(flatten)]
    which: Which,

    /// File with the text, below an optional front matter, or - for stdin
    file: String,

    /// Which part of the highest version to raise
    #[arg(long, value_name = "PART", value_enum, conflicts_with = "version")]
    bump: Option<Bump>,

    /// The version; by default that of the front matter
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    /// Model that the text is for; by default that of the front matter, else every model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// What changed and why; by default the message of the front matter
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,

    /// Tag of the artifact, if this is its first version, several times for several; by default those
    /// of the front matter
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,

    #[command(flatten)]
    client: ClientFlags,
}

impl Publish {
    pub(super) fn run(mut self) -> Result<(), Failure> {
        self.which.artifact.without_selector()?;
        let file = PromptFile::read(&self.file)?;
        file.tell_changes();
        if let Some(kind) = &file.artifact_type
            && kind != self.which.kind.text()
        {
            return Err(Failure::Usage(format!(
                "{} is of type {kind}; give --type {kind}",
                file.path
            )));
        }
        self.model = self.model.take().or_else(|| file.model.clone());
        let explicit = self.version.clone().or_else(|| file.version.clone());
        if self.bump.is_none() && explicit.is_none() {
            return Err(Failure::Usage(
                "say which version this is: --bump patch, --version 1.0.0, or version in the \
                 front matter"
                    .into(),
            ));
        }
        let api = self.client.connect()?;
        let artifact = Artifact::of(&self.which, &api)?;
        let mut races = 0;
        loop {
            let newest = artifact.newest(self.model.as_deref())?;
            if let Some(newest) = &newest
                && is_same(newest, &file)
                && (self.bump.is_some() || newest["version"].as_str() == explicit.as_deref())
            {
                return self.print(newest, false);
            }
            let version = match self.bump {
                Some(bump) => artifact.next_version(bump)?,
                None => explicit.clone().unwrap_or_default(),
            };
            let mut body = json!({
                "registryRef": artifact.registry,
                "artifactType": artifact.kind.text(),
                "name": artifact.name,
                "version": version,
                "source": file.source,
                "model": self.model,
                "metadata": file.metadata,
            });
            // A server of 0.1.0 does not know the field.
            if let Some(message) = self.message.as_ref().or(file.message.as_ref()) {
                body["message"] = json!(message);
            }
            let of_file = file.tags.as_deref().unwrap_or_default();
            let tags = if self.tags.is_empty() { of_file } else { &self.tags };
            if !tags.is_empty() {
                body["tags"] = json!(tags);
            }
            let refusal = match api.send(Method::POST, "/registries/artifacts", &body) {
                Ok(published) => {
                    self.warn(&file, &published, newest.is_some());
                    return self.print(&published, true);
                }
                Err(refusal) => refusal,
            };
            let is_taken = refusal.with_code("version_exists").is_some();
            if !(is_taken && self.bump.is_some() && races < RACES) {
                return Err(failure(&file, refusal));
            }
            races += 1;
        }
    }

    /// Says what is to be known of a version that was published, of an artifact that may have been there.
    fn warn(&self, file: &PromptFile, published: &Value, was_there: bool) {
        for warning in published["warnings"].as_array().into_iter().flatten() {
            output::status(&format!("warning: {}", file.found_in_text(warning)));
        }
        if was_there && !self.tags.is_empty() {
            output::status("its tags stay as they were; roadstead prompt tag sets them");
        }
    }

    fn print(&self, version: &Value, published: bool) -> Result<(), Failure> {
        let fields = ["registryRef", "artifactType", "name", "version", "model", "hash", "message"];
        let mut value = json!({"published": published});
        for field in fields {
            value[field] = version[field].clone();
        }
        let text = |field: &str| version[field].as_str().unwrap_or_default().to_string();
        let what = if published { "published" } else { "unchanged" };
        let (registry, name, version) = (text("registryRef"), text("name"), text("version"));
        output::print(self.client.json, &value, format!("{what}: {registry}/{name}@{version}"))
    }
}

/// Returns the failure of a refused publication, each problem at its place in the file.
fn failure(file: &PromptFile, refusal: Refusal) -> Failure {
    let Some(Problem { issues, .. }) = refusal.with_code("invalid_request") else {
        return refusal.into();
    };
    let lines: Vec<String> = issues
        .iter()
        .map(|(path, message)| file.problem_of_issue(path, message).to_string())
        .collect();
    Failure::Failed(format!("{} is not published\n{}", file.path, lines.join("\n")))
}
