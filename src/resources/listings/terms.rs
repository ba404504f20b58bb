//! The inverted index of listings: the terms of each, in rows whose keys begin with the term, newest
//! listing last.
//!
//! A listing has one row a term for its own organization, and one more for everyone if it is public.
//!
//! A term is a word, or begins with a mark that is in no word: `@` before a handle, `#` before a skill, `&`
//! before two characters of a script that has no blanks between words.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use unicode_normalization::char::is_combining_mark;

use super::listing::{Listing, ListingProfile, TermForm};
use crate::base::{Handle, Id, Result, fold, is_unspaced, without_accents};
use crate::store::{AnyReference, Export, Key, Record, Reference, Tx};

/// A listing is found by at most 256 terms: all of its name, handle and skills, and the first of its
/// description. Each is a row or two in the transaction that writes the listing.
const MAX_TERMS: usize = 256;

/// Besides by at most 256 pairs of characters, and characters of scripts that have no blanks.
const MAX_PAIRS: usize = 256;

/// Of the pairs of a query 32 are looked up.
const MAX_QUERY_PAIRS: usize = 32;

/// A word counts up to its 40th character: longer ones are found by their beginning.
const MAX_WORD_CHARS: usize = 40;

crate::base::portable! {
/// A term of a listing, for the members of its organization.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ListingTerm {
    term: String,
    listing: Id<Listing>,
}
}

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
        TermForm::Folded | TermForm::Paired => format!("#{}", fold(skill)),
    }
}

/// Returns the words of a text, folded, in their order. A word is a run of letters and digits, with the
/// marks that belong to them.
pub fn words(text: &str) -> Vec<String> {
    runs(text).iter().map(|word| first_chars(word)).collect()
}

/// Returns the same with words of any length.
fn runs(text: &str) -> Vec<String> {
    let folded = fold(text);
    let is_cut = |c: char| !c.is_alphanumeric() && !is_combining_mark(c);
    let words = folded.split(is_cut).filter(|word| word.contains(char::is_alphanumeric));
    words.map(Into::into).collect()
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

/// What a word is looked for as.
#[derive(Debug, PartialEq, Eq)]
enum Sought {
    /// A word, or a part of one with blanks around it elsewhere.
    Word(String),
    /// A character of a script without blanks, with its marks, that is alone.
    Character(String),
    Pair(String),
}

/// A part of a word in scripts that have blanks between words, or in others.
fn parts(word: &str) -> Vec<&str> {
    let (mut parts, mut start, mut last) = (Vec::new(), 0, None);
    for (at, c) in word.char_indices().filter(|(_, c)| !is_combining_mark(*c)) {
        let now = is_unspaced(c);
        if last.is_some_and(|last| last != now) {
            parts.push(&word[start..at]);
            start = at;
        }
        last = Some(now);
    }
    parts.push(&word[start..]);
    parts
}

/// Returns the characters of a part of a word, with their marks.
fn characters(part: &str) -> Vec<&str> {
    let begins = part.char_indices().filter(|(at, c)| *at == 0 || !is_combining_mark(*c));
    let begins: Vec<usize> = begins.map(|(at, _)| at).chain([part.len()]).collect();
    begins.windows(2).map(|ends| &part[ends[0]..ends[1]]).collect()
}

/// Returns what a word of any length is looked for as, in its order.
fn sought(word: &str) -> Vec<Sought> {
    let of_part = |part: &str| -> Vec<Sought> {
        if !part.starts_with(is_unspaced) {
            return vec![Sought::Word(first_chars(part))];
        }
        match characters(part)[..] {
            [one] => vec![Sought::Character(one.into())],
            ref several => several.windows(2).map(|two| Sought::Pair(pair(two))).collect(),
        }
    };
    parts(word).into_iter().flat_map(of_part).collect()
}

/// The term of two characters that follow each other.
fn pair(two: &[&str]) -> String {
    format!("&{}", two.concat())
}

/// Returns what a text of a query looks for: of each word its forms, of which a listing must have one. A
/// listing in an earlier form has a run without blanks as one word.
pub fn queried(text: &str) -> Vec<Vec<String>> {
    let (mut found, mut pairs): (Vec<Vec<String>>, _) = (Vec::new(), 0);
    for written in text.split_whitespace() {
        let (runs, earlier) = (runs(written), earlier_words(written));
        let is_same_number = runs.len() == earlier.len();
        for (at, run) in runs.into_iter().enumerate() {
            // One that was cut in another way was found by its pieces: by the first of them, at least.
            let former = earlier.get(if is_same_number { at } else { 0 });
            for sought in sought(&run) {
                let is_pair = matches!(sought, Sought::Pair(_));
                let (Sought::Word(own) | Sought::Character(own) | Sought::Pair(own)) = sought;
                let is_known = found.iter().any(|forms| forms[0] == own);
                if is_known || is_pair && pairs == MAX_QUERY_PAIRS {
                    continue;
                }
                pairs += usize::from(is_pair);
                let mut forms = vec![own, first_chars(&run)];
                forms.extend(former.cloned());
                let mut seen = BTreeSet::new();
                forms.retain(|form| seen.insert(form.clone()));
                found.push(forms);
            }
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
    let mut pairs = Vec::new();
    let of_texts: Vec<String> = match form {
        TermForm::Earlier => texts.chain([description]).flat_map(earlier_words).collect(),
        TermForm::Folded => with_bare(texts.flat_map(words).collect(), words(description)),
        TermForm::Paired => {
            let own: Vec<String> = texts.flat_map(runs).collect();
            let described = runs(description);
            pairs = own.iter().chain(&described).flat_map(|run| pairs_of(run)).collect();
            pairs.extend(own.iter().chain(&described).flat_map(|run| characters_of(run)));
            let spaced = |runs: &[String]| runs.iter().flat_map(|run| spaced(run)).collect();
            with_bare(spaced(&own), spaced(&described))
        }
    };
    let mut found = BTreeSet::new();
    add(&mut found, exact.chain(skills).chain(of_texts), MAX_TERMS);
    let most = found.len() + MAX_PAIRS;
    add(&mut found, pairs.into_iter(), most);
    found
}

/// Adds terms while there are fewer than this many.
fn add(found: &mut BTreeSet<String>, terms: impl Iterator<Item = String>, most: usize) {
    for term in terms {
        if found.len() == most {
            break;
        }
        found.insert(term);
    }
}

/// Adds what words are without their accents: to those of names at once, and those of a description last.
fn with_bare(named: Vec<String>, described: Vec<String>) -> Vec<String> {
    let named = named.into_iter().flat_map(|word| {
        let bare = bare(&word);
        [Some(word), bare].into_iter().flatten()
    });
    let last: Vec<String> = described.iter().filter_map(|word| bare(word)).collect();
    named.chain(described).chain(last).collect()
}

/// The parts of a run that are words of scripts with blanks.
fn spaced(run: &str) -> Vec<String> {
    let is_spaced = |part: &&str| !part.starts_with(is_unspaced);
    parts(run).into_iter().filter(is_spaced).map(first_chars).collect()
}

/// The pairs of characters of a run, and characters that are alone.
fn pairs_of(run: &str) -> Vec<String> {
    let pairs = sought(run).into_iter().filter_map(|sought| match sought {
        Sought::Pair(term) | Sought::Character(term) => Some(term),
        Sought::Word(_) => None,
    });
    pairs.collect()
}

/// The characters of a run that are of scripts without blanks.
fn characters_of(run: &str) -> Vec<String> {
    let unspaced = parts(run).into_iter().filter(|part| part.starts_with(is_unspaced));
    unspaced.flat_map(characters).map(Into::into).collect()
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

    #[test]
    fn a_run_without_blanks_is_looked_for_by_pairs_or_in_whole() {
        let of = |text: &str| {
            queried(text).iter().map(|forms| forms.join("|")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("日本"), "&日本|日本");
        assert_eq!(of("日本語 猫"), "&日本|日本語 &本語|日本語 猫");
        assert_eq!(of("AI助手2"), "ai|ai助手2 &助手|ai助手2 2|ai助手2");
        assert_eq!(of("カタカナ"), "&カタ|カタカナ &タカ|カタカナ &カナ|カタカナ");
        assert_eq!(of("만조는"), "&만조|만조는 &조는|만조는");
        assert_eq!(of("น้ำ"), "&น\u{e49}\u{e4d}า|น\u{e49}\u{e4d}า|น");
        let long: String = ('\u{4e00}'..'\u{4f00}').collect();
        assert_eq!(queried(&long).len(), MAX_QUERY_PAIRS);
        assert_eq!(parts("e\u{301}助手\u{301}ab"), ["e\u{301}", "助手\u{301}", "ab"]);
        assert_eq!(characters("助\u{301}手"), ["助\u{301}", "手"]);
    }

    #[test]
    fn any_run_is_cut_into_parts_that_are_all_of_it() {
        for run in ["", "\u{301}", "\u{301}助", "助", "a", "a助b手", "가a\u{301}ไท"] {
            assert_eq!(parts(run).concat(), run);
            for part in parts(run) {
                assert_eq!(characters(part).concat(), part);
            }
        }
    }
}
