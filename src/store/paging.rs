//! Reading pages of lists, bounded by their number of records and by bytes.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::engine::{ObservedReader, Order};
use super::key::Key;
use super::list_source::ListSource;
use super::page::{Page, PageRequest};
use super::record::{Index, Record};
use super::view::{KeySpan, View};
use super::walk::{Count, Walk};
use crate::base::{Kind, Result};

/// A page ends before its records, and what is read to show them, exceed 4 MiB in total as stored:
/// 200 of the largest would be 400 MiB in memory, and more as JSON.
pub(super) const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A page ends after 20,000 scanned records, whether they are in it or left out by a filter: a
/// request that finds little must not read a whole table. Scanning them takes some 50 ms.
pub(super) const MAX_SCANNED_ROWS: usize = 20_000;

/// A page ends after 64 MiB of scanned records as stored: 20,000 large records are gigabytes.
pub(super) const MAX_SCANNED_BYTES: usize = 64 * 1024 * 1024;

/// A record of a page, with its position in the list and its stored size.
struct Found<R> {
    position: Vec<u8>,
    bytes: usize,
    record: R,
}

impl<'a> View<'a> {
    /// Returns a view whose pages are read so. For operations of lists whose items are those of pages.
    pub fn walking<'b>(&self, walk: Walk<'b>) -> View<'b>
    where
        'a: 'b,
    {
        View { walk, ..*self }
    }

    /// Whether its pages are read from their other end.
    pub fn is_backwards(&self) -> bool {
        self.walk.is_backwards
    }

    /// Whether its pages are only counted.
    pub fn is_counting(&self) -> bool {
        self.walk.count.is_some()
    }
}

impl View<'_> {
    /// Returns one page of the records whose key in `source` begins with `prefix` and for which `keep`
    /// returns true. Records that `keep` leaves out are read too: to leave out more than a handful,
    /// use an index.
    ///
    /// A page may have fewer records than its limit, even none, and still have a next: it ends at
    /// 4 MiB of records, and after 20,000 scanned records or 64 MiB.
    ///
    /// # Errors
    /// 400 if the position is not of this list.
    pub fn page<R: Record>(
        &self,
        source: impl Into<ListSource<R>>,
        prefix: &impl Key,
        order: Order,
        part: &PageRequest,
        keep: impl Fn(&R) -> bool,
    ) -> Result<Page<R>> {
        let span = self.prefixed::<R>(prefix);
        Ok(self.find_page(source.into(), span, order, part, keep)?.map(|found| found.record))
    }

    /// Does the same as [`View::page`], and turns each record into an item that shows more than the
    /// record: what `expand` reads from the view that it gets counts for the 4 MiB as well.
    ///
    /// # Errors
    /// Those of `expand`; 400 if the position is not of this list.
    pub fn page_map<R: Record, T>(
        &self,
        source: impl Into<ListSource<R>>,
        prefix: &impl Key,
        order: Order,
        part: &PageRequest,
        keep: impl Fn(&R) -> bool,
        expand: impl Fn(&View, R) -> Result<T>,
    ) -> Result<Page<T>> {
        let span = self.prefixed::<R>(prefix);
        self.expand_page(self.find_page(source.into(), span, order, part, keep)?, expand)
    }

    /// Does the same as [`View::page_map`], newest first, for the records whose key in `index` is
    /// from the first of these two, included, to the second, excluded.
    ///
    /// # Errors
    /// As [`View::page_map`].
    pub fn page_map_between<R: Record, K: Key, T>(
        &self,
        index: &'static Index<R, K>,
        (from, to): (&K, &K),
        part: &PageRequest,
        keep: impl Fn(&R) -> bool,
        expand: impl Fn(&View, R) -> Result<T>,
    ) -> Result<Page<T>> {
        let span = KeySpan { from: self.scoped_key::<R>(from), to: Some(self.scoped_key::<R>(to)) };
        let found = self.find_page(index.into(), span, Order::Descending, part, keep)?;
        self.expand_page(found, expand)
    }

    fn expand_page<R: Record, T>(
        &self,
        Page { items: found, mut next }: Page<Found<R>>,
        expand: impl Fn(&View, R) -> Result<T>,
    ) -> Result<Page<T>> {
        let read_bytes = AtomicUsize::new(0);
        let counted = ObservedReader::new(self.reader, |_, bytes| {
            read_bytes.fetch_add(bytes, Ordering::Relaxed);
        });
        // What is shown with an item is no part of the list.
        let view = View { reader: &counted, walk: Walk::default(), ..*self };
        let mut items = Vec::with_capacity(found.len());
        let mut items_bytes = 0;
        let mut last = None;
        for Found { position, bytes, record } in found {
            let item = expand(&view, record)?;
            items_bytes += bytes + read_bytes.swap(0, Ordering::Relaxed);
            if last.is_some() && items_bytes > MAX_PAGE_BYTES {
                next = last;
                break;
            }
            items.push(item);
            last = Some(position);
        }
        Ok(Page { items, next })
    }

    /// Returns the records of a page, and the position of the last scanned one if more follow.
    fn find_page<R: Record>(
        &self,
        source: ListSource<R>,
        span: KeySpan,
        order: Order,
        part: &PageRequest,
        keep: impl Fn(&R) -> bool,
    ) -> Result<Page<Found<R>>> {
        let order = self.walk.of(order);
        if let Some(count) = self.walk.count {
            self.count_in(source, span, order, count, keep)?;
            return Ok(Page::single(Vec::new()));
        }
        let mut items = Vec::new();
        let mut items_bytes = 0;
        let mut looked_at = 0;
        let mut looked_at_bytes = 0;
        let mut last: Vec<u8> = Vec::new();
        let mut next = None;
        let after = part.after.as_deref();
        self.scan_span(source, span, order, after, &mut |position, bytes, record| {
            let is_kept = keep(&record);
            let is_full = items.len() == part.limit
                || (!items.is_empty() && items_bytes + bytes > MAX_PAGE_BYTES);
            let is_long = looked_at == MAX_SCANNED_ROWS || looked_at_bytes >= MAX_SCANNED_BYTES;
            if is_long || (is_kept && is_full) {
                next = Some(std::mem::take(&mut last));
                return Ok(ControlFlow::Break(()));
            }
            looked_at += 1;
            looked_at_bytes += bytes;
            last.clear();
            last.extend_from_slice(position);
            if is_kept {
                items_bytes += bytes;
                items.push(Found { position: position.to_vec(), bytes, record });
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Page { items, next })
    }

    /// Counts all records of a list, wherever a page of it begins, or those up to one that cannot be read.
    fn count_in<R: Record>(
        &self,
        source: ListSource<R>,
        span: KeySpan,
        order: Order,
        count: &Count,
        keep: impl Fn(&R) -> bool,
    ) -> Result<()> {
        // What the scan itself reads is counted once.
        let scanned = View { walk: Walk::default(), ..*self };
        let counted = scanned.scan_span(source, span, order, None, &mut |_, bytes, record| {
            Ok(count.see(bytes, count.deciding(|| keep(&record))))
        });
        match counted {
            // The pages up to there can be read all the same.
            Err(error) if error.kind() == Kind::Internal => {
                count.cut();
                Ok(())
            }
            counted => counted,
        }
    }
}
