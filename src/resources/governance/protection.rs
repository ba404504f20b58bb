//! What policies demand of the labels of a registry: that it protects them by approvals
//! (reference: registries-and-templates, "Rules"). It is asked when a label is moved.

use super::super::registries::{ProtectedLabel, Registry};
use super::assignments;
use super::rules::PolicyRuleType;
use crate::base::{Error, Label, Result};
use crate::store::View;

/// Requires that a label with this protection takes approvals, if a policy of its registry demands that.
///
/// # Errors
/// 403, which names the policy.
pub fn require_protected(
    view: &View,
    registry: &Registry,
    label: &Label,
    protection: Option<&ProtectedLabel>,
) -> Result<()> {
    if protection.is_some_and(|protection| protection.approvals.is_some()) {
        return Ok(());
    }
    for policy in assignments::policies_of(view, registry.id)? {
        let demands = policy
            .rules
            .iter()
            .any(|rule| rule.kind == PolicyRuleType::ProtectLabel && rule.text() == label.as_str());
        if demands {
            let (name, place) = (&policy.name, &registry.reference);
            return Err(Error::forbidden(
                "protection_required",
                format!(
                    "the policy \"{name}\" demands that the label {label} takes approvals in {place}, \
                     and it takes none; an admin protects it there"
                ),
            ));
        }
    }
    Ok(())
}
