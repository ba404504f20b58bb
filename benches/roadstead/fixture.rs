//! The server under test: the real one, in this process, on a file, with a team of agents.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use roadstead::app::{Server, ServerConfig};
use roadstead::auth::{Session, Tokens};
use roadstead::base::{Id, Keys, Result};
use roadstead::resources::organizations::Bootstrapped;
use roadstead::store::engine::{
    CommitOutcome, LocalStorage, LoggedRedb, ObservedReader, Reader, Redb, RenewFn, StoreMeters,
    WriteBatch,
};
use roadstead::store::{Clock, Store, TableInfo, build_indexes, table_names};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::client::{self, Connection};
use crate::filling::{Filling, bootstrap};
use crate::requests;

/// What the server stores in.
#[derive(Clone, Copy, PartialEq)]
pub enum Storage {
    /// redb with a log in front of it, as the binary does.
    Logged,
    /// redb alone.
    Redb,
}

/// A running server and its sample data.
pub struct Fixture {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its store.
    pub store: Store,
    /// The organization with its owner and a key.
    pub founded: Bootstrapped,
    /// The id of the team.
    pub team: String,
    /// The ids of its agents.
    pub agents: Vec<String>,
    /// Committed batches, while they are recorded.
    pub batches: Batches,
    /// Counts the reports of agents that are read.
    pub reports_read: Arc<AtomicU64>,
    /// An API key of the organization.
    pub key: String,
    // Fields are dropped in this order: first what uses the file.
    _server: Server,
    _runtime: Runtime,
    _place: TempDir,
}

/// Recorded batches with the time when each was durable; `None` while nothing is recorded.
pub type Batches = Arc<Mutex<Option<Vec<(WriteBatch, Instant)>>>>;

impl Fixture {
    /// A server with a team of `agents` agents.
    pub fn new(agents: usize) -> Self {
        Self::over(Storage::Logged, agents)
    }

    /// The same over this storage.
    pub fn over(storage: Storage, agents: usize) -> Self {
        Self::with_config(storage, agents, Clock::system(), ServerConfig::default())
    }

    /// Like `new`, with another clock.
    pub fn at(clock: Clock, agents: usize) -> Self {
        Self::with_config(Storage::Logged, agents, clock, ServerConfig::default())
    }

    /// The same with this storage, clock and configuration, apart from the limit of requests.
    pub fn with_config(
        storage: Storage,
        agents: usize,
        clock: Clock,
        config: ServerConfig,
    ) -> Self {
        let place = place();
        let tables = roadstead::resources::tables();
        let file = place.path().join("bench.redb");
        let names = table_names(&tables);
        match storage {
            Storage::Logged => {
                let storage = LoggedRedb::create(&file, names).expect("a new file");
                Self::serving(place, storage, &tables, agents, clock, config)
            }
            Storage::Redb => {
                let storage = Redb::create(&file, names).expect("a new file");
                Self::serving(place, storage, &tables, agents, clock, config)
            }
        }
    }

    fn serving(
        place: TempDir,
        mut storage: impl LocalStorage,
        tables: &[TableInfo],
        agents: usize,
        clock: Clock,
        config: ServerConfig,
    ) -> Self {
        build_indexes(&mut storage, tables, &|_| {}).expect("the disk is good");
        let reports_read = Arc::<AtomicU64>::default();
        let batches = Batches::default();
        let (counted, recorded) = (reports_read.clone(), batches.clone());
        let disk = CountingStorage { storage, batches: recorded, reports_read: counted };
        let store =
            Store::start(disk, clock, Keys::new([7; 32]), tables).expect("the disk is good");
        let founded = bootstrap(&store);
        let runtime = server_runtime("roadstead");
        let server = runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
            let mut config = ServerConfig { rate_limit: 0, ..config };
            config.allow_private.push("127.0.0.0/8".parse().expect("it is a network"));
            Server::start(store.clone(), listener, config).expect("the configuration is good")
        });
        let (_, key) = founded.key.clone().expect("a key was asked for");
        let mut fixture = Fixture {
            address: server.address,
            store,
            founded,
            team: String::new(),
            agents: Vec::new(),
            batches,
            reports_read,
            key,
            _server: server,
            _runtime: runtime,
            _place: place,
        };
        let team = fixture.ask(&fixture.post("/teams", json!({"slug": "crew", "name": "Crew"})));
        fixture.team = id(&team);
        for nth in 0..agents {
            let key = format!("agent-{nth}");
            fixture.ask(&fixture.post("/agents", json!({"stableKey": key, "name": "Agent"})));
            let path = format!("/teams/{}/agents", fixture.team);
            let hired = fixture.post(&path, json!({"stableKey": key, "role": "member"}));
            fixture.agents.push(id(&fixture.ask(&hired)));
        }
        fixture
    }

    /// The bytes of a GET in the organization.
    pub fn get(&self, path: &str) -> Vec<u8> {
        requests::get(&self.address.to_string(), &self.key, path)
    }

    /// The token of a new session of the owner.
    pub fn session_token(&self) -> String {
        let user = self.founded.user.id;
        let session = self.store.write_blocking(Id::NIL, move |tx| {
            let (id, created_at) = (tx.new_id(), tx.now());
            let expires_at = created_at.plus_secs(3600);
            let session = Session { id, user, generation: 0, created_at, expires_at };
            tx.insert(&session).map(|()| session)
        });
        let session = session.expect("it can be stored");
        Tokens::new(self.store.keys()).issue(&session).expect("it can be issued")
    }

    /// The bytes of a GET in the organization, by its owner in a session.
    pub fn get_in_session(&self, path: &str) -> Vec<u8> {
        let by_key = String::from_utf8(self.get(path)).expect("it is text");
        let credential = format!("authorization: Bearer {}", self.session_token());
        by_key.replace(&format!("x-api-key: {}", self.key), &credential).into_bytes()
    }

    /// The bytes of a POST in the organization.
    pub fn post(&self, path: &str, body: Value) -> Vec<u8> {
        self.send("POST", path, body)
    }

    /// Another server over the same store, with this configuration.
    pub fn also_serving(&self, config: ServerConfig) -> Server {
        self._runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
            Server::start(self.store.clone(), listener, config).expect("the configuration is good")
        })
    }

    /// The bytes of a request with a body in the organization.
    pub fn send(&self, method: &str, path: &str, body: Value) -> Vec<u8> {
        requests::send(&self.address.to_string(), &self.key, method, path, body)
    }

    /// The POST of a task.
    pub fn post_task(&self) -> Vec<u8> {
        self.post(&format!("/teams/{}/tasks", self.team), requests::task())
    }

    /// The POST of a message to each agent, one after another.
    pub fn post_messages(&self) -> Vec<Vec<u8>> {
        let path = format!("/teams/{}/messages", self.team);
        self.agents.iter().map(|agent| self.post(&path, requests::message(agent))).collect()
    }

    /// Stops the server; returns the bytes of the files of its store.
    pub fn stop_and_measure(self) -> u64 {
        let Fixture { store, _server: server, _runtime: runtime, _place: place, .. } = self;
        drop((server, runtime));
        store.close();
        let files = std::fs::read_dir(place.path()).expect("it is there").flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Sends one request and parses the JSON response.
    pub fn ask(&self, request: &[u8]) -> Value {
        client::runtime().block_on(async {
            let mut connection = Connection::open(self.address).await;
            let answer = connection.ask(request).await;
            serde_json::from_slice(answer.body).expect("answers are JSON")
        })
    }
}

impl Fixture {
    /// Runs a writing route for each of these bodies ([`Filling::store`]).
    pub fn store<T>(
        &self,
        route: &str,
        params: &[&str],
        bodies: impl Iterator<Item = Value>,
        at_once: usize,
        select: impl Fn(Value) -> T,
    ) -> Vec<T> {
        self.filling().store(route, params, bodies, at_once, select)
    }

    /// Like `store`, with the parameters of the path for each body.
    pub fn store_at<T>(
        &self,
        route: &str,
        bodies: impl Iterator<Item = (Vec<impl AsRef<str>>, Value)>,
        at_once: usize,
        select: impl Fn(Value) -> T,
    ) -> Vec<T> {
        self.filling().store_at(route, bodies, at_once, select)
    }

    fn filling(&self) -> Filling<'_> {
        Filling { store: &self.store, founded: &self.founded }
    }
}

/// The id in a response.
pub fn id(answer: &Value) -> String {
    answer["id"].as_str().expect("it has an id").to_string()
}

/// A directory on the build disk: in a file system in memory syncs would be free.
pub fn place() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory can be written")
}

/// A runtime like that of the binary. `name` names its threads for a profiler.
pub fn server_runtime(name: &str) -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name(name)
        .build()
        .expect("the system gives a runtime")
}

/// The storage, which can record batches and counts what is read.
struct CountingStorage<S> {
    storage: S,
    batches: Batches,
    reports_read: Arc<AtomicU64>,
}

impl<S> CountingStorage<S> {
    fn counting(&self, reader: Arc<dyn Reader>) -> Arc<dyn Reader> {
        counting(&self.reports_read, reader)
    }
}

fn counting(reports_read: &Arc<AtomicU64>, reader: Arc<dyn Reader>) -> Arc<dyn Reader> {
    let reports_read = reports_read.clone();
    Arc::new(ObservedReader::new(reader, move |table: &'static str, _| {
        if table.starts_with("agent_reports") {
            reports_read.fetch_add(1, Ordering::Relaxed);
        }
    }))
}

impl<S: LocalStorage> LocalStorage for CountingStorage<S> {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        self.storage.snapshot().map(|reader| self.counting(reader))
    }
    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        let outcome = self.storage.commit(writes);
        if let Some(batches) = self.batches.lock().expect("nobody panics holding it").as_mut() {
            batches.push((writes.clone(), Instant::now()));
        }
        match outcome {
            CommitOutcome::Done(reader) => CommitOutcome::Done(self.counting(reader)),
            outcome => outcome,
        }
    }
    fn failed(&self) -> bool {
        self.storage.failed()
    }
    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        self.storage.reopen().map(|reader| self.counting(reader))
    }
    fn idle_interval(&self) -> Duration {
        self.storage.idle_interval()
    }
    fn idle(&mut self) {
        self.storage.idle();
    }
    fn renew_with(&mut self, renew: RenewFn) {
        let reports_read = self.reports_read.clone();
        let renew = move |reader| renew(counting(&reports_read, reader));
        self.storage.renew_with(Box::new(renew));
    }
    fn count_in(&mut self, meters: &Arc<StoreMeters>) {
        self.storage.count_in(meters);
    }
}

/// The path of a file of the benchmark in `place`.
pub fn file(place: &TempDir, name: &str) -> std::path::PathBuf {
    Path::join(place.path(), name)
}
