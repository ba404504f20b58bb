//! Latency from sending a message to the response of the waiting agent. It includes the commit.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::client::{self, Connection};
use crate::fixture::Fixture;
use crate::requests;
use crate::table::{Row, Target, time};

/// Waiting agents, each on its own connection.
const AGENTS: usize = 200;

/// Number of sequential messages.
const SINGLE: usize = 1_000;

/// Number of bursts, each of `IN_BURST` concurrent messages.
const BURSTS: usize = 20;
const IN_BURST: usize = 50;

const LIMIT: Duration = Duration::from_millis(50);

/// No wake takes so long: one was lost.
const LOST: Duration = Duration::from_secs(30);

/// Measures wakes.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(AGENTS);
    let wakes = |agent| format!("/teams/{}/agents/{agent}/wakes", fixture.team);
    let agents: Vec<_> = fixture.agents.iter().zip(fixture.post_messages()).collect();
    let waiter = |(agent, message)| Waiter {
        server: fixture.address,
        key: fixture.key.clone(),
        wakes: wakes(agent),
        message,
    };
    let agents: Vec<_> = agents.into_iter().map(waiter).collect();
    let row = |how: &str, at_once, rounds| {
        let (mut times, _, refused) = measure(&agents, &[fixture.address], at_once, rounds);
        assert_eq!(refused, 0, "requests were repeated, since the server was overloaded");
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
    vec![
        row("sequential messages", 1, SINGLE),
        row(&format!("{IN_BURST} messages at once"), IN_BURST, BURSTS),
    ]
}

/// An agent that waits.
#[derive(Clone)]
pub struct Waiter {
    /// The server at which it waits, and its key.
    pub server: SocketAddr,
    pub key: String,
    /// The path of its wakes.
    pub wakes: String,
    /// The request that wakes it.
    pub message: Vec<u8>,
}

/// Has all agents wait, and sends messages to `at_once` of them at a time, `rounds` times, through
/// connections to `servers` in turn. Returns how long each wake took, how long all took,
/// and how many requests were repeated, since the server was overloaded.
pub fn measure(
    agents: &[Waiter],
    servers: &[SocketAddr],
    at_once: usize,
    rounds: usize,
) -> (Vec<Duration>, Duration, usize) {
    client::runtime().block_on(async {
        let (woken, mut wakes) = unbounded_channel();
        let (acknowledged, mut acknowledgements) = unbounded_channel();
        for agent in agents {
            let connection = Connection::open(agent.server).await;
            tokio::spawn(wait(agent.clone(), connection, woken.clone(), acknowledged.clone()));
        }
        let mut senders = Vec::new();
        for number in 0..at_once {
            senders.push(Connection::open(servers[number % servers.len()]).await);
        }
        let mut refused = 0;
        // Every agent waits again after it was woken.
        for agent in agents {
            refused += senders[0].insist(&agent.message).await;
            next(&mut wakes).await;
        }

        let mut times = Vec::new();
        let start = Instant::now();
        for round in 0..rounds {
            let mut sending = Vec::new();
            let sent = Instant::now();
            for (sender, mut connection) in senders.drain(..).enumerate() {
                let message = agents[(round * at_once + sender) % agents.len()].message.clone();
                sending.push(tokio::spawn(async move {
                    let refused = connection.insist(&message).await;
                    (connection, refused)
                }));
            }
            for _ in 0..at_once {
                times.push(next(&mut wakes).await - sent);
            }
            for sender in sending {
                let (connection, again) = sender.await.expect("it was answered");
                senders.push(connection);
                refused += again;
            }
        }
        let took = start.elapsed();
        // One that is left would come back while something else is measured.
        for _ in 0..agents.len() + times.len() {
            next(&mut acknowledgements).await;
        }
        (times, took, refused)
    })
}

async fn next<T>(from: &mut UnboundedReceiver<T>) -> T {
    let next = timeout(LOST, from.recv()).await.expect("no wake is lost");
    next.expect("agents wait")
}

/// Waits, says when it was woken, and acknowledges.
async fn wait(
    agent: Waiter,
    mut connection: Connection,
    woken: UnboundedSender<Instant>,
    acknowledged: UnboundedSender<()>,
) {
    let Waiter { server, key, wakes, .. } = agent;
    let host = server.to_string();
    let request = requests::get(&host, &key, &format!("{wakes}?wait=60"));
    loop {
        let answer = connection.ask(&request).await;
        let at = Instant::now();
        let answer: Value = serde_json::from_slice(answer.body).expect("answers are JSON");
        let given = answer["items"].as_array().expect("it is a list");
        if given.is_empty() {
            continue;
        }
        let ids: Vec<_> = given.iter().map(|wake| &wake["id"]).collect();
        if ids.iter().any(|_| woken.send(at).is_err()) {
            return;
        }
        let path = format!("{wakes}/ack");
        let acknowledge = requests::send(&host, &key, "POST", &path, json!({"wakeIds": ids}));
        connection.insist(&acknowledge).await;
        if ids.iter().any(|_| acknowledged.send(()).is_err()) {
            return;
        }
    }
}
