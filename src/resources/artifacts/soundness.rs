//! What must be true between the records of artifacts, beyond what every table's own check sees:
//! versions have their texts, labels stand on versions, and what is known of who uses what is what
//! the versions say. `roadstead check` looks at it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::artifact::Artifact;
use super::variables::VariableReference;
use super::{ArtifactId, ArtifactType, VersionRecord, VersionText, versions};
use crate::auth::Restricted;
use crate::base::{Id, Result};
use crate::resources::registries::Registry;
use crate::store::check::Findings;
use crate::store::{Order, Record, Source, View};

/// Notes what is wrong in the view's organization. Rows of a registry that is gone do not count:
/// they are to be removed, or their own table's check tells of them.
///
/// # Errors
/// If a record does not read, which its table's own check tells of, or the store fails.
pub fn check(view: &View, findings: &mut Findings) -> Result<()> {
    let there = view.all::<Restricted<Registry>>(Source::TABLE, &())?;
    let there: BTreeSet<_> = there.iter().map(Record::key).collect();
    each(view, &there, |row: &VersionRecord| row.of.registry, |row| version(view, row, findings))?;
    each(view, &there, |of: &Artifact| of.id.registry, |of| artifact(view, of, findings))?;
    each(
        view,
        &there,
        |used: &VariableReference| used.of.registry,
        |used| {
            let there = versions::versions_at(view, &used.of, &used.version)?;
            if !there.iter().any(|row| row.variables.iter().any(|v| *v == *used.variable)) {
                let version = &used.version;
                let variable = &used.variable;
                note(findings, &used.of, &format!("{version} does not mention {variable}"));
            }
            Ok(())
        },
    )
}

fn each<R: Record>(
    view: &View,
    there: &BTreeSet<Id<Registry>>,
    registry: impl Fn(&R) -> Id<Registry>,
    mut look: impl FnMut(&R) -> Result<()>,
) -> Result<()> {
    view.each(Source::TABLE, &(), Order::Ascending, |record: R| {
        if there.contains(&registry(&record)) {
            look(&record)?;
        }
        Ok(ControlFlow::Continue(()))
    })
}

fn version(view: &View, row: &VersionRecord, findings: &mut Findings) -> Result<()> {
    let VersionRecord { of, version, model, .. } = row;
    if !view.has::<VersionText>(&row.key())? {
        note(findings, of, &format!("{version} for {model} has no text"));
    }
    if !view.has::<Artifact>(of)? {
        note(findings, of, &format!("{version} is a version of nothing"));
    }
    for import in &row.imports {
        let (registry, kind) = (of.registry, ArtifactType::Promptlet);
        let promptlet = ArtifactId { registry, kind, name: import.name.clone() };
        if versions::versions_at(view, &promptlet, &import.version)?.is_empty() {
            let (name, found) = (&import.name, &import.version);
            note(findings, of, &format!("{version} imports {name} {found}, which is not there"));
        }
    }
    for used in super::variables::uses(row) {
        if !view.has::<VariableReference>(&used.key())? {
            note(findings, of, &format!("{version} is not known to mention {}", used.variable));
        }
    }
    Ok(())
}

fn artifact(view: &View, artifact: &Artifact, findings: &mut Findings) -> Result<()> {
    let Artifact { id, latest_version, labels, .. } = artifact;
    let highest = versions::highest(view, id)?;
    if highest.is_none_or(|highest| highest.numbers() != latest_version.numbers()) {
        note(findings, id, &format!("{latest_version} is not its highest version"));
    }
    for (label, version) in labels {
        if versions::versions_at(view, id, version)?.is_empty() {
            note(
                findings,
                id,
                &format!("the label {label} stands on {version}, which is not there"),
            );
        }
    }
    Ok(())
}

fn note(findings: &mut Findings, of: &ArtifactId, what: &str) {
    let kind = match of.kind {
        ArtifactType::Prompt => "prompt",
        ArtifactType::Promptlet => "promptlet",
    };
    findings.note(format!("{kind} {} of registry {}: {what}", of.name, of.registry));
}
