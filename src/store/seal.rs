//! Sealed fields of records, and the rotation of the key that they are sealed with.
//!
//! A record declares its sealed fields ([`Record::SEALED`]); nothing can be sealed for another one.
//! So a rotation finds all of them by walking the records. The key to seal with is a record itself,
//! [`SealingKey`], which every transaction that seals reads: one that began before the rotation
//! conflicts with it and runs again, so nothing is sealed with the old key once the rotation walks.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::catalog::TableInfo;
use super::check::Findings;
use super::codec::hex;
use super::engine::{KeyRange, Order, Reader};
use super::record::{Record, decode};
use super::tx::Tx;
use super::view::View;
use super::{Store, TABLES};
use crate::base::{Error, Id, KeyId, Keys, MasterKey, Result, Sealed};

/// A field of a record that holds a secret.
pub struct SealedField<R: 'static> {
    name: &'static str,
    what: &'static str,
    of: fn(&mut R) -> Option<&mut Sealed>,
}

impl<R: Record> SealedField<R> {
    /// Declares the field `name`, which never changes once something was sealed for it. `what` names
    /// the secrets in it for people: "API keys of LLM providers". `of` is `None` for a record
    /// without a secret.
    pub const fn new(
        name: &'static str,
        what: &'static str,
        of: fn(&mut R) -> Option<&mut Sealed>,
    ) -> Self {
        SealedField { name, what, of }
    }

    /// Returns the associated data of this field of the record stored under `key`.
    pub(super) fn context<'a>(&self, key: &'a [u8]) -> [&'a [u8]; 3] {
        [R::TABLE.as_bytes(), key, self.name.as_bytes()]
    }

    /// # Errors
    /// 500 if the record does not declare the field: a rotation would miss it.
    pub(super) fn require_declared(&'static self) -> Result<()> {
        if R::SEALED.iter().any(|field| field.name == self.name) {
            return Ok(());
        }
        Err(Error::internal(format!("{}.{} is not declared as sealed", R::TABLE, self.name)))
    }
}

/// A sealed field in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedInfo {
    /// The field.
    pub field: &'static str,
    /// The secrets in it, for people.
    pub what: &'static str,
}

pub(super) fn sealed_fields<R: Record>() -> Vec<SealedInfo> {
    R::SEALED.iter().map(|field| SealedInfo { field: field.name, what: field.what }).collect()
}

/// The key that secrets are sealed with. There is none before the first rotation.
#[derive(Clone, Debug, Encode, Decode)]
pub struct SealingKey {
    key: KeyId,
    /// The key of [`Keys::hash`], in hexadecimal.
    hash_key: Sealed,
}

static HASH_KEY: SealedField<SealingKey> =
    SealedField::new("hash_key", "the key of cursors and kept answers", |sealing| {
        Some(&mut sealing.hash_key)
    });

impl Record for SealingKey {
    const TABLE: &'static str = "sealing_key";
    const ORG_SCOPED: bool = false;
    const SEALED: &'static [&'static SealedField<Self>] = &[&HASH_KEY];
    type Key = ();
    fn key(&self) {}
}

/// Returns the id of the key to seal with; `None` for the installation's only one.
pub(super) fn sealing_key(view: &View) -> Result<Option<KeyId>> {
    Ok(view.get::<SealingKey>(&())?.map(|sealing| sealing.key))
}

/// Sets the key of hashes to the one that was kept by a rotation.
pub(super) fn restore_hash_key(view: &View) -> Result<()> {
    let Some(sealing) = view.get::<SealingKey>(&())? else { return Ok(()) };
    let text = view.unseal(&HASH_KEY, &(), &sealing.hash_key)?;
    let mut hash_key = [0; 32];
    for (byte, digits) in hash_key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16)
            .map_err(|_| Error::internal("the kept key of hashes is no key"))?;
    }
    view.keys().set_hash_key(hash_key);
    Ok(())
}

// ── Rotation ─────────────────────────────────────────────────────────────────

/// A step of resealing reads at most 100 records or 4 MiB, so that it takes milliseconds and writes
/// in between do not wait.
const RESEALED_ROWS: usize = 100;
const RESEALED_BYTES: usize = 4 * 1024 * 1024;

/// A step of the search reads at most 20,000 rows or 16 MiB: it only compares bytes.
const SEARCHED_ROWS: usize = 20_000;
const SEARCHED_BYTES: usize = 16 * 1024 * 1024;

/// A step of resealing one table.
pub struct ResealStep {
    /// The key of the last row read; `None` at the end of the table.
    last: Option<Vec<u8>>,
    resealed: u64,
}

/// Seals the next rows of a table with the present key.
pub(super) fn reseal<R: Record>(tx: &mut Tx, after: &[u8]) -> Result<ResealStep> {
    let Some(target) = sealing_key(&tx.view())? else {
        return Err(Error::internal("a rotation that was not begun"));
    };
    let mut rows = Vec::new();
    let last = scan(&tx.view(), R::TABLE, after, RESEALED_ROWS, RESEALED_BYTES, |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        Ok(())
    })?;
    let mut resealed = 0;
    for (key, value) in rows {
        let old: R = decode(&key, &value)?;
        let mut new = old.clone();
        let mut changed = 0;
        for field in R::SEALED {
            let Some(sealed) = (field.of)(&mut new).filter(|sealed| !sealed.is_under(&target))
            else {
                continue;
            };
            let context = field.context(&key);
            let secret = tx.keys().unseal(&context, sealed)?;
            *sealed = tx.keys().seal(Some(target), &context, tx.random(), &secret)?;
            changed += 1;
        }
        if changed > 0 {
            if R::ORG_SCOPED {
                tx.set_org(org_of(&key)?);
            }
            tx.replace(&old, &new)?;
            resealed += changed;
        }
    }
    tx.set_org(Id::NIL);
    Ok(ResealStep { last, resealed })
}

fn org_of(key: &[u8]) -> Result<Id<super::Org>> {
    let bytes = key.first_chunk::<16>().ok_or_else(|| Error::internal("a key is too short"))?;
    Ok(Id::new(uuid::Uuid::from_bytes(*bytes)))
}

/// Passes the rows after `after` to `see`; returns the key of the last, or `None` if none follow.
fn scan(
    view: &View,
    table: &'static str,
    after: &[u8],
    max_rows: usize,
    max_bytes: usize,
    mut see: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    let (mut rows, mut bytes) = (0, 0);
    let mut last: Option<Vec<u8>> = None;
    let mut is_full = false;
    let from = KeyRange { from: after, to: None };
    view.scan(table, from, Order::Ascending, &mut |key, value| {
        if key == after {
            return Ok(ControlFlow::Continue(()));
        }
        if rows == max_rows || bytes >= max_bytes {
            is_full = true;
            return Ok(ControlFlow::Break(()));
        }
        see(key, value)?;
        rows += 1;
        bytes += value.len();
        last = Some(key.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(last.filter(|_| is_full))
}

/// The progress of a rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RotationProgress {
    /// Secrets sealed with the new key in this run.
    pub resealed: u64,
    /// Tables done: each is walked, and then searched for what is sealed with the old key.
    pub done: usize,
    /// All tables, walked and searched.
    pub all: usize,
}

/// A rotation of the master key, in steps that can be ended and resumed at any point: whatever is
/// sealed with the present key already is left as it is.
pub struct Rotation {
    store: Store,
    tables: Vec<TableInfo>,
    /// How many tables are walked; the others are only searched.
    walked: usize,
    at: usize,
    after: Vec<u8>,
    old: KeyId,
    resealed: u64,
}

impl Rotation {
    /// Begins a rotation to `next`, or resumes the one to it. From the return on, everything is
    /// sealed with `next`, and `next` must be stored durably before.
    ///
    /// # Errors
    /// If another rotation is under way, or the store fails.
    pub fn begin(store: &Store, tables: &[TableInfo], next: &MasterKey) -> Result<Self> {
        let keys = store.keys();
        if keys.current() != *next {
            keys.begin_rotation(next.clone())?;
        }
        let old = keys
            .previous()
            .ok_or_else(|| Error::internal("the key to replace is the new one itself"))?;
        let id = next.id();
        store.write_blocking(Id::NIL, move |tx| {
            if sealing_key(&tx.view())? == Some(id) {
                return Ok(());
            }
            let text = hex(&tx.keys().hash_key());
            let context = HASH_KEY.context(&[]);
            let hash_key = tx.keys().seal(Some(id), &context, tx.random(), &text)?;
            tx.put(&SealingKey { key: id, hash_key })
        })?;
        let tables: Vec<TableInfo> = tables.iter().chain(TABLES).copied().collect();
        let (walk, search): (Vec<_>, Vec<_>) =
            tables.iter().partition(|table| !(table.sealed)().is_empty());
        let walked = walk.len();
        // Those that were walked are searched, too.
        let tables = [walk.clone(), walk, search].concat();
        Ok(Rotation {
            store: store.clone(),
            tables,
            walked,
            at: 0,
            after: Vec::new(),
            old: old.id(),
            resealed: 0,
        })
    }

    /// Does the next step; returns `None` if there was none left: nothing is sealed with the old key
    /// any more.
    ///
    /// # Errors
    /// If the store fails, a secret cannot be read, or a value sealed with the old key is found in a
    /// field that is not declared. The old key must be kept then.
    pub fn step(&mut self) -> Result<Option<RotationProgress>> {
        let Some(table) = self.tables.get(self.at).copied() else { return Ok(None) };
        let last = if self.at < self.walked {
            let after = self.after.clone();
            let step = self.store.write_blocking(Id::NIL, move |tx| (table.reseal)(tx, &after))?;
            self.resealed += step.resealed;
            step.last
        } else {
            self.search(table.name)?
        };
        match last {
            Some(last) => self.after = last,
            None => {
                self.after.clear();
                self.at += 1;
            }
        }
        let (resealed, done) = (self.resealed, self.at);
        Ok(Some(RotationProgress { resealed, done, all: self.tables.len() }))
    }

    fn search(&self, table: &'static str) -> Result<Option<Vec<u8>>> {
        let old = self.old;
        self.store.read_now(Id::NIL, |view| {
            scan(view, table, &self.after, SEARCHED_ROWS, SEARCHED_BYTES, |key, value| {
                if value.windows(old.len()).any(|part| part == old) {
                    let key = hex(key);
                    return Err(Error::internal(format!(
                        "{table} {key}: holds a value sealed with the old key, undeclared"
                    )));
                }
                Ok(())
            })
        })
    }

    /// Forgets the old key, after the last step.
    pub fn end(self) {
        self.store.keys().end_rotation();
    }
}

// ── The check ────────────────────────────────────────────────────────────────

/// Reports every sealed value of a table that cannot be decrypted.
pub(super) fn check_sealed<R: Record>(
    reader: &dyn Reader,
    keys: &Keys,
    findings: &mut Findings,
) -> Result<()> {
    if R::SEALED.is_empty() {
        return Ok(());
    }
    let all = KeyRange { from: &[], to: None };
    reader.scan(R::TABLE, all, Order::Ascending, &mut |key, value| {
        // One that cannot be decoded is reported by the check of the table.
        let Ok(mut record) = decode::<R>(key, value) else { return Ok(ControlFlow::Continue(())) };
        for field in R::SEALED {
            if let Some(sealed) = (field.of)(&mut record)
                && keys.unseal(&field.context(key), sealed).is_err()
            {
                let (key, name) = (hex(key), field.name);
                findings.report(format!("{} {key}: {name} cannot be decrypted", R::TABLE));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

#[cfg(test)]
mod tests;
