//! Storage in memory, for tests.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::{CommitOutcome, KeyRange, LocalStorage, Order, Reader, ScanFn, WriteBatch};
use crate::base::Result;

/// Tables are shared with snapshots; a commit copies only those that it changes.
type Tables = BTreeMap<&'static str, Arc<BTreeMap<Vec<u8>, Arc<[u8]>>>>;

/// Storage in memory; its contents are lost when it is dropped.
#[derive(Default)]
pub struct Memory {
    now: State,
}

#[derive(Clone, Default)]
struct State {
    tables: Tables,
    commits: u64,
    access_version: u64,
}

impl LocalStorage for Memory {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        Ok(Arc::new(self.now.clone()))
    }

    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        self.now.commits += 1;
        if writes.changes_access {
            self.now.access_version = self.now.commits;
        }
        for (table, changes) in &writes.tables {
            let table = Arc::make_mut(self.now.tables.entry(table).or_default());
            for (key, op) in changes {
                match op.value() {
                    Some(value) => table.insert(key.clone(), value.into()),
                    None => table.remove(key),
                };
            }
        }
        CommitOutcome::Done(Arc::new(self.now.clone()))
    }

    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        self.snapshot()
    }
}

impl Reader for State {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        match self.tables.get(table).and_then(|table| table.get(key)) {
            Some(value) => see(value).map(|()| true),
            None => Ok(false),
        }
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        let Some(table) = self.tables.get(table) else { return Ok(()) };
        if range.to.is_some_and(|to| to <= range.from) {
            return Ok(());
        }
        let to = range.to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = table.range::<[u8], _>((Bound::Included(range.from), to));
        while let Some((key, value)) = match order {
            Order::Ascending => entries.next(),
            Order::Descending => entries.next_back(),
        } {
            if each(key, value)? == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn access_version(&self) -> Option<u64> {
        Some(self.access_version)
    }
}
