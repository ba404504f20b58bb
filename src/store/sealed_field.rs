//! Declarations of the sealed fields of records.

use crate::base::Sealed;

/// A field of a record that holds a secret.
pub struct SealedField<R: 'static> {
    pub(super) name: &'static str,
    what: &'static str,
    pub(super) of: fn(&mut R) -> Option<&mut Sealed>,
}

impl<R> SealedField<R> {
    /// Declares the field `name`, which never changes once something was sealed for it. `what` names
    /// the secrets in it for people: "API keys of LLM providers". `of` is `None` for a record
    /// without a secret.
    pub const fn new(
        name: &'static str,
        what: &'static str,
        of: fn(&mut R) -> Option<&mut Sealed>,
    ) -> Self {
        SealedField { name, what, of }
    }

    pub(super) fn info(&self) -> SealedInfo {
        SealedInfo { field: self.name, what: self.what }
    }

    /// Returns the associated data of this field of the record stored in `table` under `key`.
    pub(super) fn context<'a>(&self, table: &'a str, key: &'a [u8]) -> [&'a [u8]; 3]
    where
        Self: 'a,
    {
        sealed_context(table, key, self.name)
    }
}

/// A sealed field in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedInfo {
    pub field: &'static str,
    /// The secrets in it, for people.
    pub what: &'static str,
}

/// Returns the associated data of the field `name` of the record stored in `table` under `key`.
pub(super) fn sealed_context<'a>(table: &'a str, key: &'a [u8], name: &'a str) -> [&'a [u8]; 3] {
    [table.as_bytes(), key, name.as_bytes()]
}
