//! Where records are listed from.

use super::key::Key;
use super::record::{AnyIndex, Index, IndexTable as _, Record};

/// Where records are listed from: a table, in the order of its keys, or an index.
pub struct ListSource<R: 'static>(pub(super) Option<&'static dyn AnyIndex<R>>);

impl<R: Record> ListSource<R> {
    /// The table, in the order of its keys.
    pub const TABLE: Self = ListSource(None);

    /// Returns the source that lists an index.
    pub(super) fn index(index: &'static dyn AnyIndex<R>) -> Self {
        ListSource(Some(index))
    }

    /// Returns whether these bytes have the form of a position: of a complete key.
    pub(super) fn is_position(&self, bytes: &[u8]) -> bool {
        let is_key = |mut rest: &[u8]| R::Key::read(&mut rest).is_some() && rest.is_empty();
        match self.0 {
            None => is_key(bytes),
            Some(index) => index.key_len(bytes).is_some_and(|own| match index.conflict() {
                Some(_) => own == bytes.len(),
                None => is_key(&bytes[own..]),
            }),
        }
    }
}

impl<R: Record, K: Key> From<&'static Index<R, K>> for ListSource<R> {
    fn from(index: &'static Index<R, K>) -> Self {
        debug_assert!(index.is_registered(), "{} is not among its record's indexes", index.name());
        ListSource(Some(index))
    }
}
