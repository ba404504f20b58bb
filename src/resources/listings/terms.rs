//! The inverted index of listings: the terms of each, in rows whose keys begin with the term, newest
//! listing last.
//!
//! A listing has one row a term for its own organization, and one more for everyone if it is public.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};

use super::listing::{Listing, ListingProfile, TermForm};
use crate::base::{Handle, Id, Result, fold, without_accents};
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

/// What a listing is found by, and in which form.
pub type Indexed<'a> = (&'a ListingProfile, TermForm);

/// Returns the keys of the rows of a listing.
pub fn keys(of: Indexed, listing: Id<Listing>) -> Vec<(String, Id<Listing>)> {
    terms(of).into_iter().map(|term| (term, listing)).collect()
}

static LISTING: Reference<ListingTerm, Listing> = Reference::derived(
    &["listing"],
    |listing: &Listing| keys((&listing.profile, listing.term_form), listing.id),
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

/// Updates the rows of a listing that changes from `old` to `new`.
pub fn update<R: TermRow>(
    tx: &mut Tx,
    listing: Id<Listing>,
    old: Option<Indexed>,
    new: Indexed,
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
pub fn skill_term(skill: &str, form: TermForm) -> String {
    match form {
        TermForm::Earlier => format!("#{}", skill.to_lowercase()),
        TermForm::Folded => format!("#{}", fold(skill)),
    }
}

/// Returns the words of a text, folded, in their order. A word is a run of letters and digits, with the
/// marks that belong to them.
pub fn words(text: &str) -> Vec<String> {
    let folded = fold(text);
    let is_cut =
        |c: char| !c.is_alphanumeric() && !unicode_normalization::char::is_combining_mark(c);
    let words = folded.split(is_cut).filter(|word| word.contains(char::is_alphanumeric));
    words.map(first_chars).collect()
}

/// Returns the words of a text as version 0.1 found them: in lower case letter by letter, and cut at
/// marks.
fn earlier_words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| first_chars(&word.to_lowercase())).collect()
}

fn first_chars(word: &str) -> String {
    word.chars().take(MAX_WORD_CHARS).collect()
}

/// Returns what a text of a query looks for: of each word its forms, of which a listing must have one.
pub fn queried(text: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for written in text.split_whitespace() {
        let (new, earlier) = (words(written), earlier_words(written));
        let is_same_number = new.len() == earlier.len();
        for (at, word) in new.into_iter().enumerate() {
            if found.iter().any(|forms| forms[0] == word) {
                continue;
            }
            // One that was cut in another way was found by its pieces: by the first of them, at least.
            let other = earlier.get(if is_same_number { at } else { 0 });
            let other = other.filter(|other| **other != word).cloned();
            found.push([word].into_iter().chain(other).collect());
        }
    }
    found
}

/// Returns the terms by which a listing is found: the first ones, of which those of the description
/// come last, and of these what words are without accents.
fn terms((profile, form): Indexed) -> BTreeSet<String> {
    let skills = || profile.skills.iter().map(|skill| skill.as_str());
    let name = [profile.display_name.as_str(), &profile.handle, &profile.stable_key];
    let texts = name.into_iter().chain(skills());
    let exact = [EVERY.into(), handle_term(&profile.handle)].into_iter();
    let skills = skills().map(|skill| skill_term(skill, form));
    let description = profile.description.as_deref().unwrap_or_default();
    let of_texts: Vec<String> = match form {
        TermForm::Earlier => texts.chain([description]).flat_map(earlier_words).collect(),
        TermForm::Folded => {
            let named = texts.flat_map(words).flat_map(|word| {
                let bare = bare(&word);
                [Some(word), bare].into_iter().flatten()
            });
            let described = words(description);
            let last: Vec<String> = described.iter().filter_map(|word| bare(word)).collect();
            named.chain(described).chain(last).collect()
        }
    };
    let mut found = BTreeSet::new();
    for term in exact.chain(skills).chain(of_texts) {
        if found.len() == MAX_TERMS {
            break;
        }
        found.insert(term);
    }
    found
}

/// What a word is without its accents, if that is another one.
fn bare(word: &str) -> Option<String> {
    Some(first_chars(&without_accents(word))).filter(|bare| bare != word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits_folded() {
        let text = "Release-notes, für Ärzte: v2.1 (日本語)\u{0} Straße soft\u{ad}ware हिन्दी";
        assert_eq!(
            words(text),
            [
                "release",
                "notes",
                "für",
                "ärzte",
                "v2",
                "1",
                "日本語",
                "strasse",
                "software",
                "हिन्दी"
            ]
        );
        assert_eq!(words(&"ß".repeat(100)), ["s".repeat(MAX_WORD_CHARS)]);
        assert_eq!(words(" -!\n\u{301}"), Vec::<String>::new());
    }

    #[test]
    fn a_word_is_looked_for_as_listings_of_version_0_1_have_it_too() {
        let of = |text: &str| {
            queried(text).iter().map(|forms| forms.join("|")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("Release-notes release"), "release notes");
        assert_eq!(of("STRAßE, Straße"), "strasse|straße");
        assert_eq!(of("ΟΔΟΣ ＡＢＣ"), "οδοσ|οδος abc|ａｂｃ");
        assert_eq!(of("soft\u{ad}ware"), "software|soft");
    }
}
