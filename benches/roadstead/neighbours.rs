//! One organization's small writes while another does the most costly things that it may: their
//! 99th percentile, and the memory of the server, which is a process of its own. Each is measured
//! several times: of the percentiles the median counts, of the memory the highest.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::abuses::{ABUSES, Abuse, FROM_OUTSIDE};
use crate::client::{self, Connection};
use crate::fixture::{file, place};
use crate::process::{Served, init_with_key};
use crate::table::{Row, Target, time};

/// The longest that 99 of 100 small writes may take, in the median of [`ROUNDS`] rounds.
const WRITE_LIMIT: Duration = Duration::from_millis(50);

/// The most memory that the server may use.
pub const MEMORY_LIMIT_MB: f64 = 256.0;
/// With 10,000 idle connections.
pub const IDLE_LIMIT_MB: f64 = 300.0;
/// How many connections are idle.
pub const IDLE_CONNECTIONS: usize = 10_000;

/// The pause between two small writes: about what a team of agents does together.
const PAUSE: Duration = Duration::from_millis(5);

/// How long an abuse goes on, at least, in each round.
const TIME: Duration = Duration::from_secs(10);
const QUICK_TIME: Duration = Duration::from_secs(3);

/// Whose small writes are measured.
#[derive(Clone, Copy)]
enum Neighbour {
    /// Those of another organization.
    Organization,
    /// Those of another team of the same one.
    Team,
}

/// How often each is measured. The 99th percentile of one round is decided by its few slowest writes,
/// and so by whatever else the machine did then.
const ROUNDS: usize = 3;

/// How long an abuse goes on.
pub fn abuse_time(quick: bool) -> Duration {
    if quick { QUICK_TIME } else { TIME }
}

/// Measures all abuses, each round on a server of its own.
pub fn rows(quick: bool) -> Vec<Row> {
    let at_least = abuse_time(quick);
    let other = Neighbour::Organization;
    let (idle, mut rows) = measure("alone", None, at_least, other);
    for abuse in ABUSES {
        eprintln!("  {}", abuse.name);
        rows.extend(measure(abuse.name, Some(abuse), at_least, other).1);
    }
    for (neighbour, whose) in
        [(other, "another organization's"), (Neighbour::Team, "another team's")]
    {
        eprintln!("  {}, {whose} writes", FROM_OUTSIDE.name);
        let (most, measured) = measure(FROM_OUTSIDE.name, Some(&FROM_OUTSIDE), at_least, neighbour);
        rows.extend(measured);
        rows.push(Row {
            name: format!("{}: {whose} write, median p99 beside idle", FROM_OUTSIDE.name),
            ours: time(most),
            baseline: time(idle),
            ratio: most.as_secs_f64() / idle.as_secs_f64(),
            target: Target::AtMost(2.0),
        });
    }
    rows.push(idle_connections());
    rows
}

/// A server with two organizations and a key of each.
pub struct Neighbours {
    /// The server.
    pub server: Served,
    /// The key of the organization that is abusive.
    pub key: String,
    /// The header of its owner's session.
    session: String,
    quiet_key: String,
    _place: tempfile::TempDir,
}

impl Neighbours {
    /// Starts it.
    pub fn start() -> Self {
        let place = place();
        let data = file(&place, "data");
        let key = init_with_key(&data);
        let here = "127.0.0.0/8"; // As a proxy it names the addresses of agents outside.
        let flags = ["--rate-limit", "0", "--allow-private-network", here, "--trusted-proxy", here];
        let server = Served::start(&data, &flags);
        let mut started = Neighbours {
            server,
            key,
            session: String::new(),
            quiet_key: String::new(),
            _place: place,
        };
        let sign_in = json!({"email": "ada@acme.test", "password": crate::process::PASSWORD});
        let session = started.ask("POST", "/auth/sign-in", "", sign_in);
        let bearer =
            format!("authorization: Bearer {}\r\n", session["token"].as_str().expect("a token"));
        started.ask("POST", "/organizations", &bearer, json!({"slug": "quiet", "name": "Quiet"}));
        let key = json!({"orgSlug": "quiet", "name": "bench"});
        let made = started.ask("POST", "/api-keys", &bearer, key);
        started.session = bearer;
        started.quiet_key = made["key"].as_str().expect("a key").into();
        started
    }

    fn ask(&self, method: &str, path: &str, credential: &str, body: Value) -> Value {
        let request = self.bytes(method, path, credential, &body.to_string());
        client::runtime().block_on(async {
            let mut connection = Connection::open(self.server.address).await;
            let answer = connection.ask(&request).await;
            serde_json::from_slice(answer.body).expect("answers are JSON")
        })
    }

    fn bytes(&self, method: &str, path: &str, credential: &str, body: &str) -> Vec<u8> {
        format!(
            "{method} /api{path} HTTP/1.1\r\nhost: {}\r\n{credential}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.server.address,
            body.len()
        )
        .into_bytes()
    }

    /// The bytes of a request of the abusive organization.
    pub fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        self.bytes(method, path, &format!("x-api-key: {}\r\n", self.key), body)
    }

    /// The bytes of a request of its owner's session.
    pub fn session_request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        self.bytes(method, path, &self.session, body)
    }

    /// The bytes of a small write of the quiet organization.
    pub fn quiet_write(&self) -> Vec<u8> {
        self.small_write(Neighbour::Organization)
    }

    fn small_write(&self, neighbour: Neighbour) -> Vec<u8> {
        let (org, key) = match neighbour {
            Neighbour::Organization => ("quiet", &self.quiet_key),
            Neighbour::Team => ("acme", &self.key),
        };
        let team = json!({"orgSlug": org, "slug": "quiet-crew", "name": "Crew"});
        let credential = format!("x-api-key: {key}\r\n");
        let team = self.ask("POST", "/teams", &credential, team)["id"].clone();
        let path = format!("/teams/{}/tasks", team.as_str().expect("it has an id"));
        let task = json!({"orgSlug": org, "title": "Find out why the import takes so long"});
        self.bytes("POST", &path, &credential, &task.to_string())
    }

    /// Sends a request of the abusive organization that must succeed.
    pub fn prepare(&self, method: &str, path: &str, mut body: Value) -> Value {
        body["orgSlug"] = "acme".into();
        self.ask(method, path, &self.session, body)
    }
}

/// What one round measured.
struct Round {
    /// The times within which half, 99 of 100 and all of the writes were done.
    half: Duration,
    most: Duration,
    all: Duration,
    /// The peak of the server's memory.
    memory_mb: f64,
}

/// Measures small writes of a neighbour during an abuse. Returns the time within which 99 of 100 are
/// done, and the rows.
fn measure(
    name: &str,
    abuse: Option<&'static Abuse>,
    at_least: Duration,
    neighbour: Neighbour,
) -> (Duration, Vec<Row>) {
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round(abuse, at_least, neighbour)).collect();
    rounds.sort_by_key(|round| round.most);
    let Round { half, most, .. } = rounds[ROUNDS / 2];
    let longest = rounds.iter().map(|round| round.all).max().unwrap_or_default();
    let memory = rounds.iter().map(|round| round.memory_mb).fold(0.0, f64::max);
    let others: Vec<_> = rounds.iter().map(|round| time(round.most)).collect();
    let ours = format!(
        "{} of {} (p50 {}, longest {})",
        time(most),
        others.join(", "),
        time(half),
        time(longest)
    );
    let rows = vec![
        Row {
            name: format!("{name}: another's write, median p99"),
            ours,
            baseline: format!("limit {} (median of {ROUNDS} rounds)", time(WRITE_LIMIT)),
            ratio: most.as_secs_f64() / WRITE_LIMIT.as_secs_f64(),
            target: Target::AtMost(1.0),
        },
        memory_row(format!("{name}: memory, highest peak"), memory, MEMORY_LIMIT_MB),
    ];
    (most, rows)
}

/// Measures until the abuse is over, but for `at_least` so long.
fn round(abuse: Option<&'static Abuse>, at_least: Duration, neighbour: Neighbour) -> Round {
    let neighbours = Neighbours::start();
    let write = neighbours.small_write(neighbour);

    let load = abuse.map(|abuse| (abuse.prepare)(&neighbours));
    neighbours.server.reset_peak_memory();
    let over = Arc::new(AtomicBool::new(load.is_none()));
    let address = neighbours.server.address;
    // Each side has a thread of its own: the abuser's work must not count as the neighbour's wait.
    let writer = thread::spawn({
        let over = over.clone();
        move || client::runtime().block_on(small_writes(address, &write, at_least, &over))
    });
    if let Some(load) = load {
        let statuses = client::runtime().block_on(load.run(address, at_least));
        over.store(true, Ordering::Relaxed);
        eprintln!("    answers by status: {statuses:?}");
    }
    let mut times = writer.join().expect("it measures");
    times.sort();
    Round {
        half: times[times.len() / 2],
        most: times[times.len() * 99 / 100],
        all: times[times.len() - 1],
        memory_mb: neighbours.server.peak_memory_mb(),
    }
}

/// The row of a figure of memory.
pub fn memory_row(name: String, memory: f64, limit: f64) -> Row {
    Row {
        name,
        ours: format!("{memory:.0} MB"),
        baseline: format!("limit {limit:.0} MB"),
        ratio: memory / limit,
        target: Target::AtMost(1.0),
    }
}

/// One small write after another; returns how long each took.
pub async fn small_writes(
    address: SocketAddr,
    request: &[u8],
    at_least: Duration,
    over: &AtomicBool,
) -> Vec<Duration> {
    let mut connection = Connection::open(address).await;
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < at_least || !over.load(Ordering::Relaxed) {
        let sent = Instant::now();
        connection.ask(request).await;
        times.push(sent.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    times
}

/// The only request of a connection that is idle afterwards: one with a large head.
pub fn idle_request(address: SocketAddr) -> String {
    let padding = "x".repeat(32 * 1024);
    format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nx-padding: {padding}\r\n\r\n")
}

/// Connections that sent one request with a large head, and nothing since.
fn idle_connections() -> Row {
    let neighbours = Neighbours::start();
    let request = idle_request(neighbours.server.address);
    let memory = client::runtime().block_on(async {
        let mut open = JoinSet::new();
        for _ in 0..IDLE_CONNECTIONS {
            let mut connection = Connection::open(neighbours.server.address).await;
            connection.ask(request.as_bytes()).await;
            open.spawn(async move { connection });
        }
        let connections = open.join_all().await;
        let memory = neighbours.server.memory_mb();
        drop(connections);
        memory
    });
    memory_row(format!("{IDLE_CONNECTIONS} idle connections: memory"), memory, IDLE_LIMIT_MB)
}
