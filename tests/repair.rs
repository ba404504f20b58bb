//! A repair keeps what can be read, and makes of it a store that is sound.
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

use std::collections::BTreeMap;
use std::sync::Arc;

use bincode::{Decode, Encode};
use roadstead::base::{Id, Keys, Result, Time};
use roadstead::store::engine::{
    KeyRange, LocalStorage as _, Memory, Order, Reader, ScanFn, WriteBatch, WriteOp,
};
use roadstead::store::repair::{
    Damaged, Loss, LossKind, Mending, copy_readable, resolve_references,
};
use roadstead::store::{
    AnyIndex, AnyReference, Clock, Index, Key, Org, Record, Reference, Store, TableInfo, Tx,
    build_indexes, encode, record_tables,
};

// ── Records ──────────────────────────────────────────────────────────────────

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Shelf {
    id: u32,
    slug: String,
}

static SHELVES_BY_SLUG: Index<Shelf, String> =
    Index::unique("shelves.by_slug", "slug_taken", "the slug is taken", |shelf| {
        Some(shelf.slug.clone())
    });

impl Record for Shelf {
    const TABLE: &'static str = "shelves";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&SHELVES_BY_SLUG];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Series {
    id: u32,
}

impl Record for Series {
    const TABLE: &'static str = "series";
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Book {
    id: u32,
    shelf: u32,
    series: Option<u32>,
}

static BOOKS_BY_SHELF: Index<Book, u32> =
    Index::non_unique("books.by_shelf", |book| Some(book.shelf));
static BOOKS_BY_SERIES: Index<Book, u32> = Index::non_unique("books.by_series", |book| book.series);

impl Record for Book {
    const TABLE: &'static str = "books";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BOOKS_BY_SHELF, &BOOKS_BY_SERIES];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[
        &Reference::<Book, Shelf>::cascade(
            &["shelf"],
            |shelf| shelf.id.to_bytes(),
            |book, _| vec![book.shelf.to_bytes()],
        )
        .by(&BOOKS_BY_SHELF)
        .deferred(),
        &Reference::<Book, Series>::clear(
            &["series"],
            |_, book, _| Ok(Book { series: None, ..book.clone() }),
            |series| series.id.to_bytes(),
            |book, _| book.series.iter().map(Key::to_bytes).collect(),
        )
        .by(&BOOKS_BY_SERIES),
    ];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

/// Refuses the removal of its book.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Loan {
    book: u32,
}

impl Record for Loan {
    const TABLE: &'static str = "loans";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&Reference::<Loan, Book>::restrict(
        &["book"],
        "on_loan",
        "it is on loan",
        |book| book.id.to_bytes(),
        |loan, _| vec![loan.book.to_bytes()],
    )];
    type Key = u32;
    fn key(&self) -> u32 {
        self.book
    }
}

/// Belongs to a loan.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Fee {
    loan: u32,
    number: u32,
}

impl Record for Fee {
    const TABLE: &'static str = "fees";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&Reference::<Fee, Loan>::cascade(
        &["loan"],
        |loan| loan.book.to_bytes(),
        |fee, _| vec![fee.loan.to_bytes()],
    )];
    type Key = (u32, u32);
    fn key(&self) -> (u32, u32) {
        (self.loan, self.number)
    }
}

const TABLES: &[TableInfo] = &[
    TableInfo::of::<Shelf>(),
    TableInfo::of::<Series>(),
    TableInfo::of::<Book>(),
    TableInfo::of::<Loan>(),
    TableInfo::of::<Fee>(),
];

// ── Damage and repair ────────────────────────────────────────────────────────

type Rows = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

fn org() -> Id<Org> {
    Id::new(uuid::Uuid::from_u128(7))
}

fn key(record: &impl Record) -> Vec<u8> {
    [org().bytes().as_slice(), &record.key().to_bytes()].concat()
}

fn start(mut storage: Memory) -> Store {
    build_indexes(&mut storage, TABLES, &|_| {}).unwrap();
    let clock = Clock::at(Time::from_millis(1_800_000_000_000));
    Store::start(storage, clock, Keys::new([7; 32]), TABLES).unwrap()
}

/// The rows of the records of a store.
fn rows(store: &Store) -> Rows {
    let mut found = BTreeMap::new();
    let rows = store.rows();
    for table in record_tables(TABLES) {
        rows.scan(table.name, &mut |key, value| {
            found.insert((table.name, key.to_vec()), value.to_vec());
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    }
    found
}

/// The rows of what `write` writes.
fn written(write: fn(&mut Tx) -> Result<()>) -> Rows {
    let store = start(Memory::default());
    store.write_blocking(org(), write).unwrap();
    rows(&store)
}

/// Three shelves of three books each, in two series; some are on loan, with fees.
fn library(tx: &mut Tx) -> Result<()> {
    for id in 0..2 {
        tx.insert(&Series { id })?;
    }
    for shelf in 0..3 {
        tx.insert(&Shelf { id: shelf, slug: format!("shelf-{shelf}") })?;
        for n in 0..3 {
            let id = shelf * 10 + n;
            tx.insert(&Book { id, shelf, series: (n < 2).then_some(n) })?;
            if n == 0 {
                tx.insert(&Loan { book: id })?;
                tx.insert(&Fee { loan: id, number: 1 })?;
                tx.insert(&Fee { loan: id, number: 2 })?;
            }
        }
    }
    Ok(())
}

/// What was lost: kind, table and key, with the reason.
type Lost = BTreeMap<(LossKind, &'static str, Vec<u8>), String>;

fn reader_of(rows: &Rows) -> Arc<dyn Reader> {
    let mut writes = WriteBatch::default();
    for ((table, key), value) in rows {
        writes.add(table, key.clone(), WriteOp::Insert(value.clone()));
    }
    let mut storage = Memory::default();
    storage.commit(&writes);
    storage.snapshot().unwrap()
}

/// Repairs a store with these rows, and asserts that the result is sound.
fn repaired(rows: &Rows) -> (Rows, Lost) {
    let reader = reader_of(rows);
    let damaged = Damaged {
        reader: &*reader,
        tables: TABLES,
        is_erased: &|table, key| table == "fees" && key.ends_with(&99_u32.to_bytes()),
        progress: &|_| {},
    };
    let mut found = Lost::new();
    let mut lost = |loss: &Loss| {
        found.insert((loss.kind, loss.table, loss.key.to_vec()), loss.why.to_string());
        assert_eq!(rows.get(&(loss.table, loss.key.to_vec())).unwrap(), loss.value);
        Ok(())
    };
    let (mut storage, _) = copy_readable(&damaged, Memory::default(), &mut lost).unwrap();
    build_indexes(&mut storage, TABLES, &|_| {}).unwrap();
    let mending =
        Mending { recreate: &|_| Ok(None), organizations: |_| Ok(vec![org()]), mend: |_| Ok(None) };
    let keys = Keys::new([7; 32]);
    resolve_references(&mut storage, TABLES, (&keys, &mending), &|_| {}, &mut lost).unwrap();
    let store = start(storage);
    let findings = store.check(TABLES).unwrap();
    assert_eq!(findings.wrong, 0, "{:?}", findings.messages);
    (self::rows(&store), found)
}

/// Asserts that these were lost, and that all others are as they were.
#[track_caller]
fn loses(before: &Rows, expected: &[(LossKind, &'static str, Vec<u8>)]) -> Lost {
    let (after, lost) = repaired(before);
    let kinds: Vec<_> = lost.keys().cloned().collect();
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(kinds, expected);
    for (place, value) in before {
        let of = |kind| lost.contains_key(&(kind, place.0, place.1.clone()));
        let is_gone = LossKind::ALL.into_iter().any(|kind| kind != LossKind::Changed && of(kind));
        if !of(LossKind::Changed) {
            assert_eq!(after.get(place), Some(value).filter(|_| !is_gone), "{place:?}");
        }
    }
    lost
}

// ── Tests ────────────────────────────────────────────────────────────────────

#[test]
fn an_intact_store_loses_nothing() {
    loses(&written(library), &[]);
}

#[test]
fn what_cannot_be_read_is_left_out_with_what_belongs_to_it() {
    let mut rows = written(library);
    let loan = Loan { book: 10 };
    rows.get_mut(&("loans", key(&loan))).unwrap()[2] ^= 1;
    let fees = [1, 2].map(|number| key(&Fee { loan: 10, number }));
    let lost = loses(
        &rows,
        &[
            (LossKind::Unreadable, "loans", key(&loan)),
            (LossKind::Removed, "fees", fees[0].clone()),
            (LossKind::Removed, "fees", fees[1].clone()),
        ],
    );
    let why = &lost[&(LossKind::Unreadable, "loans", key(&loan))];
    assert!(why.contains("has a wrong checksum"), "{why}");
    let why = &lost[&(LossKind::Removed, "fees", fees[0].clone())];
    assert!(why.starts_with("loan refers to loans ") && why.contains("does not exist"), "{why}");
}

#[test]
fn a_record_under_the_key_of_another_is_left_out() {
    let mut rows = written(library);
    let other = key(&Series { id: 9 });
    rows.insert(("series", other.clone()), encode(&Series { id: 1 }, &other).unwrap());
    loses(&rows, &[(LossKind::Unreadable, "series", other)]);
}

#[test]
fn a_field_that_is_cleared_on_removal_is_cleared_and_the_record_stays() {
    let mut rows = written(library);
    rows.remove(&("series", key(&Series { id: 1 }))).unwrap();
    let books = [1, 11, 21].map(|id| Book { id, shelf: id / 10, series: Some(1) });
    loses(&rows, &books.each_ref().map(|book| (LossKind::Changed, "books", key(book))));
    let (after, _) = repaired(&rows);
    for book in books {
        let cleared = encode(&Book { series: None, ..book.clone() }, &key(&book)).unwrap();
        assert_eq!(after[&("books", key(&book))], cleared);
    }
}

/// A book of a shelf that is gone is removed, and the loan that would have refused that, and its fees.
#[test]
fn what_a_restriction_would_have_kept_goes_with_its_target() {
    let mut rows = written(library);
    rows.remove(&("shelves", key(&Shelf { id: 2, slug: String::new() }))).unwrap();
    let book = |id| (LossKind::Removed, "books", key(&Book { id, shelf: 2, series: None }));
    let fee = |number| (LossKind::Removed, "fees", key(&Fee { loan: 20, number }));
    let loan = (LossKind::Removed, "loans", key(&Loan { book: 20 }));
    loses(&rows, &[book(20), book(21), book(22), loan, fee(1), fee(2)]);
}

#[test]
fn a_removal_that_was_left_to_a_sweep_is_completed() {
    let store = start(Memory::default());
    let many = |tx: &mut Tx| {
        tx.insert(&Shelf { id: 0, slug: "full".into() })?;
        (0..3_000).try_for_each(|id| tx.insert(&Book { id, shelf: 0, series: None }))
    };
    store.write_blocking(org(), many).unwrap();
    store.write_blocking(org(), |tx| tx.remove(&tx.fetch::<Shelf>(&0)?)).unwrap();
    let rows = rows(&store);
    assert!(rows.keys().any(|(table, _)| *table == "removals"), "it takes more than one step");
    let (after, lost) = repaired(&rows);
    assert!(!after.keys().any(|(table, _)| ["books", "removals"].contains(table)));
    assert!(lost.keys().all(|(kind, table, _)| (*kind, *table) == (LossKind::Removed, "books")));
}

#[test]
fn of_two_records_with_one_unique_key_the_newer_is_kept_or_the_one_that_is_referred_to() {
    let shelf = |id| Shelf { id, slug: "twice".into() };
    let mut rows = written(|_| Ok(()));
    for id in [3, 4] {
        rows.insert(("shelves", key(&shelf(id))), encode(&shelf(id), &key(&shelf(id))).unwrap());
    }
    let lost = loses(&rows, &[(LossKind::Duplicate, "shelves", key(&shelf(3)))]);
    assert!(lost.values().next().unwrap().ends_with("which is kept: it is newer"), "{lost:?}");
    let book = Book { id: 1, shelf: 3, series: None };
    rows.insert(("books", key(&book)), encode(&book, &key(&book)).unwrap());
    let lost = loses(&rows, &[(LossKind::Duplicate, "shelves", key(&shelf(4)))]);
    assert!(lost.values().next().unwrap().ends_with("more refers to it"), "{lost:?}");
    // The book of the one that is left out has nowhere to be.
    for id in [2, 3] {
        let of_other = Book { id, shelf: 4, series: None };
        rows.insert(("books", key(&of_other)), encode(&of_other, &key(&of_other)).unwrap());
    }
    loses(
        &rows,
        &[
            (LossKind::Duplicate, "shelves", key(&shelf(3))),
            (LossKind::Removed, "books", key(&book)),
        ],
    );
}

#[test]
fn what_was_erased_does_not_come_back() {
    let mut rows = written(library);
    let fee = Fee { loan: 10, number: 99 };
    rows.insert(("fees", key(&fee)), encode(&fee, &key(&fee)).unwrap());
    loses(&rows, &[(LossKind::Erased, "fees", key(&fee))]);
}

/// Panics where a page would be damaged, as the database library does.
struct Torn {
    whole: Arc<dyn Reader>,
    damaged: (&'static str, Vec<u8>),
}

impl Reader for Torn {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        self.whole.get(table, key, see)
    }
    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        self.whole.scan(table, range, order, &mut |key, value| {
            assert!((table, key) != (self.damaged.0, self.damaged.1.as_slice()), "it is damaged");
            each(key, value)
        })
    }
    fn access_version(&self) -> Option<u64> {
        None
    }
}

#[test]
fn what_is_on_both_sides_of_a_damaged_page_is_kept() {
    let rows = written(library);
    let book = |id| key(&Book { id, shelf: 0, series: None });
    let torn = Torn { whole: reader_of(&rows), damaged: ("books", book(11)) };
    let damaged =
        Damaged { reader: &torn, tables: TABLES, is_erased: &|_, _| false, progress: &|_| {} };
    let mut places = Vec::new();
    let mut lost = |loss: &Loss| {
        places.push((loss.kind, loss.table, loss.key.to_vec(), loss.why.to_string()));
        Ok(())
    };
    let (storage, _) = copy_readable(&damaged, Memory::default(), &mut lost).unwrap();
    let mut expected = rows;
    expected.remove(&("books", book(11))).unwrap();
    assert!(self::rows(&start(storage)) == expected);
    let [(LossKind::Unreadable, "books", near, why)] = places.as_slice() else {
        panic!("{places:?}")
    };
    assert!(*near == book(10) || *near == book(12), "it is said where");
    assert!(why.contains("a page of the database is damaged"), "{why}");
}

/// Random rows are lost or changed, many at once.
#[test]
fn whatever_rows_are_damaged_the_result_is_sound_and_has_what_belongs_together() {
    let intact = written(library);
    let places: Vec<_> = intact.keys().cloned().collect();
    let mut state = 1_u64;
    let mut random = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) as usize % end
    };
    for _ in 0..300 {
        let mut rows = intact.clone();
        for _ in 0..random(8) {
            let place = &places[random(places.len())];
            match (random(2), rows.get_mut(place)) {
                (0, Some(value)) => value[1] ^= 4,
                _ => drop(rows.remove(place)),
            }
        }
        let (after, lost) = repaired(&rows);
        for (place, value) in &rows {
            let is_listed = lost.keys().any(|(_, table, key)| (*table, key) == (place.0, &place.1));
            assert!(is_listed || after.get(place) == Some(value), "{place:?} is gone silently");
        }
    }
}
