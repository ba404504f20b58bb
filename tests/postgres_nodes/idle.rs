//! What those cost who wait and hear nothing. Most agents do that most of the time.

use std::time::{Duration, Instant};

use super::{Node, set_up, team};
use crate::client::Connection;
use crate::postgres_server::{PostgresServer, say};

const WAITERS: usize = 100;

/// Six times as long as a server over a data directory waits between two reads.
const WAIT_SECS: u64 = 30;

/// The round trips of a wait from its beginning to its end: those of one read. Ten thousand waits of 55
/// seconds are 1,600 a second then, a tenth of what a server makes: 16,000 (4,000 reads, of four each then).
const MOST: f64 = 8.8;

#[test]
fn a_wait_in_which_nothing_happens_costs_a_single_read() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let node = Node::start(&database.url());
    let owner = set_up(&node);
    let (_, wakes) = team(&owner, "idle");
    let caller = node.caller(&owner);
    let wait = caller.in_org(&format!("{wakes}?wait={WAIT_SECS}"));
    let request = caller.ask("GET", &wait).to_bytes();
    let round_trips = || node.metric("roadstead_database_round_trips_total");
    let (before, begun) = (round_trips(), Instant::now());
    let mut waits: Vec<_> = (0..WAITERS)
        .map(|_| {
            let mut wait = Connection::open(node.address).unwrap();
            wait.write(&request).unwrap();
            wait
        })
        .collect();
    for wait in &mut waits {
        assert!(wait.reply(false).unwrap().items().is_empty());
    }
    assert!(begun.elapsed() >= Duration::from_secs(WAIT_SECS), "they waited");
    let each = (round_trips() - before) / WAITERS as f64;
    say(&format!("a wait of {WAIT_SECS} s in which nothing happens: {each:.1} round trips"));
    assert!(each <= MOST, "{each}");
    node.stop();
}
