//! A history of batches and snapshots, in the map of a part and in sorted maps.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::part::{Part, PartVersion};
use super::super::record::{self, Link, LogId};
use super::super::tables::TableNumbers;
use super::{Row, Script, TABLES, key, row, write_op};
use crate::store::engine::{KeyRange, Order, WriteBatch};

/// The newest change of each key.
type Model = BTreeMap<(u16, Vec<u8>), Option<Vec<u8>>>;

/// Each is compared as a whole.
const MAX_SNAPSHOTS: usize = 4;
const MAX_COMPARISONS: usize = 16;

struct History {
    part: Part,
    model: Model,
    tables: Arc<TableNumbers>,
    records: Vec<Arc<[u8]>>,
    snapshots: Vec<(Part, Model)>,
}

/// Every snapshot of a part answers as a sorted map would that has the same changes.
///
/// # Panics
/// If one does not.
pub fn map(input: &[u8]) {
    let mut script = Script::new(input);
    let mut history = History {
        part: Part::default(),
        model: Model::new(),
        tables: Arc::new(TableNumbers::new(&TABLES)),
        records: Vec::new(),
        snapshots: Vec::new(),
    };
    let mut comparisons = 0;
    while !script.is_over() {
        match script.byte() % 8 {
            0 if history.snapshots.len() < MAX_SNAPSHOTS => {
                history.snapshots.push((history.part.clone(), history.model.clone()));
            }
            1 if comparisons < MAX_COMPARISONS => {
                comparisons += 1;
                history.compare(&key(&mut script), Some(&key(&mut script)));
            }
            count => history.add((0..=count).map(|_| row(&mut script)).collect()),
        }
    }
    history.compare(&[], None);
}

impl History {
    fn add(&mut self, rows: Vec<Row>) {
        let mut writes = WriteBatch::default();
        for (table, key, value) in rows {
            writes.add(TABLES[usize::from(table)], key.clone(), write_op(value.clone()));
            self.model.insert((table, key), value);
        }
        let record = record::encode(LogId::new([1; 16]), Link::default(), &writes);
        let (record, _) = record.expect("a short batch has a record");
        let number = |name: &str| TableNumbers::shared(&mut self.tables, name);
        self.part.add(&record, number).expect("it is the newest snapshot");
        self.records.push(record);
    }

    fn compare(&mut self, from: &[u8], to: Option<&[u8]>) {
        let to = to.filter(|to| *to > from);
        let number = |name: &str| TableNumbers::shared(&mut self.tables, name);
        let at_once = Part::of(self.records.clone(), number).expect("the records are valid");
        for counted in [Part::bytes, Part::changes, Part::deletions, Part::memory] {
            assert_eq!(counted(&at_once), counted(&self.part));
        }
        for part in [&at_once, &self.part] {
            assert_ordered(part);
            assert_answers(part, &self.model, from, to);
        }
        for (part, model) in &self.snapshots {
            assert_answers(part, model, from, to);
        }
    }
}

/// All changes are there, in order, each once, from wherever one goes on.
fn assert_ordered(part: &Part) {
    fn place(version: &PartVersion) -> (u16, &[u8], Reverse<u32>) {
        (version.table(), version.key(), Reverse(version.nth()))
    }
    let guard = &crossbeam_epoch::pin();
    let versions: Vec<_> = part.versions_after(None, guard).collect();
    assert_eq!(versions.len(), part.changes());
    assert!(versions.windows(2).all(|two| place(two[0]) < place(two[1])));
    let at = versions.len() / 2;
    if let Some(last) = versions.get(at) {
        let rest = part.versions_after(Some(last), guard).map(place);
        assert!(rest.eq(versions[at + 1..].iter().map(|version| place(version))));
    }
}

fn assert_answers(part: &Part, model: &Model, from: &[u8], to: Option<&[u8]>) {
    let guard = &crossbeam_epoch::pin();
    for table in 0..4 {
        let of_table = model.iter().filter(|((number, _), _)| *number == table);
        let rows = of_table.map(|((_, key), value)| (key.as_slice(), value.as_deref()));
        let mut want: Vec<_> = rows.collect();
        for (key, value) in &want {
            let found = part.get(table, key, |found| found.map(<[u8]>::to_vec));
            assert_eq!(found, Some(value.map(<[u8]>::to_vec)), "{table} {key:?}");
        }
        want.retain(|(key, _)| *key >= from && to.is_none_or(|to| *key < to));
        let range = |order| part.range(table, KeyRange { from, to }, order, guard);
        assert!(
            range(Order::Ascending).eq(want.iter().copied()),
            "{table} from {from:?} to {to:?}"
        );
        let descending = range(Order::Descending);
        assert!(descending.eq(want.iter().rev().copied()), "{table} from {from:?} to {to:?}");
        // No script makes such a key.
        assert!(part.get(table, b"no such key", |_| ()).is_none());
    }
}
