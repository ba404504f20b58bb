//! What removing a record does to those that refer to it, in tables of its own.

use std::sync::LazyLock;

use super::*;
use crate::base::{Error, Id, Kind};
use crate::store::sample::org;
use crate::store::{
    AnyIndex, Clock, Index, Key, MAX_DEFERRED_BYTES, Reference, References, Store, TableInfo, View,
};

/// Something that others refer to.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Shelf {
    id: u32,
    is_locked: bool,
}

impl Record for Shelf {
    const TABLE: &'static str = "shelves";
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

/// Stands on a shelf, and goes with it.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Book {
    shelf: u32,
    id: u32,
    text: String,
}

static BOOK_SHELF: Reference<Book, Shelf> = Reference::cascade(
    &["shelf"],
    |shelf: &Shelf| shelf.id.to_bytes(),
    |book: &Book, _| vec![book.shelf.to_bytes()],
)
.deferred();

impl Record for Book {
    const TABLE: &'static str = "books";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&BOOK_SHELF];
    type Key = (u32, u32);
    fn key(&self) -> (u32, u32) {
        (self.shelf, self.id)
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        let Removals(count) = tx.get(&())?.unwrap_or(Removals(0));
        tx.put(&Removals(count + 1))
    }
}

/// How many books were removed.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Removals(u32);

impl Record for Removals {
    const TABLE: &'static str = "removed_books";
    type Key = ();
    fn key(&self) {}
}

/// Is put into a book, and goes with it at once.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Mark {
    book: (u32, u32),
    /// A shelf that it also names; none once that is gone.
    also: Option<u32>,
}

static BY_ALSO: Index<Mark, u32> = Index::non_unique("marks.by_also", |mark| mark.also);

static MARK_BOOK: Reference<Mark, Book> = Reference::cascade(
    &["book"],
    |book: &Book| book.key().to_bytes(),
    |mark: &Mark, _| vec![mark.book.to_bytes()],
);

static MARK_ALSO: Reference<Mark, Shelf> = Reference::clear(
    &["also"],
    |_, mark: &Mark, shelf| match *shelf {
        13 => Err(Error::conflict("unlucky", "this shelf keeps its name")),
        _ => Ok(Mark { also: None, ..mark.clone() }),
    },
    |shelf: &Shelf| shelf.id.to_bytes(),
    |mark: &Mark, _| mark.also.iter().map(Key::to_bytes).collect(),
)
.by(&BY_ALSO);

impl Record for Mark {
    const TABLE: &'static str = "marks";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_ALSO];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&MARK_BOOK, &MARK_ALSO];
    type Key = (u32, u32);
    fn key(&self) -> (u32, u32) {
        self.book
    }
}

/// A letter that the text of a book begins with: derived from the book.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Initial {
    letter: u8,
    book: (u32, u32),
}

static INITIAL_BOOK: Reference<Initial, Book> = Reference::derived(
    &["book"],
    |book: &Book| book.text.bytes().take(2).map(|letter| (letter, book.key())).collect(),
    |initial: &Initial, _| vec![initial.book.to_bytes()],
);

impl Record for Initial {
    const TABLE: &'static str = "initials";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&INITIAL_BOOK];
    type Key = (u8, (u32, u32));
    fn key(&self) -> Self::Key {
        (self.letter, self.book)
    }
}

/// Keeps a locked shelf from being removed, unless the loan goes itself.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Loan {
    holder: u32,
    shelf: u32,
}

static LOAN_HOLDER: Reference<Loan, Shelf> = Reference::cascade(
    &["holder"],
    |shelf: &Shelf| shelf.id.to_bytes(),
    |loan: &Loan, _| vec![loan.holder.to_bytes()],
)
.deferred();

static BY_SHELF: Index<Loan, u32> = Index::non_unique("loans.by_shelf", |loan| Some(loan.shelf));

static LOAN_SHELF: Reference<Loan, Shelf> = Reference::restrict(
    &["shelf"],
    "lent",
    "it is lent",
    |shelf: &Shelf| shelf.id.to_bytes(),
    |loan: &Loan, _| vec![loan.shelf.to_bytes()],
)
.by(&BY_SHELF)
.when(|shelf| shelf.is_locked);

impl Record for Loan {
    const TABLE: &'static str = "loans";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SHELF];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&LOAN_HOLDER, &LOAN_SHELF];
    type Key = (u32, u32);
    fn key(&self) -> (u32, u32) {
        (self.holder, self.shelf)
    }
}

static TABLES: LazyLock<Vec<TableInfo>> = LazyLock::new(|| {
    vec![
        TableInfo::of::<Shelf>(),
        TableInfo::of::<Loan>(),
        TableInfo::of::<Book>(),
        TableInfo::of::<Removals>(),
        TableInfo::of::<Mark>(),
        TableInfo::of::<Initial>(),
    ]
});

fn store() -> Store {
    let clock = Clock::at(crate::base::Time::from_millis(1_800_000_000_000));
    let store = Store::in_memory(clock, &TABLES);
    write(&store, |tx| {
        for id in 0..3 {
            tx.insert(&Shelf { id, is_locked: id == 1 })?;
        }
        Ok(())
    });
    store
}

fn write<T: Send + 'static>(
    store: &Store,
    write: impl FnMut(&mut Tx) -> Result<T> + Send + 'static,
) -> T {
    store.write_blocking(org(1), write).unwrap()
}

fn remove(store: &Store, shelf: u32) -> Result<()> {
    store.write_blocking(org(1), move |tx| {
        let shelf: Shelf = tx.fetch(&shelf)?;
        tx.remove(&shelf)
    })
}

fn books(store: &Store, shelf: u32, number: u32, bytes: usize) {
    // A transaction may write 8 MiB.
    let at_once = (4 * 1024 * 1024 / bytes.max(1)).clamp(1, 5_000) as u32;
    for from in (0..number).step_by(at_once as usize) {
        write(store, move |tx| {
            (from..number.min(from + at_once)).try_for_each(|id| {
                tx.insert(&Book { shelf, id, text: "x".repeat(bytes) })?;
                tx.insert(&Mark { book: (shelf, id), also: Some(2) })
            })
        });
    }
}

fn count<R: Record>(store: &Store) -> usize {
    let count = |view: &View| view.count(ListSource::<R>::TABLE, &(), usize::MAX);
    store.read_now(org(1), count).unwrap()
}

fn complete(store: &Store) -> usize {
    (0..1000).position(|_| !write(store, |tx| tx.continue_removals())).unwrap()
}

fn findings(store: &Store) -> Vec<String> {
    store.check(&TABLES).unwrap().messages
}

#[test]
fn what_refers_to_a_removed_record_goes_with_it_and_the_rest_stays() {
    let store = store();
    books(&store, 0, 3, 1);
    books(&store, 1, 2, 1);
    remove(&store, 0).unwrap();
    assert_eq!((count::<Book>(&store), count::<Mark>(&store)), (2, 2));
    assert_eq!(store.read_now(org(1), |view| view.fetch::<Removals>(&())).unwrap(), Removals(3));
    assert_eq!((complete(&store), findings(&store)), (0, vec![]));
}

#[test]
fn a_reference_is_cleared_where_it_says_so_and_may_refuse() {
    let store = store();
    books(&store, 0, 250, 1);
    remove(&store, 2).unwrap();
    let marks = store.read_now(org(1), |view| view.all(ListSource::<Mark>::TABLE, &())).unwrap();
    assert!(marks.len() == 250 && marks.iter().all(|mark| mark.also.is_none()));
    assert_eq!(findings(&store), Vec::<String>::new());
    write(&store, |tx| {
        tx.insert(&Shelf { id: 13, is_locked: false })?;
        tx.insert(&Book { shelf: 1, id: 0, text: String::new() })?;
        tx.insert(&Mark { book: (1, 0), also: Some(13) })
    });
    assert_eq!(remove(&store, 13).unwrap_err().code(), "unlucky");
    assert!(store.read_now(org(1), |view| view.has::<Shelf>(&13)).unwrap());
}

#[test]
fn a_removal_is_refused_as_long_as_something_refers_to_it_that_is_not_itself_about_to_go() {
    let store = store();
    write(&store, |tx| {
        tx.insert(&Loan { holder: 0, shelf: 1 })?;
        tx.insert(&Loan { holder: 1, shelf: 2 })
    });
    let error = remove(&store, 1).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "lent"));
    // The shelf is not locked; what it lends does not hold it.
    remove(&store, 2).unwrap();
    // The holder goes, and its loan is left to the sweep: too much came before it.
    books(&store, 0, MAX_DEFERRED_CHANGES as u32, 1);
    remove(&store, 0).unwrap();
    assert_eq!(count::<Loan>(&store), 2);
    remove(&store, 1).unwrap();
    complete(&store);
    assert_eq!((count::<Loan>(&store), findings(&store)), (0, vec![]));
}

#[test]
fn many_rows_go_in_steps_of_bounded_size_and_are_no_finding_meanwhile() {
    let store = store();
    // A book and its mark, with an entry.
    let number = MAX_DEFERRED_CHANGES as u32;
    books(&store, 0, number, 1);
    remove(&store, 0).unwrap();
    let left = count::<Book>(&store);
    let removed = number as usize - left;
    assert!((MAX_DEFERRED_CHANGES / 3 - 2..=MAX_DEFERRED_CHANGES / 3 + 2).contains(&removed));
    assert_eq!(findings(&store), Vec::<String>::new());
    assert_eq!(count::<PendingRemoval>(&store), 1);
    assert!(complete(&store) >= 2);
    assert_eq!((count::<Book>(&store), count::<Mark>(&store)), (0, 0));
    assert_eq!(count::<PendingRemoval>(&store), 0);
}

#[test]
fn long_records_are_bounded_by_their_bytes() {
    let store = store();
    let bytes = 500_000;
    books(&store, 0, 20, bytes);
    remove(&store, 0).unwrap();
    let removed = 20 - count::<Book>(&store);
    assert_eq!(removed, MAX_DEFERRED_BYTES.div_ceil(bytes));
    assert_eq!(complete(&store), 20usize.div_ceil(removed) - 1);
    assert_eq!(findings(&store), Vec::<String>::new());
}

#[test]
fn a_record_inserted_again_under_the_same_key_is_not_removed_by_the_sweep() {
    let store = store();
    books(&store, 0, 2, 1);
    // Keys are new in the product; that of a shelf is not, which shows what a sweep would find.
    write(&store, |tx| {
        let stray = PendingRemoval {
            id: tx.new_id(),
            reference: BOOK_SHELF.name(),
            prefix: 0u32.to_bytes(),
            target: 7u32.to_bytes(),
        };
        tx.insert(&stray)
    });
    complete(&store);
    assert_eq!(count::<Book>(&store), 2, "they do not refer to the target");
}

#[test]
fn a_reference_to_what_is_not_there_is_a_finding() {
    let store = store();
    write(&store, |tx| tx.insert(&Book { shelf: 9, id: 1, text: String::new() }));
    let found = findings(&store);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("shelf refers to shelves 00000009"), "{found:?}");
}

#[test]
fn removals_of_one_transaction_share_what_it_may_do() {
    let store = store();
    for shelf in [0, 1] {
        books(&store, shelf, MAX_DEFERRED_CHANGES as u32 / 2, 1);
    }
    write(&store, |tx| {
        let shelves = [tx.fetch::<Shelf>(&0)?, tx.fetch(&1)?];
        shelves.iter().try_for_each(|shelf| tx.remove(shelf))
    });
    assert_eq!(count::<PendingRemoval>(&store), 2);
    assert!(count::<Book>(&store) > MAX_DEFERRED_CHANGES / 2);
    complete(&store);
    assert_eq!((count::<Book>(&store), findings(&store)), (0, vec![]));
}

#[test]
fn another_organizations_records_are_left_alone() {
    let store = store();
    books(&store, 0, 2, 1);
    store
        .write_blocking(org(2), |tx| {
            tx.insert(&Shelf { id: 0, is_locked: false })?;
            tx.remove(&Shelf { id: 0, is_locked: false })
        })
        .unwrap();
    assert_eq!(count::<Book>(&store), 2);
}

#[test]
#[should_panic(expected = "cannot be deferred")]
fn only_an_organizations_records_are_left_to_its_sweep() {
    #[derive(Clone, Encode, Decode)]
    struct Visitor {
        id: u32,
        shelf: Id<()>,
    }
    static SHELF: Reference<Visitor, Shelf> = Reference::cascade(
        &["shelf"],
        |shelf: &Shelf| shelf.id.to_bytes(),
        |visitor: &Visitor, _| vec![visitor.shelf.to_bytes()],
    )
    .deferred();
    impl Record for Visitor {
        const TABLE: &'static str = "visitors";
        const ORG_SCOPED: bool = false;
        const REFERENCES: &'static [&'static dyn AnyReference] = &[&SHELF];
        type Key = u32;
        fn key(&self) -> u32 {
            self.id
        }
    }
    crate::store::catalog::references(&[TableInfo::of::<Visitor>()]);
}

#[test]
#[should_panic(expected = "cannot be deferred")]
fn what_another_organization_owns_is_not_the_target_of_what_is_left_to_a_sweep() {
    static ELSEWHERE: Reference<Book, Shelf> =
        Reference::cascade(&["elsewhere"], |_: &Shelf| vec![], |_: &Book, _| vec![])
            .target_org(|_| Id::NIL)
            .deferred();
    References::new(vec![("books", vec![&ELSEWHERE])]);
}

#[test]
fn nothing_is_left_to_the_sweep_of_another_organization() {
    /// Leads elsewhere when it is removed; the second takes the first one there with it, and leads back.
    #[derive(Clone, Encode, Decode)]
    struct Door(u32);
    /// Leads elsewhere when it is removed, and nothing refers to it.
    #[derive(Clone, Encode, Decode)]
    struct Sign(u32);
    static SIGN_DOOR: Reference<Sign, Door> = Reference::cascade(
        &["door"],
        |door: &Door| door.0.to_bytes(),
        |sign: &Sign, _| vec![sign.0.to_bytes()],
    )
    .deferred();
    impl Record for Door {
        const TABLE: &'static str = "doors";
        type Key = u32;
        fn key(&self) -> u32 {
            self.0
        }
        fn removed(&self, tx: &mut Tx) -> Result<()> {
            tx.set_org(org(2));
            if self.0 == 2 {
                tx.remove(&Door(1))?;
                tx.set_org(org(1));
            }
            Ok(())
        }
    }
    impl Record for Sign {
        const TABLE: &'static str = "signs";
        const REFERENCES: &'static [&'static dyn AnyReference] = &[&SIGN_DOOR];
        type Key = u32;
        fn key(&self) -> u32 {
            self.0
        }
        fn removed(&self, tx: &mut Tx) -> Result<()> {
            tx.set_org(org(2));
            Ok(())
        }
    }
    static DOORS: LazyLock<Vec<TableInfo>> =
        LazyLock::new(|| vec![TableInfo::of::<Door>(), TableInfo::of::<Sign>()]);
    let store = Store::in_memory(Clock::system(), &DOORS);
    store.write_blocking(org(2), |tx| tx.insert(&Door(1))).unwrap();
    // The removal of the second ends where it began, and takes no sign, which would lead elsewhere as well.
    let removals: [fn(&mut Tx) -> Result<()>; 3] = [
        |tx| tx.insert(&Sign(1)).and_then(|()| tx.remove(&Door(1))),
        |tx| tx.remove(&Door(2)),
        |tx| tx.insert(&Sign(1)).and_then(|()| tx.remove(&Sign(1))),
    ];
    for remove in removals {
        let removed = store.write_blocking(org(1), move |tx| {
            [1, 2].iter().try_for_each(|door| tx.insert(&Door(*door)))?;
            remove(tx)
        });
        let refused = format!("{:?}", removed.unwrap_err());
        assert!(refused.contains("goes on in another organization"), "{refused}");
    }
}

#[test]
fn rows_derived_from_a_record_are_found_by_their_keys_and_go_with_it() {
    let store = store();
    let initial = |letter, id| Initial { letter, book: (0, id) };
    write(&store, move |tx| {
        for (id, text) in [(1, "ab"), (2, "b")] {
            tx.insert(&Book { shelf: 0, id, text: text.into() })?;
        }
        [initial(b'a', 1), initial(b'b', 1), initial(b'b', 2)].iter().try_for_each(|i| tx.insert(i))
    });
    assert_eq!(findings(&store), [] as [&str; 0]);
    write(&store, |tx| tx.remove(&tx.fetch::<Book>(&(0, 1))?));
    let left = |view: &View| view.all::<Initial>(ListSource::TABLE, &());
    assert_eq!(store.read_now(org(1), left).unwrap(), [initial(b'b', 2)]);
    write(&store, |tx| tx.lose(&tx.fetch::<Book>(&(0, 2))?));
    let found = findings(&store).join("\n");
    assert!(found.contains("initials") && found.contains("which does not exist"), "{found}");
}

#[test]
#[should_panic(expected = "two references are named loans.shelf -> shelves")]
fn references_in_the_same_fields_to_the_same_table_need_a_label() {
    static AGAIN: Reference<Loan, Shelf> =
        Reference::cascade(&["shelf"], |_: &Shelf| vec![], |_: &Loan, _| vec![]);
    References::new(vec![("loans", vec![&LOAN_SHELF, &AGAIN])]);
}

#[test]
fn a_label_distinguishes_the_names_of_references() {
    static AGAIN: Reference<Loan, Shelf> =
        Reference::cascade(&["shelf"], |_: &Shelf| vec![], |_: &Loan, _| vec![]).labelled("again");
    assert_eq!(AGAIN.name(), "loans.shelf:again -> shelves");
    References::new(vec![("loans", vec![&LOAN_SHELF, &AGAIN])]);
}

#[test]
fn whether_a_target_exists_is_known_before_the_record_is_stored() {
    let store = store();
    let mark = |also| Mark { book: (0, 1), also };
    let exists = |tx: &Tx, mark: &Mark, field| tx.view().target_exists(mark, field).unwrap();
    write(&store, move |tx| {
        assert!(exists(tx, &mark(Some(2)), "also") && !exists(tx, &mark(Some(9)), "also"));
        assert!(!exists(tx, &mark(None), "also"), "it refers to nothing");
        assert!(!exists(tx, &mark(Some(2)), "book"), "that book is missing");
        tx.insert(&Book { shelf: 0, id: 1, text: String::new() })?;
        assert!(exists(tx, &mark(None), "book"), "the transaction added it");
        Ok(())
    });
}
