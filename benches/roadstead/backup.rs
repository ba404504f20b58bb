//! Backups: how fast one is made and restored, and what it costs writers meanwhile. The server, the
//! backup and the load are processes of their own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{self, Connection};
use crate::fixture::{file, place};
use crate::process::{Served, init_with_key};
use crate::table::{Row, Target, time};

const BINARY: &str = env!("CARGO_BIN_EXE_roadstead");

/// Tools of 64 KiB each: 500 MB, or 100 MB.
const TOOLS: usize = 8_000;
const TOOLS_WHEN_QUICK: usize = 1_600;
const TOOL_BYTES: usize = 64 * 1024;

/// Writers, and the pause of each between two writes.
const WRITERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(5);

/// How long writers are measured, at least.
const TIME: Duration = Duration::from_secs(10);

/// The most that the 99th percentile of writes may grow.
const P99_RATIO: f64 = 3.0;

/// A gigabyte a minute.
const LEAST_MB_A_SECOND: f64 = 17.0;

/// What the server may use more while a backup is made.
const MEMORY_MB: f64 = 32.0;

/// The rows of backups.
pub fn rows(quick: bool) -> Vec<Row> {
    let place = place();
    let data = file(&place, "data");
    let key = init_with_key(&data);
    let server = Served::start(&data, &["--rate-limit", "0"]);
    let bench = Bench { address: server.address, key };
    bench.fill(if quick { TOOLS_WHEN_QUICK } else { TOOLS });
    let team = bench.ask("/teams", json!({"slug": "crew", "name": "Crew"}));
    let path = format!("/teams/{}/tasks", team["id"].as_str().expect("it has an id"));
    let task = bench.post(&path, json!({"title": "Find out why the import takes so long"}));

    let idle = p99(bench.address, &task, &Arc::new(AtomicBool::new(true)));
    let before = server.memory_mb();
    server.reset_peak_memory();
    let over = Arc::new(AtomicBool::new(false));
    let writers = thread::spawn({
        let (over, address) = (over.clone(), bench.address);
        move || p99(address, &task, &over)
    });
    let busy = backup(&data, &file(&place, "busy"));
    over.store(true, Ordering::Relaxed);
    let during = writers.join().expect("writers end");
    let peak = server.peak_memory_mb();
    let made = backup(&data, &file(&place, "idle"));
    drop(server);
    let restored = restore(&data, &file(&place, "idle"), &file(&place, "restored"));
    vec![
        Row {
            name: "writes during a backup, p99".into(),
            ours: time(during),
            baseline: format!("idle {}", time(idle)),
            ratio: during.as_secs_f64() / idle.as_secs_f64(),
            target: Target::AtMost(P99_RATIO),
        },
        speed("backup of an idle server", made),
        speed("backup beside 8 writers", busy),
        speed("restore", restored),
        Row {
            name: "memory of the server during a backup, more".into(),
            ours: format!("{:.1} MB", peak - before),
            baseline: format!("limit {MEMORY_MB:.1} MB"),
            ratio: (peak - before) / MEMORY_MB,
            target: Target::AtMost(1.0),
        },
    ]
}

fn speed(name: &str, megabytes_a_second: f64) -> Row {
    Row {
        name: name.into(),
        ours: format!("{megabytes_a_second:.0} MB/s"),
        baseline: format!("limit {LEAST_MB_A_SECOND:.0} MB/s"),
        ratio: megabytes_a_second / LEAST_MB_A_SECOND,
        target: Target::AtLeast(1.0),
    }
}

/// Runs a command that prints JSON, and returns the megabytes of content a second.
fn run(command: &mut Command) -> f64 {
    let start = Instant::now();
    let output = command.stderr(Stdio::inherit()).output().expect("the binary can be run");
    let took = start.elapsed().as_secs_f64();
    assert!(output.status.success(), "it failed");
    let done: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    done["contentBytes"].as_f64().expect("it has a size") / 1e6 / took
}

fn backup(data: &Path, to: &Path) -> f64 {
    run(Command::new(BINARY).args(["backup", "--json", "--data"]).arg(data).arg(to))
}

fn restore(data: &Path, from: &Path, to: &Path) -> f64 {
    let mut command = Command::new(BINARY);
    command.args(["restore", "--json", "--data"]).arg(to).arg("--erasures").arg(data);
    run(command.arg("--secret-key-file").arg(data.join("secret.key")).arg(from))
}

/// The server with a key of its owner.
struct Bench {
    address: SocketAddr,
    key: String,
}

impl Bench {
    fn post(&self, path: &str, mut body: Value) -> Vec<u8> {
        body["orgSlug"] = "acme".into();
        let body = body.to_string();
        format!(
            "POST /api{path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.key,
            body.len()
        )
        .into_bytes()
    }

    fn ask(&self, path: &str, body: Value) -> Value {
        client::runtime().block_on(async {
            let mut connection = Connection::open(self.address).await;
            let answer = connection.ask(&self.post(path, body)).await;
            serde_json::from_slice(answer.body).expect("answers are JSON")
        })
    }

    /// Stores tools with text that is compressible as text is.
    fn fill(&self, tools: usize) {
        client::runtime().block_on(async {
            let mut connection = Connection::open(self.address).await;
            let mut state = 88_172_645_463_325_252_u64;
            for nth in 0..tools {
                let mut text = String::with_capacity(TOOL_BYTES + 16);
                while text.len() < TOOL_BYTES {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    text.push_str(&format!("word{} ", state % 10_000));
                }
                let tool = json!({"name": format!("t{nth}"), "type": "x",
                    "providerConfig": {"text": text}});
                connection.ask(&self.post("/tools", tool)).await;
            }
        });
    }
}

/// The time within which 99 of 100 small writes are done, until it is over and [`TIME`] has passed.
fn p99(address: SocketAddr, write: &[u8], over: &Arc<AtomicBool>) -> Duration {
    client::runtime().block_on(async {
        let start = Instant::now();
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let (write, over) = (write.to_vec(), over.clone());
            writers.spawn(async move {
                let mut connection = Connection::open(address).await;
                let mut times = Vec::new();
                while start.elapsed() < TIME || !over.load(Ordering::Relaxed) {
                    let sent = Instant::now();
                    connection.ask(&write).await;
                    times.push(sent.elapsed());
                    tokio::time::sleep(PAUSE).await;
                }
                times
            });
        }
        let mut times: Vec<Duration> = writers.join_all().await.into_iter().flatten().collect();
        times.sort();
        times[times.len() * 99 / 100]
    })
}
