//! The catalog: the tables of a store, each with its indexes and references.

use super::export::{self, TableExport};
use super::record::{IndexInfo, Record, Table, entry};
use super::reference::{AnyReference, References};
use super::sealed_field::SealedInfo;
use crate::base::Result;

/// One line of the catalog: a table with its indexes and references, and how its records are read.
#[derive(Clone, Copy)]
pub struct TableInfo {
    pub name: &'static str,
    /// The version in which its records are written now.
    pub version: u8,
    /// The references that its record declares: its own, and those of lower modules to it.
    pub references: fn() -> Vec<&'static dyn AnyReference>,
    /// See [`Record::UNBOUND`].
    pub unbound: &'static [(&'static str, &'static str)],
    /// Whether and how its rows are exported.
    pub export: fn() -> TableExport,
    /// Its sealed fields, in the order of [`Record::SEALED`].
    pub sealed: fn() -> Vec<SealedInfo>,
    pub(super) table: Table,
}

impl TableInfo {
    /// Returns the line of `R`.
    pub const fn of<R: Record>() -> Self {
        TableInfo {
            name: R::TABLE,
            version: R::VERSION,
            references: || [R::REFERENCES, R::REFERRED_BY].concat(),
            unbound: R::UNBOUND,
            export: export::of_table::<R>,
            sealed: || R::SEALED.iter().map(|field| field.info()).collect(),
            table: Table::of::<R>(),
        }
    }

    /// Returns the definitions of its indexes.
    pub fn indexes(&self) -> Vec<IndexInfo> {
        self.table.indexes().map(|index| index.info()).collect()
    }

    /// Reads a record of any version from its key and value, and returns its value as it is written
    /// now. Backups check their rows by it, and tests prove that records of past releases can be read.
    ///
    /// # Errors
    /// 500, whose log detail names table and key, if the bytes are not what was written.
    pub fn rewrite(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        self.table.rewrite(key, value)
    }

    /// Returns key and value of each entry of a stored record in the index at this place.
    pub(super) fn entries(
        &self,
        place: usize,
        key: &[u8],
        value: &[u8],
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let own = (self.table.decode)(key, value)?.index_keys(place);
        let Some(index) = self.table.indexes().nth(place) else { return Ok(Vec::new()) };
        let prefix = self.table.org_prefix_len;
        Ok(own.iter().map(|own| entry(index, own, key, prefix)).collect())
    }
}

/// Returns the references that `tables` declare.
///
/// # Panics
/// See [`References::new`].
pub(super) fn references(tables: &[TableInfo]) -> References {
    References::new(tables.iter().map(|table| (table.name, (table.references)())).collect())
}
