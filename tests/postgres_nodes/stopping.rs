//! Stopping a server while its database hangs.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Node, command, set_up};
use crate::client::server_log::DATABASE_AWAY;
use crate::client::{Connection, eventually, raw};
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
    // It has read what came before this, or is about to.
    let alive = raw(node.address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(alive.status, 200);
    let begun = Instant::now();
    node.signal(Signal::TERM);
    let ended = node.child.wait().unwrap();
    let took = begun.elapsed();
    database.signal(Signal::CONT);
    drop(hanging);
    assert!(took < UNIT_WAITS, "{took:?}");
    // It was held up, and gave up by itself.
    assert_eq!(ended.code(), Some(1), "{}", node.log());
    let said = "stopped without waiting any longer for what hangs";
    assert!(node.log().contains(said), "{}", node.log());
}

#[test]
fn a_signal_ends_a_server_that_still_waits_for_its_database() {
    for signal in [Signal::TERM, Signal::HUP] {
        // It takes connections, and says nothing.
        let database = TcpListener::bind("127.0.0.1:0").unwrap();
        database.set_nonblocking(true).unwrap();
        let url = format!("postgres://nobody@{}/nothing", database.local_addr().unwrap());
        let mut opening = command(&url, "127.0.0.1:0");
        let mut server = opening.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let _asked = eventually("a connection", || database.accept().ok());
        kill_process(Pid::from_child(&server), signal).unwrap();
        let ended = server.wait().unwrap();
        // By its handler: in a container, as process 1, no signal without one ends it.
        assert_eq!(ended.code(), Some(0), "{signal:?}: {ended:?}");
    }
}
