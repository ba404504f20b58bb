//! Stopping a server while its database hangs.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::{Node, set_up};
use crate::client::Connection;
use crate::client::server_log::DATABASE_AWAY;
use crate::postgres_server::PostgresServer;

/// `TimeoutStopSec` of the unit: after that the service manager kills.
const UNIT_WAITS: Duration = Duration::from_secs(15);

#[test]
fn a_stop_ends_within_the_time_of_the_unit_although_the_database_hangs() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let mut node = Node::start(&database.url());
    node.expected = DATABASE_AWAY;
    let owner = node.caller(&set_up(&node));
    database.signal(Signal::STOP);
    // A write and a read that hang.
    let hanging: Vec<_> = ["POST", "GET"]
        .into_iter()
        .map(|method| {
            let ask = owner.ask(method, &owner.in_org("/teams"));
            let ask = match method {
                "POST" => ask.json(&json!({"slug": "t", "name": "T"})),
                _ => ask,
            };
            let mut connection = Connection::open(node.address).unwrap();
            connection.write(&ask.to_bytes()).unwrap();
            connection
        })
        .collect();
    let begun = Instant::now();
    node.signal(Signal::TERM);
    let ended = node.child.wait().unwrap();
    let took = begun.elapsed();
    database.signal(Signal::CONT);
    drop(hanging);
    assert!(took < UNIT_WAITS, "{took:?}");
    assert!(ended.code().is_some_and(|code| code <= 1), "{ended:?}: {}", node.log());
}
