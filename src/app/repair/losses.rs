//! What a repair leaves out, removes and changes: counted, and written to a file line by line, so that
//! nothing is lost without a trace.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::app::backup::BackupError;
use crate::base::{Error, Result};
use crate::store::engine::give_to_owner_of_directory;
use crate::store::repair::{Loss, LossKind, record_json};
use crate::store::{TableInfo, codec};

/// Of the losses, 1,000 are listed by the command; all are in the file.
pub const MAX_LISTED: usize = 1000;

/// The losses of a repair.
pub struct Losses {
    file: BufWriter<File>,
    /// How many there are, by kind and table.
    pub counts: BTreeMap<LossKind, BTreeMap<&'static str, u64>>,
    /// A sentence for each of the first 1,000.
    pub listed: Vec<String>,
}

impl Losses {
    /// Begins the file. It may hold anything that was stored: it is readable by its owner only.
    pub fn begin(path: &Path) -> Result<Self, BackupError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        give_to_owner_of_directory(&file, path);
        let file = BufWriter::new(file);
        Ok(Losses { file, counts: BTreeMap::new(), listed: Vec::new() })
    }

    /// Adds one.
    pub fn add(&mut self, loss: &Loss<'_>, tables: &[TableInfo]) -> Result<()> {
        let Loss { kind, table, key, value, why } = loss;
        *self.counts.entry(*kind).or_default().entry(table).or_default() += 1;
        let hex_key = codec::hex(key);
        if self.listed.len() < MAX_LISTED {
            let begins_so = why.starts_with(&format!("{table} {hex_key}: "));
            let place = if begins_so { String::new() } else { format!("{table} {hex_key}: ") };
            self.listed.push(format!("{}: {place}{why}", kind.name()));
        }
        // What was deleted is not to be kept in another file.
        let is_erased = *kind == LossKind::Erased;
        let line = json!({
            "kind": kind.name(),
            "table": table,
            "key": hex_key,
            "why": why,
            "record": (!is_erased).then(|| record_json(table, tables, key, value)),
            "value": (!is_erased).then(|| codec::hex(value)),
        });
        writeln!(self.file, "{line}").map_err(|error| unwritten(&error))
    }

    /// Adds what is missing of the write-ahead log: of which tables it is nobody knows.
    pub fn add_missing_log(&mut self, what: &str) -> Result<()> {
        let line = json!({
            "kind": "log", "table": null, "key": null, "why": what, "record": null, "value": null,
        });
        writeln!(self.file, "{line}").map_err(|error| unwritten(&error))
    }

    /// Makes the file durable.
    pub fn finish(&mut self) -> Result<()> {
        self.file.flush().and_then(|()| self.file.get_ref().sync_all()).map_err(|e| unwritten(&e))
    }

    /// How many there are of a kind.
    pub fn count(&self, kind: LossKind) -> u64 {
        self.counts.get(&kind).map_or(0, |tables| tables.values().sum())
    }
}

fn unwritten(error: &std::io::Error) -> Error {
    Error::internal(format!("the list of what is left out cannot be written: {error}"))
}
