//! The verifications of a listing.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use super::listing::Listing;
use crate::base::{Id, Result, Time};
use crate::store::{AnyReference, Export, Key, Record, Reference, Tx, View};

/// The history of a listing has the last 50 verifications: a week of attempts, or seven weeks of daily
/// ones.
pub const MAX_HISTORY: usize = 50;

/// A verification of a domain; names its id.
pub enum VerificationRun {}

/// What a domain said of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "VerificationOutcome")]
pub enum Outcome {
    /// The handle has this public key.
    Match,
    /// The handle has another key.
    Mismatch,
    /// The domain does not know the handle.
    Missing,
    /// There was no answer with status 200 in time.
    Unreachable,
    /// The answer was too long, or not a document of names.
    Invalid,
}
crate::store::stored_enum!(Outcome {
    Match = 0,
    Mismatch = 1,
    Missing = 2,
    Unreachable = 3,
    Invalid = 4,
});

crate::base::portable! {
/// The verification of a listing at one time.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerificationRecord {
    /// The verification of the domain that this was part of.
    pub verification_id: Id<VerificationRun>,
    /// When the verification was completed.
    pub checked_at: Time,
    /// What the domain said of the handle.
    pub outcome: Outcome,
}
}

crate::base::portable! {
/// The verifications of a listing, newest first. Apart from the listing, so that a verification writes
/// few bytes for each.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ListingHistory {
    listing: Id<Listing>,
    entries: Vec<VerificationRecord>,
}
}

static LISTING: Reference<ListingHistory, Listing> = Reference::derived(
    &["listing"],
    |listing: &Listing| vec![listing.id],
    |history: &ListingHistory, _| vec![history.listing.to_bytes()],
);

impl Record for ListingHistory {
    const TABLE: &'static str = "listing_histories";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&LISTING];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("entries.verification_id", "history: a verification is nothing but these entries")];
    type Key = Id<Listing>;
    fn key(&self) -> Self::Key {
        self.listing
    }
}

/// Returns the verifications of a listing, newest first.
pub fn history(view: &View, listing: Id<Listing>) -> Result<Vec<VerificationRecord>> {
    Ok(view.get::<ListingHistory>(&listing)?.map_or_else(Vec::new, |history| history.entries))
}

/// Adds a verification to the history of a listing.
pub fn record(tx: &mut Tx, listing: Id<Listing>, entry: VerificationRecord) -> Result<()> {
    let mut entries = history(&tx.view(), listing)?;
    entries.insert(0, entry);
    entries.truncate(MAX_HISTORY);
    tx.put(&ListingHistory { listing, entries })
}
