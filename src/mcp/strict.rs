//! What prompts and resources read of the API's answers: fields that must be there.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A page of a list. Serde takes an absent cursor for none, which ends a walk early and is seen.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
}

/// A registry.
#[derive(Debug, Deserialize)]
pub struct Registry {
    #[serde(rename = "ref")]
    pub reference: String,
    pub slug: String,
}

/// A prompt or promptlet.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub name: String,
    pub artifact_type: String,
    pub latest_version: String,
    /// The labels, each with its version.
    pub labels: BTreeMap<String, String>,
}

/// A version of a prompt.
#[derive(Debug, Deserialize)]
pub struct Version {
    pub version: String,
    pub variables: Vec<String>,
}

/// The text of a version.
#[derive(Debug, Deserialize)]
pub struct Content {
    pub compiled: String,
}

/// A rendered prompt.
#[derive(Debug, Deserialize)]
pub struct Rendered {
    pub text: String,
    pub version: String,
    pub missing: Vec<String>,
}

/// A list of which only the items are passed on.
#[derive(Debug, Deserialize)]
pub struct Items {
    pub items: Value,
}
