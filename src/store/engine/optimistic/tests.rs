//! Which changes conflict with what an attempt has read, and how far back that is known.

use std::ops::ControlFlow;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::store::engine::{LocalStorage as _, Memory, WriteOp};

/// Memory with the rows 10, 20, ... 90 in the table `t`.
fn memory() -> Memory {
    let mut memory = Memory::default();
    memory.commit(&writes((1..10).map(|row| row * 10)));
    memory
}

fn writes(keys: impl IntoIterator<Item = u8>) -> WriteBatch {
    let mut writes = WriteBatch::default();
    keys.into_iter().for_each(|key| writes.add("t", vec![key], WriteOp::Put(vec![key])));
    writes
}

fn changed(keys: &[u8]) -> ChangedKeys {
    BTreeMap::from([("t", keys.iter().map(|key| vec![*key]).collect())])
}

/// The read set of what `read` reads in `memory()`.
fn reads(read: impl Fn(&dyn Reader)) -> ReadSet {
    let reader = memory().snapshot().unwrap();
    let recorder = Recorder::new(&*reader, Budget::FULL);
    read(&recorder);
    let Reads::Whole(reads) = recorder.into_reads() else { panic!("the reads did not succeed") };
    reads.sort()
}

/// Scans from 20 to 80 and stops at the key `stop`.
fn scan(reader: &dyn Reader, order: Order, stop: Option<u8>) {
    let range = KeyRange { from: &[20], to: Some(&[80]) };
    let mut stop_at = |key: &[u8], _: &[u8]| {
        let stops = stop == Some(key[0]);
        Ok(if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    reader.scan("t", range, order, &mut stop_at).unwrap();
}

/// The keys of which a change, alone, conflicts with these reads: whether it is of an earlier
/// commit or of the same group.
fn conflicts(reads: &ReadSet) -> Vec<u8> {
    let conflicts: Vec<_> =
        (0..=99).filter(|key| reads.conflicts_with(&changed(&[*key]))).collect();
    let in_group: Vec<_> = (0..=99).filter(|key| reads.conflicts_with(&writes([*key]))).collect();
    assert_eq!(conflicts, in_group);
    conflicts
}

#[test]
fn a_key_that_was_read_conflicts_with_its_change_only_whether_it_exists_or_not() {
    let reads = reads(|reader| {
        assert!(reader.get("t", &[20], &mut |_| Ok(())).unwrap());
        assert!(!reader.get("t", &[25], &mut |_| Ok(())).unwrap());
    });
    assert_eq!(conflicts(&reads), [20, 25]);
    let mut of_another_table = WriteBatch::default();
    of_another_table.add("u", vec![20], WriteOp::Delete);
    assert!(!reads.conflicts_with(&of_another_table));
    // A delete is a change too.
    let mut deleted = WriteBatch::default();
    deleted.add("t", vec![20], WriteOp::Delete);
    assert!(reads.conflicts_with(&deleted));
}

#[test]
fn a_range_conflicts_with_every_change_in_it_and_none_outside() {
    for order in [Order::Ascending, Order::Descending] {
        let reads = reads(|reader| scan(reader, order, None));
        assert_eq!(conflicts(&reads), Vec::from_iter(20..80), "{order:?}");
    }
    let to_the_end = reads(|reader| {
        let range = KeyRange { from: &[95], to: None };
        let all = &mut |_: &[u8], _: &[u8]| Ok(ControlFlow::Continue(()));
        reader.scan("t", range, Order::Ascending, all).unwrap();
    });
    assert_eq!(conflicts(&to_the_end), [95, 96, 97, 98, 99]);
}

#[test]
fn a_range_that_was_stopped_early_conflicts_as_far_as_it_was_read() {
    let ascending = reads(|reader| scan(reader, Order::Ascending, Some(40)));
    assert_eq!(conflicts(&ascending), Vec::from_iter(20..=40));
    let descending = reads(|reader| scan(reader, Order::Descending, Some(40)));
    assert_eq!(conflicts(&descending), Vec::from_iter(40..80));
}

#[test]
fn an_empty_range_conflicts_with_nothing() {
    for (from, to) in [([50], [50]), ([60], [40])] {
        let reads = reads(|reader| {
            let range = KeyRange { from: &from, to: Some(&to) };
            let none = &mut |_: &[u8], _: &[u8]| panic!("there is nothing in it");
            reader.scan("t", range, Order::Ascending, none).unwrap();
        });
        assert!(conflicts(&reads).is_empty());
    }
}

proptest! {
    #[test]
    fn changes_conflict_alike_whether_reads_are_looked_up_in_them_or_they_in_reads(
        keys in vec((0..2usize, 0..30u8), 0..4),
        ranges in vec((0..2usize, 0..30u8, 0..34u8, 0..3u8), 0..6),
        changes in vec((0..2usize, 0..30u8), 0..6),
    ) {
        let tables = ["t", "u"];
        let mut recorded = RecordedReads::default();
        for (table, key) in &keys {
            recorded.add_key(tables[*table], &[*key]);
        }
        for (table, from, to, kind) in &ranges {
            let end = [*to];
            let range = KeyRange { from: &[*from], to: (*to < 30).then_some(&end[..]) };
            let stopped = (from..to).contains(&&(to / 2)).then(|| vec![to / 2]);
            match kind {
                0 => recorded.add_range(tables[*table], range, Order::Ascending, None),
                1 => recorded.add_range(tables[*table], range, Order::Ascending, stopped),
                _ => recorded.add_range(tables[*table], range, Order::Descending, stopped),
            }
        }
        let is_read = |table: &'static str, key: &[u8]| {
            recorded.keys.iter().any(|(of, read)| *of == table && read == key)
                || recorded.ranges.iter().any(|read| {
                    read.table == table && read.from.as_slice() <= key && !read.ends_before(key)
                })
        };
        let mut changed = ChangedKeys::default();
        for (table, key) in &changes {
            changed.entry(tables[*table]).or_default().insert(vec![*key]);
        }
        let expected = changed.any(&mut |table, key| is_read(table, key));
        let reads = recorded.sort();
        prop_assert_eq!(reads.conflicts_with(&changed), expected);
        prop_assert_eq!(changed.any(&mut |table, key| reads.has(table, key)), expected);
    }
}

/// Changes in which nothing may be looked up.
struct OnlyListed(ChangedKeys);

impl Changes for OnlyListed {
    fn has_key(&self, _: &'static str, _: &[u8]) -> bool {
        panic!("there are fewer changes than reads")
    }
    fn has_any(&self, _: &'static str, _: &[u8], _: Bound<&[u8]>) -> bool {
        panic!("there are fewer changes than reads")
    }
    fn count(&self) -> usize {
        self.0.count()
    }
    fn any(&self, is_one: &mut dyn FnMut(&'static str, &[u8]) -> bool) -> bool {
        self.0.any(is_one)
    }
}

#[test]
fn of_many_reads_only_those_are_looked_at_that_few_changes_touch() {
    let mut recorded = RecordedReads::default();
    (0..=255).for_each(|key| recorded.add_key("t", &[key]));
    let reads = recorded.sort();
    assert!(reads.conflicts_with(&OnlyListed(changed(&[7]))));
    assert!(!reads.conflicts_with(&OnlyListed(BTreeMap::from([("u", BTreeSet::from([vec![7]]))]))));
}

#[test]
fn conclusions_about_access_hold_at_the_same_version_only() {
    let independent = reads(|_| ());
    assert!(independent.access_is(None) && independent.access_is(Some(7)));
    let mut memory = memory();
    let mut grants = writes([1]);
    grants.changes_access = true;
    memory.commit(&grants);
    let reader = memory.snapshot().unwrap();
    let recorder = Recorder::new(&*reader, Budget::FULL);
    assert_eq!(recorder.access_version(), Some(2));
    let Reads::Whole(reads) = recorder.into_reads() else { panic!("the reads did not succeed") };
    let reads = reads.sort();
    assert!(reads.access_is(Some(2)));
    assert!(!reads.access_is(Some(3)));
    assert!(!reads.access_is(None), "its group changes access");
}

#[test]
fn conclusions_drawn_while_access_was_being_changed_never_hold() {
    let changing = WriteBatch { changes_access: true, ..WriteBatch::default() };
    let base = memory().snapshot().unwrap();
    let overlay = crate::store::engine::Overlay { base: &*base, writes: &changing };
    let recorder = Recorder::new(&overlay, Budget::FULL);
    assert_eq!(recorder.access_version(), None);
    let Reads::Whole(reads) = recorder.into_reads() else { panic!("the reads did not succeed") };
    let reads = reads.sort();
    assert!(!reads.access_is(None) && !reads.access_is(Some(0)));
}

#[test]
fn work_that_is_charged_counts_as_what_is_read() {
    let reader = memory().snapshot().unwrap();
    let overlay = crate::store::engine::Overlay { base: &*reader, writes: &WriteBatch::default() };
    for over in [&*reader as &dyn Reader, &overlay] {
        let recorder = Recorder::new(over, Budget::LIGHT);
        assert!(recorder.charge_read(Budget::LIGHT.read_bytes).is_ok());
        assert!(recorder.charge_read(1).is_err());
        assert!(matches!(recorder.into_reads(), Reads::OverBudget));
    }
}

#[test]
fn reads_conflict_with_later_commits_only() {
    let mut history = History::default();
    for number in 1..=3 {
        history.add(number, writes([10 * number as u8]));
    }
    let read = |key: u8| reads(move |reader| drop(reader.get("t", &[key], &mut |_| Ok(()))));
    let current_from = |key| (0..=4).filter(|at| history.is_current(*at, &read(key))).min();
    assert_eq!(current_from(10), Some(1));
    assert_eq!(current_from(20), Some(2));
    assert_eq!(current_from(30), Some(3));
    assert_eq!(current_from(40), Some(0));
}

#[test]
fn reads_older_than_the_history_are_not_current() {
    let mut history = History::default();
    let unrelated = reads(|reader| drop(reader.get("u", &[1], &mut |_| Ok(()))));
    for number in 1..=3 {
        history.add(number, writes(0..40));
    }
    // 120 keys are more than 100, so the first commit was evicted.
    assert_eq!((history.commits.len(), history.keys), (2, 80));
    assert!(!history.is_current(0, &unrelated));
    assert!(history.is_current(1, &unrelated) && history.is_current(3, &unrelated));
    // One commit that is too large on its own leaves nothing known before it.
    history.add(4, writes(0..=MAX_HISTORY_KEYS as u8));
    assert_eq!((history.commits.len(), history.keys), (0, 0));
    assert!(!history.is_current(3, &unrelated) && history.is_current(4, &unrelated));
}

#[test]
fn after_a_reset_only_later_reads_are_current() {
    let mut history = History::default();
    history.add(1, writes([10]));
    history.reset(5);
    let unrelated = reads(|reader| drop(reader.get("u", &[1], &mut |_| Ok(()))));
    assert!(!history.is_current(4, &unrelated));
    assert!(history.is_current(5, &unrelated));
}
