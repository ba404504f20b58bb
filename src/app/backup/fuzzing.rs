//! Files that may be backups.

use super::block::{BlockReader, BlockWriter, Kind, MAGIC};
use super::header::{FORMAT, PRODUCT, TableHeader};
use super::*;
use crate::base::Time;
use crate::fuzzing::script::Script;
use crate::store::{codec, record_tables};

/// A block and its content.
type Block = (Kind, Vec<u8>);

/// Any bytes are a backup or refused, and of a damaged one no block is taken that was not written.
///
/// # Panics
/// If that is not so.
pub fn backup(input: &[u8]) {
    let mut script = Script::new(input);
    match script.byte() % 3 {
        0 => {
            refused_or_whole(input.get(1..).unwrap_or_default());
            refused_or_whole(&[MAGIC.as_slice(), input].concat());
        }
        1 => damaged(&mut script),
        _ => of_valid_blocks(&mut script),
    }
}

fn refused_or_whole(file: &[u8]) {
    if let Err(error) = verify(file, &mut |_| {}) {
        assert!(!matches!(error, BackupError::Failed(_)), "trying again does not help: {error}");
        assert!(!error.message().is_empty());
    }
}

fn write(blocks: &[Block]) -> Vec<u8> {
    let mut writer = BlockWriter::new(Vec::new()).expect("a vector takes all");
    for (kind, content) in blocks {
        writer.write(*kind, content).expect("a vector takes all");
    }
    writer.into_inner()
}

/// The blocks of a file up to the first that is wrong, and whether it ends there.
fn read(file: &[u8], most: usize) -> (Vec<Block>, bool) {
    let mut blocks = Vec::new();
    let Ok(mut reader) = BlockReader::new(file) else { return (blocks, false) };
    while blocks.len() < most {
        match reader.next() {
            Ok(block) => blocks.push(block),
            Err(error) => {
                assert!(matches!(error, BackupError::Damaged(_)), "{error}");
                return (blocks, false);
            }
        }
    }
    (blocks, reader.end().is_ok())
}

fn damaged(script: &mut Script<'_>) {
    let (at, other, cut) = (script.below(usize::MAX), script.byte(), script.byte());
    let mut written = Vec::new();
    while !script.is_over() && written.len() < 16 {
        let kind = [Kind::Header, Kind::Rows, Kind::Totals][usize::from(script.byte() % 3)];
        let len = usize::from(script.byte());
        written.push((kind, script.bytes(len).to_vec()));
    }
    let mut file = write(&written);
    assert_eq!(read(&file, written.len()), (written.clone(), true));
    file.push(0);
    assert_eq!(read(&file, written.len()), (written.clone(), false), "there is more");
    file.pop();
    let at = at % file.len();
    file[at] ^= other;
    file.truncate(if cut == 0 { file.len() } else { file.len() - usize::from(cut) % file.len() });
    let (found, is_whole) = read(&file, written.len());
    assert!(written.starts_with(&found), "a block was not written");
    // A changed byte before the end of the last block is found.
    assert_eq!(is_whole && found.len() == written.len(), file == write(&written));
}

/// Blocks whose checksums are right: what somebody may have made who knows the format.
fn of_valid_blocks(script: &mut Script<'_>) {
    let tables = record_tables(&crate::resources::tables());
    let header = Header {
        product: PRODUCT.into(),
        format: FORMAT,
        version: "0".into(),
        backup_id: "0".into(),
        installation: "0".into(),
        taken_at: Time::from_millis(0),
        directory_format: String::new(),
        secret_key: None,
        audit_checkpoints: Vec::new(),
        tables: tables.iter().map(TableHeader::of).collect(),
        erasures: None,
        written_by: None,
    };
    let json = serde_json::to_vec(&header).expect("a header is JSON");
    let mut blocks = vec![(Kind::Header, json)];
    let (mut totals, form) =
        (Totals { tables: vec![0; tables.len()], ..Totals::default() }, script.byte());
    while !script.is_over() && blocks.len() < 16 {
        let len = usize::from(script.byte());
        blocks.push((Kind::Rows, script.bytes(len).to_vec()));
    }
    let mut writer = BlockWriter::new(Vec::new()).expect("a vector takes all");
    for (kind, content) in &blocks {
        writer.write(*kind, content).expect("a vector takes all");
    }
    let (count, hash) = writer.so_far();
    (totals.blocks, totals.hash) = (count, codec::hex(&hash));
    totals.records = u64::from(form % 2);
    let totals = serde_json::to_vec(&totals).expect("totals are JSON");
    writer.write(Kind::Totals, &totals).expect("a vector takes all");
    let file = writer.into_inner();
    // Without rows it is a backup of an empty installation.
    if blocks.len() == 1 && form % 2 == 0 {
        verify(file.as_slice(), &mut |_| {}).expect("it is whole");
    }
    refused_or_whole(&file);
}
