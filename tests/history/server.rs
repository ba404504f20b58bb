//! The server under test: restarted, killed, and its log looked into.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::client::server_log::DATABASE_AWAY;
use crate::client::{Caller, raw, within};
use crate::model::Who;
use crate::postgres_server::PostgresServer;
use crate::process::{PASSWORD, Place, Serving};

/// A service manager waits longer before it kills.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// The log is written to the database after a second without writes, and that takes a second or few.
/// Before that comes what changes cause in the background, which on a busy machine takes long.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(180);

/// The same after ten million rows: the entries of the audit logs of thousands of organizations are
/// appended first, which requests without a pause have left behind.
const FULL_CHECKPOINT_LIMIT: Duration = Duration::from_secs(3_600);

/// What may be in the log of a server at rest: a background job may have written since the checkpoint.
const RESTING_LOG_BYTES: u64 = 64 * 1024;

/// After so many faults nothing new is learned.
const MAX_FAULTS: usize = 20;

/// What was found to be wrong.
#[derive(Default)]
pub struct Faults(Mutex<Vec<String>>);

impl Faults {
    pub fn note(&self, fault: String) {
        self.0.lock().unwrap().push(fault);
    }

    pub fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub fn is_enough(&self) -> bool {
        self.count() >= MAX_FAULTS
    }
}

/// A served organization `acme`.
pub struct Server {
    place: Place,
    serving: Serving,
    /// Where its store is, unless that is in files.
    database: Option<Mutex<PostgresServer>>,
    pub faults: Arc<Faults>,
    /// The owner of `acme`, in a session, and the id of that user.
    pub owner: Arc<Who>,
    pub owner_id: String,
    begun: Instant,
    /// Rows that were written or removed by the servers before the one that runs.
    rows: AtomicU64,
}

/// What may be in its log.
fn expected(is_over_database: bool) -> &'static [&'static str] {
    if is_over_database { DATABASE_AWAY } else { &[] }
}

fn serve(place: &Place, is_over_database: bool) -> Serving {
    let mut serving = Serving::start(place, &["--rate-limit", "0"]);
    serving.expect_errors(expected(is_over_database));
    serving
}

/// Sends SIGKILL to a process.
pub fn kill(pid: u32) {
    let pid = Pid::from_raw(pid as i32).expect("it is no 0");
    kill_process(pid, Signal::KILL).unwrap();
}

impl Server {
    /// A server of a store in files.
    pub fn start() -> Self {
        Self::of(Place::new(), None)
    }

    /// A server of a store in PostgreSQL; none if that is not installed.
    pub fn over_postgres() -> Option<Self> {
        let database = PostgresServer::start(&["fsync=off", "max_connections=200"])?;
        let mut place = Place::new();
        let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        place.set(&[("ROADSTEAD_SECRET_KEY", key), ("ROADSTEAD_STORE", &database.url())]);
        Some(Self::of(place, Some(Mutex::new(database))))
    }

    fn of(place: Place, database: Option<Mutex<PostgresServer>>) -> Self {
        let serving = serve(&place, database.is_some());
        let link = serving.announced["setupLink"].as_str().unwrap();
        let ada = json!({"name": "Ada", "email": "ada@acme.test", "password": PASSWORD});
        let setup = json!({"token": link.split_once('#').unwrap().1, "user": ada,
            "organization": {"slug": "acme", "name": "Acme"}});
        let anonymous = Caller::anonymous(serving.address, "acme");
        let session = anonymous.ask("POST", "/setup").json(&setup).send().ok();
        let bearer = session["token"].as_str().unwrap().to_string();
        let owner = Arc::new(Who { org: "acme".into(), bearer });
        let begun = Instant::now();
        let owner_id = session["user"]["id"].as_str().unwrap().to_string();
        Server {
            place,
            serving,
            database,
            faults: Arc::default(),
            owner,
            owner_id,
            begun,
            rows: AtomicU64::new(0),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// Waits until the log has been written to the database.
    pub fn checkpoint(&self) {
        let limit = if crate::is_full() { FULL_CHECKPOINT_LIMIT } else { CHECKPOINT_LIMIT };
        within(limit, "a checkpoint", || {
            (self.metric("roadstead_wal_bytes") < RESTING_LOG_BYTES).then_some(())
        });
    }

    fn metric(&self, name: &str) -> u64 {
        let text = raw(self.address(), b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.expect("it is a metric").parse().unwrap()
    }

    /// Remembers how many rows were written and removed, before the server ends.
    pub fn count_rows(&self) {
        self.rows.fetch_add(self.metric("roadstead_commit_rows_sum"), Ordering::Relaxed);
    }

    /// How many rows were written or removed until the server was last stopped or killed.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Stops the server in order, and starts it again.
    pub fn restart(&mut self) {
        self.stop();
        self.serving = serve(&self.place, self.database.is_some());
    }

    /// Ends the database as a crash does, and starts it again.
    pub fn crash_database(&self) {
        let mut database = self.database.as_ref().expect("it is over one").lock().unwrap();
        database.crash();
        database.resume();
    }

    pub fn pid(&self) -> u32 {
        self.serving.pid()
    }

    /// Starts the server again that was killed.
    pub fn revive(&mut self) {
        self.look_into_log();
        self.serving = serve(&self.place, self.database.is_some());
    }

    /// Stops the server in order.
    fn stop(&mut self) {
        self.count_rows();
        let begun = Instant::now();
        self.serving.signal("TERM");
        let code = self.look_into_log();
        let took = begun.elapsed();
        if code != Some(0) || took > STOP_LIMIT {
            self.faults
                .note(format!("told to stop, the server ended after {took:?} with {code:?}"));
        }
    }

    /// Waits for the end of the process, and notes what its log says that nobody asked for.
    fn look_into_log(&mut self) -> Option<i32> {
        let (code, _, log) = self.serving.ends();
        let expected = expected(self.database.is_some());
        let is_expected = |line: &str| expected.iter().any(|part| line.contains(part));
        let is_bad = |line: &&str| {
            line.contains("panicked") || line.contains(" ERROR ") && !is_expected(line)
        };
        let mut bad = log.lines().filter(is_bad);
        bad.by_ref().take(3).for_each(|line| self.faults.note(format!("log: {line}")));
        match bad.count() {
            0 => {}
            more => self.faults.note(format!("log: {more} lines more like these")),
        }
        code
    }

    /// Fails with everything found, if something was.
    #[track_caller]
    pub fn assert_sound(&mut self, stage: &str, figures: &str) {
        let secs = self.begun.elapsed().as_secs();
        println!("{secs:3} s: {stage}: {figures}");
        if self.faults.count() == 0 {
            return;
        }
        self.serving.kill();
        self.look_into_log();
        let faults = std::mem::take(&mut *self.faults.0.lock().unwrap());
        let checked = self.place.run(&["check"]);
        panic!(
            "{stage}: {} faults after {secs} s, {figures}\n{}\ncheck: {}",
            faults.len(),
            faults.join("\n"),
            checked.stdout.lines().last().unwrap_or_default()
        );
    }

    /// Stops the server, and checks its data; returns the number of rows.
    pub fn check(&mut self) -> u64 {
        self.stop();
        let checked = self.place.run(&["check", "--json"]);
        if checked.code != Some(0) {
            let text = checked.stdout.chars().take(1000).collect::<String>();
            self.faults.note(format!("check: {text}"));
        }
        let report: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap_or_default();
        let count = |field: &str| report[field].as_u64().unwrap_or(0);
        count("records") + count("indexEntries")
    }
}
