//! What a label change changes of what clients read: for each model the text and the metadata of the
//! version that they got so far beside those of the one that they get.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::super::id::{ArtifactId, Model};
use super::super::label_change::LabelChange;
use super::super::version::{VersionRecord, versions_at};
use super::super::{metadata, versions};
use super::access::{CHANGE_IN_PATH, fetch};
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::diff::{MAX_COMPARED_LINES, unified};
use crate::base::{Error, Id, Result, Selector, Version, visible};
use crate::store::{Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A page ends after 8 MiB of texts and metadata: a text for one model alone may have half of that with
/// its imports.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// What a label change changes for a model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelChangeText {
    /// The model that clients read for; `generic` stands for all that have no text of their own.
    model: Model,
    /// A unified diff of the texts with their imports; empty if they are equal.
    diff: String,
    /// A unified diff of the metadata, as JSON; empty if they are equal.
    metadata_diff: String,
    /// Variables that only the new text uses.
    added_variables: Vec<String>,
    /// Variables that only the text so far uses.
    removed_variables: Vec<String>,
    /// How many characters of the new text a reader would not see, such as tags and blanks of no width.
    invisible_characters: usize,
}

impl Output for LabelChangeText {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// What clients read for a model.
#[derive(Default)]
struct Read {
    text: String,
    metadata: String,
    variables: Vec<String>,
}

impl Read {
    fn of(view: &View, row: Option<VersionRecord>) -> Result<Self> {
        let Some(row) = row else { return Ok(Read::default()) };
        let metadata = metadata::get(view, &row)?;
        let metadata = serde_json::to_string_pretty(&metadata)
            .map_err(|e| Error::internal(format!("metadata cannot be shown: {e}")))?;
        let text = versions::text(view, &row)?.compiled().to_string();
        Ok(Read { text, metadata: metadata + "\n", variables: row.variables })
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.metadata.len()
    }

    fn only_here(&self, other: &Read) -> Vec<String> {
        let other: BTreeSet<&String> = other.variables.iter().collect();
        self.variables.iter().filter(|name| !other.contains(name)).cloned().collect()
    }
}

/// Lists the models that either version has a text for, with what changes for each.
pub(super) fn list(view: &View, req: &Req<Id<LabelChange>>) -> Result<Page<LabelChangeText>> {
    let (change, _) = fetch(view, req.caller(), req.params)?;
    let after = req.page.after.as_deref();
    let models: Vec<Model> = models(view, &change)?
        .into_iter()
        .filter(|model| after.is_none_or(|after| model.as_str().as_bytes() > after))
        .collect();
    let (mut items, mut bytes, mut lines) = (Vec::new(), 0, MAX_COMPARED_LINES);
    for model in &models {
        if items.len() == req.page.limit || bytes >= MAX_PAGE_BYTES {
            break;
        }
        let old = read(view, &change.of, change.from.as_ref(), model)?;
        let new = read(view, &change.of, change.to.as_ref(), model)?;
        bytes += old.bytes() + new.bytes();
        items.push(compared(&change, model, (&old, &new), &mut lines));
    }
    let last = items.last().map(|item: &LabelChangeText| item.model.as_str().as_bytes().to_vec());
    let next = last.filter(|_| items.len() < models.len());
    Ok(Page { items, next })
}

fn models(view: &View, change: &LabelChange) -> Result<BTreeSet<Model>> {
    let mut models = BTreeSet::new();
    for version in [&change.from, &change.to].into_iter().flatten() {
        models.extend(versions_at(view, &change.of, version)?.into_iter().map(|row| row.model));
    }
    Ok(models)
}

/// Returns what clients read of a version for a model: nothing if there is none.
fn read(view: &View, of: &ArtifactId, version: Option<&Version>, model: &Model) -> Result<Read> {
    let Some(version) = version else { return Ok(Read::default()) };
    Read::of(
        view,
        versions::resolve(view, of, &Selector::parse(version.as_str()), Some(model.as_str()))?,
    )
}

fn compared(
    change: &LabelChange,
    model: &Model,
    (old, new): (&Read, &Read),
    lines: &mut usize,
) -> LabelChangeText {
    let name = |version: &Option<Version>| {
        version.as_ref().map_or_else(|| "nothing".to_string(), |version| version.to_string())
    };
    let (from, to) = (name(&change.from), name(&change.to));
    let names = (from.as_str(), to.as_str());
    LabelChangeText {
        model: model.clone(),
        diff: unified(&old.text, &new.text, names, lines),
        metadata_diff: unified(&old.metadata, &new.metadata, names, lines),
        added_variables: new.only_here(old),
        removed_variables: old.only_here(new),
        invisible_characters: visible::count_in(&json!([new.text, new.metadata])),
    }
}

fn routes() -> Vec<Route> {
    const DIFF: &str = "/registries/artifacts/label-changes/{changeId}/diff";
    vec![
        Route::get(DIFF, MEMBER, "label_change.diff", op::list(list))
            .needs_for(ScopeName::ArtifactRead, &CHANGE_IN_PATH)
            .costly()
            .about("List what a label change changes, by model"),
    ]
}
