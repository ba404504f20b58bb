//! What wakes nobody, whatever waits.

use serde_json::{Value, json};

use super::super::Case;
use super::super::stage::Stage;
use super::case;

/// Pauses some place by the request of the case while mail waits, and resumes it for the cases after this.
fn pause(stage: &mut Stage<'_>, place: &str) {
    let ann = stage.ann.clone();
    stage.mail(&ann);
    stage.ask(&[("agentId", &ann), ("stableKey", "ann")], json!({"reason": "r"}));
    stage.owner().post(&format!("{place}/resume"), json!({})).ok();
}

pub const PAUSED: &[Case] = &[
    case("POST /teams/pause", &[], |stage| pause(stage, "/teams")),
    case("POST /teams/{teamId}/pause", &[], |stage| {
        let place = stage.path("");
        pause(stage, &place);
    }),
    case("POST /teams/{teamId}/agents/{agentId}/pause", &[], |stage| {
        let place = stage.path(&format!("/agents/{}", stage.ann));
        pause(stage, &place);
    }),
    case("POST /agents/{stableKey}/pause", &[], |stage| pause(stage, "/agents/ann")),
];

pub const LEFT: &[Case] = &[
    case("POST /teams", &[], |stage| {
        let slug = format!("{}-too", stage.slug);
        stage.ask(&[], json!({"slug": slug, "name": "Crew", "budget": {"monthlyUsd": 0}}));
    }),
    case("DELETE /teams/{teamId}", &[], |stage| {
        stage.task(json!({"assigneeAgentId": stage.ann}));
        stage.ask(&[], json!({}));
    }),
    // Its tasks become free, also one that a worker has, or for which others wait.
    case("DELETE /teams/{teamId}/agents/{agentId}", &[], |stage| {
        let ann = stage.ann.clone();
        let task = stage.task(json!({"assigneeAgentId": ann}));
        stage.task(json!({"assigneeAgentId": stage.bob, "dependsOn": [task]}));
        let claim = json!({"agentId": ann, "worker": "w", "leaseSecs": 600});
        stage.post(&format!("/tasks/{task}/claim"), claim);
        stage.post("/approvals", json!({"agentId": ann, "title": "?", "taskId": task}));
        stage.mail(&ann);
        stage.ask(&[("agentId", &ann)], json!({}));
    }),
];

pub const REPORTED: &[Case] = &[
    case("POST /teams/{teamId}/agents/{agentId}/heartbeat", &[], |stage| {
        let ann = stage.ann.clone();
        let task = stage.task(json!({}));
        let claim = json!({"agentId": ann, "worker": "w", "leaseSecs": 600});
        stage.post(&format!("/tasks/{task}/claim"), claim);
        stage.ask(&[("agentId", &ann)], json!({"worker": "w"}));
    }),
    case("POST /teams/{teamId}/agents/{agentId}/wakes/ack", &[], |stage| {
        let ann = stage.ann.clone();
        stage.mail(&ann);
        let wakes = stage.get(&format!("/agents/{ann}/wakes")).items();
        stage.mail(&ann);
        stage.ask(&[("agentId", &ann)], json!({"wakeIds": [wakes[0]["id"]]}));
    }),
    case("POST /teams/{teamId}/inbox", &[], |stage| {
        stage.ask(&[], json!({"fromAgentId": stage.ann, "body": "b"}));
    }),
    case("PATCH /teams/{teamId}/messages/{messageId}", &[], |stage| {
        let mail = stage.make("/inbox", json!({"fromAgentId": stage.ann, "body": "b"}));
        stage.ask(&[("messageId", &mail)], json!({}));
    }),
    case("POST /teams/{teamId}/messages/{messageId}/consume", &[], |stage| {
        let mail = stage.mail(&stage.ann);
        stage.ask(&[("messageId", &mail)], json!({"agentId": stage.ann}));
    }),
    case("POST /teams/{teamId}/approvals", &[], |stage| {
        let task = stage.task(json!({"assigneeAgentId": stage.bob}));
        stage.ask(&[], json!({"agentId": stage.ann, "title": "?", "taskId": task}));
    }),
    case("POST /teams/{teamId}/timeline", &[], |stage| {
        let entry = json!({"kind": "blocker_digest", "title": "t", "agentId": stage.ann});
        stage.ask(&[], entry);
    }),
    case("POST /teams/{teamId}/agents/{agentId}/memories", &[], |stage| {
        let ann = stage.ann.clone();
        stage.ask(&[("agentId", &ann)], json!({"content": "c"}));
    }),
    case("DELETE /teams/{teamId}/agents/{agentId}/memories/{memoryId}", &[], |stage| {
        let ann = stage.ann.clone();
        let memory = stage.make(&format!("/agents/{ann}/memories"), json!({"content": "c"}));
        stage.ask(&[("agentId", &ann), ("memoryId", &memory)], json!({}));
    }),
];

/// A schedule that wakes ann, but not soon.
fn schedule(stage: &Stage<'_>) -> Value {
    json!({"name": "n", "everySecs": 86_400, "wake": {"agentId": stage.ann, "text": "t"}})
}

/// The request of the case, about such a schedule.
fn about_schedule(stage: &mut Stage<'_>, body: Value) {
    let schedule = stage.make("/schedules", schedule(stage));
    stage.ask(&[("scheduleId", &schedule)], body);
}

const SCHEDULE: &str = "PATCH /teams/{teamId}/schedules/{scheduleId}";

pub const MANAGED: &[Case] = &[
    case("POST /teams/{teamId}/schedules", &[], |stage| {
        let schedule = schedule(stage);
        stage.ask(&[], schedule);
    }),
    case(SCHEDULE, &[], |stage| {
        let wake = json!({"agentId": stage.bob, "text": "t"});
        about_schedule(stage, json!({"wake": wake}));
    }),
    case(SCHEDULE, &[], |stage| {
        let task = json!({"title": "t", "assigneeAgentId": stage.bob});
        about_schedule(stage, json!({"task": task}));
    }),
    case("DELETE /teams/{teamId}/schedules/{scheduleId}", &[], |stage| {
        about_schedule(stage, json!({}));
    }),
    case("POST /teams/{teamId}/schedules/{scheduleId}/pause", &[], |stage| {
        about_schedule(stage, json!({"reason": "r"}));
    }),
    case("POST /teams/{teamId}/schedules/{scheduleId}/resume", &[], |stage| {
        let schedule = stage.make("/schedules", schedule(stage));
        stage.post(&format!("/schedules/{schedule}/pause"), json!({"reason": "r"}));
        stage.ask(&[("scheduleId", &schedule)], json!({}));
    }),
];
