//! Consistency between the records of artifacts, beyond the check of each table: versions have their
//! texts, labels point to versions, and the stored references are those of the versions.
//! `roadstead check` runs it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::artifact::Artifact;
use super::id::ArtifactId;
use super::metadata::VersionMetadata;
use super::version::{
    VariableReference, VersionRecord, VersionText, highest, variables_of, versions_at,
};
use crate::auth::Restricted;
use crate::base::{Id, Result, word};
use crate::resources::registries::{ArtifactType, Registry};
use crate::store::check::Findings;
use crate::store::{ListSource, Order, Record, View};

/// Reports what is inconsistent in the view's organization. Records of a deleted registry are
/// ignored: they are about to be removed, or the check of their table reports them.
///
/// # Errors
/// If a record cannot be decoded, which the check of its table reports, or if the store fails.
pub fn check(view: &View, findings: &mut Findings) -> Result<()> {
    let registries = view.all::<Restricted<Registry>>(ListSource::TABLE, &())?;
    let registries: BTreeSet<_> = registries.iter().map(Record::key).collect();
    for_each(
        view,
        &registries,
        |row: &VersionRecord| row.of.registry,
        |row| version(view, row, findings),
    )?;
    for_each(view, &registries, |of: &Artifact| of.id.registry, |of| artifact(view, of, findings))?;
    for_each(
        view,
        &registries,
        |reference: &VariableReference| reference.of.registry,
        |reference| {
            let rows = versions_at(view, &reference.of, &reference.version)?;
            if !rows.iter().any(|row| row.variables.iter().any(|v| *v == *reference.variable)) {
                let version = &reference.version;
                let variable = &reference.variable;
                report(findings, &reference.of, &format!("{version} does not use {variable}"));
            }
            Ok(())
        },
    )
}

fn for_each<R: Record>(
    view: &View,
    registries: &BTreeSet<Id<Registry>>,
    registry: impl Fn(&R) -> Id<Registry>,
    mut check: impl FnMut(&R) -> Result<()>,
) -> Result<()> {
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |record: R| {
        if registries.contains(&registry(&record)) {
            check(&record)?;
        }
        Ok(ControlFlow::Continue(()))
    })
}

fn version(view: &View, row: &VersionRecord, findings: &mut Findings) -> Result<()> {
    let VersionRecord { of, version, model, .. } = row;
    if !view.has::<VersionText>(&row.id)? {
        report(findings, of, &format!("{version} for {model} has no text"));
    }
    if row.has_metadata && !view.has::<VersionMetadata>(&row.id)? {
        report(findings, of, &format!("{version} for {model} has no metadata"));
    }
    if !view.has::<Artifact>(of)? {
        report(findings, of, &format!("{version} has no artifact"));
    }
    for import in &row.imports {
        let (registry, kind) = (of.registry, ArtifactType::Promptlet);
        let promptlet = ArtifactId { registry, kind, name: import.name.clone() };
        if versions_at(view, &promptlet, &import.version)?.is_empty() {
            let (name, found) = (&import.name, &import.version);
            report(
                findings,
                of,
                &format!("{version} imports {name} {found}, which does not exist"),
            );
        }
    }
    for reference in variables_of(row) {
        if !view.has::<VariableReference>(&reference.key())? {
            report(
                findings,
                of,
                &format!("{version} has no reference to the variable {}", reference.variable),
            );
        }
    }
    Ok(())
}

fn artifact(view: &View, artifact: &Artifact, findings: &mut Findings) -> Result<()> {
    let Artifact { id, latest_version, labels, .. } = artifact;
    let highest = highest(view, id)?;
    if highest.is_none_or(|highest| highest.numbers() != latest_version.numbers()) {
        report(findings, id, &format!("{latest_version} is not its highest version"));
    }
    for (label, version) in labels {
        if versions_at(view, id, version)?.is_empty() {
            report(
                findings,
                id,
                &format!("the label {label} points to {version}, which does not exist"),
            );
        }
    }
    Ok(())
}

fn report(findings: &mut Findings, of: &ArtifactId, message: &str) {
    let kind = word(of.kind);
    findings.report(format!("{kind} {} of registry {}: {message}", of.name, of.registry));
}
