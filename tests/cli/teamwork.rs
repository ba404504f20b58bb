//! `task`, `message`, `deploy`, `approve`, `deny`, `logs`: what teams do, at the command line.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::client::eventually;
use crate::desk::Desk;
use crate::process::{Serving, run};
use crate::terminal::in_terminal_after;

#[test]
fn a_task_is_created_claimed_noted_and_done() {
    let desk = Desk::new();
    let (team, scribe) = desk.team();
    let in_team = |args: &[&str]| desk.json(&[args, &["--team", "shipping"]].concat());
    let made = in_team(&["task", "create", "Write the notes", "--priority", "3"]);
    assert_eq!((&made["number"], &made["priority"]), (&json!(1), &json!(3)));
    in_team(&["task", "create", "Another", "--description", "At length", "--assign", "scribe"]);
    assert_eq!(in_team(&["task", "list", "--unassigned"])["items"].as_array().unwrap().len(), 1);
    let claimed = in_team(&["task", "claim", "1", "--agent", "scribe"]);
    assert_eq!(
        (&claimed["assigneeAgentId"], &claimed["status"]),
        (&json!(scribe), &json!("in_progress"))
    );
    let mine = in_team(&["task", "list", "--mine", "--agent", "scribe", "--status", "in_progress"]);
    assert_eq!(mine["items"][0]["number"], 1);
    in_team(&["task", "note", "#1", "On one page", "--agent", "scribe"]);
    in_team(&["task", "update", "1", "--status", "done", "--title", "Notes"]);
    let task = in_team(&["task", "get", "1"]);
    assert_eq!((&task["status"], &task["title"]), (&json!("done"), &json!("Notes")));
    assert_eq!(task["notes"][0]["body"], "On one page");
    let freed = desk.json(&["task", "update", "2", "--unassign", "--team", &team]);
    assert_eq!(freed["assigneeAgentId"], json!(null));
    let shown = desk.run(&["task", "list", "--team", "shipping"]).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with("2  open") && lines[2].contains("scribe"), "{shown}");
    desk.run(&["task", "get", "9", "--team", "shipping"]).fails(1, "there is no task 9");
    desk.run(&["task", "list", "--mine", "--team", "shipping"]).fails(2, "--agent");
    desk.run(&["task", "list", "--status", "new", "--team", "shipping"]).fails(1, "status");
}

#[test]
fn a_worker_claims_a_task_with_a_lease_and_renews_it() {
    let desk = Desk::new();
    desk.team();
    let as_agent = ["--team", "shipping", "--agent", "scribe"];
    let made = desk.json(&["task", "create", "Count", "--team", "shipping"]);
    let claim = ["task", "claim", "1", "--lease", "300", "--worker"];
    let claimed = desk.json(&[&claim[..], &["one"], &as_agent].concat());
    assert_eq!(
        (&claimed["claim"]["worker"], &claimed["claim"]["leaseSecs"]),
        (&json!("one"), &json!(300))
    );
    let other = desk.run(&[&claim[..], &["two"], &as_agent].concat());
    other.fails(1, "the worker one of Scribe has the task since");
    let beat = ["task", "heartbeat", "--worker", "one"];
    let leases = &desk.json(&[&beat[..], &as_agent].concat())["leases"];
    assert_eq!((leases.as_array().unwrap().len(), &leases[0]["taskId"]), (1, &made["id"]));
    let note = ["task", "note", "1", "Still counting", "--worker", "one"];
    desk.json(&[&note[..], &as_agent].concat());
    let shown = desk.run(&["task", "get", "1", "--team", "shipping"]).stdout;
    assert!(shown.contains("worker: one, since "), "{shown}");
    let done = ["task", "update", "1", "--status", "done", "--worker"];
    desk.run(&[&done[..], &["two"], &as_agent].concat()).fails(1, "the worker one");
    assert_eq!(desk.json(&[&done[..], &["one"], &as_agent].concat())["claim"], Value::Null);
    desk.run(&["task", "claim", "1", "--lease", "300", "--team", "shipping"]).fails(2, "--worker");
}

#[test]
fn a_task_is_planned_after_another_and_as_a_part_of_it() {
    let desk = Desk::new();
    desk.team();
    let in_team = |args: &[&str]| desk.json(&[args, &["--team", "shipping"]].concat());
    in_team(&["task", "create", "One", "--label", "red", "--label", "big"]);
    let due = ["--part-of", "1", "--due", "2031-01-01T00:00:00Z"];
    let two = in_team(&[&["task", "create", "Two", "--after", "1"][..], &due].concat());
    assert_eq!((&two["status"], &two["number"]), (&json!("blocked"), &json!(2)));
    let numbers = |args: &[&str]| -> Vec<u64> {
        let listed = in_team(&[&["task", "list"], args].concat());
        let items = listed["items"].as_array().unwrap().iter();
        items.map(|task| task["number"].as_u64().unwrap()).collect()
    };
    assert_eq!((numbers(&["--label", "red"]), numbers(&["--parent", "1"])), (vec![1], vec![2]));
    let shown = |task: &str| desk.run(&["task", "get", task, "--team", "shipping"]).stdout;
    let one = shown("1");
    assert!(one.contains("labels: red, big") && one.contains("parts: 0 of 1 done"), "{one}");
    let two = shown("2");
    for line in ["due: 2031-01-01", "part of: #1 One (open)", "depends on: #1 One (open)"] {
        assert!(two.contains(line), "{two}");
    }
    let listed = desk.run(&["task", "list", "--team", "shipping"]).stdout;
    assert!(listed.contains("0/1 parts, red, big") && listed.contains("after 1"), "{listed}");
    in_team(&["task", "update", "1", "--status", "done", "--label", "blue"]);
    assert_eq!(in_team(&["task", "get", "2"])["status"], "open");
    for no_task in ["0", "9", "99999999999"] {
        desk.run(&["task", "get", no_task, "--team", "shipping"]).fails(1, "there is no task");
    }
    let none = ["--no-after", "--no-part-of", "--no-due", "--no-label"];
    let cleared = in_team(&[&["task", "update", "2"][..], &none].concat());
    assert_eq!((&cleared["dependsOn"], &cleared["labels"]), (&json!([]), &json!([])));
    assert_eq!((&cleared["parentTaskId"], &cleared["dueAt"]), (&Value::Null, &Value::Null));
    let both = ["task", "update", "2", "--no-due", "--due", "2031-01-01T00:00:00Z"];
    desk.run(&[&both[..], &["--team", "shipping"]].concat()).fails(2, "--due");
}

#[test]
fn agents_are_paused_and_resumed_and_schedules_made() {
    let desk = Desk::new();
    desk.team();
    let scope = |args: &[&str]| desk.json(args)["paused"]["scope"].clone();
    let pause = |more: &[&str]| scope(&[&["agent", "pause", "--reason", "r"], more].concat());
    let resume = |more: &[&str]| scope(&[&["agent", "resume"], more].concat());
    assert_eq!(pause(&["scribe"]), "agent");
    desk.run(&["task", "create", "x", "--team", "shipping"]);
    let claim = ["task", "claim", "1", "--team", "shipping", "--agent", "scribe"];
    desk.run(&claim).fails(1, "paused");
    assert_eq!(resume(&["scribe"]), Value::Null);
    assert_eq!(pause(&["scribe", "--team", "shipping"]), "team_agent");
    assert_eq!(resume(&["scribe", "--team", "shipping"]), Value::Null);
    assert_eq!(pause(&["--team", "shipping"]), "team");
    assert_eq!(resume(&["--team", "shipping"]), Value::Null);
    assert_eq!(pause(&["--all"]), "organization");
    assert_eq!(resume(&["--all"]), Value::Null);
    desk.run(&["agent", "pause"]).fails(2, "AGENT");
    desk.json(&claim);

    let in_team = |args: &[&str]| desk.json(&[args, &["--team", "shipping"]].concat());
    let made = in_team(&["schedule", "create", "Report", "--cron", "0 9 * * mon", "--task", "t"]);
    let id = made["id"].as_str().unwrap();
    assert_eq!(made["nextTimes"].as_array().unwrap().len(), 5);
    let wake = ["--wake", "scribe", "--text", "Look.", "--every", "600"];
    in_team(&[&["schedule", "create", "Look"][..], &wake].concat());
    let shown = desk.run(&["schedule", "list", "--team", "shipping"]).stdout;
    assert!(shown.contains("every 600 s") && shown.contains("0 9 * * mon UTC"), "{shown}");
    assert_eq!(in_team(&["schedule", "pause", id])["paused"]["scope"], "schedule");
    assert_eq!(in_team(&["schedule", "resume", id])["paused"], Value::Null);
    assert_eq!(in_team(&["schedule", "get", id])["runs"], json!([]));
    in_team(&["schedule", "delete", id]);

    let created = in_team(&["activity", "--kind", "task_created"]);
    assert_eq!(created["items"][0]["task"]["number"], 1);
    let of_one = in_team(&["activity", "--task", "1", "--by", "scribe"]);
    let kinds = of_one["items"].as_array().unwrap().iter().map(|one| &one["kind"]);
    assert!(kinds.clone().count() > 0 && kinds.clone().all(|kind| kind == "task_changed"));
    let shown = desk.run(&["activity", "--team", "shipping"]).stdout;
    assert!(shown.contains("agent_hired") && shown.contains("#1"), "{shown}");
    desk.run(&["schedule", "get", id, "--team", "shipping"]).fails(1, "no such schedule");
}

#[test]
fn runs_cost_by_the_prices_of_models_and_what_they_used_is_shown() {
    let desk = Desk::new();
    let (team, scribe) = desk.team();
    let set = ["prices", "set", "a/b", "--input", "2", "--output", "10"];
    let price = desk.json(&[&set[..], &["--cached", "0.5"]].concat());
    assert_eq!((&price["model"], &price["cachedUsd"]), (&json!("a/b"), &json!(0.5)));
    assert_eq!(desk.json(&set)["cachedUsd"], Value::Null);
    desk.run(&["prices", "set", "a/b", "--input", "-1", "--output", "10"]).fails(1, "inputUsd");
    let listed = desk.run(&["prices", "list"]).stdout;
    assert!(listed.contains("INPUT  CACHED  OUTPUT  MODEL"), "{listed}");
    let used = json!([{"model": "a/b", "input": 1_000_000, "output": 100_000}]);
    let run = json!({"status": "succeeded", "usage": used});
    desk.api().post(&format!("/teams/{team}/agents/{scribe}/runs"), run).ok();
    desk.json(&["prices", "delete", "a/b"]);
    assert_eq!(desk.json(&["prices", "list"])["items"], json!([]));

    let usage = |more: &[&str]| desk.run(&[&["usage", "--team", "shipping"], more].concat()).stdout;
    for (by, name) in [("model", "a/b"), ("agent", "Scribe")] {
        let shown = usage(&["--by", by]);
        assert!(shown.contains("3.0000") && shown.contains(name), "{shown}");
    }
    assert!(usage(&["--by", "task"]).contains("no task"));
    assert!(usage(&["--month", "2020-01"]).contains("no runs"));
    let months = desk.json(&["usage", "--team", "shipping", "--by", "month"]);
    assert_eq!(
        (&months["items"][0]["costUsd"], &months["items"][0]["runs"]),
        (&json!(3.0), &json!(1))
    );
    let month = months["items"][0]["month"].as_str().unwrap();
    assert!(usage(&["--by", "month", "--month", month]).contains("3.0000"));
    assert!(usage(&["--by", "month", "--month", "2020-01"]).contains("no runs"));
    let wrong = ["usage", "--team", "shipping", "--month", "November"];
    desk.run(&wrong).fails(1, "must be a month");
}

#[test]
fn a_model_without_a_price_is_said() {
    let desk = Desk::new();
    let (team, scribe) = desk.team();
    let used = json!([{"model": "misspelt", "input": 1000}]);
    let run = json!({"status": "succeeded", "usage": used});
    desk.api().post(&format!("/teams/{team}/agents/{scribe}/runs"), run).ok();
    let shown = desk.run(&["usage", "--team", "shipping", "--by", "model"]).stdout;
    assert!(shown.contains("no price") && shown.contains("misspelt"), "{shown}");
    assert_eq!(desk.json(&["prices", "delete", "misspelt"]), json!({"deleted": false}));
    let deleted = desk.run(&["prices", "delete", "misspelt"]).stdout;
    assert!(deleted.contains("there is no price of this model"), "{deleted}");
}

#[test]
fn what_is_resumed_and_held_back_by_a_budget_says_so() {
    let desk = Desk::new();
    let (team, scribe) = desk.team();
    let api = desk.api();
    let budget = json!({"monthlyUsd": 1, "onExhausted": "pause"});
    api.patch(&format!("/teams/{team}"), json!({"budget": budget})).ok();
    let run = json!({"status": "succeeded", "costUsd": 1});
    api.post(&format!("/teams/{team}/agents/{scribe}/runs"), run).ok();
    let resumed = desk.run(&["agent", "resume", "scribe", "--team", "shipping"]).stdout;
    assert!(resumed.contains("the team's budget is used up"), "{resumed}");
    let wake = ["--wake", "scribe", "--text", "Look.", "--every", "600", "--team", "shipping"];
    desk.json(&[&["schedule", "create", "Look"][..], &wake].concat());
    let listed = desk.run(&["schedule", "list", "--team", "shipping"]).stdout;
    assert!(listed.contains("budget used up"), "{listed}");
}

#[test]
fn mail_is_sent_listed_and_acknowledged() {
    let desk = Desk::new();
    desk.team();
    let in_team = |args: &[&str], stdin: Option<&str>| {
        let mut command = desk.command(&[args, &["--json"]].concat());
        command.env("ROADSTEAD_TEAM", "shipping");
        run(command, stdin).succeeds()
    };
    let mail = in_team(&["message", "send", "-", "--to", "scribe", "--subject", "S"], Some("Hi"));
    assert_eq!((&mail["body"], &mail["subject"]), (&json!("Hi"), &json!("S")));
    let inbox = ["message", "inbox", "--agent", "scribe"];
    assert_eq!(in_team(&inbox, None)["items"][0]["id"], mail["id"]);
    let id = mail["id"].as_str().unwrap();
    assert_eq!(in_team(&["message", "ack", id], None)["readAt"], json!(null));
    assert!(in_team(&["message", "ack", id, "--agent", "scribe"], None)["readAt"].is_string());
    assert_eq!(in_team(&inbox, None)["items"], json!([]));

    let report = ["message", "send", "Done", "--to-people", "--agent", "scribe"];
    in_team(&report, None);
    let human = in_team(&["message", "inbox"], None);
    let id = human["items"][0]["id"].as_str().unwrap().to_string();
    assert!(in_team(&["message", "ack", &id], None)["readAt"].is_string());
    assert_eq!(in_team(&["message", "list"], None)["items"].as_array().unwrap().len(), 2);
    desk.run(&["message", "send", "x", "--to-people", "--team", "shipping"]).fails(2, "--agent");
    desk.run(&["message", "send", "x", "--team", "shipping"]).fails(2, "--to");
}

#[test]
fn what_others_wrote_does_not_control_the_terminal() {
    let desk = Desk::new();
    desk.team();
    let title = "fine\u{1b}[2J\u{7}";
    desk.json(&["task", "create", title, "--team", "shipping"]);
    let shown = desk.run(&["task", "list", "--team", "shipping"]).stdout;
    assert!(shown.contains("fine⟨U+001B⟩[2J⟨U+0007⟩") && !shown.contains('\u{1b}'), "{shown:?}");
    let raw = desk.json(&["task", "get", "1", "--team", "shipping"]);
    assert_eq!(raw["title"], title);
}

/// A server with the agent `scribe`, its prompt at 1.0.0, and the environment `staging`; with
/// `approval`, that of its owner is required.
fn deployable(approval: bool) -> Desk {
    let desk = Desk::new();
    desk.registry();
    let file = desk.file("scribe.md", "You write for {{TEAM}}.");
    desk.json(&["prompt", "publish", "main/scribe", &file, "--bump", "patch"]);
    let api = desk.api();
    api.post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
    let ada = desk.json(&["whoami"])["userId"].clone();
    let mut staging = json!({"slug": "staging", "name": "Staging"});
    if approval {
        staging["approvals"] = json!({"approverIds": [ada]});
    }
    api.post("/environments", staging).ok();
    desk
}

const DEPLOY: [&str; 10] = [
    "deploy",
    "scribe",
    "--prompt",
    "main/scribe@^1.0",
    "--environment",
    "staging",
    "--provider",
    "anthropic",
    "--set",
    "TEAM=Shipping",
];

#[test]
fn a_deployment_is_previewed_made_and_waited_for() {
    let desk = deployable(false);
    let unknown = [&["deploy", "scribe", "nobody"][..], &DEPLOY[2..]].concat();
    desk.run(&unknown).fails(1, ": \"nobody\" (not_found)");
    let nowhere = [&DEPLOY[..5], &["nowhere"], &DEPLOY[6..]].concat();
    desk.run(&nowhere).fails(1, ": \"nowhere\" (not_found)");
    desk.run(&DEPLOY[..8]).fails(1, "agentVariables is --set NAME=VALUE here");
    let preview = desk.json(&[&DEPLOY[..], &["--preview"]].concat());
    let hash = preview["planHash"].as_str().unwrap();
    let shown = desk.run(&[&DEPLOY[..], &["--preview"]].concat()).stdout;
    assert!(shown.contains("+You write for Shipping.") && shown.contains(hash), "{shown}");
    let other = "0".repeat(hash.len());
    desk.run(&[&DEPLOY[..], &["--plan-hash", &other]].concat()).fails(1, "plan_changed");
    let job = desk.json(&[&DEPLOY[..], &["--wait", "--plan-hash", hash]].concat());
    assert_eq!(
        (&job["state"], &job["targets"][0]["state"]),
        (&json!("complete"), &json!("applied"))
    );
    let missing = desk.run(&DEPLOY[..8]);
    missing.fails(1, "agentVariables.TEAM");
    let waits = [&DEPLOY[..3], &["scribe"], &DEPLOY[4..]].concat();
    desk.run(&waits).fails(2, "scribe@production");
}

#[test]
fn deployments_are_approved_and_denied() {
    let desk = deployable(true);
    let pending = desk.json(&DEPLOY);
    assert_eq!(pending["state"], "pending_approval");
    let id = pending["id"].as_str().unwrap();
    // The key of `init` decides in the name of approvers alone.
    desk.run(&["approve", id]).fails(1, "actingUserEmail");
    let approve = ["approve", id, "--as", "ada@acme.test", "--comment", "ok"];
    desk.run(&[&approve[..], &["--plan-hash", "0"]].concat()).fails(1, "plan_hash_differs");
    assert_eq!(desk.json(&approve)["state"], "approved");

    let waiting = desk.command(&[&DEPLOY[..], &["--wait", "--json"]].concat());
    let denied = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run(waiting, None));
        let pending = eventually("a job to decide about", || {
            let jobs = desk.api().get("/agents/deployments?state=pending_approval").items();
            jobs.first().map(|job| job["id"].as_str().unwrap().to_string())
        });
        desk.json(&["deny", &pending, "--as", "ada@acme.test"]);
        waiting.join().unwrap()
    });
    assert_eq!(denied.code, Some(1), "{denied:?}");
    let job: Value = serde_json::from_str(&denied.stdout).unwrap();
    assert_eq!(job["state"], "denied");
}

#[test]
fn in_a_terminal_what_a_job_changes_is_shown_and_approved_or_nothing_is() {
    let desk = deployable(true);
    let id = desk.json(&DEPLOY)["id"].as_str().unwrap().to_string();
    let decide = |typed: &str| {
        let approve = ["approve", &id, "--as", "ada@acme.test"];
        in_terminal_after(b"[y/N]: ", desk.command(&approve), typed)
    };
    let refused = decide("n\n");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let state = || desk.api().get(&format!("/agents/deployments/{id}")).ok()["state"].clone();
    assert_eq!(state(), "pending_approval");
    let approved = decide("y\n");
    assert_eq!(approved.code, Some(0), "{approved:?}");
    for shown in ["scribe: nothing is live", "+You write for Shipping.", "Approve it?"] {
        assert!(approved.stderr.contains(shown), "{approved:?}");
    }
    assert_ne!(state(), "pending_approval");
}

#[test]
fn the_log_is_shown_oldest_first_and_followed() {
    let desk = Desk::new();
    let (team, scribe) = desk.team();
    let write = |title: &str| {
        let entry = json!({"kind": "milestone", "title": title, "agentId": scribe});
        desk.api().post(&format!("/teams/{team}/timeline"), entry).ok();
    };
    write("first");
    let shown = desk.json(&["logs", "--limit", "2"]);
    let types: Vec<_> =
        shown["items"].as_array().unwrap().iter().map(|e| &e["eventType"]).collect();
    assert_eq!(types, ["team.agent_hired", "team.timeline_milestone"]);
    let none = desk.run(&["logs", "--event", "deployment.complete"]);
    assert_eq!(none.stdout, "no entries\n");

    let mut follow = desk.command(&["logs", "--follow", "--limit", "1", "--json"]);
    let mut child = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["eventType"], "team.timeline_milestone");
    write("second");
    write("third");
    let new = [next(), next()];
    assert!(new.iter().all(|entry| entry["eventType"] == "team.timeline_milestone"), "{new:?}");
    assert!(new[0]["createdAt"].as_str() <= new[1]["createdAt"].as_str());
    let stopped = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(stopped.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));

    // As with `| head -1`: it ends without another entry that it could fail to print.
    let mut follow = desk.command(&["logs", "--follow", "--limit", "1", "--json"]);
    let mut child = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("team.timeline_milestone"), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_happens_in_a_team_is_followed() {
    let desk = Desk::new();
    desk.team();
    let create = |title: &str| desk.json(&["task", "create", title, "--team", "shipping"]);
    create("One");
    let follow = ["activity", "--team", "shipping", "--follow", "--limit", "1", "--json"];
    let mut child = desk.command(&follow).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["task"]["title"], "One");
    for title in ["Two", "Three"] {
        create(title);
        assert_eq!(next()["task"]["title"], title);
    }
    let stopped = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(stopped.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A command that follows what happens in the team, with this key.
fn following(desk: &Desk, key: &str) -> (Child, impl FnMut() -> Value + use<>) {
    let args = ["activity", "--team", "shipping", "--follow", "--limit", "1", "--json"];
    let mut command = desk.command(&args);
    command.env("ROADSTEAD_API_KEY", key).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let next = move || serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    (child, next)
}

/// The exit code of a process, and what it wrote on stderr.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_happens_is_followed_over_a_kill_of_the_server_and_nothing_is_missed() {
    let mut desk = Desk::new();
    desk.team();
    desk.json(&["task", "create", "One", "--team", "shipping"]);
    let (child, mut next) = following(&desk, &desk.key.clone());
    assert_eq!(next()["task"]["title"], "One");
    let listen = desk.serving.address.to_string();
    desk.serving.kill();
    desk.serving = Serving::of(desk.place.command(&["serve", "--listen", &listen, "--json"]));
    for title in ["Two", "Three"] {
        desk.json(&["task", "create", title, "--team", "shipping"]);
    }
    assert_eq!(next()["task"]["title"], "Two");
    assert_eq!(next()["task"]["title"], "Three");
    let stopped = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(stopped.unwrap().success());
    let (code, stderr) = ended(child);
    assert_eq!(code, Some(0));
    let lines: Vec<&str> = stderr.lines().collect();
    let [away, back] = lines[..] else { panic!("{stderr}") };
    assert!(away.ends_with("trying again") && back == "the server answers again", "{stderr}");
}

#[test]
fn who_follows_what_happens_without_access_any_more_fails_with_the_reason() {
    let desk = Desk::new();
    desk.team();
    let key = desk.key_with(&["team:read"]);
    let (child, mut next) = following(&desk, &key);
    assert_eq!(next()["kind"], "agent_hired");
    let session = desk.session();
    let keys = session.get("/api-keys").items();
    let ci = keys.iter().find(|one| one["name"] == "CI").unwrap();
    session.delete(&format!("/api-keys/{}", ci["id"].as_str().unwrap())).ok();
    let (code, stderr) = ended(child);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("not valid here (any more)"), "{stderr}");
}

#[test]
fn a_list_of_no_items_is_refused() {
    let desk = Desk::new();
    desk.team();
    for list in [&["activity", "--team", "shipping"][..], &["logs"]] {
        desk.run(&[list, &["--limit", "0"]].concat()).fails(2, "--limit must be at least 1");
    }
    for list in ["task", "message"] {
        let list = [list, "list", "--team", "shipping", "--limit", "0"];
        desk.run(&list).fails(2, "give a whole number from 1 on");
    }
    let prompt = |command| ["prompt", command, "main/scribe"].to_vec();
    let lists = [vec!["agent", "list"], vec!["tool", "list"], prompt("history"), prompt("changes")];
    for list in lists {
        desk.run(&[&list[..], &["--limit", "0"]].concat()).fails(2, "a whole number from 1 on");
    }
}

#[test]
fn a_part_of_a_list_says_that_it_is_one() {
    let desk = Desk::new();
    desk.team();
    for title in ["One", "Two", "Three"] {
        desk.json(&["task", "create", title, "--team", "shipping"]);
    }
    let list = |limit| ["task", "list", "--team", "shipping", "--limit", limit];
    let part = desk.json(&list("2"));
    assert_eq!((part["items"].as_array().unwrap().len(), &part["more"]), (2, &json!(true)));
    let shown = desk.run(&list("2"));
    assert!(shown.stderr.contains("more than these 2"), "{}", shown.stderr);
    let whole = desk.json(&list("3"));
    assert_eq!((whole["items"].as_array().unwrap().len(), &whole["more"]), (3, &json!(false)));
    assert_eq!(desk.run(&list("3")).stderr, "");
}
