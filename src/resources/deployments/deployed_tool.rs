//! The definition of a tool, as manifests have it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{Id, JsonMap, Name, Prompt, VariableName, Version, visible};
use crate::resources::tools::{Tool, ToolKind, ToolVersion, variables};
use crate::templates::placeholder_warnings;

/// Warnings of one tool; there may be more.
const MAX_WARNINGS: usize = 20;

/// Longer paths are cut in warnings: there may be as many as a configuration has strings.
const MAX_PATH: usize = 200;

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
    /// What looks like a mistake in its configuration, each with its path, the first 20. `is_other` says
    /// whether a name that may stand for `$` has another value.
    pub fn warnings(&self, is_other: impl Fn(&str) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        for (name, value) in self.provider_config.to_map() {
            warn(&below("", &name), &value, &is_other, &mut found);
        }
        found
    }
}

fn warn(path: &str, value: &Value, is_other: &impl Fn(&str) -> bool, found: &mut Vec<String>) {
    if found.len() >= MAX_WARNINGS {
        return;
    }
    match value {
        Value::String(text) => {
            let here = placeholder_warnings(text, is_other).take(MAX_WARNINGS - found.len());
            found.extend(here.map(|what| visible::line(&format!("{path}: {what}")).into_owned()));
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                warn(&below(path, &format!("[{at}]")), item, is_other, found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                warn(&below(path, &format!(".{name}")), value, is_other, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn below(path: &str, step: &str) -> String {
    if path.len() + step.len() <= MAX_PATH {
        return format!("{path}{step}");
    }
    format!("{}…", path.trim_end_matches('…'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warnings_have_their_path_and_are_bounded() {
        let tool = |config: Value| -> DeployedTool {
            let tool = json!({"toolId": "01890a5d-ac96-774b-bcce-b302099a8057", "name": "t",
                "version": "1.0.0", "type": "http", "prompt": null, "providerConfig": config});
            serde_json::from_value(tool).unwrap()
        };
        let config = json!({"p": {"a": ["${HOME}", "${DOLLAR}{A}${ HOME }"]}});
        assert_eq!(tool(config.clone()).warnings(|_| false).len(), 1);
        let found = tool(config).warnings(|_| true);
        assert!(found[0].starts_with("p.a[1]: ${DOLLAR} is not $ here"), "{found:?}");
        assert!(found[1].starts_with("p.a[1]: ${ HOME } is plain text"), "{found:?}");
        let many = json!({"p": "${ A }".repeat(1000), "q": "${ A }"});
        assert_eq!(tool(many).warnings(|_| false).len(), MAX_WARNINGS);
        let deep = json!({"a".repeat(150): {"b".repeat(150): {"c": "${ A }"}}});
        let found = tool(deep).warnings(|_| false);
        assert!(found[0].starts_with(&format!("{}….c: ", "a".repeat(150))), "{found:?}");
    }
}
