//! What a repair does to the records of one table.

use serde_json::Value;

use super::catalog::TableInfo;
use super::check;
use super::codec;
use super::engine::Reader;
use super::record::AnyRecord;
use super::reference::{Action, References};
use super::tx::Tx;
use crate::base::Result;

/// A target of a record: its table, and its key, or the beginning of that, as they are stored.
type Target = (&'static str, Vec<u8>);

impl TableInfo {
    /// Checks that a row is a record, and stored under its own key. The error is a phrase.
    pub(super) fn screen(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let record = (self.table.decode)(key, value)
            .map_err(|error| error.log_detail().unwrap_or(error.message()).to_string())?;
        if !self.table.is_own_key(&*record, key) {
            let place = codec::hex(key);
            return Err(format!("{} {place}: is stored under another record's key", self.name));
        }
        Ok(())
    }

    /// Returns what a stored record refers to.
    pub(super) fn targets(
        &self,
        references: &References,
        key: &[u8],
        value: &[u8],
    ) -> Result<Vec<Target>> {
        let record = (self.table.decode)(key, value)?;
        let mut found = Vec::new();
        for reference in references.from(self.name) {
            let of_reference = reference.target_keys(self.table.owner(key), &*record);
            found.extend(of_reference.into_iter().map(|target| (reference.to(), target)));
        }
        Ok(found)
    }

    /// Returns whether a stored record refers to something that is gone.
    pub(super) fn is_orphan(
        &self,
        reader: &dyn Reader,
        references: &References,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let record = (self.table.decode)(key, value)?;
        Ok(!check::dangling(&*record, key, reader, references)?.is_empty())
    }

    /// Carries out for the record with this key what removing the missing targets of its references
    /// would have done; returns what was wrong.
    pub(super) fn resolve(&self, tx: &mut Tx, key: &[u8]) -> Result<Option<String>> {
        let references = tx.references;
        let mut done: Option<(&'static str, Vec<u8>, String)> = None;
        while let Some(record) = self.enter(tx, key)? {
            let dangling = check::dangling(&*record, key, &tx.overlay(), references)?;
            let removing = dangling.iter().find(|(one, _)| one.action() != Action::Clear);
            let Some((reference, target)) = removing.or(dangling.first()) else { break };
            let why = says(reference.fields(), reference.to(), target);
            // One that clearing left is of no record that could be kept.
            let is_left =
                done.as_ref().is_some_and(|(to, last, _)| *to == reference.to() && last == target);
            if removing.is_some() || is_left {
                tx.remove_any_orphan(&*record)?;
                return Ok(Some(why));
            }
            reference.clear_target(tx, &*record, target)?;
            done = Some((reference.to(), target.clone(), why));
        }
        Ok(done.map(|(_, _, why)| why))
    }

    /// Removes the record with this key, if it refers to something that is gone, and nothing else;
    /// returns what was wrong.
    pub(super) fn delete(&self, tx: &mut Tx, key: &[u8]) -> Result<Option<String>> {
        let Some(record) = self.enter(tx, key)? else { return Ok(None) };
        let references = tx.references;
        let dangling = check::dangling(&*record, key, &tx.overlay(), references)?;
        let Some((reference, target)) = dangling.first() else { return Ok(None) };
        tx.delete_any(&*record)?;
        Ok(Some(says(reference.fields(), reference.to(), target)))
    }

    /// Returns a stored record as JSON, if it has such a form.
    pub(super) fn json(&self, key: &[u8], value: &[u8]) -> Option<Value> {
        (self.table.decode)(key, value).ok()?.json()
    }

    /// Makes the transaction that of the organization of the record with this key; returns the record.
    fn enter(&self, tx: &mut Tx, key: &[u8]) -> Result<Option<Box<dyn AnyRecord>>> {
        tx.set_org(self.table.owner(key));
        tx.stored(&self.table, key)
    }
}

/// Says which reference of a record has no target.
fn says(fields: &[&str], to: &str, target: &[u8]) -> String {
    format!("{} refers to {to} {}, which does not exist", fields.join(", "), codec::hex(target))
}
