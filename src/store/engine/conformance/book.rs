//! The crash book: what writers were told while connections and servers fail, compared with what is
//! stored afterwards.
//!
//! Each step increments one of a few counters and writes a row that is named after the counter and
//! its new value, with an entry that points to it. So every acknowledged *value* can be looked up:
//! that some row is there says nothing, since a counter that was set back would write the same
//! names again.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde::Serialize;

use super::super::{Budget, Engine, KeyRange, Order, WriteBatch, WriteOp};
use super::{TABLE, attempt_within, number, value};
use crate::base::{Error, Result};

/// The counters that the writers increment. Few, so that writers meet.
const COUNTERS: u64 = 4;

/// What a writer was told about a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    writer: usize,
    step: usize,
    counter: u64,
    /// The value that was written last, when the answer came.
    value: u64,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Stored,
    NotStored,
    Unknown,
}

/// What came of a book.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Book {
    /// Steps that were acknowledged.
    pub acknowledged: usize,
    /// Steps of which the writer was told that nothing is stored.
    pub refused: usize,
    /// Steps with an unknown outcome.
    pub unknown: usize,
    /// Acknowledged steps that are not stored as they were acknowledged.
    pub lost: usize,
    /// Steps that are stored more than once, or although they were refused.
    pub repeated: usize,
    /// Steps of which only a part is stored.
    pub torn: usize,
}

impl Book {
    /// Returns whether what is stored is what the writers were told.
    pub fn is_sound(&self) -> bool {
        self.lost == 0 && self.repeated == 0 && self.torn == 0
    }
}

/// Writes with so many writers until `enough` says so, and returns what they were told. `name`
/// tells books apart.
///
/// # Errors
/// If a writer cannot be started.
pub fn write_book(
    engine: &Arc<dyn Engine>,
    name: &str,
    writers: usize,
    enough: &dyn Fn(usize) -> bool,
) -> Result<Vec<Entry>> {
    let is_over = Arc::<AtomicBool>::default();
    let written = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let threads: Vec<_> = (0..writers)
        .map(|writer| {
            let (engine, name) = (engine.clone(), name.to_string());
            let (is_over, written) = (is_over.clone(), written.clone());
            thread::spawn(move || {
                let mut entries = Vec::new();
                for step in 0.. {
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    entries.push(write_step(&*engine, &name, writer, step));
                    written.fetch_add(1, Ordering::SeqCst);
                }
                entries
            })
        })
        .collect();
    while !enough(written.load(Ordering::SeqCst)) {
        thread::park_timeout(std::time::Duration::from_millis(20));
    }
    is_over.store(true, Ordering::SeqCst);
    let mut entries = Vec::new();
    for one in threads {
        entries.extend(one.join().map_err(|_| Error::internal("a writer panicked"))?);
    }
    Ok(entries)
}

fn counter_key(book: &str, counter: u64) -> Vec<u8> {
    format!("{book}/counter/{counter}").into_bytes()
}

fn row_key(book: &str, counter: u64, value: u64) -> Vec<u8> {
    format!("{book}/row/{counter}/{value:020}").into_bytes()
}

fn entry_key(book: &str, step: &str) -> Vec<u8> {
    format!("{book}/entry/{step}").into_bytes()
}

fn write_step(engine: &dyn Engine, book: &str, writer: usize, step: usize) -> Entry {
    // Writers move apart and meet again.
    let counter = (writer as u64 + step as u64 * 7) % COUNTERS;
    let name = format!("{writer}-{step}");
    let written = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (book, last) = (book.to_string(), written.clone());
    // Most share commits, some run beside them.
    let budget = if writer.is_multiple_of(4) { Budget::FULL } else { Budget::LIGHT };
    let end = attempt_within(engine, budget, move |reader| {
        let next = number(reader, &counter_key(&book, counter))? + 1;
        last.store(next, Ordering::SeqCst);
        let row = row_key(&book, counter, next);
        let mut writes = WriteBatch::default();
        let counted = WriteOp::Put(next.to_be_bytes().to_vec());
        writes.add(TABLE, counter_key(&book, counter), counted);
        writes.add(TABLE, row.clone(), WriteOp::Insert(name.clone().into_bytes()));
        // Put: a step that is applied twice is to be noticed here, not by the database.
        writes.add(TABLE, entry_key(&book, &name), WriteOp::Put(row));
        Ok(writes)
    });
    let outcome = match end {
        Ok(()) => Outcome::Stored,
        Err(error) if error.code() == "outcome_unknown" => Outcome::Unknown,
        Err(_) => Outcome::NotStored,
    };
    Entry { writer, step, counter, value: written.load(Ordering::SeqCst), outcome }
}

impl Book {
    /// Compares what the writers of `name` were told with what is stored.
    pub fn compare(engine: &dyn Engine, name: &str, entries: &[Entry]) -> Result<Book> {
        let reader = engine.snapshot();
        let mut book = Book::default();
        let mut rows = HashMap::new();
        let (from, to) = (format!("{name}/row/"), format!("{name}/row0"));
        let range = KeyRange { from: from.as_bytes(), to: Some(to.as_bytes()) };
        reader.scan(TABLE, range, Order::Ascending, &mut |key, value| {
            rows.insert(key.to_vec(), String::from_utf8_lossy(value).into_owned());
            Ok(ControlFlow::Continue(()))
        })?;
        let mut stored = HashSet::new();
        for step in rows.values() {
            book.repeated += usize::from(!stored.insert(step.clone()));
            let entry = value(&*reader, &entry_key(name, step))?;
            // Of a step that is stored twice the entry points to one of them.
            book.torn += usize::from(entry.as_ref().is_none_or(|entry| !rows.contains_key(entry)));
        }
        for counter in 0..COUNTERS {
            let counted = number(&*reader, &counter_key(name, counter))?;
            let is_there = |value| rows.contains_key(&row_key(name, counter, value));
            let missing = (1..=counted).filter(|value| !is_there(*value)).count();
            book.torn += missing + usize::from(is_there(counted + 1));
        }
        for entry in entries {
            let step = format!("{}-{}", entry.writer, entry.step);
            let row = rows.get(&row_key(name, entry.counter, entry.value));
            match entry.outcome {
                Outcome::Stored => {
                    book.acknowledged += 1;
                    book.lost += usize::from(row != Some(&step));
                }
                Outcome::NotStored => {
                    book.refused += 1;
                    book.repeated += usize::from(stored.contains(&step));
                }
                Outcome::Unknown => book.unknown += 1,
            }
        }
        Ok(book)
    }
}
