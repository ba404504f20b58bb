//! Bytes that may be records of the log.

use std::collections::BTreeMap;

use super::super::record::{
    ALIGNMENT, DELETION, Link, LogId, changes, claimed_len, encode, header,
};
use super::{Script, TABLES, row, write_op};
use crate::store::engine::WriteBatch;

const HEADER_BYTES: usize = 32;

/// A table, a key and its value.
type Change = (String, Vec<u8>, Option<Vec<u8>>);

/// Any bytes are a valid record or none; what was written is read, and is none once a byte is another.
///
/// # Panics
/// If that is not so.
pub fn record(input: &[u8]) {
    for log in [LogId::new([7; 16]), LogId::of_first_format([7; 16])] {
        if let Some(header) = header(log, input) {
            assert_eq!(claimed_len(log, input), Some(header.len));
            assert!(header.len <= input.len() && header.len.is_multiple_of(ALIGNMENT));
        }
    }
    changes_in(input);
    // As a payload, behind a header that says how long it is.
    let Ok(len) = u32::try_from(input.len()) else { return };
    changes_in(&[&[0; 4], &len.to_le_bytes()[..], &[0; 24], input].concat());
    written(&mut Script::new(input));
}

/// The changes of a record, all of them inside of it; `None` if it is none.
fn changes_in(record: &[u8]) -> Option<Vec<Change>> {
    let mut found = Vec::new();
    let read = changes(record, |table, place| {
        let key_at = place.key_at as usize;
        let value_at = key_at + usize::from(place.key_len);
        let value = (place.value_len != DELETION)
            .then(|| record[value_at..value_at + place.value_len as usize].to_vec());
        found.push((table.to_string(), record[key_at..value_at].to_vec(), value));
    });
    assert!(found.len() <= record.len() / 6, "each takes six bytes");
    read.map(|()| found)
}

fn written(script: &mut Script<'_>) {
    let log = LogId::new(script.bytes(16).try_into().unwrap_or([7; 16]));
    let before = Link { number: script.byte().into(), checksum: script.byte().into() };
    let (place, other) = (script.below(usize::MAX), script.byte());
    let (mut writes, mut want) = (WriteBatch::default(), BTreeMap::new());
    while !script.is_over() {
        let (table, key, value) = row(script);
        let table = TABLES[usize::from(table)];
        writes.add(table, key.clone(), write_op(value.clone()));
        want.insert((table.to_string(), key), value);
    }
    let (mut record, link) = match encode(log, before, &writes) {
        Some((record, link)) => (record.to_vec(), link),
        None => panic!("a short batch has a record"),
    };
    let found = header(log, &record).expect("it was written");
    assert!(found.link == link && found.follows(before) && found.len == record.len());
    let want = want.into_iter().map(|((table, key), value)| (table, key, value)).collect();
    assert_eq!(changes_in(&record), Some(want));

    assert_eq!(header(log, &record[..place % record.len()]), None, "it is cut short");
    let payload = record[4..8].try_into().map_or(0, u32::from_le_bytes) as usize;
    let at = place % (HEADER_BYTES + payload);
    record[at] ^= other;
    assert_eq!(header(log, &record).is_some(), other == 0, "byte {at} is another");
}
