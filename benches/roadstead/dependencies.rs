//! Tasks that wait for others, among many: how soon after the last of these is completed an agent is woken.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{self, Connection};
use crate::fixture::{Fixture, id};
use crate::pauses::within;
use crate::requests;
use crate::table::Row;

const TASKS: usize = 100_000;
const TASKS_WHEN_QUICK: usize = 20_000;

/// Tasks stored per transaction, within its limit of writes.
const AT_ONCE: usize = 500;

const ROUNDS: usize = 200;

/// From the request that completes a task to the wake for the one that waited for it.
const LIMIT: Duration = Duration::from_millis(10);

/// Measures them.
pub fn rows(quick: bool) -> Vec<Row> {
    let fixture = Fixture::new(1);
    let half = if quick { TASKS_WHEN_QUICK } else { TASKS } / 2;
    let make = |tasks: Vec<Value>| {
        fixture.store("task.create", &[&fixture.team], tasks.into_iter(), AT_ONCE, |task| id(&task))
    };
    let first = make(vec![json!({"title": "Measure the import of Tuesday"}); half]);
    let agent = &fixture.agents[0];
    let then = |task: &String| json!({"title": "Write up what it says", "assigneeAgentId": agent, "dependsOn": [task]});
    make(first.iter().map(then).collect());
    let times = client::runtime().block_on(measure(&fixture, &first));
    vec![within(&format!("complete to wake among {} tasks", 2 * half), times, LIMIT)]
}

/// Completes tasks one after the other, and returns how long after each the agent was woken.
async fn measure(fixture: &Fixture, tasks: &[String]) -> Vec<Duration> {
    let path = format!("/teams/{}/agents/{}/wakes", fixture.team, fixture.agents[0]);
    let wait = fixture.get(&format!("{path}?wait=60"));
    let (host, key) = (fixture.address.to_string(), fixture.key.clone());
    let mut agent = Connection::open(fixture.address).await;
    let mut person = Connection::open(fixture.address).await;
    let mut times = Vec::new();
    for task in tasks.iter().step_by(tasks.len() / ROUNDS) {
        let path_of_task = format!("/teams/{}/tasks/{task}", fixture.team);
        let complete = fixture.send("PATCH", &path_of_task, json!({"status": "done"}));
        let begun = Instant::now();
        let (given, _) = tokio::join!(
            async {
                let answer = agent.ask(&wait).await;
                (
                    serde_json::from_slice::<Value>(answer.body).expect("answers are JSON"),
                    Instant::now(),
                )
            },
            async { person.insist(&complete).await },
        );
        times.push(given.1 - begun);
        let wakes = given.0["items"].as_array().expect("it is a list").clone();
        assert_eq!(wakes.len(), 1, "one task waited for it");
        let ids: Vec<_> = wakes.iter().map(|wake| &wake["id"]).collect();
        let ids = json!({"wakeIds": ids});
        let acknowledge = requests::send(&host, &key, "POST", &format!("{path}/ack"), ids);
        agent.insist(&acknowledge).await;
    }
    times
}
