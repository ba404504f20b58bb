//! What protected labels keep a plan from, found before its first step.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::plan::{Plan, Step};
use crate::cli::client::api::{Api, ListCall, segment};
use crate::cli::failure::Failure;

/// What is to be said of the labels of a plan.
#[derive(Debug, Default, PartialEq)]
pub struct ProtectedLabels {
    /// Moves that the server would refuse.
    pub refused: Vec<String>,
    /// Moves that wait for approvals.
    pub waiting: Vec<String>,
}

/// Asks the server about the labels that a plan moves.
///
/// # Errors
/// A registry cannot be read.
pub fn read(api: &Api, plan: &Plan) -> Result<ProtectedLabels, Failure> {
    let registries: BTreeSet<&str> = plan.steps.iter().filter_map(registry_of).collect();
    let call = |registry: &&str| ListCall {
        path: format!("/registries/{}/protected-labels", segment(registry)),
        query: Vec::new(),
    };
    let lists = api.lists_in_org(&registries.iter().map(call).collect::<Vec<_>>())?;
    let mut found: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (registry, list) in registries.into_iter().zip(lists) {
        match list {
            Ok(protected) => drop(found.insert(registry, protected)),
            // The registry is not there yet, or the server does not protect labels.
            Err(refusal) if refusal.with_code("not_found").is_some() => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    let mut said = ProtectedLabels::default();
    for step in &plan.steps {
        let Step::Label { artifact, label, .. } = step else { continue };
        let mut protected = found.get(artifact.registry.as_str()).into_iter().flatten();
        if let Some(protection) = protected.find(|one| one["label"] == **label) {
            said.add(step, protection);
        }
    }
    Ok(said)
}

/// The registry in which a step moves a label.
fn registry_of(step: &Step) -> Option<&str> {
    match step {
        Step::Label { artifact, .. } => Some(&artifact.registry),
        _ => None,
    }
}

impl ProtectedLabels {
    fn add(&mut self, step: &Step, protection: &Value) {
        let line = step.line();
        let line = line.get(2..).unwrap_or(&line);
        let takes_approvals = !protection["approvals"].is_null();
        let is_removal = matches!(step, Step::Label { to: None, .. });
        if protection["mayMove"] == false {
            self.refused.push(format!(
                "{line}: the label is protected, and you or your key may not move it"
            ));
        } else if takes_approvals && is_removal {
            self.refused.push(format!(
                "{line}: removing the label takes approvals; ask for that on the page of the prompt"
            ));
        } else if takes_approvals {
            self.waiting.push(format!(
                "{line}: the label is moved when that is approved; another change of it that waits is \
                 superseded"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::state::ArtifactKey;
    use super::*;

    #[test]
    fn a_move_is_refused_or_waits_as_the_label_is_protected() {
        let step = |to: Option<&str>| Step::Label {
            artifact: ArtifactKey { registry: "main".into(), is_prompt: true, name: "a".into() },
            label: "production".into(),
            from: Some("1.0.0".into()),
            to: to.map(Into::into),
        };
        let said = |to, protection: Value| {
            let mut said = ProtectedLabels::default();
            said.add(&step(to), &protection);
            (said.refused.len(), said.waiting.len())
        };
        let (one, none) = (json!({"minApprovals": 1}), Value::Null);
        let of = |may: bool, approvals: &Value| json!({"mayMove": may, "approvals": approvals});
        for to in [Some("1.1.0"), None] {
            assert_eq!(said(to, of(true, &none)), (0, 0));
            assert_eq!(said(to, of(false, &none)), (1, 0));
            assert_eq!(said(to, of(false, &one)), (1, 0));
        }
        assert_eq!(said(Some("1.1.0"), of(true, &one)), (0, 1));
        assert_eq!(said(None, of(true, &one)), (1, 0));
    }
}
