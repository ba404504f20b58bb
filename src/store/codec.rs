//! The stored form of a record: an envelope around its bincode body.
//!
//! `[format: 1 byte][version of the record: 1 byte][body][checksum: 8 bytes]`. The checksum covers
//! table, key and everything before it, and is verified on every read: the engine does not verify
//! its own checksums when reading, and a page in place of another is detected too.

use std::io::{self, Read};

use bincode::config::{self, Config};
use bincode::error::DecodeError;
use bincode::{Decode, Encode};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub use crate::base::hex;
use crate::base::{Error, Result};

/// The format of the envelope. A newer Roadstead may write another.
const FORMAT: u8 = 1;
const CHECKSUM_BYTES: usize = 8;

/// A record is at most 2 MiB: a request body of 1 MiB fits, escaped.
pub const MAX_RECORD_BYTES: usize = 2 * 1024 * 1024;

/// Returns the bincode configuration of bodies. It never changes: records of every past version are read
/// with it. It has no limit: bincode's counts the size in memory, and would refuse to read what
/// could be written. A body is decoded only after its checksum has proved its lengths.
pub fn layout() -> impl Config {
    config::legacy()
}

fn checksum(table: &str, key: &[u8], content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let place = xxh3_64_with_seed(key, xxh3_64_with_seed(table.as_bytes(), 0));
    xxh3_64_with_seed(content, place).to_be_bytes()
}

/// Returns the bytes to store for a record of `table`, in this version of its layout, under `key`.
///
/// # Errors
/// 413 if they exceed [`MAX_RECORD_BYTES`].
pub(super) fn encode(
    table: &str,
    version: u8,
    key: &[u8],
    record: &impl Encode,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(FORMAT);
    bytes.push(version);
    bincode::encode_into_std_write(record, &mut bytes, layout())
        .map_err(|e| Error::internal(format!("{table} cannot be encoded: {e}")))?;
    let sum = checksum(table, key, &bytes);
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

/// Verifies the envelope of a stored record and returns the version of its layout, at most `newest`,
/// and its body.
///
/// # Errors
/// 500, whose log detail names table and key, if the bytes are not what was written.
pub(super) fn open<'a>(
    table: &str,
    newest: u8,
    key: &[u8],
    bytes: &'a [u8],
) -> Result<(u8, &'a [u8])> {
    let broken = |what: &str| broken(table, key, what);
    let (content, sum) = bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or_else(|| broken("is too short to be a record"))?;
    if checksum(table, key, content) != *sum {
        return Err(broken("has a wrong checksum"));
    }
    let (format, version, body) = match content {
        [format, version, body @ ..] => (*format, *version, body),
        _ => return Err(broken("is too short to be a record")),
    };
    if format != FORMAT || version > newest {
        return Err(broken("was written by a newer Roadstead"));
    }
    Ok((version, body))
}

/// Reads the body of a record in the version in which it is written now.
///
/// # Errors
/// 500, whose log detail names table and key, if the bytes are not such a body.
pub(super) fn decode<T: Decode<()>>(table: &str, key: &[u8], body: &[u8]) -> Result<T> {
    read_body(body).map_err(|what| broken(table, key, &what))
}

fn broken(table: &str, key: &[u8], what: &str) -> Error {
    Error::internal(format!("{table} {}: {what}", hex(key)))
}

/// Reads the body of a past version, for [`Record::upgrade`](super::Record::upgrade): `Old` has the fields it had then.
///
/// # Errors
/// 500 if the bytes are not such a body.
pub fn decode_body<Old: Decode<()>>(body: &[u8]) -> Result<Old> {
    read_body(body).map_err(Error::internal)
}

/// What absent fields of a past version can be read as, in bytes.
const MAX_ABSENT: u64 = 64;

/// Reads the body of a past version that lacked fields at the end. They are as if each of their bytes was
/// zero: `None`, empty, false, the variant 0.
///
/// # Errors
/// 500 if the bytes are not such a body.
pub fn decode_shorter<T: Decode<()>>(body: &[u8]) -> Result<T> {
    let mut rest = body;
    let mut whole = (&mut rest).chain(io::repeat(0).take(MAX_ABSENT));
    let record = bincode::decode_from_std_read(&mut whole, layout())
        .map_err(|error| Error::internal(error.to_string()))?;
    if rest.is_empty() { Ok(record) } else { Err(Error::internal("has bytes left over")) }
}

fn read_body<T: Decode<()>>(body: &[u8]) -> Result<T, String> {
    match bincode::decode_from_slice(body, layout()) {
        Ok((record, used)) if used == body.len() => Ok(record),
        Ok(_) => Err("has bytes left over".into()),
        Err(DecodeError::UnexpectedVariant { type_name, found, .. }) => {
            Err(format!("was written by a newer Roadstead: {type_name} {found} is unknown"))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::{Record, decode, encode};
    use crate::store::sample::{Note, note};

    /// The layout of notes before they had tags.
    #[derive(Clone, Encode, Decode)]
    struct OldNote {
        id: u32,
        name: Option<String>,
    }
    impl Record for OldNote {
        const TABLE: &'static str = "notes";
        type Key = u32;
        fn key(&self) -> u32 {
            self.id
        }
    }

    /// A later layout.
    #[derive(Clone, Debug, PartialEq, Encode, Decode)]
    struct NewNote(Note);
    impl Record for NewNote {
        const TABLE: &'static str = "notes";
        const VERSION: u8 = 2;
        type Key = u32;
        fn key(&self) -> u32 {
            self.0.id
        }
        fn upgrade(_: u8, body: &[u8]) -> Result<Self> {
            let OldNote { id, name } = decode_body(body)?;
            Ok(NewNote(Note { id, name, tag: None }))
        }
    }

    #[test]
    fn fields_that_a_past_version_lacked_at_the_end_are_empty() {
        let old = OldNote { id: 7, name: Some("x".into()) };
        let body = bincode::encode_to_vec(&old, layout()).unwrap();
        let read: Note = decode_shorter(&body).unwrap();
        assert_eq!(read, Note { id: 7, name: Some("x".into()), tag: None });
        // Not those that have more.
        assert!(decode_shorter::<OldNote>(&[&body[..], &[0]].concat()).is_err());
    }

    fn refused<R: Record>(key: &[u8], bytes: &[u8]) -> String {
        let error = decode::<R>(key, bytes).map(|_| ()).unwrap_err();
        error.log_detail().unwrap().to_string()
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        for text in ["", "x", "a name of some length", &"long ".repeat(100)] {
            let bytes = encode(&note(7, text, "t"), b"key").unwrap();
            assert_eq!(decode::<Note>(b"key", &bytes).unwrap(), note(7, text, "t"));
            for bit in 0..bytes.len() * 8 {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    refused::<Note>(b"key", &bytes).contains("notes 6b6579: has a wrong checksum")
                );
            }
            for len in 0..bytes.len() {
                refused::<Note>(b"key", &bytes[..len]);
            }
        }
    }

    #[test]
    fn a_record_in_place_of_another_is_found() {
        #[derive(Clone, Encode, Decode)]
        struct Copy(Note);
        impl Record for Copy {
            const TABLE: &'static str = "copies";
            type Key = u32;
            fn key(&self) -> u32 {
                self.0.id
            }
        }
        let bytes = encode(&note(7, "x", "t"), b"key").unwrap();
        refused::<Note>(b"kez", &bytes);
        refused::<Note>(b"", &bytes);
        refused::<Copy>(b"key", &bytes);
    }

    #[test]
    fn newer_versions_are_refused_and_older_ones_upgraded() {
        let old = encode(&OldNote { id: 7, name: Some("x".into()) }, b"key").unwrap();
        assert_eq!(decode::<NewNote>(b"key", &old).unwrap(), NewNote(note(7, "x", "")));
        let new = encode(&NewNote(note(7, "x", "")), b"key").unwrap();
        assert!(refused::<Note>(b"key", &new).contains("written by a newer Roadstead"));
        // Version 0 never existed, so a note has no upgrade from it.
        let mut odd = encode(&note(7, "x", ""), b"key").unwrap();
        odd.truncate(odd.len() - CHECKSUM_BYTES);
        odd[1] = 0;
        let sum = checksum("notes", b"key", &odd);
        assert!(refused::<Note>(b"key", &[odd, sum.to_vec()].concat()).contains("no upgrade"));
    }

    #[test]
    fn whatever_is_written_can_be_read() {
        #[derive(Clone, Debug, PartialEq, Encode, Decode)]
        struct Wide(Vec<(Option<[u64; 32]>, ())>);
        impl Record for Wide {
            const TABLE: &'static str = "wide";
            type Key = u32;
            fn key(&self) -> u32 {
                0
            }
        }
        // A byte each, and 264 in memory: 5 MB of a record that takes 20 KB.
        let wide = Wide(vec![(None, ()); 20_000]);
        let bytes = encode(&wide, b"key").unwrap();
        assert!(decode::<Wide>(b"key", &bytes).unwrap() == wide);

        let overhead = encode(&note(7, "x", ""), b"key").unwrap().len() - 1;
        let largest = note(7, &"x".repeat(MAX_RECORD_BYTES - overhead), "");
        let bytes = encode(&largest, b"key").unwrap();
        assert_eq!(bytes.len(), MAX_RECORD_BYTES);
        assert!(decode::<Note>(b"key", &bytes).unwrap() == largest);
        let larger = note(7, &"x".repeat(MAX_RECORD_BYTES - overhead + 1), "");
        assert_eq!(encode(&larger, b"key").unwrap_err().code(), "record_too_large");
    }
}
