//! Latency from sending a message to the response of the waiting agent. It includes the commit.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::client::{self, Connection};
use crate::fixture::Fixture;
use crate::table::{Row, Target, time};

/// Waiting agents, each on its own connection.
const AGENTS: usize = 200;

/// Number of sequential messages.
const SINGLE: usize = 1_000;

/// Number of bursts, each of `IN_BURST` concurrent messages.
const BURSTS: usize = 20;
const IN_BURST: usize = 50;

const LIMIT: Duration = Duration::from_millis(50);

/// Measures wakes.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(AGENTS);
    let (single, bursts) = client::runtime().block_on(measure(&fixture));
    let row = |how: &str, mut times: Vec<Duration>| {
        times.sort();
        let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        Row {
            name: format!("message to wake, {AGENTS} agents waiting, {how}, p99"),
            ours: format!("{} (p50 {})", time(most), time(half)),
            baseline: format!("limit {}", time(LIMIT)),
            ratio: most.as_secs_f64() / LIMIT.as_secs_f64(),
            target: Target::AtMost(1.0),
        }
    };
    vec![row("sequential messages", single), row(&format!("{IN_BURST} messages at once"), bursts)]
}

async fn measure(fixture: &Fixture) -> (Vec<Duration>, Vec<Duration>) {
    let (woken, mut wakes) = mpsc::unbounded_channel();
    for (nth, agent) in fixture.agents.iter().enumerate() {
        let request = fixture.get(&format!("/teams/{}/agents/{agent}/wakes?wait=60", fixture.team));
        let mut connection = Connection::open(fixture.address).await;
        let woken = woken.clone();
        tokio::spawn(async move {
            loop {
                connection.ask(&request).await;
                if woken.send((nth, Instant::now())).is_err() {
                    return;
                }
            }
        });
    }
    let messages = fixture.post_messages();
    let mut senders = Vec::new();
    for _ in 0..IN_BURST {
        senders.push(Connection::open(fixture.address).await);
    }
    // Every agent waits again after it was woken.
    for message in &messages {
        senders[0].ask(message).await;
        wakes.recv().await;
    }

    let mut single = Vec::new();
    for nth in 0..SINGLE {
        let sent = Instant::now();
        senders[0].ask(&messages[nth * 7 % AGENTS]).await;
        let (_, at) = wakes.recv().await.expect("agents wait");
        single.push(at - sent);
    }

    let mut bursts = Vec::new();
    for nth in 0..BURSTS {
        let mut sending = Vec::new();
        let sent = Instant::now();
        for (sender, mut connection) in senders.drain(..).enumerate() {
            let message = messages[(nth * 7 + sender) % AGENTS].clone();
            sending.push(tokio::spawn(async move {
                connection.ask(&message).await;
                connection
            }));
        }
        for _ in 0..IN_BURST {
            let (_, at) = wakes.recv().await.expect("agents wait");
            bursts.push(at - sent);
        }
        for sender in sending {
            senders.push(sender.await.expect("it was answered"));
        }
    }
    (single, bursts)
}
