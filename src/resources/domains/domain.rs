//! The records of claimed domains.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Output, ResourceRef};
use crate::base::{Domain as DomainName, Id, Result, Time};
use crate::resources::listings;
use crate::store::{AnyIndex, AnyReference, Export, Index, Key, Org, Record, Reference, Tx};

crate::base::portable! {
/// A domain that an organization claims.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Domain {
    /// Identifier of the claim.
    pub id: Id<Domain>,
    /// The domain name: lower case, IDNA ASCII.
    pub domain: DomainName,
    /// State of the verification.
    pub state: DomainState,
    /// Time of the last successful verification.
    pub verified_at: Option<Time>,
    /// Time of the claim.
    pub created_at: Time,
    /// When the verification is due to be repeated; only while it is verified.
    #[serde(skip)]
    pub repeat_at: Option<Time>,
}
}

impl Output for Domain {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// The state of a claim's verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DomainState {
    /// Not verified yet, or no listing has a handle on it.
    Unverified,
    /// The last verification found the public key of every listing.
    Verified,
    /// The last verification failed.
    Failed,
}
crate::store::stored_enum!(DomainState { Unverified = 0, Verified = 1, Failed = 2 });

static BY_DOMAIN: Index<Domain, DomainName> = Index::unique(
    "domains.by_domain",
    "domain_taken",
    "the organization has already claimed this domain",
    |domain| Some(domain.domain.clone()),
);

/// Verified domains by the time when their verification is repeated.
pub static BY_REPEAT: Index<Domain, Time> =
    Index::non_unique("domains.by_repeat", |domain| domain.repeat_at);

impl Record for Domain {
    const TABLE: &'static str = "domains";
    const EXPORT: Export<Self> = Export::WHOLE.normalized(|domain| Domain {
        // A domain confirms handles to each installation itself.
        state: DomainState::Unverified,
        verified_at: None,
        repeat_at: None,
        ..domain
    });
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_DOMAIN, &BY_REPEAT];
    type Key = Id<Domain>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        listings::unverify(tx, &self.domain)
    }
}

/// The one verified claim of a domain, among those of all organizations.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VerifiedDomain {
    pub domain: DomainName,
    pub claim: Id<Domain>,
    /// Its organization.
    pub org: Id<Org>,
}

static CLAIM: Reference<VerifiedDomain, Domain> = Reference::derived(
    &["claim", "org"],
    |claim: &Domain| vec![claim.domain.clone()],
    |verified: &VerifiedDomain, _| vec![verified.claim.to_bytes()],
)
.target_org(|verified| verified.org);

impl Record for VerifiedDomain {
    const TABLE: &'static str = "verified_domains";
    const EXPORT: Export<Self> =
        Export::LeftOut("a domain confirms handles to each installation itself: verify it again");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&CLAIM];
    const ORG_SCOPED: bool = false;
    type Key = DomainName;
    fn key(&self) -> Self::Key {
        self.domain.clone()
    }
}
