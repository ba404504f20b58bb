//! A thousand schedules that are due in one second: how late each is begun.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, id};
use crate::pauses::within;
use crate::table::Row;

/// A team has at most a hundred.
const TEAMS: usize = 10;
const OF_EACH: usize = 100;

/// From the time at which they are due to the transaction that begins one.
const LIMIT: Duration = Duration::from_secs(2);

/// Measures the first minute that begins after all are there.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(0);
    let mut schedules = Vec::new();
    for number in 0..TEAMS {
        let team = json!({"slug": format!("team-{number}"), "name": "Team"});
        let team = id(&fixture.ask(&fixture.post("/teams", team)));
        for _ in 0..OF_EACH {
            let schedule =
                json!({"name": "Every minute", "cron": "* * * * *", "task": {"title": "Look"}});
            let path = format!("/teams/{team}/schedules");
            schedules.push(format!("{path}/{}", id(&fixture.ask(&fixture.post(&path, schedule)))));
        }
    }
    let last = &schedules[schedules.len() - 1];
    // Those made last were made before the minute in which this one is due.
    let due = runs(&fixture, last)[0]["dueAt"].clone();
    let late = |schedule: &String| {
        let runs = runs(&fixture, schedule);
        let run = runs.iter().find(|run| run["dueAt"] == due).expect("no time is left out");
        assert_eq!(run["outcome"], "task_created", "{run}");
        millis(&run["createdAt"]) - millis(&run["dueAt"])
    };
    let times = schedules.iter().map(|schedule| Duration::from_millis(late(schedule))).collect();
    vec![within(&format!("{} schedules due at once, begun", schedules.len()), times, LIMIT)]
}

/// The runs of a schedule, the newest first, as soon as there is one.
fn runs(fixture: &Fixture, schedule: &str) -> Vec<Value> {
    loop {
        let found = fixture.ask(&fixture.get(&format!("{schedule}/runs")));
        let found = found["items"].as_array().expect("it is a list").clone();
        if !found.is_empty() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The milliseconds of a time within its hour.
fn millis(time: &Value) -> u64 {
    let text = time.as_str().expect("it is a time");
    let part = |from: usize, to: usize| text[from..to].parse::<u64>().expect("it has digits");
    (part(14, 16) * 60 + part(17, 19)) * 1000 + part(20, 23)
}
