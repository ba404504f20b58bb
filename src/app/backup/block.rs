//! The blocks of a backup: compressed, and each checksummed together with all before it.
//!
//! The file begins with [`MAGIC`]. A block is `[kind: 1 byte][length of its content: 4][length as
//! stored: 4][content, compressed][checksum: 8]`, numbers big-endian. The checksum continues that of
//! the block before, so that a block that is missing, repeated or moved is found as a changed one is.

use std::io::{ErrorKind, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::error::BackupError;

/// How a file begins: what it is, and the version of the format of blocks.
pub const MAGIC: &[u8; 20] = b"roadstead backup v1\n";

/// The content of a block is at most 4 MiB: a full block of rows and the largest record. It is in
/// memory, and no more of a damaged or hostile file ever is.
pub const MAX_BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// Compressed, what cannot be compressed grows by some bytes for each 16 KiB.
const MAX_STORED_BYTES: usize = MAX_BLOCK_BYTES + MAX_BLOCK_BYTES / 1024 + 64;

const HEAD_BYTES: usize = 9;
const CHECKSUM_BYTES: usize = 8;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The header: the first block.
    Header,
    /// Rows of a table.
    Rows,
    /// The totals: the last block.
    Totals,
    /// Ends of audit logs: checkpoints, a line each.
    AuditHeads,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Header => 1,
            Kind::Rows => 2,
            Kind::Totals => 3,
            Kind::AuditHeads => 4,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        let all = [Kind::Header, Kind::Rows, Kind::Totals, Kind::AuditHeads];
        all.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// What all blocks so far add up to.
struct Running {
    checksum: u64,
    hash: blake3::Hasher,
    blocks: u64,
}

impl Running {
    fn new() -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(MAGIC);
        Running { checksum: xxh3_64_with_seed(MAGIC, 0), hash, blocks: 0 }
    }

    /// Adds a block as it is stored, without its checksum, and returns that.
    fn add(&mut self, head: &[u8], stored: &[u8]) -> [u8; CHECKSUM_BYTES] {
        let of_head = xxh3_64_with_seed(head, self.checksum);
        self.checksum = xxh3_64_with_seed(stored, of_head);
        self.hash.update(head).update(stored);
        self.blocks += 1;
        self.checksum.to_be_bytes()
    }
}

/// Writes blocks.
pub struct BlockWriter<W> {
    out: W,
    running: Running,
}

impl<W: Write> BlockWriter<W> {
    /// Begins a file.
    pub fn new(mut out: W) -> std::io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(BlockWriter { out, running: Running::new() })
    }

    /// Writes a block.
    ///
    /// # Errors
    /// If it cannot be written, or is too large.
    pub fn write(&mut self, kind: Kind, content: &[u8]) -> std::io::Result<()> {
        if content.len() > MAX_BLOCK_BYTES {
            return Err(std::io::Error::other("a block of the backup would be too large"));
        }
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflate.write_all(content)?;
        let stored = deflate.finish()?;
        let mut head = vec![kind.byte()];
        head.extend_from_slice(&len_bytes(content));
        head.extend_from_slice(&len_bytes(&stored));
        let checksum = self.running.add(&head, &stored);
        self.out.write_all(&head)?;
        self.out.write_all(&stored)?;
        self.out.write_all(&checksum)
    }

    /// The number of blocks so far, and the hash of the file so far, without the checksums.
    pub fn so_far(&self) -> (u64, [u8; 32]) {
        (self.running.blocks, *self.running.hash.finalize().as_bytes())
    }

    /// Returns what is written to.
    pub fn into_inner(self) -> W {
        self.out
    }
}

fn len_bytes(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).expect("a block is small").to_be_bytes()
}

/// Reads blocks.
pub struct BlockReader<R> {
    input: R,
    running: Running,
}

impl<R: Read> BlockReader<R> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// If it is no backup, or of a newer format.
    pub fn new(mut input: R) -> Result<Self, BackupError> {
        let mut magic = [0; MAGIC.len()];
        match input.read_exact(&mut magic) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(BackupError::foreign());
            }
            read => read.map_err(unreadable)?,
        }
        let product = b"roadstead backup v".as_slice();
        match (&magic == MAGIC, magic.starts_with(product)) {
            (true, _) => Ok(BlockReader { input, running: Running::new() }),
            (false, true) => Err(BackupError::Unusable(
                "this backup was made by a newer Roadstead; use that version".into(),
            )),
            (false, false) => Err(BackupError::foreign()),
        }
    }

    /// Reads the next block.
    ///
    /// # Errors
    /// If there is none, or it is not what was written.
    pub fn next(&mut self) -> Result<(Kind, Vec<u8>), BackupError> {
        let number = self.running.blocks + 1;
        let damaged = |what: &str| BackupError::Damaged(format!("block {number} {what}"));
        let cut = |error: std::io::Error| match error.kind() {
            ErrorKind::UnexpectedEof => damaged("is missing or cut short: the file has no end"),
            _ => unreadable(error),
        };
        let mut head = [0; HEAD_BYTES];
        self.input.read_exact(&mut head).map_err(cut)?;
        let number_at = |at: usize| {
            let bytes: [u8; 4] = head[at..at + 4].try_into().expect("there are four");
            u32::from_be_bytes(bytes) as usize
        };
        let (content_len, stored_len) = (number_at(1), number_at(5));
        if content_len > MAX_BLOCK_BYTES || stored_len > MAX_STORED_BYTES {
            return Err(damaged("has an impossible length"));
        }
        let mut stored = vec![0; stored_len];
        self.input.read_exact(&mut stored).map_err(cut)?;
        let mut checksum = [0; CHECKSUM_BYTES];
        self.input.read_exact(&mut checksum).map_err(cut)?;
        if self.running.add(&head, &stored) != checksum {
            return Err(damaged("has a wrong checksum"));
        }
        let kind = Kind::of(head[0]).ok_or_else(|| damaged("is of an unknown kind"))?;
        let mut content = Vec::with_capacity(content_len);
        let inflated = DeflateDecoder::new(stored.as_slice())
            .take(content_len as u64 + 1)
            .read_to_end(&mut content);
        if inflated.is_err() || content.len() != content_len {
            return Err(damaged("cannot be decompressed"));
        }
        Ok((kind, content))
    }

    /// The number of blocks so far, and the hash of the file so far, without the checksums.
    pub fn so_far(&self) -> (u64, [u8; 32]) {
        (self.running.blocks, *self.running.hash.finalize().as_bytes())
    }

    /// Checks that the file ends here.
    ///
    /// # Errors
    /// If it does not.
    pub fn end(mut self) -> Result<(), BackupError> {
        match self.input.read(&mut [0]).map_err(unreadable)? {
            0 => Ok(()),
            _ => Err(BackupError::Damaged("there is more after its end".into())),
        }
    }
}

/// Decryption reports a changed or cut file as an error of reading.
fn unreadable(error: std::io::Error) -> BackupError {
    match error.kind() {
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::InvalidInput => {
            BackupError::Damaged(format!("it cannot be decrypted to its end: {error}"))
        }
        _ => BackupError::Failed(format!("the backup cannot be read: {error}")),
    }
}
