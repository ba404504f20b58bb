//! What is known of listings beyond their organization: public ones, and verified handles.
//!
//! Both are copies of what an organization published, in tables of no organization: whatever else it
//! has stays below its own keys.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::listing::{BY_DOMAIN, Listing, ListingProfile, TermForm};
use super::terms::{self, TermRow};
use crate::base::{Domain as DomainName, Handle, Id, PublicKey, Result};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Org, Record, Reference, Tx,
    View, upgrade_shorter,
};

crate::base::portable! {
/// A public listing, as members of other organizations see it.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PublicListing {
    pub id: Id<Listing>,
    /// Its organization.
    pub org: Id<Org>,
    pub profile: ListingProfile,
    /// Whether its agent card is served.
    pub has_card: bool,
    /// The form of its terms in the index.
    pub term_form: TermForm,
}
}

static LISTING: Reference<PublicListing, Listing> = Reference::derived(
    &["id", "org"],
    |listing: &Listing| vec![listing.id],
    |public: &PublicListing, _| vec![public.id.to_bytes()],
)
.target_org(|public| public.org);

impl Record for PublicListing {
    const TABLE: &'static str = "public_listings";
    const NOUN: &'static str = "listing";
    const EXPORT: Export<Self> =
        Export::of(|listing: &Self| listing.org).inserted_by(|tx, listing| {
            tx.insert(listing)?;
            let new = (&listing.profile, listing.term_form);
            terms::update::<PublicListingTerm>(tx, listing.id, None, new)
        });
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&LISTING];
    const ORG_SCOPED: bool = false;
    const VERSION: u8 = 2;
    type Key = Id<Listing>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// A term of a public listing, for everyone.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PublicListingTerm {
    term: String,
    listing: Id<Listing>,
}

impl TermRow for PublicListingTerm {
    fn new(term: String, listing: Id<Listing>) -> Self {
        PublicListingTerm { term, listing }
    }
}

static PUBLIC_LISTING: Reference<PublicListingTerm, PublicListing> = Reference::derived(
    &["listing"],
    |listing: &PublicListing| terms::keys((&listing.profile, listing.term_form), listing.id),
    |row: &PublicListingTerm, _| vec![row.listing.to_bytes()],
);

impl Record for PublicListingTerm {
    const TABLE: &'static str = "public_listing_terms";
    const EXPORT: Export<Self> = Export::LeftOut("made again with the public listing");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&PUBLIC_LISTING];
    const ORG_SCOPED: bool = false;
    type Key = (String, Id<Listing>);
    fn key(&self) -> Self::Key {
        (self.term.clone(), self.listing)
    }
}

/// A handle whose domain confirms its key: the domain is verified, and the last look-up found exactly
/// this key. At most one organization's domain is verified at a time.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VerifiedHandle {
    pub domain: DomainName,
    /// The part before the `@`.
    pub name: String,
    pub pubkey: PublicKey,
    pub listing: Id<Listing>,
    /// The organization of the listing.
    pub org: Id<Org>,
    /// Whether the agent card is served to everyone.
    pub has_public_card: bool,
}

/// Verified handles with an agent card for everyone, by domain.
static CARDS: Index<VerifiedHandle, DomainName> =
    Index::non_unique("verified_handles.cards", |row| {
        row.has_public_card.then(|| row.domain.clone())
    });

static VERIFIED_LISTING: Reference<VerifiedHandle, Listing> = Reference::derived(
    &["listing", "org"],
    |listing: &Listing| vec![key_of(&listing.profile.handle)],
    |row: &VerifiedHandle, _| vec![row.listing.to_bytes()],
)
.target_org(|row| row.org);

impl Record for VerifiedHandle {
    const TABLE: &'static str = "verified_handles";
    const EXPORT: Export<Self> =
        Export::LeftOut("a domain confirms handles to each installation itself: verify it again");
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&CARDS];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&VERIFIED_LISTING];
    const ORG_SCOPED: bool = false;
    type Key = (DomainName, String);
    fn key(&self) -> Self::Key {
        (self.domain.clone(), self.name.clone())
    }
}

fn key_of(handle: &Handle) -> (DomainName, String) {
    (handle.domain(), handle.name().into())
}

// ── Reading ──────────────────────────────────────────────────────────────────

/// Returns the verified handle with this name on a domain.
pub fn verified_handle(
    view: &View,
    domain: &DomainName,
    name: &str,
) -> Result<Option<VerifiedHandle>> {
    view.get(&(domain.clone(), name.into()))
}

/// Returns the listing whose agent card stands for a domain: that of the name `_`, which is the domain
/// itself, or else the first by name.
pub fn card_of_domain(view: &View, domain: &DomainName) -> Result<Option<VerifiedHandle>> {
    let own = verified_handle(view, domain, "_")?.filter(|row| row.has_public_card);
    match own {
        Some(row) => Ok(Some(row)),
        None => view.first(&CARDS, domain, Order::Ascending),
    }
}

/// Returns whether a listing is verified.
pub fn is_verified(view: &View, listing: Id<Listing>, handle: &Handle) -> Result<bool> {
    Ok(row_of(view, listing, handle)?.is_some())
}

fn row_of(view: &View, listing: Id<Listing>, handle: &Handle) -> Result<Option<VerifiedHandle>> {
    let row: Option<VerifiedHandle> = view.get(&key_of(handle))?;
    Ok(row.filter(|row| row.listing == listing))
}

// ── Writing ──────────────────────────────────────────────────────────────────

/// A handle of the organization that a verification looks up.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedHandle {
    pub listing: Id<Listing>,
    pub handle: Handle,
    /// The key that its domain is to confirm.
    pub pubkey: PublicKey,
    has_public_card: bool,
}

/// Returns the organization's handles on exactly this domain, by name.
pub fn handles_of_domain(view: &View, domain: &DomainName) -> Result<Vec<ListedHandle>> {
    let mut found = Vec::new();
    let end = DomainName::from_trusted(format!("{domain}\u{1}")); // The next text.
    view.entries(
        &BY_DOMAIN,
        domain,
        &end,
        Order::Ascending,
        |(domain, name, pubkey, card), id| {
            let handle = Handle::from_trusted(format!("{name}@{domain}"));
            found.push(ListedHandle { listing: id, handle, pubkey, has_public_card: card });
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(found)
}

/// Marks handles of the transaction's organization as verified: all handles that it has on their
/// domain, or none.
pub fn set_verified(tx: &mut Tx, domain: &DomainName, verified: &[ListedHandle]) -> Result<()> {
    unverify(tx, domain)?;
    verified.iter().try_for_each(|found| {
        tx.insert(&VerifiedHandle {
            domain: domain.clone(),
            name: found.handle.name().into(),
            pubkey: found.pubkey.clone(),
            listing: found.listing,
            org: tx.org(),
            has_public_card: found.has_public_card,
        })
    })
}

/// Makes all handles that the organization has on a domain unverified.
pub fn unverify(tx: &mut Tx, domain: &DomainName) -> Result<()> {
    let (org, mut rows) = (tx.org(), tx.all::<VerifiedHandle>(ListSource::TABLE, domain)?);
    rows.retain(|row| row.org == org);
    rows.iter().try_for_each(|row| tx.remove(row))
}

/// Updates the public copy of a listing, and its verified handle.
pub fn update(tx: &mut Tx, old: Option<&Listing>, new: &Listing) -> Result<()> {
    update_copy(tx, new)?;
    let Some(old) = old else { return Ok(()) };
    let Some(row) = row_of(&tx.view(), old.id, &old.profile.handle)? else { return Ok(()) };
    // What was verified is the handle with its key.
    if (&old.profile.handle, &old.profile.pubkey) != (&new.profile.handle, &new.profile.pubkey) {
        return tx.remove(&row);
    }
    if row.has_public_card != new.has_public_card() {
        tx.replace(
            &row,
            &VerifiedHandle { has_public_card: new.has_public_card(), ..row.clone() },
        )?;
    }
    Ok(())
}

fn update_copy(tx: &mut Tx, listing: &Listing) -> Result<()> {
    let old: Option<PublicListing> = tx.get(&listing.id)?;
    let new = listing.is_public().then(|| PublicListing {
        id: listing.id,
        org: tx.org(),
        profile: listing.profile.clone(),
        has_card: listing.has_card(),
        term_form: listing.term_form,
    });
    let Some(new) = new else {
        return old.map_or(Ok(()), |old| tx.remove(&old));
    };
    match &old {
        None => tx.insert(&new)?,
        Some(old) => tx.replace(old, &new)?,
    }
    let old = old.as_ref().map(|old| (&old.profile, old.term_form));
    terms::update::<PublicListingTerm>(tx, new.id, old, (&new.profile, new.term_form))
}
