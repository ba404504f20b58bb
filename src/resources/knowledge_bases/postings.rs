//! The inverted index: for each word the documents that have it, in chunks.
//!
//! A chunk has the postings of consecutive ordinals, so that those of new documents are added to the
//! last one, and a search reads the newest first. Rows of one posting each were the alternative: a
//! hundred thousand documents are twenty million of them, each twenty times as large.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::knowledge_base::{KnowledgeBase, Ordinal};
use super::terms::edge;
use super::varint;
use crate::base::{Error, Id, Result};
use crate::store::{AnyReference, Export, Key, Order, Record, Reference, Tx, View};

/// A chunk has at most 512 postings, some 2 KiB: adding to one rewrites a page of the database at
/// most, and a word of 100,000 documents is read in 200 rows.
const CHUNK_POSTINGS: usize = 512;

/// A document that has a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting {
    pub ordinal: Ordinal,
    /// How often it has the word, at most 255.
    pub frequency: u8,
    /// How many words it has: a step of [`length_of`].
    pub length: u8,
}

/// Returns the step of a number of words, on a logarithmic scale: a byte is enough to rank by.
pub fn length_step(words: u32) -> u8 {
    // At most 8 * 32.
    (((f64::from(words) + 1.0).log2() * STEPS).min(255.0) as u32).to_le_bytes()[0]
}

/// Returns about how many words a step stands for.
pub fn length_of(step: u8) -> f32 {
    ((f64::from(step) + 0.5) / STEPS).exp2() as f32 - 1.0
}

/// Steps for each doubling of the number of words: they differ by a twelfth.
const STEPS: f64 = 8.0;

crate::base::portable! {
/// Postings of a word.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DocumentPostings {
    knowledge_base: Id<KnowledgeBase>,
    word: String,
    /// None of its ordinals is smaller.
    first: Ordinal,
    /// About how many postings of the word are in the chunks before. Postings that left those since
    /// are counted.
    before: u32,
    /// For each posting how much its ordinal is larger than the one before, then the two other bytes.
    postings: Vec<u8>,
}
}

static KNOWLEDGE_BASE: Reference<DocumentPostings, KnowledgeBase> = Reference::cascade(
    &["knowledge_base"],
    |base: &KnowledgeBase| base.id.to_bytes(),
    |chunk: &DocumentPostings, _| vec![chunk.knowledge_base.to_bytes()],
)
.deferred();

impl Record for DocumentPostings {
    const TABLE: &'static str = "document_postings";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&KNOWLEDGE_BASE];
    type Key = (Id<KnowledgeBase>, String, Ordinal);
    fn key(&self) -> Self::Key {
        (self.knowledge_base, self.word.clone(), self.first)
    }
}

impl DocumentPostings {
    /// Returns the postings, in the order of their ordinals.
    ///
    /// # Errors
    /// 500 if they are not what was written.
    pub fn postings(&self) -> Result<Vec<Posting>> {
        let mut bytes = self.postings.as_slice();
        let mut postings = Vec::with_capacity(self.postings.len() / 3);
        let mut ordinal = self.first;
        while !bytes.is_empty() {
            let posting = read_posting(&mut bytes, ordinal).ok_or_else(|| {
                Error::internal(format!("postings of {} cannot be read", self.word))
            })?;
            ordinal = posting.ordinal;
            postings.push(posting);
        }
        Ok(postings)
    }

    /// Returns the last chunk of a word.
    pub fn last(view: &View, base: Id<KnowledgeBase>, word: &str) -> Result<Option<Self>> {
        let key = |ordinal| (base, word.to_string(), ordinal);
        edge(view, &key(0), &key(Ordinal::MAX), Order::Descending)
    }

    /// Calls `each` with the chunks of a word that may have postings of ordinals before `end`, the
    /// last chunk first, until it stops.
    ///
    /// # Errors
    /// Those of `each`, or if the store fails.
    pub fn each_before(
        view: &View,
        base: Id<KnowledgeBase>,
        word: &str,
        end: Ordinal,
        each: impl FnMut(Self) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let key = |ordinal| (base, word.to_string(), ordinal);
        view.for_each_between((&key(0), &key(end)), Order::Descending, each)
    }

    /// Returns the ordinal that none of its postings is before.
    pub fn first(&self) -> Ordinal {
        self.first
    }

    /// Returns about how many documents have the word; of its last chunk.
    ///
    /// # Errors
    /// 500 if the postings are not what was written.
    pub fn total(&self) -> Result<u32> {
        Ok(self.before.saturating_add(self.postings()?.len() as u32))
    }
}

fn read_posting(bytes: &mut &[u8], before: Ordinal) -> Option<Posting> {
    let ordinal = before.checked_add(varint::read(bytes)?)?;
    let (&[frequency, length], rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(Posting { ordinal, frequency, length })
}

/// Creates a chunk of postings, of which there is at least one.
fn chunk(
    knowledge_base: Id<KnowledgeBase>,
    word: &str,
    before: u32,
    of: &[Posting],
) -> DocumentPostings {
    let first = of[0].ordinal;
    let (mut postings, mut last) = (Vec::with_capacity(4 * of.len()), first);
    for posting in of {
        varint::write(posting.ordinal - last, &mut postings);
        postings.extend_from_slice(&[posting.frequency, posting.length]);
        last = posting.ordinal;
    }
    DocumentPostings { knowledge_base, word: word.into(), first, before, postings }
}

// ── Changing ─────────────────────────────────────────────────────────────────

/// A change of the postings of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A document that has it is added.
    Add(Posting),
    /// A document no longer has it.
    Remove(Ordinal),
}

impl Edit {
    fn ordinal(&self) -> Ordinal {
        match self {
            Edit::Add(posting) => posting.ordinal,
            Edit::Remove(ordinal) => *ordinal,
        }
    }
}

/// Changes the postings of a word, chunk by chunk. Applying the same edits twice changes nothing more.
pub fn edit(tx: &mut Tx, base: Id<KnowledgeBase>, word: &str, mut edits: Vec<Edit>) -> Result<()> {
    edits.sort_by_key(Edit::ordinal);
    let mut rest = edits.as_slice();
    while let Some(first) = rest.first() {
        let old = containing(&tx.view(), base, word, first.ordinal())?;
        let end = match &old {
            Some(chunk) => next_first(&tx.view(), chunk, first.ordinal())?,
            None => None,
        };
        let here = rest.partition_point(|edit| end.is_none_or(|end| edit.ordinal() < end));
        let (edits, others) = rest.split_at(here);
        replace(tx, (base, word), old, edits)?;
        rest = others;
    }
    Ok(())
}

/// Returns the chunk in which the posting of an ordinal is or would be.
fn containing(
    view: &View,
    base: Id<KnowledgeBase>,
    word: &str,
    ordinal: Ordinal,
) -> Result<Option<DocumentPostings>> {
    let key = |ordinal| (base, word.to_string(), ordinal);
    let before = edge(view, &key(0), &key(ordinal.saturating_add(1)), Order::Descending)?;
    if before.is_some() {
        return Ok(before);
    }
    edge(view, &key(ordinal), &key(Ordinal::MAX), Order::Ascending)
}

/// Returns the first ordinal of the chunk after this one and after `ordinal`, if there is one.
fn next_first(view: &View, chunk: &DocumentPostings, ordinal: Ordinal) -> Result<Option<Ordinal>> {
    let key = |ordinal| (chunk.knowledge_base, chunk.word.clone(), ordinal);
    let after = chunk.first.max(ordinal).saturating_add(1);
    let mut found = None;
    view.record_keys::<DocumentPostings>(
        &key(after),
        &key(Ordinal::MAX),
        Order::Ascending,
        |(.., first)| {
            found = Some(first);
            Ok(ControlFlow::Break(()))
        },
    )?;
    Ok(found)
}

/// Replaces a chunk by as many as its postings need once they are edited.
fn replace(
    tx: &mut Tx,
    (base, word): (Id<KnowledgeBase>, &str),
    old: Option<DocumentPostings>,
    edits: &[Edit],
) -> Result<()> {
    let postings = old.as_ref().map_or_else(|| Ok(Vec::new()), DocumentPostings::postings)?;
    let edited = merged(&postings, edits);
    if edited == postings {
        return Ok(());
    }
    let mut before = old.as_ref().map_or(0, |chunk| chunk.before);
    let mut new = edited.chunks(CHUNK_POSTINGS).map(|postings| {
        let chunk = chunk(base, word, before, postings);
        before = before.saturating_add(postings.len() as u32);
        chunk
    });
    let first = new.next();
    match (&old, &first) {
        (Some(old), Some(new)) if old.first == new.first => tx.replace(old, new)?,
        (old, new) => {
            old.as_ref().map_or(Ok(()), |old| tx.remove(old))?;
            new.as_ref().map_or(Ok(()), |new| tx.insert(new))?;
        }
    }
    new.try_for_each(|chunk| tx.insert(&chunk))
}

/// Merges postings with edits, both in the order of ordinals.
fn merged(postings: &[Posting], edits: &[Edit]) -> Vec<Posting> {
    let mut merged = Vec::with_capacity(postings.len() + edits.len());
    let mut postings = postings.iter().copied().peekable();
    for edit in edits {
        let ordinal = edit.ordinal();
        while let Some(posting) = postings.next_if(|posting| posting.ordinal < ordinal) {
            merged.push(posting);
        }
        postings.next_if(|posting| posting.ordinal == ordinal);
        // Of two edits of one document the last one counts.
        merged.pop_if(|last: &mut Posting| last.ordinal == ordinal);
        if let Edit::Add(posting) = edit {
            merged.push(*posting);
        }
    }
    merged.extend(postings);
    merged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::resources::testing::Fixture;
    use crate::store::ListSource;

    fn posting(ordinal: Ordinal, frequency: u8) -> Posting {
        Posting { ordinal, frequency, length: 3 }
    }

    /// All postings of the word `a`.
    fn stored(fixture: &Fixture) -> Vec<Posting> {
        let read = |view: &View| view.all::<DocumentPostings>(ListSource::TABLE, &());
        let chunks = fixture.store.read_now(fixture.org, read).unwrap();
        assert!(chunks.iter().all(|chunk| !chunk.postings.is_empty()));
        chunks.iter().flat_map(|chunk| chunk.postings().unwrap()).collect()
    }

    fn apply(fixture: &Fixture, edits: Vec<Edit>) {
        let base = Id::new(uuid::Uuid::from_u128(7));
        let write = move |tx: &mut Tx| edit(tx, base, "a", edits.clone());
        fixture.store.write_blocking(fixture.org, write).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn edits_of_any_order_are_as_those_of_a_map(
            rounds in prop::collection::vec(
                prop::collection::vec((0..3000_u32, any::<bool>(), any::<u8>()), 1..900), 1..6)
        ) {
            let fixture = Fixture::new();
            let mut model = BTreeMap::new();
            for round in rounds {
                // One edit of a document in each round, as in a merge.
                let round: BTreeMap<_, _> =
                    round.into_iter().map(|(ordinal, add, n)| (ordinal, (add, n))).collect();
                let edits = round.iter().map(|(&ordinal, &(add, n))| {
                    if add { Edit::Add(posting(ordinal, n)) } else { Edit::Remove(ordinal) }
                });
                apply(&fixture, edits.rev().collect());
                for (ordinal, (add, n)) in round {
                    if add { model.insert(ordinal, n); } else { model.remove(&ordinal); }
                }
                let expected: Vec<_> = model.iter().map(|(o, n)| posting(*o, *n)).collect();
                prop_assert_eq!(stored(&fixture), expected);
            }
        }
    }

    #[test]
    fn the_last_chunk_knows_how_many_documents_have_the_word() {
        let fixture = Fixture::new();
        for start in (0..2000).step_by(100) {
            apply(&fixture, (start..start + 100).map(|o| Edit::Add(posting(o, 1))).collect());
        }
        let base = Id::new(uuid::Uuid::from_u128(7));
        let last = |view: &View| DocumentPostings::last(view, base, "a");
        let last = fixture.store.read_now(fixture.org, last).unwrap().unwrap();
        assert_eq!(last.total().unwrap(), 2000);
        assert!(last.first > 1500);
    }

    #[test]
    fn lengths_are_kept_to_within_a_tenth() {
        for words in [1, 7, 100, 2_345, 1_000_000, u32::MAX] {
            let kept = f64::from(length_of(length_step(words)));
            let ratio = (kept + 1.0) / (f64::from(words) + 1.0);
            assert!((0.9..1.1).contains(&ratio), "{words}: {kept}");
        }
    }
}
