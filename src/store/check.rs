//! The consistency check: every record can be read, every index entry has its record, every record
//! its index entries and the targets of its references.

use super::codec;
use super::engine::{KeyRange, Order, Reader};
use super::record::{AnyRecord, IndexTable, Table, entry};
use super::reference::{Action, AnyReference, References};
use super::removal::is_pending;
use crate::base::Result;
use std::ops::ControlFlow;

/// At most 1,000 messages are kept: enough to see what kind of damage it is.
const MAX_MESSAGES: usize = 1000;

/// The findings of a check.
#[derive(Debug, Default)]
pub struct Findings {
    /// Records read.
    pub records: u64,
    /// Index entries read.
    pub entries: u64,
    /// Number of problems.
    pub wrong: u64,
    /// A sentence for each of the first 1,000 problems.
    pub messages: Vec<String>,
    /// Indexes that are not built yet and were not read.
    pub unbuilt: Vec<&'static str>,
}

impl Findings {
    /// Adds the findings of another check.
    pub fn add(&mut self, other: Findings) {
        self.records += other.records;
        self.entries += other.entries;
        self.wrong += other.wrong;
        let room = MAX_MESSAGES.saturating_sub(self.messages.len());
        for index in other.unbuilt {
            if !self.unbuilt.contains(&index) {
                self.unbuilt.push(index);
            }
        }
        self.messages.extend(other.messages.into_iter().take(room));
    }

    /// Reports a problem.
    pub fn report(&mut self, message: String) {
        self.wrong += 1;
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(message);
        }
    }
}

/// An index with its place in its table.
type Place = (usize, &'static dyn IndexTable);

const EVERYTHING: KeyRange<'static> = KeyRange { from: &[], to: None };

/// Checks one table, its indexes and its references.
pub(super) fn table(
    table: &Table,
    reader: &dyn Reader,
    references: &References,
    findings: &mut Findings,
) -> Result<()> {
    let is_built = |(_, index): &Place| !findings.unbuilt.contains(&index.name());
    let indexes: Vec<Place> = table.indexes().enumerate().filter(is_built).collect();
    reader.scan(table.name, EVERYTHING, Order::Ascending, &mut |key, value| {
        findings.records += 1;
        match (table.decode)(key, value) {
            Ok(record) => {
                has_entries(&*record, key, &indexes, reader, findings)?;
                has_targets(&*record, key, reader, references, findings)?;
            }
            Err(error) => findings.report(error.log_detail().unwrap_or(error.message()).into()),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for index in &indexes {
        let name = index.1.name();
        reader.scan(name, EVERYTHING, Order::Ascending, &mut |key, value| {
            findings.entries += 1;
            if !has_record(table, *index, (key, value), reader)? {
                let key = codec::hex(key);
                findings.report(format!("{name} {key}: has no record that belongs to it"));
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(())
}

/// Reports which index entries of a record are missing or wrong.
fn has_entries(
    record: &dyn AnyRecord,
    key: &[u8],
    indexes: &[Place],
    reader: &dyn Reader,
    findings: &mut Findings,
) -> Result<()> {
    let table = record.table();
    let place = || format!("{} {}", table.name, codec::hex(key));
    if !table.is_own_key(record, key) {
        findings.report(format!("{}: is stored under another record's key", place()));
        return Ok(());
    }
    for (at, index) in indexes {
        for own in record.index_keys(*at) {
            let (entry, value) = entry(*index, &own, key, table.org_prefix_len);
            let mut is_right = false;
            reader.get(index.name(), &entry, &mut |found| {
                is_right = found == value;
                Ok(())
            })?;
            if !is_right {
                findings.report(format!("{}: is missing in {}", place(), index.name()));
            }
        }
    }
    Ok(())
}

/// Returns the references of a record to something that is gone, each with the key of that, or the
/// beginning of the key; except those that a sweep is about to remove or clear.
pub(super) fn dangling(
    record: &dyn AnyRecord,
    key: &[u8],
    reader: &dyn Reader,
    references: &References,
) -> Result<Vec<(&'static dyn AnyReference, Vec<u8>)>> {
    let table = record.table();
    let org = table.owner(key);
    let mut found = Vec::new();
    for &reference in references.from(table.name) {
        let Some(target) = reference.dangling(reader, org, record)? else { continue };
        if reference.is_deferred() && is_pending(reader, org, reference, &target)? {
            if reference.action() == Action::Cascade {
                return Ok(Vec::new()); // It is about to be removed, whatever else it refers to.
            }
            continue;
        }
        found.push((reference, target));
    }
    Ok(found)
}

/// Reports references to missing records.
fn has_targets(
    record: &dyn AnyRecord,
    key: &[u8],
    reader: &dyn Reader,
    references: &References,
    findings: &mut Findings,
) -> Result<()> {
    for (reference, target) in dangling(record, key, reader, references)? {
        findings.report(format!(
            "{} {}: {} refers to {} {}, which does not exist",
            record.table().name,
            codec::hex(key),
            reference.fields().join(", "),
            reference.to(),
            codec::hex(&target)
        ));
    }
    Ok(())
}

/// Returns whether an index entry belongs to a record.
fn has_record(
    table: &Table,
    (at, index): Place,
    (key, value): (&[u8], &[u8]),
    reader: &dyn Reader,
) -> Result<bool> {
    let Some((owner, rest)) = key.split_at_checked(table.org_prefix_len) else { return Ok(false) };
    let record_key = match index.conflict() {
        Some(_) => value,
        None => match index.key_len(rest) {
            Some(len) => &rest[len..],
            None => return Ok(false),
        },
    };
    let record_key = [owner, record_key].concat();
    let mut is_right = false;
    reader.get(table.name, &record_key, &mut |bytes| {
        // A record that cannot be decoded has been reported already.
        is_right = (table.decode)(&record_key, bytes).map_or(true, |record| {
            let is_it =
                |own: &Vec<u8>| entry(index, own, &record_key, table.org_prefix_len).0 == key;
            record.index_keys(at).iter().any(is_it)
        });
        Ok(())
    })?;
    Ok(is_right)
}
