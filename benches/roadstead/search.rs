//! Searches in knowledge bases of many documents, and writing them beside another organization's small
//! writes. The server is a process of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{self, Connection};
use crate::neighbours::{Neighbours, small_writes};
use crate::table::{Row, Target, time};

const FEW: usize = 10_000;
const MANY: usize = 100_000;
const MANY_WHEN_QUICK: usize = 20_000;

/// What 99 of 100 searches may take.
const SEARCH_LIMIT: Duration = Duration::from_millis(20);
/// What 99 of 100 small writes of others may take.
const WRITE_LIMIT: Duration = Duration::from_millis(50);

const CONNECTIONS: usize = 4;

/// Searches of each kind.
const SEARCHES: usize = 500;

/// Different words, of which the first ones are the most frequent.
const VOCABULARY: u64 = 60_000;

/// Words of a document: about 1.5 KB.
const WORDS: usize = 220;

/// The rows of searches and writes.
pub fn rows(quick: bool) -> Vec<Row> {
    let counts = [FEW, if quick { MANY_WHEN_QUICK } else { MANY }];
    counts.into_iter().flat_map(measure).collect()
}

/// A reproducible sequence of numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    /// A word: the first ones are frequent, as those of a language are.
    fn word(&mut self) -> u64 {
        let exponent = self.next() as f64 / f64::from(1_u32 << 31);
        ((VOCABULARY as f64).powf(exponent) - 1.0) as u64
    }
}

fn document(nth: usize) -> String {
    let mut numbers = Numbers(nth as u64);
    let words: Vec<_> = (0..WORDS).map(|_| format!("w{}", numbers.word())).collect();
    format!("The common introduction of all. {}", words.join(" "))
}

fn measure(count: usize) -> Vec<Row> {
    let neighbours = Arc::new(Neighbours::start());
    let base = neighbours.prepare("POST", "/knowledge-bases", json!({"name": "Bench"}));
    let base = format!("/knowledge-bases/{}", base["id"].as_str().expect("it has an id"));
    let write = neighbours.quiet_write();
    let mut rows = import(&neighbours, &base, count, &write);
    wait_until_merged(&neighbours);
    let mut numbers = Numbers(7);
    let mut rare = || format!("w{}", VOCABULARY / 2 + numbers.next() % (VOCABULARY / 2));
    type Query<'a> = (&'a str, Box<dyn FnMut() -> String + 'a>);
    let kinds: [Query; 4] = [
        ("a rare word", Box::new(&mut rare)),
        ("a word of every document", Box::new(|| "common".into())),
        ("three words of every document", Box::new(|| "the common introduction".into())),
        ("eight words, rare and common", Box::new(|| "the common w0 w1 w7 w80 w900 w30000".into())),
    ];
    for (name, mut query) in kinds {
        let requests = (0..SEARCHES).map(|_| {
            let q = query().replace(' ', "+");
            let path = format!("{base}/search?orgSlug=acme&q={q}");
            neighbours.session_request("GET", &path, "")
        });
        let times = one_by_one(&neighbours, requests.collect());
        rows.push(row(format!("search for {name} among {count}, p99"), times, SEARCH_LIMIT));
    }
    rows.push(uploads(&neighbours, &base, count, &write));
    rows
}

fn row(name: String, mut times: Vec<Duration>, limit: Duration) -> Row {
    times.sort();
    let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let longest = times[times.len() - 1];
    Row {
        name,
        ours: format!("{} (p50 {}, longest {})", time(most), time(half), time(longest)),
        baseline: format!("limit {}", time(limit)),
        ratio: most.as_secs_f64() / limit.as_secs_f64(),
        target: Target::AtMost(1.0),
    }
}

fn one_by_one(neighbours: &Neighbours, requests: Vec<Vec<u8>>) -> Vec<Duration> {
    client::runtime().block_on(async {
        let mut connection = Connection::open(neighbours.server.address).await;
        let mut times = Vec::new();
        for request in requests {
            let sent = Instant::now();
            let answer = connection.ask(&request).await;
            let _: Value = serde_json::from_slice(answer.body).expect("answers are JSON");
            times.push(sent.elapsed());
        }
        times
    })
}

/// Runs `work` while the other organization makes small writes; returns how long those took.
fn beside_writes(
    neighbours: &Neighbours,
    write: &[u8],
    work: impl Future<Output = ()>,
) -> Vec<Duration> {
    let over = Arc::new(AtomicBool::new(false));
    let (address, write) = (neighbours.server.address, write.to_vec());
    let writer = thread::spawn({
        let over = over.clone();
        move || client::runtime().block_on(small_writes(address, &write, Duration::ZERO, &over))
    });
    client::runtime().block_on(work);
    over.store(true, Ordering::Relaxed);
    writer.join().expect("it measures")
}

fn import(neighbours: &Arc<Neighbours>, base: &str, count: usize, write: &[u8]) -> Vec<Row> {
    let begin = Instant::now();
    let path = format!("{base}/documents");
    let times = beside_writes(neighbours, write, async {
        let mut sending = JoinSet::new();
        for first in 0..CONNECTIONS {
            let (neighbours, path) = (neighbours.clone(), path.clone());
            sending.spawn(async move {
                let mut connection = Connection::open(neighbours.server.address).await;
                for nth in (first..count).step_by(CONNECTIONS) {
                    let body = json!({
                        "orgSlug": "acme", "name": format!("Document {nth}"),
                        "content": document(nth),
                    });
                    let request = neighbours.session_request("POST", &path, &body.to_string());
                    connection.ask(&request).await;
                }
            });
        }
        sending.join_all().await;
    });
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    eprintln!("  {count} documents, {rate:.0} a second");
    let name = format!("adding documents ({rate:.0}/s, {count} in all): another's write, p99");
    vec![row(name, times, WRITE_LIMIT)]
}

/// Waits until all documents are in the index.
fn wait_until_merged(neighbours: &Neighbours) {
    let address = neighbours.server.address;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\n\r\n");
    client::runtime().block_on(async {
        let mut connection = Connection::open(address).await;
        loop {
            let answer = connection.ask(request.as_bytes()).await;
            let metrics = String::from_utf8_lossy(answer.body);
            if metrics.lines().any(|line| line == "roadstead_document_changes 0") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

/// Uploads of a PDF, one after another.
fn uploads(neighbours: &Neighbours, base: &str, count: usize, write: &[u8]) -> Row {
    const UPLOADS: usize = 100;
    const PDF: &[u8] = include_bytes!("../../tests/api/files/reportlab.pdf");
    let path = format!("{base}/documents/upload?orgSlug=acme&name=Uploaded");
    let head = neighbours.session_request("POST", &path, "");
    let head = String::from_utf8(head).expect("it is text");
    let head = head.replace("application/json", "application/pdf");
    let head = head.replace("content-length: 0", &format!("content-length: {}", PDF.len()));
    let request = [head.as_bytes(), PDF].concat();
    let begin = Instant::now();
    let times = beside_writes(neighbours, write, async {
        let mut connection = Connection::open(neighbours.server.address).await;
        for _ in 0..UPLOADS {
            connection.ask(&request).await;
        }
    });
    let rate = UPLOADS as f64 / begin.elapsed().as_secs_f64();
    let name = format!("uploading PDF files ({rate:.0}/s) to {count}: another's write, p99");
    row(name, times, WRITE_LIMIT)
}
