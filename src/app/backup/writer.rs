//! Writes a backup from what a [`source`](super::source) sends.

use std::io::Write;

use super::block::{BlockWriter, Kind};
use super::header::{Header, Totals};
use super::row_check::RowCheck;
use super::rows::{add_row, heads_in, invalid, rows_in};
use super::source::Sink;
use crate::store::codec;

/// A block of rows begins with the position of their table, and a row with the lengths of its key and
/// value.
const POSITION_BYTES: usize = 2;
const ROW_HEAD_BYTES: usize = 8;

/// Writes the stream of a backup. Every record is decoded before, as it will be when it is read: one that
/// cannot be ends it, or is left out.
pub struct BackupWriter<'a, W> {
    blocks: BlockWriter<W>,
    totals: Totals,
    header: Option<Header>,
    check: Option<RowCheck>,
    collects_audit_heads: bool,
    leaves_out: bool,
    progress: &'a mut dyn FnMut(&Totals),
}

impl<'a, W: Write> BackupWriter<'a, W> {
    /// Begins a backup. `progress` is called after each block.
    pub fn new(out: W, progress: &'a mut dyn FnMut(&Totals)) -> std::io::Result<Self> {
        let (blocks, totals) = (BlockWriter::new(out)?, Totals::default());
        Ok(BackupWriter {
            blocks,
            totals,
            header: None,
            check: None,
            collects_audit_heads: false,
            leaves_out: false,
            progress,
        })
    }

    /// Leaves out records that cannot be decoded, and notes them in the totals.
    #[must_use]
    pub fn leaving_out(self, leaves_out: bool) -> Self {
        BackupWriter { leaves_out, ..self }
    }

    /// Collects the ends of the audit logs in the header that is returned, not in the one written.
    #[must_use]
    pub fn collecting_audit_heads(self, collects: bool) -> Self {
        BackupWriter { collects_audit_heads: collects, ..self }
    }

    /// Writes the end, and returns what is written to, the header and the totals.
    ///
    /// # Errors
    /// If it cannot be written, or nothing was.
    pub fn finish(mut self) -> std::io::Result<(W, Header, Totals)> {
        let header = self.header.ok_or_else(|| std::io::Error::other("the backup is empty"))?;
        let (blocks, hash) = self.blocks.so_far();
        self.totals.blocks = blocks;
        self.totals.hash = codec::hex(&hash);
        self.blocks.write(Kind::Totals, &serde_json::to_vec(&self.totals)?)?;
        Ok((self.blocks.into_inner(), header, self.totals))
    }
}

impl<W: Write> Sink for BackupWriter<'_, W> {
    fn header(&mut self, header: &Header) -> std::io::Result<()> {
        let newer = || {
            std::io::Error::other(
                "the server is of a newer Roadstead; use the program of that version",
            )
        };
        self.check = Some(RowCheck::of(header).ok_or_else(newer)?);
        self.totals.tables = vec![0; header.tables.len()];
        self.header = Some(header.clone());
        self.blocks.write(Kind::Header, &serde_json::to_vec(header)?)
    }

    fn audit_heads(&mut self, block: &[u8]) -> std::io::Result<()> {
        let collected = match &mut self.header {
            Some(header) if self.collects_audit_heads => Some(&mut header.audit_checkpoints),
            _ => None,
        };
        self.totals.audit_heads += heads_in(block, collected)?;
        self.blocks.write(Kind::AuditHeads, block)
    }

    fn rows(&mut self, block: &[u8]) -> std::io::Result<()> {
        // What is counted here is what will be read.
        let (check, totals) = (self.check.as_mut().ok_or_else(invalid)?, &mut self.totals);
        let leaves_out = self.leaves_out;
        // The rest of a block in which something is left out.
        let mut rest: Option<Vec<u8>> = None;
        let mut passed = POSITION_BYTES;
        rows_in(block, |table, key, value| {
            match check.pass(table, key, value) {
                Ok(_) => {
                    totals.tables[table] += 1;
                    totals.records += 1;
                    totals.bytes += (key.len() + value.len()) as u64;
                    rest.as_mut().into_iter().for_each(|rest| add_row(rest, key, value));
                }
                Err(fault) => {
                    let what = check.describe(table, key, fault);
                    if !leaves_out {
                        return Err(std::io::Error::other(refusal(&what)));
                    }
                    totals.left_out.add(&what);
                    rest.get_or_insert_with(|| block[..passed].to_vec());
                }
            }
            passed += ROW_HEAD_BYTES + key.len() + value.len();
            Ok(())
        })?;
        let block = rest.as_deref().unwrap_or(block);
        if block.len() > POSITION_BYTES {
            self.blocks.write(Kind::Rows, block)?;
        }
        (self.progress)(&self.totals);
        Ok(())
    }
}

/// Says which record cannot be read, and what can be done.
fn refusal(what: &str) -> String {
    if what.contains("by a newer Roadstead") {
        return format!("{what}; make the backup with that version");
    }
    format!(
        "{what}. A backup would lack this record: keep the earlier ones, stop the server, and see what \
         roadstead repair finds, which changes nothing without --apply. To back up what can be read: \
         --despite-damage"
    )
}
