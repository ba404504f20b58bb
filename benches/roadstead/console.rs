//! Pages of the web console with 100,000 tasks, prompts, agents and entries of the log: how long the
//! server takes for each.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{self, Connection};
use crate::fixture::Fixture;
use crate::registry;
use crate::table::{Row, Target, time};

const MANY: usize = 100_000;
const MANY_WHEN_QUICK: usize = 10_000;

/// Agents of the team.
const CREW: usize = 20;

/// What 99 of 100 requests of a page may take.
const LIMIT: Duration = Duration::from_millis(20);

/// Requests of each page, one after another.
const REQUESTS: usize = 300;

/// Tasks and agents stored per transaction, within its limit of writes.
const AT_ONCE: usize = 2_000;
/// A publication writes a dozen keys.
const PUBLISHED_AT_ONCE: usize = 500;

/// The pages that people open most.
const PAGES: [&str; 17] = [
    "",
    "/prompts",
    "/prompts/main",
    "/prompts/main/prompt-50",
    "/prompts/main/prompt-50/versions/1.0.0",
    "/agents",
    "/agents?only=undeployed",
    "/agents/agent-50",
    "/deployments",
    "/teams",
    "/teams/crew/board",
    "/teams/crew/tasks?only=open",
    "/teams/crew/tasks/50",
    "/operations/log",
    "/operations/log?status=failed",
    "/operations/system",
    "/search?q=prompt-5",
];

/// The rows of pages.
pub fn rows(quick: bool) -> Vec<Row> {
    let count = if quick { MANY_WHEN_QUICK } else { MANY };
    let fixture = filled(count);
    let token = fixture.session_token();
    let row = |page: &&str| {
        let request = format!(
            "GET /o/acme{page} HTTP/1.1\r\nhost: {}\r\naccept: text/html\r\n\
             x-forwarded-proto: https\r\ncookie: __Host-roadstead={token}\r\n\r\n",
            fixture.address
        );
        let (times, bytes) = times(&fixture, request.as_bytes());
        let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        Row {
            name: format!("page /o/acme{page} among {count} of a kind, p99"),
            ours: format!("{} (p50 {}, {} KB)", time(most), time(half), bytes / 1000),
            baseline: format!("limit {}", time(LIMIT)),
            ratio: most.as_secs_f64() / LIMIT.as_secs_f64(),
            target: Target::AtMost(1.0),
        }
    };
    PAGES.iter().map(row).collect()
}

/// A server with so many tasks, prompts and agents; each publication leaves an entry in the log.
fn filled(count: usize) -> Fixture {
    let fixture = Fixture::new(CREW);
    registry::fill(&fixture);
    let prompts = (0..count).map(|nth| {
        let source = registry::source("1.0.0");
        registry::publication("prompt", &format!("prompt-{nth}"), "1.0.0", &source)
    });
    fixture.store("artifact_version.publish", &[], prompts, PUBLISHED_AT_ONCE, drop);
    let agents = (CREW..count).map(|nth| json!({"stableKey": format!("agent-{nth}"), "name": "A"}));
    fixture.store("agent.create", &[], agents, AT_ONCE, drop);
    let task = json!({
        "title": "Find out why the nightly import takes twice as long since Tuesday",
        "description": "It took 40 minutes before. The logs are in the bucket of the import.",
    });
    let tasks = std::iter::repeat_n(task, count);
    fixture.store("task.create", &[&fixture.team], tasks, AT_ONCE, drop);
    fixture
}

/// How long each request took, ascending, and the bytes of an answer.
fn times(fixture: &Fixture, request: &[u8]) -> (Vec<Duration>, usize) {
    client::runtime().block_on(async {
        let mut connection = Connection::open(fixture.address).await;
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..REQUESTS {
            let sent = Instant::now();
            bytes = connection.ask(request).await.body.len();
            times.push(sent.elapsed());
        }
        times.sort();
        (times, bytes)
    })
}
