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
        let is_full = is_kept && self.found.load(Ordering::Relaxed) == MAX_COUNTED;
        let is_long = self.looked_at.fetch_add(1, Ordering::Relaxed) == MAX_LOOKED_AT
            || self.bytes.fetch_add(bytes, Ordering::Relaxed) >= MAX_BYTES;
        if is_full || is_long {
            self.is_cut.store(true, Ordering::Relaxed);
            return ControlFlow::Break(());
        }
        self.found.fetch_add(usize::from(is_kept), Ordering::Relaxed);
        ControlFlow::Continue(())
    }

    /// What was counted, with `more` that a list has returned all the same: those that are looked up.
    pub fn total(&self, more: usize) -> Total {
        let count = self.found.load(Ordering::Relaxed) + more;
        Total { count, is_exact: !self.is_cut.load(Ordering::Relaxed) }
    }
}
