//! What the pages of a job and of a preview show of a plan: what changes for each target, the tools
//! with their definitions, and where manifests go.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent_versions::Change;
use crate::base::Time;
use crate::console::diff::{self, Row};
use crate::console::strict::Nullable;

/// Rows of all diffs on a page.
const ROWS: usize = 1000;

/// A tool of a plan.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanTool {
    tool_id: String,
    pub name: String,
    pub version: String,
    r#type: Nullable<String>,
    pub prompt: Nullable<String>,
    provider_config: Nullable<Map<String, Value>>,
    /// The names that are filled in.
    pub placeholders: Vec<String>,
    pub warnings: Vec<String>,
}

impl PlanTool {
    /// Its type.
    pub fn kind(&self) -> &str {
        self.r#type.as_deref().unwrap_or_default()
    }

    /// Its configuration, for people; empty if there is none.
    pub fn config(&self) -> Vec<(String, String)> {
        self.provider_config.as_ref().map(entries).unwrap_or_default()
    }
}

/// Where manifests are posted.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub endpoint: String,
    pub credential_set_at: Time,
    pub secrets: Vec<Secret>,
    pub variables: BTreeMap<String, String>,
}

/// A secret that is filled in.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    pub name: String,
    pub set_at: Time,
}

/// What changes for a target, as the API says it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    stable_key: Nullable<String>,
    tool_id: Nullable<String>,
    live: Nullable<Live>,
    diff: String,
    changes: Vec<Change>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Live {
    prompt_name: String,
    version: String,
}

/// What changes for a target, as pages show it.
pub struct Shown {
    /// Its stable key, or the name of the tool.
    pub key: String,
    /// Whether it is a tool, which has no text.
    pub is_tool: bool,
    /// What is or was live; empty if nothing.
    pub live: String,
    pub rows: Vec<Row>,
    /// Rows that are left out.
    pub rest: usize,
    pub changes: Vec<Change>,
}

/// The values of a configuration, each with where it is: `limits.daily` and `stop[0]`.
pub fn entries(config: &Map<String, Value>) -> Vec<(String, String)> {
    let mut entries = Vec::new();
    for (name, value) in config {
        collect(name.clone(), value, &mut entries);
    }
    entries
}

fn collect(path: String, value: &Value, entries: &mut Vec<(String, String)>) {
    match value {
        Value::Object(inner) if !inner.is_empty() => {
            inner.iter().for_each(|(name, one)| collect(format!("{path}.{name}"), one, entries));
        }
        Value::Array(inner) if !inner.is_empty() => {
            inner.iter().enumerate().for_each(|(at, one)| {
                collect(format!("{path}[{at}]"), one, entries);
            });
        }
        Value::String(text) => entries.push((path, text.clone())),
        other => entries.push((path, other.to_string())),
    }
}

/// Returns the targets for a page, with so many rows of their diffs as it may have.
pub fn shown(targets: Vec<Target>, tools: &[PlanTool]) -> Vec<Shown> {
    let mut left = ROWS;
    targets.into_iter().map(|target| one(target, tools, &mut left)).collect()
}

fn one(target: Target, tools: &[PlanTool], left: &mut usize) -> Shown {
    let mut rows = diff::rows(&target.diff);
    let rest = rows.len().saturating_sub(*left);
    rows.truncate(*left);
    *left -= rows.len();
    let live = target.live.0.map(|live| format!("{} {}", live.prompt_name, live.version));
    let tool = target.tool_id.as_deref();
    let tool = tool.map(|id| tools.iter().find(|one| one.tool_id == id));
    let name = tool.flatten().map(|tool| tool.name.clone());
    Shown {
        is_tool: tool.is_some(),
        key: target.stable_key.0.or(name).unwrap_or_default(),
        live: live.unwrap_or_default(),
        rows,
        rest,
        changes: target.changes,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_is_read_value_by_value() {
        let config = json!({"model": "m", "limits": {"daily": 3, "none": {}}, "stop": ["a", true]});
        let entries = entries(config.as_object().unwrap());
        let pairs: Vec<_> = entries.iter().map(|(path, value)| (&**path, &**value)).collect();
        let values = [
            ("model", "m"),
            ("limits.daily", "3"),
            ("limits.none", "{}"),
            ("stop[0]", "a"),
            ("stop[1]", "true"),
        ];
        assert_eq!(pairs, values);
    }
}
