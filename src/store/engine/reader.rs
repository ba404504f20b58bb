//! Reads of ordered tables at a snapshot.

use std::ops::ControlFlow;

use crate::base::Result;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first: oldest first, where keys end in ids.
    Ascending,
    /// Largest key first: newest first.
    Descending,
}

/// A range of keys: from the first, included, to the second, excluded; `None` is the table's end.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'a> {
    /// The smallest key.
    pub from: &'a [u8],
    /// The first key too large.
    pub to: Option<&'a [u8]>,
}

/// What a scan calls for each entry: key and value.
pub type Each<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;

/// Tables as they were at one commit.
pub trait Reader: Send + Sync {
    /// Calls `see` with the value under `key`, if there is one; returns whether there is.
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool>;

    /// Calls `each` with the entries of a range in order, until it stops the scan.
    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut Each<'_>,
    ) -> Result<()>;

    /// Whether `key` may be written as a new one. An engine that finds out at its commit
    /// ([`Op::Insert`]) may always say yes: looking first would make it conflict with others' rows.
    fn may_insert(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        Ok(!self.get(table, key, &mut |_| Ok(()))?)
    }

    /// The number of the last commit that changed a record which decides access. What was
    /// concluded under one stamp holds under the same stamp. `None`: the records may have changed
    /// in this transaction, so nothing concluded before holds.
    fn access_version(&self) -> Option<u64>;

    /// Counts bytes that the transaction over this reader is about to write.
    ///
    /// # Errors
    /// If they are more than it may.
    fn charge_write(&self, _bytes: usize) -> Result<()> {
        Ok(())
    }
}
