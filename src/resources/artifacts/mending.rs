//! Mending what [`consistency`](super::consistency) finds: `roadstead repair` runs it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::artifact::{self, Artifact};
use super::id::ArtifactId;
use super::metadata::VersionMetadata;
use super::version::{
    VariableReference, VersionRecord, VersionText, add_variables, highest, variables_of,
    versions_at,
};
use crate::auth::Restricted;
use crate::base::{Id, Result};
use crate::resources::registries::{ArtifactType, Registry};
use crate::store::{ListSource, Order, Record, Tx, View};

/// A step mends at most 100 records.
const MENDED_ROWS: usize = 100;

/// Mends something of the transaction's organization; returns what was wrong, or `None` if nothing is.
type Step = fn(&mut Tx) -> Result<Option<&'static str>>;

/// Does one step in the transaction's organization; returns what was wrong, or `None` if nothing is.
///
/// A version that lacks its text, its metadata or a promptlet that it imports cannot be used, and is
/// removed.
pub fn mend(tx: &mut Tx) -> Result<Option<String>> {
    let steps: [Step; 4] = [remove_incomplete, add_artifacts, correct_artifacts, correct_variables];
    for step in steps {
        if let Some(why) = step(tx)? {
            return Ok(Some(why.into()));
        }
    }
    Ok(None)
}

/// Returns the first records of existing registries of which `is_wrong` says so.
fn wrong<R: Record>(
    view: &View,
    registry: fn(&R) -> Id<Registry>,
    is_wrong: fn(&View, &R) -> Result<bool>,
) -> Result<Vec<R>> {
    let registries = view.all::<Restricted<Registry>>(ListSource::TABLE, &())?;
    let registries: BTreeSet<_> = registries.iter().map(Record::key).collect();
    let mut found = Vec::new();
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |record: R| {
        if registries.contains(&registry(&record)) && is_wrong(view, &record)? {
            found.push(record);
        }
        let is_full = found.len() == MENDED_ROWS;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

fn remove_incomplete(tx: &mut Tx) -> Result<Option<&'static str>> {
    let rows = wrong(&tx.view(), |row: &VersionRecord| row.of.registry, is_incomplete)?;
    for row in &rows {
        // It may have gone with one before it.
        if tx.get::<VersionRecord>(&row.key())?.is_some() {
            tx.remove_orphan(row)?;
        }
    }
    Ok(rows.first().map(|_| "a version lacks its text, its metadata or an import"))
}

fn is_incomplete(view: &View, row: &VersionRecord) -> Result<bool> {
    let lacks_metadata = row.has_metadata && !view.has::<VersionMetadata>(&row.id)?;
    if lacks_metadata || !view.has::<VersionText>(&row.id)? {
        return Ok(true);
    }
    for import in &row.imports {
        let (registry, kind) = (row.of.registry, ArtifactType::Promptlet);
        let promptlet = ArtifactId { registry, kind, name: import.name.clone() };
        if versions_at(view, &promptlet, &import.version)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn add_artifacts(tx: &mut Tx) -> Result<Option<&'static str>> {
    let rows = wrong(
        &tx.view(),
        |row: &VersionRecord| row.of.registry,
        |view, row| Ok(!view.has::<Artifact>(&row.of)?),
    )?;
    for row in &rows {
        artifact::version_added(tx, &row.of, &row.version, None)?;
    }
    Ok(rows.first().map(|_| "an artifact was gone, and its versions were not"))
}

/// Returns the labels of an artifact that point to a version.
fn labels_of(view: &View, artifact: &Artifact) -> Result<artifact::Labels> {
    let mut labels = artifact.labels.clone();
    for (label, version) in &artifact.labels {
        if versions_at(view, &artifact.id, version)?.is_empty() {
            labels.remove(label);
        }
    }
    Ok(labels)
}

fn correct_artifacts(tx: &mut Tx) -> Result<Option<&'static str>> {
    let artifacts = wrong(
        &tx.view(),
        |artifact: &Artifact| artifact.id.registry,
        |view, artifact| {
            let highest = highest(view, &artifact.id)?;
            let latest = artifact.latest_version.numbers();
            let is_latest = highest.is_some_and(|highest| highest.numbers() == latest);
            Ok(!is_latest || labels_of(view, artifact)?.len() != artifact.labels.len())
        },
    )?;
    for old in &artifacts {
        let labels = labels_of(&tx.view(), old)?;
        let new = artifact::set_labels(tx, old, labels, None)?;
        artifact::version_removed(tx, &new.id, None)?;
    }
    Ok(artifacts.first().map(|_| "a version that it refers to is gone"))
}

fn correct_variables(tx: &mut Tx) -> Result<Option<&'static str>> {
    let rows = wrong(
        &tx.view(),
        |row: &VersionRecord| row.of.registry,
        |view, row| {
            for reference in variables_of(row) {
                if !view.has::<VariableReference>(&reference.key())? {
                    return Ok(true);
                }
            }
            Ok(false)
        },
    )?;
    rows.iter().try_for_each(|row| add_variables(tx, row))?;
    let superfluous = wrong(
        &tx.view(),
        |reference: &VariableReference| reference.of.registry,
        |view, reference| {
            let rows = versions_at(view, &reference.of, &reference.version)?;
            let uses = |row: &VersionRecord| {
                row.variables.iter().any(|variable| **variable == *reference.variable)
            };
            Ok(!rows.iter().any(uses))
        },
    )?;
    superfluous.iter().try_for_each(|reference| tx.remove(reference))?;
    let is_any = !rows.is_empty() || !superfluous.is_empty();
    Ok(is_any.then_some("no version uses the variable"))
}
