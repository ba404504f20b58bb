//! Writes a backup from what a [`source`](super::source) sends.

use std::io::Write;

use super::block::{BlockWriter, Kind};
use super::header::{Header, Totals};
use super::rows::{heads_in, invalid, rows_in};
use super::source::Sink;
use crate::store::codec;

/// Writes the stream of a backup.
pub struct BackupWriter<'a, W> {
    blocks: BlockWriter<W>,
    totals: Totals,
    header: Option<Header>,
    collects_audit_heads: bool,
    progress: &'a mut dyn FnMut(&Totals),
}

impl<'a, W: Write> BackupWriter<'a, W> {
    /// Begins a backup. `progress` is called after each block.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W, progress: &'a mut dyn FnMut(&Totals)) -> std::io::Result<Self> {
        let (blocks, totals) = (BlockWriter::new(out)?, Totals::default());
        Ok(BackupWriter { blocks, totals, header: None, collects_audit_heads: false, progress })
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
        let totals = &mut self.totals;
        let counted = rows_in(block, |table, key, value| {
            let count = totals.tables.get_mut(table).ok_or_else(invalid)?;
            *count += 1;
            totals.records += 1;
            totals.bytes += (key.len() + value.len()) as u64;
            Ok(())
        });
        counted?;
        self.blocks.write(Kind::Rows, block)?;
        (self.progress)(&self.totals);
        Ok(())
    }
}
