//! What is tried: a published version, a draft, or a text that is not saved.

use super::super::compiling::compile;
use super::super::draft::Draft;
use super::super::drafts;
use super::super::id::{ArtifactId, Model, generic};
use super::super::versions;
use crate::auth::{Caller, ScopeName};
use crate::base::{Error, Id, Result, Version, hex};
use crate::resources::llm_providers::{Attempt, DEFAULT_ATTEMPT_TOKENS};
use crate::resources::registries::{self, Registry};
use crate::store::View;

/// What a request names: at most one of the three; without any the newest version.
#[derive(Clone, Copy, Default)]
pub struct Tried<'a> {
    /// A version, a range or a label.
    pub version: Option<&'a str>,
    pub draft: Option<Id<Draft>>,
    /// A text that is not saved.
    pub source: Option<&'a str>,
}

/// A compiled text that is tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The text with its imports inserted; variables are left in place.
    pub compiled: String,
    /// How the audit log calls it; a text by its hash.
    pub name: String,
    /// The version, if it is a published one.
    pub version: Option<Version>,
    /// The variables, in order of first appearance.
    pub variables: Vec<String>,
}

/// Returns what is tried; of a version the text for this model, if it has one.
///
/// # Errors
/// 404 if there is no such version or draft; 403 for a draft that the caller's key may not read; 400 for a
/// text that does not compile.
pub fn subject(
    view: &View,
    caller: &Caller,
    registry: &Registry,
    id: &ArtifactId,
    tried: &Tried,
    model: Option<&str>,
) -> Result<Subject> {
    let text_for = model.and_then(|model| Model::parse(model).ok()).unwrap_or_else(generic);
    if let Some(draft) = tried.draft {
        let target = registries::scope_target(registry);
        caller.require_scope(ScopeName::DraftRead, Some(&target))?;
        let names = (id.name.to_string(), draft);
        let found = drafts::fetch(view, registry, Some(id.kind), &names)
            .map_err(|error| error.at("draftId"))?;
        return compiled(view, id, &text_for, &found.body, ("draftId", format!("draft {draft}")));
    }
    if let Some(source) = tried.source {
        let hash = hex(&blake3::hash(source.as_bytes()).as_bytes()[..8]);
        return compiled(view, id, &text_for, source, ("source", format!("text {hash}")));
    }
    let selector = versions::selector(tried.version);
    let row = versions::resolve(view, id, &selector, model)?
        .ok_or_else(|| versions::none_selected(view, id, "version"))?;
    let text = versions::text(view, &row)?;
    Ok(Subject {
        compiled: text.compiled().to_string(),
        name: format!("version {} ({})", row.version, row.model),
        version: Some(row.version),
        variables: row.variables,
    })
}

/// Compiles a text that is not published.
fn compiled(
    view: &View,
    id: &ArtifactId,
    model: &Model,
    source: &str,
    (field, name): (&'static str, String),
) -> Result<Subject> {
    let compilation = compile(view, id, model, source)?.compilation;
    if let Some(problem) = compilation.problems.first() {
        let message = format!("does not compile: {problem}");
        return Err(Error::invalid_at(field, message));
    }
    let (compiled, variables) = (compilation.text, compilation.variables);
    Ok(Subject { compiled, name, version: None, variables })
}

/// How a model is asked.
#[derive(Clone, Debug, Default)]
pub struct TryOptions {
    pub model: Option<String>,
    pub max_tokens: Option<u32>,
    pub temperature: Option<f64>,
    /// The time for the answer, in seconds.
    pub total_secs: u64,
}

/// Returns what is sent to a model: the prompt as its instructions, and the message after it. Without a
/// message the prompt is the message.
pub fn attempt_of(text: String, message: Option<&str>, options: &TryOptions) -> Attempt {
    let (system, message) = match message {
        Some(message) => (Some(text), message.to_string()),
        None => (None, text),
    };
    Attempt {
        system,
        message,
        model: options.model.clone(),
        max_tokens: options.max_tokens.unwrap_or(DEFAULT_ATTEMPT_TOKENS),
        temperature: options.temperature,
        total_secs: options.total_secs,
    }
}
