//! Pages of lists.

use crate::base::Result;

/// A page of a list: some records and where the next page begins, if there is one.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// The position of the last scanned record, if more follow.
    pub next: Option<Vec<u8>>,
}

impl<T> Page<T> {
    /// Returns the only page of a list.
    pub fn single(items: Vec<T>) -> Self {
        Page { items, next: None }
    }

    /// Returns the same page with its records turned into something else.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(f).collect(), next: self.next }
    }

    /// The same, where turning one may fail.
    pub fn try_map<U>(self, f: impl FnMut(T) -> Result<U>) -> Result<Page<U>> {
        let items = self.items.into_iter().map(f).collect::<Result<_>>()?;
        Ok(Page { items, next: self.next })
    }
}

/// Which page of a list to return.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Maximum number of records.
    pub limit: usize,
    /// The position after which the page begins; `None` for the first page.
    pub after: Option<Vec<u8>>,
}
