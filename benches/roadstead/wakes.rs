//! How long it takes from sending a message to the answer that its waiting agent gets. The commit
//! lies between the two, so from the commit it takes less.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::client::{self, Connection};
use crate::table::{Row, Wanted, time};
use crate::world::{Commits, World};

/// So many wait, each on a connection of its own.
const AGENTS: usize = 200;

/// So many messages, one after another.
const SINGLE: usize = 1_000;

/// And so many bursts of so many messages at once.
const BURSTS: usize = 20;
const IN_BURST: usize = 50;

const LIMIT: Duration = Duration::from_millis(50);

/// The rows of wakes.
pub fn rows() -> Vec<Row> {
    let world = World::new(Commits::Shared, AGENTS);
    let (single, bursts) = client::runtime().block_on(measure(&world));
    let row = |how: &str, mut times: Vec<Duration>| {
        times.sort();
        let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        Row {
            what: format!("wake of one of {AGENTS} agents, {how}, p99"),
            ours: format!("{} (p50 {})", time(most), time(half)),
            beside: format!("limit {}", time(LIMIT)),
            ratio: most.as_secs_f64() / LIMIT.as_secs_f64(),
            wanted: Wanted::AtMost(1.0),
        }
    };
    vec![
        row("one message after another", single),
        row(&format!("{IN_BURST} messages at once"), bursts),
    ]
}

async fn measure(world: &World) -> (Vec<Duration>, Vec<Duration>) {
    let (woken, mut wakes) = mpsc::unbounded_channel();
    for (nth, agent) in world.agents.iter().enumerate() {
        let request = world.get(&format!("/teams/{}/agents/{agent}/wakes?wait=60", world.team));
        let mut connection = Connection::open(world.address).await;
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
    let messages = world.post_messages();
    let mut senders = Vec::new();
    for _ in 0..IN_BURST {
        senders.push(Connection::open(world.address).await);
    }
    // Every agent waits once it was woken and has asked again.
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
