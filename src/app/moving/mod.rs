//! The export of an organization into a file, and its import into another installation
//! (reference: moving).
//!
//! The file has JSON lines: a [`Header`], the members, the records table by table, and an [`End`] with
//! counts and a hash of everything before it.

mod export;
mod file;
mod import;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use export::{ExportReport, export_organization};
pub use file::{ExportFile, Problem};
pub use import::{
    ImportReply, ImportReport, ImportStep, check_imported, import_file, import_step, undo_import,
};
pub use trial::Trial;

use crate::resources;
use crate::store::{self, AnyReference, TableExport, TableInfo, TableRows};

/// The format of the file. A newer Roadstead may write another.
pub const FORMAT: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Header {
    /// [`FORMAT`].
    roadstead_export: u32,
    organization: Value,
    /// The version of the layout of each table.
    layouts: BTreeMap<String, u8>,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MemberLine {
    member: Value,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    table: String,
    record: Value,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndLine {
    end: End,
}

/// What was written before.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct End {
    members: u64,
    /// Records of each table.
    records: BTreeMap<String, u64>,
    /// The BLAKE3 hash of all lines before, in hexadecimal.
    hash: String,
    /// Secrets that were left out.
    secrets_left_out: u64,
    /// The installation that wrote it.
    installation: String,
}

/// The tables of the product and of the store.
fn tables() -> Vec<TableInfo> {
    [resources::tables(), store::TABLES.to_vec()].concat()
}

/// Returns the tables that are exported, in the order of the file: each after those that it refers to,
/// where that is possible, and those of the installation last.
fn exported() -> Vec<(TableInfo, TableRows)> {
    let rows = |table: &TableInfo| match (table.export)() {
        TableExport::Exported(rows) => Some((*table, rows)),
        _ => None,
    };
    let mut left: Vec<_> = tables().iter().filter_map(rows).collect();
    let mut ordered: Vec<(TableInfo, TableRows)> = Vec::new();
    while !left.is_empty() {
        let is_ready = |(table, _): &(TableInfo, TableRows)| {
            !left.iter().any(|(other, _)| refers(table, other))
        };
        // Tables that refer to each other stay in the order of the catalog.
        let next = left.iter().position(is_ready).unwrap_or_default();
        ordered.push(left.remove(next));
    }
    ordered.sort_by_key(|(_, rows)| rows.of_installation);
    ordered
}

fn refers(table: &TableInfo, other: &TableInfo) -> bool {
    let references = (table.references)();
    let is_one = |one: &&dyn AnyReference| one.from() == table.name && one.to() == other.name;
    table.name != other.name && references.iter().any(is_one)
}

/// The tables that are left out, with the reasons, in the order of the catalog.
pub fn left_out() -> Vec<(&'static str, &'static str)> {
    let all = tables();
    let reason = |table: &TableInfo| match (table.export)() {
        TableExport::LeftOut(reason) => Some((table.name, reason)),
        _ => None,
    };
    all.iter().filter_map(reason).collect()
}
