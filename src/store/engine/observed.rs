//! A reader that reports what is read through it.

use std::ops::Deref;

use super::reader::{KeyRange, Order, Reader, ScanFn};
use crate::base::Result;

/// A reader that passes the table and the size of each value that is read to `seen`.
pub struct ObservedReader<R, F> {
    reader: R,
    seen: F,
}

impl<R, F> ObservedReader<R, F>
where
    R: Deref<Target: Reader> + Send + Sync,
    F: Fn(&'static str, usize) + Send + Sync,
{
    /// Creates one over `reader`.
    pub fn new(reader: R, seen: F) -> Self {
        ObservedReader { reader, seen }
    }
}

impl<R, F> Reader for ObservedReader<R, F>
where
    R: Deref<Target: Reader> + Send + Sync,
    F: Fn(&'static str, usize) + Send + Sync,
{
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        self.reader.get(table, key, &mut |value| {
            (self.seen)(table, value.len());
            see(value)
        })
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        self.reader.scan(table, range, order, &mut |key, value| {
            (self.seen)(table, value.len());
            each(key, value)
        })
    }

    fn will_find(&self, entry: (&'static str, &[u8]), record: (&'static str, &[u8])) -> Result<()> {
        self.reader.will_find(entry, record)
    }

    fn will_get(&self, table: &'static str, keys: &[Vec<u8>]) -> Result<()> {
        self.reader.will_get(table, keys)
    }

    fn access_version(&self) -> Option<u64> {
        self.reader.access_version()
    }

    fn charge_read(&self, bytes: usize) -> Result<()> {
        self.reader.charge_read(bytes)
    }

    fn charge_write(&self, bytes: usize) -> Result<()> {
        self.reader.charge_write(bytes)
    }
}
