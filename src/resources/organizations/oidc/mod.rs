//! Signing in with OpenID Connect (reference: identity-and-rights, "OpenID Connect").
//!
//! A person is known by issuer and subject. Who is not linked yet is found by an address that the provider
//! has verified, and confirms the link in a session of theirs: otherwise whoever administers a provider
//! could enter every account.

mod accepted;
mod calls;
mod joining;
mod leaving;
mod links;
mod logout;
mod person;
pub(super) mod records;
mod rule_settings;
pub(super) mod rules;
mod settings;
mod sign_in;

pub(super) use records::{BY_USE, UsedAttempt};

use crate::api::Resource;
use crate::store::TableInfo;

use super::rule_rights::{RuleRights, SignInRules};
use super::sign_in_link::SignInLink;
use records::JoiningDomain;

pub(super) const RESOURCE: Resource = Resource {
    tables: &[
        TableInfo::of::<SignInLink>(),
        TableInfo::of::<UsedAttempt>(),
        TableInfo::of::<JoiningDomain>(),
        TableInfo::of::<SignInRules>(),
        TableInfo::of::<RuleRights>(),
    ],
    children: &[
        &sign_in::RESOURCE,
        &logout::RESOURCE,
        &leaving::RESOURCE,
        &links::RESOURCE,
        &settings::RESOURCE,
        &rules::RESOURCE,
    ],
    ..Resource::EMPTY
};

#[cfg(test)]
mod tests;
