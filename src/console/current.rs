//! The text of a prompt that programs read: that of the label that matters, or of another one.

use serde::Deserialize;

use super::against;
use super::place::{Artifact, Place};
use super::texts;
use super::visit::Visit;
use crate::base::{Kind, Result, visible};

/// Lines and bytes that the page of a prompt shows: that of a version has all.
const MAX_LINES: usize = 200;
const MAX_BYTES: usize = against::BYTES;
/// Variables that it lists, of up to 5,000.
const MAX_VARIABLES: usize = 50;

/// A text with what selects it.
pub struct Current {
    /// The label; empty if it is the newest version.
    pub label: String,
    pub version: String,
    pub lines: Vec<String>,
    /// Whether that is the beginning only.
    pub is_cut: bool,
    pub variables: Vec<String>,
    /// How many more it has.
    pub more_variables: usize,
    /// What is said of characters that nobody sees.
    pub invisible: String,
    /// What can be selected, as value and text.
    pub choices: Vec<(String, String)>,
    /// Which of them is.
    pub chosen: String,
}

#[derive(Deserialize)]
struct Content {
    version: String,
    model: String,
    source: String,
    compiled: String,
}

impl Current {
    /// The text that the query selects or else the usual one; `None` if there is no text for every model.
    pub async fn read(visit: &Visit, place: &Place, artifact: &Artifact) -> Result<Option<Self>> {
        let latest = &artifact.latest_version;
        let is_known = |asked: &&str| artifact.labels.contains_key(*asked) || latest == asked;
        let asked = visit.query.some("label").filter(is_known);
        let chosen = asked.unwrap_or_else(|| against::usual(artifact)).to_string();
        let path = "/registries/artifact-versions/content";
        let query = place.query(&[("version", &chosen)]);
        let content: Content = match visit.api.get(path, &query).await {
            Ok(content) => content,
            // Each text of the version is for one model.
            Err(error) if error.kind() == Kind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let rows = place.rows(&visit.api, &content.version).await?;
        let row = rows.into_iter().find(|row| row.model == content.model);
        let mut variables = row.map(|row| row.variables).unwrap_or_default();
        let more_variables = variables.len().saturating_sub(MAX_VARIABLES);
        variables.truncate(MAX_VARIABLES);
        let (lines, is_cut) = beginning(&content.source);
        let is_label = artifact.labels.contains_key(&chosen);
        Ok(Some(Current {
            label: if is_label { chosen.clone() } else { String::new() },
            version: content.version,
            lines,
            is_cut,
            variables,
            more_variables,
            invisible: texts::invisible(visible::count(&content.compiled)),
            choices: against::choices(artifact, &chosen),
            chosen,
        }))
    }

    /// What programs name to read it; `None` for the newest version.
    pub fn selector(&self) -> Option<&str> {
        Some(self.label.as_str()).filter(|label| !label.is_empty())
    }
}

/// The first lines of a text, and whether there is more.
fn beginning(text: &str) -> (Vec<String>, bool) {
    let part = &text[..text.floor_char_boundary(MAX_BYTES)];
    let lines: Vec<_> = part.lines().take(MAX_LINES).map(String::from).collect();
    let is_cut = part.len() < text.len() || part.lines().count() > MAX_LINES;
    (lines, is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_or_line_is_shown_to_its_bound() {
        assert_eq!(beginning("one\ntwo\n"), (vec!["one".into(), "two".into()], false));
        let (lines, is_cut) = beginning(&"a\n".repeat(MAX_LINES + 1));
        assert_eq!((lines.len(), is_cut), (MAX_LINES, true));
        // A letter of two bytes that the bound would divide is left out.
        let (lines, is_cut) = beginning(&format!("a{}", "ä".repeat(MAX_BYTES)));
        assert_eq!((lines[0].len(), is_cut), (MAX_BYTES - 1, true));
    }
}
