//! Latency from moving a label to the responses of waiting requests. It includes the commit.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::client::{self, Connection};
use crate::fixture::Fixture;
use crate::registry;
use crate::table::{Row, Target, time};

/// Requests that wait for the same prompt, each on its own connection.
const WAITING: usize = 200;

/// Number of label moves.
const MOVES: usize = 50;

const LIMIT: Duration = Duration::from_millis(50);

/// Measures promotions.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(0);
    registry::fill(&fixture);
    let mut times = client::runtime().block_on(measure(&fixture));
    times.sort();
    let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    vec![Row {
        name: format!("label move to response, {WAITING} waiting, p99"),
        ours: format!("{} (p50 {})", time(most), time(half)),
        baseline: format!("limit {}", time(LIMIT)),
        ratio: most.as_secs_f64() / LIMIT.as_secs_f64(),
        target: Target::AtMost(1.0),
    }]
}

async fn measure(fixture: &Fixture) -> Vec<Duration> {
    let (answered, mut answers) = mpsc::unbounded_channel();
    let request = registry::read_by_label(fixture, "&wait=60");
    for _ in 0..WAITING {
        let mut connection = Connection::open(fixture.address).await;
        let (request, answered) = (request.clone(), answered.clone());
        tokio::spawn(async move {
            let mut tag = String::new();
            loop {
                let answer = connection.ask(&having(&request, &tag)).await;
                tag = tag_of(answer.head);
                if answered.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
    }
    let mut mover = Connection::open(fixture.address).await;
    let mut times = Vec::new();
    for nth in 0..=MOVES {
        // The first responses return the current content.
        let mut sent = None;
        if nth > 0 {
            let version = if nth % 2 == 0 { "1.0.0" } else { "1.1.0" };
            sent = Some(Instant::now());
            mover.ask(&registry::move_label(fixture, version)).await;
        }
        for _ in 0..WAITING {
            let at = answers.recv().await.expect("they wait");
            times.extend(sent.map(|sent| at - sent));
        }
    }
    times
}

/// A request with this ETag in `If-None-Match`.
fn having(request: &[u8], tag: &str) -> Vec<u8> {
    let head = request.strip_suffix(b"\r\n").expect("a GET ends with its head");
    [head, format!("if-none-match: {tag}\r\n\r\n").as_bytes()].concat()
}

fn tag_of(head: &[u8]) -> String {
    let head = std::str::from_utf8(head).expect("heads are ASCII");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
    tag.expect("one thing has a tag").into()
}
