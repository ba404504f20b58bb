//! `roadstead prompt publish`

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::which::Which;
use crate::cli::client::api::Api;
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::prompt_file::PromptFile;
use crate::cli::client::refusal::{Problem, Refusal};
use crate::cli::client::table::printable;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// How often a version is raised again that another pipeline has published meanwhile.
const RACES: usize = 3;

/// The first version of an artifact that `--bump` finds none of.
const FIRST: &str = "1.0.0";

/// Publish a file as a version of a prompt, unless nothing has changed
#[derive(Args)]
#[command(after_help = "The file is the text, below an optional front matter in TOML between two \
                        lines of +++: version, model, metadata. With --bump it is published as the \
                        next version after the highest one, and as 1.0.0 if there is none, but not \
                        if the newest has the same text and metadata.\n\n\
                        Every problem is a line FILE:LINE:COLUMN: MESSAGE.\n\n\
                        A key needs the scopes artifact:publish and artifact:read.\n\n\
                        Example: roadstead prompt publish main/scribe scribe.md --bump minor")]
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

    #[command(flatten)]
    client: ClientFlags,
}

/// The part of a version to raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Bump {
    Major,
    Minor,
    Patch,
}

impl Publish {
    pub(super) fn run(mut self) -> Result<(), Failure> {
        self.which.artifact.without_selector()?;
        let file = PromptFile::read(&self.file)?;
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
        let registry = self.which.artifact.registry_ref(&api)?;
        let mut races = 0;
        loop {
            if let Some(newest) = self.newest(&api, &registry)?
                && is_same(&newest, &file)
                && (self.bump.is_some() || newest["version"].as_str() == explicit.as_deref())
            {
                return self.print(&newest, false);
            }
            let version = match self.bump {
                Some(bump) => self.next_version(&api, &registry, bump)?,
                None => explicit.clone().unwrap_or_default(),
            };
            let body = json!({
                "registryRef": registry,
                "artifactType": self.which.kind.text(),
                "name": self.which.artifact.name,
                "version": version,
                "source": file.source,
                "model": self.model,
                "metadata": file.metadata,
            });
            let refusal = match api.send(Method::Post, "/registries/artifacts", &body) {
                Ok(published) => return self.print(&published, true),
                Err(refusal) => refusal,
            };
            let is_taken = refusal.with_code("version_exists").is_some();
            if !(is_taken && self.bump.is_some() && races < RACES) {
                return Err(failure(&file, refusal));
            }
            races += 1;
        }
    }

    /// The newest version that has a text for the model itself.
    fn newest(&self, api: &Api, registry: &str) -> Result<Option<Value>, Failure> {
        let query = [
            ("registryRef", Some(registry)),
            ("promptName", Some(self.which.artifact.name.as_str())),
            ("artifactType", Some(self.which.kind.text())),
            ("model", self.model.as_deref()),
        ];
        match api.get("/registries/artifact-versions/content", &query) {
            Ok(content) => {
                let model = self.model.as_deref().unwrap_or("generic");
                Ok((content["model"] == model).then_some(content))
            }
            Err(refusal) if refusal.with_code("not_found").is_some() => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// The version after the highest one, whatever model that is for.
    fn next_version(&self, api: &Api, registry: &str, bump: Bump) -> Result<String, Failure> {
        let query = [
            ("registryRef", Some(registry)),
            ("promptName", Some(self.which.artifact.name.as_str())),
            ("artifactType", Some(self.which.kind.text())),
        ];
        let highest = match api.list("/registries/artifact-versions", &query, 1) {
            Ok(versions) => versions.into_iter().next(),
            Err(refusal) if refusal.with_code("not_found").is_some() => None,
            Err(refusal) => return Err(refusal.into()),
        };
        match highest {
            None => Ok(FIRST.into()),
            Some(version) => raised(version["version"].as_str().unwrap_or_default(), bump)
                .ok_or_else(|| Failure::Failed("the highest version cannot be raised".into())),
        }
    }

    fn print(&self, version: &Value, published: bool) -> Result<(), Failure> {
        let fields = ["registryRef", "artifactType", "name", "version", "model", "hash"];
        let mut value = json!({"published": published});
        for field in fields {
            value[field] = version[field].clone();
        }
        let text = |field: &str| version[field].as_str().unwrap_or_default().to_string();
        let what = if published { "published" } else { "unchanged" };
        let (registry, name, version) = (text("registryRef"), text("name"), text("version"));
        output::print(self.client.json, &value, &format!("{what}: {registry}/{name}@{version}"))
    }
}

/// Whether a version has the text and the metadata of a file.
fn is_same(version: &Value, file: &PromptFile) -> bool {
    version["source"] == file.source && version["metadata"] == json!(file.metadata)
}

/// Returns the failure of a refused publication, each problem at its place in the file.
fn failure(file: &PromptFile, refusal: Refusal) -> Failure {
    let Some(Problem { issues, .. }) = refusal.with_code("invalid_request") else {
        return refusal.into();
    };
    let lines: Vec<String> = issues
        .iter()
        .map(|(path, message)| printable(&file.problem_of_issue(path, message).to_string()))
        .collect();
    Failure::Failed(format!("{} is not published\n{}", file.path, lines.join("\n")))
}

fn raised(version: &str, bump: Bump) -> Option<String> {
    let mut numbers = version.split('.').map(|number| number.parse::<u64>().ok());
    let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(match bump {
        Bump::Major => format!("{}.0.0", major.checked_add(1)?),
        Bump::Minor => format!("{major}.{}.0", minor.checked_add(1)?),
        Bump::Patch => format!("{major}.{minor}.{}", patch.checked_add(1)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_raised_sets_the_parts_behind_it_to_zero() {
        assert_eq!(raised("1.2.3", Bump::Major).as_deref(), Some("2.0.0"));
        assert_eq!(raised("1.2.3", Bump::Minor).as_deref(), Some("1.3.0"));
        assert_eq!(raised("1.2.3", Bump::Patch).as_deref(), Some("1.2.4"));
        assert_eq!(raised(&format!("0.0.{}", u64::MAX), Bump::Patch), None);
        assert_eq!(raised("1.2", Bump::Patch), None);
    }
}
