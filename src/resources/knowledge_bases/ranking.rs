//! Ranking by BM25: a document counts for more the rarer the words are that it has, the more often it
//! has them, and the shorter it is.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::knowledge_base::Ordinal;
use super::postings::{Posting, length_of};
use super::query::Part;

/// How much further occurrences of a word count, and how much the length of a document does: the usual
/// values of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// A ranked document. The greater ranks first: by score, then the newer content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Positive.
    pub score: f32,
    pub ordinal: Ordinal,
}

impl Eq for Ranked {}
impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then(self.ordinal.cmp(&other.ordinal))
    }
}
impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ranked {
    /// The number of its bytes.
    pub const BYTES: usize = 8;

    /// Its bytes, for the position in a list.
    pub fn to_bytes(self) -> Vec<u8> {
        [self.score.to_bits().to_be_bytes(), self.ordinal.to_be_bytes()].concat()
    }

    /// Reads those bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (score, ordinal) = bytes.split_first_chunk()?;
        let score = f32::from_bits(u32::from_be_bytes(*score));
        Some(Ranked { score, ordinal: u32::from_be_bytes(ordinal.try_into().ok()?) })
    }
}

/// The postings of a term of the query.
#[derive(Clone, Debug, Default)]
pub struct TermPostings {
    /// In how many documents it occurs, at least as many as there are postings.
    pub documents: u32,
    /// The largest ordinal first, each once.
    pub postings: Vec<Posting>,
}

/// All documents of a knowledge base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    pub documents: u64,
    /// The words of all of them.
    pub words: u64,
}

/// Returns the `limit` greatest of the documents that have any of these parts of a query, and all that
/// are required, the greatest first; only those below `below`, and none that are `excluded`. A part
/// counts as that of its terms that counts for most.
pub fn rank(
    terms: &[TermPostings],
    parts: &[Part],
    of: Collection,
    excluded: &HashSet<Ordinal>,
    below: Option<Ranked>,
    limit: usize,
) -> Vec<Ranked> {
    let lengths = length_factors(of);
    let rarities: Vec<f32> =
        parts.iter().map(|part| rarity(having(terms, part), of.documents)).collect();
    let mut parts_of: Vec<Vec<(usize, f32)>> = vec![Vec::new(); terms.len()];
    for (number, part) in parts.iter().enumerate() {
        for (term, weight) in &part.members {
            parts_of[*term].push((number, *weight));
        }
    }
    let mut best = BinaryHeap::with_capacity(limit + 1);
    let mut scores = vec![0.0_f32; parts.len()];
    for postings in by_document(terms).chunk_by(|(one, _), (other, _)| one == other) {
        scores.fill(0.0);
        for (_, (term, at)) in postings {
            let (term, at) = (*term as usize, *at as usize);
            let Posting { frequency, length, .. } = terms[term].postings[at];
            let frequency = f32::from(frequency);
            let score = frequency * (K1 + 1.0) / (frequency + lengths[usize::from(length)]);
            for (part, weight) in &parts_of[term] {
                scores[*part] = scores[*part].max(weight * score);
            }
        }
        let is_missing = |(part, score): (&Part, &f32)| part.is_required && *score == 0.0;
        let ordinal = postings[0].0.0;
        if excluded.contains(&ordinal) || parts.iter().zip(&scores).any(is_missing) {
            continue;
        }
        let score = scores.iter().zip(&rarities).map(|(score, rarity)| score * rarity).sum();
        let ranked = Ranked { score, ordinal };
        let is_greater =
            best.len() < limit || best.peek().is_some_and(|Reverse(least)| ranked > *least);
        if is_greater && below.is_none_or(|below| ranked < below) {
            best.push(Reverse(ranked));
            if best.len() > limit {
                best.pop();
            }
        }
    }
    // Sorted in reverse: the greatest first.
    best.into_sorted_vec().into_iter().map(|Reverse(ranked)| ranked).collect()
}

/// Returns the number of each term and of each of its postings, by document, the largest ordinal
/// first.
fn by_document(terms: &[TermPostings]) -> Vec<(Reverse<Ordinal>, (u32, u32))> {
    let mut all = Vec::with_capacity(terms.iter().map(|term| term.postings.len()).sum());
    for (number, term) in (0..).zip(terms) {
        let numbered = (0..).zip(&term.postings);
        all.extend(numbered.map(|(at, posting)| (Reverse(posting.ordinal), (number, at))));
    }
    // Each list is sorted: a stable sort merges them.
    all.sort();
    all
}

/// In how many documents a part occurs, at least: those of its terms are mostly the same ones.
fn having(terms: &[TermPostings], part: &Part) -> u32 {
    let most = |is_piece: bool| {
        let of = part.members.iter().filter(|(term, _)| part.pieces.contains(term) == is_piece);
        of.map(|(term, _)| terms[*term].documents).max().unwrap_or_default()
    };
    // Many more may have a piece of it, which counts only if none has the word.
    match most(false) {
        0 => most(true),
        whole => whole,
    }
}

/// How much a word counts that so many of the documents have; always more than nothing.
fn rarity(having: u32, documents: u64) -> f32 {
    let having = f64::from(having);
    let documents = (documents as f64).max(having);
    (1.0 + (documents - having + 0.5) / (having + 0.5)).ln() as f32
}

/// For each step of the number of words in a document, how much it counts against its occurrences.
fn length_factors(Collection { documents, words }: Collection) -> [f32; 256] {
    let average = (words as f32 / documents.max(1) as f32).max(1.0);
    std::array::from_fn(|step| K1 * (1.0 - B + B * length_of(step.to_le_bytes()[0]) / average))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::knowledge_bases::postings::length_step;

    const ALL: Collection = Collection { documents: 100, words: 10_000 };

    /// Postings of (ordinal, frequency, number of words).
    fn word(postings: &[(Ordinal, u8, u32)]) -> TermPostings {
        let posting = |(ordinal, frequency, words): &(Ordinal, u8, u32)| Posting {
            ordinal: *ordinal,
            frequency: *frequency,
            length: length_step(*words),
        };
        TermPostings {
            documents: postings.len() as u32,
            postings: postings.iter().map(posting).collect(),
        }
    }

    /// Parts of a term each.
    fn single(terms: &[TermPostings]) -> Vec<Part> {
        (0..terms.len()).map(|term| Part::of(vec![(term, 1.0)], false)).collect()
    }

    fn ordinals(words: &[TermPostings], below: Option<Ranked>, limit: usize) -> Vec<Ordinal> {
        let ranked = rank(words, &single(words), ALL, &HashSet::from([66]), below, limit);
        assert!(ranked.iter().all(|ranked| ranked.score > 0.0));
        ranked.into_iter().map(|ranked| ranked.ordinal).collect()
    }

    #[test]
    fn rare_words_frequent_words_and_short_documents_count_for_more() {
        let common: Vec<_> = (1..=60).rev().map(|ordinal| (ordinal, 1, 100)).collect();
        let words = [word(&common), word(&[(70, 1, 100), (60, 1, 100)])];
        assert_eq!(ordinals(&words, None, 3), [60, 70, 59]);
        let words = [word(&[(3, 1, 100), (2, 5, 100), (1, 2, 100)])];
        assert_eq!(ordinals(&words, None, 9), [2, 1, 3]);
        let words = [word(&[(3, 2, 1000), (2, 2, 10), (1, 2, 100)])];
        assert_eq!(ordinals(&words, None, 9), [2, 1, 3]);
    }

    #[test]
    fn equal_documents_are_ranked_newest_first_and_excluded_ones_left_out() {
        let words = [word(&[(67, 1, 9), (66, 9, 9), (65, 1, 9), (3, 1, 9)])];
        assert_eq!(ordinals(&words, None, 9), [67, 65, 3]);
        assert_eq!(ordinals(&words, None, 2), [67, 65]);
        assert_eq!(ordinals(&[], None, 2), Vec::<Ordinal>::new());
    }

    #[test]
    fn a_list_continues_below_any_position() {
        let postings: Vec<_> =
            (1..=60_u32).rev().map(|n| (n, (n % 7 + 1).to_le_bytes()[0], n % 5 * 50)).collect();
        let words = [word(&postings)];
        let all = ordinals(&words, None, 100);
        let (mut found, mut below) = (Vec::new(), None);
        while let Some(last) = {
            let page = rank(&words, &single(&words), ALL, &HashSet::new(), below, 7);
            found.extend(page.iter().map(|ranked| ranked.ordinal));
            page.last().copied()
        } {
            assert_eq!(Ranked::read(&last.to_bytes()), Some(last));
            below = Some(last);
        }
        assert_eq!(found, all);
        assert_eq!(Ranked::read(b"short"), None);
        assert_eq!(Ranked::read(&[0; 9]), None);
    }

    #[test]
    fn a_part_counts_once_and_as_its_best_term_and_one_that_is_required_must_be_there() {
        let exact = word(&[(3, 1, 100), (1, 1, 100)]);
        let similar = word(&[(3, 1, 100), (2, 1, 100)]);
        let other = word(&[(2, 1, 100)]);
        let terms = [exact, similar, other];
        let found = |parts: &[Part]| -> Vec<(Ordinal, f32)> {
            let ranked = rank(&terms, parts, ALL, &HashSet::new(), None, 9);
            ranked.into_iter().map(|ranked| (ranked.ordinal, ranked.score)).collect()
        };
        let both = Part::of(vec![(0, 1.0), (1, 0.6)], false);
        let [(3, first), (1, second), (2, third)] = found(std::slice::from_ref(&both))[..] else {
            panic!("the exact ones come first, the newer one before");
        };
        assert!(first == second && (third / first - 0.6).abs() < 0.01);
        let required = Part::of(vec![(2, 1.0)], true);
        let all = found(&[both, required]);
        assert_eq!(all.iter().map(|(ordinal, _)| *ordinal).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_part_is_as_frequent_as_the_most_frequent_of_its_terms() {
        let terms =
            [word(&[(2, 1, 9), (1, 1, 9)]), word(&[(2, 1, 9), (1, 1, 9)]), word(&[(3, 1, 9)])];
        let part = Part::of(vec![(0, 1.0), (1, 0.6), (2, 0.6)], false);
        assert_eq!(having(&terms, &part), 2);
    }

    #[test]
    fn a_word_of_every_document_still_counts_for_something() {
        assert!(rarity(100, 100) > 0.0 && rarity(200, 100) > 0.0);
        assert!(rarity(1, 100) > rarity(2, 100));
    }
}
