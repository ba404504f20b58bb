//! Postings: which entries of a chain have an actor, an action, a kind of resource or a resource.
//!
//! A row holds the numbers of up to 128 entries. So a step that appends a hundred entries of one
//! action changes one or two rows for it, where an index would get a hundred entries.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bincode::{Decode, Encode};
use uuid::Uuid;

use super::AuditEntry;
use crate::base::{Id, Result};
use crate::store::{Export, ListSource, Order, Record, Tx, View};

/// Entries of a block: as many as a `u128` has bits.
const BLOCK: u64 = 128;

/// What entries are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TermKind {
    /// The id of the actor, or of the person who answered for it.
    Actor,
    Action,
    /// The kind of the resource.
    ResourceType,
    /// The id of the resource, or its name.
    Resource,
}
crate::store::stored_enum!(TermKind { Actor = 0, Action = 1, ResourceType = 2, Resource = 3 });

/// A value that entries are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    kind: TermKind,
    /// An id, or a hash of a text, which may be long.
    value: [u8; 16],
}

impl Term {
    /// The entries of an actor, and those for which a person answered.
    pub fn actor(id: Id<()>) -> Self {
        Term { kind: TermKind::Actor, value: *id.bytes() }
    }

    /// The entries of an action.
    pub fn action(action: &str) -> Self {
        Term { kind: TermKind::Action, value: hash(action) }
    }

    /// The entries about a kind of resource.
    pub fn resource_type(kind: &str) -> Self {
        Term { kind: TermKind::ResourceType, value: hash(kind) }
    }

    /// The entries about a resource. An id that is written in another way has the same term, and the
    /// terms of new resources grow as their ids do, so that their rows lie together.
    pub fn resource(id: &str) -> Self {
        let value = Uuid::parse_str(id).map_or_else(|_| hash(id), Uuid::into_bytes);
        Term { kind: TermKind::Resource, value }
    }

    fn all(entry: &AuditEntry) -> impl Iterator<Item = Term> {
        [
            entry.actor_id.map(Term::actor),
            entry.person.as_ref().map(|person| Term::actor(person.id.cast())),
            Some(Term::action(&entry.action)),
            Some(Term::resource_type(&entry.resource_type)),
            entry.resource_id.as_deref().map(Term::resource),
        ]
        .into_iter()
        .flatten()
    }
}

fn hash(text: &str) -> [u8; 16] {
    *blake3::hash(text.as_bytes()).as_bytes().first_chunk().expect("a hash has 32 bytes")
}

/// The key of a posting: a term and a block of entries.
type PostingKey = (TermKind, [u8; 16], u64);

/// The entries of a block that have a term.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Posting {
    kind: TermKind,
    value: [u8; 16],
    /// The sequence number of the block's first entry, divided by [`BLOCK`].
    block: u64,
    /// One bit for each entry, the lowest for the first.
    entries: u128,
}

impl Record for Posting {
    const TABLE: &'static str = "audit_log.postings";
    const EXPORT: Export<Self> = Export::LeftOut("the chain of another installation begins anew");
    type Key = PostingKey;
    fn key(&self) -> Self::Key {
        (self.kind, self.value, self.block)
    }
}

/// Returns the bits of the block's entries from `from` on and before `end`.
fn mask(block: u64, from: u64, end: u64) -> u128 {
    let first = block * BLOCK;
    let before = |sequence: u64| match sequence.saturating_sub(first) {
        count if count >= BLOCK => u128::MAX,
        count => (1 << count) - 1,
    };
    before(end) & !before(from)
}

/// The entries that have a term, for searching from the newest on.
pub struct PostingList {
    term: Term,
    /// The block that was read last, with its entries.
    last_read: Option<(u64, u128)>,
}

impl PostingList {
    /// The entries that have this term.
    pub fn of(term: Term) -> Self {
        PostingList { term, last_read: None }
    }

    /// Returns the number of the newest entry from `from` on and before `end`.
    pub fn newest(&mut self, view: &View, from: u64, end: u64) -> Result<Option<u64>> {
        let Some(last) = end.checked_sub(1).filter(|last| from <= *last) else { return Ok(None) };
        let newest_in = |block: u64, entries: u128| {
            let bit = (entries & mask(block, from, end)).checked_ilog2()?;
            Some(block * BLOCK + u64::from(bit))
        };
        if let Some((block, entries)) = self.last_read
            && block == last / BLOCK
            && let Some(found) = newest_in(block, entries)
        {
            return Ok(Some(found));
        }
        // Only the entries of the last block and of the first may all be out of the range.
        let Term { kind, value } = self.term;
        let blocks = (&(kind, value, from / BLOCK), &(kind, value, last / BLOCK + 1));
        let mut newest = None;
        view.for_each_between(blocks, Order::Descending, |posting: Posting| {
            self.last_read = Some((posting.block, posting.entries));
            newest = newest_in(posting.block, posting.entries);
            Ok(if newest.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(newest)
    }
}

/// The postings of some entries of one chain.
#[derive(Default)]
pub struct Postings(BTreeMap<PostingKey, u128>);

impl Postings {
    /// Adds those of the entry with this number.
    pub fn add(&mut self, sequence: u64, entry: &AuditEntry) {
        let (block, bit) = (sequence / BLOCK, sequence % BLOCK);
        for Term { kind, value } in Term::all(entry) {
            *self.0.entry((kind, value, block)).or_default() |= 1 << bit;
        }
    }

    /// Writes them, for entries that were appended.
    pub fn insert(self, tx: &mut Tx) -> Result<()> {
        tx.view().will_get::<Posting>(self.0.keys())?;
        for (key, new) in self.0 {
            let stored = tx.get::<Posting>(&key)?.map_or(0, |posting| posting.entries);
            let (kind, value, block) = key;
            tx.put(&Posting { kind, value, block, entries: stored | new })?;
        }
        Ok(())
    }

    /// Removes them, with entries that are removed.
    pub fn remove(self, tx: &mut Tx) -> Result<()> {
        for (key, removed) in self.0 {
            let Some(stored) = tx.get::<Posting>(&key)? else { continue };
            match stored.entries & !removed {
                0 => tx.remove(&stored)?,
                entries => tx.put(&Posting { entries, ..stored })?,
            }
        }
        Ok(())
    }
}

/// Compares the stored postings with those of the entries of a chain, which are added in order.
pub(super) struct Comparer<'a> {
    view: &'a View<'a>,
    /// Those of the entries of one block.
    block: u64,
    expected: Postings,
    /// Postings that are stored as expected.
    equal: usize,
    /// The first block with a posting that is missing or another one.
    differing: Option<u64>,
}

impl<'a> Comparer<'a> {
    /// Compares those of the view's organization.
    pub fn new(view: &'a View<'a>) -> Self {
        let expected = Postings::default();
        Comparer { view, block: 0, expected, equal: 0, differing: None }
    }

    /// Adds the next entry, with its number.
    pub fn add(&mut self, sequence: u64, entry: &AuditEntry) -> Result<()> {
        if self.block != sequence / BLOCK {
            self.compare()?;
            self.block = sequence / BLOCK;
        }
        self.expected.add(sequence, entry);
        Ok(())
    }

    fn compare(&mut self) -> Result<()> {
        for (key, entries) in std::mem::take(&mut self.expected).0 {
            if self.view.get::<Posting>(&key)?.is_some_and(|stored| stored.entries == entries) {
                self.equal += 1;
            } else {
                self.differing.get_or_insert(self.block);
            }
        }
        Ok(())
    }

    /// Returns the sentence that says what differs, once all entries were added.
    pub fn finish(mut self) -> Result<Option<String>> {
        self.compare()?;
        if let Some(block) = self.differing {
            let (first, last) = ((block * BLOCK).max(1), (block + 1) * BLOCK - 1);
            return Ok(Some(format!(
                "filters do not find all of the entries {first} to {last}, or find others"
            )));
        }
        let stored = self.view.count::<Posting>(ListSource::TABLE, &(), usize::MAX)?;
        let rest = stored - self.equal;
        let found = || format!("filters find entries that are not there, by {rest} postings");
        Ok((rest > 0).then(found))
    }
}
