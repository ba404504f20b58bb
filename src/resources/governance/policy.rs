//! The record of policies.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::PolicyRule;
use crate::api::{Output, ResourceRef};
use crate::auth::User;
use crate::base::{Description, Id, Name, Result, Time};
use crate::store::{Export, Record, upgrade_shorter};

crate::base::portable! {
/// A named set of rules that versions published in a registry must satisfy, if the policy is assigned
/// to it.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The id of the policy.
    pub id: Id<Policy>,
    /// The name of the policy.
    pub name: Name,
    /// What the policy is for.
    pub description: Option<Description>,
    /// What a violation of one of its rules leads to.
    pub severity: PolicySeverity,
    /// The rules, in the order they were given.
    pub rules: Vec<PolicyRule>,
    /// When it was created.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// The user who last changed it, also through a key; null if an earlier release did.
    pub updated_by: Option<Id<User>>,
}
}

impl Output for Policy {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl Record for Policy {
    const TABLE: &'static str = "policies";
    const EXPORT: Export<Self> = Export::WHOLE;
    const UNBOUND: &'static [(&'static str, &'static str)] = &[(
        "rules.llm_provider_id",
        "kept by the rows of ProviderReference, which are derived from it",
    )];
    const VERSION: u8 = 2;
    type Key = Id<Policy>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// What the violation of a rule leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicySeverity {
    /// The version is not published.
    Error,
    /// The version is published, and a flag is raised.
    Warning,
}
crate::store::stored_enum!(PolicySeverity { Error = 0, Warning = 1 });
