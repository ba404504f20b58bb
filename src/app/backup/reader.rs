//! Reads a backup and verifies all of it: checksums, order, counts, records.

use std::io::Read;

use super::block::{BlockReader, Kind};
use super::error::BackupError;
use super::header::{FORMAT, Header, PRODUCT, Totals};
use super::row_check::{RowCheck, RowFault};
use super::rows::{heads_in, invalid, rows_in};
use crate::store::{TableInfo, codec};

/// A backup whose header was read. It has no `Debug`: that may hold a key.
pub struct Backup<R> {
    pub header: Header,
    blocks: BlockReader<R>,
    check: RowCheck,
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
        let check = RowCheck::of(&header).ok_or_else(newer)?;
        Ok(Backup { header, blocks, check, collects_audit_heads: false })
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
        let mut totals = Totals { tables: vec![0; self.check.tables()], ..Totals::default() };
        loop {
            (totals.blocks, totals.hash) = {
                let (blocks, hash) = self.blocks.so_far();
                (blocks, codec::hex(&hash))
            };
            match self.blocks.next()? {
                (Kind::Rows, block) => {
                    self.read_rows(&block, &mut totals, &mut each)?;
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
                    // Of what is not in it only they know.
                    totals.left_out.clone_from(&written.left_out);
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
        &mut self,
        block: &[u8],
        totals: &mut Totals,
        each: &mut impl FnMut(&TableInfo, &[u8], &[u8]) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        let mut refused = None;
        let read = rows_in(block, |at, key, value| {
            let taken = match self.check.pass(at, key, value) {
                Ok(table) => {
                    totals.tables[at] += 1;
                    totals.records += 1;
                    totals.bytes += (key.len() + value.len()) as u64;
                    each(table, key, value)
                }
                Err(RowFault::OutOfOrder) => return Err(invalid()),
                Err(RowFault::Unreadable(what)) => Err(BackupError::Damaged(what)),
            };
            taken.map_err(|error| {
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
