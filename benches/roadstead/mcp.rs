//! The Model Context Protocol beside the API's own routes: a tool beside its route, and a thousand
//! agents that listen to their inbox beside a thousand that wait in a long poll.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{self, Connection, load};
use crate::fixture::{Fixture, id};
use crate::neighbours::Neighbours;
use crate::rounds::{self, TIME, figure, ratio};
use crate::table::{Row, Target};

const CONNECTIONS: usize = 32;

/// Agents that wait, each on its own connection.
const AGENTS: usize = 1_000;

/// One thousand connections are open and wait by then.
const SETTLE: Duration = Duration::from_secs(5);

/// How much more a listener may take than a long poll: the buffer of a stream.
const MORE: f64 = 1.25;

/// The revision of the protocol.
const VERSION: &str = "2026-07-28";

/// Measures the protocol.
pub fn rows() -> Vec<Row> {
    vec![call(), listeners()]
}

/// `tools/call` beside the same route.
fn call() -> Row {
    let fixture = Fixture::new(1);
    let task = id(&fixture.ask(&fixture.post_task()));
    let route = [fixture.get(&format!("/teams/{}/tasks/{task}", fixture.team))];
    let arguments = json!({"teamId": fixture.team, "taskId": task});
    let params = json!({"name": "task_get", "arguments": arguments});
    let host = fixture.address.to_string();
    let tool = [request(&host, &fixture.key, "tools/call", Some("task_get"), params)];
    let outcomes =
        rounds::run(&mut [&mut || load(fixture.address, CONNECTIONS, TIME, &tool), &mut || {
            load(fixture.address, CONNECTIONS, TIME, &route)
        }]);
    Row {
        name: format!("tools/call of a task, {CONNECTIONS} connections"),
        ours: figure(&outcomes[0]),
        baseline: format!("GET {}", figure(&outcomes[1])),
        ratio: ratio(&outcomes[0], &outcomes[1]),
        target: Target::AtLeast(0.7),
    }
}

/// The bytes of a message with the headers that repeat it.
fn request(host: &str, key: &str, method: &str, name: Option<&str>, mut params: Value) -> Vec<u8> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let name = name.map_or(String::new(), |name| format!("mcp-name: {name}\r\n"));
    format!(
        "POST /api/mcp HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\
         mcp-protocol-version: {VERSION}\r\nmcp-method: {method}\r\n{name}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The memory of the binary for each agent that listens, beside each in a long poll.
fn listeners() -> Row {
    let [listening, polling] = [true, false].map(|listens| {
        let neighbours = Neighbours::start();
        let team = neighbours.prepare("POST", "/teams", json!({"slug": "crew", "name": "Crew"}));
        let team = id(&team);
        let agent = json!({"stableKey": "scribe", "name": "Scribe"});
        neighbours.prepare("POST", "/agents", agent);
        let member = json!({"stableKey": "scribe", "role": "member"});
        let agent = id(&neighbours.prepare("POST", &format!("/teams/{team}/agents"), member));
        let request = if listens {
            let inbox = format!("roadstead://acme/teams/{team}/agents/{agent}/inbox");
            let filter = json!({"notifications": {"resourceSubscriptions": [inbox]}});
            let host = neighbours.server.address.to_string();
            request(&host, &neighbours.key, "subscriptions/listen", None, filter)
        } else {
            let path = format!("/teams/{team}/agents/{agent}/wakes?wait=55&orgSlug=acme");
            neighbours.request("GET", &path, "")
        };
        kilobytes_each(&neighbours, &request)
    });
    Row {
        name: format!("{AGENTS} agents listening, memory of each"),
        ours: format!("{listening:.1} KB"),
        baseline: format!("long poll {polling:.1} KB"),
        ratio: listening / polling,
        target: Target::AtMost(MORE),
    }
}

fn kilobytes_each(neighbours: &Neighbours, request: &[u8]) -> f64 {
    client::runtime().block_on(async {
        let before = neighbours.server.memory_mb();
        let mut open = JoinSet::new();
        for _ in 0..AGENTS {
            let (address, request) = (neighbours.server.address, request.to_vec());
            open.spawn(async move {
                let mut connection = Connection::open(address).await;
                // A stream has no length; it is held open all the same.
                let answered = connection.exchange(&request).await;
                assert_eq!(answered.ok(), Some(200), "a held request failed");
                std::future::pending::<()>().await;
            });
        }
        tokio::time::sleep(SETTLE).await;
        (neighbours.server.memory_mb() - before) * 1e3 / AGENTS as f64
    })
}
