//! The record of a listing, and how it is found.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::{Restricted, User};
use crate::base::{
    Description, Domain, Handle, Id, Name, PublicKey, Result, Skill, StableKey, Time,
};
use crate::resources::agents::Agent;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, View, upgrade_shorter,
};

crate::base::portable! {
/// An agent as it is found in the agent index.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Listing {
    pub id: Id<Listing>,
    pub agent: Id<Agent>,
    pub profile: ListingProfile,
    pub visibility: ListingVisibility,
    pub contact_policy: ContactPolicy,
    pub card_state: CardState,
    /// The form of its terms in the index.
    pub term_form: TermForm,
    /// Who last changed it; none if an earlier release did.
    pub updated_by: Option<Id<User>>,
}
}

/// The form of the terms by which a listing is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermForm {
    /// Up to version 0.1: words in lower case letter by letter.
    Earlier,
    /// Up to version 0.2: folded words, and those without their accents.
    Folded,
    /// The same, but pairs of characters in place of words in scripts that have no blanks between them.
    Paired,
}
crate::store::stored_enum!(TermForm { Earlier = 0, Folded = 1, Paired = 2 });

impl TermForm {
    /// The form in which listings are written.
    pub const NEWEST: Self = TermForm::Paired;
}

crate::base::portable! {
/// What everyone sees of an agent who sees its listing.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ListingProfile {
    /// The agent's stable key, which never changes.
    pub stable_key: StableKey,
    /// Its name across organizations, unique in its own.
    pub handle: Handle,
    /// The key with which it signs.
    pub pubkey: PublicKey,
    pub display_name: Name,
    pub description: Option<Description>,
    pub skills: Vec<Skill>,
    pub created_at: Time,
    /// When any field of the listing last changed.
    pub updated_at: Time,
}
}

/// Who sees a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListingVisibility {
    /// Members of every organization of this server.
    Public,
    /// The members of its own organization.
    #[default]
    Organization,
}
crate::store::stored_enum!(ListingVisibility { Public = 0, Organization = 1 });

/// From whom an agent takes requests of outside agents that name its listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContactPolicy {
    /// From anyone who is not blocked.
    #[default]
    Open,
    /// From domains with a rule that allows them.
    Allowlist,
    /// From nobody.
    Closed,
}
crate::store::stored_enum!(ContactPolicy { Open = 0, Allowlist = 1, Closed = 2 });

/// The state of an agent card, which its owners set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CardState {
    /// Not served yet.
    #[default]
    Draft,
    /// Served to everyone who sees the listing.
    Published,
    /// No longer served: it is to be revised.
    Stale,
}
crate::store::stored_enum!(CardState { Draft = 0, Published = 1, Stale = 2 });

static BY_HANDLE: Index<Listing, Handle> = Index::unique(
    "listings.by_handle",
    "handle_taken",
    "the organization already has a listing with this handle; choose another",
    |listing| Some(listing.profile.handle.clone()),
);

/// Handles by domain, each with its key and whether its agent card is for everyone: what a
/// verification needs, without reading the listings.
pub static BY_DOMAIN: Index<Listing, (Domain, String, PublicKey, bool)> =
    Index::non_unique("listings.by_domain", |listing| {
        let ListingProfile { handle, pubkey, .. } = &listing.profile;
        let has_public_card = listing.has_public_card();
        Some((handle.domain(), handle.name().into(), pubkey.clone(), has_public_card))
    });

static BY_AGENT: Index<Listing, Id<Agent>> =
    Index::non_unique("listings.by_agent", |listing| Some(listing.agent));

/// Listings whose terms have the form of an earlier version, the oldest first.
pub static EARLIER_TERMS: Index<Listing, Time> =
    Index::non_unique("listings.earlier_terms", |listing: &Listing| {
        (listing.term_form != TermForm::NEWEST).then_some(listing.profile.created_at)
    })
    .version(2);

static AGENT: Reference<Listing, Restricted<Agent>> = Reference::cascade(
    &["agent"],
    |agent: &Restricted<Agent>| agent.id().to_bytes(),
    |listing: &Listing, _| vec![listing.agent.to_bytes()],
)
.by(&BY_AGENT)
.deferred();

impl Record for Listing {
    const TABLE: &'static str = "listings";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_HANDLE, &BY_DOMAIN, &BY_AGENT, &EARLIER_TERMS];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&AGENT];
    const VERSION: u8 = 3;
    type Key = Id<Listing>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 2, body)
    }
}

impl Listing {
    /// Returns whether others than the members of its organization see it.
    pub fn is_public(&self) -> bool {
        self.visibility == ListingVisibility::Public
    }

    /// Returns whether its agent card may stand for its domain.
    pub fn has_card(&self) -> bool {
        self.card_state == CardState::Published
    }

    /// Returns whether its agent card may stand for its domain, to everyone.
    pub fn has_public_card(&self) -> bool {
        self.is_public() && self.has_card()
    }
}

/// Returns the contact policy of the organization's listing with this handle, as far as those outside
/// know of it: one that is not public does not exist for them.
pub fn contact_policy_for_outsiders(view: &View, handle: &Handle) -> Result<Option<ContactPolicy>> {
    let listing: Option<Listing> = view.find(&BY_HANDLE, handle)?;
    Ok(listing.filter(Listing::is_public).map(|listing| listing.contact_policy))
}
