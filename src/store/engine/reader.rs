//! Reads of ordered tables at a snapshot.

use std::ops::ControlFlow;

use crate::base::Result;

/// The code of the error of a read whose storage is opened anew, after a failure: it can be read again
/// then, at another snapshot.
pub const REOPENING: &str = "reopening";

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first: oldest first, where keys end in ids.
    Ascending,
    /// Largest key first: newest first.
    Descending,
}

/// A range of keys.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'a> {
    /// The smallest key, included.
    pub from: &'a [u8],
    /// The end, excluded; `None` is the end of the table.
    pub to: Option<&'a [u8]>,
}

/// The function that a scan calls for each entry, with key and value.
pub type ScanFn<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;

/// A snapshot: the tables as they were at one commit.
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
        each: &mut ScanFn<'_>,
    ) -> Result<()>;

    /// Says that an entry of a unique index, and then the record of this table under `owner` and the
    /// value of that entry, are read next: an engine to which the way is long reads them at once.
    ///
    /// # Errors
    /// As reading them.
    fn will_find(
        &self,
        _entry: (&'static str, &[u8]),
        _record: (&'static str, &[u8]),
    ) -> Result<()> {
        Ok(())
    }

    /// Says that what is under these keys of a table is read next, as
    /// [`will_find`](Reader::will_find) does.
    ///
    /// # Errors
    /// As reading it.
    fn will_get(&self, _table: &'static str, _keys: &[Vec<u8>]) -> Result<()> {
        Ok(())
    }

    /// Returns the number of the last commit that changed a record which affects access. Conclusions
    /// about access hold while it stays the same. `None`: such records may have changed in this
    /// transaction, so no earlier conclusion holds.
    fn access_version(&self) -> Option<u64>;

    /// Charges work that is as much as reading so many bytes to the budget of reads.
    ///
    /// # Errors
    /// 413 if the budget is exceeded.
    fn charge_read(&self, _bytes: usize) -> Result<()> {
        Ok(())
    }

    /// Charges bytes that the transaction over this reader is about to write to its budget.
    ///
    /// # Errors
    /// 413 if the budget is exceeded.
    fn charge_write(&self, _bytes: usize) -> Result<()> {
        Ok(())
    }
}
