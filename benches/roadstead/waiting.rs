//! A thousand runtimes that wait for a deployment: how soon they hear of one, and what they cost
//! meanwhile.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::{self, Connection};
use crate::deployments::{deployed, deployment, fixture, waiting};
use crate::fixture::Fixture;
use crate::neighbours::Neighbours;
use crate::processor;
use crate::registry;
use crate::table::{Row, Target, time};

/// Waiting runtimes, each of its own agent and on its own connection.
const RUNTIMES: usize = 1_000;

/// The most agents that one job deploys to.
const AT_ONCE: usize = 100;

/// Deployments to all of them.
const ROUNDS: usize = 5;

const LIMIT: Duration = Duration::from_millis(50);

/// How long nothing happens: each wait looks again once in this time, without a signal.
const QUIET: Duration = Duration::from_secs(31);

/// One thousand connections are open and wait by then.
const SETTLE: Duration = Duration::from_secs(5);

/// Processor time of all waiting runtimes together: 1 % of one processor.
const PROCESSOR_LIMIT: Duration = Duration::from_millis(10);

/// Memory of each in the binary: not much more than the 30 KB that an idle connection may have.
const MEMORY_LIMIT_KB: f64 = 40.0;

/// Measures waiting runtimes.
pub fn rows() -> Vec<Row> {
    let fixture = fixture(RUNTIMES);
    let (heard, processor) = client::runtime().block_on(measure(&fixture));
    let mut rows: Vec<_> = heard.into_iter().map(|(how, times)| hearing(&how, times)).collect();
    rows.push(Row {
        name: format!("{RUNTIMES} waiting runtimes, processor time of a second"),
        ours: time(processor),
        baseline: format!("limit {}", time(PROCESSOR_LIMIT)),
        ratio: processor.as_secs_f64() / PROCESSOR_LIMIT.as_secs_f64(),
        target: Target::AtMost(1.0),
    });
    rows.push(memory());
    rows
}

fn hearing(how: &str, mut times: Vec<Duration>) -> Row {
    times.sort();
    let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    Row {
        name: format!("commit to runtime, {RUNTIMES} waiting, {how}, p99"),
        ours: format!("{} (p50 {})", time(most), time(half)),
        baseline: format!("limit {}", time(LIMIT)),
        ratio: most.as_secs_f64() / LIMIT.as_secs_f64(),
        target: Target::AtMost(1.0),
    }
}

type Times = Vec<(String, Vec<Duration>)>;

/// Returns the times from the commits to the runtimes, and the processor time of waiting.
async fn measure(fixture: &Fixture) -> (Times, Duration) {
    let mut sender = Connection::open(fixture.address).await;
    let new = |start: usize, count: usize, customer: &str| {
        let new = deployment(start..start + count, customer);
        fixture.post("/agents/deployments", new)
    };
    for start in (0..RUNTIMES).step_by(AT_ONCE) {
        sender.ask(&new(start, AT_ONCE, "nobody")).await;
    }
    let (heard, mut all) = mpsc::unbounded_channel();
    for nth in 0..RUNTIMES {
        let request = deployed(fixture, nth);
        let mut connection = Connection::open(fixture.address).await;
        let heard = heard.clone();
        tokio::spawn(async move {
            // The first deployment may not be live yet.
            while !connection.finds(request.as_bytes()).await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let mut wait = waiting(&request, connection.ask(request.as_bytes()).await.head);
            loop {
                let answer = connection.answer(&wait).await;
                if answer.head.starts_with(b"HTTP/1.1 304") {
                    continue;
                }
                assert!(answer.head.starts_with(b"HTTP/1.1 200"), "a wait failed");
                let at = Instant::now();
                wait = waiting(&request, answer.head);
                if heard.send((nth, at)).is_err() {
                    return;
                }
            }
        });
    }
    let mut rounds = Vec::new();
    // The first one finds all of them waiting, whatever they did before.
    for round in 0..=ROUNDS {
        for (how, count) in [("one agent at a time", 1), ("100 agents at a time", AT_ONCE)] {
            let mut times = Vec::new();
            for start in (0..RUNTIMES).step_by(AT_ONCE) {
                record(fixture);
                sender.ask(&new(start, count, &format!("{how} {round}"))).await;
                let mut ends = Vec::new();
                while ends.len() < count {
                    ends.push(all.recv().await.expect("runtimes wait"));
                }
                let commits = commits(fixture);
                assert_eq!(commits.len(), count, "each is live once");
                times.extend(ends.iter().map(|(nth, at)| at.duration_since(commits[nth - start])));
            }
            if round > 0 {
                rounds.push((how, times));
            }
        }
    }
    let of = |how: &str| {
        let of_it = rounds.iter().filter(|(one, _)| *one == how);
        (how.to_string(), of_it.flat_map(|(_, times)| times.clone()).collect())
    };
    let times = vec![of("one agent at a time"), of("100 agents at a time")];
    let before = processor::others();
    tokio::time::sleep(QUIET).await;
    (times, (processor::others() - before) / QUIET.as_secs() as u32)
}

fn record(fixture: &Fixture) {
    *fixture.batches.lock().expect("nobody panics holding it") = Some(Vec::new());
}

/// When each target became live, in the order of the targets.
fn commits(fixture: &Fixture) -> Vec<Instant> {
    let batches = fixture.batches.lock().expect("nobody panics holding it").take();
    let live = |(batch, at): (roadstead::store::engine::WriteBatch, Instant)| {
        let count = batch.tables.get("live_deployments").map_or(0, |rows| rows.len());
        std::iter::repeat_n(at, count)
    };
    batches.into_iter().flatten().flat_map(live).collect()
}

// ── Memory ───────────────────────────────────────────────────────────────────

/// The memory of the binary for each waiting runtime.
fn memory() -> Row {
    let neighbours = Neighbours::start();
    neighbours.prepare("POST", "/registries", json!({"slug": registry::REGISTRY, "name": "Main"}));
    let source = registry::source("1.0.0");
    let prompt = registry::publication("prompt", registry::PROMPT, "1.0.0", &source);
    neighbours.prepare("POST", "/registries/artifacts", prompt);
    let environment = json!({"slug": "production", "name": "Production"});
    neighbours.prepare("POST", "/environments", environment);
    let agent = json!({"stableKey": crate::deployments::key(0), "name": "Agent"});
    neighbours.prepare("POST", "/agents", agent);
    let mut new = deployment(0..1, "nobody");
    new["version"] = "1.0.0".into();
    neighbours.prepare("POST", "/agents/deployments", new);
    let path = format!(
        "/agents/{}/deployed?environment=production&orgSlug=acme",
        crate::deployments::key(0)
    );
    let request = neighbours.request("GET", &path, "");
    let request = String::from_utf8(request).expect("it is text");
    let bytes = client::runtime().block_on(async {
        let mut first = Connection::open(neighbours.server.address).await;
        while !first.finds(request.as_bytes()).await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let wait = waiting(&request, first.ask(request.as_bytes()).await.head);
        let before = neighbours.server.memory_mb();
        let mut open = JoinSet::new();
        for _ in 0..RUNTIMES {
            let (address, wait) = (neighbours.server.address, wait.clone());
            open.spawn(async move {
                let mut connection = Connection::open(address).await;
                let status = connection.exchange(&wait).await.expect("the server answers");
                assert!([200, 304].contains(&status), "a wait failed: {status}");
            });
        }
        tokio::time::sleep(SETTLE).await;
        (neighbours.server.memory_mb() - before) * 1e6 / RUNTIMES as f64
    });
    let kilobytes = bytes / 1e3;
    Row {
        name: format!("{RUNTIMES} waiting runtimes, memory of each"),
        ours: format!("{kilobytes:.1} KB"),
        baseline: format!("limit {MEMORY_LIMIT_KB:.1} KB"),
        ratio: kilobytes / MEMORY_LIMIT_KB,
        target: Target::AtMost(1.0),
    }
}
