//! Reading records, in a snapshot or in a transaction.

use super::codec;
use super::engine::{Each, KeyRange, Order, Overlay, Reader, Writes};
use super::key::{Key, after_prefix};
use super::record::{AnyIndex, Index, Org, Record, org_prefix};
use crate::base::{Error, Id, Keys, Result, Sealed, Time};
use std::ops::ControlFlow;

/// The records as one organization's request may see them, at one moment.
///
/// Records that an organization owns are reached only through a view of that organization: no
/// operation can read another's.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(super) reader: &'a dyn Reader,
    pub(super) writes: Option<&'a Writes>,
    pub(super) org: Id<Org>,
    pub(super) now: Time,
    pub(super) keys: &'a Keys,
}

/// Where records are listed from: the table itself, in the order of its keys, or an index.
pub struct Source<R: 'static>(Option<&'static dyn AnyIndex<R>>);

impl<R: Record> Source<R> {
    /// The table itself.
    pub const TABLE: Self = Source(None);

    /// An index.
    pub(super) fn index(index: &'static dyn AnyIndex<R>) -> Self {
        Source(Some(index))
    }

    /// Whether these bytes have the form of a position: of a key as a whole.
    fn is_position(&self, bytes: &[u8]) -> bool {
        let is_key = |mut rest: &[u8]| R::Key::read(&mut rest).is_some() && rest.is_empty();
        match self.0 {
            None => is_key(bytes),
            Some(index) => index.key_len(bytes).is_some_and(|own| match index.conflict() {
                Some(_) => own == bytes.len(),
                None => is_key(&bytes[own..]),
            }),
        }
    }
}

impl<R: Record, K: Key> From<&'static Index<R, K>> for Source<R> {
    fn from(index: &'static Index<R, K>) -> Self {
        debug_assert!(index.is_registered(), "{} is not among its record's indexes", index.name());
        Source(Some(index))
    }
}

/// A page ends once its records would have more than 8 MiB together as they are stored: 200 of the
/// largest would be 400 MiB in memory, and more as JSON.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A page ends when so many records were looked at, whether they are in it or left out by a filter:
/// a request that finds little shall not read a whole table. Looking at them takes some 50 ms.
const MAX_SCANNED_ROWS: usize = 20_000;

/// The same in bytes as they are stored: 20,000 large records are gigabytes.
const MAX_SCANNED_BYTES: usize = 64 * 1024 * 1024;

/// PageRequest of a list: some records and where the next part begins, if there is one.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// The position of the last record that was looked at, when something follows.
    pub next: Option<Vec<u8>>,
}

impl<T> Page<T> {
    /// A list that has only this one part.
    pub fn whole(items: Vec<T>) -> Self {
        Page { items, next: None }
    }

    /// The same part with its records turned into something else.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(f).collect(), next: self.next }
    }

    /// The same, where turning one may fail.
    pub fn try_map<U>(self, f: impl FnMut(T) -> Result<U>) -> Result<Page<U>> {
        let items = self.items.into_iter().map(f).collect::<Result<_>>()?;
        Ok(Page { items, next: self.next })
    }
}

/// Which part of a list is wanted.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// At most so many records.
    pub limit: usize,
    /// Those after this position.
    pub after: Option<Vec<u8>>,
}

impl<'a> View<'a> {
    /// When this is. The same throughout a request.
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

    /// Opens a secret that [`Tx::seal`](super::Tx::seal) sealed for this field of this record, in
    /// this organization. What it gives goes to the service that it is for and nowhere else.
    ///
    /// # Errors
    /// 500 if it is of another record, field or organization, or was changed.
    pub fn unseal<R: Record>(
        &self,
        key: &R::Key,
        field: &'static str,
        sealed: &Sealed,
    ) -> Result<String> {
        let record = self.scoped_key::<R>(key);
        self.keys.unseal(&[R::TABLE.as_bytes(), &record, field.as_bytes()], sealed)
    }

    /// The same moment as another organization may see it. For `auth`, which works out whose
    /// request it is, and for jobs; `tests/tidy.rs` keeps it out of the resources.
    pub fn of(&self, org: Id<Org>) -> View<'a> {
        View { org, ..*self }
    }

    /// See [`Reader::access_version`].
    pub fn access_version(&self) -> Option<u64> {
        match self.writes {
            Some(writes) if writes.changes_access => None,
            _ => self.reader.access_version(),
        }
    }

    /// The record with this key.
    pub fn get<R: Record>(&self, key: &R::Key) -> Result<Option<R>> {
        self.get_raw(&self.scoped_key::<R>(key))
    }

    /// Whether there is a record with this key, without reading what is in it.
    pub fn has<R: Record>(&self, key: &R::Key) -> Result<bool> {
        self.raw_get(R::TABLE, &self.scoped_key::<R>(key), &mut |_| Ok(()))
    }

    /// The record with this key, or 404.
    pub fn fetch<R: Record>(&self, key: &R::Key) -> Result<R> {
        self.get(key)?.ok_or_else(Error::not_found)
    }

    /// The record that a unique index has under this key.
    pub fn find<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        key: &K,
    ) -> Result<Option<R>> {
        let own = key.to_bytes();
        let Some(record_key) = self.existing_key(index, &own)? else { return Ok(None) };
        let record_key = [org_prefix::<R>(self.org).as_slice(), &record_key].concat();
        Ok(Some(self.indexed(index, &own, &record_key)?.1))
    }

    /// The key of that record, which is not read.
    pub fn find_key<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        key: &K,
    ) -> Result<Option<R::Key>> {
        let own = key.to_bytes();
        let Some(record_key) = self.existing_key(index, &own)? else { return Ok(None) };
        R::Key::read(&mut record_key.as_slice())
            .map(Some)
            .ok_or_else(|| dangling_entry(index.name(), &own))
    }

    /// What a unique index has under this key.
    fn existing_key<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        own: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        debug_assert!(index.is_registered(), "{} is not among its record's indexes", index.name());
        if index.conflict().is_none() {
            return Err(Error::internal(format!("{} is not unique", index.name())));
        }
        let mut found = None;
        let entry = [org_prefix::<R>(self.org).as_slice(), own].concat();
        self.raw_get(index.name(), &entry, &mut |value| {
            found = Some(value.to_vec());
            Ok(())
        })?;
        Ok(found)
    }

    /// One part of the records whose key in `source` begins with `prefix`, those that `keep` keeps.
    /// `keep` reads what it leaves out: for more than a handful, there should be an index.
    ///
    /// A part may have fewer records than its limit, even none, and still name a next: it ends at
    /// 8 MiB of records, and after 20,000 records or 64 MiB looked at.
    pub fn page<R: Record>(
        &self,
        source: impl Into<Source<R>>,
        prefix: &impl Key,
        order: Order,
        part: &PageRequest,
        keep: impl Fn(&R) -> bool,
    ) -> Result<Page<R>> {
        let mut items = Vec::new();
        let mut items_bytes = 0;
        let mut looked_at = 0;
        let mut looked_at_bytes = 0;
        let mut last: Vec<u8> = Vec::new();
        let mut next = None;
        let after = part.after.as_deref();
        self.scan_records(source.into(), prefix, order, after, &mut |position, bytes, record| {
            let is_kept = keep(&record);
            let is_full = items.len() == part.limit
                || (!items.is_empty() && items_bytes + bytes > MAX_PAGE_BYTES);
            let is_long = looked_at == MAX_SCANNED_ROWS || looked_at_bytes >= MAX_SCANNED_BYTES;
            if is_long || (is_kept && is_full) {
                next = Some(std::mem::take(&mut last));
                return Ok(ControlFlow::Break(()));
            }
            looked_at += 1;
            looked_at_bytes += bytes;
            last.clear();
            last.extend_from_slice(position);
            if is_kept {
                items_bytes += bytes;
                items.push(record);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Page { items, next })
    }

    /// Every record whose key in `source` begins with `prefix`, in order, until told to stop.
    pub fn each<R: Record>(
        &self,
        source: impl Into<Source<R>>,
        prefix: &impl Key,
        order: Order,
        mut each: impl FnMut(R) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.scan_records(source.into(), prefix, order, None, &mut |_, _, record| each(record))
    }

    /// The same from the smallest key on, with the bytes of each record as it is stored and the
    /// beginning of the keys as bytes.
    pub(super) fn each_sized<R: Record>(
        &self,
        source: Source<R>,
        prefix: &[u8],
        mut each: impl FnMut(usize, R) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let prefix = Prefix(prefix.to_vec());
        self.scan_records(source, &prefix, Order::Ascending, None, &mut |_, size, record| {
            each(size, record)
        })
    }

    /// See [`View::count`].
    pub(super) fn count_raw<R: Record>(
        &self,
        source: Source<R>,
        prefix: &[u8],
        at_most: usize,
    ) -> Result<usize> {
        self.count(source, &Prefix(prefix.to_vec()), at_most)
    }

    /// All of them, smallest key first. For lists that a limit keeps short.
    pub fn all<R: Record>(
        &self,
        source: impl Into<Source<R>>,
        prefix: &impl Key,
    ) -> Result<Vec<R>> {
        let mut all = Vec::new();
        self.each(source, prefix, Order::Ascending, |record| {
            all.push(record);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    /// The first of them in this order.
    pub fn first<R: Record>(
        &self,
        source: impl Into<Source<R>>,
        prefix: &impl Key,
        order: Order,
    ) -> Result<Option<R>> {
        let mut first = None;
        self.each(source, prefix, order, |record| {
            first = Some(record);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// How many there are, counting no further than `at_most`; reads no records.
    pub fn count<R: Record>(
        &self,
        source: impl Into<Source<R>>,
        prefix: &impl Key,
        at_most: usize,
    ) -> Result<usize> {
        let Source(index) = source.into();
        let from = self.scoped_key::<R>(prefix);
        let to = after_prefix(&from);
        let mut count = 0;
        if at_most == 0 {
            return Ok(0);
        }
        self.scan(
            index.map_or(R::TABLE, |index| index.name()),
            KeyRange { from: &from, to: to.as_deref() },
            Order::Ascending,
            &mut |_, _| {
                count += 1;
                Ok(if count == at_most {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            },
        )?;
        Ok(count)
    }

    /// Every entry of an index from the key `from`, included, to the key `to`, excluded, until told
    /// to stop: its own key and that of its record, which is not read. For counting, and for
    /// filters over what an index holds.
    pub fn entries<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        from: &impl Key,
        to: &impl Key,
        order: Order,
        mut each: impl FnMut(K, R::Key) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let (from, to) = (self.scoped_key::<R>(from), self.scoped_key::<R>(to));
        if from >= to {
            return Ok(());
        }
        let owner = org_prefix::<R>(self.org).len();
        let range = KeyRange { from: &from, to: Some(&to) };
        self.scan(index.name(), range, order, &mut |key, value| {
            let mut rest = &key[owner..];
            let own = K::read(&mut rest);
            let mut record_key = if index.conflict().is_some() { value } else { rest };
            match (own, R::Key::read(&mut record_key)) {
                (Some(own), Some(record)) => each(own, record),
                _ => Err(dangling_entry(index.name(), key)),
            }
        })
    }

    /// Every key of a table from `from`, included, to `to`, excluded, until told to stop; reads no
    /// records. For lists in the order of the keys that are counted and skipped through.
    pub fn record_keys<R: Record>(
        &self,
        from: &impl Key,
        to: &impl Key,
        order: Order,
        mut each: impl FnMut(R::Key) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let (from, to) = (self.scoped_key::<R>(from), self.scoped_key::<R>(to));
        if from >= to {
            return Ok(());
        }
        let owner = org_prefix::<R>(self.org).len();
        let range = KeyRange { from: &from, to: Some(&to) };
        self.scan(R::TABLE, range, order, &mut |key, _| match R::Key::read(&mut &key[owner..]) {
            Some(key) => each(key),
            None => Err(dangling_entry(R::TABLE, key)),
        })
    }

    /// The beginning of keys, or a whole key, behind its owner's id.
    pub(super) fn scoped_key<R: Record>(&self, prefix: &impl Key) -> Vec<u8> {
        let mut bytes = org_prefix::<R>(self.org);
        prefix.write(&mut bytes);
        bytes
    }

    /// Walks a source.
    /// Positions are the keys without their owner: what a cursor carries.
    fn scan_records<R: Record>(
        &self,
        source: Source<R>,
        prefix: &impl Key,
        order: Order,
        after: Option<&[u8]>,
        each: &mut RecordFn<'_, R>,
    ) -> Result<()> {
        let mut from = self.scoped_key::<R>(prefix);
        let mut to = after_prefix(&from);
        let owner = org_prefix::<R>(self.org);
        if let Some(after) = after {
            let mut position = [owner.as_slice(), after].concat();
            // A position that no record of this list can have was made up, or is of another list.
            if !position.starts_with(&from) || !source.is_position(after) {
                return Err(Error::invalid_at("cursor", "is not a cursor of this list"));
            }
            match order {
                Order::Descending => to = Some(position),
                Order::Ascending => {
                    position.push(0); // The smallest key after it.
                    from = position;
                }
            }
        }
        let range = KeyRange { from: &from, to: to.as_deref() };
        let Source(Some(index)) = source else {
            return self.scan(R::TABLE, range, order, &mut |key, value| {
                each(&key[owner.len()..], value.len(), codec::decode(key, value)?)
            });
        };
        self.scan(index.name(), range, order, &mut |key, value| {
            let entry = &key[owner.len()..];
            let (own, record_key) = match index.conflict() {
                Some(_) => (entry, value),
                None => {
                    let own =
                        index.key_len(entry).ok_or_else(|| dangling_entry(index.name(), key))?;
                    entry.split_at(own)
                }
            };
            let record_key = [owner.as_slice(), record_key].concat();
            let (bytes, record) = self.indexed(index, own, &record_key)?;
            each(entry, bytes, record)
        })
    }

    /// The record an index entry points to, and its bytes as it is stored. Entries carry no
    /// checksum as records do; what the record says of itself shows whether the entry is right.
    fn indexed<R: Record>(
        &self,
        index: &dyn AnyIndex<R>,
        own: &[u8],
        key: &[u8],
    ) -> Result<(usize, R)> {
        match self.get_sized::<R>(key)? {
            Some(found) if index.key_of(&found.1).as_deref() == Some(own) => Ok(found),
            _ => Err(dangling_entry(index.name(), key)),
        }
    }

    pub(super) fn get_raw<R: Record>(&self, key: &[u8]) -> Result<Option<R>> {
        Ok(self.get_sized(key)?.map(|(_, record)| record))
    }

    fn get_sized<R: Record>(&self, key: &[u8]) -> Result<Option<(usize, R)>> {
        let mut found = None;
        self.raw_get(R::TABLE, key, &mut |value| {
            found = Some((value.len(), codec::decode(key, value)?));
            Ok(())
        })?;
        Ok(found)
    }

    fn raw_get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        match self.writes {
            None => self.reader.get(table, key, see),
            Some(writes) => Overlay { base: self.reader, writes }.get(table, key, see),
        }
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut Each<'_>,
    ) -> Result<()> {
        match self.writes {
            None => self.reader.scan(table, range, order, each),
            Some(writes) => Overlay { base: self.reader, writes }.scan(table, range, order, each),
        }
    }
}

/// The beginning of a key as its bytes.
struct Prefix(Vec<u8>);

impl Key for Prefix {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn read(_: &mut &[u8]) -> Option<Self> {
        None // Nothing has it as its key.
    }
}

/// What a walk calls for each record: its position, its bytes as it is stored, and itself.
type RecordFn<'a, R> = dyn FnMut(&[u8], usize, R) -> Result<ControlFlow<()>> + 'a;

fn dangling_entry(index: &str, key: &[u8]) -> Error {
    let key = codec::hex(key);
    Error::internal(format!(
        "{index}: an entry is wrong, or was written by a newer Roadstead, for {key}"
    ))
}

#[cfg(test)]
mod tests;
