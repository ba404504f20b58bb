//! The check finds every kind of damage, and nothing in an intact store.
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

mod records;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use records::*;
use roadstead::base::Result;
use roadstead::store::check::Findings;
use roadstead::store::engine::{
    CommitOutcome, KeyRange, LocalStorage, Memory, Order, Reader, WriteBatch, WriteOp,
};
use roadstead::store::{Key, Record, decode, encode, repair};

type Row = (Vec<u8>, Vec<u8>);
type Damage = Vec<(&'static str, Vec<u8>, WriteOp)>;

/// Memory that the test can read beside the store.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Memory>>);

impl LocalStorage for Shared {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        self.0.lock().unwrap().snapshot()
    }
    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        self.0.lock().unwrap().commit(writes)
    }
    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        self.snapshot()
    }
}

/// Stores random records and returns the rows of all tables.
fn rows(runner: &mut TestRunner) -> Vec<(&'static str, Vec<Row>)> {
    let tasks =
        prop::collection::btree_map(0..40u32, any::<(bool, u8, Option<Option<u8>>)>(), 5..40);
    let tasks = tasks.new_tree(runner).unwrap().current();
    let memory = Shared::default();
    let store = start(memory.clone());
    for owner in 0..3 {
        let tasks = tasks.clone();
        let write = store.write_blocking(org(owner), move |tx| {
            for (id, (slug, state, assignee)) in &tasks {
                let slug = slug.then(|| format!("slug-{id}"));
                let text = "some text".to_string();
                tx.insert(&Task { id: *id, slug, state: *state, assignee: *assignee, text })?;
                let name = format!("{owner}-{id}");
                let email = format!("{name}@a.example");
                tx.insert(&Account { name, email, admin: state % 2 == 0 })?;
            }
            // What every kind of damage needs something of.
            for id in [100, 101] {
                let (slug, text) = (Some(format!("slug-{id}")), String::new());
                tx.insert(&Task { id, slug, state: 1, assignee: Some(None), text })?;
                let name = format!("{owner}-{id}");
                let email = format!("{name}@a.example");
                tx.insert(&Account { name, email, admin: true })?;
            }
            tx.remove(&tx.fetch::<Task>(tasks.keys().next().unwrap())?)
        });
        write.unwrap();
    }
    let reader = memory.clone().snapshot().unwrap();
    tables()
        .into_iter()
        .map(|table| {
            let mut rows = Vec::new();
            let all = KeyRange { from: &[], to: None };
            reader
                .scan(table, all, Order::Ascending, &mut |key, value| {
                    rows.push((key.to_vec(), value.to_vec()));
                    Ok(ControlFlow::Continue(()))
                })
                .unwrap();
            (table, rows)
        })
        .collect()
}

fn checked(rows: &[(&'static str, Vec<Row>)], damage: Damage) -> Findings {
    start(damaged(rows, damage)).check(TABLES).unwrap()
}

fn damaged(rows: &[(&'static str, Vec<Row>)], damage: Damage) -> Memory {
    let mut memory = Memory::default();
    let mut writes = WriteBatch::default();
    for (table, rows) in rows {
        for (key, value) in rows {
            writes.add(table, key.clone(), WriteOp::Insert(value.clone()));
        }
    }
    memory.commit(&writes);
    let mut writes = WriteBatch::default();
    for (table, key, op) in damage {
        writes.add(table, key, op);
    }
    memory.commit(&writes);
    memory
}

#[test]
fn an_intact_store_has_no_findings() {
    let mut runner = TestRunner::default();
    for _ in 0..50 {
        let rows = rows(&mut runner);
        let findings = checked(&rows, vec![]);
        assert_eq!(findings.wrong, 0, "{:?}", findings.messages);
        let count = |tables: &[&str]| {
            let of = rows.iter().filter(|(table, _)| tables.contains(table));
            of.map(|(_, rows)| rows.len() as u64).sum::<u64>()
        };
        assert_eq!(findings.records, count(&["tasks", "accounts"]));
        let others = findings.records + count(&["indexes"]);
        assert_eq!(findings.entries, count(&tables()) - others);
    }
}

/// A record of the table changed by `change`, stored under `key` with a right checksum.
fn altered<R: Record>(key: &[u8], row: &Row, change: impl Fn(&mut R)) -> WriteOp {
    let mut record = decode::<R>(&row.0, &row.1).unwrap();
    change(&mut record);
    WriteOp::Put(encode(&record, key).unwrap())
}

/// Every kind of damage that rows can have, with a part of the message that must report it.
fn damages(rows: &[(&'static str, Vec<Row>)]) -> Vec<(String, Damage)> {
    let of = |table: &str| &rows.iter().find(|(name, _)| *name == table).unwrap().1;
    let mut damages = Vec::new();
    let mut add = |found: &str, table, key: &[u8], op| {
        damages.push((found.to_string(), vec![(table, key.to_vec(), op)]));
    };
    for table in ["tasks", "accounts"] {
        let rows = of(table);
        for (key, value) in [&rows[0], &rows[rows.len() / 2], &rows[rows.len() - 1]] {
            for at in 0..value.len() {
                let mut flipped = value.clone();
                flipped[at] ^= 4;
                add("has a wrong checksum", table, key, WriteOp::Put(flipped));
            }
            add("has a wrong checksum", table, key, WriteOp::Put(rows[1].1.clone()));
            add("is too short", table, key, WriteOp::Put(vec![1, 2, 3]));
        }
        // Under another key, as it was and as if it belonged there.
        let mut other = rows[0].0.clone();
        *other.last_mut().unwrap() ^= 0x80;
        add("has a wrong checksum", table, &other, WriteOp::Insert(rows[0].1.clone()));
    }
    let last = of("tasks").last().unwrap();
    let mut other = last.0.clone();
    *other.last_mut().unwrap() ^= 0x80;
    add(
        "is stored under another record's key",
        "tasks",
        &other,
        altered::<Task>(&other, last, |_| {}),
    );
    let longer = [last.0.as_slice(), &last.0[16..]].concat();
    add(
        "is stored under another record's key",
        "tasks",
        &longer,
        altered::<Task>(&longer, last, |_| {}),
    );
    // A record that differs from its index entries.
    type Change = fn(&mut Task);
    let changes: [(&str, Change); 4] = [
        ("tasks.by_slug", |task| task.slug = None),
        ("tasks.by_slug", |task| task.slug = Some("other".into())),
        ("tasks.by_work", |task| task.assignee = None),
        ("tasks.by_work", |task| task.state += 1),
    ];
    for (index, change) in changes {
        add(index, "tasks", &last.0, altered(&last.0, last, change));
    }
    for index in ["tasks.by_slug", "tasks.by_work", "accounts.by_email", "accounts.by_admin"] {
        let unique = ["tasks.by_slug", "accounts.by_email"].contains(&index);
        let (key, value) = of(index).last().unwrap();
        let of_index = &format!("is missing in {index}");
        add(of_index, index, key, WriteOp::Delete);
        // The value of a unique entry is a record's key; that of another is empty.
        let (another, _) = &of(index)[of(index).len() - 2];
        let anothers = of(index)[of(index).len() - 2].1.clone();
        let wrong = if unique { anothers } else { vec![1] };
        add(of_index, index, key, WriteOp::Put(wrong));
        add(of_index, index, key, WriteOp::Put(b"no such record".to_vec()));
        // An entry too many: of a record that is elsewhere in the index, of none, and no entry at all.
        let (owner, _) = key.split_at(if index.starts_with("tasks") { 16 } else { 0 });
        let own = match index {
            "tasks.by_work" => [owner, &(9u8, None::<u8>).to_bytes(), &101u32.to_bytes()].concat(),
            "accounts.by_admin" => [false.to_bytes(), "2-101".to_string().to_bytes()].concat(),
            _ => [owner, &"too many".to_string().to_bytes()].concat(),
        };
        add(index, index, &own, WriteOp::Insert(value.clone()));
        let mut foreign = another.clone();
        let last = foreign.len() - 3;
        foreign[last] ^= 0x40;
        let value = if unique { b"nobody".to_vec() } else { vec![] };
        add(index, index, &foreign, WriteOp::Insert(value));
        add(index, index, b"x", WriteOp::Insert(vec![]));
        add(index, index, &[0xFF; 64], WriteOp::Insert(vec![]));
    }
    // Records that are gone while their entries are not.
    for (index, table, key) in [
        ("tasks.by_slug ", "tasks", last.0.clone()),
        ("tasks.by_work ", "tasks", last.0.clone()),
        ("accounts.by_email ", "accounts", "2-101".to_string().to_bytes()),
        ("accounts.by_admin ", "accounts", "2-101".to_string().to_bytes()),
    ] {
        add(index, table, &key, WriteOp::Delete);
    }
    damages
}

/// Whether a row is a record under its own key.
fn is_readable(table: &str, key: &[u8], value: &[u8]) -> bool {
    let is_own = |own: Vec<u8>, prefix: usize| key.get(prefix..) == Some(own.as_slice());
    match table {
        "tasks" => decode::<Task>(key, value).is_ok_and(|task| is_own(task.key().to_bytes(), 16)),
        _ => decode::<Account>(key, value).is_ok_and(|account| is_own(account.key().to_bytes(), 0)),
    }
}

#[test]
fn every_kind_of_damage_is_repaired_and_what_can_be_read_is_kept() {
    let mut runner = TestRunner::default();
    let rows = rows(&mut runner);
    for (_, damage) in damages(&rows) {
        let what = format!("{damage:?}");
        let mut memory = damaged(&rows, damage);
        let reader = memory.snapshot().unwrap();
        let source = repair::Damaged {
            reader: &*reader,
            tables: TABLES,
            is_erased: &|_, _| false,
            progress: &|_| {},
        };
        let mut lost = 0;
        let count = &mut |_: &repair::Loss| {
            lost += 1;
            Ok(())
        };
        let (storage, _) = repair::copy_readable(&source, Memory::default(), count).unwrap();
        let repaired = start(storage);
        assert_eq!(repaired.check(TABLES).unwrap().wrong, 0, "{what}");
        let mut left_out = 0;
        for table in ["tasks", "accounts"] {
            let all = KeyRange { from: &[], to: None };
            let mut expected = Vec::new();
            let mut expect = |key: &[u8], value: &[u8]| {
                let row = (key.to_vec(), value.to_vec());
                let is_readable = is_readable(table, key, value);
                left_out += usize::from(!is_readable);
                expected.extend(Some(row).filter(|_| is_readable));
                Ok(ControlFlow::Continue(()))
            };
            reader.scan(table, all, Order::Ascending, &mut expect).unwrap();
            let mut kept = Vec::new();
            let mut keep = |key: &[u8], value: &[u8]| {
                kept.push((key.to_vec(), value.to_vec()));
                Ok(ControlFlow::Continue(()))
            };
            repaired.rows().scan(table, &mut keep).unwrap();
            assert!(kept == expected, "{what}");
        }
        assert_eq!(lost, left_out, "{what}");
    }
}

#[test]
fn every_kind_of_damage_is_found() {
    let mut runner = TestRunner::default();
    for _ in 0..3 {
        let rows = rows(&mut runner);
        for (found, damage) in damages(&rows) {
            let what = format!("{damage:?}");
            let findings = checked(&rows, damage);
            assert!(
                findings.messages.iter().any(|message| message.contains(&found)),
                "not found: {found}: {what}; but {:?}",
                findings.messages
            );
            assert_eq!(findings.wrong as usize, findings.messages.len());
        }
    }
}
