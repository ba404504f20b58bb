//! The types of artifacts in a registry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The type of an artifact.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactType {
    /// A text for an agent.
    Prompt,
    /// A fragment that prompts and other promptlets import.
    Promptlet,
}
crate::store::stored_enum!(ArtifactType { Prompt = 0, Promptlet = 1 });
