//! The records of the log: one for each commit, each bound to the one before it.
//!
//! `[magic: 4 bytes][length of the payload: 4][number: 8][checksum of the record before it: 8]
//! [checksum: 8][payload][zeros up to a multiple of 64]`, all numbers with their smallest byte first.
//! The checksum covers everything but itself, and is seeded with the id of the log: a record of another
//! log, or bytes in somebody's text that look like a record, are none. The magic comes from the id
//! too: nobody can write texts that make the reading of a log compute checksums of what is none.
//!
//! The payload has the changes of each table: `[length of the name: 2][name][number of changes: 4]`,
//! and for each change `[length of the key: 2][length of the value: 4][key][value]`; a length of
//! `u32::MAX` is a deletion.

use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::store::engine::{WriteBatch, WriteOp};

/// Records begin at multiples of 64 bytes, so that they can be looked for.
pub const ALIGNMENT: usize = 64;

/// The magic of the logs of the first format.
const FIRST_MAGIC: [u8; 4] = *b"rlog";
const HEADER_BYTES: usize = 32;
const CHECKSUM_AT: usize = 24;

/// The length of the value of a deletion.
pub const DELETION: u32 = u32::MAX;

/// The longest payload: far more than the largest group of writes (some 10 MiB).
const MAX_PAYLOAD_BYTES: usize = 64 * 1024 * 1024;

/// The id of a log, which is secret: who knew it could write a text that looks like a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogId {
    /// The id itself.
    pub id: [u8; 16],
    magic: [u8; 4],
}

impl LogId {
    /// A log with this id.
    pub fn new(id: [u8; 16]) -> Self {
        let [a, b, c, d, ..] = xxh3_64(&[b"magic".as_slice(), &id].concat()).to_le_bytes();
        LogId { id, magic: [a, b, c, d] }
    }

    /// A log of the first format, whose magic everybody knows.
    pub fn of_first_format(id: [u8; 16]) -> Self {
        LogId { id, magic: FIRST_MAGIC }
    }

    /// Returns whether it is of the first format.
    pub fn is_of_first_format(&self) -> bool {
        self.magic == FIRST_MAGIC
    }

    /// Returns the seed of the checksums of its records.
    fn seed(self) -> u64 {
        xxh3_64(&self.id)
    }
}

/// A place in the chain of records: the number of a record and its checksum. The default is the
/// place before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The number of the record; they have no gaps.
    pub number: u64,
    pub checksum: u64,
}

/// What the header of a valid record says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// The place of the record in the chain.
    pub link: Link,
    /// The checksum of the record before it.
    pub previous: u64,
    /// The bytes of the record, with header and padding.
    pub len: usize,
}

impl Header {
    /// Returns whether this record follows `before`.
    pub fn follows(&self, before: Link) -> bool {
        self.link.number == before.number + 1 && self.previous == before.checksum
    }
}

/// Where a change is in its record.
#[derive(Clone, Copy)]
pub struct Place {
    /// The position of the key; the value follows it.
    pub key_at: u32,
    /// The length of the key.
    pub key_len: u16,
    /// The length of the value, or [`DELETION`].
    pub value_len: u32,
}

fn checksum(log: LogId, record: &[u8], end: usize) -> u64 {
    let mut hasher = Xxh3::with_seed(log.seed());
    hasher.update(&record[..CHECKSUM_AT]);
    hasher.update(&record[HEADER_BYTES..end]);
    hasher.digest()
}

/// Returns the record of a batch that follows `before`, with its place in the chain; `None` if a key,
/// a table's changes or the whole is too long for the format.
pub fn encode(log: LogId, before: Link, writes: &WriteBatch) -> Option<(Arc<[u8]>, Link)> {
    let names: usize = writes.tables.keys().map(|name| 6 + name.len()).sum();
    let payload = names + 6 * writes.len() + writes.bytes();
    let end = HEADER_BYTES + payload;
    if payload > MAX_PAYLOAD_BYTES {
        return None;
    }
    let mut record = Vec::with_capacity(end.next_multiple_of(ALIGNMENT));
    record.extend_from_slice(&log.magic);
    record.extend_from_slice(&u32::try_from(payload).ok()?.to_le_bytes());
    let number = before.number + 1;
    record.extend_from_slice(&number.to_le_bytes());
    record.extend_from_slice(&before.checksum.to_le_bytes());
    record.extend_from_slice(&[0; HEADER_BYTES - CHECKSUM_AT]);
    for (name, changes) in &writes.tables {
        record.extend_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
        record.extend_from_slice(name.as_bytes());
        record.extend_from_slice(&u32::try_from(changes.len()).ok()?.to_le_bytes());
        for (key, op) in changes {
            record.extend_from_slice(&u16::try_from(key.len()).ok()?.to_le_bytes());
            record.extend_from_slice(&value_len(op)?.to_le_bytes());
            record.extend_from_slice(key);
            record.extend_from_slice(op.value().unwrap_or_default());
        }
    }
    debug_assert_eq!(record.len(), end);
    let checksum = checksum(log, &record, end);
    record[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    record.resize(end.next_multiple_of(ALIGNMENT), 0);
    Some((record.into(), Link { number, checksum }))
}

fn value_len(op: &WriteOp) -> Option<u32> {
    let Some(value) = op.value() else { return Some(DELETION) };
    u32::try_from(value.len()).ok().filter(|len| *len != DELETION)
}

/// Returns a valid record of any log as the one of `log` that follows `before`, with its place in the
/// chain.
pub fn following(log: LogId, before: Link, record: &[u8]) -> (Vec<u8>, Link) {
    let (mut record, number) = (record.to_vec(), before.number + 1);
    let payload = Fields { rest: &record[4..] }.u32().unwrap_or_default();
    record[..4].copy_from_slice(&log.magic);
    record[8..16].copy_from_slice(&number.to_le_bytes());
    record[16..CHECKSUM_AT].copy_from_slice(&before.checksum.to_le_bytes());
    let checksum = checksum(log, &record, HEADER_BYTES + payload as usize);
    record[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    (record, Link { number, checksum })
}

/// Returns the header of the record that begins here; `None` if there is no valid one.
pub fn header(log: LogId, bytes: &[u8]) -> Option<Header> {
    let len = claimed_len(log, bytes)?;
    let mut fields = Fields { rest: bytes.get(4..)? };
    let payload = fields.u32()?;
    let (number, previous, sum) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let end = HEADER_BYTES + usize::try_from(payload).ok()?;
    let is_valid = len <= bytes.len() && checksum(log, bytes, end) == sum;
    is_valid.then_some(Header { link: Link { number, checksum: sum }, previous, len })
}

/// Returns the number that the record that begins here would have, if it is one.
pub fn claimed_number(log: LogId, bytes: &[u8]) -> Option<u64> {
    claimed_len(log, bytes)?;
    Fields { rest: bytes.get(8..)? }.u64()
}

/// Returns how long the record that begins here would be, if it is one.
pub fn claimed_len(log: LogId, bytes: &[u8]) -> Option<usize> {
    let mut fields = Fields { rest: bytes };
    let has_magic = fields.take(4)? == log.magic;
    let payload = usize::try_from(fields.u32()?).ok()?;
    let is_record = has_magic && payload <= MAX_PAYLOAD_BYTES;
    is_record.then(|| (HEADER_BYTES + payload).next_multiple_of(ALIGNMENT))
}

/// Calls `each` with the table and the place of every change of a valid record, in its order. `None`
/// if the payload is not what [`encode`] writes.
pub fn changes<'a>(record: &'a [u8], mut each: impl FnMut(&'a str, Place)) -> Option<()> {
    let mut header = Fields { rest: record.get(4..)? };
    let end = HEADER_BYTES + usize::try_from(header.u32()?).ok()?;
    let payload = record.get(HEADER_BYTES..end)?;
    let mut fields = Fields { rest: payload };
    while !fields.rest.is_empty() {
        let name_len = fields.u16()?;
        let name = std::str::from_utf8(fields.take(usize::from(name_len))?).ok()?;
        for _ in 0..fields.u32()? {
            let (key_len, value_len) = (fields.u16()?, fields.u32()?);
            let key_at = u32::try_from(end - fields.rest.len()).ok()?;
            fields.take(usize::from(key_len))?;
            if value_len != DELETION {
                fields.take(usize::try_from(value_len).ok()?)?;
            }
            each(name, Place { key_at, key_len, value_len });
        }
    }
    Some(())
}

/// Reads fields from the front of some bytes.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(field)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> LogId {
        LogId::new([7; 16])
    }

    fn batch() -> WriteBatch {
        let mut writes = WriteBatch::default();
        writes.add("a", b"k1".to_vec(), WriteOp::Insert(b"value".to_vec()));
        writes.add("a", b"k2".to_vec(), WriteOp::Delete);
        writes.add("b.by_c", b"".to_vec(), WriteOp::Put(vec![]));
        writes
    }

    #[test]
    fn a_record_reads_as_it_was_written_and_knows_what_it_follows() {
        let before = Link { number: 41, checksum: 5 };
        let (record, link) = encode(log(), before, &batch()).unwrap();
        assert_eq!(record.len() % ALIGNMENT, 0);
        let header = header(log(), &[&record[..], b"what follows"].concat()).unwrap();
        assert_eq!((header.link, header.len), (link, record.len()));
        assert!(header.follows(before) && !header.follows(Link::default()));
        assert!(!header.follows(Link { checksum: 6, ..before }));
        let mut seen = Vec::new();
        let read = changes(&record, |table, place| {
            let key_at = place.key_at as usize;
            let value_at = key_at + usize::from(place.key_len);
            let value = (place.value_len != DELETION)
                .then(|| record[value_at..value_at + place.value_len as usize].to_vec());
            seen.push((table.to_string(), record[key_at..value_at].to_vec(), value));
        });
        read.unwrap();
        let row = |table: &str, key: &str, value: Option<&str>| {
            (table.to_string(), key.as_bytes().to_vec(), value.map(|v| v.as_bytes().to_vec()))
        };
        let want =
            [row("a", "k1", Some("value")), row("a", "k2", None), row("b.by_c", "", Some(""))];
        assert_eq!(seen, want);
    }

    #[test]
    fn a_record_with_a_flipped_bit_cut_short_or_of_another_log_is_none() {
        let (record, _) = encode(log(), Link::default(), &batch()).unwrap();
        let covered = HEADER_BYTES + u32::from_le_bytes(record[4..8].try_into().unwrap()) as usize;
        for bit in 0..covered * 8 {
            let mut flipped = record.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(header(log(), &flipped), None, "bit {bit}");
        }
        for len in 0..record.len() {
            assert_eq!(header(log(), &record[..len]), None);
        }
        assert_eq!(header(LogId::new([8; 16]), &record), None);
        assert_eq!(header(log(), &[0; 4096]), None);
    }

    #[test]
    fn a_text_cannot_claim_to_be_a_record() {
        let claims = |magic: &[u8; 4], len: u32| [&magic[..], &len.to_le_bytes()].concat();
        let claimed = |log: LogId| claimed_len(log, &claims(&log.magic, 100));
        assert_eq!(claimed(log()), Some(192));
        assert_eq!(claimed_len(log(), &claims(&FIRST_MAGIC, 100)), None, "what everybody knows");
        assert_eq!(claimed_len(log(), &claims(&LogId::new([8; 16]).magic, 100)), None);
        assert_eq!(claimed_len(log(), &claims(&log().magic, u32::MAX)), None, "longer than any");
        assert_eq!(claimed(LogId::of_first_format([7; 16])), Some(192));
    }
}
