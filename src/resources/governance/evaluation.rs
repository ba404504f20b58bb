//! Evaluating a text against policies: when a version is published, and as a dry run.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::registries::{self, ArtifactType, Registry};
use super::assignments;
use super::cases::Scorer;
use super::flags::PolicyFlag;
use super::judge::{self, JUDGE_SECS};
use super::passing::{self, Inputs};
use super::policy::{Policy, PolicySeverity};
use super::rules::{self, PolicyInput, PolicyRuleType, RuleValue};
use crate::api::{Calls, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{ArtifactName, BoundedList, Id, Issue, JsonMap, Range, Result, Text, Version};
use crate::outbox::{About, EventType, publish};
use crate::store::{Tx, View};
use crate::templates;

pub(super) const RESOURCE: Resource = Resource {
    routes,
    events: &[EventType::GovernancePassed, EventType::GovernanceViolation],
    ..Resource::EMPTY
};

/// A version submitted for publication.
pub struct Submission<'a> {
    pub kind: ArtifactType,
    pub name: &'a ArtifactName,
    pub version: &'a Version,
    /// The text after compilation, with variables in place.
    pub text: &'a str,
    /// The variables of the text.
    pub variables: &'a [String],
    pub metadata: &'a JsonMap,
    /// The model that the text is for.
    pub model: &'a str,
    /// What it must pass, if a policy says so; none of a promptlet, which nobody asks a model.
    pub inputs: Option<Inputs<'a>>,
}

/// The result of evaluating a text against policies.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyVerdict {
    /// Whether no rule is violated.
    passed: bool,
    /// The violations, at most one for each rule.
    issues: Vec<PolicyViolation>,
    /// The policies that were evaluated.
    #[serde(skip)]
    policies: Vec<Id<Policy>>,
}

impl Output for PolicyVerdict {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A rule that a text violates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyViolation {
    policy_id: Id<Policy>,
    /// The rule that is broken.
    rule: PolicyRuleType,
    /// Whether it refuses the text or only warns.
    severity: PolicySeverity,
    /// What the text must do to satisfy the rule, as a phrase: "must not match …".
    pub message: String,
}

impl PolicyVerdict {
    /// The violations that refuse the publication.
    pub fn refusals(&self) -> impl Iterator<Item = &PolicyViolation> {
        self.issues.iter().filter(|issue| issue.severity == PolicySeverity::Error)
    }
}

// ── Publishing ───────────────────────────────────────────────────────────────

/// Evaluates a submission against the policies assigned to a registry. Writes nothing;
/// [`record_result`] or [`record_refusal`] does.
///
/// # Errors
/// 502 if a judge cannot be queried.
pub fn evaluate(
    tx: &Tx,
    registry: Id<Registry>,
    submission: &Submission,
    calls: &mut Calls,
) -> Result<PolicyVerdict> {
    let policies = assignments::policies_of(&tx.view(), registry)?;
    let Submission { text, variables, metadata, model, inputs, .. } = *submission;
    let runs_inputs =
        |policy: &Policy| policy.rules.iter().any(|rule| rule.kind == PolicyRuleType::PassesInputs);
    if inputs.is_none() || !policies.iter().any(runs_inputs) {
        calls.within(Duration::from_secs(JUDGE_SECS));
    }
    evaluate_policies(
        &tx.view(),
        &policies,
        &PolicyInput { text, variables, metadata: &metadata.to_map(), model },
        inputs.as_ref(),
        calls,
    )
}

/// Records the result for a version that is published: an event, and a flag for each violation.
pub fn record_result(
    tx: &mut Tx,
    registry: &Registry,
    submission: &Submission,
    verdict: &PolicyVerdict,
) -> Result<()> {
    publish_event(tx, registry, submission, verdict, true)?;
    let registry_ref = registry.reference.clone();
    for issue in &verdict.issues {
        let flag = PolicyFlag {
            id: tx.new_id(),
            policy_id: issue.policy_id,
            registry: registry.id,
            registry_ref: registry_ref.clone(),
            artifact_type: submission.kind,
            name: submission.name.clone(),
            version: submission.version.clone(),
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

/// Records the result for a version that is refused, by its own verdict or by that of another version
/// of the same request: an event, if a rule is violated. The event is committed although nothing is
/// published.
pub fn record_refusal(
    tx: &mut Tx,
    registry: &Registry,
    submission: &Submission,
    verdict: &PolicyVerdict,
) -> Result<()> {
    if verdict.passed {
        return Ok(());
    }
    publish_event(tx, registry, submission, verdict, false)
}

fn publish_event(
    tx: &mut Tx,
    registry: &Registry,
    submission: &Submission,
    verdict: &PolicyVerdict,
    is_published: bool,
) -> Result<()> {
    if verdict.policies.is_empty() {
        return Ok(());
    }
    let violated: BTreeSet<_> = verdict.issues.iter().map(|issue| issue.policy_id).collect();
    let (event, policies) = if verdict.passed {
        (EventType::GovernancePassed, json!(verdict.policies))
    } else {
        (EventType::GovernanceViolation, json!(violated))
    };
    let payload = json!({
        "registryId": registry.id,
        "registryRef": registry.reference,
        "artifactType": submission.kind,
        "name": submission.name,
        "version": submission.version,
        "model": submission.model,
        "policyIds": policies,
        "published": is_published,
    });
    // The submission has no record yet: the event is about its registry.
    let about = About::resource("registry", registry.id).guarded_by("registry", registry.id);
    publish(tx, event, about, payload)
}

/// Evaluates an input against policies. While the result of a search or a judge is pending, the
/// returned value is meaningless and the run is discarded. Judges are queried and inputs run last, and
/// only for a text that no other rule refuses: a text that must not be published is not sent to a provider.
fn evaluate_policies(
    view: &View,
    policies: &[Policy],
    input: &PolicyInput,
    inputs: Option<&Inputs>,
    calls: &mut Calls,
) -> Result<PolicyVerdict> {
    let compiled = input.text;
    // No rule is got round by `{{''}}` in the middle of what it looks for.
    let text = templates::unquoted(input.text);
    let input = &PolicyInput { text: &text, ..*input };
    let mut issues = Vec::new();
    let mut judges = Vec::new();
    let all_rules = policies.iter().flat_map(|policy| &policy.rules);
    let Some(occurring) = rules::occurring(all_rules, input.text, calls) else {
        return Ok(PolicyVerdict { passed: true, issues, policies: Vec::new() });
    };
    for policy in policies {
        for rule in &policy.rules {
            if rules::queries(rule.kind) {
                judges.push((policy, rule));
            } else if let Some(message) = rules::violation(rule, input, &occurring) {
                issues.push(violation(policy, rule.kind, message));
            }
        }
    }
    if issues.iter().all(|issue| issue.severity == PolicySeverity::Warning) {
        for (policy, rule) in judges {
            let message = match (rule.kind, inputs) {
                (PolicyRuleType::Judge, _) => {
                    judge::violation(view, policy, rule, input.text, calls)?
                }
                (_, Some(inputs)) => {
                    passing::violation(view, policy, rule, (inputs, compiled), calls)?
                }
                // A text alone has none.
                (_, None) => None,
            };
            if let Some(message) = message {
                issues.push(violation(policy, rule.kind, message));
            }
        }
    }
    let policies = policies.iter().map(|policy| policy.id).collect();
    Ok(PolicyVerdict { passed: issues.is_empty(), issues, policies })
}

fn violation(policy: &Policy, rule: PolicyRuleType, message: String) -> PolicyViolation {
    let message = format!("{message} (policy \"{}\")", policy.name);
    PolicyViolation { policy_id: policy.id, rule, severity: policy.severity, message }
}

/// Returns the judges of the policies that are assigned to a registry, to score answers of models.
///
/// # Errors
/// 502 if one has no provider to ask.
pub fn scorers(view: &View, registry: Id<Registry>) -> Result<Vec<Scorer>> {
    let mut scorers = Vec::new();
    for policy in &assignments::policies_of(view, registry)? {
        for rule in policy.rules.iter().filter(|rule| rule.kind == PolicyRuleType::Judge) {
            if let RuleValue::Text(question) = &rule.value {
                let provider = judge::provider(view, policy, rule)?;
                scorers.push(Scorer { question: question.clone(), provider });
            }
        }
    }
    Ok(scorers)
}

// ── Dry run ──────────────────────────────────────────────────────────────────

/// The longest text that compilation produces.
const MAX_CHARS: usize = templates::MAX_TEXT_BYTES;

/// A text to evaluate without publishing it. At least one of `policyIds` and `registryRef` is required.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"text": "Call us at 555-0100.", "registryRef": "acme/main"}],
    "if" = {"not": {"required": ["policyIds"],
        "properties": {"policyIds": {"type": "array", "items": {}, "minItems": 1}}}},
    "then" = {"required": ["registryRef"], "properties": {"registryRef": {"type": "string"}}},
))]
pub struct GovernanceCheck {
    /// The compiled text, with its imports inserted and its variables as `{{NAME}}`.
    text: Text<0, MAX_CHARS>,
    /// The policies to evaluate.
    policy_ids: Option<BoundedList<Id<Policy>, 0, 20>>,
    /// A registry whose policies are evaluated, too: `<orgSlug>/<registrySlug>`, its id or its slug.
    registry_ref: Option<String>,
    /// The model that the text is for; `generic` if absent.
    model: Option<Text<1, 200>>,
    /// The metadata; empty if absent.
    metadata: Option<JsonMap>,
}

impl Input for GovernanceCheck {
    fn check(&self, issues: &mut Vec<Issue>) {
        let are_named = self.policy_ids.as_ref().is_some_and(|ids| !ids.is_empty());
        if !are_named && self.registry_ref.is_none() {
            issues.push(Issue::new("policyIds", "is required if registryRef is absent"));
        }
    }
}

/// The model of a text that serves every model.
const GENERIC: &str = "generic";

pub(super) fn check(
    view: &View,
    req: &Req<(), GovernanceCheck>,
    calls: &mut Calls,
) -> Result<PolicyVerdict> {
    let input = &req.input;
    let mut policies = Vec::new();
    if let Some(reference) = &input.registry_ref {
        let registry = registries::require_usable(view, req.caller(), reference)?;
        policies = assignments::policies_of(view, registry.id)?;
    }
    for id in input.policy_ids.iter().flat_map(|ids| ids.iter()) {
        let policy: Policy = view.fetch(id)?;
        if policies.iter().all(|known| known.id != policy.id) {
            policies.push(policy);
        }
    }
    let variables = variables_in(&input.text);
    let content = PolicyInput {
        text: &input.text,
        variables: &variables,
        metadata: &input.metadata.as_ref().map(JsonMap::to_map).unwrap_or_default(),
        model: input.model.as_deref().unwrap_or(GENERIC),
    };
    evaluate_policies(view, &policies, &content, None, calls)
}

/// Returns the variables of a compiled text. Malformed placeholders are ignored: publishing reports
/// them.
fn variables_in(text: &str) -> Vec<String> {
    let find_nothing = |_: &ArtifactName, _: &Range| Ok::<_, Infallible>(Err(String::new()));
    let Ok(compilation) = templates::compile(text, find_nothing);
    compilation.variables
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/governance/check",
            MEMBER,
            "governance.check",
            op::read(op::calling(JUDGE_SECS, check)),
        )
        .needs(ScopeName::PolicyCheck)
        .costly()
        .about("Dry-run policies on a text"),
    ]
}
