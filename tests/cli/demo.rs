//! `demo`: the printed commands work, and the agent wakes and does its task.

use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Caller, eventually};
use crate::process::{Place, Serving};
use crate::visitor::Visitor;

/// Runs a printed command.
fn run(line: &Value) -> Value {
    let done = Command::new("sh").args(["-c", line.as_str().unwrap()]).output().unwrap();
    assert!(done.status.success(), "{line}");
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn the_printed_commands_wake_the_agent_which_reports_and_remembers() {
    let place = Place::new();
    let mut demo = Serving::by("demo", &place, &[]);
    let printed = demo.announced.clone();
    let [task, inbox, prompt, approve, live] = [0, 1, 2, 3, 4].map(|i| &printed["curl"][i]);
    let title = run(task)["title"].as_str().unwrap().to_string();
    eventually("the agent's word to the humans", || {
        let mail = run(inbox);
        mail["items"][0]["body"].as_str().filter(|body| body.contains(&title)).map(|_| ())
    });
    let prompt = run(prompt);
    assert_eq!(prompt["version"], "1.1.0");
    assert!(prompt["compiled"].as_str().unwrap().starts_with("Write plainly"), "{prompt}");

    let key = printed["apiKey"].as_str().unwrap();
    let api = Caller::anonymous(demo.address, "acme").with_key(key);
    let staging = eventually("it runs in staging", || {
        let reply = api.get("/agents/scribe/deployed?environment=staging");
        (reply.status == 200).then(|| reply.ok())
    });
    assert_eq!(staging["version"], "1.1.0");
    assert_eq!(run(live)["code"], "not_found");
    assert_eq!(run(approve)["state"], "approved");
    eventually("it is deployed", || {
        let text = run(live)["compiled"].as_str().map(str::to_string);
        text.filter(|text| text.contains("You write release notes for Harbour."))
    });

    let session = Caller::anonymous(demo.address, "acme")
        .ask("POST", "/auth/sign-in")
        .json(&json!({
            "email": printed["signIn"]["email"], "password": printed["signIn"]["password"],
        }))
        .send();
    assert_eq!(session.ok()["user"]["name"], "Ada");

    let link = printed["signIn"]["link"].as_str().unwrap();
    assert!(link.starts_with(&format!("http://{}/first-visit#", demo.address)), "{link}");
    let follow = |browser: &Visitor| {
        let page = browser.get("/first-visit");
        browser.send(&page, "/first-visit", &[("link", link)]).status
    };
    let (first, second) = (Visitor::new(demo.address), Visitor::new(demo.address));
    assert_eq!((follow(&first), follow(&second)), (303, 400));
    first.open("/").shows("Today");
    second.open("/").hides("Today");
    let tasks = api.get("/teams").items()[0]["id"].as_str().map(|id| format!("/teams/{id}/tasks"));
    eventually("the agent finishes what it began", || {
        let done = api.get(&tasks.clone().unwrap()).items();
        let is_done = |one: &Value| one["title"] == *title && one["status"] == "done";
        done.iter().any(is_done).then_some(())
    });

    demo.signal("TERM");
    let (code, _, log) = demo.ends();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("[scribe] woken: task_assigned"), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}
