//! The inverted index of listings: the terms of each, in rows whose keys begin with the term, newest
//! listing last.
//!
//! A listing has one row a term for its own organization, and one more for everyone if it is public.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};

use super::listing::{Listing, ListingProfile};
use crate::base::{Handle, Id, Result};
use crate::store::{AnyReference, Export, Key, Record, Reference, Tx};

/// A listing is found by at most 256 terms: all of its name, handle and skills, and the first of its
/// description. Each is a row or two in the transaction that writes the listing.
const MAX_TERMS: usize = 256;

/// A word counts up to its 40th character: longer ones are found by their beginning.
const MAX_WORD_CHARS: usize = 40;

/// A term of a listing, for the members of its organization.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ListingTerm {
    term: String,
    listing: Id<Listing>,
}
crate::base::portable!(ListingTerm { term, listing });

/// A row of the inverted index.
pub trait TermRow: Record<Key = (String, Id<Listing>)> {
    /// Returns the row of a term.
    fn new(term: String, listing: Id<Listing>) -> Self;
}

impl TermRow for ListingTerm {
    fn new(term: String, listing: Id<Listing>) -> Self {
        ListingTerm { term, listing }
    }
}

/// Returns the keys of the rows of a listing.
pub fn keys(profile: &ListingProfile, listing: Id<Listing>) -> Vec<(String, Id<Listing>)> {
    terms(profile).into_iter().map(|term| (term, listing)).collect()
}

static LISTING: Reference<ListingTerm, Listing> = Reference::derived(
    &["listing"],
    |listing: &Listing| keys(&listing.profile, listing.id),
    |row: &ListingTerm, _| vec![row.listing.to_bytes()],
);

impl Record for ListingTerm {
    const TABLE: &'static str = "listing_terms";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&LISTING];
    type Key = (String, Id<Listing>);
    fn key(&self) -> Self::Key {
        (self.term.clone(), self.listing)
    }
}

/// Updates the rows of a listing whose profile changes from `old` to `new`.
pub fn update<R: TermRow>(
    tx: &mut Tx,
    listing: Id<Listing>,
    old: Option<&ListingProfile>,
    new: &ListingProfile,
) -> Result<()> {
    let (old, new) = (old.map(terms).unwrap_or_default(), terms(new));
    let row = |term: &String| R::new(term.clone(), listing);
    old.difference(&new).try_for_each(|gone| tx.remove(&row(gone)))?;
    new.difference(&old).try_for_each(|added| tx.insert(&row(added)))
}

// ── Terms ────────────────────────────────────────────────────────────────────

/// The term that every listing has.
pub const EVERY: &str = "";

/// Returns the term of a handle.
pub fn handle_term(handle: &Handle) -> String {
    format!("@{handle}")
}

/// Returns the term of a skill; case does not matter.
pub fn skill_term(skill: &str) -> String {
    format!("#{}", skill.to_lowercase())
}

/// Returns the words of a text, in lower case, in their order. A word is a run of letters and digits.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| word.to_lowercase().chars().take(MAX_WORD_CHARS).collect())
}

/// Returns the terms by which a listing is found: the first ones, of which those of the description
/// come last.
fn terms(profile: &ListingProfile) -> BTreeSet<String> {
    let skills = || profile.skills.iter().map(|skill| skill.as_str());
    let name = [profile.display_name.as_str(), &profile.handle, &profile.stable_key];
    let texts = name.into_iter().chain(skills()).chain(profile.description.as_deref());
    let exact = [EVERY.into(), handle_term(&profile.handle)].into_iter();
    let mut found = BTreeSet::new();
    for term in exact.chain(skills().map(skill_term)).chain(texts.flat_map(words)) {
        if found.len() == MAX_TERMS {
            break;
        }
        found.insert(term);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits_in_lower_case() {
        let found: Vec<_> = words("Release-notes, für Ärzte: v2.1 (日本語)\u{0}").collect();
        assert_eq!(found, ["release", "notes", "für", "ärzte", "v2", "1", "日本語"]);
        let long: Vec<_> = words(&"ß".repeat(100)).collect();
        assert_eq!(long, ["ß".repeat(MAX_WORD_CHARS)]);
        assert_eq!(words(" -!\n").count(), 0);
    }
}
