//! Positions in what a search finds: where its next page begins, and what the scores are computed from.
//!
//! A score depends on how many documents there are, and on how many have each word. These numbers
//! change with every document and with every merge, so a position carries those of the first page:
//! a content has the same score on all pages, and is neither left out between two nor listed twice.

use super::knowledge_base::Ordinal;
use super::language::Language;
use super::ranking::{Collection, Ranked};
use super::varint;
use crate::store::Key as _;

/// The first byte of a position. Those of version 0.1 begin with a score, which never begins so, and
/// are of searches that looked up other words.
const FORMAT: u8 = 2;

/// The first byte of those that have the language after it.
const IN_LANGUAGE: u8 = 3;

/// Where the next page of a search begins.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchPosition {
    /// The last document that was looked at before it.
    pub last: Ranked,
    pub basis: RankingBasis,
}

/// What all pages of a search are ranked by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankingBasis {
    /// The language in which words were looked up: in another one the terms are others.
    pub language: Option<Language>,
    pub collection: Collection,
    /// Contents with this ordinal and larger ones are newer than the first page.
    pub end: Ordinal,
    /// Of each term and each beginning of the query, in their order.
    pub words: Vec<WordBasis>,
}

/// What a term of a query counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordBasis {
    /// In how many documents it occurs.
    pub documents: u32,
    /// Contents with smaller ordinals are not looked at.
    pub first: Ordinal,
}

impl SearchPosition {
    /// Its bytes, for a cursor.
    pub fn to_bytes(&self) -> Vec<u8> {
        let RankingBasis { language, collection, end, words } = &self.basis;
        let mut bytes = match language {
            None => vec![FORMAT],
            Some(language) => [&[IN_LANGUAGE], &language.to_bytes()[..]].concat(),
        };
        bytes.extend_from_slice(&self.last.to_bytes());
        bytes.extend_from_slice(&collection.documents.to_be_bytes());
        bytes.extend_from_slice(&collection.words.to_be_bytes());
        varint::write(*end, &mut bytes);
        for word in words {
            varint::write(word.documents, &mut bytes);
            varint::write(word.first, &mut bytes);
        }
        bytes
    }

    /// Reads those bytes, of a search for so many terms and beginnings in this language.
    pub fn read(bytes: &[u8], words: usize, language: Option<Language>) -> Option<Self> {
        let bytes = match language {
            None => bytes.strip_prefix(&[FORMAT])?,
            Some(language) => {
                bytes.strip_prefix(&[IN_LANGUAGE])?.strip_prefix(&language.to_bytes()[..])?
            }
        };
        let (last, rest) = bytes.split_at_checked(Ranked::BYTES)?;
        let (documents, rest) = rest.split_first_chunk()?;
        let (all_words, mut rest) = rest.split_first_chunk()?;
        let collection = Collection {
            documents: u64::from_be_bytes(*documents),
            words: u64::from_be_bytes(*all_words),
        };
        let end = varint::read(&mut rest)?;
        let mut word = || {
            Some(WordBasis { documents: varint::read(&mut rest)?, first: varint::read(&mut rest)? })
        };
        let words = (0..words).map(|_| word()).collect::<Option<_>>()?;
        let basis = RankingBasis { language, collection, end, words };
        let last = Ranked::read(last)?;
        rest.is_empty().then_some(SearchPosition { last, basis })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_read_back(
            score in 0.0..1e6_f32,
            ordinal: u32,
            documents: u64,
            words: u64,
            end: u32,
            language in prop::option::of(prop::sample::select(Language::all().collect::<Vec<_>>())),
            of_words in prop::collection::vec((0..u32::MAX, 0..u32::MAX), 0..33),
        ) {
            let word = |(documents, first)| WordBasis { documents, first };
            let position = SearchPosition {
                last: Ranked { score, ordinal },
                basis: RankingBasis {
                    language,
                    collection: Collection { documents, words },
                    end,
                    words: of_words.into_iter().map(word).collect(),
                },
            };
            let (bytes, count) = (position.to_bytes(), position.basis.words.len());
            prop_assert_eq!(SearchPosition::read(&bytes, count, language), Some(position));
            prop_assert_eq!(SearchPosition::read(&bytes, count + 1, language), None);
            prop_assert_eq!(SearchPosition::read(&bytes[..bytes.len() - 1], count, language), None);
            let other = if language.is_none() { Some(Language::De) } else { None };
            prop_assert_eq!(SearchPosition::read(&bytes, count, other), None);
        }

        #[test]
        fn positions_of_version_0_1_are_none(score in 1e-3..1e6_f32, rest: Vec<u8>, words in 0..33_usize) {
            let bytes = [&score.to_bits().to_be_bytes()[..], &rest].concat();
            prop_assert_eq!(SearchPosition::read(&bytes, words, None), None);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>, words in 0..33_usize) {
            let _ = SearchPosition::read(&bytes, words, None);
            let _ = SearchPosition::read(&bytes, words, Some(Language::En));
        }
    }
}
