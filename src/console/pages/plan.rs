//! What the pages of a job and of a preview show of a plan: what changes for each target, the tools
//! with their definitions, and where manifests go.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::change_lines::{Change, Line, Lines, entries, tool_names};
use crate::base::Time;
use crate::console::diff::{self, Row};
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

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
    pub lines: Vec<Line>,
    /// Whether more differs than the page shows.
    pub is_cut: bool,
}

/// Returns the targets for a page, with so much of what differs as it may have.
pub async fn shown(visit: &Visit, targets: Vec<Target>, tools: &[PlanTool]) -> Vec<Shown> {
    let known = tools.iter().map(|tool| (tool.tool_id.clone(), tool.name.clone())).collect();
    let changes: Vec<_> = targets.iter().flat_map(|target| &target.changes).collect();
    let names = tool_names(visit, &changes, known).await;
    let (mut left, mut lines) = (ROWS, Lines::new(&names));
    let one = |target: Target| {
        let (lines, is_cut) = lines.of(target.changes);
        let mut rows = diff::rows(&target.diff);
        let rest = rows.len().saturating_sub(left);
        rows.truncate(left);
        left -= rows.len();
        let live = target.live.0.map(|live| format!("{} {}", live.prompt_name, live.version));
        let name = target.tool_id.as_deref().and_then(|id| names.get(id).cloned());
        Shown {
            is_tool: target.tool_id.is_some(),
            key: target.stable_key.0.or(name).unwrap_or_default(),
            live: live.unwrap_or_default(),
            rows,
            rest,
            lines,
            is_cut,
        }
    };
    targets.into_iter().map(one).collect()
}
