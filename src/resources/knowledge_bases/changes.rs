//! Changes of the index: documents whose words are to be added to it or removed from it.
//!
//! A document has hundreds of words and sometimes tens of thousands, each in another page of the
//! database: written with the document they would hold up all other writes. So a document is written
//! with one row of change, and a search looks into the words of the few documents with pending ones.
//! A job merges many changes at once, word by word in steps: a word of several of them is written
//! once.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::{ControlFlow, Range};

use bincode::{Decode, Encode};

use super::content::PART_BYTES;
use super::document::DocumentContent;
use super::knowledge_base::{IndexMerge, KnowledgeBase, Ordinal, change_state, merge, state};
use super::language::Language;
use super::postings::{Edit, Posting, edit, length_step};
use super::terms::DocumentTerms;
use super::words::Term;
use crate::base::{Error, Id, Result, Time};
use crate::outbox::{Job, JobHandler, Prepared, cancel, enqueue, no_effect, pending_job};
use crate::store::{AnyReference, Export, Key, Order, Record, Reference, Tx, View};

/// A merge has at most 256 changes: of so many documents a search may have to look words up one by
/// one.
const MERGE_CHANGES: u64 = 256;

/// When so many changes are pending, whoever writes a document does a step of the merge first: a
/// search must not get slower with every document of an import.
const MANY_PENDING: u64 = 256;

/// When so many are, documents of unusually many words come faster than they can be merged: 503.
const MAX_PENDING: u64 = 512;

/// A step merges 384 words: some 400 KiB of chunks, and as many pages of the database.
const STEP_WORDS: usize = 384;

/// The job waits so long for further changes: a merge of many costs little more than one of one.
const DELAY_MILLIS: i64 = 1_000;

crate::base::portable! {
/// A change of the index that is not merged into it.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DocumentChange {
    knowledge_base: Id<KnowledgeBase>,
    number: u64,
    pub ordinal: Ordinal,
    pub kind: ChangeKind,
    /// The number of words in the content.
    pub words: u32,
}
}

/// Whether a content comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Removed,
    /// It is there, and has got further terms.
    Extended,
}
crate::store::stored_enum!(ChangeKind { Added = 0, Removed = 1, Extended = 2 });

static KNOWLEDGE_BASE: Reference<DocumentChange, KnowledgeBase> = Reference::cascade(
    &["knowledge_base"],
    |base: &KnowledgeBase| base.id.to_bytes(),
    |change: &DocumentChange, _| vec![change.knowledge_base.to_bytes()],
)
.deferred();

impl Record for DocumentChange {
    const TABLE: &'static str = "document_changes";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&KNOWLEDGE_BASE];
    type Key = (Id<KnowledgeBase>, u64);
    fn key(&self) -> Self::Key {
        (self.knowledge_base, self.number)
    }
}

impl DocumentChange {
    /// Its number: smaller than those of later changes.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Adds the change of a complete content.
pub fn add(tx: &mut Tx, content: &DocumentContent, kind: ChangeKind) -> Result<()> {
    let DocumentContent { knowledge_base, ordinal, words, .. } = *content;
    let job = match state(&tx.view(), knowledge_base)?.job {
        Some(job) => job,
        None => enqueue_merge(tx, knowledge_base, tx.now().plus_millis(DELAY_MILLIS))?,
    };
    let number = change_state(tx, knowledge_base, |state| {
        match kind {
            ChangeKind::Added => {
                state.documents += 1;
                state.words += u64::from(words);
            }
            ChangeKind::Removed => {
                state.documents = state.documents.saturating_sub(1);
                state.words = state.words.saturating_sub(u64::from(words));
            }
            ChangeKind::Extended => {}
        }
        state.job = Some(job);
        state.next_change += 1;
        state.next_change - 1
    })?;
    tx.insert(&DocumentChange { knowledge_base, number, ordinal, kind, words })
}

fn enqueue_merge(tx: &mut Tx, base: Id<KnowledgeBase>, due: Time) -> Result<Id<Job>> {
    enqueue(tx, &MERGE, base.cast(), Some(base.cast()), due)
}

/// Begins the merge again if its job was given up or lost.
pub fn begin_again(tx: &mut Tx, base: Id<KnowledgeBase>) -> Result<()> {
    let job = state(&tx.view(), base)?.job;
    if pending(&tx.view(), base)? == 0
        || job.map_or(Ok(None), |job| pending_job(&tx.view(), &job))?.is_some()
    {
        return Ok(());
    }
    job.map_or(Ok(()), |job| cancel(tx, job))?;
    let job = enqueue_merge(tx, base, tx.now())?;
    change_state(tx, base, |state| state.job = Some(job))
}

/// Does a step of the merge, if so much is pending that whoever adds a change has to. Returns whether
/// that was so; the change is added in another transaction then.
///
/// # Errors
/// 503 if too much is pending.
pub fn help(tx: &mut Tx, base: Id<KnowledgeBase>) -> Result<bool> {
    let pending = pending(&tx.view(), base)?;
    if pending >= MAX_PENDING {
        return Err(Error::busy(
            "index_behind",
            "documents are added to this knowledge base faster than it can be indexed; try again",
            2,
        ));
    }
    if pending < MANY_PENDING {
        return Ok(false);
    }
    step(tx, base)
}

/// Returns the number of changes that are not merged.
pub fn pending(view: &View, base: Id<KnowledgeBase>) -> Result<u64> {
    Ok(state(view, base)?.next_change - merge(view, base)?.first)
}

/// Returns the changes with these numbers, oldest first.
pub fn numbered(
    view: &View,
    base: Id<KnowledgeBase>,
    numbers: Range<u64>,
) -> Result<Vec<DocumentChange>> {
    // No further than the last one: whoever adds another change has not changed what was read.
    let (from, to) = ((base, numbers.start), (base, numbers.end));
    let mut keys = Vec::new();
    view.record_keys::<DocumentChange>(&from, &to, Order::Ascending, |key| {
        keys.push(key);
        Ok(ControlFlow::Continue(()))
    })?;
    keys.iter().map(|key| view.fetch(key)).collect()
}

// ── Merging ──────────────────────────────────────────────────────────────────

/// The job that merges the changes of a knowledge base.
pub const MERGE: JobHandler =
    JobHandler { kind: "knowledge_base.merge_changes", prepare, settle: no_effect };

fn prepare(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let base = job.target.cast();
    if !tx.view().has::<KnowledgeBase>(&base)? {
        return Ok(Prepared::Done);
    }
    if step(tx, base)? {
        return Ok(Prepared::RetryAt(tx.now()));
    }
    change_state(tx, base, |state| state.job = state.job.filter(|other| *other != job.id))?;
    Ok(Prepared::Done)
}

/// Does a step of the merge of an existing knowledge base: begins one, merges some words, or ends it.
/// Returns whether there was something to do.
pub fn step(tx: &mut Tx, base: Id<KnowledgeBase>) -> Result<bool> {
    let old = merge(&tx.view(), base)?;
    let mut new = old.clone();
    if old.until == old.first {
        let next = state(&tx.view(), base)?.next_change;
        new.until = next.min(old.first + MERGE_CHANGES);
        if new.until == new.first {
            return Ok(false);
        }
    }
    let KnowledgeBase { language, .. } = tx.fetch(&base)?;
    let changes = numbered(&tx.view(), base, new.first..new.until)?;
    if new.is_applied {
        if let Some(first) = end(tx, (base, language), &changes)? {
            new.first = first;
        } else {
            new = IndexMerge { first: new.until, after: String::new(), is_applied: false, ..new };
        }
    } else {
        let (words, is_last) = next_words(&tx.view(), (base, language), &changes, &new.after)?;
        for (word, edits) in words {
            edit(tx, base, &word, edits)?;
            new.after = word;
        }
        new.is_applied = is_last;
    }
    if new != old {
        tx.replace(&old, &new)?;
    }
    Ok(true)
}

/// Applies the changes of a merge under way anew: the index is to have stems of another language.
pub fn begin_anew(tx: &mut Tx, base: Id<KnowledgeBase>) -> Result<()> {
    let old = merge(&tx.view(), base)?;
    let new = IndexMerge { after: String::new(), is_applied: false, ..old.clone() };
    if new == old { Ok(()) } else { tx.replace(&old, &new) }
}

/// Removes the changes of a merge that is applied, and what is out of the index: contents, and stems of
/// other languages. As many as one transaction should; returns the number of the first one that is left.
fn end(
    tx: &mut Tx,
    (base, language): (Id<KnowledgeBase>, Option<Language>),
    changes: &[DocumentChange],
) -> Result<Option<u64>> {
    let mut room = PART_BYTES;
    for change in changes {
        let content = (base, change.ordinal);
        let is_done = match change.kind {
            ChangeKind::Removed => {
                let content: Option<DocumentContent> = tx.get(&content)?;
                content.map_or(Ok(()), |content| tx.remove(&content))?;
                true
            }
            ChangeKind::Added | ChangeKind::Extended => {
                DocumentTerms::drop_other_stems(tx, content, language, &mut room)?
            }
        };
        if !is_done {
            return Ok(Some(change.number));
        }
        tx.remove(change)?;
    }
    Ok(None)
}

/// A word with the changes of its postings.
type WordEdits = (String, Vec<Edit>);

/// Returns the next words of a merge after this one with their edits, in the order of the words'
/// bytes, and whether they are the last ones.
fn next_words(
    view: &View,
    (base, language): (Id<KnowledgeBase>, Option<Language>),
    changes: &[DocumentChange],
    after: &str,
) -> Result<(Vec<WordEdits>, bool)> {
    let of_kind = |kind| changes.iter().filter(move |change| change.kind == kind);
    let removed: BTreeSet<_> = of_kind(ChangeKind::Removed).map(|change| change.ordinal).collect();
    // A content that comes and goes in one merge never gets into the index.
    let fleeting: BTreeSet<_> = of_kind(ChangeKind::Added)
        .map(|change| change.ordinal)
        .filter(|ordinal| removed.contains(ordinal))
        .collect();
    let lasts = |change: &&DocumentChange| match change.kind {
        ChangeKind::Added | ChangeKind::Removed => !fleeting.contains(&change.ordinal),
        ChangeKind::Extended => !removed.contains(&change.ordinal),
    };
    let lasting = changes.iter().filter(lasts);
    let mut heap = BinaryHeap::new();
    for (at, change) in lasting.enumerate() {
        let mut source = Source { content: (base, change.ordinal), change, words: Vec::new() };
        if let Some((word, term)) = source.first_after(view, after)? {
            heap.push(Reverse(Head { word, at, term, source }));
        }
    }
    let mut found: Vec<WordEdits> = Vec::new();
    while let Some(Reverse(Head { word, at, term, mut source })) = heap.pop() {
        let is_new = found.last().is_none_or(|(last, _)| *last != word);
        if is_new && found.len() == STEP_WORDS {
            return Ok((found, false));
        }
        let edit = source.edit(&word, term, language);
        if let Some((word, term)) = source.next(view, &word)? {
            heap.push(Reverse(Head { word, at, term, source }));
        }
        match found.last_mut().filter(|_| !is_new) {
            Some((_, edits)) => edits.push(edit),
            None => found.push((word, vec![edit])),
        }
    }
    Ok((found, true))
}

/// The words of a changed content, read row by row.
struct Source<'a> {
    content: (Id<KnowledgeBase>, Ordinal),
    change: &'a DocumentChange,
    /// The rest of the row that was read last, the next word last.
    words: Vec<(String, Term)>,
}

impl Source<'_> {
    /// Returns the first word after this one.
    fn first_after(&mut self, view: &View, after: &str) -> Result<Option<(String, Term)>> {
        if let Some(row) = DocumentTerms::up_to(view, self.content, after)? {
            self.fill(&row, after)?;
        }
        self.next(view, after)
    }

    /// Returns the next word, the last one having been `last`.
    fn next(&mut self, view: &View, last: &str) -> Result<Option<(String, Term)>> {
        if self.words.is_empty()
            && let Some(row) = DocumentTerms::after(view, self.content, last)?
        {
            self.fill(&row, last)?;
        }
        Ok(self.words.pop())
    }

    fn fill(&mut self, row: &DocumentTerms, after: &str) -> Result<()> {
        let own = |(word, term): (&str, Term)| (word.to_string(), term);
        let is_after =
            |entry: &Result<(&str, Term)>| !matches!(entry, Ok((word, _)) if *word <= after);
        let words = row.entries().filter(is_after).map(|entry| entry.map(own));
        self.words = words.collect::<Result<_>>()?;
        self.words.reverse();
        Ok(())
    }

    fn edit(&self, word: &str, term: Term, language: Option<Language>) -> Edit {
        let ordinal = self.change.ordinal;
        match self.change.kind {
            ChangeKind::Removed => Edit::Remove(ordinal),
            _ if Language::is_of_other(language, word) => Edit::Remove(ordinal),
            ChangeKind::Added | ChangeKind::Extended => {
                let length = length_step(self.change.words);
                Edit::Add(Posting { ordinal, frequency: term.frequency, length })
            }
        }
    }
}

/// The next word of a source.
struct Head<'a> {
    word: String,
    /// The number of the source, so that no two heads are equal.
    at: usize,
    term: Term,
    source: Source<'a>,
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.word, self.at).cmp(&(&other.word, other.at))
    }
}
impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Head<'_> {}
