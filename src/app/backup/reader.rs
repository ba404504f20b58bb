//! Reads a backup and verifies all of it: checksums, order, counts, records.

use std::io::Read;

use super::block::{BlockReader, Kind};
use super::error::BackupError;
use super::header::{FORMAT, Header, PRODUCT, Totals};
use super::rows::{heads_in, invalid, rows_in};
use crate::store::{TableInfo, codec, record_tables};

/// A backup whose header was read. It has no `Debug`: that may hold a key.
pub struct Backup<R> {
    pub header: Header,
    blocks: BlockReader<R>,
    /// The tables of this build in the order of the header.
    tables: Vec<TableInfo>,
    collects_audit_heads: bool,
}

impl<R: Read> Backup<R> {
    /// Reads the header of a decrypted stream.
    ///
    /// # Errors
    /// If it is no backup, damaged, or made by a newer Roadstead.
    pub fn open(input: R) -> Result<Self, BackupError> {
        let mut blocks = BlockReader::new(input)?;
        let (kind, content) = blocks.next()?;
        if kind != Kind::Header {
            return Err(BackupError::Damaged("it does not begin with a header".into()));
        }
        let newer = || {
            BackupError::Unusable(
                "this backup was made by a newer Roadstead; use that version".into(),
            )
        };
        let header: Header = serde_json::from_slice(&content)
            .map_err(|error| BackupError::Damaged(format!("its header is none: {error}")))?;
        if header.product != PRODUCT {
            return Err(BackupError::foreign());
        }
        if header.format > FORMAT {
            return Err(newer());
        }
        let known = record_tables(&crate::resources::tables());
        let of_this_build = |name: &str| known.iter().find(|table| table.name == name).copied();
        let mut tables = Vec::new();
        for table in &header.tables {
            let own = of_this_build(&table.name).ok_or_else(newer)?;
            if table.version > own.version {
                return Err(newer());
            }
            tables.push(own);
        }
        Ok(Backup { header, blocks, tables, collects_audit_heads: false })
    }

    /// Collects the ends of the audit logs in the header that [`Backup::read`] returns.
    #[must_use]
    pub fn collecting_audit_heads(self, collects: bool) -> Self {
        Backup { collects_audit_heads: collects, ..self }
    }

    /// Reads the rest, and passes each record to `each`, with its table, key and value. Every record
    /// was decoded before.
    ///
    /// # Errors
    /// If anything is damaged; what `each` returns.
    pub fn read(
        mut self,
        mut each: impl FnMut(&TableInfo, &[u8], &[u8]) -> Result<(), BackupError>,
        progress: &mut dyn FnMut(&Totals),
    ) -> Result<(Header, Totals), BackupError> {
        let mut totals = Totals { tables: vec![0; self.tables.len()], ..Totals::default() };
        let mut last: (usize, Option<Vec<u8>>) = (0, None);
        loop {
            (totals.blocks, totals.hash) = {
                let (blocks, hash) = self.blocks.so_far();
                (blocks, codec::hex(&hash))
            };
            match self.blocks.next()? {
                (Kind::Rows, block) => {
                    self.read_rows(&block, &mut totals, &mut last, &mut each)?;
                    progress(&totals);
                }
                (Kind::AuditHeads, block) => {
                    if totals.records > 0 {
                        return Err(BackupError::Damaged("its blocks are not in order".into()));
                    }
                    let collected = &mut self.header.audit_checkpoints;
                    let collected = self.collects_audit_heads.then_some(collected);
                    totals.audit_heads += heads_in(&block, collected).map_err(|_| {
                        BackupError::Damaged("the end of an audit log in it is none".into())
                    })?;
                }
                (Kind::Totals, content) => {
                    let written: Totals = serde_json::from_slice(&content).map_err(|error| {
                        BackupError::Damaged(format!("its totals are none: {error}"))
                    })?;
                    if written != totals {
                        return Err(BackupError::Damaged(
                            "its records do not add up to its totals".into(),
                        ));
                    }
                    self.blocks.end()?;
                    return Ok((self.header, totals));
                }
                (Kind::Header, _) => {
                    return Err(BackupError::Damaged("it has a second header".into()));
                }
            }
        }
    }

    fn read_rows(
        &self,
        block: &[u8],
        totals: &mut Totals,
        last: &mut (usize, Option<Vec<u8>>),
        each: &mut impl FnMut(&TableInfo, &[u8], &[u8]) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        let mut refused = None;
        let read = rows_in(block, |at, key, value| {
            let table = self.tables.get(at).ok_or_else(invalid)?;
            let is_after = at > last.0 || at == last.0 && last.1.as_deref().is_none_or(|k| k < key);
            if !is_after {
                return Err(invalid());
            }
            *last = (at, Some(key.to_vec()));
            totals.tables[at] += 1;
            totals.records += 1;
            totals.bytes += (key.len() + value.len()) as u64;
            let decoded = (table.rewrite)(key, value).map_err(|error| {
                BackupError::Damaged(error.log_detail().unwrap_or(error.message()).into())
            });
            decoded.and_then(|_| each(table, key, value)).map_err(|error| {
                refused = Some(error);
                invalid()
            })
        });
        match (refused, read) {
            (Some(error), _) => Err(error),
            (None, Err(_)) => Err(BackupError::Damaged("its rows are not in order".into())),
            (None, Ok(())) => Ok(()),
        }
    }
}

/// Reads a whole backup.
///
/// # Errors
/// See [`Backup::open`] and [`Backup::read`].
pub fn verify(
    input: impl Read,
    progress: &mut dyn FnMut(&Totals),
) -> Result<(Header, Totals), BackupError> {
    Backup::open(input)?.read(|_, _, _| Ok(()), progress)
}
