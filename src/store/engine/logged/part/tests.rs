//! A part answers as a sorted map would.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::store::engine::logged::record::{Link, LogId};
use crate::store::engine::logged::tables::TableNumbers;
use crate::store::engine::{WriteBatch, WriteOp};

type Model = BTreeMap<(u16, Vec<u8>), Option<Vec<u8>>>;

const TABLES: [&str; 3] = ["a", "b", "c"];

/// A table, a key in it and its value.
type Row = (u16, Vec<u8>, Option<Vec<u8>>);

fn record(writes: &WriteBatch) -> Box<[u8]> {
    record::encode(LogId::new([1; 16]), Link::default(), writes).unwrap().0
}

/// A batch that writes keys, existing or not.
fn puts(changes: &[Row]) -> WriteBatch {
    let mut writes = WriteBatch::default();
    for (table, key, value) in changes {
        let op = value.clone().map_or(WriteOp::Delete, WriteOp::Put);
        writes.add(TABLES[usize::from(*table)], key.clone(), op);
    }
    writes
}

fn add(part: &mut Part, writes: &WriteBatch, tables: &mut Arc<TableNumbers>) {
    let changes = writes.tables.values().flat_map(BTreeMap::values);
    let is_insertion = changes.map(|op| matches!(op, WriteOp::Insert(_)));
    let number = |name: &str| TableNumbers::shared(tables, name);
    part.add(record(writes), is_insertion, number).unwrap();
}

/// What is below a part and in it, and what the part is to have.
#[derive(Clone, Default)]
struct State {
    below: BTreeSet<(u16, Vec<u8>)>,
    present: BTreeSet<(u16, Vec<u8>)>,
    part: Model,
    /// The same with every deletion.
    at_once: Model,
}

impl State {
    /// Makes the changes as a transaction does, and returns its batch.
    fn change(&mut self, changes: Vec<Row>) -> WriteBatch {
        let mut writes = WriteBatch::default();
        for (table, key, value) in changes {
            let place = (table, key.clone());
            let op = match value.clone() {
                Some(value) if self.present.insert(place.clone()) => WriteOp::Insert(value),
                Some(value) => WriteOp::Put(value),
                None if self.present.remove(&place) => WriteOp::Delete,
                None => continue,
            };
            writes.add(TABLES[usize::from(table)], key, op);
            if value.is_none() && !self.below.contains(&place) {
                self.part.remove(&place);
            } else {
                self.part.insert(place, value);
            }
        }
        for (name, changes) in &writes.tables {
            let table = TABLES.iter().position(|table| table == name).unwrap();
            for (key, op) in changes {
                let place = (u16::try_from(table).unwrap(), key.clone());
                self.at_once.insert(place, op.value().map(<[u8]>::to_vec));
            }
        }
        writes
    }
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
    assert_heads(part, &part.root);
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

/// Keys of few values, so that they meet, and of enough for nodes to be divided; some behind a beginning
/// that is as long as a node keeps, a little shorter, or longer.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let begin = prop::sample::select(vec![0, 0, 16, 30, 37, 38, 39, 50]);
    (begin, prop::collection::vec(0..9u8, 0..5)).prop_map(|(len, end)| [vec![4; len], end].concat())
}

/// Every node's entries have the heads that they would have were they put in it now, or shorter ones.
fn assert_heads(part: &Part, node: &Node) {
    match node {
        Node::Leaf(entries) => assert!(entries.is_sound(&part.records)),
        Node::Inner { firsts, children } => {
            assert!(firsts.is_sound(&part.records));
            children.iter().for_each(|child| assert_heads(part, child));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_version_has_what_was_added_before_it_and_nothing_else(
        below in prop::collection::btree_set((0..3u16, key()), 0..100),
        batches in prop::collection::vec(
            prop::collection::vec((0..3u16, key(), any::<Option<[u8; 2]>>()), 1..200), 1..30),
        kept in 0..30usize,
        key_after in key(),
        from in key(),
        to in prop::option::of(key()),
    ) {
        let mut tables = Arc::new(TableNumbers::new(&TABLES));
        let mut part = Part::default();
        let mut state = State { present: below.clone(), below, ..State::default() };
        let (mut earlier, mut records) = (None, Vec::new());
        for (number, batch) in batches.into_iter().enumerate() {
            let batch: Vec<_> = batch
                .into_iter()
                .map(|(table, key, value)| (table, key, value.map(|value| value.to_vec())))
                .collect();
            let writes = state.change(batch);
            records.push(record(&writes));
            add(&mut part, &writes, &mut tables);
            if number == kept {
                earlier = Some((part.clone(), state.part.clone()));
            }
        }
        let to = to.as_deref().filter(|to| *to > from.as_slice());
        assert_same(&part, &state.part, &from, to);
        let number = |name: &str| TableNumbers::shared(&mut tables, name);
        let mut at_once = Part::of(records, number).unwrap();
        assert_same(&at_once, &state.at_once, &from, to);
        assert_eq!((at_once.bytes(), at_once.len), (part.bytes(), part.len));
        let last = puts(&[(1, key_after.clone(), Some(vec![1]))]);
        add(&mut at_once, &last, &mut tables);
        state.at_once.insert((1, key_after), Some(vec![1]));
        assert_same(&at_once, &state.at_once, &from, to);
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
            add(&mut part, &puts(std::slice::from_ref(&change)), &mut tables);
            model.insert((1, key), change.2);
        }
        assert_same(&part, &model, &[0, 0, 1], Some(&[0, 0, 9]));
    }
}

/// The number of nodes from this one on.
fn nodes(node: &Node) -> usize {
    match node {
        Node::Leaf(_) => 1,
        Node::Inner { children, .. } => {
            1 + children.iter().map(|child| nodes(child)).sum::<usize>()
        }
    }
}

#[test]
fn rows_that_are_deleted_soon_leave_nothing_behind() {
    let mut tables = Arc::new(TableNumbers::new(&TABLES));
    let mut part = Part::default();
    let mut state = State::default();
    for number in 0..3_000u32 {
        let key = |number: u32| (1, number.to_be_bytes().to_vec());
        let (table, new) = key(number);
        let mut changes = vec![(table, new, Some(vec![1]))];
        if let Some(old) = number.checked_sub(500) {
            changes.push((table, key(old).1, None));
        }
        add(&mut part, &state.change(changes), &mut tables);
    }
    assert_eq!(part.changes_from(0, &[]).count(), 500);
    let nodes = nodes(&part.root);
    assert!(nodes <= 12, "{nodes}");
    let rest = (2_500..3_000u32).map(|number| (1, number.to_be_bytes().to_vec(), None)).collect();
    add(&mut part, &state.change(rest), &mut tables);
    assert_same(&part, &Model::new(), &[], None);
    assert_eq!(self::nodes(&part.root), 1);
    add(&mut part, &state.change(vec![(0, vec![1], Some(vec![2]))]), &mut tables);
    assert_same(&part, &state.part, &[], None);
}

#[test]
fn what_was_read_from_the_log_keeps_deletions_of_rows_that_a_checkpoint_may_have_written() {
    let mut tables = Arc::new(TableNumbers::new(&TABLES));
    let mut state = State::default();
    let inserted = state.change(vec![(1, vec![1], Some(vec![1])), (1, vec![2], Some(vec![1]))]);
    let deleted = state.change(vec![(1, vec![1], None)]);
    let number = |name: &str| TableNumbers::shared(&mut tables, name);
    let mut part = Part::of(vec![record(&inserted), record(&deleted)], number).unwrap();
    assert_eq!(part.get(1, &[1]), Some(None));
    add(&mut part, &state.change(vec![(1, vec![2], None)]), &mut tables);
    assert_eq!(part.get(1, &[2]), Some(None));
}

#[test]
fn a_table_that_is_not_known_gets_a_number() {
    let mut tables = Arc::new(TableNumbers::new(&["a"]));
    let mut part = Part::default();
    add(&mut part, &puts(&[(2, b"k".to_vec(), Some(b"v".to_vec()))]), &mut tables);
    let number = tables.number("c").unwrap();
    assert_eq!(part.get(number, b"k"), Some(Some(&b"v"[..])));
    assert_eq!(tables.name(number), "c");
}
