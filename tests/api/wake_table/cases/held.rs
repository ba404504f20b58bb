//! What was held back, failed or is posted; budgets.

use serde_json::{Value, json};

use super::super::Case;
use super::super::stage::Stage;
use super::{MASTER, case, timed};
use crate::receiver::Receiver;

const RETRY: &str = "POST /teams/{teamId}/agents/{agentId}/wakes/retry";
const TEAM: &str = "PATCH /teams/{teamId}";
const AGENT: &str = "PATCH /teams/{teamId}/agents/{agentId}";
const RUNS: &str = "POST /teams/{teamId}/agents/{agentId}/runs";
const AGENTS: &str = "POST /teams/{teamId}/agents";

/// Pauses some place, sends mail to ann, and resumes by the request of the case.
fn resume(stage: &mut Stage<'_>, place: &str) {
    let ann = stage.ann.clone();
    stage.role("Held back", &ann);
    stage.owner().post(&format!("{place}/pause"), json!({"reason": "r"})).ok();
    stage.mail(&ann);
    stage.listen(&ann);
    stage.ask(&[("agentId", &ann), ("stableKey", "ann")], json!({}));
}

/// A wake of ann's that it was handed as often as it is to be, if that is once, and the lease of which has
/// ended.
fn exhausted(stage: &mut Stage<'_>) -> String {
    let ann = stage.ann.clone();
    stage.mail(&ann);
    assert_eq!(stage.get(&format!("/agents/{ann}/wakes")).items().len(), 1);
    stage.pass_secs(61);
    ann
}

pub const HELD: &[Case] = &[
    case("POST /teams/resume", &[("Held back", "held back")], |stage| resume(stage, "/teams")),
    case("POST /teams/{teamId}/resume", &[("Held back", "held back")], |stage| {
        let (team, bob) = (stage.path(""), stage.bob.clone());
        stage.owner().post(&format!("{team}/pause"), json!({"reason": "r"})).ok();
        stage.role("Held back", &bob);
        stage.mail(&bob);
        stage.listen(&bob);
        resume(stage, &team);
    }),
    case("POST /teams/{teamId}/agents/{agentId}/resume", &[("Held back", "held back")], |stage| {
        let place = stage.path(&format!("/agents/{}", stage.ann));
        resume(stage, &place);
    }),
    case("POST /agents/{stableKey}/resume", &[("Held back", "held back")], |stage| {
        resume(stage, "/agents/ann");
    }),
    timed(RETRY, &[("Agent", "failed")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Agent", &ann);
        stage.patch(&format!("/agents/{ann}"), json!({"maxAttempts": 1}));
        exhausted(stage);
        stage.note_failed(&ann);
        stage.ask(&[("agentId", &ann)], json!({}));
    }),
    timed(AGENT, &[(MASTER, "wake_failed")], |stage| {
        let ann = exhausted(stage);
        let sam = stage.sam.clone();
        stage.listen(&sam);
        stage.ask(&[("agentId", &ann)], json!({"maxAttempts": 1}));
    }),
    case(AGENT, &[("Agent", "posted")], |stage| {
        let (ann, receiver) = (stage.ann.clone(), Receiver::answering(&[204]));
        stage.role("Agent", &ann);
        let mail = stage.mail(&ann);
        stage.ask(&[("agentId", &ann)], json!({"wakeUrl": receiver.url}));
        assert_eq!(receiver.next().json()["data"]["messageId"], json!(mail));
        stage.was_posted(&ann);
    }),
    case(AGENT, &[], |stage| {
        let ann = stage.ann.clone();
        stage.mail(&ann);
        stage.ask(&[("agentId", &ann)], json!({"skills": ["rust"], "maxAttempts": 20}));
    }),
    // Nobody takes over what the last Scrum Master was told.
    case(AGENT, &[], |stage| {
        let (ann, sam) = (stage.ann.clone(), stage.sam.clone());
        let task = stage.task(json!({}));
        stage.post("/messages", json!({"taskId": task, "body": "b"}));
        stage.patch(&format!("/agents/{sam}"), json!({"role": "member"}));
        stage.ask(&[("agentId", &ann)], json!({"role": "scrum_master"}));
    }),
];

/// Takes all of a budget away, of the team or of ann, sends mail to ann, and gives it back by the request of
/// the case.
fn give_back(stage: &mut Stage<'_>, place: &str, budget: Value) {
    let ann = stage.ann.clone();
    stage.role("Held back", &ann);
    stage.patch(place, json!({"budget": {"monthlyUsd": 0, "onExhausted": "pause"}}));
    stage.mail(&ann);
    stage.listen(&ann);
    stage.ask(&[("agentId", &ann)], json!({"budget": budget}));
}

/// A run that costs nine dollars.
fn run() -> Value {
    json!({"status": "succeeded", "costUsd": 9})
}

/// Reports one of ann's; returns ann.
fn has_spent(stage: &Stage<'_>) -> String {
    stage.post(&format!("/agents/{}/runs", stage.ann), run());
    stage.ann.clone()
}

/// Reports one of an agent's by the request of the case.
fn spend(stage: &mut Stage<'_>, agent: &str) {
    stage.ask(&[("agentId", agent)], run());
}

pub const BUDGETS: &[Case] = &[
    case(TEAM, &[("Held back", "held back")], |stage| {
        give_back(stage, "", json!({"monthlyUsd": 10}));
    }),
    case(TEAM, &[("Held back", "held back")], |stage| give_back(stage, "", json!(null))),
    case(AGENT, &[("Held back", "held back")], |stage| {
        let place = format!("/agents/{}", stage.ann);
        give_back(stage, &place, json!({"monthlyUsd": 10}));
    }),
    case(AGENT, &[("Held back", "held back")], |stage| {
        let place = format!("/agents/{}", stage.ann);
        give_back(stage, &place, json!(null));
    }),
    case(TEAM, &[(MASTER, "budget_low")], |stage| {
        has_spent(stage);
        stage.ask(&[], json!({"budget": {"monthlyUsd": 10}}));
    }),
    // Of nothing, nothing is spent; it is not passed.
    case(TEAM, &[], |stage| {
        stage.ask(&[], json!({"budget": {"monthlyUsd": 0}}));
    }),
    case(TEAM, &[], |stage| {
        stage.ask(&[], json!({"budget": {"monthlyUsd": 10}, "timeZone": "Asia/Tokyo"}));
    }),
    timed(TEAM, &[(MASTER, "budget_low")], |stage| {
        stage.patch("", json!({"timeZone": "Asia/Tokyo"}));
        has_spent(stage);
        stage.patch("", json!({"timeZone": null, "budget": {"monthlyUsd": 10}}));
        stage.ask(&[], json!({"timeZone": "Asia/Tokyo"}));
    }),
    case(AGENT, &[(MASTER, "budget_low")], |stage| {
        let ann = has_spent(stage);
        stage.ask(&[("agentId", &ann)], json!({"budget": {"monthlyUsd": 10}}));
    }),
    case(AGENT, &[], |stage| {
        let ann = stage.ann.clone();
        stage.ask(&[("agentId", &ann)], json!({"budget": {"monthlyUsd": 10}}));
    }),
    case(AGENTS, &[(MASTER, "budget_low")], |stage| {
        let budget = json!({"monthlyUsd": 0, "onExhausted": "pause"});
        stage.ask(&[], json!({"stableKey": "eve", "role": "member", "budget": budget}));
    }),
    case(AGENTS, &[], |stage| {
        let budget = json!({"monthlyUsd": 0});
        stage.ask(&[], json!({"stableKey": "eve", "role": "member", "budget": budget}));
    }),
    case(AGENTS, &[], |stage| {
        // It has the mail to read that came when nobody was Scrum Master, and is not woken for it.
        let left = stage.path(&format!("/agents/{}", stage.sam));
        stage.owner().delete(&left).ok();
        let task = stage.task(json!({}));
        stage.post("/messages", json!({"taskId": task, "body": "b"}));
        let budget = json!({"monthlyUsd": 10});
        stage.ask(&[], json!({"stableKey": "eve", "role": "scrum_master", "budget": budget}));
    }),
    case(RUNS, &[(MASTER, "budget_low")], |stage| {
        let ann = stage.ann.clone();
        stage.patch("", json!({"budget": {"monthlyUsd": 10}}));
        spend(stage, &ann);
    }),
    case(RUNS, &[(MASTER, "budget_low")], |stage| {
        let ann = stage.ann.clone();
        stage.patch(&format!("/agents/{ann}"), json!({"budget": {"monthlyUsd": 9}}));
        spend(stage, &ann);
    }),
    // Its own run wakes no Scrum Master.
    case(RUNS, &[], |stage| {
        let sam = stage.sam.clone();
        stage.patch("", json!({"budget": {"monthlyUsd": 10}}));
        spend(stage, &sam);
    }),
    case(RUNS, &[], |stage| {
        let ann = stage.ann.clone();
        stage.patch("", json!({"budget": {"monthlyUsd": 20}}));
        let task = stage.task(json!({"assigneeAgentId": stage.bob}));
        let run = json!({"status": "failed", "costUsd": 9, "error": "e", "taskId": task});
        stage.ask(&[("agentId", &ann)], run);
    }),
];
