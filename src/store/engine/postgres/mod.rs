//! A store in PostgreSQL, or in a database that speaks its protocol, isolates transactions as it
//! does and passes the [conformance suite](super::conformance).
//!
//! All rows are in one table, `kv`, by number of table and key. An attempt runs on a thread that
//! may block: it reads through a serializable transaction, its writes are collected, sent in one
//! round trip, and committed. The database server validates what was read; after a conflict the
//! attempt runs again. A commit that is not answered is [resolved](slot) before anybody is told.
//!
//! Heavy attempts run on their callers' threads, whose number is bounded; light ones wait, in turns
//! of their organizations, for one of a few threads.
//!
//! Several processes use a store at once, as its nodes ([`membership`]): a [`heartbeat`] shows that each is
//! alive and takes the lease for the background work, a [`notifier`] notifies the others of commits.
//!
//! | What for | Files |
//! |---|---|
//! | opening | [`settings`], [`url`], [`tls`], [`bootstrap`], [`tables`], [`durability`], [`notes`] |
//! | connections | [`connection`], [`opening`], [`in_force`], [`pool`], [`sql`], [`failure`], [`waiting`] |
//! | transactions | [`shared`], [`queue`], [`group`], [`attempts`], [`reader`], [`building`], [`access`] |
//! | commits that are not answered | [`slot`], [`resolving`], [`unknown_outcomes`], [`hanging`] |
//! | members | [`membership`], [`member_rows`], [`joining`], [`heartbeat`], [`failure_detector`] |
//! | another server than the one that hangs | [`elsewhere`] |
//! | nodes from outside | [`node_list`] |
//! | the lease | [`fencing`] |
//! | notifications | [`notifications`], [`notifier`], [`missed_notifications`] |

mod access;
mod attempts;
mod bootstrap;
mod building;
mod connection;
mod durability;
mod elsewhere;
mod failure;
mod failure_detector;
mod fencing;
mod group;
mod hanging;
mod heartbeat;
mod in_force;
mod joining;
mod member_rows;
mod membership;
mod missed_notifications;
mod node_list;
mod notes;
mod notifications;
mod notifier;
mod opening;
mod pool;
mod queue;
mod reader;
mod resolving;
mod settings;
mod shared;
mod slot;
mod sql;
mod tables;
mod tls;
mod unknown_outcomes;
mod url;
mod waiting;

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, watch};

pub use bootstrap::StoreHeader;
pub use building::Building;
pub use durability::Durability;
pub use membership::{Node, Owner};
pub use node_list::nodes_at;
pub use settings::{Control, PostgresSettings};
pub use shared::Unanswered;
pub use url::PostgresUrl;

use super::metrics::StoreMeters;
use super::{Attempt, Engine, Reader, SeenNodes, Snapshot, Terms, WorkLeases};
use crate::base::{Error, Result};
use crate::store::signals::Signals;
use bootstrap::BootstrapTerms;
use connection::{Connection, Connector, STATEMENT_TIME};
use failure::Failure;
use heartbeat::Heartbeat;
use notifier::Notifier;
use reader::{Kind, TransactionReader};
use shared::{OPEN_TIME, Shared, start_runtime};

/// Threads that run light attempts. Each has a connection; the database server commits those that
/// come at once together.
const THREADS: usize = 8;

/// How long a read waits for a server.
const READ_TIME: Duration = Duration::from_secs(15);

/// How long a store that is closed waits for heavy attempts to end, and, once it has left, for those that
/// were committed before to hear of it, and to be told to other nodes.
const HEAVY_TIME: Duration = Duration::from_secs(2);
const TELL_TIME: Duration = Duration::from_secs(1);

/// An engine over PostgreSQL.
pub struct Postgres {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    heartbeat: Option<Heartbeat>,
    notifier: Option<Notifier>,
    is_new: bool,
    /// Drives the connections.
    runtime: Mutex<Option<Runtime>>,
}

impl Postgres {
    /// Opens the store, creating its tables if there are none, and joins it as the node or owner
    /// that `settings` name. `signals` notifies the topics of every commit, of a node also those of
    /// other nodes. `progress` is called while it waits for others to be gone, and with an empty
    /// line after that. Blocks.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses; if somebody else is at the store who must not be.
    pub fn open(
        settings: PostgresSettings,
        signals: Arc<Signals>,
        progress: &dyn Fn(&str),
    ) -> Result<Self> {
        let runtime = start_runtime()?;
        let PostgresSettings {
            url,
            tables,
            schema,
            key_check,
            must_exist,
            filling,
            node,
            owner,
            control,
        } = settings;
        let is_node = node.is_some();
        let may_lead = node.as_ref().is_some_and(|node| node.may_lead);
        let member = node.map(|node| node.member).or(owner.map(|owner| owner.0));
        let connector = Connector::new(url, schema, runtime.handle().clone());
        let shared = Shared::new(connector, signals, member.clone());
        let shared = Arc::new(Shared { control, may_lead, notifies_nodes: is_node, ..shared });
        let mut engine = Postgres {
            shared: shared.clone(),
            threads: Mutex::default(),
            heartbeat: None,
            notifier: None,
            is_new: false,
            runtime: Mutex::new(Some(runtime)),
        };
        let mut connection = shared.first_connection()?;
        // Before it is taken over from anybody.
        if let Some(key_check) = key_check {
            let filling = filling.as_deref();
            let terms = BootstrapTerms { key_check: &key_check, must_exist, filling };
            engine.is_new = shared.bootstrap(&mut connection, terms)?;
        }
        if let Some(own) = member {
            shared.join(&mut connection, &own, progress)?;
            engine.heartbeat = Some(Heartbeat::start(&shared, own)?);
        }
        if is_node {
            engine.notifier = Some(Notifier::start(&shared)?);
        }
        shared.add_tables(&mut connection, &tables).map_err(|failure| failure.error())?;
        shared.pool.put(connection);
        engine.start_threads()?;
        Ok(engine)
    }

    fn start_threads(&self) -> Result<()> {
        let mut threads = self.threads.lock().expect("no thread panics while holding it");
        for _ in 0..THREADS {
            let shared = self.shared.clone();
            let serve = move || shared.serve_queue();
            let started = thread::Builder::new().name("store".into()).spawn(serve);
            let cannot = |e| Error::internal(format!("a thread cannot be started: {e}"));
            threads.push(started.map_err(cannot)?);
        }
        Ok(())
    }

    /// Returns the store as storage, to build indexes in it before it is served: under the lease, if
    /// this node has it.
    pub fn building(&self) -> Building {
        let lease = self.shared.held_lease().map(Arc::new);
        Building { shared: self.shared.clone(), lease }
    }

    /// Returns what turns true when others have removed this process from the store: it cannot write
    /// any more.
    pub fn is_removed(&self) -> watch::Receiver<bool> {
        self.shared.is_removed.subscribe()
    }

    /// Returns the lease for the background work, while this node has it.
    pub fn leases(&self) -> WorkLeases {
        self.shared.leases.subscribe()
    }

    /// Returns the nodes of the store, as this one sees them; empty unless it is one.
    pub fn nodes(&self) -> SeenNodes {
        self.shared.nodes.subscribe()
    }

    /// Returns whether the store was created when it was opened.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Reads what the database server promises about commits. Blocks.
    pub fn durability(&self) -> Result<Durability> {
        let connection = self.shared.pool.take(false, Instant::now() + READ_TIME);
        let read = connection.and_then(|connection| {
            let url = &self.shared.pool.connector.url;
            let read = connection.in_force(|| Durability::read(&connection.client, url))?;
            self.shared.pool.put(connection);
            Ok(read)
        });
        read.map_err(|failure| failure.error())
    }

    /// Removes the schema of the store with all rows, if it has one of its own.
    pub fn drop_schema(&self) -> Result<()> {
        let Some(schema) = &self.shared.pool.connector.schema else { return Ok(()) };
        self.shared.pool.clear();
        let drop = |connection: Connection| {
            connection.execute(&format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE"))
        };
        let connection = self.shared.pool.take(false, Instant::now() + OPEN_TIME);
        connection.and_then(drop).map_err(|failure| failure.error())
    }

    /// Returns whether the database server has answered within this time, and finishes commits as far as is
    /// known.
    pub fn is_answering(&self, time: Duration) -> bool {
        self.shared.is_answering(time)
    }

    /// Returns how commits ended that were not answered.
    pub fn unanswered(&self) -> &Unanswered {
        &self.shared.unanswered
    }
}

impl Engine for Postgres {
    fn snapshot(&self) -> Arc<dyn Reader> {
        self.shared.clone().blocking_snapshot()
    }

    fn begin_snapshot(&self) -> Snapshot {
        self.shared.begin_snapshot()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        self.shared.notifies_nodes
    }

    fn unavailable(&self) -> Option<Error> {
        self.shared.pool.unavailable()
    }

    fn submit(&self, attempt: Box<dyn Attempt>, terms: Terms) -> Result<()> {
        self.shared.submit(attempt, terms, None)
    }

    fn close(&self) {
        self.shared.queue.close();
        let threads = self.threads.lock().map(|mut threads| std::mem::take(&mut *threads));
        for one in threads.unwrap_or_default() {
            // An attempt that holds the last handle drops this on a thread that cannot join itself.
            if one.thread().id() != thread::current().id() {
                let _ = one.join();
            }
        }
        self.shared.queue.wait_heavy(HEAVY_TIME);
        // No commit succeeds from here on.
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.stop();
        }
        // The answers to those just before still come, over the connections.
        self.shared.queue.wait_heavy(TELL_TIME);
        self.shared.notifications.close();
        if let Some(notifier) = &self.notifier {
            notifier.stop();
        }
        self.shared.pool.clear();
        if let Some(runtime) = self.runtime.lock().ok().and_then(|mut runtime| runtime.take()) {
            runtime.shutdown_background();
        }
    }

    fn meters(&self) -> Arc<StoreMeters> {
        self.shared.meters.clone()
    }
}

impl Drop for Postgres {
    /// Returns when all queued attempts have been completed.
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Opens the first connection, and creates the tables of the store.
    fn first_connection(&self) -> Result<Connection> {
        let deadline = Instant::now() + OPEN_TIME;
        loop {
            let connector = &self.pool.connector;
            let opened = connector.connect_raw(deadline).and_then(|raw| {
                if let Some(schema) = &connector.schema {
                    let create = format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"");
                    raw.run(raw.client.batch_execute(&create), STATEMENT_TIME)?;
                }
                raw.run(raw.client.batch_execute(sql::CREATE_ROWS), STATEMENT_TIME)?;
                raw.run(raw.client.batch_execute(sql::CREATE_SLOTS), STATEMENT_TIME)?;
                // Other databases may know neither; a role that does not own the table may set nothing.
                let set = raw.run(raw.client.query(sql::HAS_VACUUM_SETTINGS, &[]), STATEMENT_TIME);
                if set.is_ok_and(|rows| rows.is_empty()) {
                    let often = raw.client.batch_execute(sql::VACUUM_ROWS_OFTEN);
                    if let Err(failure) = raw.run(often, STATEMENT_TIME) {
                        tracing::info!(?failure, "the table is vacuumed as by default");
                    }
                }
                connector.connect(deadline)
            });
            match opened {
                Ok(connection) => return Ok(connection),
                // Another process creates them, too.
                Err(Failure::Duplicate | Failure::Conflict) if Instant::now() < deadline => {}
                Err(failure) => return Err(failure.error()),
            }
        }
    }

    fn snapshot(self: Arc<Self>, permit: Option<OwnedSemaphorePermit>) -> Arc<dyn Reader> {
        let kind = Kind { begin: sql::BEGIN_READ, writes: false };
        let deadline = Instant::now() + READ_TIME;
        Arc::new(TransactionReader::new(self, kind, deadline, permit))
    }

    /// Returns a snapshot to be awaited.
    fn begin_snapshot(self: &Arc<Self>) -> Snapshot {
        let shared = self.clone();
        Snapshot::Pending(Box::pin(async move {
            let permit = shared.pool.reader_permit().await?;
            Ok(shared.snapshot(Some(permit)))
        }))
    }

    /// Returns a snapshot for a thread that may block.
    fn blocking_snapshot(self: Arc<Self>) -> Arc<dyn Reader> {
        match self.pool.blocking_permit() {
            Ok(permit) => self.snapshot(Some(permit)),
            Err(error) => Arc::new(reader::Unavailable(error)),
        }
    }
}
