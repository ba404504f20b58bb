//! What a backup notes of the ledger of erasures, so that an older one is not taken for a restore: it
//! would lack what was erased between it and the backup, and all that was erased since.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{ERASURES, Erasures, Lines, entry_line, parse_entry, parse_title};
use crate::base::{Result, Time};
use crate::store::{Erasure, Record as _, Rows, decode};

/// How far a ledger went when a backup was made.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerNote {
    /// Since when it was complete; `None` for a store that is its own ledger, where it moves.
    since: Option<Time>,
    /// How many erasures it had.
    entries: u64,
    /// The last of them.
    last: Option<LastEntry>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct LastEntry {
    at: Time,
    /// The checksum of its line.
    checksum: String,
}

impl LedgerNote {
    /// Returns what is to be noted of the ledger of a data directory; `None` if it cannot be read, or
    /// ends with a damaged line: a restore with it says that.
    pub fn of_directory(dir: &Path) -> Option<Self> {
        let mut lines = Lines::new(BufReader::new(File::open(dir.join(ERASURES)).ok()?));
        let (_, since) = parse_title(&lines.next().ok()??)?;
        let mut note = LedgerNote { since: Some(since), ..LedgerNote::default() };
        let mut last = None;
        while let Some(line) = lines.next().ok()? {
            note.entries += 1;
            last = Some(line);
        }
        if let Some(line) = last {
            let at = parse_entry(&line)?.at;
            note.last = Some(LastEntry { at, checksum: checksum_of(&line)?.into() });
        }
        Some(note)
    }

    /// Returns what is to be noted of a store that is its own ledger.
    pub fn of_store(rows: &Rows) -> Result<Self> {
        let mut note = LedgerNote::default();
        rows.scan(Erasure::TABLE, &mut |key, value| {
            let line = entry_line(&decode(key, value)?);
            let at = parse_entry(line.trim_end()).map(|entry| entry.at);
            let checksum = checksum_of(line.trim_end()).unwrap_or_default().to_string();
            note.entries += 1;
            note.last = at.map(|at| LastEntry { at, checksum });
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        Ok(note)
    }
}

impl Erasures {
    /// Returns whether it lacks the last erasure that a backup notes, which is no older than it is kept:
    /// then it is an older state of that ledger, or another one.
    pub fn is_older_than(&self, note: &LedgerNote) -> bool {
        let Some(last) = note.last.as_ref().filter(|last| last.at >= self.since) else {
            return false;
        };
        !self.all.iter().any(|one| {
            one.at == last.at
                && checksum_of(entry_line(one).trim_end()) == Some(last.checksum.as_str())
        })
    }

    /// Returns when the last erasure in it was requested.
    pub fn until(&self) -> Option<Time> {
        self.all.iter().map(|one| one.at).max()
    }
}

fn checksum_of(line: &str) -> Option<&str> {
    line.rsplit_once(' ').map(|(_, checksum)| checksum)
}
