//! The definition of a tool, as manifests have it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::{Id, JsonMap, Name, Prompt, VariableName, Version};
use crate::resources::tools::{Tool, ToolKind, ToolVersion, variables};

/// A tool as it was deployed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployedTool {
    /// Identifier of the tool.
    pub tool_id: Id<Tool>,
    /// Its name.
    pub name: Name,
    /// Its version.
    pub version: Version,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ToolKind,
    /// Instructions for agents that use it.
    pub prompt: Option<Prompt>,
    /// Its definition per provider. `${NAME}` stands for a secret or variable of the environment.
    pub provider_config: JsonMap,
}

impl DeployedTool {
    /// Returns the definition of a version, nothing filled in.
    pub fn new(tool_id: Id<Tool>, tool: ToolVersion) -> Self {
        let ToolVersion { name, version, kind, prompt, provider_config, .. } = tool;
        DeployedTool { tool_id, name, version, kind, prompt, provider_config }
    }

    /// The names of the secrets and variables that are filled into it.
    pub fn placeholders(&self) -> BTreeSet<VariableName> {
        variables::variables_in(&self.provider_config)
    }
}
