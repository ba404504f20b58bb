//! The contents of a job: filled texts, configurations and definitions of tools. Each is stored once,
//! though several targets share it, and apart from the rows that lists read.

use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::job::DeploymentJob;
use crate::base::{Error, Id, JsonMap, Kind, Name, Prompt, Result, VariableName, Version, visible};
use crate::resources::tools::{Tool, ToolKind, ToolVersion, variables};
use crate::store::{AnyIndex, AnyReference, Export, Index, Key, Record, Reference, Tx, View};
use crate::templates::placeholder_warnings;

/// The contents of a job have at most 6 MiB: they are written in one transaction, which has room for
/// 8 MiB, and a posted manifest consists of them.
const MAX_CONTENT_BYTES: usize = 6 * 1024 * 1024;

/// The BLAKE3 hash of a content.
pub type ContentHash = [u8; 32];

crate::base::portable! {
/// A content of a job.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentContent {
    job: Id<DeploymentJob>,
    hash: ContentHash,
    text: String,
}
}

/// Contents that are definitions of tools, by the tool and the numbers of its version: what a version
/// stands for does not change once there is one.
pub static BY_TOOL_VERSION: Index<DeploymentContent, (Id<Tool>, u64, u64, u64)> =
    Index::non_unique("deployment_contents.by_tool_version", |content| {
        // Texts and configurations are not parsed, which may be large.
        let is_definition = content.text.starts_with("{\"toolId\":");
        let tool = is_definition.then(|| serde_json::from_str::<DefinedTool>(&content.text));
        let DefinedTool { tool_id, version } = tool?.ok()?;
        let [major, minor, patch] = version.numbers();
        Some((tool_id, major, minor, patch))
    });

/// What the index takes from the definition of a tool.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinedTool {
    tool_id: Id<Tool>,
    version: Version,
}

static JOB: Reference<DeploymentContent, DeploymentJob> = Reference::cascade(
    &["job"],
    |job: &DeploymentJob| job.id.to_bytes(),
    |content: &DeploymentContent, _| vec![content.job.to_bytes()],
);

impl Record for DeploymentContent {
    const TABLE: &'static str = "deployment_contents";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TOOL_VERSION];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&JOB];
    type Key = (Id<DeploymentJob>, ContentHash);
    fn key(&self) -> Self::Key {
        (self.job, self.hash)
    }
}

/// The contents of a job that is being planned.
#[derive(Default)]
pub struct Contents {
    texts: BTreeMap<ContentHash, String>,
    bytes: usize,
}

impl Contents {
    /// Adds a text; returns its hash.
    ///
    /// # Errors
    /// 413 if there would be more than [`MAX_CONTENT_BYTES`].
    pub fn add(&mut self, text: String) -> Result<ContentHash> {
        let hash = *blake3::hash(text.as_bytes()).as_bytes();
        if !self.texts.contains_key(&hash) {
            self.bytes += text.len();
            if self.bytes > MAX_CONTENT_BYTES {
                return Err(too_large());
            }
            self.texts.insert(hash, text);
        }
        Ok(hash)
    }

    /// Adds a value as JSON; returns its hash and its size in bytes.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_json(&mut self, value: &impl Serialize) -> Result<(ContentHash, usize)> {
        let text = serde_json::to_string(value)
            .map_err(|e| Error::internal(format!("a content cannot be written: {e}")))?;
        let bytes = text.len();
        Ok((self.add(text)?, bytes))
    }

    /// Returns an added text.
    pub fn get(&self, hash: &ContentHash) -> &str {
        self.texts.get(hash).map_or("", String::as_str)
    }

    /// Returns an added value.
    ///
    /// # Errors
    /// 500 if it was not added or is of another type.
    pub fn json<T: DeserializeOwned>(&self, hash: &ContentHash) -> Result<T> {
        parse(self.get(hash))
    }

    /// Writes the contents of `job`.
    pub fn insert(&self, tx: &mut Tx, job: Id<DeploymentJob>) -> Result<()> {
        self.texts.iter().try_for_each(|(hash, text)| {
            tx.insert(&DeploymentContent { job, hash: *hash, text: text.clone() })
        })
    }
}

/// The error of a job that is too large.
pub fn too_large() -> Error {
    Error::new(
        Kind::TooLarge,
        "deployment_too_large",
        "the texts, configurations and tools of this deployment are too large together; deploy \
         fewer agents at once",
    )
}

/// Reads a content that is JSON.
///
/// # Errors
/// 500 if it is of another type.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|e| Error::internal(format!("a planned content cannot be read: {e}")))
}

/// Returns a content of a job.
///
/// # Errors
/// 500 if the job does not have it.
pub fn text(view: &View, job: Id<DeploymentJob>, hash: &ContentHash) -> Result<String> {
    let content = view.get::<DeploymentContent>(&(job, *hash))?;
    let content = content.ok_or_else(|| Error::internal(format!("{job} lacks a content")))?;
    Ok(content.text)
}

/// Returns a content of a job that is JSON.
///
/// # Errors
/// 500 if the job does not have it or it is of another type.
pub fn json<T: DeserializeOwned>(
    view: &View,
    job: Id<DeploymentJob>,
    hash: &ContentHash,
) -> Result<T> {
    serde_json::from_str(&text(view, job, hash)?)
        .map_err(|e| Error::internal(format!("a content of {job} cannot be read: {e}")))
}

// ── Tools ────────────────────────────────────────────────────────────────────

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
