//! What a repair does to the records of one table, as functions over bytes for the catalog.

use serde_json::Value;

use super::check;
use super::codec;
use super::engine::Reader;
use super::key::Key as _;
use super::record::{Export, Record, decode};
use super::reference::{Action, References};
use super::tx::Tx;
use crate::base::{Exporting, Result};

/// A target of a record: its table, and its key, or the beginning of that, as they are stored.
type Target = (&'static str, Vec<u8>);

/// Of a record, by its key and value.
type TargetsFn = fn(&References, &[u8], &[u8]) -> Result<Vec<Target>>;
/// Of a record, by its key and value.
type IsOrphanFn = fn(&dyn Reader, &References, &[u8], &[u8]) -> Result<bool>;

/// How the records of a table are repaired.
#[derive(Clone, Copy)]
pub struct RepairSteps {
    /// Checks that a row is a record, and stored under its own key. The error is a phrase.
    pub(super) screen: fn(&[u8], &[u8]) -> Result<(), String>,
    /// Returns what a stored record refers to.
    pub(super) targets: TargetsFn,
    /// Returns whether a stored record refers to something that is gone.
    pub(super) is_orphan: IsOrphanFn,
    /// Carries out for the record with this key what removing the missing targets of its references
    /// would have done; returns what was wrong.
    pub(super) resolve: fn(&mut Tx, &[u8]) -> Result<Option<String>>,
    /// Removes the record with this key and nothing else.
    pub(super) delete: fn(&mut Tx, &[u8]) -> Result<Option<String>>,
    /// Returns a stored record as JSON, if it has such a form.
    pub(super) json: fn(&[u8], &[u8]) -> Option<Value>,
}

impl RepairSteps {
    /// The steps of `R`.
    pub const fn of<R: Record>() -> Self {
        RepairSteps {
            screen: screen::<R>,
            targets: targets::<R>,
            is_orphan: |reader, references, key, value| {
                let record = decode::<R>(key, value)?;
                Ok(!check::dangling(&record, key, reader, references)?.is_empty())
            },
            resolve: resolve::<R>,
            delete: delete::<R>,
            json: json::<R>,
        }
    }
}

fn screen<R: Record>(key: &[u8], value: &[u8]) -> Result<(), String> {
    let record = decode::<R>(key, value)
        .map_err(|error| error.log_detail().unwrap_or(error.message()).to_string())?;
    if key.get(check::org_prefix_len::<R>()..) != Some(record.key().to_bytes().as_slice()) {
        let place = codec::hex(key);
        return Err(format!("{} {place}: is stored under another record's key", R::TABLE));
    }
    Ok(())
}

fn targets<R: Record>(references: &References, key: &[u8], value: &[u8]) -> Result<Vec<Target>> {
    let record = decode::<R>(key, value)?;
    let mut found = Vec::new();
    for reference in references.from(R::TABLE) {
        let of_reference = reference.target_keys(check::owner::<R>(key), &record);
        found.extend(of_reference.into_iter().map(|target| (reference.to(), target)));
    }
    Ok(found)
}

fn stored<R: Record>(tx: &mut Tx, key: &[u8]) -> Result<Option<R>> {
    tx.set_org(check::owner::<R>(key));
    tx.view().get_raw(key)
}

fn resolve<R: Record>(tx: &mut Tx, key: &[u8]) -> Result<Option<String>> {
    let references = tx.references;
    let mut done: Option<(&'static str, Vec<u8>, String)> = None;
    while let Some(record) = stored::<R>(tx, key)? {
        let dangling = check::dangling(&record, key, &tx.overlay(), references)?;
        let removing = dangling.iter().find(|(one, _)| one.action() != Action::Clear);
        let Some((reference, target)) = removing.or(dangling.first()) else { break };
        let why = says(reference.fields(), reference.to(), target);
        // One that clearing left is of no record that could be kept.
        let is_left =
            done.as_ref().is_some_and(|(to, last, _)| *to == reference.to() && last == target);
        if removing.is_some() || is_left {
            tx.remove_orphan(&record)?;
            return Ok(Some(why));
        }
        reference.clear_target(tx, &record, target)?;
        done = Some((reference.to(), target.clone(), why));
    }
    Ok(done.map(|(_, _, why)| why))
}

fn delete<R: Record>(tx: &mut Tx, key: &[u8]) -> Result<Option<String>> {
    let Some(record) = stored::<R>(tx, key)? else { return Ok(None) };
    let references = tx.references;
    let dangling = check::dangling(&record, key, &tx.overlay(), references)?;
    let Some((reference, target)) = dangling.first() else { return Ok(None) };
    tx.delete(&record)?;
    Ok(Some(says(reference.fields(), reference.to(), target)))
}

fn json<R: Record>(key: &[u8], value: &[u8]) -> Option<Value> {
    let Export::Exported(form) = R::EXPORT else { return None };
    let record = decode::<R>(key, value).ok()?;
    Some((form.to_json)(&record, &mut Exporting::default()))
}

/// Says which reference of a record has no target.
fn says(fields: &[&str], to: &str, target: &[u8]) -> String {
    format!("{} refers to {to} {}, which does not exist", fields.join(", "), codec::hex(target))
}
