//! What a view reads of the engine: bytes, charged to the count of a list.

use super::View;
use crate::base::Result;
use crate::store::engine::{KeyRange, Order, Overlay, Reader, ScanFn};

impl View<'_> {
    pub(super) fn raw_get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let mut bytes = 0;
        let read = self.reading(|reader| {
            reader.get(table, key, &mut |value| {
                bytes = value.len();
                see(value)
            })
        });
        self.charged(bytes, read)
    }

    pub(in crate::store) fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        let mut bytes = 0;
        let read = self.reading(|reader| {
            reader.scan(table, range, order, &mut |key, value| {
                bytes += value.len();
                each(key, value)
            })
        });
        self.charged(bytes, read)
    }

    /// Charges what was read to the count of a list, if one is counted: a filter has read it to decide about
    /// what is counted, and may leave out what it cannot read. The scan of the list itself has no part in it.
    pub(super) fn charged<T>(&self, bytes: usize, read: Result<T>) -> Result<T> {
        if let Some(count) = self.walk.count {
            count.charge(bytes, read.is_ok());
        }
        read
    }

    /// Reads what is stored, with the changes of the transaction in front of it.
    pub(super) fn reading<T>(&self, read: impl FnOnce(&dyn Reader) -> T) -> T {
        match self.writes {
            None => read(self.reader),
            Some(writes) => read(&Overlay { base: self.reader, writes }),
        }
    }
}
