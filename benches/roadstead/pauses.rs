//! A pause over a thousand agents that wait: how soon it is in effect, and how soon they have what came
//! meanwhile when it ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use crate::client::{self, Connection};
use crate::fixture::Fixture;
use crate::requests;
use crate::table::{Row, Target, time};

/// Waiting agents, each on its own connection.
const AGENTS: usize = 1_000;

const ROUNDS: usize = 50;

/// From the request to the answer: what is committed by then holds every agent.
const PAUSE_LIMIT: Duration = Duration::from_millis(10);

/// From the request that resumes to the wake of one of them: those are told one after the other.
const RESUME_LIMIT: Duration = Duration::from_millis(500);

/// No wake takes so long: one was lost.
const LOST: Duration = Duration::from_secs(60);

/// Measures pauses.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(AGENTS);
    let (paused, resumed) = client::runtime().block_on(measure(&fixture));
    let row = |name: &str, times, limit| {
        within(&format!("{name}, {AGENTS} agents waiting"), times, limit)
    };
    vec![row("pause of a team", paused, PAUSE_LIMIT), row("resume to wake", resumed, RESUME_LIMIT)]
}

/// The row of times of which nearly all are to be within a limit.
pub fn within(name: &str, mut times: Vec<Duration>, limit: Duration) -> Row {
    times.sort();
    let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    Row {
        name: format!("{name}, p99"),
        ours: format!("{} (p50 {})", time(most), time(half)),
        baseline: format!("limit {}", time(limit)),
        ratio: most.as_secs_f64() / limit.as_secs_f64(),
        target: Target::AtMost(1.0),
    }
}

/// Returns the times of pauses, and those from resuming to the wake of an agent.
async fn measure(fixture: &Fixture) -> (Vec<Duration>, Vec<Duration>) {
    let (woken, mut wakes) = unbounded_channel();
    for agent in &fixture.agents {
        let path = format!("/teams/{}/agents/{agent}/wakes", fixture.team);
        let (host, key) = (fixture.address.to_string(), fixture.key.clone());
        let mut connection = Connection::open(fixture.address).await;
        let woken = woken.clone();
        tokio::spawn(async move {
            let wait = requests::get(&host, &key, &format!("{path}?wait=60"));
            loop {
                let answer: Value = serde_json::from_slice(connection.ask(&wait).await.body)
                    .expect("answers are JSON");
                let given = answer["items"].as_array().expect("it is a list");
                if given.is_empty() {
                    continue;
                }
                let at = Instant::now();
                let ids: Vec<_> = given.iter().map(|wake| &wake["id"]).collect();
                let ids = json!({"wakeIds": ids});
                let acknowledge = requests::send(&host, &key, "POST", &format!("{path}/ack"), ids);
                connection.insist(&acknowledge).await;
                if woken.send(at).is_err() {
                    return;
                }
            }
        });
    }
    let messages = fixture.post_messages();
    let mut sender = Connection::open(fixture.address).await;
    // Each waits again after it was woken.
    for message in &messages {
        sender.insist(message).await;
        timeout(LOST, wakes.recv()).await.expect("no wake is lost");
    }
    let act = |verb: &str| fixture.post(&format!("/teams/{}/{verb}", fixture.team), json!({}));
    let (mut paused, mut resumed) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let begun = Instant::now();
        sender.insist(&act("pause")).await;
        paused.push(begun.elapsed());
        sender.insist(&messages[round * AGENTS / ROUNDS]).await;
        assert!(wakes.try_recv().is_err(), "a paused agent was woken");
        let begun = Instant::now();
        sender.insist(&act("resume")).await;
        let at = timeout(LOST, wakes.recv()).await.expect("no wake is lost");
        resumed.push(at.expect("agents wait") - begun);
    }
    (paused, resumed)
}
