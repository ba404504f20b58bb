//! Brings the records in storage in line with others, in steps of bounded size. What is the same
//! already is left as it is, so that a run which was interrupted is completed by the next one.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::engine::{KeyRange, LocalStorage, Order, WriteBatch, WriteOp};
use crate::base::{Error, Result};

/// A step commits at most 4 MiB or 5,000 rows: engines elsewhere give up a statement that takes
/// seconds.
const MAX_STEP_BYTES: usize = 4 * 1024 * 1024;
const MAX_STEP_ROWS: usize = 5_000;

/// Of what is there already 1,000 rows or 4 MiB are read at once. In tests a few are many parts.
const MAX_PART_ROWS: usize = if cfg!(test) { 3 } else { 1_000 };
const MAX_PART_BYTES: usize = 4 * 1024 * 1024;

/// Brings tables in line with rows that are passed to it: table by table, in the order of the keys.
/// Rows that were there and are not passed are removed.
pub struct Mirror<S> {
    storage: S,
    /// The tables whose rows have not been passed yet.
    left: Vec<&'static str>,
    /// The table whose rows are being passed.
    current: Option<Present>,
    batch: WriteBatch,
    bytes: usize,
}

/// The rows that a table has, read in parts.
struct Present {
    table: &'static str,
    /// Where the next part begins.
    from: Vec<u8>,
    rows: VecDeque<(Vec<u8>, Vec<u8>)>,
    is_over: bool,
}

impl Present {
    fn new(table: &'static str) -> Self {
        Present { table, from: Vec::new(), rows: VecDeque::new(), is_over: false }
    }

    /// Returns the next row. What is written meanwhile is before it.
    fn peek(&mut self, storage: &mut impl LocalStorage) -> Result<Option<&(Vec<u8>, Vec<u8>)>> {
        if self.rows.is_empty() && !self.is_over {
            let (mut bytes, mut rows) = (0, VecDeque::new());
            let range = KeyRange { from: &self.from, to: None };
            storage.snapshot()?.scan(self.table, range, Order::Ascending, &mut |key, value| {
                bytes += key.len() + value.len();
                rows.push_back((key.to_vec(), value.to_vec()));
                let is_full = rows.len() >= MAX_PART_ROWS || bytes >= MAX_PART_BYTES;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            match rows.back() {
                Some((last, _)) => self.from = [last.as_slice(), &[0]].concat(),
                None => self.is_over = true,
            }
            self.rows = rows;
        }
        Ok(self.rows.front())
    }
}

impl<S: LocalStorage> Mirror<S> {
    /// Changes these tables of `storage`.
    pub fn new(storage: S, tables: Vec<&'static str>) -> Self {
        Mirror { storage, left: tables, current: None, batch: WriteBatch::default(), bytes: 0 }
    }

    /// Passes a row.
    ///
    /// # Errors
    /// If the storage fails, or the table has been passed already.
    pub fn add(&mut self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        if self.current.as_ref().is_none_or(|current| current.table != table) {
            self.end_table()?;
            let Some(at) = self.left.iter().position(|left| *left == table) else {
                return Err(Error::internal(format!("the rows of {table} come twice")));
            };
            self.left.swap_remove(at);
            self.current = Some(Present::new(table));
        }
        self.remove_before(Some(key))?;
        let Some(current) = &mut self.current else { return Ok(()) };
        if let Some((present, old)) = current.peek(&mut self.storage)?
            && present == key
        {
            let is_same = old == value;
            current.rows.pop_front();
            if is_same {
                return Ok(());
            }
        }
        self.change(table, key.to_vec(), WriteOp::Put(value.to_vec()))
    }

    /// Removes the rows of the current table before a key, or all that are left.
    fn remove_before(&mut self, key: Option<&[u8]>) -> Result<()> {
        while let Some(current) = &mut self.current {
            match current.peek(&mut self.storage)? {
                Some((present, _)) if key.is_none_or(|key| present.as_slice() < key) => {}
                _ => break,
            }
            let table = current.table;
            if let Some((present, _)) = current.rows.pop_front() {
                self.change(table, present, WriteOp::Delete)?;
            }
        }
        Ok(())
    }

    fn end_table(&mut self) -> Result<()> {
        self.remove_before(None)?;
        self.current = None;
        Ok(())
    }

    fn change(&mut self, table: &'static str, key: Vec<u8>, op: WriteOp) -> Result<()> {
        self.bytes += key.len() + op.value().map_or(0, <[u8]>::len);
        self.batch.add(table, key, op);
        if self.bytes < MAX_STEP_BYTES && self.batch.len() < MAX_STEP_ROWS {
            return Ok(());
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        self.storage.commit(&batch).alone().map(drop)
    }

    /// Empties the tables of which no row was passed, commits the rest, and returns the storage,
    /// whose indexes are to be built.
    pub fn finish(mut self) -> Result<S> {
        self.end_table()?;
        for table in std::mem::take(&mut self.left) {
            self.current = Some(Present::new(table));
            self.end_table()?;
        }
        self.commit()?;
        Ok(self.storage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::Memory;

    const TABLES: [&str; 3] = ["a", "b", "c"];

    type Row<'a> = (&'static str, &'a [u8], &'a [u8]);

    fn rows_of(storage: &mut Memory) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
        let reader = storage.snapshot().unwrap();
        let mut rows = Vec::new();
        for table in TABLES {
            let all = KeyRange { from: &[], to: None };
            let mut note = |key: &[u8], value: &[u8]| {
                rows.push((table, key.to_vec(), value.to_vec()));
                Ok(ControlFlow::Continue(()))
            };
            reader.scan(table, all, Order::Ascending, &mut note).unwrap();
        }
        rows
    }

    fn mirrored(storage: Memory, rows: &[Row<'_>]) -> Memory {
        let mut mirror = Mirror::new(storage, TABLES.to_vec());
        for (table, key, value) in rows {
            mirror.add(table, key, value).unwrap();
        }
        mirror.finish().unwrap()
    }

    #[test]
    fn tables_are_brought_in_line_whatever_was_there() {
        let texts = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let full: Vec<Row> = texts.iter().map(|key| ("b", key.as_bytes(), &b"new"[..])).collect();
        let of = |keys: &[usize], value: &'static str| -> Vec<Row<'static>> {
            keys.iter().map(|at| ("b", texts[*at].as_bytes(), value.as_bytes())).collect()
        };
        let elsewhere: Vec<Row> = vec![("a", b"x", b"1"), ("c", b"y", b"2")];
        let befores = [
            vec![],
            of(&[0, 1, 2, 3, 4], "new"),
            of(&[1, 5, 9], "old"),
            of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "old"),
            elsewhere.clone(),
        ];
        for before in &befores {
            for wanted in [&full, &of(&[4], "new"), &elsewhere, &Vec::new()] {
                let storage = mirrored(Memory::default(), before);
                let mut storage = mirrored(storage, wanted);
                let expected: Vec<_> =
                    wanted.iter().map(|(t, k, v)| (*t, k.to_vec(), v.to_vec())).collect();
                assert_eq!(rows_of(&mut storage), expected, "from {before:?}");
            }
        }
    }

    #[test]
    fn a_table_whose_rows_come_twice_is_refused() {
        let mut mirror = Mirror::new(Memory::default(), TABLES.to_vec());
        mirror.add("a", b"1", b"").unwrap();
        mirror.add("b", b"1", b"").unwrap();
        assert!(mirror.add("a", b"2", b"").is_err());
    }
}
