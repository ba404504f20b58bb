//! `roadstead prompt check`: everything that would refuse a file, without publishing it.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::newest::Bump;
use super::unpublished::Unpublished;
use super::which::{ArtifactKind, Which};
use crate::base::visible;
use crate::cli::client::api::{Api, segment};
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::prompt_file::{FileProblem, PromptFile};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// Compile a file and check it against the registry's policies, without publishing it
#[derive(Args)]
#[command(after_help = "Every problem is a line FILE:LINE:COLUMN: MESSAGE. A broken policy of \
                        severity error fails the check, one of severity warning does not.\n\n\
                        With --promptlets, imports are resolved as if the files NAME.md of that \
                        directory were published already, each as the version of its front \
                        matter or, as with publish --bump, the next one.\n\n\
                        A key needs the scopes artifact:read and policy:check.\n\n\
                        Example: roadstead prompt check main/scribe scribe.md")]
pub struct Check {
    #[command(flatten)]
    which: Which,

    /// File with the text, below an optional front matter, or - for stdin
    file: String,

    /// Directory with promptlets, NAME.md each, that are published before it
    #[arg(long, value_name = "DIR")]
    promptlets: Option<PathBuf>,

    /// Which part of their highest version publishing them raises
    #[arg(long, value_name = "PART", value_enum, default_value = "patch", requires = "promptlets")]
    bump: Bump,

    #[command(flatten)]
    client: ClientFlags,
}

/// What a check found.
struct Found {
    problem: FileProblem,
    is_error: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.which.artifact.without_selector()?;
        let file = PromptFile::read(&self.file)?;
        file.tell_changes();
        let api = self.client.connect()?;
        let found = self.found(&api, &file)?;
        let errors = found.iter().filter(|found| found.is_error).count();
        let items: Vec<Value> = found
            .iter()
            .map(|Found { problem, is_error }| {
                json!({
                    "file": problem.path,
                    "line": problem.line,
                    "column": problem.column,
                    "severity": if *is_error { "error" } else { "warning" },
                    "message": problem.message,
                })
            })
            .collect();
        let lines = found.iter().map(|Found { problem, is_error }| {
            let kind = if *is_error { "" } else { "warning: " };
            format!("{kind}{problem}\n")
        });
        let mut text: String = lines.collect();
        if errors == 0 {
            text.push_str(&format!("{} can be published", file.path));
        }
        output::print(self.client.json, &json!({"ok": errors == 0, "problems": items}), &text)?;
        match errors {
            0 => Ok(()),
            1 => Err(Failure::Failed(format!("{} has a problem", file.path))),
            errors => Err(Failure::Failed(format!("{} has {errors} problems", file.path))),
        }
    }

    fn found(&self, api: &Api, file: &PromptFile) -> Result<Vec<Found>, Failure> {
        let registry = self.which.artifact.registry_ref(api)?;
        let promptlets = match &self.promptlets {
            None => Vec::new(),
            Some(dir) => {
                let files = Unpublished { api, registry: &registry, dir, bump: self.bump };
                let is_promptlet = self.which.kind == ArtifactKind::Promptlet;
                let name = is_promptlet.then_some(self.which.artifact.name.as_str());
                files.imported_by(name, &file.source)?
            }
        };
        found(api, &self.which, file, (&registry, promptlets))
    }
}

fn found(
    api: &Api,
    which: &Which,
    file: &PromptFile,
    (registry, promptlets): (&str, Vec<Value>),
) -> Result<Vec<Found>, Failure> {
    let mut body = json!({
        "registryRef": registry,
        "artifactType": which.kind.text(),
        "source": file.source,
        "model": file.model,
    });
    if !promptlets.is_empty() {
        body["promptlets"] = json!(promptlets);
    }
    let path = format!("/prompts/{}/compile", segment(&which.artifact.name));
    let compiled = match api.send(Method::POST, &path, &body) {
        Ok(compiled) => compiled,
        Err(refusal) => match refusal.with_code("invalid_request") {
            None => return Err(refusal.into()),
            Some(problem) => {
                let issues = problem.issues.iter();
                let found = issues.map(|(path, message)| Found {
                    problem: file.problem_of_issue(path, message),
                    is_error: true,
                });
                return Ok(found.collect());
            }
        },
    };
    let in_text = |field: &str, is_error: bool| {
        let all = compiled[field].as_array().into_iter().flatten();
        all.map(move |found| Found { problem: file.found_in_text(found), is_error })
    };
    let problems: Vec<Found> = in_text("problems", true).collect();
    let warnings = in_text("warnings", false);
    // A text that does not compile has no compiled text to examine.
    if !problems.is_empty() {
        return Ok(problems.into_iter().chain(warnings).collect());
    }
    let mut found: Vec<Found> = warnings.collect();
    found.extend(broken_policies(api, which, file, &compiled["compiled"])?);
    let text = compiled["compiled"].as_str().unwrap_or_default();
    if let Some(first) = visible::first(text) {
        let count = visible::count(text);
        let message = format!("has {count} invisible characters with its imports, first {first}");
        found.push(Found { problem: file.problem(message), is_error: false });
    }
    Ok(found)
}

fn broken_policies(
    api: &Api,
    which: &Which,
    file: &PromptFile,
    compiled: &Value,
) -> Result<Vec<Found>, Failure> {
    let body = json!({
        "orgSlug": which.artifact.org(api)?,
        "registryRef": which.artifact.registry_ref(api)?,
        "text": compiled,
        "model": file.model,
        "metadata": file.metadata,
    });
    let verdict = api.send(Method::POST, "/governance/check", &body)?;
    let issues = verdict["issues"].as_array().into_iter().flatten();
    let found = issues.map(|issue| Found {
        problem: file.problem(issue["message"].as_str().unwrap_or_default().to_string()),
        is_error: issue["severity"] != "warning",
    });
    Ok(found.collect())
}
