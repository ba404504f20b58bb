//! A part answers as a sorted map would.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::store::engine::logged::record::{Link, LogId};
use crate::store::engine::logged::tables::TableNumbers;
use crate::store::engine::{WriteBatch, WriteOp};

type Model = BTreeMap<(u16, Vec<u8>), Option<Vec<u8>>>;

const TABLES: [&str; 3] = ["a", "b", "c"];

/// A table, a key in it and its value.
type Row = (u16, Vec<u8>, Option<Vec<u8>>);

fn record(changes: &[Row]) -> Box<[u8]> {
    let mut writes = WriteBatch::default();
    for (table, key, value) in changes {
        let op = value.clone().map_or(WriteOp::Delete, WriteOp::Put);
        writes.add(TABLES[usize::from(*table)], key.clone(), op);
    }
    record::encode(LogId([1; 16]), Link::default(), &writes).unwrap().0
}

fn rows(
    part: &Part,
    table: u16,
    range: KeyRange<'_>,
    order: Order,
) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let changes = part.range(table, range, order);
    changes.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect()
}

fn assert_same(part: &Part, model: &Model, from: &[u8], to: Option<&[u8]>) {
    for table in 0..3 {
        let of_table = model.iter().filter(|((number, _), _)| *number == table);
        let in_range = of_table.clone().filter(|((_, key), _)| {
            key.as_slice() >= from && to.is_none_or(|to| key.as_slice() < to)
        });
        let mut want: Vec<_> =
            in_range.map(|((_, key), value)| (key.clone(), value.clone())).collect();
        let range = KeyRange { from, to };
        assert_eq!(rows(part, table, range, Order::Ascending), want);
        want.reverse();
        assert_eq!(rows(part, table, range, Order::Descending), want);
        for ((_, key), value) in of_table {
            let found = part.get(table, key).map(|value| value.map(<[u8]>::to_vec));
            assert_eq!(found, Some(value.clone()));
        }
        assert_eq!(part.get(table, b"no such key"), None);
    }
    let all: Model = part
        .changes_from(0, &[])
        .map(|(table, (key, value))| ((table, key.to_vec()), value.map(<[u8]>::to_vec)))
        .collect();
    assert_eq!(all, *model);
}

/// Keys of few values, so that they meet, and of enough for nodes to be divided.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..9u8, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_version_has_what_was_added_before_it_and_nothing_else(
        batches in prop::collection::vec(
            prop::collection::vec((0..3u16, key(), any::<Option<[u8; 2]>>()), 1..200), 1..30),
        kept in 0..30usize,
        key_after in key(),
        from in key(),
        to in prop::option::of(key()),
    ) {
        let mut tables = Arc::new(TableNumbers::new(&TABLES));
        let (mut part, mut model) = (Part::default(), Model::new());
        let (mut earlier, mut records) = (None, Vec::new());
        for (number, batch) in batches.into_iter().enumerate() {
            let batch: Vec<_> = batch
                .into_iter()
                .map(|(table, key, value)| (table, key, value.map(|value| value.to_vec())))
                .collect();
            records.push(record(&batch));
            part.add(record(&batch), |name| TableNumbers::shared(&mut tables, name)).unwrap();
            model.extend(batch.into_iter().map(|(table, key, value)| ((table, key), value)));
            if number == kept {
                earlier = Some((part.clone(), model.clone()));
            }
        }
        let to = to.as_deref().filter(|to| *to > from.as_slice());
        assert_same(&part, &model, &from, to);
        let number = |name: &str| TableNumbers::shared(&mut tables, name);
        let mut at_once = Part::of(records, number).unwrap();
        assert_same(&at_once, &model, &from, to);
        assert_eq!((at_once.bytes(), at_once.len), (part.bytes(), part.len));
        let last = (1, key_after, Some(vec![1]));
        at_once.add(record(std::slice::from_ref(&last)), |_| 1).unwrap();
        model.insert((1, last.1), last.2);
        assert_same(&at_once, &model, &from, to);
        if let Some((part, model)) = earlier {
            assert_same(&part, &model, &from, to);
        }
    }
}

#[test]
fn keys_that_grow_shrink_or_jump_are_found_in_a_large_part() {
    for step in [1u32, 7, 9_999] {
        let mut tables = Arc::new(TableNumbers::new(&TABLES));
        let (mut part, mut model) = (Part::default(), Model::new());
        for number in 0..10_000u32 {
            let key = (number.wrapping_mul(step) % 10_000).to_be_bytes().to_vec();
            let change = (1, key.clone(), Some(number.to_be_bytes().to_vec()));
            let number = |name: &str| TableNumbers::shared(&mut tables, name);
            part.add(record(std::slice::from_ref(&change)), number).unwrap();
            model.insert((1, key), change.2);
        }
        assert_same(&part, &model, &[0, 0, 1], Some(&[0, 0, 9]));
    }
}

#[test]
fn a_table_that_is_not_known_gets_a_number() {
    let mut tables = Arc::new(TableNumbers::new(&["a"]));
    let mut part = Part::default();
    let number = |name: &str| TableNumbers::shared(&mut tables, name);
    part.add(record(&[(2, b"k".to_vec(), Some(b"v".to_vec()))]), number).unwrap();
    let number = tables.number("c").unwrap();
    assert_eq!(part.get(number, b"k"), Some(Some(&b"v"[..])));
    assert_eq!(tables.name(number), "c");
}
