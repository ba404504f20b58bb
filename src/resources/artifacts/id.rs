//! Identifies an artifact, and the model that a text is for.

use bincode::{Decode, Encode};
use uuid::Uuid;

use crate::base::{ArtifactName, Error, Id, Name, Result};
use crate::resources::registries::{ArtifactType, Registry};
use crate::store::{Key, Topic};

/// The type of an artifact where a request has none
/// (reference: registries-and-templates, "Artifacts").
pub const DEFAULT_TYPE: ArtifactType = ArtifactType::Prompt;

/// The model that a text is for: a name like others.
pub type Model = Name;

/// The model of a text that serves every model without a text of its own.
pub const GENERIC: &str = "generic";

/// Returns [`GENERIC`] as a model.
pub fn generic() -> Model {
    Model::from_trusted(GENERIC.into())
}

crate::base::portable! {
/// The identity of an artifact: its registry, type and name. Every record of it has them in its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct ArtifactId {
    pub registry: Id<Registry>,
    pub kind: ArtifactType,
    /// Its name, unique among those of its type.
    pub name: ArtifactName,
}
}

impl Key for ArtifactId {
    fn write(&self, out: &mut Vec<u8>) {
        self.registry.write(out);
        self.kind.write(out);
        self.name.write(out);
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(ArtifactId {
            registry: Id::read(bytes)?,
            kind: ArtifactType::read(bytes)?,
            name: ArtifactName::read(bytes)?,
        })
    }
}

impl ArtifactId {
    /// Returns the identity that a request names, whether or not such an artifact exists.
    ///
    /// # Errors
    /// 404 for a name that no artifact can have.
    pub fn parse(registry: &Registry, kind: Option<ArtifactType>, name: &str) -> Result<Self> {
        let name = ArtifactName::parse(name)
            .map_err(|_| Error::no_such("artifact").missing(name.to_string().to_bytes()))?;
        Ok(ArtifactId { registry: registry.id, kind: kind.unwrap_or(DEFAULT_TYPE), name })
    }

    /// The topic that is notified when a selector may resolve to another version than before.
    pub fn topic(&self) -> Topic {
        let hash = blake3::derive_key("roadstead 2026 topic of an artifact", &self.to_bytes());
        Uuid::from_bytes(*hash.first_chunk().expect("a key has 32 bytes"))
    }
}
