//! Several servers of `roadstead serve --store` over one store.

mod cut_off;
mod idle;
mod lease;
mod rolling;
mod round_trips;
mod schedules;
mod stopping;
mod together;
mod told;
mod wakes;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use roadstead::app::shared_store::SharedStore;
use roadstead::app::{AuditReply, AuditRequest, KeySource, audit_reply};
use roadstead::store::engine::postgres::{self, PostgresUrl};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::KEY;
use crate::client::{Caller, Connection, raw, server_log, within};
use crate::postgres_server::PostgresServer;

/// A server. It is killed when dropped.
pub struct Node {
    child: Child,
    pub address: SocketAddr,
    pub setup_link: Option<String>,
    log: tempfile::NamedTempFile,
    /// Parts of lines of its log that may be errors.
    expected: &'static [&'static str],
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("── {}\n{}", self.address, self.log());
        }
        server_log::assert_clean(&self.log(), self.expected);
    }
}

impl Node {
    /// Starts a server of the store at a free port of all addresses.
    pub fn start(url: &str) -> Self {
        Self::start_at(url, "0.0.0.0:0")
    }

    pub fn start_at(url: &str, listen: &str) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = command(url, listen);
        command.stdout(Stdio::piped()).stderr(File::create(log.path()).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let read = || std::fs::read_to_string(log.path());
        let started: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("the server does not start: {:?}", read()));
        let address = started["listening"].as_str().unwrap().trim_start_matches("http://");
        let port = address.parse::<SocketAddr>().unwrap().port();
        let setup_link = started["setupLink"].as_str().map(String::from);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Node { child, address, setup_link, log, expected: &[] }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it as a service manager does.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.log());
    }

    /// The same caller at this server.
    pub fn caller(&self, other: &Caller) -> Caller {
        Caller::anonymous(self.address, &other.org).with_bearer(other.credential())
    }

    /// The value of a metric without labels.
    pub fn metric(&self, name: &str) -> f64 {
        let metrics = raw(self.address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").text();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }

    /// Whether it does the background work.
    pub fn has_lease(&self) -> bool {
        self.metric("roadstead_background_work") == 1.0
    }

    /// Begins a long poll, and returns its connection when the server waits.
    pub fn poll(&self, caller: &Caller, path: &str) -> Connection {
        let caller = self.caller(caller);
        let waiting = self.metric("roadstead_waiting_requests");
        let mut poll = Connection::open(self.address).unwrap();
        poll.write(&caller.ask("GET", &caller.in_org(path)).to_bytes()).unwrap();
        within(std::time::Duration::from_secs(10), "the wait", || {
            (self.metric("roadstead_waiting_requests") > waiting).then_some(())
        });
        poll
    }
}

/// The command that starts a server of the store.
fn command(url: &str, listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
    command.args(["serve", "--json", "--listen", listen, "--rate-limit", "0"]);
    command.args(["--allow-private-network", "127.0.0.1"]);
    command.env("ROADSTEAD_STORE", url).env("ROADSTEAD_SECRET_KEY", KEY);
    command.env_remove("CREDENTIALS_DIRECTORY").current_dir(std::env::temp_dir());
    command
}

/// Sets the installation up at a server; returns its owner, in a session.
pub fn set_up(node: &Node) -> Caller {
    let token = node.setup_link.as_deref().unwrap().rsplit('#').next().unwrap();
    let body = json!({
        "token": token, "organization": {"slug": "acme", "name": "Acme"},
        "user": {"name": "Ada", "email": "ada@acme.test", "password": "seven green bottles"},
    });
    let anonymous = Caller::anonymous(node.address, "acme");
    let session = anonymous.ask("POST", "/setup").json(&body).send().ok();
    anonymous.with_bearer(session["token"].as_str().unwrap())
}

/// Returns the server that does the background work, waiting until there is one.
pub fn holder(nodes: &[Node]) -> usize {
    within(std::time::Duration::from_secs(60), "the lease", || {
        nodes.iter().position(Node::has_lease)
    })
}

/// A team with an agent: the path of the team, and of the agent's wakes.
pub fn team(owner: &Caller, slug: &str) -> (String, String) {
    let team = format!("/teams/{}", owner.post("/teams", json!({"slug": slug, "name": "A"})).id());
    owner.post("/agents", json!({"stableKey": slug, "name": "Scribe"})).ok();
    let member = json!({"stableKey": slug, "role": "member"});
    let agent = owner.post(&format!("{team}/agents"), member).id();
    (team.clone(), format!("{team}/agents/{agent}/wakes"))
}

/// Sends the agent of a team a message, through this server.
pub fn send(node: &Node, owner: &Caller, (team, wakes): &(String, String)) {
    let agent = wakes.split('/').nth(4).unwrap();
    let message = json!({"toAgentId": agent, "body": "Wake up"});
    node.caller(owner).post(&format!("{team}/messages"), message).ok();
}

/// Fails unless the chains of all audit logs are whole.
pub fn verify_audit_logs(url: &str) {
    let source = KeySource { variable: Some(KEY.into()), ..KeySource::default() };
    let url = PostgresUrl::parse(url).unwrap();
    let node = postgres::Node::new(env!("CARGO_PKG_VERSION"), "the test");
    let opened = SharedStore::open(url, &source, node, true, &|_| {});
    let SharedStore { store, .. } = opened.unwrap();
    let AuditReply::Checkpoints(logs) =
        audit_reply(&store, &AuditRequest::Checkpoint(None)).unwrap()
    else {
        panic!("no checkpoints")
    };
    assert!(logs.iter().all(|log| log.sequence > 0), "{logs:?}");
    for log in logs {
        let compared = audit_reply(&store, &AuditRequest::Compare(log.value.clone())).unwrap();
        let AuditReply::Compared { findings, .. } = compared else { panic!("not compared") };
        assert_eq!(findings, Vec::<String>::new());
    }
    store.close();
}

/// Three servers of a store that is set up, with its owner; none where PostgreSQL is left out.
pub fn three() -> Option<(PostgresServer, Vec<Node>, Caller)> {
    let database = PostgresServer::start(&["fsync=off", "max_connections=200"])?;
    let url = database.url();
    let nodes: Vec<_> = (0..3).map(|_| Node::start(&url)).collect();
    let owner = set_up(&nodes[0]);
    Some((database, nodes, owner))
}

/// Whether something listens at a path or an address is of no interest here: only that it answers.
pub fn answers(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// A program, or none, which is said aloud.
pub fn program(path: &'static str, name: &str) -> Option<&'static Path> {
    let path = Path::new(path);
    if path.is_file() {
        return Some(path);
    }
    crate::postgres_server::say(&format!(
        "\n*** NOT TESTED with {name}: it is not installed. ***\n"
    ));
    None
}
