//! Backups of data that is damaged: one that cannot be restored is not made.

use super::*;
use crate::auth::{Organization, User};
use crate::store::{Record as _, TableInfo};

/// Changes the rows on their way to the writer, as a page does whose bits have flipped.
struct Changed<'a, S>(&'a mut S, &'a dyn Fn(&mut Vec<u8>));

impl<S: Sink> Sink for Changed<'_, S> {
    fn header(&mut self, header: &Header) -> std::io::Result<()> {
        self.0.header(header)
    }
    fn audit_heads(&mut self, block: &[u8]) -> std::io::Result<()> {
        self.0.audit_heads(block)
    }
    fn rows(&mut self, block: &[u8]) -> std::io::Result<()> {
        let mut block = block.to_vec();
        (self.1)(&mut block);
        self.0.rows(&block)
    }
}

/// A backup whose rows are changed before they are written.
fn changed(
    place: &Place,
    leaves_out: bool,
    change: &dyn Fn(&mut Vec<u8>),
) -> Result<(Vec<u8>, Totals), BackupError> {
    let mut progress = |_: &Totals| {};
    let writer = BackupWriter::new(Vec::new(), &mut progress).unwrap();
    let mut writer = writer.leaving_out(leaves_out);
    let mut sink = Changed(&mut writer, change);
    send(Some(&place.dir), &place.store, false, false, &mut sink)?;
    let (backup, _, totals) = writer.finish()?;
    Ok((backup, totals))
}

fn position_of(table: &str) -> u16 {
    let tables = record_tables(&crate::resources::tables());
    u16::try_from(tables.iter().position(|own| own.name == table).unwrap()).unwrap()
}

/// Flips a bit of the last record of this table.
fn flipping(table: &str) -> impl Fn(&mut Vec<u8>) {
    let position = position_of(table).to_be_bytes();
    move |block| {
        if block.starts_with(&position) {
            *block.last_mut().unwrap() ^= 1;
        }
    }
}

#[test]
fn a_record_that_cannot_be_read_ends_a_backup_by_name_and_is_left_out_if_that_is_wanted() {
    let place = founded();
    let whole = verify(place.backup().as_slice(), &mut |_| {}).unwrap().1;
    let flip = flipping(User::TABLE);
    let said = changed(&place, false, &flip).err().unwrap();
    assert!(said.message().starts_with("users "), "{said}");
    assert!(said.message().contains("has a wrong checksum"), "{said}");
    assert!(said.message().contains("roadstead repair"), "{said}");
    assert!(said.message().contains("--despite-damage"), "{said}");

    let (backup, totals) = changed(&place, true, &flip).unwrap();
    assert_eq!((totals.left_out.count, totals.records), (1, whole.records - 1));
    assert!(totals.left_out.records[0].contains("has a wrong checksum"), "{totals:?}");
    assert_eq!(verify(backup.as_slice(), &mut |_| {}).unwrap().1, totals);
    let restored = place.restore(&backup, &place.settings()).unwrap();
    assert_eq!(restored.totals.left_out, totals.left_out);
    let (expected, got) = (records(&place.store), records(&place.other().open().unwrap()));
    assert_eq!(got.len() + 1, expected.len());
    assert!(got.iter().all(|(row, value)| expected.get(row) == Some(value)));
}

/// What is before and behind it in the same block stays.
#[test]
fn rows_around_one_that_cannot_be_read_are_kept() {
    let place = founded();
    let org = place.store.read_now(Id::NIL, organizations::all).unwrap()[0];
    let about = move || About::resource("agent", org);
    for _ in 0..4 {
        let event = move |tx: &mut Tx| publish(tx, EventType::AgentError, about(), Value::Null);
        place.store.write_blocking(org, event).unwrap();
    }
    let count = records(&place.store).keys().filter(|(table, _)| *table == "events").count();
    assert_eq!(count, 5);
    let position = position_of("events").to_be_bytes();
    for nth in 0..count {
        let flip = |block: &mut Vec<u8>| {
            if !block.starts_with(&position) {
                return;
            }
            let mut at = 2;
            for _ in 0..nth {
                let len = |at: usize| u32::from_be_bytes(block[at..at + 4].try_into().unwrap());
                at += 8 + (len(at) + len(at + 4)) as usize;
            }
            block[at + 8] ^= 1; // In its key.
        };
        let (backup, totals) = changed(&place, true, &flip).unwrap();
        assert_eq!(totals.left_out.count, 1, "{totals:?}");
        let (stored, mut kept) = (records(&place.store), 0);
        let each = |table: &TableInfo, key: &[u8], value: &[u8]| {
            assert_eq!(stored.get(&(table.name, key.to_vec())).map(Vec::as_slice), Some(value));
            kept += usize::from(table.name == "events");
            Ok(())
        };
        Backup::open(backup.as_slice()).unwrap().read(each, &mut |_| {}).unwrap();
        assert_eq!(kept, count - 1);
    }
}

#[test]
fn rows_that_are_out_of_order_do_not_make_a_backup_that_is_refused() {
    let place = founded();
    let position = position_of(Organization::TABLE).to_be_bytes();
    let twice = |block: &mut Vec<u8>| {
        if block.starts_with(&position) {
            block.extend_from_within(2..);
        }
    };
    let said = changed(&place, false, &twice).err().unwrap();
    assert!(said.message().contains("is not in the order of the table"), "{said}");
    let (backup, totals) = changed(&place, true, &twice).unwrap();
    assert_eq!(totals.left_out.count, 1);
    place.restore(&backup, &place.settings()).unwrap();
    assert!(records(&place.other().open().unwrap()) == records(&place.store));
}

#[test]
fn a_row_that_a_block_repeats_of_the_one_before_is_found() {
    let place = founded();
    let backup = place.backup();
    let position = position_of(Organization::TABLE).to_be_bytes();
    let mut blocks = BlockReader::new(backup.as_slice()).unwrap();
    let mut longer = BlockWriter::new(Vec::new()).unwrap();
    for _ in 1..boundaries(&backup).len() {
        let (kind, content) = blocks.next().unwrap();
        longer.write(kind, &content).unwrap();
        if kind == Kind::Rows && content.starts_with(&position) {
            longer.write(kind, &content).unwrap();
        }
    }
    let said = verify(longer.into_inner().as_slice(), &mut |_| {}).err().unwrap();
    assert!(said.message().contains("not in order"), "{said}");
}

#[test]
fn however_much_is_left_out_the_list_fits_into_the_last_block() {
    let mut left_out = LeftOut::default();
    for _ in 0..20_000 {
        left_out.add(&"ä".repeat(5_000));
    }
    assert_eq!((left_out.count, left_out.records.len()), (20_000, 1_000));
    let totals = Totals { left_out, ..Totals::default() };
    let mut writer = BlockWriter::new(Vec::new()).unwrap();
    writer.write(Kind::Totals, &serde_json::to_vec(&totals).unwrap()).unwrap();
}

/// So that an earlier release reads every backup of sound data.
#[test]
fn nothing_is_noted_where_nothing_is_left_out() {
    let totals = serde_json::to_value(Totals::default()).unwrap();
    assert_eq!(totals.get("leftOut"), None);
    let earlier: Totals = serde_json::from_value(totals).unwrap();
    assert_eq!(earlier, Totals::default());
}
