//! Policies: listing, creating, updating and deleting them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::llm_providers::LlmProvider;
use super::policy::{Policy, PolicySeverity};
use super::provider_references;
use super::rules::{self, NewPolicyRules, PolicyRule, PolicyRuleType};
use crate::api::{Deleted, Input, Req, Resource, Route, op};
use crate::auth::{ADMIN, MEMBER, ScopeName};
use crate::base::{Description, Error, Id, Issue, Name, Nullable, Result};
use crate::store::{ListSource, Order, Page, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Policy>()], ..Resource::EMPTY };

// ── What callers send ────────────────────────────────────────────────────────

/// A policy to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "No telephone numbers", "severity": "error",
        "rules": [{"type": "forbidPattern", "value": "[0-9]{3}-[0-9]{4}"}]}],
))]
pub struct NewPolicy {
    name: Name,
    severity: PolicySeverity,
    /// The rules; at most 5 of them are judges.
    rules: NewPolicyRules,
    description: Option<Description>,
}

impl Input for NewPolicy {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        rules::check(&self.rules, issues);
    }
}

/// Changes to a policy. Absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"severity": "warning"}],
))]
pub struct PolicyPatch {
    name: Option<Name>,
    severity: Option<PolicySeverity>,
    rules: Option<NewPolicyRules>,
    #[serde(default)]
    description: Nullable<Description>,
}

impl Input for PolicyPatch {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        if let Some(rules) = &self.rules {
            rules::check(rules, issues);
        }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req) -> Result<Page<Policy>> {
    view.page(ListSource::TABLE, &(), Order::Descending, &req.page, |_| true)
}

pub(super) fn get(view: &View, req: &Req<Id<Policy>>) -> Result<Policy> {
    view.fetch(&req.params)
}

pub(super) fn create(tx: &mut Tx, req: &Req<(), NewPolicy>) -> Result<Policy> {
    let new = &req.input;
    let policy = Policy {
        id: tx.new_id(),
        name: new.name.clone(),
        description: new.description.clone(),
        severity: new.severity,
        rules: rules::read(&new.rules),
        created_at: tx.now(),
        updated_at: tx.now(),
        updated_by: Some(req.caller().user()),
    };
    check_severity(&policy)?;
    set_judge_references(tx, &policy)?;
    tx.insert(&policy)?;
    Ok(policy)
}

pub(super) fn update(tx: &mut Tx, req: &Req<Id<Policy>, PolicyPatch>) -> Result<Policy> {
    let patch = &req.input;
    let old: Policy = tx.fetch(&req.params)?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    new.severity = patch.severity.unwrap_or(new.severity);
    new.rules = patch.rules.as_ref().map(rules::read).unwrap_or(new.rules);
    patch.description.clone().apply(&mut new.description);
    if new == old {
        return Ok(old);
    }
    check_severity(&new)?;
    if new.rules != old.rules {
        set_judge_references(tx, &new)?;
    }
    (new.updated_at, new.updated_by) = (tx.now(), Some(req.caller().user()));
    tx.replace(&old, &new)?;
    Ok(new)
}

/// # Errors
/// 400 if a rule cannot warn: there is no version that a flag could be about.
fn check_severity(policy: &Policy) -> Result<()> {
    let is_of_labels = |rule: &PolicyRule| rule.kind == PolicyRuleType::ProtectLabel;
    if policy.severity == PolicySeverity::Warning && policy.rules.iter().any(is_of_labels) {
        let message = "must be error in a policy with a rule protectLabel, which cannot only warn";
        return Err(Error::invalid_at("severity", message));
    }
    Ok(())
}

/// Records the providers that the judges of a policy use, so that none of them is deleted.
///
/// # Errors
/// 404 for a provider that does not exist. A judge that names none asks the default provider when it
/// judges, and there may be none before.
fn set_judge_references(tx: &mut Tx, policy: &Policy) -> Result<()> {
    let judges = policy.rules.iter().filter(|rule| rules::queries(rule.kind));
    let providers: Vec<Option<Id<LlmProvider>>> = judges.map(|rule| rule.llm_provider_id).collect();
    provider_references::set(tx, policy.id, &providers)
}

/// Deletes a policy with its assignments. Flags stay: the versions they refer to are still published.
pub(super) fn delete(tx: &mut Tx, req: &Req<Id<Policy>>) -> Result<Deleted> {
    let policy: Policy = tx.fetch(&req.params)?;
    tx.remove(&policy)?;
    Ok(Deleted::new(policy.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    const ALL: &str = "/governance/policies";
    const ONE: &str = "/governance/policies/{policyId}";
    vec![
        Route::get(ALL, MEMBER, "policy.list", op::walk(list))
            .needs(ScopeName::PolicyRead)
            .about("List policies"),
        Route::post(ALL, ADMIN, "policy.create", op::write(create))
            .needs(ScopeName::PolicyWrite)
            .costly()
            .about("Create a policy"),
        Route::get(ONE, MEMBER, "policy.get", op::read(get))
            .needs(ScopeName::PolicyRead)
            .about("Get a policy"),
        Route::patch(ONE, ADMIN, "policy.update", op::write(update))
            .needs(ScopeName::PolicyWrite)
            .costly()
            .about("Update a policy"),
        Route::delete(ONE, ADMIN, "policy.delete", op::write(delete))
            .needs(ScopeName::PolicyWrite)
            .about("Delete a policy with its assignments"),
    ]
}
