//! What is asked of a row in a backup: it is of a known table, comes after the one before it, and can be
//! decoded. What writes a backup asks it as what reads one does, so what was written can be restored.

use super::header::Header;
use crate::store::{TableInfo, codec, record_tables};

/// Why a row cannot be in a backup.
#[derive(Debug, PartialEq)]
pub(super) enum RowFault {
    /// It is not after the row before it, or of no table of the header.
    OutOfOrder,
    /// It is not what was written: which row, and why.
    Unreadable(String),
}

/// Checks the rows of a backup, one after the other.
pub(super) struct RowCheck {
    /// The tables of this build in the order of the header.
    tables: Vec<TableInfo>,
    /// The table and the key of the last row that passed.
    last: (usize, Option<Vec<u8>>),
}

impl RowCheck {
    /// Begins with the tables of a header; `None` if this build does not know one, or its version.
    pub fn of(header: &Header) -> Option<Self> {
        let known = record_tables(&crate::resources::tables());
        let tables = header.tables.iter().map(|table| {
            let own = known.iter().find(|own| own.name == table.name).copied();
            own.filter(|own| table.version <= own.version)
        });
        Some(RowCheck { tables: tables.collect::<Option<_>>()?, last: (0, None) })
    }

    /// How many tables the header has.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// Checks the next row, and returns its table.
    ///
    /// # Errors
    /// Why it cannot be in a backup. Then it is as if it had not been there.
    pub fn pass(&mut self, at: usize, key: &[u8], value: &[u8]) -> Result<&TableInfo, RowFault> {
        let table = self.tables.get(at).ok_or(RowFault::OutOfOrder)?;
        let (last_at, last_key) = (self.last.0, self.last.1.as_deref());
        if at < last_at || at == last_at && last_key.is_some_and(|last| last >= key) {
            return Err(RowFault::OutOfOrder);
        }
        table.rewrite(key, value).map_err(|error| {
            RowFault::Unreadable(error.log_detail().unwrap_or(error.message()).into())
        })?;
        self.last.0 = at;
        // Without an allocation for each row.
        let last = self.last.1.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(table)
    }

    /// Says which row has a fault, and why.
    pub fn describe(&self, at: usize, key: &[u8], fault: RowFault) -> String {
        match fault {
            RowFault::Unreadable(what) => what,
            RowFault::OutOfOrder => {
                let table = self.tables.get(at).map_or("an unknown table", |table| table.name);
                format!("{table} {}: is not in the order of the table", codec::hex(key))
            }
        }
    }
}
