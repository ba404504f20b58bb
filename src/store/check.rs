//! Whether what lies in the tables is whole: every record reads, every index entry has its record,
//! every record its entries.

use super::codec;
use super::engine::{Order, Reader, Span, Step};
use super::record::Record;
use crate::base::Result;

/// At most 1,000 findings are kept: enough to see what kind of damage it is.
const MAX_KEPT: usize = 1000;

/// What a check found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Records read.
    pub records: u64,
    /// Index entries read.
    pub entries: u64,
    /// How many things are wrong.
    pub wrong: u64,
    /// What is wrong, a sentence each; the first thousand.
    pub messages: Vec<String>,
}

impl Findings {
    /// Notes something wrong.
    pub fn note(&mut self, message: String) {
        self.wrong += 1;
        if self.messages.len() < MAX_KEPT {
            self.messages.push(message);
        }
    }
}

const EVERYTHING: Span<'static> = Span { from: &[], to: None };
const OWNER_BYTES: usize = 16;

/// Checks one table and its indexes.
pub(super) fn table<R: Record>(reader: &dyn Reader, findings: &mut Findings) -> Result<()> {
    reader.scan(R::TABLE, EVERYTHING, Order::Ascending, &mut |key, value| {
        findings.records += 1;
        match codec::decode::<R>(key, value) {
            Ok(record) => entries_of(&record, key, reader, findings)?,
            Err(error) => findings.note(error.to_string()),
        }
        Ok(Step::More)
    })?;
    for index in R::INDEXES {
        reader.scan(index.name(), EVERYTHING, Order::Ascending, &mut |key, value| {
            findings.entries += 1;
            let owner = if R::OWNED { OWNER_BYTES } else { 0 };
            let record_key = key.split_at_checked(owner).and_then(|(owner, entry)| {
                let own = match index.taken() {
                    Some(_) => value,
                    None => &entry[index.key_len(entry)?..],
                };
                Some([owner, own].concat())
            });
            let stands = match &record_key {
                None => false,
                Some(record_key) => {
                    let mut stands = false;
                    reader.get(R::TABLE, record_key, &mut |bytes| {
                        // A record that does not read has been noted above.
                        stands = codec::decode::<R>(record_key, bytes).map_or(true, |record| {
                            expected(&record, *index, record_key)
                                .is_some_and(|(expected, _)| expected == key)
                        });
                        Ok(())
                    })?;
                    stands
                }
            };
            if !stands {
                findings.note(format!(
                    "{} {}: has no record that belongs there",
                    index.name(),
                    codec::hex(key)
                ));
            }
            Ok(Step::More)
        })?;
    }
    Ok(())
}

fn entries_of<R: Record>(
    record: &R,
    key: &[u8],
    reader: &dyn Reader,
    findings: &mut Findings,
) -> Result<()> {
    use super::key::Key as _;
    let own = record.key().to_bytes();
    if !key.ends_with(&own) {
        findings.note(format!("{} {}: lies under another's key", R::TABLE, codec::hex(key)));
        return Ok(());
    }
    for index in R::INDEXES {
        let Some((entry, value)) = expected(record, *index, key) else { continue };
        let mut stands = false;
        reader.get(index.name(), &entry, &mut |found| {
            stands = found == value;
            Ok(())
        })?;
        if !stands {
            findings.note(format!(
                "{} {}: is missing in {}",
                R::TABLE,
                codec::hex(key),
                index.name()
            ));
        }
    }
    Ok(())
}

/// The entry that a record lying under `key` should have.
fn expected<R: Record>(
    record: &R,
    index: &dyn super::record::AnyIndex<R>,
    key: &[u8],
) -> Option<(Vec<u8>, Vec<u8>)> {
    let (owner, record_key) = key.split_at_checked(if R::OWNED { OWNER_BYTES } else { 0 })?;
    let entry = [owner, &index.key_of(record)?].concat();
    Some(match index.taken() {
        Some(_) => (entry, record_key.to_vec()),
        None => ([entry.as_slice(), record_key].concat(), Vec::new()),
    })
}
