//! How a record lies in its table: an envelope around its bincode body.
//!
//! `[format: 1 byte][version of the record: 1 byte][body][checksum: 8 bytes]`. The checksum covers
//! table, key and all that stands before it, and is verified on every read: the engine does not
//! verify its own when it reads, and a page that turns up in another's place is found too.

use bincode::config::{self, Config};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::record::Record;
use crate::base::{Error, Result};

/// The format of the envelope itself. Another number means a newer Roadstead wrote it.
const FORMAT: u8 = 1;
const CHECKSUM_BYTES: usize = 8;

/// A record may take 2 MiB: a request body of 1 MiB fits, with what escaping adds.
pub const MAX_RECORD_BYTES: usize = 2 * 1024 * 1024;

/// The layout of bodies. It never changes: records of every past version are read with it. It has
/// no limit: bincode's counts a record's size in memory, and would refuse to read what could be
/// written. A body is decoded only after its checksum has shown that its lengths are ours.
pub fn layout() -> impl Config {
    config::legacy()
}

fn checksum(table: &str, key: &[u8], content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let place = xxh3_64_with_seed(key, xxh3_64_with_seed(table.as_bytes(), 0));
    xxh3_64_with_seed(content, place).to_be_bytes()
}

/// The bytes to store for `record` under `key`.
pub fn encode<R: Record>(record: &R, key: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(FORMAT);
    bytes.push(R::VERSION);
    bincode::encode_into_std_write(record, &mut bytes, layout())
        .map_err(|e| Error::internal(format!("{} cannot be encoded: {e}", R::TABLE)))?;
    let sum = checksum(R::TABLE, key, &bytes);
    bytes.extend_from_slice(&sum);
    if bytes.len() > MAX_RECORD_BYTES {
        return Err(Error::new(
            crate::base::Kind::TooLarge,
            "record_too_large",
            "this would be larger than one record may be (2 MiB)",
        ));
    }
    Ok(bytes)
}

/// Reads a record back, verifying its envelope.
///
/// # Errors
/// 500 whose log detail names table and key, if the bytes are not what was written.
pub fn decode<R: Record>(key: &[u8], bytes: &[u8]) -> Result<R> {
    let broken = |what: &str| Error::internal(format!("{} {}: {what}", R::TABLE, hex(key)));
    let (content, sum) = bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or_else(|| broken("is too short to be a record"))?;
    if checksum(R::TABLE, key, content) != *sum {
        return Err(broken("has a wrong checksum"));
    }
    let (format, version, body) = match content {
        [format, version, body @ ..] => (*format, *version, body),
        _ => return Err(broken("is too short to be a record")),
    };
    if format != FORMAT || version > R::VERSION {
        return Err(broken("was written by a newer Roadstead"));
    }
    if version < R::VERSION {
        return R::upgrade(version, body);
    }
    match bincode::decode_from_slice(body, layout()) {
        Ok((record, used)) if used == body.len() => Ok(record),
        Ok(_) => Err(broken("has bytes left over")),
        Err(e) => Err(broken(&e.to_string())),
    }
}

/// Bytes as lower-case hexadecimal, for messages.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
