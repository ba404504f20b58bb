//! Artifacts: prompts and promptlets, published into a registry version by version
//! (reference: registries-and-templates, "Artifacts").
//!
//! A version never changes: its text is compiled when it is published ([`publishing`]), with the
//! versions of its imports fixed. What moves is the version that a selector resolves to: the
//! newest, the highest of a range ([`versions`]), or the version of a label ([`labels`]). A client
//! can wait until its selector resolves to another version ([`content`]).
//!
//! Records are in files of their own ([`artifact`], [`version`]), which import no operations.

mod artifact;
mod cloning;
mod comparing;
mod compiling;
mod consistency;
mod content;
mod deletion;
mod dependents;
mod diff;
mod draft;
mod drafts;
mod id;
mod input;
mod inputs;
mod label_change;
mod label_changes;
mod label_history;
mod label_moves;
mod labels;
mod mending;
mod metadata;
mod prompts;
mod publishing;
mod searched;
mod tagging;
mod trying;
pub mod variables;
mod version;
mod versions;

use crate::api::Resource;

pub use artifact::Artifact;
pub use id::{ArtifactId, generic};
pub use label_changes::count_waiting;
pub use labels::movable;
pub use publishing::{Publication, publish};
pub use searched::{Amount, SearchedText, each_text};
pub use version::{Numbers, VersionRecord, numbers};
pub use versions::{none_selected, resolve, text};

/// Artifacts with their versions and labels, drafts, and the references between them.
pub const RESOURCE: Resource = Resource {
    checks: &[consistency::check],
    mends: &[mending::mend],
    children: &[
        &artifact::RESOURCE,
        &version::RESOURCE,
        &metadata::RESOURCE,
        &tagging::RESOURCE,
        &publishing::RESOURCE,
        &versions::RESOURCE,
        &content::RESOURCE,
        &diff::RESOURCE,
        &dependents::RESOURCE,
        &cloning::RESOURCE,
        &deletion::RESOURCE,
        &labels::RESOURCE,
        &label_history::RESOURCE,
        &label_change::RESOURCE,
        &label_changes::RESOURCE,
        &drafts::RESOURCE,
        &prompts::RESOURCE,
        &inputs::RESOURCE,
        &comparing::RESOURCE,
        &trying::RESOURCE,
    ],
    ..Resource::EMPTY
};

#[cfg(test)]
pub mod tests;
