//! Examining a text by policies: when something is published, and when somebody only asks.

use std::collections::BTreeSet;
use std::convert::Infallible;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::registries::{self, ArtifactType, Registry};
use super::assignments;
use super::flags::Flag;
use super::judge::{self, JUDGE_SECS};
use super::policies::{Policy, Severity};
use super::rules::{self, Content, RuleType};
use crate::api::{Calls, Input, Output, Req, Resource, Route, op};
use crate::auth::MEMBER;
use crate::base::{ArtifactName, Id, Issue, JsonMap, List, Range, Result, Text, Version};
use crate::outbox::{About, EventType, publish};
use crate::store::{Tx, View};
use crate::templates;

pub(super) const RESOURCE: Resource = Resource {
    routes,
    events: &[EventType::GovernancePassed, EventType::GovernanceViolation],
    ..Resource::EMPTY
};

/// What is about to be published.
pub struct Subject<'a> {
    /// What it is.
    pub kind: ArtifactType,
    /// Its name.
    pub name: &'a ArtifactName,
    /// Its version.
    pub version: &'a Version,
    /// Its text after compiling, before its variables are filled.
    pub text: &'a str,
    /// The variables in it.
    pub variables: &'a [String],
    /// Its metadata.
    pub metadata: &'a JsonMap,
    /// The model that it is for.
    pub model: &'a str,
}

/// What policies say of a text.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether no rule is broken.
    passed: bool,
    /// The rules that are.
    issues: Vec<RuleViolation>,
    /// The policies that were asked.
    #[serde(skip)]
    policies: Vec<Id<Policy>>,
}

impl Output for Verdict {}

/// A rule that a text breaks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleViolation {
    policy_id: Id<Policy>,
    rule: RuleType,
    severity: Severity,
    /// What must be otherwise, as a phrase: "must not match …".
    pub message: String,
}

impl Verdict {
    /// Why the text is not published, if it is not.
    pub fn refusals(&self) -> impl Iterator<Item = &RuleViolation> {
        self.issues.iter().filter(|issue| issue.severity == Severity::Error)
    }
}

// ── Publishing ───────────────────────────────────────────────────────────────

/// Examines what is about to be published in a registry by the policies assigned to it. Writes
/// nothing; [`settle`] does.
///
/// # Errors
/// 502 when a judge cannot be asked.
pub fn evaluate(
    tx: &Tx,
    registry: Id<Registry>,
    subject: &Subject,
    calls: &mut Calls,
) -> Result<Verdict> {
    let policies = assignments::policies_of(&tx.view(), registry)?;
    let Subject { text, variables, metadata, model, .. } = *subject;
    evaluate_policies(&tx.view(), &policies, &Content { text, variables, metadata, model }, calls)
}

/// Writes what follows for what is published: the event, and a flag for each broken rule.
///
/// # Errors
/// If the store fails.
pub fn settle(
    tx: &mut Tx,
    registry: &Registry,
    subject: &Subject,
    verdict: &Verdict,
) -> Result<()> {
    tell(tx, registry, subject, verdict, true)?;
    let registry_ref = registry.reference.clone();
    for issue in &verdict.issues {
        let flag = Flag {
            id: tx.new_id(),
            policy_id: issue.policy_id,
            registry: registry.id,
            registry_ref: registry_ref.clone(),
            artifact_type: subject.kind,
            name: subject.name.clone(),
            version: subject.version.clone(),
            rule: issue.rule,
            message: issue.message.clone(),
            created_at: tx.now(),
            cleared_at: None,
            cleared_by: None,
        };
        tx.insert(&flag)?;
    }
    Ok(())
}

/// Writes what follows for what is refused, by its own verdict or with others: the event, if a rule
/// is broken. It stays although nothing is published.
///
/// # Errors
/// If the store fails.
pub fn refuse(
    tx: &mut Tx,
    registry: &Registry,
    subject: &Subject,
    verdict: &Verdict,
) -> Result<()> {
    match verdict.passed {
        true => Ok(()),
        false => tell(tx, registry, subject, verdict, false),
    }
}

fn tell(
    tx: &mut Tx,
    registry: &Registry,
    subject: &Subject,
    verdict: &Verdict,
    is_published: bool,
) -> Result<()> {
    if verdict.policies.is_empty() {
        return Ok(());
    }
    let broken: BTreeSet<_> = verdict.issues.iter().map(|issue| issue.policy_id).collect();
    let (event, policies) = match verdict.passed {
        true => (EventType::GovernancePassed, json!(verdict.policies)),
        false => (EventType::GovernanceViolation, json!(broken)),
    };
    let payload = json!({
        "registryId": registry.id,
        "registryRef": registry.reference,
        "artifactType": subject.kind,
        "name": subject.name,
        "version": subject.version,
        "model": subject.model,
        "policyIds": policies,
        "published": is_published,
    });
    // What is examined has no record yet: the event is about its registry.
    let about = About::resource("registry", registry.id).guarded_by("registry", registry.id);
    publish(tx, event, about, payload)
}

/// What these policies say of a content; anything as long as not all is known that it follows from.
/// Judges are asked last, and only about what nothing else refuses: a text that must not be
/// published need not be shown to a provider.
fn evaluate_policies(
    view: &View,
    policies: &[Policy],
    content: &Content,
    calls: &mut Calls,
) -> Result<Verdict> {
    let mut issues = Vec::new();
    let mut judges = Vec::new();
    let all_rules = policies.iter().flat_map(|policy| &policy.rules);
    let Some(occurring) = rules::occurring(all_rules, content.text, calls) else {
        return Ok(Verdict { passed: true, issues, policies: Vec::new() });
    };
    for policy in policies {
        for rule in &policy.rules {
            if rule.kind == RuleType::Judge {
                judges.push((policy, rule));
            } else if let Some(message) = rules::fault(rule, content, &occurring) {
                issues.push(broken(policy, rule.kind, message));
            }
        }
    }
    if issues.iter().all(|issue| issue.severity == Severity::Warning) {
        for (policy, rule) in judges {
            if let Some(message) = judge::fault(view, policy, rule, content.text, calls)? {
                issues.push(broken(policy, rule.kind, message));
            }
        }
    }
    let policies = policies.iter().map(|policy| policy.id).collect();
    Ok(Verdict { passed: issues.is_empty(), issues, policies })
}

fn broken(policy: &Policy, rule: RuleType, message: String) -> RuleViolation {
    let message = format!("{message} (policy \"{}\")", policy.name);
    RuleViolation { policy_id: policy.id, rule, severity: policy.severity, message }
}

// ── Asking ───────────────────────────────────────────────────────────────────

/// The longest text that compiling gives.
const MAX_CHARS: usize = templates::MAX_TEXT_BYTES;

/// A text to evaluate: as it would be published, imports and all.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GovernanceCheck {
    /// The text, as compiling leaves it: its variables stand in it as `{{NAME}}`.
    text: Text<0, MAX_CHARS>,
    /// The policies to evaluate it by.
    policy_ids: Option<List<Id<Policy>, 1, 20>>,
    /// A registry, whose policies it is to be examined by too.
    registry_ref: Option<String>,
    /// The model that it is for; `generic` where it is absent.
    model: Option<Text<1, 200>>,
    /// Its metadata; empty where it is absent.
    metadata: Option<JsonMap>,
}

impl Input for GovernanceCheck {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.policy_ids.is_none() && self.registry_ref.is_none() {
            issues.push(Issue::new("policyIds", "is required where registryRef is absent"));
        }
    }
}

/// The model of what is for any.
const GENERIC: &str = "generic";

pub(super) fn check(
    view: &View,
    req: &Req<(), GovernanceCheck>,
    calls: &mut Calls,
) -> Result<Verdict> {
    let input = &req.input;
    let mut policies = Vec::new();
    if let Some(reference) = &input.registry_ref {
        let registry = registries::named(view, req.caller(), reference)?;
        policies = assignments::policies_of(view, registry.id)?;
    }
    for id in input.policy_ids.iter().flat_map(|ids| ids.iter()) {
        let policy: Policy = view.fetch(id)?;
        if policies.iter().all(|known| known.id != policy.id) {
            policies.push(policy);
        }
    }
    let variables = variables_in(&input.text);
    let content = Content {
        text: &input.text,
        variables: &variables,
        metadata: &input.metadata.clone().unwrap_or_default(),
        model: input.model.as_deref().unwrap_or(GENERIC),
    };
    evaluate_policies(view, &policies, &content, calls)
}

/// The variables of a text that is compiled already. What is no placeholder is none: whether the
/// text is well-formed is told by publishing it.
fn variables_in(text: &str) -> Vec<String> {
    let nothing = |_: &ArtifactName, _: &Range| Ok::<_, Infallible>(Err(String::new()));
    let Ok(compilation) = templates::compile(text, nothing);
    compilation.variables
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/governance/check",
            MEMBER,
            "governance.check",
            op::read_calling(JUDGE_SECS, check),
        )
        .about("Examine a text by policies; nothing follows from it"),
    ]
}
