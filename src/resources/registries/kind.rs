//! The kinds of artifacts that lie in registries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of artifact something is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactType {
    /// What an agent is given.
    Prompt,
    /// A part that prompts and other promptlets import.
    Promptlet,
}
crate::store::stored_enum!(ArtifactType { Prompt = 0, Promptlet = 1 });
