//! Artifacts: prompts and promptlets, as they are published into a registry, version by version
//! (reference: registries-and-templates, "Artifacts").
//!
//! A version never changes: what it says was compiled when it was published ([`publishing`]), its
//! imports are frozen with it. What moves is which version is meant: the newest, the highest of a
//! range ([`versions`]), the one that a label stands on ([`labels`]). Whoever reads a content may
//! wait for another one to be meant ([`content`]).

mod artifact;
mod cloning;
mod content;
mod deletion;
mod dependents;
mod diff;
mod drafts;
mod labels;
mod prompts;
mod publishing;
mod soundness;
pub mod variables;
mod versions;

use bincode::{Decode, Encode};
use uuid::Uuid;

use super::registries::{self, ArtifactType, Registry};
use crate::api::{Req, Resource};
use crate::base::{ArtifactName, Error, Id, Name, Result};
use crate::store::{Key, TableInfo, Topic, View};

pub use publishing::{ArtifactVersion, Publication, publish};
pub use versions::{VersionRecord, VersionText, meant, text};

/// Artifacts with their versions and labels, drafts, and what is known of who uses what.
pub const RESOURCE: Resource = Resource {
    tables: &[TableInfo::of::<variables::VariableReference>()],
    checks: &[soundness::check],
    children: &[
        &artifact::RESOURCE,
        &publishing::RESOURCE,
        &versions::RESOURCE,
        &content::RESOURCE,
        &diff::RESOURCE,
        &dependents::RESOURCE,
        &cloning::RESOURCE,
        &deletion::RESOURCE,
        &labels::RESOURCE,
        &drafts::RESOURCE,
        &prompts::RESOURCE,
    ],
    ..Resource::EMPTY
};

/// Where nobody says which kind is meant (reference: registries-and-templates, "Artifacts").
const USUAL: ArtifactType = ArtifactType::Prompt;

/// The model that a text is for: a name like others.
pub type Model = Name;

/// The model of a text that is for every model that has none of its own.
const GENERIC: &str = "generic";

/// [`GENERIC`] as a model.
pub fn generic() -> Model {
    Model::stored(GENERIC.into())
}

/// What an artifact is: its place in its registry, under which everything about it is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct ArtifactId {
    /// The registry.
    pub registry: Id<Registry>,
    /// Its type.
    pub kind: ArtifactType,
    /// Its name, unique among those of its type.
    pub name: ArtifactName,
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
    /// The artifact that a request names, whether or not it is there.
    ///
    /// # Errors
    /// 404 for a name that none can have.
    fn named(registry: &Registry, kind: Option<ArtifactType>, name: &str) -> Result<Self> {
        let name = ArtifactName::parse(name).map_err(|_| Error::not_found())?;
        Ok(ArtifactId { registry: registry.id, kind: kind.unwrap_or(USUAL), name })
    }

    /// What is signalled when another version of it may be meant than before.
    fn topic(&self) -> Topic {
        let made = blake3::derive_key("roadstead 2026 topic of an artifact", &self.to_bytes());
        Uuid::from_bytes(*made.first_chunk().expect("a key has 32 bytes"))
    }
}

/// The registry that a read names: a public one is open to anybody.
fn require_readable<P, I>(view: &View, req: &Req<P, I>, reference: &str) -> Result<Registry> {
    registries::require_readable(view, req.caller_if_any(), reference)
}

#[cfg(test)]
pub mod tests;
