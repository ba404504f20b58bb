//! An agent's configuration: its prompt, model, tools and variables. The draft of an agent is one,
//! and every version has one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::base::{BoundedList, Error, Id, JsonMap, Nullable, Result, Text, VariableName, Version};
use crate::resources::tools::{self, Tool};
use crate::store::{Key, Record, View};

/// An agent uses at most 100 tools: more than any model chooses well from, and few enough to be
/// looked up one by one.
pub const MAX_TOOL_REFS: usize = 100;

crate::base::portable! {
/// A tool that an agent uses.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRef {
    pub tool_id: Id<Tool>,
    /// The exact version; null for the environment's, or else the newest.
    pub version: Option<Version>,
}
}

/// A reference to a registry, as written.
pub type RegistryRef = Text<1, 200>;
/// The name of a prompt, as written.
pub type PromptName = Text<1, 128>;
/// A version, a range or a label, as written.
pub type PromptVersion = Text<1, 64>;
/// The name of a model.
pub type Model = Text<1, 200>;
/// The name of a provider.
pub type Provider = Text<1, 200>;
/// Values of variables, by name.
pub type Variables = BTreeMap<VariableName, Text<0, 100_000>>;

/// The schema of [`Variables`], with a name: a generator would have to make up one where they may be
/// null.
pub struct VariablesSchema;

impl JsonSchema for VariablesSchema {
    fn schema_name() -> Cow<'static, str> {
        "AgentVariables".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Variables::json_schema(generator);
        schema.insert("description".into(), "Values of variables, by name.".into());
        schema
    }
}

/// An agent's configuration. References into a registry need not exist yet.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfig {
    /// The registry of its prompt.
    pub registry_ref: Option<RegistryRef>,
    /// The name of its prompt.
    pub prompt_name: Option<PromptName>,
    /// An exact version, a range or a label.
    pub prompt_version: Option<PromptVersion>,
    /// The model it runs on.
    pub model: Option<Model>,
    /// The provider of the model.
    pub provider: Option<Provider>,
    /// The tools it uses.
    pub tool_refs: Vec<ToolRef>,
    /// The agent's own variables, by name.
    #[schemars(with = "VariablesSchema")]
    pub variables: Variables,
    /// Settings for the provider, stored as sent.
    pub provider_config: JsonMap,
}
crate::base::portable!(AgentConfig {
    prompt_name, prompt_version, model, provider, tool_refs, variables, provider_config,
} refs { registry_ref });

/// Changes to a configuration; absent fields keep their value.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfigPatch {
    #[serde(default)]
    registry_ref: Nullable<RegistryRef>,
    #[serde(default)]
    prompt_name: Nullable<PromptName>,
    #[serde(default)]
    prompt_version: Nullable<PromptVersion>,
    #[serde(default)]
    model: Nullable<Model>,
    #[serde(default)]
    provider: Nullable<Provider>,
    tool_refs: Option<BoundedList<ToolRef, 0, MAX_TOOL_REFS>>,
    #[schemars(with = "Option<VariablesSchema>")]
    variables: Option<Variables>,
    provider_config: Option<JsonMap>,
}

impl AgentConfigPatch {
    /// Returns `config` with these changes.
    ///
    /// # Errors
    /// 404 for a tool, or a version of one, that does not exist.
    pub fn applied_to(&self, view: &View, config: &AgentConfig) -> Result<AgentConfig> {
        for tool in self.tool_refs.as_deref().unwrap_or_default() {
            require_tool(view, tool)?;
        }
        let patch = self.clone();
        let mut config = config.clone();
        patch.registry_ref.apply(&mut config.registry_ref);
        patch.prompt_name.apply(&mut config.prompt_name);
        patch.prompt_version.apply(&mut config.prompt_version);
        patch.model.apply(&mut config.model);
        patch.provider.apply(&mut config.provider);
        config.tool_refs = patch.tool_refs.map_or(config.tool_refs, BoundedList::into_vec);
        config.variables = patch.variables.unwrap_or(config.variables);
        config.provider_config = patch.provider_config.unwrap_or(config.provider_config);
        Ok(config)
    }
}

fn require_tool(view: &View, tool: &ToolRef) -> Result<()> {
    if !view.has::<Tool>(&tool.tool_id)? {
        return Err(Tool::missing(&tool.tool_id));
    }
    match &tool.version {
        Some(version) if tools::version(view, tool.tool_id, version)?.is_none() => {
            Err(Error::no_such("tool version").missing(version.to_string().to_bytes()))
        }
        _ => Ok(()),
    }
}
