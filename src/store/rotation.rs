//! The rotation of the key that secrets are sealed with.
//!
//! A record declares its sealed fields ([`Record::SEALED`](super::Record::SEALED)); nothing can be
//! sealed for another one. So a rotation finds all of them by walking the records. The key to seal
//! with is a record itself, [`SealingKey`](super::SealingKey), which every transaction that seals
//! reads: one that began before the rotation conflicts with it and runs again, so nothing is sealed
//! with the old key once the rotation walks.

use super::catalog::TableInfo;
use super::codec::hex;
use super::reseal::{reseal, scan};
use super::sealing_key::set_sealing_key;
use super::{Store, TABLES};
use crate::base::{Error, Id, KeyId, MasterKey, Result, Sealed};

/// A step of the search reads at most 20,000 rows or 16 MiB: it only decodes them.
const SEARCHED_ROWS: usize = 20_000;
const SEARCHED_BYTES: usize = 16 * 1024 * 1024;

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
        store.write_blocking(Id::NIL, move |tx| set_sealing_key(tx, id))?;
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
            let step = self.store.write_blocking(Id::NIL, move |tx| reseal(&table, tx, &after))?;
            self.resealed += step.resealed;
            step.last
        } else {
            self.search(&table)?
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

    /// Looks for sealed values by their type, wherever they are in a record. The bytes of the key's id,
    /// which commands print, may be in any text that somebody stores.
    fn search(&self, table: &TableInfo) -> Result<Option<Vec<u8>>> {
        let (old, name) = (self.old, table.name);
        self.store.read_now(Id::NIL, |view| {
            scan(view, name, &self.after, SEARCHED_ROWS, SEARCHED_BYTES, |key, value| {
                // One that cannot be decoded has no secret that could be read.
                let (_, decoded) = Sealed::decoded_in(|| table.rewrite(key, value));
                if decoded.iter().any(|sealed| sealed.is_under(&old)) {
                    let key = hex(key);
                    return Err(Error::internal(format!(
                        "{name} {key}: holds a value sealed with the old key, undeclared"
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

#[cfg(test)]
mod tests;
