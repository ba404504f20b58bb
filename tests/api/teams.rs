//! Teams: their agents, tasks and messages (reference: teams-and-wakes).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::{Reply, at_once, eventually, pick};
use crate::fixture::{Fixture, key_of, unknown_id};

/// A team with agents in it.
pub struct Crew {
    pub acme: Fixture,
    /// The team's id.
    pub team: String,
}

impl Crew {
    pub fn new() -> Self {
        Crew::of(Fixture::new())
    }

    pub fn of(acme: Fixture) -> Self {
        let team = acme.owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
        Crew { acme, team }
    }

    /// A path below the team's.
    pub fn path(&self, below: &str) -> String {
        format!("/teams/{}{below}", self.team)
    }

    pub fn get(&self, below: &str) -> Reply {
        self.acme.owner.get(&self.path(below))
    }

    pub fn post(&self, below: &str, body: Value) -> Reply {
        self.acme.owner.post(&self.path(below), body)
    }

    pub fn patch(&self, below: &str, body: Value) -> Reply {
        self.acme.owner.patch(&self.path(below), body)
    }

    pub fn delete(&self, below: &str) -> Reply {
        self.acme.owner.delete(&self.path(below))
    }

    /// Takes a new agent of the organization into the team: its `agentId`.
    pub fn hire(&self, stable_key: &str) -> String {
        self.hire_as(stable_key, json!({"role": "member"})).id()
    }

    pub fn hire_as(&self, stable_key: &str, mut body: Value) -> Reply {
        self.acme.owner.post("/agents", json!({"stableKey": stable_key, "name": stable_key})).ok();
        body["stableKey"] = json!(stable_key);
        self.post("/agents", body)
    }

    /// Makes a task: its id.
    pub fn task(&self, body: Value) -> String {
        self.post("/tasks", body).id()
    }

    /// The published events of this type, newest first.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        self.acme.owner.get(&format!("/notifications/logs?eventType={kind}")).items()
    }
}

fn ids(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn a_team_is_created_updated_and_deleted_with_its_contents() {
    let crew = Crew::new();
    let team = crew.get("").ok();
    assert_eq!(pick(&team, "slug budget"), json!(["crew", null]));
    let again = crew.acme.owner.post("/teams", json!({"slug": "crew", "name": "B"}));
    again.refused(409, "team_slug_taken");
    crew.patch("", json!({"slug": "x"})).invalid(&["slug"]);
    let patch = json!({"name": "B", "description": "d", "budget": {"monthlyUsd": 5}});
    let changed = crew.patch("", patch).ok();
    assert_eq!(pick(&changed, "name slug description"), json!(["B", "crew", "d"]));
    assert_eq!(
        changed["budget"],
        json!({
            "monthlyUsd": 5.0, "spentUsd": 0.0, "onExhausted": "notify", "unpricedTokens": 0,
        })
    );
    let changed = crew.patch("", json!({"budget": null, "description": null, "name": null})).ok();
    assert_eq!(pick(&changed, "name budget description"), json!(["B", null, null]));

    crew.hire("ann");
    crew.task(json!({"title": "t"}));
    crew.acme.member.delete(&crew.path("")).refused(403, "admin_required");
    assert_eq!(crew.delete("").ok(), json!({"id": crew.team, "deleted": true}));
    for below in ["", "/tasks", "/agents"] {
        crew.get(below).refused(404, "not_found");
    }
    crew.delete("").refused(404, "not_found");
    // The agent of the organization is free again, and so is the slug.
    crew.acme.owner.delete("/agents/ann").ok();
    crew.acme.owner.post("/teams", json!({"slug": "crew", "name": "C"})).ok();
}

#[test]
fn an_agent_joins_once_and_a_team_has_one_scrum_master() {
    let crew = Crew::new();
    let hire =
        |key: &str, role: &str| crew.post("/agents", json!({"stableKey": key, "role": role}));
    hire("nobody", "member").refused(404, "not_found");
    let ann = crew.hire("ann");
    hire("ann", "member").refused(409, "agent_in_team");
    let sam = crew.hire_as("sam", json!({"role": "scrum_master", "skills": ["plan"]})).ok();
    assert_eq!(pick(&sam, "name wakeUrl wakeSecret"), json!(["sam", null, null]));
    crew.hire_as("second", json!({"role": "scrum_master"})).refused(409, "scrum_master_taken");
    let promote = crew.patch(&format!("/agents/{ann}"), json!({"role": "scrum_master"}));
    promote.refused(409, "scrum_master_taken");
    assert_eq!(crew.get("/agents").items().len(), 2);
    // An agent in a team stays in the organization.
    crew.acme.owner.delete("/agents/ann").refused(409, "agent_in_team");

    let path = format!("/agents/{ann}");
    crew.patch(&path, json!({"skills": ["rust"]})).ok();
    crew.patch(&path, json!({"skills": []})).ok();
    crew.delete(&path).ok();
    crew.get(&path).refused(404, "not_found");
    eventually("telling it", || Some(()).filter(|()| crew.events("team.agent_hired").len() == 2));
    assert_eq!(crew.events("team.agent_skills_granted").len(), 1);
    assert_eq!(crew.events("team.agent_terminated").len(), 1);
}

#[test]
fn a_task_has_every_field_and_its_bounds() {
    let crew = Crew::new();
    let (ann, task) = (crew.hire("ann"), crew.task(json!({"title": "t"})));
    let task = crew.get(&format!("/tasks/{task}")).ok();
    let some = pick(&task, "number priority status assigneeAgentId createdBy");
    assert_eq!(some, json!([1, 2, "open", null, crew.acme.owner_id]));
    let make = |body: Value| crew.post("/tasks", body);
    make(json!({"title": "t", "priority": 0, "projectId": "p", "assigneeAgentId": ann})).ok();
    make(json!({"title": "t", "priority": 5})).invalid(&["priority"]);
    make(json!({"title": "t", "priority": "2"})).invalid(&["priority"]);
    make(json!({"title": ""})).invalid(&["title"]);
    make(json!({"title": "x".repeat(501)})).invalid(&["title"]);
    make(json!({"title": "t", "description": "x".repeat(100_001)})).invalid(&["description"]);
    make(json!({"title": "t", "projectId": "x".repeat(201)})).invalid(&["projectId"]);
    make(json!({"title": "t", "assigneeAgentId": "nobody"})).refused(404, "not_found");
    make(json!({"title": "t", "fromAgentId": unknown_id()})).refused(404, "not_found");
    // What was refused took no number.
    assert_eq!(make(json!({"title": "t"})).ok()["number"], 3);
}

#[test]
fn concurrent_tasks_are_numbered_without_gaps() {
    let crew = Crew::new();
    let made = at_once(32, |n| crew.post("/tasks", json!({"title": format!("t{n}")})).ok());
    let numbers: BTreeSet<_> = made.iter().map(|task| task["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=32).collect());
    let walked = crew.acme.owner.walk(&crew.path("/tasks"), 7);
    let listed: Vec<_> = walked.iter().map(|task| task["number"].as_u64().unwrap()).collect();
    assert_eq!(listed, (1..=32).rev().collect::<Vec<_>>());
}

#[test]
fn only_one_of_many_claimers_gets_the_task() {
    let crew = Crew::new();
    let agents: Vec<_> = (0..32).map(|n| crew.hire(&format!("a{n}"))).collect();
    let task = crew.task(json!({"title": "t"}));
    let claim =
        |n: usize| crew.post(&format!("/tasks/{task}/claim"), json!({"agentId": agents[n]}));
    let replies = at_once(32, claim);
    let winners: Vec<_> = (0..32).filter(|n| replies[*n].status == 200).collect();
    assert_eq!(winners.len(), 1);
    for (n, reply) in replies.iter().enumerate().filter(|(n, _)| *n != winners[0]) {
        reply.refused(409, "task_claimed");
        assert!(n < 32);
    }
    let now = crew.get(&format!("/tasks/{task}")).ok();
    let expected = json!([agents[winners[0]], "in_progress"]);
    assert_eq!(pick(&now, "assigneeAgentId status"), expected);
    // The winner's again is as good as its first; it changes nothing.
    let mut again = claim(winners[0]).ok();
    assert_eq!(again.as_object_mut().unwrap().remove("leaseEndsAt"), Some(json!(null)));
    assert_eq!(again, now);
    crew.patch(&format!("/tasks/{task}"), json!({"status": "done"})).ok();
    claim(winners[0]).refused(409, "task_closed");
}

#[test]
fn of_many_processes_of_one_agent_one_gets_the_task() {
    let crew = Crew::new();
    let (ann, task) = (crew.hire("ann"), crew.task(json!({"title": "t"})));
    let path = format!("/tasks/{task}");
    let claim = |worker: usize| {
        let body = json!({"agentId": ann, "worker": format!("w{worker}"), "leaseSecs": 600});
        crew.post(&format!("{path}/claim"), body)
    };
    let replies = at_once(16, claim);
    let winners: Vec<_> = (0..16).filter(|n| replies[*n].status == 200).collect();
    assert_eq!(winners.len(), 1);
    for (_, reply) in replies.iter().enumerate().filter(|(n, _)| *n != winners[0]) {
        reply.refused(409, "task_claimed");
    }
    assert_eq!(claim(winners[0]).ok()["claim"]["worker"], format!("w{}", winners[0]));
    let beat = json!({"worker": format!("w{}", winners[0])});
    let tag = |reply: &Reply| reply.header("etag").map(str::to_string);
    let before = tag(&crew.get(&path));
    let beat = crew.post(&format!("/agents/{ann}/heartbeat"), beat).ok();
    assert_eq!(beat["leases"][0]["taskId"], task);
    assert!(beat["leases"][0]["leaseEndsAt"].is_string());
    assert_eq!(tag(&crew.get(&path)), before, "a sign of life leaves the task as it is");
    let late = json!({"status": "done", "fromAgentId": ann, "worker": "late"});
    crew.patch(&path, late).refused(409, "task_claimed");
    assert_eq!(crew.patch(&path, json!({"status": "open"})).ok()["claim"], json!(null));
    let late = json!({"status": "done", "fromAgentId": ann, "worker": "late"});
    crew.patch(&path, late).refused(409, "claim_ended");
    crew.patch(&path, json!({"worker": "late"})).invalid(&["fromAgentId"]);
    crew.post(&format!("{path}/claim"), json!({"agentId": ann, "leaseSecs": 60}))
        .invalid(&["worker"]);
}

#[test]
fn tasks_depend_on_others_are_parts_and_are_found_by_labels() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let one = crew.task(json!({"title": "one", "labels": ["red", "red", "two words"]}));
    let after = json!({"title": "after", "dependsOn": [one], "parentTaskId": one,
        "assigneeAgentId": ann, "dueAt": "2031-01-01T00:00:00Z"});
    let after = crew.task(after);
    let path = format!("/tasks/{after}");
    let made = crew.get(&path).ok();
    let expected = json!(["blocked", [one], one, "2031-01-01T00:00:00.000Z", []]);
    assert_eq!(pick(&made, "status dependsOn parentTaskId dueAt labels"), expected);
    crew.patch(&path, json!({"status": "in_progress"})).refused(409, "dependency_open");
    let cycle = json!({"dependsOn": [after]});
    crew.patch(&format!("/tasks/{one}"), cycle).refused(409, "dependency_cycle");
    let parent = crew.get(&format!("/tasks/{one}")).ok();
    assert_eq!(parent["labels"], json!(["red", "two words"]));
    assert_eq!(parent["children"], json!({"total": 1, "done": 0, "cancelled": 0}));
    let found = |query: &str| -> Vec<Value> {
        crew.get(&format!("/tasks?{query}")).items().iter().map(|task| task["id"].clone()).collect()
    };
    assert_eq!(found("label=red"), [json!(one)]);
    assert_eq!(found("label=blue"), Vec::<Value>::new());
    assert_eq!(found(&format!("parentTaskId={one}")), [json!(after)]);
    crew.patch(&format!("/tasks/{one}"), json!({"status": "done"})).ok();
    assert_eq!(crew.get(&path).ok()["status"], "open");
    let wakes = crew.get(&format!("/agents/{ann}/wakes")).items();
    assert_eq!(pick(&wakes[0], "reason taskId"), json!(["dependency_done", after]));
    let cleared = json!({"dependsOn": [], "parentTaskId": null, "dueAt": null, "labels": []});
    let cleared = crew.patch(&path, cleared).ok();
    assert_eq!(pick(&cleared, "dependsOn parentTaskId dueAt"), json!([[], null, null]));
    let many: Vec<_> = (0..51).map(|_| one.clone()).collect();
    crew.post("/tasks", json!({"title": "t", "dependsOn": many})).invalid(&["dependsOn"]);
    crew.post("/tasks", json!({"title": "t", "labels": [""]})).invalid(&["labels[0]"]);
    crew.post("/tasks", json!({"title": "t", "labels": ["a", "b,c"]})).invalid(&["labels[1]"]);
    crew.post("/tasks", json!({"title": "t", "dueAt": "soon"})).invalid(&["dueAt"]);
    let unknown = json!({"title": "t", "parentTaskId": unknown_id()});
    crew.post("/tasks", unknown).refused(404, "not_found");
}

#[test]
fn all_that_wait_for_a_task_open_when_it_is_done_however_many_they_are() {
    let crew = Crew::new();
    let one = crew.task(json!({"title": "one"}));
    for _ in 0..70 {
        crew.task(json!({"title": "after", "dependsOn": [one]}));
    }
    let open = || crew.get("/tasks?status=open&limit=100").items().len();
    crew.patch(&format!("/tasks/{one}"), json!({"status": "done"})).ok();
    assert_eq!(open(), 50, "at once");
    eventually("the others are open", || (open() == 70).then_some(()));
}

#[test]
fn an_overdue_task_is_listed_until_it_is_closed() {
    let crew = Crew::new();
    let late = crew.task(json!({"title": "late", "dueAt": "2020-01-01T00:00:00Z"}));
    crew.task(json!({"title": "later", "dueAt": "2031-01-01T00:00:00Z"}));
    let listed = || crew.acme.owner.get("/teams/overdue").items();
    let found = eventually("it is found", || (!listed().is_empty()).then(listed));
    assert_eq!(found.iter().map(|task| &task["id"]).collect::<Vec<_>>(), [&json!(late)]);
    crew.patch(&format!("/tasks/{late}"), json!({"status": "done"})).ok();
    assert_eq!(listed(), Vec::<Value>::new());
}

#[test]
fn a_status_may_follow_any_other_and_a_patch_leaves_the_rest() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let body = json!({"title": "t", "description": "d", "projectId": "p", "assigneeAgentId": ann});
    let path = format!("/tasks/{}", crew.task(body));
    for status in ["done", "open", "cancelled", "blocked", "in_progress", "done"] {
        let task = crew.patch(&path, json!({"status": status})).ok();
        assert_eq!(pick(&task, "status description"), json!([status, "d"]));
    }
    crew.patch(&path, json!({"status": "closed"})).invalid(&["status"]);
    let patch = json!({"description": null, "projectId": null, "assigneeAgentId": null});
    let task = crew.patch(&path, patch).ok();
    let cleared = pick(&task, "description projectId assigneeAgentId");
    assert_eq!(cleared, json!([null, null, null]));
    assert_eq!(crew.patch(&path, json!({"title": null})).ok()["title"], "t");
    crew.patch(&path, json!({"assigneeAgentId": unknown_id()})).refused(404, "not_found");
}

#[test]
fn tasks_are_filtered() {
    let crew = Crew::new();
    let (ann, bob) = (crew.hire("ann"), crew.hire("bob"));
    let free = crew.task(json!({"title": "free"}));
    let anns = crew.task(json!({"title": "ann's", "assigneeAgentId": ann}));
    let bobs = crew.task(json!({"title": "bob's", "assigneeAgentId": bob}));
    crew.patch(&format!("/tasks/{bobs}"), json!({"status": "done"})).ok();
    let find = |query: &str| {
        let items = crew.get(&format!("/tasks?{query}")).items();
        Value::from_iter(ids(&items))
    };
    assert_eq!(find(""), json!([bobs, anns, free]));
    assert_eq!(find("status=open"), json!([anns, free]));
    assert_eq!(find("unassigned=true"), json!([free]));
    assert_eq!(find("unassigned=false"), json!([bobs, anns]));
    assert_eq!(find(&format!("assigneeAgentId={ann}")), json!([anns]));
    assert_eq!(find(&format!("assigneeAgentId={bob}&status=done")), json!([bobs]));
    assert_eq!(find(&format!("assigneeAgentId={}", unknown_id())), json!([]));
    crew.get("/tasks?status=closed").invalid(&["status"]);
}

#[test]
fn a_message_is_to_an_agent_or_a_note_on_a_task() {
    let crew = Crew::new();
    let (ann, task) = (crew.hire("ann"), crew.task(json!({"title": "t"})));
    crew.post("/messages", json!({"body": "b"})).invalid(&["taskId"]);
    crew.post("/messages", json!({"body": "", "toAgentId": ann})).invalid(&["body"]);
    crew.post("/messages", json!({"body": "b", "toAgentId": unknown_id()}))
        .refused(404, "not_found");
    crew.post("/messages", json!({"body": "b", "taskId": unknown_id()})).refused(404, "not_found");

    let mail = json!({"body": "b", "toAgentId": ann, "subject": "s", "taskId": task});
    let mail = crew.post("/messages", mail).ok();
    assert_eq!(pick(&mail, "audience readAt"), json!(["agent", null]));
    assert_eq!(mail["from"], json!({"type": "user", "id": crew.acme.owner_id, "name": "Ada"}));
    let note =
        crew.post("/messages", json!({"body": "b", "taskId": task, "fromAgentId": ann})).ok();
    assert_eq!(note["from"], json!({"type": "agent", "id": ann, "name": "ann"}));
    let inbox = crew.post("/inbox", json!({"body": "b", "fromAgentId": ann})).ok();
    assert_eq!(inbox["audience"], "human");
    eventually("telling it", || crew.events("team.message_received").pop());

    let find = |query: &str| {
        let items = crew.get(&format!("/messages?{query}")).items();
        Value::from_iter(ids(&items))
    };
    let [mail, note, inbox] = [&mail["id"], &note["id"], &inbox["id"]];
    assert_eq!(find(""), json!([inbox, note, mail]));
    assert_eq!(find("audience=human"), json!([inbox]));
    assert_eq!(find(&format!("agentId={ann}")), json!([mail]));
    assert_eq!(find(&format!("taskId={task}")), json!([note, mail]));
    assert_eq!(find("unread=true&audience=human"), json!([inbox]));
    assert_eq!(find("unread=false"), json!([]));
}

#[test]
fn humans_mark_their_messages_read_and_agents_consume_theirs_once() {
    let crew = Crew::new();
    let (ann, bob) = (crew.hire("ann"), crew.hire("bob"));
    let inbox = crew.post("/inbox", json!({"body": "b", "fromAgentId": ann})).id();
    let inbox = format!("/messages/{inbox}");
    // A key acts as its user.
    let first = key_of(&crew.acme.member).patch(&crew.path(&inbox), json!({})).ok();
    assert!(first["readAt"].is_string());
    assert_eq!(crew.patch(&inbox, json!({})).ok(), first);

    let mail = crew.post("/messages", json!({"body": "b", "toAgentId": ann})).ok();
    let path = format!("/messages/{}", mail["id"].as_str().unwrap());
    assert_eq!(crew.patch(&path, json!({})).ok(), mail);
    let consume =
        |path: &str, agent: &str| crew.post(&format!("{path}/consume"), json!({"agentId": agent}));
    consume(&path, &bob).refused(404, "not_found");
    consume(&inbox, &ann).refused(404, "not_found");
    let read = consume(&path, &ann).ok();
    assert!(read["readAt"].is_string());
    assert_eq!(consume(&path, &ann).ok(), read);
}

#[test]
fn removing_an_agent_unassigns_its_open_tasks_only() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let open = crew.task(json!({"title": "open", "assigneeAgentId": ann}));
    let done = crew.task(json!({"title": "done", "assigneeAgentId": ann}));
    crew.patch(&format!("/tasks/{done}"), json!({"status": "done"})).ok();
    crew.post(&format!("/agents/{ann}/memories"), json!({"content": "c"})).ok();
    crew.delete(&format!("/agents/{ann}")).ok();
    eventually("unassigning", || {
        let task = crew.get(&format!("/tasks/{open}")).ok();
        Some(()).filter(|()| task["assigneeAgentId"].is_null())
    });
    for below in ["", "/wakes", "/memories", "/runs"] {
        crew.get(&format!("/agents/{ann}{below}")).refused(404, "not_found");
    }
    crew.post(&format!("/tasks/{open}/claim"), json!({"agentId": ann})).refused(404, "not_found");
}

#[test]
fn an_agents_memories_are_recalled_until_they_are_superseded_or_deleted() {
    let crew = Crew::new();
    let (ann, bob) = (crew.hire("ann"), crew.hire("bob"));
    let memories = |agent: &str| format!("/agents/{agent}/memories");
    let keep = |agent: &str, body: Value| crew.post(&memories(agent), body);
    let one = json!({"content": "The Red fox jumps", "tags": ["fox", "red"]});
    let first = keep(&ann, one).id();
    let second = keep(&ann, json!({"content": "the dog sleeps"})).id();
    let found = |query: &str| {
        let items = crew.get(&format!("{}?{query}", memories(&ann))).items();
        Value::from_iter(ids(&items))
    };
    assert_eq!(found(""), json!([second, first]));
    assert_eq!(found("q=FOX%20red"), json!([first]));
    assert_eq!(found("q=fox%20dog"), json!([]));
    assert_eq!(found("tag=red"), json!([first]));

    keep(&bob, json!({"content": "x", "supersedes": first})).refused(404, "not_found");
    let third = keep(&ann, json!({"content": "x", "supersedes": first})).ok();
    assert_eq!(third["supersedes"], first);
    keep(&ann, json!({"content": "x", "supersedes": first})).refused(404, "not_found");
    let forget = |agent: &str, id: &str| crew.delete(&format!("{}/{id}", memories(agent)));
    forget(&ann, &first).refused(404, "not_found");
    forget(&bob, &second).refused(404, "not_found");
    forget(&ann, &second).ok();
    forget(&ann, &second).refused(404, "not_found");
    assert_eq!(found(""), json!([third["id"]]));
    // Of many who supersede the same memory at once, one does.
    let third = third["id"].as_str().unwrap();
    let at_once = at_once(8, |_| keep(&ann, json!({"content": "y", "supersedes": third})).status);
    assert_eq!(at_once.iter().filter(|status| **status == 200).count(), 1, "{at_once:?}");
}

#[test]
fn runs_count_against_the_monthly_budget_and_exceeding_it_is_one_event() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    crew.patch("", json!({"budget": {"monthlyUsd": 1}})).ok();
    let runs = format!("/agents/{ann}/runs");
    let run = |body: Value| crew.post(&runs, body);
    run(json!({"status": "succeeded", "costUsd": 0.25})).ok();
    run(json!({"status": "failed", "error": "it broke"})).ok();
    run(json!({"status": "cancelled", "costUsd": 0.7})).ok();
    assert_eq!(crew.get("").ok()["budget"]["spentUsd"], 0.95);
    assert_eq!(crew.events("team.budget_exhausted").len(), 0);
    at_once(4, |_| run(json!({"status": "succeeded", "costUsd": 1})).ok());
    assert_eq!(crew.get("").ok()["budget"]["spentUsd"], 4.95);
    assert_eq!(crew.events("team.budget_exhausted").len(), 1);
    assert_eq!(crew.events("team.run_failed").len(), 1);
    assert_eq!(crew.get(&runs).items().len(), 7);
    run(json!({"status": "failed", "costUsd": -1})).invalid(&["costUsd"]);
    run(json!({"status": "odd"})).invalid(&["status"]);
}

#[test]
fn usage_says_what_has_no_price_and_is_of_the_month_that_is_asked_for() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    crew.patch("", json!({"budget": {"monthlyUsd": 1}})).ok();
    let used = json!([
        {"model": "misspelt", "input": 90, "output": 10},
        {"model": "known", "input": 5, "costUsd": 0.25},
    ]);
    crew.post(&format!("/agents/{ann}/runs"), json!({"status": "succeeded", "usage": used})).ok();
    let usage = |query: &str| crew.get(&format!("/usage{query}")).items();
    let months = usage("?by=month");
    assert_eq!(pick(&months[0], "costUsd unpricedTokens"), json!([0.25, 100]));
    let models = usage("?by=model&unpriced=true");
    assert_eq!(models.len(), 1);
    assert_eq!(pick(&models[0], "model costUsd unpricedTokens"), json!(["misspelt", 0.0, 100]));
    assert_eq!(pick(&usage("?by=task")[0], "taskId taskTitle runs"), json!([null, null, 1]));
    assert_eq!(crew.get("").ok()["budget"]["unpricedTokens"], 100);
    let month = months[0]["month"].as_str().unwrap();
    assert_eq!(usage(&format!("?by=month&month={month}")), months);
    assert!(usage("?by=month&month=2020-01").is_empty());
    crew.get("/usage?by=month&month=2020").invalid(&["month"]);
}

#[test]
fn a_budget_of_nothing_says_to_raise_it_and_no_time() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let task = crew.task(json!({"title": "Count"}));
    let nothing = json!({"budget": {"monthlyUsd": 0, "onExhausted": "pause"}});
    let paused = crew.patch("", nothing).ok()["paused"].clone();
    assert_eq!(pick(&paused, "scope endsAt"), json!(["team_budget", null]));
    let refused = crew.post(&format!("/tasks/{task}/claim"), json!({"agentId": ann}));
    refused.refused(409, "agent_paused");
    assert!(refused.text().contains("; raise the budget\""), "{}", refused.text());
}

#[test]
fn an_approval_request_is_decided_once_by_a_user() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let ask = crew.post("/approvals", json!({"agentId": ann, "title": "may I?"})).ok();
    assert_eq!(pick(&ask, "decision decidedAt"), json!(["pending", null]));
    let path = format!("/approvals/{}/decide", ask["id"].as_str().unwrap());
    let full = crew.path(&path);
    crew.acme.key.post(&full, json!({"decision": "approved"})).refused(401, "session_required");
    crew.post(&path, json!({"decision": "pending"})).invalid(&["decision"]);
    let decide = |_| crew.acme.member.post(&full, json!({"decision": "denied", "comment": "no"}));
    let replies = at_once(8, decide);
    let done: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].ok()["decidedBy"], crew.acme.member_id);
    for reply in replies.iter().filter(|reply| reply.status != 200) {
        reply.refused(409, "approval_decided");
    }
    assert_eq!(crew.get("/approvals?decision=pending").items().len(), 0);
    assert_eq!(crew.get("/approvals?decision=denied").items().len(), 1);
    assert_eq!(crew.events("team.approval_requested").len(), 1);
    assert_eq!(crew.events("team.approval_decided").len(), 1);
}

#[test]
fn a_timeline_entry_publishes_the_event_of_its_kind() {
    let crew = Crew::new();
    for kind in ["milestone", "progress_update", "goal_update", "blocker_digest", "summary"] {
        crew.post("/timeline", json!({"kind": kind, "title": "t"})).ok();
        assert_eq!(crew.events(&format!("team.timeline_{kind}")).len(), 1, "{kind}");
        assert_eq!(crew.get(&format!("/timeline?kind={kind}")).items().len(), 1, "{kind}");
    }
    assert_eq!(crew.get("/timeline").items().len(), 5);
    crew.post("/timeline", json!({"kind": "gossip", "title": "t"})).invalid(&["kind"]);
}
