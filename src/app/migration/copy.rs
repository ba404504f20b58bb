//! Copying the records of one commit, and comparing what arrived.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::app::backup::BackupError;
use crate::base::Result;
use crate::resources;
use crate::store::engine::{KeyRange, LocalStorage, Order, ScanFn};
use crate::store::{
    Erasure, Key as _, Mirror, Record as _, Rows, TableInfo, build_indexes, codec, encode,
    record_tables,
};

/// Shows the progress: a line, which replaces the one before, or an empty one at the end.
pub type Progress<'a> = dyn Fn(&str) + 'a;

/// The progress is shown every 1,000 rows.
const SHOWN_ROWS: u64 = 1_000;

/// What the rows of a table add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableSum {
    pub rows: u64,
    /// Of keys and values.
    pub bytes: u64,
    /// The BLAKE3 hash of all keys and values in order, each with its length before it.
    pub hash: String,
}

/// Adds rows up.
#[derive(Default)]
struct Summing {
    sum: TableSum,
    hash: blake3::Hasher,
}

impl Summing {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.sum.rows += 1;
        for part in [key, value] {
            self.sum.bytes += part.len() as u64;
            self.hash.update(&(part.len() as u64).to_be_bytes()).update(part);
        }
    }

    fn finish(self) -> TableSum {
        TableSum { hash: codec::hex(self.hash.finalize().as_bytes()), ..self.sum }
    }
}

/// The records to copy: those of one commit, with other erasures.
pub struct Source {
    rows: Rows,
    erasures: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Source {
    /// The records at this commit, with `erasures` in place of those that are there.
    ///
    /// # Errors
    /// If one cannot be encoded.
    pub fn new(rows: Rows, erasures: &[Erasure]) -> Result<Self> {
        let encoded = erasures.iter().map(|erasure| {
            let key = erasure.id().to_bytes();
            let value = encode(erasure, &key)?;
            Ok((key, value))
        });
        Ok(Source { rows, erasures: encoded.collect::<Result<_>>()? })
    }

    fn scan(&self, table: &'static str, each: &mut ScanFn<'_>) -> Result<()> {
        if table != Erasure::TABLE {
            return self.rows.scan(table, each);
        }
        for (key, value) in &self.erasures {
            if each(key, value)? == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

/// What each table adds up to.
type Sums = Vec<(&'static str, TableSum)>;

/// Brings the records in storage in line with the source, builds the indexes and compares what
/// arrived.
///
/// # Errors
/// If one of them fails, or what arrived differs.
pub fn copy<S: LocalStorage>(
    source: &Source,
    storage: S,
    progress: &Progress<'_>,
) -> Result<(Sums, S), BackupError> {
    let tables = resources::tables();
    let copied = record_tables(&tables);
    let mut mirror = Mirror::new(storage, copied.iter().map(|table| table.name).collect());
    let mut shown = Shown { progress, what: "Copied", rows: 0, bytes: 0 };
    let sums = sums(&copied, &mut |table, each| {
        source.scan(table, &mut |key, value| {
            mirror.add(table, key, value)?;
            shown.add(key, value);
            each(key, value)
        })
    })?;
    let mut storage = mirror.finish()?;
    progress("");
    build_indexes(&mut storage, &tables, progress)?;
    let reader = storage.snapshot()?;
    let mut shown = Shown { progress, what: "Compared", rows: 0, bytes: 0 };
    let arrived = self::sums(&copied, &mut |table, each| {
        let all = KeyRange { from: &[], to: None };
        reader.scan(table, all, Order::Ascending, &mut |key, value| {
            shown.add(key, value);
            each(key, value)
        })
    })?;
    progress("");
    for ((name, sent), (_, found)) in sums.iter().zip(&arrived) {
        if sent != found {
            return Err(BackupError::Failed(format!(
                "{name} is not what was copied: {} rows were sent and {} arrived; repeat the \
                 command",
                sent.rows, found.rows
            )));
        }
    }
    drop(reader);
    Ok((sums, storage))
}

/// Adds up tables that are read by `scan`.
fn sums(
    tables: &[TableInfo],
    scan: &mut dyn FnMut(&'static str, &mut ScanFn<'_>) -> Result<()>,
) -> Result<Sums> {
    let sum = |table: &TableInfo| {
        let mut summing = Summing::default();
        scan(table.name, &mut |key, value| {
            summing.add(key, value);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((table.name, summing.finish()))
    };
    tables.iter().map(sum).collect()
}

/// Shows how much was done.
struct Shown<'a> {
    progress: &'a Progress<'a>,
    what: &'static str,
    rows: u64,
    bytes: u64,
}

impl Shown<'_> {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        if self.rows.is_multiple_of(SHOWN_ROWS) {
            let mib = self.bytes / (1024 * 1024);
            (self.progress)(&format!("{}: {} records, {mib} MiB", self.what, self.rows));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::{Id, Time};
    use crate::store::engine::{CommitOutcome, Memory, Reader, WriteBatch};
    use crate::store::{Clock, Store};

    /// Loses the row with the last key of a table in each commit, or no row.
    struct Losing(Memory, Option<&'static str>);

    impl LocalStorage for Losing {
        fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
            self.0.snapshot()
        }

        fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
            let mut writes = writes.clone();
            if let Some(table) = self.1.and_then(|table| writes.tables.get_mut(table)) {
                table.pop_last();
            }
            self.0.commit(&writes)
        }

        fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
            self.0.reopen()
        }
    }

    #[test]
    fn a_row_that_does_not_arrive_is_noticed() {
        let clock = Clock::at(Time::from_millis(1_800_000_000_000));
        let store = Store::in_memory(clock, &resources::tables());
        for number in 0..3u32 {
            let written =
                store.write_blocking(Id::NIL, move |tx| tx.record_erasure("memories", &number));
            written.unwrap();
        }
        let source = || Source::new(store.rows(), &store.erasures().unwrap()).unwrap();
        let (sums, _) = copy(&source(), Losing(Memory::default(), None), &|_| {}).unwrap();
        let erasures = sums.iter().find(|(name, _)| *name == Erasure::TABLE).unwrap();
        assert_eq!(erasures.1.rows, 3);
        let losing = Losing(Memory::default(), Some(Erasure::TABLE));
        let error = copy(&source(), losing, &|_| {}).err().unwrap();
        assert!(error.message().contains("3 rows were sent and 2 arrived"), "{error}");
    }
}
