//! A server that is killed at a chosen commit. It is this test binary in another process, which runs
//! the product over a storage that sends SIGKILL to its own process: before the commit, or once that
//! is durable and nobody knows.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use roadstead::app::{DataDir, Server, ServerConfig, key_in_file};
use roadstead::base::{Keys, Result};
use roadstead::resources;
use roadstead::store::engine::{CommitOutcome, LocalStorage, LoggedRedb, Reader, WriteBatch};
use roadstead::store::{Clock, Store, table_names};
use tempfile::NamedTempFile;

use crate::client::{Caller, server_log};
use crate::process::Place;

/// When the server is killed. Only commits count that change a deployment or a job of the outbox.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Before its `n`-th commit.
    Before(u32),
    /// After its `n`-th commit.
    After(u32),
}

impl Moment {
    fn to_text(self) -> String {
        match self {
            Moment::Before(n) => format!("before {n}"),
            Moment::After(n) => format!("after {n}"),
        }
    }

    fn from_text(text: &str) -> Self {
        let (side, n) = text.split_once(' ').unwrap();
        let n = n.parse().unwrap();
        if side == "before" { Moment::Before(n) } else { Moment::After(n) }
    }
}

const DATA: &str = "DOOMED_DATA";
const MOMENT: &str = "DOOMED_MOMENT";
const LISTENS: &str = "it listens at ";

/// The process of such a server. It is killed when dropped.
pub struct Doomed {
    child: Child,
    address: SocketAddr,
    log: NamedTempFile,
    /// The process ends with this end of the pipe.
    _stdin: ChildStdin,
}

impl Doomed {
    pub fn start(place: &Place, moment: Moment) -> Self {
        let log = NamedTempFile::new().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "doomed::it_serves_until_it_is_killed", "--nocapture"])
            .envs([(DATA, place.data().into_os_string()), (MOMENT, moment.to_text().into())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(|line| line.ok());
        let address = lines.find_map(|line| Some(line.split_once(LISTENS)?.1.parse().unwrap()));
        let stdin = child.stdin.take().unwrap();
        Doomed { child, address: address.expect("it listens"), log, _stdin: stdin }
    }

    /// A client with an API key of `acme`.
    pub fn caller(&self, key: &str) -> Caller {
        Caller::anonymous(self.address, "acme").with_key(key)
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs. A server that stopped responding is ending.
    pub fn survived(&mut self, responds: bool) -> bool {
        if !responds {
            self.child.wait().unwrap();
        }
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = std::fs::read_to_string(self.log.path()).unwrap_or_default();
        server_log::assert_clean(&log, &[]);
    }
}

/// Sends SIGKILL to a process.
pub fn kill(pid: u32) {
    let killed = Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
}

// ── In the other process ─────────────────────────────────────────────────────

/// The process itself; as a test of the suite it has nothing to do.
#[test]
fn it_serves_until_it_is_killed() {
    let Some(data) = std::env::var_os(DATA) else { return };
    let moment = Moment::from_text(&std::env::var(MOMENT).unwrap());
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let store = open(&PathBuf::from(data), moment);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _server = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = ServerConfig {
            rate_limit: 0,
            allow_private: vec!["127.0.0.0/8".parse().unwrap()],
            ..ServerConfig::default()
        };
        let server = Server::start(store, listener, config).unwrap();
        println!("\n{LISTENS}{}", server.address);
        server
    });
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

fn open(data: &std::path::Path, moment: Moment) -> Store {
    let tables = resources::tables();
    let file = DataDir::at(data).database();
    let disk = LoggedRedb::open(&file, table_names(&tables)).unwrap();
    let key = key_in_file(&data.join("secret.key")).unwrap();
    let keys = Keys::with_previous(key, None);
    Store::start(Deadly { disk, moment, commits: 0 }, Clock::system(), keys, &tables).unwrap()
}

/// The real storage, which kills its process.
struct Deadly {
    disk: LoggedRedb,
    moment: Moment,
    commits: u32,
}

impl LocalStorage for Deadly {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        self.disk.snapshot()
    }
    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        self.commits += u32::from(is_step(writes));
        let dies_at = |moment| is_step(writes) && self.moment == moment;
        if dies_at(Moment::Before(self.commits)) {
            die();
        }
        let outcome = self.disk.commit(writes);
        if dies_at(Moment::After(self.commits)) {
            die();
        }
        outcome
    }
    fn failed(&self) -> bool {
        self.disk.failed()
    }
    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        self.disk.reopen()
    }
}

fn is_step(writes: &WriteBatch) -> bool {
    let counts = |table: &str| table == "jobs" || table.contains("deployment");
    writes.tables.iter().any(|(table, rows)| counts(table) && !rows.is_empty())
}

fn die() -> ! {
    kill(std::process::id());
    loop {
        std::thread::park();
    }
}
