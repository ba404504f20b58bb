//! The binary: time from start to the first response, also after a kill with a full log, and memory when
//! idle.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::client::{self, Connection, load};
use crate::fixture::{file, id, place};
use crate::requests;
use crate::rounds::median;
use crate::server_log;
use crate::table::{Row, Target, time};

/// The program.
pub const BINARY: &str = env!("CARGO_BIN_EXE_roadstead");

const STARTS: usize = 10;
const START_LIMIT: Duration = Duration::from_millis(100);

const MEMORY_LIMIT_MB: f64 = 30.0;

/// After a kill, with as much in the log as it can hold.
const RESTART_LIMIT: Duration = Duration::from_millis(400);
const RESTARTS: usize = 5;

/// Writes before each kill: more than a checkpoint takes away meanwhile.
const LOAD: Duration = Duration::from_secs(5);
const WRITERS: usize = 16;

/// One-time work after the start is done by then.
const SETTLE: Duration = Duration::from_secs(3);

/// Measures the process.
pub fn rows() -> Vec<Row> {
    let place = place();
    let data = file(&place, "data");
    let key = init_with_key(&data);
    let starts = (0..STARTS).map(|_| Served::start(&data, &[]).took.as_secs_f64());
    let start = Duration::from_secs_f64(median(starts));
    let served = Served::start(&data, &[]);
    std::thread::sleep(SETTLE);
    let memory = served.memory_mb();
    drop(served);
    vec![
        restart(&data, &key),
        Row {
            name: format!("time to first response, median of {STARTS}"),
            ours: time(start),
            baseline: format!("limit {}", time(START_LIMIT)),
            ratio: start.as_secs_f64() / START_LIMIT.as_secs_f64(),
            target: Target::AtMost(1.0),
        },
        Row {
            name: "memory, idle".into(),
            ours: format!("{memory:.1} MB"),
            baseline: format!("limit {MEMORY_LIMIT_MB:.1} MB"),
            ratio: memory / MEMORY_LIMIT_MB,
            target: Target::AtMost(1.0),
        },
    ]
}

/// The time to the first response after a kill under load.
fn restart(data: &Path, key: &str) -> Row {
    let mut log_bytes = Vec::new();
    let mut times = Vec::new();
    for nth in 0..RESTARTS {
        let served = Served::start(data, &["--rate-limit", "0"]);
        let host = served.address.to_string();
        let post = |path: &str, body| requests::send(&host, key, "POST", path, body);
        let team = json!({"slug": format!("team-{nth}"), "name": "Team"});
        let team = client::runtime().block_on(async {
            let mut connection = Connection::open(served.address).await;
            let answer = connection.ask(&post("/teams", team)).await;
            id(&serde_json::from_slice(answer.body).expect("answers are JSON"))
        });
        let task = json!({"title": "A task", "description": "a".repeat(4000)});
        let request = post(&format!("/teams/{team}/tasks"), task);
        load(served.address, WRITERS, LOAD, &[request]);
        drop(served);
        let used = ["wal-1", "wal-2"].map(|ending| data.join("roadstead").with_extension(ending));
        log_bytes
            .push(used.iter().filter_map(|file| file.metadata().ok()).map(|it| it.len()).sum());
        times.push(Served::start(data, &[]).took.as_secs_f64());
    }
    let bytes: u64 = log_bytes.into_iter().max().unwrap_or(0);
    let took = Duration::from_secs_f64(median(times.into_iter()));
    Row {
        name: format!("time to first response after a kill, log files of {} MB", bytes / 1_000_000),
        ours: time(took),
        baseline: format!("limit {}", time(RESTART_LIMIT)),
        ratio: took.as_secs_f64() / RESTART_LIMIT.as_secs_f64(),
        target: Target::AtMost(1.0),
    }
}

/// The password of the owner.
pub const PASSWORD: &str = "correct horse battery";

/// Creates a data directory with the organization `acme`, whose owner is `ada@acme.test`; returns
/// the owner's key.
pub fn init_with_key(data: &Path) -> String {
    let mut made = Command::new(BINARY)
        .args(["init", "--org", "acme", "--org-name", "Acme", "--name", "Ada", "--json"])
        .args(["--email", "ada@acme.test", "--password-stdin", "--data"])
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary can be run");
    let mut stdin = made.stdin.take().expect("it is piped");
    writeln!(stdin, "{PASSWORD}").expect("it reads the password");
    drop(stdin);
    let made = made.wait_with_output().expect("it ends");
    assert!(made.status.success(), "the data directory was not made");
    let made: Value = serde_json::from_slice(&made.stdout).expect("it prints JSON");
    made["apiKey"]["key"].as_str().expect("it prints a key").into()
}

/// The binary, serving.
pub struct Served {
    child: Child,
    log: NamedTempFile,
    /// Where it listens.
    pub address: SocketAddr,
    /// Time from the start to the first response.
    took: Duration,
}

impl Served {
    /// Starts the binary over a data directory with these further arguments.
    pub fn start(data: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(BINARY);
        command.arg("serve").arg("--data").arg(data).args(more);
        Self::start_command(command)
    }

    /// Starts `roadstead serve …`, at a free port.
    pub fn start_command(mut command: Command) -> Self {
        let address = free_address();
        let log = NamedTempFile::new().expect("there is a place for the log");
        let stderr = log.reopen().expect("it is there");
        // Who does not speak TLS with it is answered all the same.
        let speaks_tls = command.get_args().any(|arg| arg == "--tls-cert");
        let expected = if speaks_tls { b"HTTP/1.1 400" } else { b"HTTP/1.1 200" };
        let start = Instant::now();
        let child = command
            .args(["--listen", &address.to_string()])
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("the binary can be run");
        while !answers(address, expected) {
            assert!(start.elapsed() < Duration::from_secs(30), "the server does not answer");
            std::thread::sleep(Duration::from_micros(200));
        }
        Served { child, log, address, took: start.elapsed() }
    }

    /// The resident memory, in MB.
    pub fn memory_mb(&self) -> f64 {
        self.status_mb("VmRSS:")
    }

    /// The most resident memory since the last [`Served::reset_peak_memory`], in MB.
    pub fn peak_memory_mb(&self) -> f64 {
        self.status_mb("VmHWM:")
    }

    /// Begins to measure the peak again.
    pub fn reset_peak_memory(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").expect("it runs");
    }

    fn status_mb(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|kib| kib.split_whitespace().next()?.parse::<f64>().ok());
        kib.expect("Linux tells the memory") * 1024.0 / 1e6
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        server_log::add(&std::fs::read_to_string(self.log.path()).expect("it is text"));
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    listener.local_addr().expect("it is bound")
}

/// Whether a server answers so to who asks whether it is healthy, without TLS.
fn answers(address: SocketAddr, expected: &[u8; 12]) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let mut answer = [0; 12];
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && answer == *expected
}
