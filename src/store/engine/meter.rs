//! A reader that stops a read which costs more than its budget.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::optimistic::{Budget, too_large};
use super::reader::{KeyRange, Order, Reader, ScanFn};
use crate::base::Result;

/// A reader that counts what is read and stops a read that costs more than its budget.
pub struct Meter<'a> {
    reader: &'a dyn Reader,
    budget: Budget,
    // A reader may be shared between threads; this one never is.
    read_bytes: AtomicUsize,
    reads: AtomicUsize,
}

impl<'a> Meter<'a> {
    /// Creates a meter over `reader` with this budget.
    pub fn new(reader: &'a dyn Reader, budget: Budget) -> Self {
        Meter { reader, budget, read_bytes: AtomicUsize::new(0), reads: AtomicUsize::new(0) }
    }

    /// Whether the budget was exceeded; the result of the read means nothing then.
    pub fn is_exceeded(&self) -> bool {
        self.read_bytes.load(Ordering::Relaxed) > self.budget.read_bytes
            || self.reads.load(Ordering::Relaxed) > self.budget.reads
    }

    fn charge(&self, bytes: usize) -> Result<()> {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.is_exceeded() { Err(too_large()) } else { Ok(()) }
    }
}

impl Reader for Meter<'_> {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let mut bytes = 0;
        let found = self.reader.get(table, key, &mut |value| {
            bytes = value.len();
            see(value)
        })?;
        self.charge(bytes)?;
        Ok(found)
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        self.reader.scan(table, range, order, &mut |key, value| {
            self.charge(value.len())?;
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
        self.charge(bytes)
    }
}
