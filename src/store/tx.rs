//! Changing records: a transaction keeps its changes in memory until all of it is done.

use super::codec;
use super::engine::{Layer, Op, Order, Reader, Writes};
use super::key::{Key, MAX_KEY_BYTES};
use super::record::{AnyIndex, Index, Org, Record, owner};
use super::signals::Topic;
use super::source::Moment;
use super::view::{Page, Part, Source, View};
use crate::base::{Error, Id, Keys, Result, Time};

/// At most 20,000 keys change in one transaction: a bulk of 1,000 with everything that hangs on
/// it fits; what is larger is done by a job in steps, so that nobody else waits long.
pub const MAX_WRITES: usize = 20_000;

/// A transaction of one organization's request.
///
/// It may be run again from the start and then must write the same for the same state: it has no
/// effect but its rows, and takes time, ids and randomness from here alone.
pub struct Tx<'a> {
    base: &'a dyn Reader,
    writes: Writes,
    org: Id<Org>,
    moment: &'a Moment,
    now: Time,
    keys: &'a Keys,
}

impl<'a> Tx<'a> {
    pub(super) fn new(base: &'a dyn Reader, moment: &'a Moment, keys: &'a Keys) -> Self {
        let now = moment.now();
        Tx { base, writes: Writes::default(), org: Id::NOTHING, moment, now, keys }
    }

    pub(super) fn into_writes(self) -> Writes {
        self.writes
    }

    /// What it sees: the state it began at with its own changes on top.
    pub fn view(&self) -> View<'_> {
        View {
            base: self.base,
            own: Some(&self.writes),
            org: self.org,
            now: self.now,
            keys: self.keys,
        }
    }

    /// From now on it is of this organization. For the gate and for jobs; `tests/tidy.rs` keeps it
    /// out of the resources' operations.
    pub fn enter(&mut self, org: Id<Org>) {
        self.org = org;
    }

    /// When this is. The same throughout the transaction.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The organization it is of.
    pub fn org(&self) -> Id<Org> {
        self.org
    }

    /// The installation's keys.
    pub fn keys(&self) -> &'a Keys {
        self.keys
    }

    /// A new id, larger than all before it.
    pub fn new_id<T: ?Sized>(&self) -> Id<T> {
        Id::new(self.moment.new_id())
    }

    /// Random bytes that nobody can guess.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        self.moment.random()
    }

    /// Wakes whoever listens to `topic`, once this is durable.
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
        source: impl Into<Source<R>>,
        prefix: &impl Key,
        order: Order,
        part: &Part,
        keep: impl Fn(&R) -> bool,
    ) -> Result<Page<R>> {
        self.view().page(source, prefix, order, part, keep)
    }

    /// See [`View::all`].
    pub fn all<R: Record>(
        &self,
        source: impl Into<Source<R>>,
        prefix: &impl Key,
    ) -> Result<Vec<R>> {
        self.view().all(source, prefix)
    }

    /// See [`View::count`].
    pub fn count<R: Record>(
        &self,
        source: impl Into<Source<R>>,
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
    pub fn insert<R: Record>(&mut self, record: &R) -> Result<()> {
        let key = self.key_of(record)?;
        let reader = Layer { base: self.base, writes: &self.writes };
        if !reader.is_free(R::TABLE, &key)? {
            return Err(Error::internal(format!("{} {} exists", R::TABLE, codec::hex(&key))));
        }
        self.index(None, Some(record))?;
        let value = codec::encode(record, &key)?;
        self.write::<R>(R::TABLE, key, Op::Insert(value))
    }

    /// Puts `new` in the place of `old`, which was read in this transaction and has the same key.
    ///
    /// # Errors
    /// 409 of a unique index whose key is taken.
    pub fn replace<R: Record>(&mut self, old: &R, new: &R) -> Result<()> {
        let key = self.key_of(new)?;
        debug_assert!(self.key_of(old)? == key, "a record's key never changes");
        self.index(Some(old), Some(new))?;
        let value = codec::encode(new, &key)?;
        self.write::<R>(R::TABLE, key, Op::Put(value))
    }

    /// Adds a record or puts it in the place of the one with its key.
    pub fn put<R: Record>(&mut self, record: &R) -> Result<()> {
        match self.get::<R>(&record.key())? {
            Some(old) => self.replace(&old, record),
            None => self.insert(record),
        }
    }

    /// Removes a record, which was read in this transaction.
    pub fn remove<R: Record>(&mut self, record: &R) -> Result<()> {
        let key = self.key_of(record)?;
        self.index(Some(record), None)?;
        self.write::<R>(R::TABLE, key, Op::Delete)
    }

    fn key_of<R: Record>(&self, record: &R) -> Result<Vec<u8>> {
        if R::OWNED && self.org.is_nothing() {
            return Err(Error::internal(format!("{} written outside an organization", R::TABLE)));
        }
        let mut key = owner::<R>(self.org);
        record.key().write(&mut key);
        Ok(key)
    }

    /// Takes the old record's entries away and adds the new one's, touching only what changes.
    fn index<R: Record>(&mut self, old: Option<&R>, new: Option<&R>) -> Result<()> {
        for index in R::INDEXES {
            let before = old.map(|record| self.entry(*index, record)).transpose()?.flatten();
            let after = new.map(|record| self.entry(*index, record)).transpose()?.flatten();
            if before == after {
                continue;
            }
            if let Some((key, _)) = before {
                self.write::<R>(index.name(), key, Op::Delete)?;
            }
            if let Some((key, value)) = after {
                let reader = Layer { base: self.base, writes: &self.writes };
                if let Some((code, message)) = index.taken()
                    && !reader.is_free(index.name(), &key)?
                {
                    return Err(Error::conflict(code, message));
                }
                self.write::<R>(index.name(), key, Op::Insert(value))?;
            }
        }
        Ok(())
    }

    /// The entry of a record in an index: many share a key by the record's own standing behind it;
    /// a unique one has the record's key as its value.
    fn entry<R: Record>(
        &self,
        index: &dyn AnyIndex<R>,
        record: &R,
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(own) = index.key_of(record) else { return Ok(None) };
        let mut key = owner::<R>(self.org);
        key.extend_from_slice(&own);
        let record_key = record.key().to_bytes();
        Ok(Some(match index.taken() {
            Some(_) => (key, record_key),
            None => {
                key.extend_from_slice(&record_key);
                (key, Vec::new())
            }
        }))
    }

    fn write<R: Record>(&mut self, table: &'static str, key: Vec<u8>, op: Op) -> Result<()> {
        if key.len() > MAX_KEY_BYTES {
            return Err(Error::internal(format!("{table}: a key of {} bytes", key.len())));
        }
        if self.writes.len() >= MAX_WRITES {
            return Err(Error::new(
                crate::base::Kind::TooLarge,
                "transaction_too_large",
                "this changes too much at once; send it in smaller parts",
            ));
        }
        self.writes.decide_access |= R::DECIDES_ACCESS;
        self.writes.tables.entry(table).or_default().insert(key, op);
        Ok(())
    }
}
