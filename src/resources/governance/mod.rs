//! Governance: rules that versions must satisfy to be published
//! (reference: registries-and-templates, "Policies").
//!
//! A [policy](policies) has [`rules`] and is [assigned](assignments) to registries. A version that is
//! published in one of them is [evaluated](evaluation) first: the violation of a rule refuses it, or
//! raises a [flag](flags) that an admin clears later. A [judge] is a rule that queries a model, and
//! [`passing`] one that runs the prompt on its inputs ([`cases`]); what a policy demands of labels is asked
//! when they are [moved](protection).

mod asking;
mod assignments;
mod cases;
mod evaluation;
mod flags;
mod judge;
mod passing;
mod policies;
mod policy;
mod protection;
mod provider_references;
mod rules;
mod running;
mod wide_classes;

use crate::api::Resource;
use crate::store::TableInfo;

pub use cases::{CaseAnswer, CaseResults, CaseRun, Expectation, InputCase, Scorer, Stop};
pub use evaluation::{PolicyVerdict, Submission, evaluate, record_refusal, record_result, scorers};
pub use passing::{EVALUATION_SECS, Inputs};
pub use policy::Policy;
pub use protection::require_protected;
use provider_references::ProviderReference;
pub use running::{AskedCase, CaseBatch};

/// Policies, their assignments, and flags.
pub const RESOURCE: Resource = Resource {
    tables: &[TableInfo::of::<ProviderReference>()],
    children: &[
        &policies::RESOURCE,
        &assignments::RESOURCE,
        &evaluation::RESOURCE,
        &flags::RESOURCE,
    ],
    ..Resource::EMPTY
};

#[cfg(test)]
pub mod tests;
