//! Tasks: created, changed, and done for those that wait.

use serde_json::{Value, json};

use super::super::Case;
use super::super::stage::Stage;
use super::{MASTER, OR_MASTER, case};

const WAITING: &str = "Waiting assignee, else Scrum Master";
const TASKS: &str = "POST /teams/{teamId}/tasks";
const TASK: &str = "PATCH /teams/{teamId}/tasks/{taskId}";
const CLAIM: &str = "POST /teams/{teamId}/tasks/{taskId}/claim";
const LONG_AGO: &str = "2020-01-01T00:00:00Z";

pub const CREATED: &[Case] = &[
    case(TASKS, &[("Assignee", "task_assigned")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Assignee", &ann);
        stage.ask(&[], json!({"title": "t", "assigneeAgentId": ann}));
    }),
    case(TASKS, &[("Assignee", "task_assigned"), (MASTER, "task_overdue")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Assignee", &ann);
        stage.ask(&[], json!({"title": "t", "assigneeAgentId": ann, "dueAt": LONG_AGO}));
    }),
    case(TASKS, &[], |stage| {
        stage.ask(&[], json!({"title": "t"}));
    }),
    case(TASKS, &[], |stage| {
        let on = stage.task(json!({}));
        stage.ask(&[], json!({"title": "t", "assigneeAgentId": stage.ann, "dependsOn": [on]}));
    }),
    case(CLAIM, &[], |stage| {
        let task = stage.task(json!({}));
        stage.ask(&[("taskId", &task)], json!({"agentId": stage.ann}));
    }),
    case(CLAIM, &[], |stage| {
        let task = stage.task(json!({"assigneeAgentId": stage.ann}));
        let claim = json!({"agentId": stage.ann, "worker": "w", "leaseSecs": 600});
        stage.ask(&[("taskId", &task)], claim);
    }),
];

/// A change of a task of ann's that was made so.
fn change(stage: &mut Stage<'_>, mut task: Value, patch: Value) {
    let ann = stage.ann.clone();
    stage.role("Assignee", &ann);
    task["assigneeAgentId"] = json!(ann);
    let task = stage.task(task);
    stage.ask(&[("taskId", &task)], patch);
}

pub const CHANGED: &[Case] = &[
    case(TASK, &[("Assignee", "task_assigned")], |stage| {
        let (ann, bob) = (stage.ann.clone(), stage.bob.clone());
        stage.role("Assignee", &bob);
        let task = stage.task(json!({"assigneeAgentId": ann}));
        stage.ask(&[("taskId", &task)], json!({"assigneeAgentId": bob}));
    }),
    // A new assignee is woken for that alone, also if the task is reopened by the same change.
    case(TASK, &[("Assignee", "task_assigned")], |stage| {
        let (ann, bob) = (stage.ann.clone(), stage.bob.clone());
        stage.role("Assignee", &bob);
        let task = stage.task(json!({"assigneeAgentId": ann}));
        stage.patch(&format!("/tasks/{task}"), json!({"status": "done"}));
        stage.ask(&[("taskId", &task)], json!({"assigneeAgentId": bob, "status": "open"}));
    }),
    case(TASK, &[("Assignee", "task_unblocked")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Assignee", &ann);
        let task = stage.task(json!({"assigneeAgentId": ann}));
        stage.patch(&format!("/tasks/{task}"), json!({"status": "blocked"}));
        stage.ask(&[("taskId", &task)], json!({"status": "open"}));
    }),
    case(TASK, &[("Assignee", "task_reopened")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Assignee", &ann);
        let task = stage.task(json!({"assigneeAgentId": ann}));
        stage.patch(&format!("/tasks/{task}"), json!({"status": "cancelled"}));
        stage.ask(&[("taskId", &task)], json!({"status": "in_progress"}));
    }),
    case(TASK, &[("Assignee", "task_reopened"), (MASTER, "task_overdue")], |stage| {
        let ann = stage.ann.clone();
        stage.role("Assignee", &ann);
        let task = stage.task(json!({"assigneeAgentId": ann, "dueAt": LONG_AGO}));
        stage.patch(&format!("/tasks/{task}"), json!({"status": "done"}));
        stage.ask(&[("taskId", &task)], json!({"status": "open"}));
    }),
    case(TASK, &[(MASTER, "task_overdue")], |stage| {
        change(stage, json!({}), json!({"dueAt": LONG_AGO}));
    }),
    // What is nobody's is nobody's to go on with.
    case(TASK, &[], |stage| {
        let task = stage.task(json!({}));
        stage.patch(&format!("/tasks/{task}"), json!({"status": "blocked"}));
        stage.ask(&[("taskId", &task)], json!({"status": "open"}));
    }),
    case(TASK, &[], |stage| change(stage, json!({}), json!({"assigneeAgentId": null}))),
    case(TASK, &[], |stage| change(stage, json!({}), json!({"status": "blocked"}))),
    case(TASK, &[], |stage| change(stage, json!({}), json!({"status": "in_progress"}))),
    case(TASK, &[], |stage| change(stage, json!({"dueAt": LONG_AGO}), json!({"status": "done"}))),
    case(TASK, &[], |stage| {
        let patch = json!({"title": "u", "description": "d", "priority": 0, "projectId": "p",
            "labels": ["l"], "dueAt": "2100-01-01T00:00:00Z"});
        change(stage, json!({}), patch);
    }),
    case(TASK, &[], |stage| {
        let parent = stage.task(json!({"assigneeAgentId": stage.bob}));
        change(stage, json!({}), json!({"parentTaskId": parent}));
    }),
    // Setting a task open that a worker has claimed ends the claim.
    case(TASK, &[], |stage| {
        let task = stage.task(json!({}));
        let claim = json!({"agentId": stage.ann, "worker": "w", "leaseSecs": 600});
        stage.post(&format!("/tasks/{task}/claim"), claim);
        stage.ask(&[("taskId", &task)], json!({"status": "open"}));
    }),
];

pub const RELEASED: &[Case] = &[
    case(TASK, &[(OR_MASTER, "dependency_done")], |stage| {
        let on = stage.task(json!({}));
        change(stage, json!({"dependsOn": [on]}), json!({"dependsOn": []}));
    }),
    case(TASK, &[(OR_MASTER, "dependency_done")], |stage| {
        let on = stage.task(json!({}));
        let task = stage.task(json!({"dependsOn": [on]}));
        stage.ask(&[("taskId", &task)], json!({"dependsOn": []}));
    }),
    case(TASK, &[("Assignee", "task_assigned")], |stage| {
        let bob = stage.bob.clone();
        stage.role("Assignee", &bob);
        let on = stage.task(json!({}));
        let task = stage.task(json!({"dependsOn": [on], "assigneeAgentId": stage.ann}));
        stage.ask(&[("taskId", &task)], json!({"dependsOn": [], "assigneeAgentId": bob}));
    }),
    case(TASK, &[(WAITING, "dependency_done")], |stage| {
        let (ann, bob) = (stage.ann.clone(), stage.bob.clone());
        stage.role("Waiting assignee", &ann);
        stage.role("Waiting assignee", &bob);
        let on = stage.task(json!({}));
        for agent in [&ann, &bob] {
            stage.task(json!({"dependsOn": [on], "assigneeAgentId": agent}));
        }
        stage.ask(&[("taskId", &on)], json!({"status": "done"}));
    }),
    case(TASK, &[(WAITING, "dependency_done")], |stage| {
        let on = stage.task(json!({"assigneeAgentId": stage.ann}));
        stage.task(json!({"dependsOn": [on]}));
        stage.ask(&[("taskId", &on)], json!({"status": "done"}));
    }),
    // It waits for another one, too.
    case(TASK, &[], |stage| {
        let (on, other) = (stage.task(json!({})), stage.task(json!({})));
        stage.task(json!({"dependsOn": [on, other], "assigneeAgentId": stage.ann}));
        stage.ask(&[("taskId", &on)], json!({"status": "done"}));
    }),
    // It is closed already.
    case(TASK, &[], |stage| {
        let on = stage.task(json!({}));
        let task = stage.task(json!({"dependsOn": [on], "assigneeAgentId": stage.ann}));
        stage.patch(&format!("/tasks/{task}"), json!({"status": "cancelled"}));
        stage.ask(&[("taskId", &on)], json!({"status": "done"}));
    }),
    case(TASK, &[(MASTER, "dependency_cancelled")], |stage| {
        let on = stage.task(json!({"assigneeAgentId": stage.ann}));
        stage.task(json!({"dependsOn": [on], "assigneeAgentId": stage.bob}));
        stage.ask(&[("taskId", &on)], json!({"status": "cancelled"}));
    }),
    case(TASK, &[], |stage| change(stage, json!({}), json!({"status": "cancelled"}))),
    case(TASK, &[], |stage| {
        let on = stage.task(json!({}));
        change(stage, json!({}), json!({"dependsOn": [on]}));
    }),
    // What waits wakes nobody before it may be begun.
    case(TASK, &[], |stage| {
        let on = stage.task(json!({}));
        let task = stage.task(json!({"dependsOn": [on]}));
        stage.ask(&[("taskId", &task)], json!({"assigneeAgentId": stage.ann}));
    }),
];
