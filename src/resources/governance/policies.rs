//! Policies: rules under one name, and what follows when one is broken.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::llm_providers::{self, LlmProvider};
use super::provider_uses;
use super::rules::{self, NewRules, PolicyRule, RuleType};
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER};
use crate::base::{Description, Error, Field, Id, Issue, Name, Result, Time};
use crate::store::{Order, Page, Record, Source, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Policy>()], ..Resource::EMPTY };

// ── Record ───────────────────────────────────────────────────────────────────

/// Rules that what is published in a registry must keep, once it is assigned to it.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Its id.
    pub id: Id<Policy>,
    /// Its name.
    pub name: Name,
    /// What it is for.
    pub description: Option<Description>,
    /// What follows when one of its rules is broken.
    pub severity: Severity,
    /// Its rules.
    pub rules: Vec<PolicyRule>,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

impl Output for Policy {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl Record for Policy {
    const TABLE: &'static str = "policies";
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("rules.llm_provider_id", "kept by the rows of ProviderUse, which are derived from it")];
    type Key = Id<Policy>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// What follows when a rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It is not published.
    Error,
    /// It is published, and a flag is raised.
    Warning,
}
crate::store::stored_enum!(Severity { Error = 0, Warning = 1 });

// ── What callers send ────────────────────────────────────────────────────────

/// A policy to make.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewPolicy {
    name: Name,
    severity: Severity,
    /// At most 5 of them judges.
    rules: NewRules,
    description: Option<Description>,
}

impl Input for NewPolicy {
    fn check(&self, issues: &mut Vec<Issue>) {
        rules::check(&self.rules, issues);
    }
}

/// What to change of a policy.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyPatch {
    name: Option<Name>,
    severity: Option<Severity>,
    rules: Option<NewRules>,
    #[serde(default)]
    description: Field<Description>,
}

impl Input for PolicyPatch {
    fn check(&self, issues: &mut Vec<Issue>) {
        if let Some(rules) = &self.rules {
            rules::check(rules, issues);
        }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req) -> Result<Page<Policy>> {
    view.page(Source::TABLE, &(), Order::Descending, &req.page, |_| true)
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
    };
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
    if new.rules != old.rules {
        set_judge_references(tx, &new)?;
    }
    new.updated_at = tx.now();
    tx.replace(&old, &new)?;
    Ok(new)
}

/// Notes which providers its judges ask, so that none of them is deleted.
///
/// # Errors
/// 404 for a provider that is not there; 400 where none is named and there is no default one.
fn set_judge_references(tx: &mut Tx, policy: &Policy) -> Result<()> {
    let judges = policy.rules.iter().enumerate().filter(|(_, rule)| rule.kind == RuleType::Judge);
    let judges: Vec<(usize, Option<Id<LlmProvider>>)> =
        judges.map(|(n, rule)| (n, rule.llm_provider_id)).collect();
    let asked: Vec<_> = judges.iter().map(|(_, provider)| *provider).collect();
    provider_uses::note(tx, policy.id, &asked)?;
    if let Some((n, _)) = judges.iter().find(|(_, provider)| provider.is_none())
        && llm_providers::default(&tx.view())?.is_none()
    {
        return Err(Error::invalid_at(
            format!("rules[{n}].llmProviderId"),
            "is required as long as the organization has no default LLM provider",
        ));
    }
    Ok(())
}

/// Its assignments go with it. Flags stay: what they tell of was published all the same.
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
        Route::get(ALL, MEMBER, "policy.list", op::list(list)).about("List the policies"),
        Route::post(ALL, ADMIN, "policy.create", op::write(create)).about("Make a policy"),
        Route::get(ONE, MEMBER, "policy.show", op::read(get)).about("Show a policy"),
        Route::patch(ONE, ADMIN, "policy.update", op::write(update)).about("Change a policy"),
        Route::delete(ONE, ADMIN, "policy.delete", op::write(delete))
            .about("Delete a policy with its assignments"),
    ]
}
