//! What a text would be if it were published: its problems at their lines, its imports and variables,
//! and what the policies say.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::api::segment;
use super::place::Place;
use super::problems::sentence;
use super::visit::Visit;
use crate::base::{Error, Result};

/// A text to check.
pub struct Text<'a> {
    pub place: &'a Place,
    pub source: &'a str,
    pub model: Option<&'a str>,
    /// Whether policies are asked: a judge among them calls a language model, which costs.
    pub asks_policies: bool,
    /// The environment whose values it is filled with, by slug; empty for none.
    pub environment: &'a str,
}

/// What was found.
pub struct Checked {
    pub problems: Vec<Problem>,
    /// What looks like a mistake.
    pub warnings: Vec<Problem>,
    pub variables: Vec<String>,
    /// Imports with the versions found.
    pub imports: BTreeMap<String, String>,
    pub compiled: String,
    /// Characters of the compiled text that a reader would not see.
    pub invisible: usize,
    pub verdict: Verdict,
    /// The text filled with the values of an environment, if one was chosen.
    pub preview: Option<Preview>,
    /// Why it could not be filled: an environment that does not exist, for example.
    pub refusal: Option<Error>,
}

/// A text with values for its variables.
#[derive(Deserialize)]
pub struct Preview {
    pub text: String,
    /// The variables without one.
    pub missing: Vec<String>,
}

/// A problem with the line that it is in.
pub struct Problem {
    pub message: String,
    pub line: usize,
    pub column: usize,
    pub text: String,
}

/// What the policies say.
pub enum Verdict {
    /// They were not asked; of a text that does not compile they never are.
    None,
    /// They accept it, or there are none.
    Passed,
    /// They refuse it, or would raise flags: whether each refuses, and its message.
    Violations(Vec<(bool, String)>),
    /// They could not be asked.
    Failed(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Compiled {
    compiled: String,
    imports: BTreeMap<String, String>,
    variables: Vec<String>,
    problems: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    invisible_characters: usize,
}

#[derive(Deserialize)]
struct Diagnostic {
    message: String,
    line: usize,
    column: usize,
}

#[derive(Deserialize)]
struct PolicyVerdict {
    issues: Vec<Violation>,
}

#[derive(Deserialize)]
struct Violation {
    severity: String,
    message: String,
}

/// Checks a text.
///
/// # Errors
/// Those of the route that compiles it.
pub async fn check(visit: &Visit, text: &Text<'_>) -> Result<Checked> {
    let Text { place, source, model, asks_policies, environment } = *text;
    let mut body =
        json!({"registryRef": place.registry, "artifactType": place.kind, "source": source});
    if let Some(model) = model {
        body["model"] = json!(model);
    }
    let path = format!("/prompts/{}", segment(&place.name));
    let compiled: Compiled = visit.api.post(&format!("{path}/compile"), body.clone()).await?;
    let at_lines = |all: Vec<Diagnostic>| -> Vec<Problem> {
        all.into_iter().map(|one| at_line(one, source)).collect()
    };
    let problems = at_lines(compiled.problems);
    let verdict = if asks_policies && problems.is_empty() {
        verdict(visit, text, &compiled.compiled).await?
    } else {
        Verdict::None
    };
    let (preview, refusal) = if problems.is_empty() && !environment.is_empty() {
        body["environment"] = json!(environment);
        match visit.api.post(&format!("{path}/preview"), body).await {
            Ok(preview) => (Some(preview), None),
            // The rest is shown all the same.
            Err(error) => (None, visit.failed(error)?),
        }
    } else {
        (None, None)
    };
    Ok(Checked {
        preview,
        refusal,
        problems,
        warnings: at_lines(compiled.warnings),
        variables: compiled.variables,
        imports: compiled.imports,
        compiled: compiled.compiled,
        invisible: compiled.invisible_characters,
        verdict,
    })
}

fn at_line(problem: Diagnostic, source: &str) -> Problem {
    let Diagnostic { message, line, column } = problem;
    let text = source.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_string();
    Problem { message: sentence(&message), line, column, text }
}

async fn verdict(visit: &Visit, text: &Text<'_>, compiled: &str) -> Result<Verdict> {
    let mut body = json!({"registryRef": text.place.registry, "text": compiled});
    if let Some(model) = text.model {
        body["model"] = json!(model);
    }
    let asked = visit.api.post::<PolicyVerdict>("/governance/check", body).await;
    match asked {
        Ok(verdict) if verdict.issues.is_empty() => Ok(Verdict::Passed),
        Ok(verdict) => {
            let violation = |one: Violation| (one.severity == "error", sentence(&one.message));
            Ok(Verdict::Violations(verdict.issues.into_iter().map(violation).collect()))
        }
        Err(error) => Ok(match visit.failed(error)? {
            Some(error) => Verdict::Failed(sentence(error.message())),
            None => Verdict::None,
        }),
    }
}
