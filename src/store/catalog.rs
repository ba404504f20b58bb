//! The catalog: the tables of a store, each with its indexes and references and how to check it.

use super::check::{self, Findings};
use super::engine::Reader;
use super::export::{self, TableExport};
use super::record::{IndexInfo, Record, decode, encode, entry};
use super::reference::{AnyReference, References};
use super::repair_steps::RepairSteps;
use super::reseal::{self, ResealStep, SealedInfo};
use super::tx::Tx;
use crate::base::{Keys, Result};

/// Reads a stored record of any version from its key and value, and returns the key and value of its
/// entry in the table's index at this position, if it has one.
type EntryOf = fn(usize, &[u8], &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>>;

/// One line of the catalog: a table with its indexes and references, and how to check it.
#[derive(Clone, Copy)]
pub struct TableInfo {
    pub name: &'static str,
    pub indexes: fn() -> Vec<IndexInfo>,
    /// Returns an index entry of a stored record.
    pub(super) entry: EntryOf,
    /// How many bytes of a key are the organization's id: 16 or 0.
    pub(super) org_prefix_len: usize,
    /// The references that its record declares: its own, and those of lower modules to it.
    pub references: fn() -> Vec<&'static dyn AnyReference>,
    /// See [`Record::UNBOUND`].
    pub unbound: &'static [(&'static str, &'static str)],
    /// Reads every record, index entry and reference and reports what is wrong.
    pub check: fn(&dyn Reader, &References, &mut Findings) -> Result<()>,
    /// Whether and how its rows are exported.
    pub export: fn() -> TableExport,
    /// Its sealed fields.
    pub sealed: fn() -> Vec<SealedInfo>,
    /// Seals the next of its rows after a key with the present master key.
    pub(super) reseal: fn(&mut Tx, &[u8]) -> Result<ResealStep>,
    /// Reports every sealed value that cannot be decrypted.
    pub(super) check_sealed: fn(&dyn Reader, &Keys, &mut Findings) -> Result<()>,
    /// How its records are repaired.
    pub(super) repair: RepairSteps,
    /// The version in which its records are written now.
    pub version: u8,
    /// Reads a record of any version from its key and value, and returns its value as it is written
    /// now. Tests use it to prove that records of past releases can still be read.
    pub rewrite: fn(&[u8], &[u8]) -> Result<Vec<u8>>,
}

fn stored_entry<R: Record>(
    place: usize,
    key: &[u8],
    value: &[u8],
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let index = R::INDEXES[place];
    let own = index.key_of(&decode::<R>(key, value)?);
    Ok(own.map(|own| entry(index, &own, key, if R::ORG_SCOPED { 16 } else { 0 })))
}

impl TableInfo {
    /// Returns the line of `R`.
    pub const fn of<R: Record>() -> Self {
        TableInfo {
            name: R::TABLE,
            indexes: || R::INDEXES.iter().map(|index| index.info()).collect(),
            entry: stored_entry::<R>,
            org_prefix_len: if R::ORG_SCOPED { 16 } else { 0 },
            references: || [R::REFERENCES, R::REFERRED_BY].concat(),
            unbound: R::UNBOUND,
            check: check::table::<R>,
            export: export::of_table::<R>,
            sealed: reseal::sealed_fields::<R>,
            reseal: reseal::reseal::<R>,
            check_sealed: reseal::check_sealed::<R>,
            repair: RepairSteps::of::<R>(),
            version: R::VERSION,
            rewrite: |key, value| encode(&decode::<R>(key, value)?, key),
        }
    }
}

/// Returns the references that `tables` declare.
///
/// # Panics
/// See [`References::new`].
pub(super) fn references(tables: &[TableInfo]) -> References {
    References::new(tables.iter().map(|table| (table.name, (table.references)())).collect())
}
