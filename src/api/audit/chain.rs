//! The chain of an organization's audit log: each entry has a sequence number, the hash of the entry
//! before it, and its own, which only this installation's key can compute.
//!
//! Entries are appended by a job, in steps: one transaction takes pending entries, oldest id first,
//! and moves the head. So whatever ends the process, an entry is either pending or in the chain. Two
//! jobs at once would conflict over the head, and one of them would run again.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::postings::Postings;
use super::{AuditEntry, AuditEntryV1};
use crate::base::{Id, Keys, Result, Time};
use crate::store::{
    AnyIndex, Export, Index, Key as _, ListSource, Order, Org, Record, Tx, View, codec, no_upgrade,
};

/// A step appends at most 100 entries: some 75 KiB of rows, so that it is light work.
const APPENDED_ROWS: usize = 100;

// ── Records ──────────────────────────────────────────────────────────────────

/// A position in a chain: a sequence number and the hash of that entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Link {
    pub sequence: u64,
    pub hash: [u8; 32],
}

impl Link {
    /// The position before the first entry.
    pub const START: Link = Link { sequence: 0, hash: [0; 32] };
}

/// An entry of the chain.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ChainedEntry {
    /// Its number in the chain: 1, 2, 3 …
    pub sequence: u64,
    /// What was recorded.
    pub entry: AuditEntry,
    /// The latest time of this and all earlier entries: it never decreases along the chain, as the
    /// time of an entry can.
    pub latest: Time,
    /// The hash of the entry before.
    pub previous: [u8; 32],
    /// The hash of all of this in this organization.
    pub hash: [u8; 32],
}

/// An entry whose time is behind the latest of those before it by more than this is in [`BY_ID`]: 50 ms,
/// the time between the beginnings of requests that are in progress at once.
const LATE_MILLIS: i64 = 50;

/// The few chained entries that are not found by the time in their id: those written while ids ran
/// ahead of the clock, or committed late.
static BY_ID: Index<ChainedEntry, Id<AuditEntry>> =
    Index::non_unique("audit_log.by_id", |chained| {
        let created_at = chained.entry.created_at;
        let is_late = chained.latest.millis() - created_at.millis() > LATE_MILLIS;
        (is_late || chained.entry.id.time() != created_at).then_some(chained.entry.id)
    });

impl Record for ChainedEntry {
    const TABLE: &'static str = "audit_log";
    const NOUN: &'static str = "audit entry";
    const EXPORT: Export<Self> = Export::LeftOut(
        "its chain proves it in this installation only: `roadstead audit export` prints it",
    );
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_ID];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("entry.id", "history: the pending entry was removed when this was written"),
        ("entry.org", "organizations are not removed"),
        ("entry.actor_id", "history: the actor may have been deleted"),
        ("entry.person.id", "history: the person may have left"),
    ];
    const VERSION: u8 = 2;
    type Key = u64;
    fn key(&self) -> Self::Key {
        self.sequence
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<ChainedEntryV1>(body)?.into()),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// Version 1 had entries of version 1.
#[derive(Encode, Decode)]
struct ChainedEntryV1 {
    sequence: u64,
    entry: AuditEntryV1,
    latest: Time,
    previous: [u8; 32],
    hash: [u8; 32],
}

impl From<ChainedEntryV1> for ChainedEntry {
    fn from(old: ChainedEntryV1) -> Self {
        let ChainedEntryV1 { sequence, entry, latest, previous, hash } = old;
        ChainedEntry { sequence, entry: entry.into(), latest, previous, hash }
    }
}

impl ChainedEntry {
    /// Returns its position.
    pub fn link(&self) -> Link {
        Link { sequence: self.sequence, hash: self.hash }
    }

    /// Returns the hash that it must have in the chain of `org` as the entry with this number.
    pub(super) fn hash_as(&self, keys: &Keys, org: Id<Org>, sequence: u64) -> [u8; 32] {
        keys.hash("roadstead 2026 audit chain: entry", &self.content(org, sequence))
    }

    /// The hashed content: every field, each with its length before it. Not the stored bytes, whose
    /// layout may change. Nothing here may change, or old entries no longer verify.
    fn content(&self, org: Id<Org>, sequence: u64) -> Vec<u8> {
        let ChainedEntry { entry, latest, previous, .. } = self;
        let mut content = Content::default();
        content.add(org.bytes());
        content.add(&sequence.to_be_bytes());
        content.add(previous);
        content.add(&latest.millis().to_be_bytes());
        content.add(entry.id.bytes());
        content.add(entry.org.bytes());
        content.add(&entry.created_at.millis().to_be_bytes());
        content.add(&entry.actor_type.to_bytes());
        content.add_optional(entry.actor_id.as_ref().map(|id| id.bytes().as_slice()));
        content.add(entry.actor_name.as_bytes());
        content.add_optional(entry.via.as_deref().map(str::as_bytes));
        content.add(entry.action.as_bytes());
        content.add(entry.resource_type.as_bytes());
        content.add_optional(entry.resource_id.as_deref().map(str::as_bytes));
        content.add_optional(entry.detail.as_deref().map(str::as_bytes));
        content.add(entry.request_id.as_bytes());
        content.add(&entry.outcome.to_bytes());
        // Only if there is one: entries of version 1 have hashes without it.
        if let Some(person) = &entry.person {
            content.add(person.id.bytes());
            content.add(person.name.as_bytes());
        }
        content.0
    }
}

/// The end of an organization's chain.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ChainHead {
    /// The last entry.
    pub last: Link,
    /// The latest time of all entries.
    pub latest: Time,
    /// How far the time of an entry was behind the latest time of those before it, at most: in
    /// milliseconds. Bounds where entries of a range of time can be.
    pub lag_millis: i64,
    /// The first entry that was appended although what was before it was not as it was left.
    pub broken_before: Option<u64>,
    /// A hash of all of this in this organization, which only this installation can compute.
    pub seal: [u8; 32],
}

impl Record for ChainHead {
    const TABLE: &'static str = "audit_log.heads";
    const EXPORT: Export<Self> = Export::LeftOut("another installation begins a chain of its own");
    type Key = ();
    fn key(&self) {}
}

impl ChainHead {
    /// The head of a chain without entries.
    pub(super) const EMPTY: ChainHead = ChainHead {
        last: Link::START,
        latest: Time::from_millis(0),
        lag_millis: 0,
        broken_before: None,
        seal: [0; 32],
    };

    /// Returns whether its seal is right in this organization.
    pub(super) fn is_sealed(&self, keys: &Keys, org: Id<Org>) -> bool {
        self.seal == self.seal_in(keys, org)
    }

    /// Returns the seal that it must have in this organization.
    pub(super) fn seal_in(&self, keys: &Keys, org: Id<Org>) -> [u8; 32] {
        let ChainHead { last, latest, lag_millis, broken_before, .. } = self;
        let mut content = Content::default();
        content.add(org.bytes());
        content.add_link(last);
        content.add(&latest.millis().to_be_bytes());
        content.add(&lag_millis.to_be_bytes());
        content.add_optional(broken_before.map(u64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
        keys.hash("roadstead 2026 audit chain: head", &content.0)
    }

    /// Appends an entry; the seal is then of the earlier head.
    pub(super) fn append(&mut self, keys: &Keys, org: Id<Org>, entry: AuditEntry) -> ChainedEntry {
        let created_at = entry.created_at;
        self.lag_millis = self.lag_millis.max(self.latest.millis() - created_at.millis());
        self.latest = self.latest.max(created_at);
        let mut chained = ChainedEntry {
            sequence: self.last.sequence + 1,
            entry,
            latest: self.latest,
            previous: self.last.hash,
            hash: [0; 32],
        };
        chained.hash = chained.hash_as(keys, org, chained.sequence);
        self.last = chained.link();
        chained
    }
}

/// Parts of what is hashed, each with its length before it.
#[derive(Default)]
pub(super) struct Content(pub(super) Vec<u8>);

impl Content {
    pub(super) fn add(&mut self, part: &[u8]) {
        self.0.extend_from_slice(&(part.len() as u64).to_be_bytes());
        self.0.extend_from_slice(part);
    }

    fn add_optional(&mut self, part: Option<&[u8]>) {
        self.0.push(u8::from(part.is_some()));
        self.add(part.unwrap_or_default());
    }

    pub(super) fn add_link(&mut self, link: &Link) {
        self.add(&link.sequence.to_be_bytes());
        self.add(&link.hash);
    }
}

// ── Appending ────────────────────────────────────────────────────────────────

/// Appends pending entries with ids from `from` on, before `end`, to the chains of their organizations:
/// one step. Returns where the next step may go on, if there may be more; looking through the keys of
/// entries that were appended a moment ago would be most of its work.
///
/// Ids are not in commit order: take as `end` an id issued a moment ago, so that the transactions
/// that took the ids before it are mostly committed. Then the order of the chain is nearly that of
/// time, and the step does not conflict with requests that add entries. One that is committed later
/// is appended by a later step that looks from the first id on.
pub fn append_pending(
    tx: &mut Tx,
    from: Id<AuditEntry>,
    end: Id<AuditEntry>,
) -> Result<Option<Id<AuditEntry>>> {
    let mut pending = Vec::new();
    tx.view().record_keys::<AuditEntry>(&from, &end, Order::Ascending, |id| {
        pending.push(id);
        Ok(if pending.len() == APPENDED_ROWS {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    tx.view().will_get::<AuditEntry>(pending.iter())?;
    let entries = pending.iter().map(|id| tx.fetch(id)).collect::<Result<Vec<AuditEntry>>>()?;
    let mut counts = BTreeMap::<_, u64>::new();
    entries.iter().for_each(|entry| *counts.entry(entry.org).or_default() += 1);
    let mut heads = BTreeMap::new();
    for entry in entries {
        let org = entry.org;
        tx.set_org(org);
        let (head, postings) = match heads.entry(org) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let head = head_to_continue(&tx.view())?;
                let numbers: Vec<_> = (1..=counts[&org]).map(|n| head.last.sequence + n).collect();
                tx.view().will_get::<ChainedEntry>(numbers.iter())?;
                new.insert((head, Postings::default()))
            }
        };
        tx.remove(&entry)?;
        let chained = head.append(tx.keys(), org, entry);
        tx.insert(&chained)?;
        postings.add(chained.sequence, &chained.entry);
    }
    for (org, (mut head, postings)) in heads {
        tx.set_org(org);
        postings.insert(tx)?;
        head.seal = head.seal_in(tx.keys(), org);
        tx.put(&head)?;
    }
    Ok(pending.last().copied().filter(|_| pending.len() == APPENDED_ROWS))
}

/// Returns the first entry of a range of sequence numbers with no earlier latest time than `time`, by
/// bisection.
pub fn first_at(view: &View, time: Time, from: u64, end: u64) -> Result<u64> {
    let (mut low, mut high) = (from, end);
    while low < high {
        let middle = low + (high - low) / 2;
        let is_before = view.get::<ChainedEntry>(&middle)?.is_none_or(|one| one.latest < time);
        if is_before {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// Returns the entry with this id, among those from number `from` on and before `end`.
pub fn find_entry(
    view: &View,
    id: Id<AuditEntry>,
    from: u64,
    end: u64,
) -> Result<Option<ChainedEntry>> {
    if let Some(late) = view.first(&BY_ID, &id, Order::Ascending)? {
        return Ok(Some(late));
    }
    let created_at = id.time();
    let first = first_at(view, created_at, from, end)?;
    let latest = Time::from_millis(created_at.millis().saturating_add(LATE_MILLIS + 1));
    let last = first_at(view, latest, first, end)?;
    let mut found = None;
    view.for_each_between((&first, &last), Order::Ascending, |chained: ChainedEntry| {
        let is_it = chained.entry.id == id;
        found = is_it.then_some(chained);
        Ok(if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

/// Returns the head to continue from. One that is not as it was left is not trusted: the chain goes
/// on after the last entry there is, and notes it, since the log must not end where it was attacked.
fn head_to_continue(view: &View) -> Result<ChainHead> {
    let stored: Option<ChainHead> = view.get(&())?;
    let last = view.first::<ChainedEntry>(ListSource::TABLE, &(), Order::Descending)?;
    let end = last.as_ref().map_or(Link::START, ChainedEntry::link);
    match stored {
        None if last.is_none() => Ok(ChainHead::EMPTY),
        Some(head) if head.last == end && head.is_sealed(view.keys(), view.org()) => Ok(head),
        stored => {
            let head = stored.unwrap_or(ChainHead::EMPTY);
            let sequence = end.sequence.max(head.last.sequence);
            tracing::error!(
                org = %view.org(), sequence,
                "the end of the audit log is not as it was left; stop the server and run: roadstead check"
            );
            view.damage.note(&format_args!(
                "the end of the audit log of the organization {} is not as it was left",
                view.org()
            ));
            let latest = last.map_or(head.latest, |last| last.latest.max(head.latest));
            let broken_before = head.broken_before.or(Some(sequence + 1));
            // Entries after the break may be anywhere in time.
            let lag_millis = i64::MAX / 4;
            let last = Link { sequence, hash: end.hash };
            Ok(ChainHead { last, latest, lag_millis, broken_before, seal: [0; 32] })
        }
    }
}
