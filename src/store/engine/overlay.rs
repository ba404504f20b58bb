//! An in-memory overlay of uncommitted changes over a reader.

use std::ops::{Bound, ControlFlow};

use super::{KeyRange, Order, Reader, ScanFn, WriteBatch};
use crate::base::Result;

/// A reader that shows `base` with `writes` applied.
pub struct Overlay<'a> {
    /// The committed state.
    pub base: &'a dyn Reader,
    /// The uncommitted changes.
    pub writes: &'a WriteBatch,
}

impl Reader for Overlay<'_> {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        match self.writes.tables.get(table).and_then(|changes| changes.get(key)) {
            Some(op) => op.value().map_or(Ok(false), |value| see(value).map(|()| true)),
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
        let Some(changes) = self.writes.tables.get(table) else {
            return self.base.scan(table, range, order, each);
        };
        if range.to.is_some_and(|to| to <= range.from) {
            return Ok(());
        }
        let to = range.to.map_or(Bound::Unbounded, Bound::Excluded);
        let changes = changes.range::<[u8], _>((Bound::Included(range.from), to));
        let changes = changes.map(|(key, op)| (key.as_slice(), op.value()));
        match order {
            Order::Ascending => merge_scan(self.base, changes, table, range, order, each),
            Order::Descending => merge_scan(self.base, changes.rev(), table, range, order, each),
        }
    }

    /// A change of the entry, or of the record, is in front of what is stored.
    fn will_find(&self, entry: (&'static str, &[u8]), record: (&'static str, &[u8])) -> Result<()> {
        let (index, key) = entry;
        let is_changed = self.writes.tables.get(index).is_some_and(|rows| rows.contains_key(key));
        if is_changed { Ok(()) } else { self.base.will_find(entry, record) }
    }

    fn will_get(&self, table: &'static str, keys: &[Vec<u8>]) -> Result<()> {
        self.base.will_get(table, keys)
    }

    fn access_version(&self) -> Option<u64> {
        if self.writes.changes_access { None } else { self.base.access_version() }
    }

    fn charge_read(&self, bytes: usize) -> Result<()> {
        self.base.charge_read(bytes)
    }

    fn charge_write(&self, bytes: usize) -> Result<()> {
        self.base.charge_write(bytes)
    }
}

/// Merges the rows of a range in `base` with changes of the same range, which are in `order`: of each
/// a key and its value, `None` after a deletion. A change replaces the row of its key.
pub(super) fn merge_scan<'a>(
    base: &dyn Reader,
    mut changes: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    table: &'static str,
    range: KeyRange<'_>,
    order: Order,
    each: &mut ScanFn<'_>,
) -> Result<()> {
    let mut next = changes.next();
    if next.is_none() {
        return base.scan(table, range, order, each);
    }
    let mut end = ControlFlow::Continue(());
    let before = |a: &[u8], b: &[u8]| match order {
        Order::Ascending => a < b,
        Order::Descending => a > b,
    };

    base.scan(table, range, order, &mut |key, value| {
        while let Some((changed, new)) = next
            && before(changed, key)
        {
            end = emit(changed, new, each)?;
            if end == ControlFlow::Break(()) {
                return Ok(ControlFlow::Break(()));
            }
            next = changes.next();
        }
        end = match next {
            Some((changed, new)) if changed == key => {
                next = changes.next();
                emit(key, new, each)?
            }
            _ => each(key, value)?,
        };
        Ok(end)
    })?;
    while end == ControlFlow::Continue(())
        && let Some((changed, new)) = next
    {
        end = emit(changed, new, each)?;
        next = changes.next();
    }
    Ok(())
}

fn emit(key: &[u8], value: Option<&[u8]>, each: &mut ScanFn<'_>) -> Result<ControlFlow<()>> {
    value.map_or(Ok(ControlFlow::Continue(())), |value| each(key, value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{LocalStorage, Memory, WriteOp};
    use super::*;
    use proptest::prelude::*;

    type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

    fn memory(rows: &Rows) -> Memory {
        let mut writes = WriteBatch::default();
        for (key, value) in rows {
            writes.add("t", key.clone(), WriteOp::Insert(value.clone()));
        }
        let mut memory = Memory::default();
        memory.commit(&writes);
        memory
    }

    fn scanned(
        reader: &dyn Reader,
        range: KeyRange<'_>,
        order: Order,
        most: usize,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        reader
            .scan("t", range, order, &mut |key, value| {
                assert!(rows.len() < most, "the scan goes on after it was stopped");
                rows.push((key.to_vec(), value.to_vec()));
                Ok(if rows.len() == most {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            })
            .unwrap();
        rows
    }

    /// Short keys, so that they meet often.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0..3u8, 0..3)
    }

    fn changes() -> impl Strategy<Value = Vec<(Vec<u8>, Option<u8>)>> {
        prop::collection::vec((key(), any::<Option<u8>>()), 0..12)
    }

    /// Changes `rows` and says so in a batch, as a transaction would.
    fn apply(changes: Vec<(Vec<u8>, Option<u8>)>, rows: &mut Rows, writes: &mut WriteBatch) {
        for (key, value) in changes {
            let op = match (value, rows.contains_key(&key)) {
                (Some(value), true) => WriteOp::Put(vec![value]),
                (Some(value), false) => WriteOp::Insert(vec![value]),
                (None, true) => WriteOp::Delete,
                (None, false) => continue,
            };
            match op.value() {
                Some(value) => rows.insert(key.clone(), value.to_vec()),
                None => rows.remove(&key),
            };
            writes.add("t", key, op);
        }
    }

    proptest! {
        #[test]
        fn two_layers_read_as_if_they_had_been_applied(
            base in prop::collection::btree_map(key(), prop::collection::vec(any::<u8>(), 1), 0..9),
            first in changes(),
            second in changes(),
            from in key(),
            to in prop::option::of(key()),
            descending: bool,
            most in 1..9usize,
        ) {
            let mut memory = memory(&base);
            let below = memory.snapshot().unwrap();
            let (mut rows, mut one, mut two) = (base.clone(), WriteBatch::default(), WriteBatch::default());
            apply(first, &mut rows, &mut one);
            apply(second, &mut rows, &mut two);
            let lower = Overlay { base: &*below, writes: &one };
            let upper = Overlay { base: &lower, writes: &two };

            let order = if descending { Order::Descending } else { Order::Ascending };
            let range = KeyRange { from: &from, to: to.as_deref() };
            let within = |key: &Vec<u8>| *key >= from && to.as_ref().is_none_or(|to| key < to);
            let mut want: Vec<_> = rows.clone().into_iter().filter(|(key, _)| within(key)).collect();
            if descending {
                want.reverse();
            }
            want.truncate(most);
            prop_assert_eq!(scanned(&upper, range, order, most), want.clone());
            for key in base.keys().chain(rows.keys()) {
                let mut value = None;
                let there = upper.get("t", key, &mut |v| { value = Some(v.to_vec()); Ok(()) }).unwrap();
                prop_assert_eq!(value.as_ref(), rows.get(key));
                prop_assert_eq!(there, value.is_some());
            }

            // Both appended to one batch give the same rows, and the batch is right about the base:
            // it inserts only where no row was.
            one.append(two);
            prop_assert_eq!(scanned(&Overlay { base: &*below, writes: &one }, range, order, most), want);
            for (key, op) in one.tables.values().flatten() {
                match op {
                    WriteOp::Insert(_) => prop_assert!(!base.contains_key(key)),
                    WriteOp::Delete => prop_assert!(base.contains_key(key)),
                    WriteOp::Put(_) => prop_assert!(base.contains_key(key)),
                }
            }
            memory.commit(&one);
            prop_assert_eq!(scanned(&*memory.snapshot().unwrap(), KeyRange { from: &[], to: None }, Order::Ascending, 999), rows.into_iter().collect::<Vec<_>>());
        }
    }
}
