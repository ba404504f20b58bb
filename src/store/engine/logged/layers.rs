//! A snapshot of the storage: the parts of the log over the database.

use std::sync::Arc;

use super::part::Part;
use super::tables::TableNumbers;
use crate::base::Result;
use crate::store::engine::overlay::merge_scan;
use crate::store::engine::{KeyRange, Order, Reader, ScanFn};

/// A reader of the database with the changes of the log, which are not all in it yet.
pub struct LayeredReader {
    /// The changes of the newest part.
    pub live: Part,
    /// Those of the part before it, which is being written to the database.
    pub frozen: Option<Part>,
    /// The database; it may have some of the changes of the frozen part already.
    pub base: Arc<dyn Reader>,
    /// The numbers of tables in both parts.
    pub tables: Arc<TableNumbers>,
    /// The number of the last commit that changed a record which affects access.
    pub access_version: u64,
}

impl LayeredReader {
    /// Returns the number of a table that may have changes in the parts.
    fn number(&self, table: &str) -> Option<u16> {
        let is_empty = self.live.is_empty() && self.frozen.is_none();
        if is_empty { None } else { self.tables.number(table) }
    }

    fn frozen(&self, table: u16) -> Option<Layer<'_>> {
        let part = self.frozen.as_ref()?;
        Some(Layer { part, base: &*self.base, table })
    }
}

impl Reader for LayeredReader {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        if let Some(number) = self.number(table) {
            for part in std::iter::once(&self.live).chain(&self.frozen) {
                if let Some(seen) = part.get(number, key, |change| see_change(change, see)) {
                    return seen;
                }
            }
        }
        self.base.get(table, key, see)
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        let Some(number) = self.number(table) else {
            return self.base.scan(table, range, order, each);
        };
        if range.to.is_some_and(|to| to <= range.from) {
            return Ok(());
        }
        let frozen = self.frozen(number);
        let base: &dyn Reader = frozen.as_ref().map_or(&*self.base, |frozen| frozen);
        Layer { part: &self.live, base, table: number }.scan(table, range, order, each)
    }

    fn access_version(&self) -> Option<u64> {
        Some(self.access_version)
    }
}

/// Calls `see` with the value of a change. Returns whether there is one: it is no deletion.
fn see_change(change: Option<&[u8]>, see: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
    change.map_or(Ok(false), |value| see(value).map(|()| true))
}

/// A table with the changes of one part over what is below it.
struct Layer<'a> {
    part: &'a Part,
    base: &'a dyn Reader,
    table: u16,
}

impl Reader for Layer<'_> {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        match self.part.get(self.table, key, |change| see_change(change, see)) {
            Some(seen) => seen,
            None => self.base.get(table, key, see),
        }
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        let guard = &crossbeam_epoch::pin();
        let changes = self.part.range(self.table, range, order, guard);
        merge_scan(self.base, changes, table, range, order, each)
    }

    fn access_version(&self) -> Option<u64> {
        self.base.access_version()
    }
}
