//! The kinds of artifacts that lie in registries.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::Key;

/// What kind of artifact something is.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Encode,
    Decode,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactType {
    /// What an agent is given.
    Prompt,
    /// A part that prompts and other promptlets import.
    Promptlet,
}

impl Key for ArtifactType {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        match u8::read(bytes)? {
            0 => Some(ArtifactType::Prompt),
            1 => Some(ArtifactType::Promptlet),
            _ => None,
        }
    }
}
