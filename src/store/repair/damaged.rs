//! The damaged store: reading whatever can be read of it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::catalog::TableInfo;
use super::super::engine::{KeyRange, Order, Reader};
use super::super::key::Key;
use super::super::record::{Index, IndexTable as _, Record};
use crate::base::Result;

/// The function that is called with the key and the value of each row.
type RowFn<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// The damaged store that is repaired.
pub struct Damaged<'a> {
    /// All that can be read of it.
    pub reader: &'a dyn Reader,
    /// The tables of the product; those of the store itself are added.
    pub tables: &'a [TableInfo],
    /// Whether a record is named by the ledger of erasures.
    pub is_erased: &'a dyn Fn(&str, &[u8]) -> bool,
    /// Shows the progress: one line each.
    pub progress: &'a dyn Fn(&str),
}

/// Returns the keys that can be read of a unique index of records that no organization owns, by the key of
/// their record: of a record that is gone, its entry may be there.
pub fn unique_keys<R: Record, K: Key>(
    reader: &dyn Reader,
    index: &Index<R, K>,
) -> BTreeMap<Vec<u8>, K> {
    let mut keys = BTreeMap::new();
    let all = KeyRange { from: &[], to: None };
    for order in [Order::Ascending, Order::Descending] {
        // The database library panics on some damaged pages. What was read until then is of use.
        let read = catch_unwind(AssertUnwindSafe(|| {
            reader.scan(index.name(), all, order, &mut |mut own, record_key| {
                if let Some(own) = K::read(&mut own) {
                    keys.insert(record_key.to_vec(), own);
                }
                Ok(ControlFlow::Continue(()))
            })
        }));
        if matches!(read, Ok(Ok(()))) {
            break;
        }
    }
    keys
}

impl Damaged<'_> {
    /// Whether a row is loaded unless another one takes its place.
    pub fn is_readable(&self, table: &TableInfo, key: &[u8], value: &[u8]) -> bool {
        !(self.is_erased)(table.name, key) && table.screen(key, value).is_ok()
    }

    /// Passes each row of a table: in the order of the keys up to one that cannot be read, then from the
    /// end backwards. Returns why there is a gap, if there is one.
    ///
    /// # Errors
    /// What `each` returns.
    pub fn each_row(&self, table: &TableInfo, each: &mut RowFn<'_>) -> Result<Option<String>> {
        let mut refused = Ok(());
        let mut last: Option<Vec<u8>> = None;
        let mut pass = |from: &[u8], order, last: &mut Option<Vec<u8>>| {
            let range = KeyRange { from, to: None };
            // The database library panics on some damaged pages.
            let read = catch_unwind(AssertUnwindSafe(|| {
                self.reader.scan(table.name, range, order, &mut |key, value| {
                    refused = each(key, value);
                    let last = last.get_or_insert_default();
                    last.clear();
                    last.extend_from_slice(key);
                    let is_over = refused.is_err();
                    Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })
            }));
            std::mem::replace(&mut refused, Ok(()))?;
            Ok(match read {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.log_detail().unwrap_or(error.message()).to_string()),
                Err(_) => Some("a page of the database is damaged".to_string()),
            })
        };
        let gap: Option<String> = pass(&[], Order::Ascending, &mut last)?;
        if gap.is_some() {
            let from = last.map_or_else(Vec::new, |last| [last.as_slice(), &[0]].concat());
            let end: Result<_> = pass(&from, Order::Descending, &mut None);
            end?;
        }
        Ok(gap)
    }
}
