//! Schedules of a server that is killed between two times, and started again over one: each time is begun
//! once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Caller, within};
use crate::process::{Place, Serving};

/// The shortest time between two, and what a busy machine takes beside it.
const A_TIME: Duration = Duration::from_secs(120);

/// The times that were handled, oldest first.
fn handled(caller: &Caller, schedule: &str) -> Vec<Value> {
    let mut runs = caller.get(&format!("{schedule}/runs")).items();
    runs.reverse();
    runs
}

#[test]
fn each_time_is_begun_once_over_kills_between_two_and_a_start_over_one() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    let caller = serving.caller(&key);
    let team = format!("/teams/{}", caller.post("/teams", json!({"slug": "t", "name": "T"})).id());
    let body =
        json!({"name": "n", "everySecs": 60, "task": {"title": "Count"}, "overlap": "queue"});
    let made = caller.post(&format!("{team}/schedules"), body).ok();
    let schedule = format!("{team}/schedules/{}", made["id"].as_str().unwrap());
    let times = made["nextTimes"].clone();
    let first = time(&times[0]);
    // Killed before its first time, which passes while nothing runs.
    serving.kill();
    drop(serving);
    within(A_TIME, "the first time", || {
        (time::OffsetDateTime::now_utc() > first + time::Duration::seconds(2)).then_some(())
    });
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    let caller = serving.caller(&key);
    let runs = within(A_TIME, "its task", || {
        Some(handled(&caller, &schedule)).filter(|runs| !runs.is_empty())
    });
    assert_eq!((runs.len(), &runs[0]["dueAt"]), (1, &times[0]), "{runs:?}");
    // Killed as soon as it was begun, and once more between this and the next.
    for _ in 0..2 {
        serving.kill();
        drop(serving);
        serving = Serving::start(&place, &["--rate-limit", "0"]);
        let caller = serving.caller(&key);
        assert_eq!(handled(&caller, &schedule), runs);
        assert_eq!(caller.get(&schedule).ok()["nextTimes"][0], times[1]);
    }
    let caller = serving.caller(&key);
    let runs = within(A_TIME, "the second time", || {
        Some(handled(&caller, &schedule)).filter(|runs| runs.len() > 1)
    });
    let due: Vec<_> = runs.iter().map(|run| &run["dueAt"]).collect();
    assert_eq!(due, [&times[0], &times[1]]);
    assert!(runs.iter().all(|run| run["outcome"] == "task_created"), "{runs:?}");
    let tasks = caller.get(&format!("{team}/tasks")).items();
    let ids: Vec<_> = tasks.iter().rev().map(|task| &task["id"]).collect();
    assert_eq!(ids, runs.iter().map(|run| &run["taskId"]).collect::<Vec<_>>());
}

fn time(value: &Value) -> time::OffsetDateTime {
    let format = &time::format_description::well_known::Rfc3339;
    time::OffsetDateTime::parse(value.as_str().unwrap(), format).unwrap()
}
