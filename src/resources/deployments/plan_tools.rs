//! Planning deployments of tools: which versions an environment refers to.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::access;
use super::deployed_tool::DeployedTool;
use super::job::PlannedTool;
use super::plan::{MAX_TARGETS, Plan, hashed};
use super::state::JobKind;
use super::target::PlannedTarget;
use crate::api::Input;
use crate::auth::Caller;
use crate::base::{BoundedList, Error, Id, Issue, Result, Version};
use crate::resources::tools::{self, Tool};
use crate::store::View;

// ── What callers send ────────────────────────────────────────────────────────

/// Versions of tools to use in an environment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"toolIds": ["01890a5d-ac96-774b-bcce-b302099a8057"],
        "environment": "production", "version": "1.2.0"}],
    "if" = {"required": ["version"], "properties": {"version": {"type": "string"}}},
    "then" = {"properties": {"toolIds": {"maxItems": 1}}},
))]
pub struct NewToolDeployment {
    /// The tools; each once.
    tool_ids: BoundedList<Id<Tool>, 1, MAX_TARGETS>,
    /// The environment, by id or slug.
    environment: String,
    /// The version, of a single tool; by default the newest of each.
    version: Option<Version>,
}

impl Input for NewToolDeployment {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.version.is_some() && self.tool_ids.len() > 1 {
            issues.push(Issue::new("version", "must be sent with a single tool only"));
        }
    }
}

// ── Plans ────────────────────────────────────────────────────────────────────

/// Plans a deployment of tools.
///
/// # Errors
/// 404 for what does not exist, 403 without a grant, 400 for a tool that is named twice.
pub fn plan_tools(view: &View, caller: &Caller, new: &NewToolDeployment) -> Result<Plan> {
    let environment = access::find_environment(view, &new.environment)?;
    let tools: Vec<Tool> = new.tool_ids.iter().map(|id| view.fetch(id)).collect::<Result<_>>()?;
    let mut plan = Plan::new(JobKind::Tools, environment.open(view, caller)?, None);
    for (n, tool) in tools.into_iter().enumerate() {
        if new.tool_ids[..n].contains(&tool.id) {
            let path = format!("toolIds[{n}]");
            return Err(Error::invalid_at(path, "must not name the same tool as one before it"));
        }
        let version = new.version.as_ref().unwrap_or(&tool.version);
        let tool = tools::version(view, tool.id, version)?
            .map(|version| (tool.id, version))
            .ok_or_else(|| Error::no_such("version of the tool").at("version"))?;
        add_tool_target(&mut plan, tool)?;
    }
    Ok(plan)
}

/// Adds a version of a tool to a plan.
///
/// # Errors
/// 413 if the plan becomes too large.
pub fn add_tool_target(plan: &mut Plan, (id, tool): (Id<Tool>, tools::ToolVersion)) -> Result<()> {
    let config = json!({"name": tool.name, "type": tool.kind});
    let (config, bytes) = plan.contents.add_json(&config)?;
    let definition = DeployedTool::new(id, tool.clone());
    let (definition, tool_bytes) = plan.contents.add_json(&definition)?;
    plan.add_tool(PlannedTool { tool: id, name: tool.name, version: tool.version.clone() })?;
    let target = PlannedTarget {
        agent: None,
        tool: Some(id),
        version: tool.version,
        text: None,
        config,
        tools: vec![definition],
        hash: String::new(),
        bytes: bytes as u64,
        tool_bytes: tool_bytes as u64,
    };
    plan.add_target(hashed(None, target)?)
}
