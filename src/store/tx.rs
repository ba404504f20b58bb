//! Transactions: changes of records, held in memory until the transaction is committed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::clock::{Clock, UncommittedIds};
use super::codec;
use super::damage::Damage;
use super::engine::{Order, Overlay, Reader, WriteBatch, WriteOp};
use super::key::{Key, MAX_KEY_BYTES};
use super::list_source::ListSource;
use super::page::{Page, PageRequest};
use super::record::{AnyRecord, Index, Org, Record, Table, entry, org_topic};
use super::reference::References;
use super::removal::Removal;
use super::sealed_field::SealedField;
use super::sealing_key::sealing_key;
use super::signals::{ACCESS_CHANGED, Topic};
use super::view::View;
use super::walk::Walk;
use crate::base::{Error, Id, Keys, Kind, Result, Sealed, Time, TraceParent};

/// At most 20,000 keys change in one transaction: a bulk request of 1,000 items with their indexes
/// fits; larger work is done by a job in steps, so that other writes do not wait long.
pub const MAX_WRITES: usize = 20_000;

/// A transaction of one organization's request.
///
/// It may be run again from the start, and must be without side effects: it changes rows only, and
/// takes time, ids and randomness from here alone.
pub struct Tx<'a> {
    reader: &'a dyn Reader,
    writes: WriteBatch,
    org: Id<Org>,
    /// The trace of the request that it is for, or that caused its job.
    trace: Option<TraceParent>,
    clock: &'a Clock,
    now: Time,
    keys: &'a Keys,
    pub(super) references: &'a References,
    damage: &'a Damage,
    pub(super) removal: Removal,
    removed_rows: BTreeMap<&'static str, u64>,
    /// The ids that it has made, in order.
    new_ids: RefCell<Vec<[u8; 16]>>,
    /// Marks these ids, once there are some.
    uncommitted: RefCell<Option<UncommittedIds>>,
}

impl<'a> Tx<'a> {
    pub(super) fn new(
        reader: &'a dyn Reader,
        clock: &'a Clock,
        keys: &'a Keys,
        references: &'a References,
        damage: &'a Damage,
    ) -> Self {
        let now = clock.now();
        let (writes, org, removal) = (WriteBatch::default(), Id::NIL, Removal::default());
        let trace = None;
        let (removed_rows, new_ids) = (BTreeMap::new(), RefCell::default());
        Tx {
            reader,
            writes,
            org,
            trace,
            clock,
            now,
            keys,
            references,
            damage,
            removal,
            removed_rows,
            new_ids,
            uncommitted: RefCell::default(),
        }
    }

    /// Returns what marks its ids as not committed yet: to be kept until it is committed.
    pub(super) fn take_uncommitted(&mut self) -> Option<UncommittedIds> {
        self.uncommitted.take()
    }

    /// Returns how many keys change so far.
    pub(super) fn changes(&self) -> usize {
        self.writes.len()
    }

    /// Returns how many records it removes so far, by table.
    pub fn removed_rows(&self) -> &BTreeMap<&'static str, u64> {
        &self.removed_rows
    }

    /// Returns whether anything changes so far.
    pub fn has_changes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Returns the changes. Whoever looks at the organization is notified of them.
    pub(super) fn into_writes(mut self) -> WriteBatch {
        if !self.org.is_nil() && self.has_changes() {
            self.writes.topics.push(org_topic(self.org));
        }
        self.writes
    }

    /// Returns a view of what it sees: its snapshot with its own changes on top.
    pub fn view(&self) -> View<'_> {
        View {
            reader: self.reader,
            writes: Some(&self.writes),
            org: self.org,
            now: self.now,
            keys: self.keys,
            references: self.references,
            damage: self.damage,
            walk: Walk::default(),
        }
    }

    /// Sets the organization of what follows. For the pipeline of requests and for jobs; `tests/tidy`
    /// keeps it out of the resources' operations.
    pub fn set_org(&mut self, org: Id<Org>) {
        self.org = org;
    }

    /// Says which trace it belongs to: that of a request, or of what caused a job.
    pub fn set_trace(&mut self, trace: Option<TraceParent>) {
        self.trace = trace;
    }

    /// Returns the trace that it belongs to; what it causes later belongs to it, too.
    pub fn trace(&self) -> Option<TraceParent> {
        self.trace
    }

    /// Returns the time of the transaction, the same throughout.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns its organization.
    pub fn org(&self) -> Id<Org> {
        self.org
    }

    /// Returns the installation's keys.
    pub fn keys(&self) -> &'a Keys {
        self.keys
    }

    /// Returns a new id, larger than all before it.
    pub fn new_id<T: ?Sized>(&self) -> Id<T> {
        let mut uncommitted = self.uncommitted.borrow_mut();
        let id = if uncommitted.is_some() {
            self.clock.new_id()
        } else {
            let (first, marked) = self.clock.new_uncommitted_id();
            *uncommitted = Some(marked);
            first
        };
        self.new_ids.borrow_mut().push(id.into_bytes());
        Id::new(id)
    }

    /// Returns whether a key is free. One that ends in an id that this transaction has made is, unless it
    /// has used it itself: no other transaction has made the same id, so nothing is looked up.
    fn is_free(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        let new_ids = self.new_ids.borrow();
        let is_new = |id: &[u8; 16]| new_ids.binary_search(id).is_ok();
        match self.writes.tables.get(table).and_then(|changes| changes.get(key)) {
            Some(op) => Ok(op.value().is_none()),
            None if key.last_chunk().is_some_and(is_new) => Ok(true),
            None => Ok(!self.reader.get(table, key, &mut |_| Ok(()))?),
        }
    }

    /// Returns cryptographically secure random bytes.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        self.clock.random()
    }

    /// Encrypts a secret for `field` of the record with this key; [`View::unseal`] decrypts it.
    ///
    /// # Errors
    /// 500 if the field is not in [`Record::SEALED`], or the store fails.
    pub fn seal<R: Record>(
        &self,
        field: &'static SealedField<R>,
        key: &R::Key,
        secret: &str,
    ) -> Result<Sealed> {
        if !R::SEALED.iter().any(|declared| declared.name == field.name) {
            let name = field.name; // A rotation of the key would miss it.
            return Err(Error::internal(format!("{}.{name} is not declared as sealed", R::TABLE)));
        }
        let record = self.view().scoped_key::<R>(key);
        let sealing_key = sealing_key(&self.view())?;
        self.keys.seal(sealing_key, &field.context(R::TABLE, &record), self.random(), secret)
    }

    /// Marks the transaction as a deletion, which is possible on a full disk, too. For the pipeline of
    /// requests and for sweeps.
    pub fn mark_deletion(&mut self) {
        self.writes.deletes = true;
    }

    /// Marks the transaction as an ordinary one again: for sweeps that write new records.
    pub fn unmark_deletion(&mut self) {
        self.writes.deletes = false;
    }

    /// Wakes the subscribers of `topic` once the transaction is durable.
    pub fn signal(&mut self, topic: Topic) {
        self.writes.topics.push(topic);
    }

    // ── Reading, as in a view ────────────────────────────────────────────────

    /// See [`View::get`].
    pub fn get<R: Record>(&self, key: &R::Key) -> Result<Option<R>> {
        self.view().get(key)
    }

    /// See [`View::fetch`].
    pub fn fetch<R: Record>(&self, key: &R::Key) -> Result<R> {
        self.view().fetch(key)
    }

    /// See [`View::find`].
    pub fn find<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        key: &K,
    ) -> Result<Option<R>> {
        self.view().find(index, key)
    }

    /// See [`View::page`].
    pub fn page<R: Record>(
        &self,
        source: impl Into<ListSource<R>>,
        prefix: &impl Key,
        order: Order,
        part: &PageRequest,
        keep: impl Fn(&R) -> bool,
    ) -> Result<Page<R>> {
        self.view().page(source, prefix, order, part, keep)
    }

    /// See [`View::all`].
    pub fn all<R: Record>(
        &self,
        source: impl Into<ListSource<R>>,
        prefix: &impl Key,
    ) -> Result<Vec<R>> {
        self.view().all(source, prefix)
    }

    /// See [`View::count`].
    pub fn count<R: Record>(
        &self,
        source: impl Into<ListSource<R>>,
        prefix: &impl Key,
        at_most: usize,
    ) -> Result<usize> {
        self.view().count(source, prefix, at_most)
    }

    // ── Writing ──────────────────────────────────────────────────────────────

    /// Adds a record.
    ///
    /// # Errors
    /// 409 of a unique index whose key is taken; 500 if the record's own key is (ids are new).
    /// Nothing is changed then.
    pub fn insert<R: Record>(&mut self, record: &R) -> Result<()> {
        self.insert_any(record)
    }

    fn insert_any(&mut self, record: &dyn AnyRecord) -> Result<()> {
        let (table, key) = (record.table(), self.key_of(record)?);
        if !self.is_free(table.name, &key)? {
            return Err(Error::internal(format!("{} {} exists", table.name, codec::hex(&key))));
        }
        self.change(table, key, None, Some(record))
    }

    /// Replaces `old`, which was read in this transaction, by `new`, which has the same key.
    ///
    /// # Errors
    /// 409 of a unique index whose key is taken; 500 if `old` is not what is stored. Nothing is
    /// changed then.
    pub fn replace<R: Record>(&mut self, old: &R, new: &R) -> Result<()> {
        self.replace_any(old, new)
    }

    /// See [`Tx::replace`]; both are of one table.
    pub(super) fn replace_any(&mut self, old: &dyn AnyRecord, new: &dyn AnyRecord) -> Result<()> {
        debug_assert_eq!(old.table().name, new.table().name);
        let key = self.key_of(new)?;
        self.expect(&key, old)?;
        self.change(new.table(), key, Some(old), Some(new))
    }

    /// Adds a record or replaces the one with its key.
    ///
    /// # Errors
    /// 409 of a unique index whose key is taken. Nothing is changed then.
    pub fn put<R: Record>(&mut self, record: &R) -> Result<()> {
        self.put_any(record)
    }

    fn put_any(&mut self, record: &dyn AnyRecord) -> Result<()> {
        let (table, key) = (record.table(), self.key_of(record)?);
        let old = self.stored(table, &key)?;
        self.change(table, key, old.as_deref(), Some(record))
    }

    /// Returns the record that is stored under a key.
    pub(super) fn stored(&self, table: &Table, key: &[u8]) -> Result<Option<Box<dyn AnyRecord>>> {
        let mut found = None;
        self.overlay().get(table.name, key, &mut |value| {
            let record = (table.decode)(key, value);
            found = Some(record.inspect_err(|error| self.damage.note_error(error))?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Deletes a record, which was read in this transaction, regardless of references to it; returns
    /// its stored size in bytes.
    ///
    /// # Errors
    /// 500 if it is not what is stored. Nothing is changed then.
    pub(super) fn delete_any(&mut self, record: &dyn AnyRecord) -> Result<usize> {
        let key = self.key_of(record)?;
        let bytes = self.expect(&key, record)?;
        self.change(record.table(), key, Some(record), None)?;
        Ok(bytes)
    }

    /// Makes changes that belong together: if one of them fails, none is made, and the transaction goes
    /// on without them.
    ///
    /// # Errors
    /// Those of `changes`.
    pub fn attempt<T>(&mut self, changes: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = (self.writes.clone(), self.removal.clone(), self.removed_rows.clone());
        let (org, trace) = (self.org, self.trace);
        let made = changes(self);
        if made.is_err() {
            (self.writes, self.removal, self.removed_rows) = before;
            (self.org, self.trace) = (org, trace);
        }
        made
    }

    pub(super) fn overlay(&self) -> Overlay<'_> {
        Overlay { base: self.reader, writes: &self.writes }
    }

    fn key_of(&self, record: &dyn AnyRecord) -> Result<Vec<u8>> {
        let table = record.table();
        if table.org_prefix_len > 0 && self.org.is_nil() {
            return Err(Error::internal(format!("{} written outside an organization", table.name)));
        }
        let mut key = Vec::with_capacity(64);
        key.extend_from_slice(&self.org.bytes()[..table.org_prefix_len]);
        record.write_key(&mut key);
        Ok(key)
    }

    /// Refuses a copy that is not (any longer) what is stored under `key`: changes made in between
    /// would be lost, and their index entries left behind. Returns its stored size in bytes.
    fn expect(&self, key: &[u8], old: &dyn AnyRecord) -> Result<usize> {
        let (table, own) = (old.table(), old.encoded(key)?);
        let mut same = false;
        self.overlay().get(table.name, key, &mut |stored| {
            // An older version differs in its bytes only.
            same = stored == own || table.rewrite(key, stored)? == own;
            Ok(())
        })?;
        if same {
            return Ok(own.len());
        }
        let key = codec::hex(key);
        Err(Error::internal(format!("{} {key}: is not what was read before", table.name)))
    }

    /// Makes every change that turns `old` into `new`, or none: after an error the transaction may
    /// continue.
    fn change(
        &mut self,
        table: &Table,
        key: Vec<u8>,
        old: Option<&dyn AnyRecord>,
        new: Option<&dyn AnyRecord>,
    ) -> Result<()> {
        let indexes = table.indexes();
        let mut changes = Vec::with_capacity(1 + 2 * indexes.len());
        for (place, index) in indexes.enumerate() {
            let keys = |record: Option<&dyn AnyRecord>| {
                record.map(|record| record.index_keys(place)).unwrap_or_default()
            };
            let (before, after) = (keys(old), keys(new));
            for own in after.iter().filter(|own| !before.contains(own)) {
                let (key, value) = entry(index, own, &key, table.org_prefix_len);
                if let Some((code, message)) = index.conflict()
                    && !self.is_free(index.name(), &key)?
                {
                    return Err(Error::conflict(code, message));
                }
                changes.push((index.name(), key, WriteOp::Insert(value)));
            }
            for own in before.iter().filter(|own| !after.contains(own)) {
                let (key, _) = entry(index, own, &key, table.org_prefix_len);
                changes.push((index.name(), key, WriteOp::Delete));
            }
        }
        let op = match new {
            None => WriteOp::Delete,
            Some(record) => {
                let value = record.encoded(&key)?;
                if old.is_some() { WriteOp::Put(value) } else { WriteOp::Insert(value) }
            }
        };
        changes.push((table.name, key, op));
        self.write(changes)?;
        if new.is_none() {
            *self.removed_rows.entry(table.name).or_default() += 1;
        }
        if table.affects_access {
            self.writes.changes_access = true;
            if old.is_some() || !table.new_revokes_nothing {
                self.signal(ACCESS_CHANGED);
            }
        }
        Ok(())
    }

    fn write(&mut self, changes: Vec<(&'static str, Vec<u8>, WriteOp)>) -> Result<()> {
        if let Some((table, key, _)) = changes.iter().find(|(_, key, _)| key.len() > MAX_KEY_BYTES)
        {
            return Err(Error::internal(format!("{table}: a key of {} bytes", key.len())));
        }
        if self.writes.len() + changes.len() > MAX_WRITES {
            return Err(Error::new(
                Kind::TooLarge,
                "transaction_too_large",
                "this changes too much at once; send it in smaller parts",
            ));
        }
        let bytes =
            |(_, key, op): &(_, Vec<u8>, WriteOp)| key.len() + op.value().map_or(0, <[u8]>::len);
        self.reader.charge_write(changes.iter().map(bytes).sum())?;
        for (table, key, op) in changes {
            self.writes.add(table, key, op);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
