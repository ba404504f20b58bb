//! Records of a damaged store that have the same key in a unique index: one of them is kept.

use std::collections::{BTreeMap, HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use super::super::catalog::TableInfo;
use super::super::codec;
use super::super::reference::References;
use super::super::rows::record_tables;
use super::damaged::Damaged;
use crate::base::Result;

/// Keys of records by table, each with a number or a text.
type ByRecord<T> = HashMap<&'static str, BTreeMap<Vec<u8>, T>>;

/// The records that are left out, each with the reason.
#[derive(Default)]
pub struct Duplicates(ByRecord<String>);

/// Records with the same key in an index.
struct Group {
    table: &'static str,
    index: &'static str,
    records: Vec<Vec<u8>>,
}

impl Duplicates {
    /// Finds them. Of each group the record that more records refer to is kept; of those the newest,
    /// which has the largest key: ids grow with time.
    pub fn find(damaged: &Damaged<'_>, references: &References) -> Result<Self> {
        let mut groups = Vec::new();
        for table in record_tables(damaged.tables) {
            for (place, index) in table.indexes().iter().enumerate() {
                if index.is_unique {
                    groups.append(&mut groups_in(damaged, &table, place, index.name)?);
                }
            }
        }
        if groups.is_empty() {
            return Ok(Duplicates::default());
        }
        let referrers = count_referrers(damaged, references, &groups)?;
        let mut found = Duplicates::default();
        for group in groups {
            found.decide(group, &referrers);
        }
        Ok(found)
    }

    /// Says why a record is left out, if it is.
    pub fn why(&self, table: &str, key: &[u8]) -> Option<String> {
        self.0.get(table)?.get(key).cloned()
    }

    fn decide(&mut self, mut group: Group, referrers: &ByRecord<u64>) {
        let left_out = self.0.entry(group.table).or_default();
        group.records.retain(|key| !left_out.contains_key(key));
        let count = |key: &Vec<u8>| referrers[group.table].get(key).copied().unwrap_or_default();
        let Some(kept) = group.records.iter().max_by_key(|key| (count(key), *key)).cloned() else {
            return;
        };
        for key in group.records.into_iter().filter(|key| *key != kept) {
            let reason =
                if count(&key) < count(&kept) { "more refers to it" } else { "it is newer" };
            let kept = codec::hex(&kept);
            let why =
                format!("has the same key in {} as {kept}, which is kept: {reason}", group.index);
            left_out.insert(key, why);
        }
    }
}

/// Returns the groups of one index. In memory are a hash for each record, and the groups.
fn groups_in(
    damaged: &Damaged<'_>,
    table: &TableInfo,
    place: usize,
    index: &'static str,
) -> Result<Vec<Group>> {
    (damaged.progress)(&format!("comparing {index}"));
    let each_entry = |each: &mut dyn FnMut(Vec<u8>, &[u8])| {
        damaged.each_row(table, &mut |key, value| {
            if damaged.is_readable(table, key, value) {
                let entries = table.entries(place, key, value)?.into_iter();
                entries.for_each(|(entry, _)| each(entry, key));
            }
            Ok(())
        })
    };
    let mut hashes = Vec::new();
    each_entry(&mut |entry, _| hashes.push(xxh3_64(&entry)))?;
    hashes.sort_unstable();
    let same: HashSet<u64> =
        hashes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    if same.is_empty() {
        return Ok(Vec::new());
    }
    let mut groups: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    each_entry(&mut |entry, key| {
        if same.contains(&xxh3_64(&entry)) {
            groups.entry(entry).or_default().push(key.to_vec());
        }
    })?;
    let groups = groups.into_values().filter(|records| records.len() > 1);
    Ok(groups.map(|records| Group { table: table.name, index, records }).collect())
}

/// Counts the records that refer to each record of the groups.
fn count_referrers(
    damaged: &Damaged<'_>,
    references: &References,
    groups: &[Group],
) -> Result<ByRecord<u64>> {
    let mut counts: ByRecord<u64> = HashMap::new();
    for group in groups {
        let of_table = counts.entry(group.table).or_default();
        of_table.extend(group.records.iter().map(|key| (key.clone(), 0)));
    }
    for table in record_tables(damaged.tables) {
        let refers = |to: &str| references.from(table.name).iter().any(|one| one.to() == to);
        if !counts.keys().any(|to| refers(to)) {
            continue;
        }
        damaged.each_row(&table, &mut |key, value| {
            if !damaged.is_readable(&table, key, value) {
                return Ok(());
            }
            for (to, target) in table.targets(references, key, value)? {
                let Some(of_table) = counts.get_mut(to) else { continue };
                let under = of_table.range_mut(target.clone()..);
                under.take_while(|(key, _)| key.starts_with(&target)).for_each(|(_, n)| *n += 1);
            }
            Ok(())
        })?;
    }
    Ok(counts)
}
