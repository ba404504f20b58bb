//! Policies, their effect on publications, and flags.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::llm_providers::{LlmProvider, tests as llm_provider};
use super::super::registries::{self, ArtifactType, Registry};
use super::assignments::PolicyAssignment;
use super::evaluation::{self, GovernanceCheck};
use super::flags::PolicyFlag;
use super::policy::Policy;
use super::*;
use crate::api::{Calls, Principal, Req};
use crate::base::{ArtifactName, Error, Id, JsonMap, Kind, Result, Version};
use crate::outbox::{Event, EventType};
use crate::outside::{Call, CallResult, Failure, Response};
use crate::resources::testing::{Fixture, args};
use crate::store::{ListSource, Order, View};

mod filling;
mod judges;
mod passing;

// ── Fixtures ─────────────────────────────────────────────────────────────────

fn registry(fixture: &Fixture, slug: &str) -> Registry {
    registries::tests::make(fixture, slug, json!({})).unwrap();
    let found = fixture.store.read_now(fixture.org, |view| registries::find(view, slug));
    found.unwrap().unwrap().without_caller().clone()
}

fn policy(fixture: &Fixture, severity: &str, rules: Value) -> Result<Policy> {
    let body = json!({"name": "House rules", "severity": severity, "rules": rules});
    fixture.write_as(&fixture.owner, policies::create, (), Fixture::input(body)?)
}

fn assign(fixture: &Fixture, policy: Id<Policy>, body: Value) -> Result<PolicyAssignment> {
    fixture.write_as(&fixture.owner, assignments::create, policy, Fixture::input(body)?)
}

/// Assigns a policy with these rules, which refuses, to the registry of this slug.
pub fn govern(fixture: &Fixture, slug: &str, rules: Value) {
    let policy = policy(fixture, "error", rules).unwrap();
    assign(fixture, policy.id, json!({"registryRef": format!("acme/{slug}")})).unwrap();
}

fn assigned(fixture: &Fixture, severity: &str, rules: Value, registry: &Registry) -> Policy {
    let policy = policy(fixture, severity, rules).unwrap();
    assign(fixture, policy.id, json!({"registryId": registry.id})).unwrap();
    policy
}

/// Evaluates a text and records the result as publishing does, alone or with a text that is refused.
/// Returns the refusals.
fn publish_with(
    fixture: &Fixture,
    registry: &Registry,
    text: &'static str,
    with_refused: bool,
) -> Vec<String> {
    let registry = registry.clone();
    let done = fixture.store.write_blocking(fixture.org, move |tx| {
        let (name, version) = (ArtifactName::parse("greeting"), Version::parse("1.0.0"));
        let submission = Submission {
            kind: ArtifactType::Promptlet,
            name: &name.unwrap(),
            version: &version.unwrap(),
            text,
            variables: &[],
            metadata: &JsonMap::default(),
            model: "generic",
            inputs: None,
        };
        let mut calls = Calls::default();
        let mut verdict = evaluate(tx, registry.id, &submission, &mut calls)?;
        if calls.search() {
            verdict = evaluate(tx, registry.id, &submission, &mut calls)?;
        }
        let refusals: Vec<_> = verdict.refusals().map(|issue| issue.message.clone()).collect();
        if refusals.is_empty() && !with_refused {
            record_result(tx, &registry, &submission, &verdict)?;
        } else {
            record_refusal(tx, &registry, &submission, &verdict)?;
        }
        Ok(refusals)
    });
    done.unwrap()
}

fn publish(fixture: &Fixture, registry: &Registry, text: &'static str) -> Vec<String> {
    publish_with(fixture, registry, text, false)
}

#[test]
fn rules_look_at_what_quoted_texts_say() {
    let fixture = Fixture::new();
    let registry = registry(&fixture, "main");
    let rules = json!([{"type": "forbidPattern", "value": "555-0100"}]);
    assigned(&fixture, "error", rules, &registry);
    for text in ["Call 555-0100", "Call 555-{{''}}0100", "Call {{ \"555-\" }}{{ '0100' }}"] {
        assert_eq!(publish(&fixture, &registry, text).len(), 1, "{text}");
    }
    assert_eq!(publish(&fixture, &registry, "Call 555-{{a}}0100").len(), 0);
}

fn events(fixture: &Fixture) -> Vec<(EventType, Value)> {
    let all = |view: &View| view.all(ListSource::<Event>::TABLE, &());
    let all = fixture.store.read_now(fixture.org, all).unwrap();
    all.into_iter().map(|entry| (entry.event_type, entry.payload.0)).collect()
}

fn listed(fixture: &Fixture, who: &Principal, filter: Value) -> Vec<PolicyFlag> {
    fixture.read_as(who, flags::list, (), Fixture::input(filter).unwrap()).unwrap().items
}

fn check(fixture: &Fixture, calls: &mut Calls, body: Value) -> Result<PolicyVerdict> {
    let parts = args((), Fixture::input::<GovernanceCheck>(body)?);
    let mut run = || {
        let check =
            |view: &View| evaluation::check(view, &Req::new(&parts, &fixture.member), calls);
        let verdict = fixture.store.read_now(fixture.org, check);
        (verdict, calls.search())
    };
    match run() {
        (_, true) => run().0,
        (verdict, false) => verdict,
    }
}

fn checked(fixture: &Fixture, body: Value) -> Value {
    json!(check(fixture, &mut Calls::default(), body).unwrap())
}

fn answered(status: u16, content: &str) -> CallResult {
    let body = json!({"choices": [{"message": {"content": content}}]}).to_string().into_bytes();
    CallResult { answer: Ok(Response { status, headers: vec![], body }), took: Duration::ZERO }
}

/// Runs a check whose calls all get this answer. Returns the verdict and those calls.
fn judged(
    fixture: &Fixture,
    body: Value,
    answer: CallResult,
) -> (Result<PolicyVerdict>, Vec<Call>) {
    let mut calls = Calls::default();
    let first = check(fixture, &mut calls, body.clone());
    let asked: Vec<Call> = calls.asked().into_iter().cloned().collect();
    if asked.is_empty() {
        return (first, asked);
    }
    let mut calls = Calls::default();
    asked.iter().for_each(|call| calls.hear(call, answer.clone()));
    let verdict = check(fixture, &mut calls, body);
    assert!(calls.asked().is_empty());
    (verdict, asked)
}

fn judge_at(fixture: &Fixture, base_url: &str) -> Id<LlmProvider> {
    let body = json!({"name": "Ours", "provider": "custom", "baseUrl": base_url});
    llm_provider::make(fixture, body).unwrap().id
}

// ── Policies ─────────────────────────────────────────────────────────────────

#[test]
fn a_policy_shows_every_field_of_every_rule() {
    let fixture = Fixture::new();
    let provider = judge_at(&fixture, "http://a.test");
    let rules = json!([
        {"type": "maxLength", "value": 100},
        {"type": "judge", "value": "Is it kind?", "llmProviderId": provider},
    ]);
    let made = policy(&fixture, "warning", rules).unwrap();
    let expected = json!({
        "id": made.id, "name": "House rules", "description": null, "severity": "warning",
        "rules": [
            {"type": "maxLength", "value": 100, "llmProviderId": null},
            {"type": "judge", "value": "Is it kind?", "llmProviderId": provider},
        ],
        "createdAt": "2026-01-15T12:00:00.000Z", "updatedAt": "2026-01-15T12:00:00.000Z",
        "updatedBy": made.updated_by,
    });
    assert_eq!(json!(fixture.read(policies::get, made.id, ()).unwrap()), expected);
    fixture.pass_secs(60);
    let patch = |body: Value| {
        let patch = Fixture::input(body).unwrap();
        fixture.write_as(&fixture.owner, policies::update, made.id, patch)
    };
    assert_eq!(patch(json!({})).unwrap(), made);
    let changed = patch(json!({"rules": [{"type": "maxLength", "value": 1}]})).unwrap();
    assert_eq!((changed.rules.len(), changed.updated_at > made.updated_at), (1, true));
    fixture.assert_sound();
}

#[test]
fn a_judge_needs_an_existing_provider_which_then_is_not_deleted() {
    let fixture = Fixture::new();
    let judge = |provider: Value| {
        let value = "Is it kind?";
        json!([{"type": "judge", "value": value, "llmProviderId": provider}])
    };
    let error = policy(&fixture, "error", judge(json!(Id::<()>::NIL))).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);

    let provider = judge_at(&fixture, "http://a.test");
    let made = policy(&fixture, "error", judge(json!(provider))).unwrap();
    let remove = || llm_provider::delete(&fixture, provider);
    assert_eq!(remove().unwrap_err().code(), "llm_provider_in_use");
    let change = |rules: Value| {
        let patch = Fixture::input(json!({"rules": rules})).unwrap();
        fixture.write_as(&fixture.owner, policies::update, made.id, patch)
    };
    change(json!([{"type": "maxLength", "value": 1}])).unwrap();
    remove().unwrap();
    assert_eq!(change(judge(json!(provider))).unwrap_err().kind(), Kind::NotFound);

    let provider = judge_at(&fixture, "http://a.test");
    change(judge(json!(provider))).unwrap();
    let remove = || llm_provider::delete(&fixture, provider);
    assert_eq!(remove().unwrap_err().code(), "llm_provider_in_use");
    fixture.write_as(&fixture.owner, policies::delete, made.id, ()).unwrap();
    remove().unwrap();
}

#[test]
fn deleting_a_policy_deletes_its_assignments_and_keeps_its_flags() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    let rules = json!([{"type": "forbidPattern", "value": "x"}]);
    let policy = assigned(&fixture, "warning", rules, &main);
    publish(&fixture, &main, "x");
    fixture.write_as(&fixture.owner, policies::delete, policy.id, ()).unwrap();
    publish(&fixture, &main, "x");
    assert_eq!(events(&fixture).len(), 1);
    assert_eq!(listed(&fixture, &fixture.member, json!({})).len(), 1);
    fixture.assert_sound();
}

// ── Assignments ──────────────────────────────────────────────────────────────

#[test]
fn a_policy_is_assigned_to_a_registry_once_by_any_reference() {
    let fixture = Fixture::new();
    let (main, other) = (registry(&fixture, "main"), registry(&fixture, "other"));
    let policy = policy(&fixture, "error", json!([{"type": "maxLength", "value": 1}])).unwrap().id;
    let made = assign(&fixture, policy, json!({"registryRef": "acme/main"})).unwrap();
    assert_eq!((made.registry_id, made.registry_ref.as_str()), (main.id, "acme/main"));
    let both = json!({"registryRef": "other", "registryId": other.id});
    assign(&fixture, policy, both).unwrap();
    for again in [json!({"registryRef": "main"}), json!({"registryId": main.id})] {
        assert_eq!(assign(&fixture, policy, again).unwrap_err().code(), "policy_assigned");
    }
    for nothing in [
        json!({"registryRef": "never"}),
        json!({"registryRef": "other/main"}),
        json!({"registryId": "x"}),
        json!({"registryRef": "main", "registryId": other.id}),
        json!({"registryRef": "never", "registryId": "x"}),
    ] {
        let error = assign(&fixture, policy, nothing.clone()).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{nothing}");
    }
    let error = assign(&fixture, policy, json!({})).unwrap_err();
    assert_eq!(error.issues()[0].path, "registryRef");
    let all = fixture.read(assignments::list, policy, ()).unwrap().items;
    assert_eq!(all.len(), 2);
    fixture.write_as(&fixture.owner, assignments::delete, (policy, made.id), ()).unwrap();
    assign(&fixture, policy, json!({"registryRef": "main"})).unwrap();
    fixture.assert_sound();
}

#[test]
fn a_registry_has_at_most_20_policies() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    let rules = || json!([{"type": "maxLength", "value": 1}]);
    for _ in 0..20 {
        assigned(&fixture, "error", rules(), &main);
    }
    let more = policy(&fixture, "error", rules()).unwrap().id;
    let error = assign(&fixture, more, json!({"registryRef": "main"})).unwrap_err();
    assert_eq!(error.code(), "policies_full");
    assert_eq!(fixture.read(assignments::list, more, ()).unwrap().items, []);
}

// ── Publishing ───────────────────────────────────────────────────────────────

#[test]
fn without_policies_there_is_no_event() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    let rules = json!([{"type": "maxLength", "value": 1}]);
    assigned(&fixture, "error", rules, &registry(&fixture, "other"));
    assert_eq!(publish(&fixture, &main, "anything"), Vec::<String>::new());
    assert_eq!(events(&fixture), []);
}

#[test]
fn a_text_without_violations_passes() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    let policy = assigned(&fixture, "error", json!([{"type": "maxLength", "value": 5}]), &main);
    assert_eq!(publish(&fixture, &main, "12345"), Vec::<String>::new());
    let payload = json!({
        "registryId": main.id, "registryRef": "acme/main", "artifactType": "promptlet",
        "name": "greeting", "version": "1.0.0", "model": "generic", "policyIds": [policy.id],
        "published": true,
    });
    assert_eq!(events(&fixture), [(EventType::GovernancePassed, payload)]);
    assert_eq!(listed(&fixture, &fixture.member, json!({})), []);
}

#[test]
fn a_warning_publishes_and_raises_a_flag_for_each_violation() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    let rules = json!([
        {"type": "forbidPattern", "value": "x"},
        {"type": "maxLength", "value": 100},
        {"type": "requireVariable", "value": "NAME"},
    ]);
    let policy = assigned(&fixture, "warning", rules, &main);
    assert_eq!(publish(&fixture, &main, "x"), Vec::<String>::new());
    let published = events(&fixture);
    assert_eq!(published.len(), 1);
    assert_eq!(published[0].0, EventType::GovernanceViolation);
    assert_eq!(
        (&published[0].1["published"], &published[0].1["policyIds"]),
        (&json!(true), &json!([policy.id]))
    );
    let flags = listed(&fixture, &fixture.member, json!({}));
    let messages: Vec<_> = flags.iter().map(|flag| flag.message.as_str()).collect();
    let expected = [
        "must use the variable NAME (policy \"House rules\")",
        "must not match \"x\" (policy \"House rules\")",
    ];
    assert_eq!(messages, expected);
    let expected = json!({
        "id": flags[1].id, "policyId": policy.id, "registryRef": "acme/main",
        "artifactType": "promptlet", "name": "greeting", "version": "1.0.0",
        "rule": "forbidPattern", "message": messages[1], "createdAt": "2026-01-15T12:00:00.000Z",
        "clearedAt": null, "clearedBy": null,
    });
    assert_eq!(json!(flags[1]), expected);
    fixture.assert_sound();
}

#[test]
fn an_error_refuses_and_is_an_event_without_a_flag() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    let two = json!([{"type": "maxLength", "value": 1}, {"type": "forbidPattern", "value": "x"}]);
    let strict = assigned(&fixture, "error", two, &main);
    let mild = assigned(&fixture, "warning", json!([{"type": "maxLength", "value": 2}]), &main);
    let refusals = publish(&fixture, &main, "xxx");
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    assert!(refusals[0].starts_with("must have at most 1 characters; it has 3"), "{refusals:?}");
    let (event, payload) = events(&fixture).remove(0);
    assert_eq!((event, &payload["published"]), (EventType::GovernanceViolation, &json!(false)));
    assert_eq!(payload["policyIds"], json!([strict.id, mild.id]));
    assert_eq!(listed(&fixture, &fixture.member, json!({})), []);
}

#[test]
fn a_refused_batch_reports_each_violation_and_creates_no_flag() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    assigned(&fixture, "warning", json!([{"type": "forbidPattern", "value": "x"}]), &main);
    publish_with(&fixture, &main, "good", true);
    assert_eq!(events(&fixture), []);
    publish_with(&fixture, &main, "x", true);
    let (event, payload) = events(&fixture).remove(0);
    assert_eq!((event, &payload["published"]), (EventType::GovernanceViolation, &json!(false)));
    assert_eq!(listed(&fixture, &fixture.member, json!({})), []);
}

// ── Flags ────────────────────────────────────────────────────────────────────

#[test]
fn a_flag_is_cleared_once_and_listed_by_registry_and_state() {
    let fixture = Fixture::new();
    let (main, other) = (registry(&fixture, "main"), registry(&fixture, "other"));
    for registry in [&main, &other] {
        assigned(&fixture, "warning", json!([{"type": "maxLength", "value": 0}]), registry);
        publish(&fixture, registry, "x");
    }
    let flag = listed(&fixture, &fixture.member, json!({"registryRef": "main"})).remove(0);
    fixture.pass_secs(60);
    let clear = || fixture.write_as(&fixture.owner, flags::clear, flag.id, ());
    let cleared = clear().unwrap();
    let owner = match &fixture.owner {
        Principal::Caller(caller) => caller.user(),
        _ => unreachable!(),
    };
    assert!(cleared.cleared_at > Some(flag.created_at));
    assert_eq!(cleared.cleared_by, Some(owner));
    assert_eq!(clear().unwrap_err().code(), "flag_cleared");
    let (event, payload) = events(&fixture).pop().unwrap();
    assert_eq!((event, &payload["flagId"]), (EventType::GovernanceFlagCleared, &json!(flag.id)));

    let count = |filter: Value| listed(&fixture, &fixture.member, filter).len();
    assert_eq!(count(json!({})), 1);
    assert_eq!(count(json!({"cleared": true})), 1);
    assert_eq!(count(json!({"registryRef": "acme/main"})), 0);
    assert_eq!(count(json!({"registryRef": "acme/main", "cleared": true})), 1);
    assert_eq!(count(json!({"registryRef": main.id, "cleared": false})), 0);
    assert_eq!(count(json!({"registryRef": "other"})), 1);
    assert_eq!(count(json!({"registryRef": "never"})), 0);
    fixture.assert_sound();
}

#[test]
fn flags_and_assignments_of_a_restricted_registry_need_access() {
    let fixture = Fixture::new();
    registries::tests::make(&fixture, "main", json!({"access": "restricted"})).unwrap();
    let main = fixture.store.read_now(fixture.org, |view| registries::find(view, "main"));
    let main = main.unwrap().unwrap().without_caller().clone();
    let rules = json!([{"type": "maxLength", "value": 0}]);
    let policy = assigned(&fixture, "warning", rules, &main);
    publish(&fixture, &main, "x");
    for filter in [json!({}), json!({"registryRef": "main"})] {
        assert_eq!(listed(&fixture, &fixture.member, filter.clone()), []);
        assert_eq!(listed(&fixture, &fixture.owner, filter).len(), 1);
    }
    assert_eq!(fixture.read(assignments::list, policy.id, ()).unwrap().items, []);
    let all = fixture.read_as(&fixture.owner, assignments::list, policy.id, ()).unwrap();
    assert_eq!(all.items.len(), 1);
    let asked = check(&fixture, &mut Calls::default(), json!({"text": "", "registryRef": "main"}));
    assert_eq!(asked.unwrap_err().kind(), Kind::Forbidden);
}

fn remove(fixture: &Fixture, registry: &Registry) {
    fixture.write_as(&fixture.owner, registries::delete, registry.slug.to_string(), ()).unwrap();
}

#[test]
fn deleting_a_registry_deletes_its_assignments_and_flags() {
    let fixture = Fixture::new();
    let (main, other) = (registry(&fixture, "main"), registry(&fixture, "other"));
    for registry in [&main, &other] {
        assigned(&fixture, "warning", json!([{"type": "maxLength", "value": 0}]), registry);
        (0..5).for_each(|_| drop(publish(&fixture, registry, "x")));
    }
    remove(&fixture, &main);
    assert_eq!(listed(&fixture, &fixture.owner, json!({})).len(), 5);
    publish(&fixture, &main, "x");
    assert_eq!(events(&fixture).len(), 10 + 1, "no flag after the registry was deleted");
    fixture.assert_sound();
}

#[test]
fn flags_of_a_deleted_registry_are_hidden() {
    let fixture = Fixture::new();
    registries::tests::make(&fixture, "main", json!({"access": "restricted"})).unwrap();
    let main = fixture.store.read_now(fixture.org, |view| registries::find(view, "main"));
    let main = main.unwrap().unwrap().without_caller().clone();
    assigned(&fixture, "warning", json!([{"type": "maxLength", "value": 0}]), &main);
    publish(&fixture, &main, "x");
    assert_eq!(listed(&fixture, &fixture.owner, json!({})).len(), 1);
    let many = fixture.store.write_blocking(fixture.org, |tx| {
        let flag =
            tx.view().first(ListSource::<PolicyFlag>::TABLE, &(), Order::Ascending)?.unwrap();
        (0..crate::store::MAX_DEFERRED_CHANGES)
            .try_for_each(|_| tx.insert(&PolicyFlag { id: tx.new_id(), ..flag.clone() }))
    });
    many.unwrap();
    remove(&fixture, &main);
    let left = fixture
        .store
        .read_now(fixture.org, |view| view.count(ListSource::<PolicyFlag>::TABLE, &(), 1));
    assert_eq!(left.unwrap(), 1);
    assert_eq!(listed(&fixture, &fixture.owner, json!({})), []);
    assert_eq!(listed(&fixture, &fixture.member, json!({})), []);
}

// ── Asking ───────────────────────────────────────────────────────────────────

#[test]
fn a_check_evaluates_its_input_and_has_no_effect() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    let rules = json!([
        {"type": "requireVariable", "value": "NAME"},
        {"type": "forbidVariable", "value": "escaped"},
        {"type": "requireMetadata", "value": "owner"},
        {"type": "forbidModel", "value": "gpt-5"},
    ]);
    let strict = assigned(&fixture, "error", rules, &main);
    let good = json!({"text": r"Hi {{ NAME }} \{{escaped}} {{", "registryRef": "main",
        "model": "gpt-6", "metadata": {"owner": "ada"}});
    assert_eq!(checked(&fixture, good), json!({"passed": true, "issues": []}));
    let bad = json!({"text": "{{escaped}}", "policyIds": [strict.id], "model": "gpt-5"});
    let verdict = checked(&fixture, bad);
    let kinds: Vec<_> = verdict["issues"].as_array().unwrap().iter().map(|i| &i["rule"]).collect();
    let expected = ["requireVariable", "forbidVariable", "requireMetadata", "forbidModel"];
    assert_eq!(kinds, expected);
    assert_eq!(verdict["passed"], false);
    let issue = json!({"policyId": strict.id, "rule": "forbidModel", "severity": "error",
        "message": "must not be for the model \"gpt-5\" (policy \"House rules\")"});
    assert_eq!(verdict["issues"][3], issue);
    assert_eq!(events(&fixture), []);
}

#[test]
fn a_check_evaluates_given_and_assigned_policies_once_each() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    let rules = || json!([{"type": "maxLength", "value": 0}]);
    let one = assigned(&fixture, "warning", rules(), &main);
    let other = policy(&fixture, "warning", rules()).unwrap();
    let count = |body: Value| checked(&fixture, body)["issues"].as_array().unwrap().len();
    assert_eq!(count(json!({"text": "x", "registryRef": "main"})), 1);
    assert_eq!(count(json!({"text": "x", "policyIds": [other.id, other.id]})), 1);
    let both = json!({"text": "x", "policyIds": [one.id, other.id], "registryRef": "main"});
    assert_eq!(count(both), 2);
    let refused = |body: Value| check(&fixture, &mut Calls::default(), body).unwrap_err();
    assert_eq!(refused(json!({"text": "x"})).issues()[0].path, "policyIds");
    assert_eq!(refused(json!({"text": "x", "policyIds": []})).issues()[0].path, "policyIds");
    for nothing in [json!({"policyIds": [one.id, "x"]}), json!({"registryRef": "never"})] {
        let mut body = nothing;
        body["text"] = json!("x");
        assert_eq!(refused(body).kind(), Kind::NotFound);
    }
}

#[test]
fn what_is_demanded_of_a_label_is_in_a_policy_that_refuses_and_says_nothing_of_texts() {
    let fixture = Fixture::new();
    let main = registry(&fixture, "main");
    let rules = || json!([{"type": "protectLabel", "value": "production"}]);
    let refused = policy(&fixture, "warning", rules()).unwrap_err();
    assert_eq!(refused.issues()[0].path, "severity");
    let no_label = json!([{"type": "protectLabel", "value": "not a label"}]);
    assert_eq!(policy(&fixture, "error", no_label).unwrap_err().kind(), Kind::Invalid);
    let demands = assigned(&fixture, "error", rules(), &main);
    let warns = Fixture::input(json!({"severity": "warning"})).unwrap();
    let refused = fixture.write_as(&fixture.owner, policies::update, demands.id, warns);
    assert_eq!(refused.unwrap_err().issues()[0].path, "severity");
    assert_eq!(publish_with(&fixture, &main, "production", false), [] as [String; 0]);
}
