//! Upgrades: a new release reads the rows of the old one in a new layout and builds new indexes.
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

use std::cell::RefCell;
use std::path::Path;

use bincode::{Decode, Encode};
use roadstead::base::{Id, Keys, Result, Time};
use roadstead::store::engine::Redb;
use roadstead::store::{
    AnyIndex, Clock, Index, Order, Org, PageRequest, Record, Store, TableInfo, build_indexes,
    codec, no_upgrade, table_names,
};

/// A book as the old release stores it.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct OldBook {
    id: u32,
    title: String,
}

impl Record for OldBook {
    const TABLE: &'static str = "books";
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

/// As the new one does.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Book {
    id: u32,
    title: String,
    pages: Option<u32>,
}

static BY_TITLE: Index<Book, String> =
    Index::unique("books.by_title", "title_taken", "the title is taken", |book| {
        Some(book.title.clone())
    });
static BY_PAGES: Index<Book, Option<u32>> =
    Index::non_unique("books.by_pages", |book| Some(book.pages));

impl Record for Book {
    const TABLE: &'static str = "books";
    const VERSION: u8 = 2;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TITLE, &BY_PAGES];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => {
                let OldBook { id, title } = codec::decode_body(body)?;
                Ok(Book { id, title, pages: None })
            }
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

const OLD: &[TableInfo] = &[TableInfo::of::<OldBook>()];
const NEW: &[TableInfo] = &[TableInfo::of::<Book>()];
/// More than two steps of building.
const BOOKS: u32 = 21_000;

fn org() -> Id<Org> {
    Id::new(uuid::Uuid::from_u128(1))
}

fn open(path: &Path, tables: &[TableInfo], progress: &dyn Fn(&str)) -> Store {
    let names = table_names(tables);
    let open = if path.exists() { Redb::open } else { Redb::create };
    let mut redb = open(path, names).unwrap();
    build_indexes(&mut redb, tables, progress).unwrap();
    let clock = Clock::at(Time::from_millis(1_800_000_000_000));
    Store::start(redb, clock, Keys::new([7; 32]), tables).unwrap()
}

#[test]
fn a_record_with_a_new_layout_and_new_indexes_is_found_over_the_rows_of_the_old_release() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store.redb");
    let old = open(&path, OLD, &|_| {});
    for from in (0..BOOKS).step_by(10_500) {
        let books = from..from + 10_500;
        old.write_blocking(org(), move |tx| {
            books
                .clone()
                .try_for_each(|id| tx.insert(&OldBook { id, title: format!("title {id}") }))
        })
        .unwrap();
    }
    drop(old);

    let progress = RefCell::new(Vec::new());
    let new = open(&path, NEW, &|line| progress.borrow_mut().push(line.to_string()));
    let progress = progress.into_inner();
    for line in ["by_title: 10000 records", "by_title: 21000 records", "by_pages: 21000 records"] {
        assert!(progress.contains(&format!("building the index books.{line}")), "{progress:?}");
    }
    let book = |id: u32, pages| Book { id, title: format!("title {id}"), pages };
    let found =
        new.read_now(org(), |view| view.find(&BY_TITLE, &"title 20999".to_string())).unwrap();
    assert_eq!(found, Some(book(20_999, None)));
    // What is written again has the new layout, and the indexes follow.
    new.write_blocking(org(), move |tx| tx.replace(&book(7, None), &book(7, Some(300)))).unwrap();
    let taken = Book { id: 90_000, ..book(8, None) };
    let refused = new.write_blocking(org(), move |tx| tx.insert(&taken));
    assert_eq!(refused.unwrap_err().code(), "title_taken");
    new.read_now(org(), |view| {
        let part = PageRequest { limit: 2, after: None };
        let page = |pages| view.page(&BY_PAGES, &pages, Order::Ascending, &part, |_| true);
        assert_eq!(page(Some(300u32))?.items, [book(7, Some(300))]);
        assert_eq!(page(None)?.items, [book(0, None), book(1, None)]);
        assert_eq!(view.count(&BY_PAGES, &(), usize::MAX)?, BOOKS as usize);
        Ok(())
    })
    .unwrap();
    let findings = new.check(NEW).unwrap();
    assert_eq!((findings.wrong, findings.records), (0, u64::from(BOOKS)));
    assert_eq!(findings.entries, 2 * u64::from(BOOKS));
    drop(new);

    // Going back is safe: what the old release cannot read, it says so of.
    let old = open(&path, OLD, &|_| {});
    let read = |id: u32| old.read_now(org(), |view| view.get::<OldBook>(&id));
    assert_eq!(read(8).unwrap().unwrap().title, "title 8");
    let error = read(7).unwrap_err();
    assert!(error.log_detail().unwrap().contains("written by a newer Roadstead"));
}
