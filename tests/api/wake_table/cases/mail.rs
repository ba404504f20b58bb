//! Messages, agents outside, and decisions.

use serde_json::json;

use super::super::Case;
use super::{MASTER, OR_MASTER, case};

const MESSAGES: &str = "POST /teams/{teamId}/messages";
const OUTSIDE_MESSAGES: &str = "POST /exchange/{orgSlug}/{teamSlug}/messages";
const OUTSIDE_REQUESTS: &str = "POST /exchange/{orgSlug}/{teamSlug}/requests";
const ACCEPT: &str = "POST /teams/{teamId}/exchange/peers/{peerId}/accept";
const DECIDE: &str = "POST /teams/{teamId}/approvals/{approvalId}/decide";

pub const SENT: &[Case] = &[
    case(MESSAGES, &[("Recipient", "direct_message")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Recipient", &ann);
        stage.ask(&[], json!({"toAgentId": ann, "body": "b"}));
    }),
    // Of mail with a task the recipient alone hears.
    case(MESSAGES, &[("Recipient", "direct_message")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Recipient", &ann);
        let task = stage.task(json!({"assigneeAgentId": stage.bob}));
        stage.ask(&[], json!({"toAgentId": ann, "taskId": task, "body": "b"}));
    }),
    case(MESSAGES, &[(OR_MASTER, "task_note")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Assignee", &ann);
        let task = stage.task(json!({"assigneeAgentId": ann}));
        stage.ask(&[], json!({"taskId": task, "body": "b"}));
    }),
    case(MESSAGES, &[(OR_MASTER, "task_note")], |stage| {
        let task = stage.task(json!({}));
        stage.ask(&[], json!({"taskId": task, "body": "b"}));
    }),
    // Another's note joins the wake that is there.
    case(MESSAGES, &[(OR_MASTER, "task_note")], |stage| {
        let task = stage.task(json!({}));
        stage.post("/messages", json!({"taskId": task, "body": "b", "fromAgentId": stage.bob}));
        stage.ask(&[], json!({"taskId": task, "body": "b"}));
    }),
    case(OUTSIDE_MESSAGES, &[(MASTER, "direct_message")], |stage| {
        stage.accepted_peer();
        stage.ask(&[], json!({"body": "b"}));
    }),
    case(OUTSIDE_REQUESTS, &[(MASTER, "external_request")], |stage| {
        let handle = stage.outsider();
        let (_, domain) = handle.split_once('@').unwrap();
        stage.post("/exchange/domain-rules", json!({"domain": domain, "rule": "allow"}));
        stage.ask(&[], json!({"handle": handle, "message": "May I?"}));
    }),
    case(OUTSIDE_REQUESTS, &[], |stage| {
        let handle = stage.outsider();
        stage.ask(&[], json!({"handle": handle, "message": "May I?"}));
    }),
    case(ACCEPT, &[(MASTER, "external_request")], |stage| {
        let peer = stage.peer();
        stage.ask(&[("peerId", &peer)], json!({}));
    }),
    case("POST /teams/{teamId}/exchange/peers/{peerId}/refuse", &[], |stage| {
        let peer = stage.peer();
        stage.ask(&[("peerId", &peer)], json!({"reason": "No surveys."}));
    }),
    case("POST /teams/{teamId}/exchange/peers/{peerId}/block", &[], |stage| {
        let peer = stage.accepted_peer();
        stage.ask(&[("peerId", &peer)], json!({}));
    }),
    case("DELETE /teams/{teamId}/exchange/peers/{peerId}", &[], |stage| {
        let peer = stage.accepted_peer();
        stage.ask(&[("peerId", &peer)], json!({}));
    }),
    case("POST /teams/{teamId}/exchange/peers/{peerId}/messages", &[], |stage| {
        let peer = stage.accepted_peer();
        stage.ask(&[("peerId", &peer)], json!({"body": "b", "fromAgentId": stage.ann}));
    }),
    // Requests that wait go on waiting for somebody to decide.
    case("POST /teams/{teamId}/exchange/domain-rules", &[], |stage| {
        let peer = stage.peer();
        let peer = stage.get(&format!("/exchange/peers/{peer}")).ok();
        stage.ask(&[], json!({"domain": peer["domain"], "rule": "allow"}));
    }),
    case("DELETE /teams/{teamId}/exchange/domain-rules/{ruleId}", &[], |stage| {
        let rule = json!({"domain": "some.example", "rule": "block"});
        let rule = stage.make("/exchange/domain-rules", rule);
        stage.ask(&[("ruleId", &rule)], json!({}));
    }),
];

pub const DECIDED: &[Case] = &[
    case(DECIDE, &[("Asker", "approval_decided")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Asker", &ann);
        let question = stage.make("/approvals", json!({"agentId": ann, "title": "?"}));
        stage.ask(&[("approvalId", &question)], json!({"decision": "denied"}));
    }),
    // Who has the task that it is about is not told.
    case(DECIDE, &[("Asker", "approval_decided")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Asker", &ann);
        let task = stage.task(json!({"assigneeAgentId": stage.bob}));
        let question = json!({"agentId": ann, "title": "?", "taskId": task});
        let question = stage.make("/approvals", question);
        stage.ask(&[("approvalId", &question)], json!({"decision": "approved"}));
    }),
    // Nor is anybody in the place of one that has left.
    case(DECIDE, &[], |stage| {
        let question = stage.make("/approvals", json!({"agentId": stage.ann, "title": "?"}));
        let left = stage.path(&format!("/agents/{}", stage.ann));
        stage.owner().delete(&left).ok();
        stage.ask(&[("approvalId", &question)], json!({"decision": "approved"}));
    }),
];
