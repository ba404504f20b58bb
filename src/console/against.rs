//! What a text that is being written changes of a published version: against a label while one types.

use serde::Deserialize;

use super::diff::{self, Row};
use super::place::{Artifact, Place};
use super::visit::Visit;
use crate::base::{Kind, Result};

/// Rows that are shown: it is replaced each time somebody pauses. The comparison of versions has all.
const ROWS: usize = 200;
/// Bytes of a text that are shown where another page has all of it: one line may be 1 MiB.
pub const BYTES: usize = 20 * 1024;
/// Labels to choose from: an artifact may have a thousand.
const LABELS: usize = 50;
/// The label that is compared with unless another one is chosen.
const USUAL: &str = "production";

/// What differs from a version.
pub struct Difference {
    /// The label or number that was chosen.
    pub chosen: String,
    pub version: String,
    rows: Vec<Row>,
    /// Whether there are more.
    pub is_cut: bool,
}

impl Difference {
    /// What differs, as much as is shown.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

#[derive(Deserialize)]
struct Content {
    version: String,
    source: String,
}

/// What can be chosen, as value and text: labels, with the usual one and that which is chosen first, and
/// the newest version.
pub fn choices(artifact: &Artifact, chosen: &str) -> Vec<(String, String)> {
    let mut labels: Vec<_> = artifact.labels.iter().collect();
    labels.sort_by_key(|(label, _)| (*label != USUAL, *label != chosen));
    let labels = labels.into_iter().take(LABELS);
    let mut choices: Vec<_> =
        labels.map(|(label, version)| (label.clone(), format!("{label}: {version}"))).collect();
    let latest = &artifact.latest_version;
    choices.push((latest.clone(), format!("Latest: {latest}")));
    choices
}

/// What is compared with at first: what programs most likely read.
pub fn usual(artifact: &Artifact) -> &str {
    if artifact.labels.contains_key(USUAL) { USUAL } else { &artifact.latest_version }
}

/// What a text changes of the version that was chosen; `None` if there is none such.
pub async fn difference(
    visit: &Visit,
    place: &Place,
    chosen: &str,
    model: &str,
    source: &str,
) -> Result<Option<Difference>> {
    if chosen.is_empty() {
        return Ok(None);
    }
    let mut query = vec![("version", chosen)];
    query.extend((!model.is_empty()).then_some(("model", model)));
    let path = "/registries/artifact-versions/content";
    let content: Content = match visit.api.get(path, &place.query(&query)).await {
        Ok(content) => content,
        // The label was removed meanwhile, or the form has what no model is called.
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Invalid) => return Ok(None),
        Err(error) => return Err(error),
    };
    let rows = diff::between(&content.source, source, &mut { diff::MAX_LINES });
    let (rows, is_cut) = diff::beginning(rows, ROWS, BYTES);
    Ok(Some(Difference { chosen: chosen.into(), version: content.version, rows, is_cut }))
}
