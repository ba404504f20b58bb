//! How the lists of a view are walked through: from which end, and whether they are only counted.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::engine::Order;

/// So many records are counted: people read no more, and each is read for it.
const MAX_COUNTED: usize = 1000;

/// So many are looked at for it, with those that a filter leaves out.
const MAX_LOOKED_AT: usize = 5000;

/// So much of records is read for it, as stored: where they are long, it ends before.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Each look of a filter counts for so much more, also if nothing is there: over PostgreSQL it is a round
/// trip, of which 16,000 take some seconds.
const LOOK_BYTES: usize = 512;

/// How [pages](super::View::page) are read through a view.
#[derive(Clone, Copy, Default)]
pub struct Walk<'a> {
    /// Whether what a list has last comes first.
    pub is_backwards: bool,
    /// What counts the records of the whole list, which are not returned then.
    pub count: Option<&'a Count>,
}

impl Walk<'_> {
    /// The order of a list that has this one.
    pub(super) fn of(self, order: Order) -> Order {
        match (self.is_backwards, order) {
            (false, order) => order,
            (true, Order::Ascending) => Order::Descending,
            (true, Order::Descending) => Order::Ascending,
        }
    }
}

/// Counts the records of a list, to a bound.
#[derive(Default)]
pub struct Count {
    found: AtomicUsize,
    looked_at: AtomicUsize,
    bytes: AtomicUsize,
    is_cut: AtomicBool,
    /// Whether a filter is deciding about a record.
    is_deciding: AtomicBool,
}

/// How many records a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    pub count: usize,
    /// Whether these are all: there may be more otherwise.
    pub is_exact: bool,
}

impl Count {
    /// Counts a record of this size, if it is one of the list. Breaks where it would be too many.
    pub(super) fn see(&self, bytes: usize, is_kept: bool) -> ControlFlow<()> {
        // A list may be of several scans, which all end once one has.
        let is_over = self.is_cut.load(Ordering::Relaxed);
        let is_full = is_kept && self.found.load(Ordering::Relaxed) >= MAX_COUNTED;
        let is_long = self.looked_at.fetch_add(1, Ordering::Relaxed) >= MAX_LOOKED_AT
            || self.bytes.fetch_add(bytes, Ordering::Relaxed) >= MAX_BYTES;
        if is_over || is_full || is_long {
            self.cut();
            return ControlFlow::Break(());
        }
        self.found.fetch_add(usize::from(is_kept), Ordering::Relaxed);
        ControlFlow::Continue(())
    }

    /// Returns what a filter decides about a record. What it reads meanwhile is charged.
    pub(super) fn deciding(&self, decide: impl FnOnce() -> bool) -> bool {
        let was_deciding = self.is_deciding.swap(true, Ordering::Relaxed);
        let is_kept = decide();
        self.is_deciding.store(was_deciding, Ordering::Relaxed);
        is_kept
    }

    /// Adds what a filter reads to decide about a record: another one, or several in a scan. What a list
    /// reads once, before its pages, is read for each page too, and not added. The counting ends if anything
    /// cannot be read.
    pub(super) fn charge(&self, bytes: usize, is_read: bool) {
        if self.is_deciding.load(Ordering::Relaxed) {
            self.bytes.fetch_add(bytes + LOOK_BYTES, Ordering::Relaxed);
        }
        if !is_read {
            self.cut();
        }
    }

    /// Ends the counting.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// What was counted, with `more` that a list has returned all the same: those that are looked up.
    pub fn total(&self, more: usize) -> Total {
        let count = self.found.load(Ordering::Relaxed) + more;
        Total { count, is_exact: !self.is_cut.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use bincode::{Decode, Encode};

    use super::*;
    use crate::base::{Keys, Result, Time};
    use crate::store::engine::{LocalStorage as _, Memory, WriteBatch, WriteOp};
    use crate::store::page::PageRequest;
    use crate::store::sample::{BY_TAG, Note, TABLES, note, org, store};
    use crate::store::{
        AnyReference, Clock, Key as _, ListSource, Record, Reference, Store, TableInfo, View,
    };

    /// Refers to a note.
    #[derive(Clone, Encode, Decode)]
    struct Mark(u32);

    static MARKED: Reference<Mark, Note> = Reference::cascade(
        &["note"],
        |note: &Note| note.id.to_bytes(),
        |mark: &Mark, _| vec![mark.0.to_bytes()],
    );

    impl Record for Mark {
        const TABLE: &'static str = "marks";
        const REFERENCES: &'static [&'static dyn AnyReference] = &[&MARKED];
        type Key = u32;
        fn key(&self) -> u32 {
            self.0
        }
    }

    /// Counts what `list` lists in parts.
    fn counted(view: &View, list: impl Fn(&View, &PageRequest) -> Result<()>) -> Result<Total> {
        let count = Count::default();
        let walk = Walk { is_backwards: false, count: Some(&count) };
        list(&view.walking(walk), &PageRequest { limit: 3, after: None })?;
        Ok(count.total(0))
    }

    fn keep(store: &Store, notes: Vec<Note>) {
        let insert =
            move |tx: &mut crate::store::Tx| notes.iter().try_for_each(|note| tx.insert(note));
        store.write_blocking(org(1), insert).unwrap();
    }

    #[test]
    fn a_list_of_several_scans_is_counted_within_one_bound() {
        let store = store();
        keep(&store, (0..5001).map(|id| note(id, "", "even")).collect());
        keep(&store, (6000..6010).map(|id| note(id, "", "odd")).collect());
        let scans = AtomicUsize::new(0);
        let list = |view: &View, part: &PageRequest| {
            for tag in ["even", "odd"] {
                let none = |_: &Note| {
                    scans.fetch_add(1, Ordering::Relaxed);
                    false
                };
                view.page(&BY_TAG, &tag.to_string(), Order::Ascending, part, none)?;
            }
            Ok(())
        };
        let total = store.read_now(org(1), |view| counted(view, list)).unwrap();
        assert_eq!(total, Total { count: 0, is_exact: false });
        // One more of each scan is read, to see that it is too many.
        assert_eq!(scans.load(Ordering::Relaxed), MAX_LOOKED_AT + 2);
    }

    #[test]
    fn what_a_filter_reads_is_within_the_bound_of_bytes() {
        let tables = [TableInfo::of::<Note>(), TableInfo::of::<Mark>()];
        let store = Store::in_memory(Clock::system(), &tables);
        keep(&store, vec![note(0, "", &"x".repeat(500))]);
        keep(&store, (2..102).map(|id| note(id, "", "t")).collect());
        let looks: [fn(&View) -> bool; 5] = [
            |view| view.get::<Note>(&0).is_ok(),
            |view| view.has::<Note>(&0).is_ok(),
            |view| view.first::<Note>(ListSource::TABLE, &(), Order::Ascending).is_ok(),
            |view| view.get::<Note>(&7777).is_ok_and(|none| none.is_none()),
            |view| view.target_exists(&Mark(0), "note").unwrap(),
        ];
        for (nth, look) in looks.into_iter().enumerate() {
            let list = |view: &View, part: &PageRequest| {
                // 100 kB and more for each.
                let reads = |_: &Note| (0..200).all(|_| look(view));
                view.page(&BY_TAG, &"t".to_string(), Order::Ascending, part, reads).map(drop)
            };
            let total = store.read_now(org(1), |view| counted(view, list)).unwrap();
            assert!(!total.is_exact && total.count < 90, "{nth}: {total:?}");
        }
    }

    #[test]
    fn what_a_list_reads_before_its_pages_is_not_within_the_bound_of_bytes() {
        let store = store();
        keep(&store, (0..3).map(|id| note(id, "", "t")).collect());
        let list = |view: &View, part: &PageRequest| {
            // 10 MB.
            for _ in 0..20_000 {
                view.has::<Note>(&0)?;
            }
            view.page(&BY_TAG, &"t".to_string(), Order::Ascending, part, |_| true).map(drop)
        };
        let total = store.read_now(org(1), |view| counted(view, list)).unwrap();
        assert_eq!(total, Total { count: 3, is_exact: true });
    }

    #[tokio::test]
    async fn what_cannot_be_read_ends_the_counting_and_is_no_error_of_it() {
        let mut storage = Memory::default();
        crate::store::build_indexes(&mut storage, TABLES, &|_| {}).unwrap();
        let mut writes = WriteBatch::default();
        for id in 0..4_u32 {
            let key = [org(1).bytes().as_slice(), &id.to_bytes()].concat();
            let mut value = crate::store::encode(&note(id, "", ""), &key).unwrap();
            if id == 2 {
                value[5] ^= 1;
            }
            writes.add("notes", key, WriteOp::Put(value));
        }
        storage.commit(&writes);
        let clock = Clock::at(Time::from_millis(1_800_000_000_000));
        let store = Store::start(storage, clock, Keys::new([7; 32]), TABLES).unwrap();
        let all = |view: &View, part: &PageRequest| {
            view.page(ListSource::<Note>::TABLE, &(), Order::Ascending, part, |_| true).map(drop)
        };
        let total = store.read(org(1), move |view| counted(view, all)).await.unwrap();
        assert_eq!(total, Total { count: 2, is_exact: false });
        // A filter that passes over what it cannot read does not know how many there are.
        let list = |view: &View, _: &PageRequest| {
            assert!(view.get::<Note>(&2).is_err());
            Ok(())
        };
        let total = store.read(org(1), move |view| counted(view, list)).await.unwrap();
        assert_eq!(total, Total { count: 0, is_exact: false });
        // Nor is anything counted after it.
        let list = |view: &View, part: &PageRequest| {
            assert!(view.get::<Note>(&2).is_err());
            view.page(ListSource::<Note>::TABLE, &(), Order::Ascending, part, |_| true).map(drop)
        };
        let total = store.read(org(1), move |view| counted(view, list)).await.unwrap();
        assert_eq!(total, Total { count: 0, is_exact: false });
        assert!(store.read(org(2), move |view| counted(view, all)).await.unwrap().is_exact);
    }
}
