//! Repair: whatever can be read of the records of a damaged store is loaded into empty storage, and
//! brought to where every record has its indexes and the targets of its references.
//!
//! In three steps: [`copy_readable`] loads the records that can be read, without those that share the
//! key of a unique index with another one ([`duplicates`]); [`build`](super::indexes::build) builds all
//! indexes; and [`resolve_references`] carries out for references without a target what removing the
//! target would have done. What is lost by it is reported record by record.

mod damaged;
mod duplicates;
mod orphans;

use serde_json::Value;

use super::catalog::TableInfo;
use super::engine::LocalStorage;
use super::rows::{RowLoader, record_tables};
use crate::base::Result;
use duplicates::Duplicates;

pub use damaged::{Damaged, unique_keys};
pub use orphans::{Mending, resolve_references};

/// Why a record of the damaged store is not as it was, or not there, in the repaired one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossKind {
    /// It cannot be read.
    Unreadable,
    /// Another record has the same key in a unique index.
    Duplicate,
    /// The ledger of erasures names it: its deletion was acknowledged.
    Erased,
    /// It referred to something that is gone, or belonged to such a record.
    Removed,
    /// Its row is gone, and was made again for the sake of what belongs to it.
    Recreated,
    /// It is there, without its reference to something that is gone, or as that changed it.
    Changed,
}

impl LossKind {
    /// All kinds, in the order in which they come about.
    pub const ALL: [LossKind; 6] = [
        LossKind::Unreadable,
        LossKind::Duplicate,
        LossKind::Erased,
        LossKind::Removed,
        LossKind::Recreated,
        LossKind::Changed,
    ];

    /// Its name in files and in JSON, which never changes.
    pub fn name(self) -> &'static str {
        match self {
            LossKind::Unreadable => "unreadable",
            LossKind::Duplicate => "duplicate",
            LossKind::Erased => "erased",
            LossKind::Removed => "removed",
            LossKind::Recreated => "recreated",
            LossKind::Changed => "changed",
        }
    }
}

/// A record that a repair leaves out, removes, makes again or changes.
#[derive(Debug)]
pub struct Loss<'a> {
    pub kind: LossKind,
    pub table: &'static str,
    /// Its key as it is stored.
    pub key: &'a [u8],
    /// Its value as it was stored; empty where not even that can be read.
    pub value: &'a [u8],
    /// A phrase that says what is wrong with it.
    pub why: &'a str,
}

/// What takes the losses of a repair.
pub type LossFn<'a> = dyn FnMut(&Loss) -> Result<()> + 'a;

/// Returns a stored record as JSON; `None` if it cannot be decoded, or has no form outside of its
/// installation ([`Record::EXPORT`](super::Record::EXPORT)).
pub fn record_json(table: &str, tables: &[TableInfo], key: &[u8], value: &[u8]) -> Option<Value> {
    let table = record_tables(tables).into_iter().find(|own| own.name == table)?;
    table.json(key, value)
}

/// Loads the records that can be read into empty storage, whose indexes are to be built. Returns it
/// with the number of records.
///
/// # Errors
/// If the storage fails; what `lost` returns.
pub fn copy_readable<S: LocalStorage>(
    damaged: &Damaged<'_>,
    storage: S,
    lost: &mut LossFn<'_>,
) -> Result<(S, u64)> {
    let references = super::catalog::references(damaged.tables);
    let duplicates = Duplicates::find(damaged, &references)?;
    let mut loader = RowLoader::new(storage);
    let mut records = 0;
    for table in record_tables(damaged.tables) {
        (damaged.progress)(&format!("reading {}", table.name));
        let mut last = Vec::new();
        let end = damaged.each_row(&table, &mut |key, value| {
            last.clear();
            last.extend_from_slice(key);
            let (kind, why) = match refusal(damaged, &table, &duplicates, key, value) {
                Some(refusal) => refusal,
                None => {
                    records += 1;
                    return loader.add(table.name, key, value);
                }
            };
            lost(&Loss { kind, table: table.name, key, value, why: &why })
        })?;
        if let Some(why) = end {
            let (kind, why) = (LossKind::Unreadable, format!("rows near this one: {why}"));
            lost(&Loss { kind, table: table.name, key: &last, value: &[], why: &why })?;
        }
    }
    Ok((loader.finish()?, records))
}

/// Says why a row is left out.
fn refusal(
    damaged: &Damaged<'_>,
    table: &TableInfo,
    duplicates: &Duplicates,
    key: &[u8],
    value: &[u8],
) -> Option<(LossKind, String)> {
    if let Err(why) = table.screen(key, value) {
        return Some((LossKind::Unreadable, why));
    }
    if (damaged.is_erased)(table.name, key) {
        let why = "the ledger of erasures has its deletion".to_string();
        return Some((LossKind::Erased, why));
    }
    duplicates.why(table.name, key).map(|why| (LossKind::Duplicate, why))
}
