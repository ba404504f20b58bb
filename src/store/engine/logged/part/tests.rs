//! Every snapshot of a part answers as a sorted map would that has the same changes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::versions::MAX_FREED_AT_ONCE;
use super::*;
use crate::store::engine::WriteOp;
use crate::store::engine::logged::record::{Link, LogId};
use crate::store::engine::logged::tables::TableNumbers;

/// The newest change of each key.
type Model = BTreeMap<(u16, Vec<u8>), Option<Vec<u8>>>;

const TABLES: [&str; 4] = ["a", "b", "c", "d"];

/// A table, a key in it and its value.
type Row = (u16, Vec<u8>, Option<Vec<u8>>);

/// A part with what it should have, and snapshots of before.
struct Compared {
    part: Part,
    model: Model,
    tables: Arc<TableNumbers>,
    records: Vec<Arc<[u8]>>,
    snapshots: Vec<(Part, Model)>,
}

impl Compared {
    fn new() -> Self {
        Compared {
            part: Part::default(),
            model: Model::new(),
            tables: Arc::new(TableNumbers::new(&TABLES)),
            records: Vec::new(),
            snapshots: Vec::new(),
        }
    }

    fn add(&mut self, changes: Vec<Row>) {
        let mut writes = WriteBatch::default();
        for (table, key, value) in changes {
            let op = value.clone().map_or(WriteOp::Delete, WriteOp::Put);
            writes.add(TABLES[usize::from(table)], key.clone(), op);
            self.model.insert((table, key), value);
        }
        let (record, _) = record::encode(LogId::new([1; 16]), Link::default(), &writes).unwrap();
        self.part.add(&record, |name| TableNumbers::shared(&mut self.tables, name)).unwrap();
        self.records.push(record);
    }

    fn keep_snapshot(&mut self) {
        self.snapshots.push((self.part.clone(), self.model.clone()));
    }

    /// Compares the newest snapshot, those before, and a part that is made of all records at once.
    fn assert_same(&mut self, from: &[u8], to: Option<&[u8]>) {
        assert_sound(&self.part);
        let number = |name: &str| TableNumbers::shared(&mut self.tables, name);
        let at_once = Part::of(self.records.clone(), number).unwrap();
        for counted in [Part::bytes, Part::changes, Part::deletions, Part::memory] {
            assert_eq!(counted(&at_once), counted(&self.part));
        }
        assert_answers(&at_once, &self.model, from, to);
        assert_answers(&self.part, &self.model, from, to);
        for (part, model) in &self.snapshots {
            assert_answers(part, model, from, to);
        }
    }
}

/// The map has all changes, in order, each once.
fn assert_sound(part: &Part) {
    let guard = &epoch::pin();
    let versions: Vec<_> = part.versions_after(None, guard).collect();
    assert_eq!(versions.len(), part.changes());
    assert!(versions.windows(2).all(|two| {
        let place = |version: &Version| {
            (version.table(), version.key().to_vec(), std::cmp::Reverse(version.nth()))
        };
        place(two[0]) < place(two[1])
    }));
}

fn assert_answers(part: &Part, model: &Model, from: &[u8], to: Option<&[u8]>) {
    for table in 0..4 {
        let of_table = model.iter().filter(|((number, _), _)| *number == table);
        for (from, to) in [(from, to), (from, None), (&[], to), (&[], None)] {
            let mut want: Vec<_> = of_table
                .clone()
                .filter(|((_, key), _)| {
                    key.as_slice() >= from && to.is_none_or(|to| key.as_slice() < to)
                })
                .map(|((_, key), value)| (key.clone(), value.clone()))
                .collect();
            let range = KeyRange { from, to };
            assert_eq!(rows(part, table, range, Order::Ascending), want);
            want.reverse();
            assert_eq!(rows(part, table, range, Order::Descending), want);
        }
        for ((_, key), value) in of_table {
            assert_eq!(get(part, table, key), Some(value.clone()));
        }
        assert_eq!(get(part, table, b"no such key"), None);
    }
}

fn get(part: &Part, table: u16, key: &[u8]) -> Option<Option<Vec<u8>>> {
    part.get(table, key, |value| value.map(<[u8]>::to_vec))
}

fn rows(
    part: &Part,
    table: u16,
    range: KeyRange<'_>,
    order: Order,
) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let guard = &epoch::pin();
    let changes = part.range(table, range, order, guard);
    changes.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect()
}

fn value(number: u32) -> Option<Vec<u8>> {
    (!number.is_multiple_of(5)).then(|| number.to_be_bytes().to_vec())
}

/// Keys of few values, so that they meet; some behind a long common beginning.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let begin = prop::sample::select(vec![0, 0, 16, 38]);
    (begin, prop::collection::vec(0..9u8, 0..5)).prop_map(|(len, end)| [vec![4; len], end].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_snapshot_has_what_was_added_before_it_and_nothing_else(
        batches in prop::collection::vec(
            prop::collection::vec((0..4u16, key(), any::<Option<[u8; 2]>>()), 1..100), 1..30),
        kept in prop::collection::btree_set(0..30usize, 0..4),
        from in key(),
        to in prop::option::of(key()),
    ) {
        let mut compared = Compared::new();
        for (number, batch) in batches.into_iter().enumerate() {
            if kept.contains(&number) {
                compared.keep_snapshot();
            }
            let value = |value: Option<[u8; 2]>| value.map(|value| value.to_vec());
            compared.add(batch.into_iter().map(|(table, key, v)| (table, key, value(v))).collect());
        }
        compared.assert_same(&from, to.as_deref().filter(|to| *to > from.as_slice()));
    }
}

/// Orders of keys in which one is smaller than all before it, at the front or behind a beginning.
#[test]
fn keys_that_grow_shrink_or_jump_are_found_in_a_large_part() {
    let orders: [fn(u32) -> u32; 4] = [
        |number| number,
        |number| 9_999 - number,
        |number| number.wrapping_mul(7_919) % 10_000,
        |number| number.rotate_left(16) ^ 0x5a5a_5a5a,
    ];
    for order in orders {
        let mut compared = Compared::new();
        for number in 0..10_000u32 {
            if number.is_multiple_of(4_000) {
                compared.keep_snapshot();
            }
            let place = order(number);
            let table = u16::try_from(place % 4).unwrap();
            compared.add(vec![(3 - table, place.to_be_bytes().to_vec(), value(number))]);
        }
        compared.assert_same(&[0, 0, 1], Some(&[0, 0, 9]));
    }
}

#[test]
fn of_a_key_with_many_versions_each_snapshot_has_its_own() {
    let mut compared = Compared::new();
    for number in 0..500u32 {
        if number.is_multiple_of(50) {
            compared.keep_snapshot();
        }
        let rows = [b"hot".as_slice(), b"hotter", b"warm"];
        let hot = rows.map(|key| (1, key.to_vec(), value(number)));
        let cold = (1, format!("key {}", number / 100).into_bytes(), value(number));
        compared.add([hot.to_vec(), vec![cold]].concat());
    }
    compared.assert_same(b"hot", Some(b"hotu"));
}

#[test]
fn readers_see_their_snapshots_while_the_writer_adds() {
    let mut compared = Compared::new();
    std::thread::scope(|scope| {
        for number in 0..2_000u32 {
            let key = (number.wrapping_mul(7_919) % 500).to_be_bytes().to_vec();
            compared.add(vec![(0, vec![1], value(number)), (2, key, value(number + 1))]);
            if number.is_multiple_of(100) {
                let (part, model) = (compared.part.clone(), compared.model.clone());
                scope.spawn(move || assert_answers(&part, &model, &[0, 0, 1], Some(&[0, 0, 2])));
            }
        }
    });
    compared.assert_same(&[], None);
}

#[test]
fn a_part_that_a_record_was_half_added_to_takes_no_other() {
    let mut compared = Compared::new();
    compared.add(vec![(0, vec![1], Some(vec![1]))]);
    let before = compared.part.clone();
    let record = compared.records[0].clone();
    let mut half = compared.part.clone();
    let added = std::panic::AssertUnwindSafe(|| half.add(&record, |_| panic!("in between")));
    assert!(std::panic::catch_unwind(added).is_err());
    for mut part in [compared.part.clone(), before] {
        let error = part.add(&record, |_| 0).unwrap_err().to_string();
        assert!(error.contains("added to twice"), "{error}");
        assert_answers(&part, &compared.model, &[], None);
    }
}

#[test]
fn the_last_table_and_the_empty_key_are_read_in_both_directions() {
    let mut part = Part::default();
    let mut writes = WriteBatch::default();
    for key in [b"".as_slice(), b"\0", b"\xff\xff"] {
        writes.add("last", key.to_vec(), WriteOp::Put(b"v".to_vec()));
        writes.add("other", key.to_vec(), WriteOp::Delete);
    }
    let (record, _) = record::encode(LogId::new([1; 16]), Link::default(), &writes).unwrap();
    part.add(&record, |name| if name == "last" { u16::MAX } else { u16::MAX - 1 }).unwrap();
    for order in [Order::Ascending, Order::Descending] {
        for (table, value) in [(u16::MAX, Some(b"v".to_vec())), (u16::MAX - 1, None)] {
            let mut keys = vec![b"".to_vec(), b"\0".to_vec(), b"\xff\xff".to_vec()];
            if order == Order::Descending {
                keys.reverse();
            }
            let want: Vec<_> = keys.into_iter().map(|key| (key, value.clone())).collect();
            assert_eq!(rows(&part, table, KeyRange { from: &[], to: None }, order), want);
        }
    }
}

#[test]
fn a_large_part_is_freed_with_its_last_snapshot() {
    let mut compared = Compared::new();
    for number in 0..1_500u32 {
        compared.add(vec![(0, number.to_be_bytes().to_vec(), value(number))]);
    }
    assert!(compared.part.changes() > MAX_FREED_AT_ONCE);
    let record = Arc::downgrade(&compared.records.pop().unwrap());
    let reader = compared.part.clone();
    drop(compared);
    assert!(record.upgrade().is_some(), "a reader has it");
    drop(reader);
    while record.strong_count() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_table_that_is_not_known_gets_a_number() {
    let mut tables = Arc::new(TableNumbers::new(&["a"]));
    let mut writes = WriteBatch::default();
    writes.add("c", b"k".to_vec(), WriteOp::Put(b"v".to_vec()));
    let (record, _) = record::encode(LogId::new([1; 16]), Link::default(), &writes).unwrap();
    let mut part = Part::default();
    part.add(&record, |name| TableNumbers::shared(&mut tables, name)).unwrap();
    let number = tables.number("c").unwrap();
    assert_eq!(get(&part, number, b"k"), Some(Some(b"v".to_vec())));
    assert_eq!(tables.name(number), "c");
}
