//! The records of signing in with a provider, beside the links of people.

use bincode::{Decode, Encode};

use crate::auth::oidc::ATTEMPT_SECS;
use crate::auth::{Organization, Role, User};
use crate::base::{Domain as DomainName, Id, Result, Time};
use crate::resources::organizations::rule_rights::RuleGrant;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Org, Record, Reference, upgrade_shorter,
};

/// An attempt that has ended, so that its answer is of no use again.
#[derive(Clone, Debug, Encode, Decode)]
pub struct UsedAttempt {
    pub(super) attempt: [u8; 32],
    pub used_at: Time,
}

impl UsedAttempt {
    /// Whether the attempt would have expired by now.
    pub fn is_past(&self, now: Time) -> bool {
        self.used_at <= now.minus_secs(ATTEMPT_SECS)
    }
}

/// Attempts by when they have ended, for the retention.
pub static BY_USE: Index<UsedAttempt, Time> =
    Index::non_unique("used_sign_in_attempts.by_time", |used| Some(used.used_at));

impl Record for UsedAttempt {
    const TABLE: &'static str = "used_sign_in_attempts";
    const EXPORT: Export<Self> = Export::LeftOut("for minutes, of sign-ins to this installation");
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_USE];
    type Key = [u8; 32];
    fn key(&self) -> Self::Key {
        self.attempt
    }
}

/// A domain whose people join an organization when they sign in for the first time.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct JoiningDomain {
    pub org: Id<Org>,
    pub domain: DomainName,
    /// The name of the provider that must have verified their address.
    pub provider: String,
    /// The role that they get.
    pub role: Role,
    /// What they are granted when they join.
    pub grants: Vec<RuleGrant>,
    /// The owner who has set these grants, in whose name they are made.
    pub set_by: Id<User>,
}

/// Rules by domain.
pub(super) static BY_DOMAIN: Index<JoiningDomain, (DomainName, Id<Org>)> =
    Index::non_unique("joining_domains.by_domain", |rule| Some((rule.domain.clone(), rule.org)));

static ORGANIZATION: Reference<JoiningDomain, Organization> = Reference::cascade(
    &["org"],
    |organization: &Organization| organization.id.to_bytes(),
    |rule: &JoiningDomain, _| vec![rule.org.to_bytes()],
);

impl Record for JoiningDomain {
    const TABLE: &'static str = "joining_domains";
    const EXPORT: Export<Self> = Export::LeftOut("the providers of each installation are its own");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ORGANIZATION];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("grants.resource_id", "what is gone is not granted any more"),
        ("set_by", "history: the owner may have left"),
    ];
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_DOMAIN];
    const VERSION: u8 = 2;
    type Key = (Id<Org>, DomainName);
    fn key(&self) -> Self::Key {
        (self.org, self.domain.clone())
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}
