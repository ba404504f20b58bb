//! The first and the last block of a backup: what it is of, and what it must add up to.

use serde::{Deserialize, Serialize};

use crate::app::erasures::LedgerNote;
use crate::base::Time;
use crate::store::TableInfo;

/// The product in every header.
pub const PRODUCT: &str = "roadstead";

/// The version of what the blocks hold. A newer Roadstead may write another.
///
/// 1: the ends of the audit logs are in the header. 2: they are in blocks of their own behind it,
/// since a block is bounded and organizations are not.
pub const FORMAT: u32 = 2;

/// The first block. It has no `Debug`: it may hold the installation's key.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// [`PRODUCT`].
    pub product: String,
    /// [`FORMAT`].
    pub format: u32,
    /// The version of Roadstead that made it.
    pub version: String,
    pub backup_id: String,
    /// The id of the installation.
    pub installation: String,
    /// When it was begun: what was acknowledged before is in it.
    pub taken_at: Time,
    /// The content of the file `format` of the data directory: which key it belongs to.
    pub directory_format: String,
    /// The installation's key in hexadecimal, only in an encrypted backup for which it was asked.
    pub secret_key: Option<String>,
    /// How far the ledger of erasures was; `None` in backups of earlier releases, and if it could not
    /// be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasures: Option<LedgerNote>,
    /// Which Roadstead had served the data directory last, as its file `written-by` has it; `None`: one
    /// whose log could lose rows, or one that did not say it in backups yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_by: Option<String>,
    /// The ends of the audit logs in it: stored here in format 1; of a later one, those that were
    /// collected when it was read or written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audit_checkpoints: Vec<String>,
    /// The tables in it, in order.
    pub tables: Vec<TableHeader>,
}

/// Of the records that are left out, 1,000 are listed.
const MAX_LISTED: usize = 1000;

/// What is said of one has at most 1,000 characters: all of it must fit into the last block.
const MAX_SAID_CHARS: usize = 1000;

/// Records that could not be read when the backup was made, and are not in it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// How many there are.
    pub count: u64,
    /// Which they are and why they cannot be read, a sentence for each of the first 1,000.
    pub records: Vec<String>,
}

impl LeftOut {
    /// Whether all records are in the backup.
    pub fn is_nothing(&self) -> bool {
        self.count == 0
    }

    /// Adds a record.
    pub fn add(&mut self, what: &str) {
        self.count += 1;
        if self.records.len() < MAX_LISTED {
            self.records.push(what.chars().take(MAX_SAID_CHARS).collect());
        }
    }
}

/// How a table was defined.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TableHeader {
    pub name: String,
    /// The version in which its records were written.
    pub version: u8,
    /// Its indexes, each with the version of its key function. They are built anew.
    pub indexes: Vec<(String, u32)>,
}

impl TableHeader {
    /// The definition of a table in this build.
    pub fn of(table: &TableInfo) -> Self {
        let indexes = table.indexes().into_iter();
        TableHeader {
            name: table.name.into(),
            version: table.version,
            indexes: indexes.map(|index| (index.name.to_string(), index.version)).collect(),
        }
    }
}

/// The last block: what the blocks before it add up to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Blocks before this one.
    pub blocks: u64,
    /// Ends of audit logs in blocks of their own.
    #[serde(default)]
    pub audit_heads: u64,
    /// Records in all tables.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Records in each table, in the order of the header.
    pub tables: Vec<u64>,
    /// What is not in it. Releases that do not know this field read the rest.
    #[serde(default, skip_serializing_if = "LeftOut::is_nothing")]
    pub left_out: LeftOut,
    /// The BLAKE3 hash of everything before this block, without the checksums, in hexadecimal.
    pub hash: String,
}
