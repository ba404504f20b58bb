//! What the database knows of its log: which one it is, and up to which record it has it.

use redb::{Database, ReadableDatabase as _, Table, TableError, WriteTransaction};
use xxhash_rust::xxh3::xxh3_64;

use super::record::{Link, LogId};
use crate::base::{Error, Kind, Result};
use crate::store::engine::redb::{begin, definition, failed};

/// The table of the one row. It is the engine's own, in no catalog.
const TABLE: &str = "write_ahead_log";
const KEY: &[u8] = b"position";

const FORMAT: u8 = 1;
/// Format, id, number, checksum of the record, file, whether it is closed, and a checksum of all of it.
const ROW_BYTES: usize = 1 + 16 + 8 + 8 + 1 + 1 + 8;

/// What the database has of its log.
#[derive(Clone, Copy, PartialEq)]
pub struct Position {
    /// The id of the log. The row has no more than the id: of which format the log is, its files say.
    pub log: LogId,
    /// The last record that the database has, with all before it.
    pub covered: Link,
    /// The file, 0 or 1, at whose begin the next record is.
    pub next_file: usize,
    /// Whether no record was written after that: the log is not needed.
    pub is_closed: bool,
}

impl Position {
    /// Reads the position of a database; `None` if it never had a log.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub fn read(database: &Database) -> Result<Option<Position>> {
        let transaction = database.begin_read().map_err(failed)?;
        let table = match transaction.open_table(definition(TABLE)) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            table => table.map_err(failed)?,
        };
        let Some(row) = table.get(KEY).map_err(failed)? else { return Ok(None) };
        decode(row.value()).map(Some).ok_or_else(|| {
            Error::new(
                Kind::Internal,
                "database",
                "the database's position in its log is damaged; see what roadstead repair can read, or \
                 restore a backup",
            )
        })
    }

    /// Writes the position as part of a transaction.
    pub fn write(&self, transaction: &WriteTransaction) -> Result<()> {
        let mut table: Table<'_, &[u8], &[u8]> =
            transaction.open_table(definition(TABLE)).map_err(failed)?;
        table.insert(KEY, encode(self).as_slice()).map_err(failed)?;
        Ok(())
    }

    /// Makes the position durable.
    ///
    /// # Errors
    /// If that fails; it may then be either one.
    pub fn store(&self, database: &Database) -> Result<()> {
        let transaction = begin(database)?;
        self.write(&transaction)?;
        transaction.commit().map_err(failed)
    }
}

fn encode(position: &Position) -> Vec<u8> {
    let Position { log, covered, next_file, is_closed } = position;
    let mut row = Vec::with_capacity(ROW_BYTES);
    row.push(FORMAT);
    row.extend_from_slice(&log.id);
    row.extend_from_slice(&covered.number.to_le_bytes());
    row.extend_from_slice(&covered.checksum.to_le_bytes());
    row.push(u8::from(*next_file == 1));
    row.push(u8::from(*is_closed));
    row.extend_from_slice(&xxh3_64(&row).to_le_bytes());
    row
}

fn decode(row: &[u8]) -> Option<Position> {
    let (content, sum) = row.split_last_chunk::<8>()?;
    let [FORMAT, fields @ ..] = content else { return None };
    if row.len() != ROW_BYTES || xxh3_64(content).to_le_bytes() != *sum {
        return None;
    }
    let (log, rest) = fields.split_first_chunk::<16>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (checksum, flags) = rest.split_first_chunk::<8>()?;
    let covered =
        Link { number: u64::from_le_bytes(*number), checksum: u64::from_le_bytes(*checksum) };
    let next_file = usize::from(flags[0] == 1);
    Some(Position { log: LogId::new(*log), covered, next_file, is_closed: flags[1] == 1 })
}

/// Makes a database's position one that cannot be read.
#[cfg(test)]
pub fn damage(database: &Database) {
    let transaction = begin(database).unwrap();
    let mut table: Table<'_, &[u8], &[u8]> = transaction.open_table(definition(TABLE)).unwrap();
    table.insert(KEY, b"damaged".as_slice()).unwrap();
    drop(table);
    transaction.commit().unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_as_it_was_written_and_a_flipped_bit_is_noticed() {
        let covered = Link { number: 300, checksum: u64::MAX - 7 };
        for (next_file, is_closed) in [(0, false), (0, true), (1, false), (1, true)] {
            let position = Position { log: LogId::new([9; 16]), covered, next_file, is_closed };
            let row = encode(&position);
            assert!(decode(&row) == Some(position));
            for bit in 0..row.len() * 8 {
                let mut flipped = row.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&flipped).is_none(), "bit {bit}");
            }
        }
        assert!(decode(&[]).is_none());
    }
}
