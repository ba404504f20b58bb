//! The activity of a team: pages, waiting, and streams (reference: teams-and-wakes, "Activity").

use std::time::Instant;

use serde_json::{Value, json};

use crate::client::{Connection, at_once, pick};
use crate::fixture::unknown_id;
use crate::teams::Crew;

fn kinds(entries: &[Value]) -> Vec<&str> {
    entries.iter().filter_map(|entry| entry["kind"].as_str()).collect()
}

/// Begins a stream of what happens, after this event.
fn stream(crew: &Crew, last: Option<&str>) -> Connection {
    begun(crew, last).0
}

/// The same, with the event after which it begins.
fn begun(crew: &Crew, last: Option<&str>) -> (Connection, String) {
    let owner = &crew.acme.owner;
    let path = owner.in_org(&crew.path("/activity"));
    let mut ask = owner.ask("GET", &path).with("Accept", "text/event-stream");
    if let Some(last) = last {
        ask = ask.with("Last-Event-ID", last);
    }
    let mut stream = Connection::open(crew.acme.address).unwrap();
    stream.write(&ask.to_bytes()).unwrap();
    let (status, _) = stream.head().unwrap();
    assert_eq!(status, 200);
    let first = stream.chunk().unwrap();
    let lines: Vec<_> = first.split('\n').collect();
    let ["retry: 2000", id, "", ""] = lines[..] else { panic!("{first:?}") };
    (stream, id.strip_prefix("id: ").unwrap().into())
}

/// The next entry of a stream.
fn next(stream: &mut Connection) -> Value {
    let mut event = stream.chunk().unwrap();
    while event.starts_with(':') {
        event = stream.chunk().unwrap();
    }
    let lines: Vec<_> = event.split('\n').collect();
    let ["event: activity", id, data, "", ""] = lines[..] else { panic!("{event:?}") };
    let entry: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(id.strip_prefix("id: "), entry["id"].as_str());
    entry
}

#[test]
fn what_happens_is_listed_both_ways_and_by_task() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let task = crew.task(json!({"title": "Count"}));
    crew.post(&format!("/tasks/{task}/claim"), json!({"agentId": ann})).ok();
    crew.post("/messages", json!({"taskId": task, "body": "Faster\nplease"})).ok();
    let all = crew.get("/activity").items();
    let expected = ["message_sent", "task_changed", "task_created", "agent_hired"];
    assert_eq!(kinds(&all), expected);
    let changed =
        json!(["open", "in_progress", "ann", ann, {"id": task, "number": 1, "title": "Count"}]);
    assert_eq!(pick(&all[1], "oldStatus status name assigneeAgentId task"), changed);
    assert_eq!(pick(&all[0], "text resourceId"), json!(["Faster", all[0]["id"]]));
    let first = crew.get("/activity?after=start&limit=3");
    let cursor = first.json()["nextCursor"].as_str().unwrap().to_string();
    let rest = crew.get(&format!("/activity?after=start&limit=3&cursor={cursor}"));
    let mut oldest_first = [first.items(), rest.items()].concat();
    oldest_first.reverse();
    assert_eq!(oldest_first, all);
    let of_task = crew.get(&format!("/activity?taskId={task}")).items();
    assert_eq!(kinds(&of_task), expected[..3]);
    let by_ann = crew.get(&format!("/activity?agentId={ann}&kind=task_changed")).items();
    assert_eq!(by_ann, all[1..2]);
    assert_eq!(pick(&all[2], "userId name"), json!([crew.acme.owner_id, "Ada"]));
    crew.get("/activity?after=yesterday").invalid(&["after"]);
    crew.acme.owner.get(&format!("/teams/{}/activity", unknown_id())).refused(404, "not_found");
}

#[test]
fn a_pause_a_budget_and_a_schedule_are_sent_as_they_change() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let mut events = stream(&crew, None);
    let owner = &crew.acme.owner;
    let mut expect = |kind: &str, more: Value| {
        let entry = next(&mut events);
        assert_eq!(pick(&entry, "kind status text agentId"), {
            let mut expected = vec![json!(kind)];
            expected.extend(more.as_array().unwrap().iter().cloned());
            json!(expected)
        });
    };
    crew.post(&format!("/agents/{ann}/pause"), json!({"reason": "It loops"})).ok();
    expect("paused", json!(["team_agent", "It loops", ann]));
    crew.post(&format!("/agents/{ann}/resume"), json!({})).ok();
    expect("resumed", json!(["team_agent", null, ann]));
    crew.patch("", json!({"budget": {"monthlyUsd": 5, "onExhausted": "pause"}})).ok();
    expect("budget_changed", json!(["pause", "5 USD a month", null]));
    let schedule = json!({"name": "Hourly", "everySecs": 3600, "task": {"title": "Count"}});
    let schedule = crew.post("/schedules", schedule).id();
    expect("schedule_created", json!([null, "Hourly", null]));
    crew.delete(&format!("/schedules/{schedule}")).ok();
    expect("schedule_deleted", json!([null, "Hourly", null]));
    // Nothing of the team says that all teams are paused: it is found all the same.
    owner.post("/teams/pause", json!({})).ok();
    expect("paused", json!(["organization", null, null]));
    owner.post("/teams/resume", json!({})).ok();
    expect("resumed", json!(["organization", null, null]));
}

#[test]
fn a_wait_ends_with_the_next_entry() {
    let crew = Crew::new();
    crew.hire("ann");
    let newest = crew.get("/activity?limit=1").items()[0]["id"].as_str().unwrap().to_string();
    assert!(crew.get(&format!("/activity?after={newest}")).items().is_empty());
    let owner = &crew.acme.owner;
    let path = crew.path(&format!("/activity?after={newest}&wait=55"));
    let mut waiting = Connection::open(crew.acme.address).unwrap();
    waiting.write(&owner.ask("GET", &owner.in_org(&path)).to_bytes()).unwrap();
    let begun = Instant::now();
    let task = crew.task(json!({"title": "Count"}));
    let found = waiting.reply(false).unwrap().items();
    assert_eq!((found.len(), &found[0]["resourceId"]), (1, &json!(task)));
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
}

#[test]
fn a_stream_goes_on_after_the_last_event_without_a_gap_or_a_repetition() {
    const WRITERS: usize = 8;
    const TASKS: usize = 20;
    let crew = Crew::new();
    let mut first = stream(&crew, None);
    let before = crew.task(json!({"title": "before"}));
    let last = next(&mut first);
    assert_eq!(last["resourceId"], json!(before));
    drop(first);
    let mut second = stream(&crew, last["id"].as_str());
    at_once(WRITERS, |writer| {
        for nth in 0..TASKS {
            crew.task(json!({"title": format!("{writer} {nth}")}));
        }
    });
    let mut followed: Vec<Value> = (0..WRITERS * TASKS).map(|_| next(&mut second)).collect();
    let mut listed = crew.get("/activity?limit=200").items();
    listed.pop(); // The first one.
    listed.reverse();
    for entry in followed.iter_mut().chain(&mut listed) {
        entry["settled"] = Value::Null;
    }
    assert_eq!(followed, listed);
    // Before the first event, too.
    let (stopped, begin) = begun(&crew, None);
    drop(stopped);
    let meanwhile = crew.task(json!({"title": "meanwhile"}));
    let (mut again, same) = begun(&crew, Some(&begin));
    assert_eq!((same, &next(&mut again)["resourceId"]), (begin, &json!(meanwhile)));
    // Of what is there already, too.
    let mut third = stream(&crew, followed[0]["id"].as_str());
    assert_eq!(next(&mut third)["id"], followed[1]["id"]);
    let path = crew.acme.owner.in_org(&crew.path("/activity"));
    let ask = crew.acme.owner.ask("GET", &path).with("Accept", "text/event-stream");
    ask.with("Last-Event-ID", "no-id").send().invalid(&["Last-Event-ID"]);
}
