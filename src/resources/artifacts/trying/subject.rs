//! What is tried: a published version, a draft, or a text that is not saved.

use super::super::compiling::compile;
use super::super::draft::Draft;
use super::super::drafts;
use super::super::id::{ArtifactId, Model, generic};
use super::super::versions;
use crate::auth::{Caller, ScopeName};
use crate::base::{Error, Id, Result, Version, hex};
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
    Ok(Subject { compiled: compilation.text, name, version: None })
}
