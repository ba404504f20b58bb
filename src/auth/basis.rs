//! Who may use a resource that can be restricted, and why a caller may.

use super::records::Grant;
use crate::base::{Error, Id};

/// The error of a caller without a grant for a restricted resource.
pub fn grant_required() -> Error {
    Error::forbidden(
        "grant_required",
        "this is restricted; ask an organization admin for an access grant",
    )
}

/// Why a caller may use a fleet, registry or environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessBasis {
    /// Every member may.
    Open,
    /// It is restricted, and the caller is an admin.
    Admin,
    /// It is restricted, and the caller has this grant.
    Grant(Id<Grant>),
}

/// Who may use a fleet, registry or environment.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ResourceAccess")]
pub enum Access {
    /// Every member.
    #[default]
    Organization,
    /// Admins, and users with a grant.
    Restricted,
}
crate::store::stored_enum!(Access { Organization = 0, Restricted = 1 });
