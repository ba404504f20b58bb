//! Views: reads of records, at a snapshot or in a transaction.

mod raw;

use std::ops::ControlFlow;

use super::damage::Damage;
use super::engine::{KeyRange, Order, Reader, WriteBatch};
use super::key::{Key, after_prefix};
use super::list_source::ListSource;
use super::record::{AnyIndex, Index, IndexTable as _, Org, Record, decode, org_prefix};
use super::reference::References;
use super::sealed_field::SealedField;
use super::walk::Walk;
use crate::base::{Error, Id, Keys, Result, Sealed, Time};

/// The records that one organization's request may see, at one snapshot.
///
/// Records that an organization owns can be read only through a view of that organization: no
/// operation can read another's.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(super) reader: &'a dyn Reader,
    pub(super) writes: Option<&'a WriteBatch>,
    pub(super) org: Id<Org>,
    pub(super) now: Time,
    pub(super) keys: &'a Keys,
    pub(super) references: &'a References,
    /// Where what is found damaged is noted.
    pub damage: &'a Damage,
    /// How its pages are read.
    pub(super) walk: Walk<'a>,
}

impl<'a> View<'a> {
    /// Returns the time of the request, the same throughout.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns its organization.
    pub fn org(&self) -> Id<Org> {
        self.org
    }

    /// Charges work that holds so many bytes to the budget of the attempt, as if they were read: what takes
    /// long is done in the turn of its organization, and neither on the writer nor beside requests.
    ///
    /// # Errors
    /// 413 if it is too much for a transaction.
    pub fn charge(&self, bytes: usize) -> Result<()> {
        self.reader.charge_read(bytes)
    }

    /// Returns the installation's keys.
    pub fn keys(&self) -> &'a Keys {
        self.keys
    }

    /// Decrypts a secret that [`Tx::seal`](super::Tx::seal) encrypted for this field of this record,
    /// in this organization. Send it to the service that it is for and nowhere else.
    ///
    /// # Errors
    /// 500 if it is of another record, field or organization, or was changed.
    pub fn unseal<R: Record>(
        &self,
        field: &'static SealedField<R>,
        key: &R::Key,
        sealed: &Sealed,
    ) -> Result<String> {
        let record = self.scoped_key::<R>(key);
        self.keys.unseal(&field.context(R::TABLE, &record), sealed)
    }

    /// Returns a view of another organization at the same snapshot. For `auth`, which resolves the
    /// organization of a request, and for jobs; `tests/tidy` keeps it out of the resources.
    pub fn in_org(&self, org: Id<Org>) -> View<'a> {
        View { org, ..*self }
    }

    /// See [`Reader::access_version`].
    pub fn access_version(&self) -> Option<u64> {
        match self.writes {
            Some(writes) if writes.changes_access => None,
            _ => self.reader.access_version(),
        }
    }

    /// Returns the record with this key, if it exists.
    pub fn get<R: Record>(&self, key: &R::Key) -> Result<Option<R>> {
        self.get_raw(&self.scoped_key::<R>(key))
    }

    /// Says that the records with these keys are read next, or looked for before they are inserted: a store
    /// that is elsewhere reads them at once.
    ///
    /// # Errors
    /// As reading them.
    pub fn will_get<'k, R: Record<Key: 'k>>(
        &self,
        keys: impl Iterator<Item = &'k R::Key>,
    ) -> Result<()> {
        let keys: Vec<_> = keys.map(|key| self.scoped_key::<R>(key)).collect();
        self.reading(|reader| reader.will_get(R::TABLE, &keys))
    }

    /// Returns whether there is a record with this key, without decoding it.
    pub fn has<R: Record>(&self, key: &R::Key) -> Result<bool> {
        self.raw_get(R::TABLE, &self.scoped_key::<R>(key), &mut |_| Ok(()))
    }

    /// Returns the record with this key.
    ///
    /// # Errors
    /// 404 if it does not exist.
    pub fn fetch<R: Record>(&self, key: &R::Key) -> Result<R> {
        self.get(key)?.ok_or_else(|| R::missing(key))
    }

    /// Returns whether a record, which need not be stored, refers by `field` to something that
    /// exists. For references whose possible targets lower modules cannot name.
    pub fn target_exists<R: Record>(&self, record: &R, field: &str) -> Result<bool> {
        for reference in self.references.from(R::TABLE) {
            if !reference.fields().contains(&field) || !reference.has_targets(self.org, record) {
                continue;
            }
            let missing = self.reading(|reader| reference.dangling(reader, self.org, record));
            let missing = self.charged(0, missing)?;
            if missing.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the record with this key in a unique index, if there is one.
    pub fn find<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        key: &K,
    ) -> Result<Option<R>> {
        let (owner, own) = (org_prefix::<R>(self.org), key.to_bytes());
        let entry = [owner.as_slice(), &own].concat();
        self.reading(|reader| reader.will_find((index.name(), &entry), (R::TABLE, &owner)))?;
        let Some(record_key) = self.existing_key(index, &entry)? else { return Ok(None) };
        let record_key = [owner, record_key].concat();
        Ok(Some(self.indexed(index, &own, &record_key)?.1))
    }

    /// Returns the key of the record with this key in a unique index, without reading the record.
    pub fn find_key<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        key: &K,
    ) -> Result<Option<R::Key>> {
        let own = key.to_bytes();
        let entry = [org_prefix::<R>(self.org).as_slice(), &own].concat();
        let Some(record_key) = self.existing_key(index, &entry)? else { return Ok(None) };
        R::Key::read(&mut record_key.as_slice())
            .map(Some)
            .ok_or_else(|| self.damage.wrong_entry(index.name(), &own))
    }

    /// Returns the key of a record, without organization, that a unique index has in this entry.
    fn existing_key<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        entry: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        debug_assert!(index.is_registered(), "{} is not among its record's indexes", index.name());
        if index.conflict().is_none() {
            return Err(Error::internal(format!("{} is not unique", index.name())));
        }
        let mut found = None;
        self.raw_get(index.name(), entry, &mut |value| {
            found = Some(value.to_vec());
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `each` with every record whose key in `source` begins with `prefix`, in order, until it
    /// stops the scan.
    pub fn for_each<R: Record>(
        &self,
        source: impl Into<ListSource<R>>,
        prefix: &impl Key,
        order: Order,
        mut each: impl FnMut(R) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.scan_records(source.into(), prefix, order, None, &mut |_, _, record| each(record))
    }

    /// Does the same as [`View::for_each`] for the records of a table whose key is from `from`,
    /// included, to `to`, excluded.
    pub fn for_each_between<R: Record>(
        &self,
        (from, to): (&R::Key, &R::Key),
        order: Order,
        mut each: impl FnMut(R) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let span = KeySpan { from: self.scoped_key::<R>(from), to: Some(self.scoped_key::<R>(to)) };
        self.scan_span(ListSource::TABLE, span, order, None, &mut |_, _, record| each(record))
    }

    /// Does the same as [`View::for_each`], with the prefix as bytes. Also passes the stored size of each
    /// record.
    pub fn for_each_sized<R: Record>(
        &self,
        source: ListSource<R>,
        prefix: &[u8],
        order: Order,
        mut each: impl FnMut(usize, R) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let prefix = Prefix(prefix.to_vec());
        self.scan_records(source, &prefix, order, None, &mut |_, size, record| each(size, record))
    }

    /// See [`View::count`].
    pub(super) fn count_raw<R: Record>(
        &self,
        source: ListSource<R>,
        prefix: &[u8],
        at_most: usize,
    ) -> Result<usize> {
        self.count(source, &Prefix(prefix.to_vec()), at_most)
    }

    /// Returns all records whose key in `source` begins with `prefix`, smallest key first. For lists
    /// that a limit keeps short.
    pub fn all<R: Record>(
        &self,
        source: impl Into<ListSource<R>>,
        prefix: &impl Key,
    ) -> Result<Vec<R>> {
        let mut all = Vec::new();
        self.for_each(source, prefix, Order::Ascending, |record| {
            all.push(record);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    /// Returns the first record, in this order, whose key in `source` begins with `prefix`.
    pub fn first<R: Record>(
        &self,
        source: impl Into<ListSource<R>>,
        prefix: &impl Key,
        order: Order,
    ) -> Result<Option<R>> {
        let mut first = None;
        self.for_each(source, prefix, order, |record| {
            first = Some(record);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// Counts the records whose key in `source` begins with `prefix`, up to `at_most`, without reading
    /// them.
    pub fn count<R: Record>(
        &self,
        source: impl Into<ListSource<R>>,
        prefix: &impl Key,
        at_most: usize,
    ) -> Result<usize> {
        let ListSource(index) = source.into();
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

    /// Calls `each` with every entry of an index from the key `from`, included, to the key `to`,
    /// excluded, until it stops the scan: the entry's key and that of its record, which is not read.
    /// For counting, and for filters over what an index holds.
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
        self.scan_entries(index, KeyRange { from: &from, to: Some(&to) }, order, &mut each)
    }

    /// Does the same as [`View::entries`] for those whose key begins with `prefix`.
    pub fn entries_below<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        prefix: &impl Key,
        order: Order,
        mut each: impl FnMut(K, R::Key) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let from = self.scoped_key::<R>(prefix);
        let to = after_prefix(&from);
        self.scan_entries(index, KeyRange { from: &from, to: to.as_deref() }, order, &mut each)
    }

    fn scan_entries<R: Record, K: Key>(
        &self,
        index: &'static Index<R, K>,
        range: KeyRange<'_>,
        order: Order,
        each: &mut impl FnMut(K, R::Key) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let owner = org_prefix::<R>(self.org).len();
        self.scan(index.name(), range, order, &mut |key, value| {
            let mut rest = &key[owner..];
            let own = K::read(&mut rest);
            let mut record_key = if index.conflict().is_some() { value } else { rest };
            match (own, R::Key::read(&mut record_key)) {
                (Some(own), Some(record)) => each(own, record),
                _ => Err(self.damage.wrong_entry(index.name(), key)),
            }
        })
    }

    /// Calls `each` with every key of a table from `from`, included, to `to`, excluded, until it stops
    /// the scan; reads no records. For lists in key order that are counted and skipped through.
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
            None => Err(self.damage.wrong_entry(R::TABLE, key)),
        })
    }

    /// Returns a key or key prefix with the organization's id in front.
    pub(super) fn scoped_key<R: Record>(&self, prefix: &impl Key) -> Vec<u8> {
        let mut bytes = org_prefix::<R>(self.org);
        prefix.write(&mut bytes);
        bytes
    }

    /// Scans the keys of a source that begin with `prefix`; see [`scan_span`](Self::scan_span).
    pub(super) fn scan_records<R: Record>(
        &self,
        source: ListSource<R>,
        prefix: &impl Key,
        order: Order,
        after: Option<&[u8]>,
        each: &mut RecordFn<'_, R>,
    ) -> Result<()> {
        self.scan_span(source, self.prefixed::<R>(prefix), order, after, each)
    }

    /// Returns the keys that begin with `prefix`.
    pub(super) fn prefixed<R: Record>(&self, prefix: &impl Key) -> KeySpan {
        let from = self.scoped_key::<R>(prefix);
        let to = after_prefix(&from);
        KeySpan { from, to }
    }

    /// Scans a part of a source. Positions are its keys without the organization: what a cursor
    /// carries.
    pub(super) fn scan_span<R: Record>(
        &self,
        source: ListSource<R>,
        KeySpan { mut from, mut to }: KeySpan,
        order: Order,
        after: Option<&[u8]>,
        each: &mut RecordFn<'_, R>,
    ) -> Result<()> {
        let owner = org_prefix::<R>(self.org);
        if let Some(after) = after {
            let mut position = [owner.as_slice(), after].concat();
            let is_inside = from <= position && to.as_ref().is_none_or(|to| position < *to);
            // A position that no record of this list can have is forged or of another list.
            if !is_inside || !source.is_position(after) {
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
        if to.as_ref().is_some_and(|to| *to <= from) {
            return Ok(());
        }
        let range = KeyRange { from: &from, to: to.as_deref() };
        let ListSource(Some(index)) = source else {
            return self.scan(R::TABLE, range, order, &mut |key, value| {
                each(&key[owner.len()..], value.len(), self.decoded(key, value)?)
            });
        };
        self.scan(index.name(), range, order, &mut |key, value| {
            let entry = &key[owner.len()..];
            let (own, record_key) = match index.conflict() {
                Some(_) => (entry, value),
                None => {
                    let own = index
                        .key_len(entry)
                        .ok_or_else(|| self.damage.wrong_entry(index.name(), key))?;
                    entry.split_at(own)
                }
            };
            let record_key = [owner.as_slice(), record_key].concat();
            let (bytes, record) = self.indexed(index, own, &record_key)?;
            each(entry, bytes, record)
        })
    }

    /// Returns the record that an index entry points to, and its stored size. Entries have no
    /// checksum as records do; the record's own key in the index shows whether the entry is right.
    fn indexed<R: Record>(
        &self,
        index: &dyn AnyIndex<R>,
        own: &[u8],
        key: &[u8],
    ) -> Result<(usize, R)> {
        match self.get_sized::<R>(key)? {
            Some(found) if index.keys_of(&found.1).iter().any(|key| key == own) => Ok(found),
            _ => Err(self.damage.wrong_entry(index.name(), key)),
        }
    }

    /// Decodes a stored record. One that is not what was written is noted.
    fn decoded<R: Record>(&self, key: &[u8], value: &[u8]) -> Result<R> {
        decode(key, value).inspect_err(|error| self.damage.note_error(error))
    }

    fn get_raw<R: Record>(&self, key: &[u8]) -> Result<Option<R>> {
        Ok(self.get_sized(key)?.map(|(_, record)| record))
    }

    fn get_sized<R: Record>(&self, key: &[u8]) -> Result<Option<(usize, R)>> {
        let mut found = None;
        self.raw_get(R::TABLE, key, &mut |value| {
            found = Some((value.len(), self.decoded(key, value)?));
            Ok(())
        })?;
        Ok(found)
    }
}

/// The keys from `from`, included, to `to`, excluded; without it, to the end of the table.
pub(super) struct KeySpan {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

/// A key prefix as bytes.
struct Prefix(Vec<u8>);

impl Key for Prefix {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn read(_: &mut &[u8]) -> Option<Self> {
        None // No record has it as its key.
    }
}

/// The function that a scan calls for each record, with its position, its stored size and itself.
pub(super) type RecordFn<'a, R> = dyn FnMut(&[u8], usize, R) -> Result<ControlFlow<()>> + 'a;

#[cfg(test)]
mod tests;
