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

mod alone;
mod attempts;
mod building;
mod connection;
mod durability;
mod failure;
mod founding;
mod lease;
mod notes;
mod owner;
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
mod url;
mod waiting;

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, watch};

pub use building::Building;
pub use durability::Durability;
pub use founding::Founded;
pub use owner::Owner;
pub use settings::{Control, PostgresSettings};
pub use shared::Unanswered;
pub use url::PostgresUrl;

use super::metrics::StoreMeters;
use super::{Attempt, Budget, Engine, Reader, Snapshot, Terms};
use crate::base::{Error, Result};
use crate::store::signals::Signals;
use alone::Alone;
use connection::{Connection, Connector, STATEMENT_TIME};
use failure::Failure;
use founding::Founding;
use lease::Keeper;
use pool::Pool;
use queue::{Queue, Waiting};
use reader::{Kind, TransactionReader};
use shared::{OPEN_TIME, Shared, start_runtime};
use tables::Tables;

/// Threads that run light attempts. Each has a connection; the database server commits those that
/// come at once together.
const THREADS: usize = 8;

/// How long a read waits for a server.
const READ_TIME: Duration = Duration::from_secs(15);

/// An engine over PostgreSQL.
pub struct Postgres {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    keeper: Option<Keeper>,
    is_new: bool,
    /// Drives the connections.
    runtime: Mutex<Option<Runtime>>,
}

impl Postgres {
    /// Opens the store, creating its tables if there are none, and becomes its owner if `settings`
    /// name one. `signals` notifies the topics of every commit. `progress` is called while it waits
    /// for an earlier owner to be gone, and with an empty line after that. Blocks.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses; if another process owns the store.
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
            owner,
            control,
        } = settings;
        let connector = Connector { url, schema, runtime: runtime.handle().clone() };
        let meters = Arc::<StoreMeters>::default();
        let shared = Arc::new(Shared {
            pool: Pool::new(connector),
            tables: Tables::default(),
            queue: Queue::new(meters.clone()),
            signals,
            meters,
            owner: owner.clone(),
            control,
            alone: Alone::default(),
            is_lost: watch::channel(false).0,
            unanswered: Unanswered::default(),
        });
        let mut engine = Postgres {
            shared: shared.clone(),
            threads: Mutex::default(),
            keeper: None,
            is_new: false,
            runtime: Mutex::new(Some(runtime)),
        };
        let mut connection = shared.first_connection()?;
        // Before it is taken over from anybody.
        if let Some(key_check) = key_check {
            let filling = filling.as_deref();
            let founding = Founding { key_check: &key_check, must_exist, filling };
            engine.is_new = shared.found(&mut connection, founding)?;
        }
        if let Some(owner) = owner {
            shared.acquire(&mut connection, &owner, progress)?;
            if control != Some(Control::Silent) {
                engine.keeper = Some(Keeper::start(&shared, owner)?);
            }
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
            let serve = move || {
                while let Some(waiting) = shared.queue.next() {
                    shared.process(waiting);
                }
            };
            let started = thread::Builder::new().name("store".into()).spawn(serve);
            let cannot = |e| Error::internal(format!("a thread cannot be started: {e}"));
            threads.push(started.map_err(cannot)?);
        }
        Ok(())
    }

    /// Returns the store as storage, to build indexes in it before it is served.
    pub fn building(&self) -> Building {
        Building(self.shared.clone())
    }

    /// Returns what turns true when another server has taken the store over: nothing can be written
    /// any more.
    pub fn is_lost(&self) -> watch::Receiver<bool> {
        self.shared.is_lost.subscribe()
    }

    /// Returns whether the store was founded when it was opened.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Reads what the database server promises about commits. Blocks.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub fn durability(&self) -> Result<Durability> {
        let connection = self.shared.pool.take(false, Instant::now() + READ_TIME);
        let read = connection.and_then(|connection| {
            let read = Durability::read(&connection.client)?;
            self.shared.pool.put(connection);
            Ok(read)
        });
        read.map_err(|failure| failure.error())
    }

    /// Removes the schema of the store with all rows, if it has one of its own.
    ///
    /// # Errors
    /// If that fails.
    pub fn drop_schema(&self) -> Result<()> {
        let Some(schema) = &self.shared.pool.connector.schema else { return Ok(()) };
        self.shared.pool.clear();
        let drop = |connection: Connection| {
            connection.execute(&format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE"))
        };
        let connection = self.shared.pool.take(false, Instant::now() + OPEN_TIME);
        connection.and_then(drop).map_err(|failure| failure.error())
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
        let shared = self.shared.clone();
        Snapshot::Pending(Box::pin(async move {
            let permit = Pool::reader_permit(shared.pool.readers()).await?;
            Ok(shared.snapshot(Some(permit)))
        }))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn submit(&self, attempt: Box<dyn Attempt>, terms: Terms) -> Result<()> {
        if *self.shared.is_lost.borrow() {
            return Err(Failure::TakenOver.error());
        }
        let waiting = Waiting { attempt, terms, submitted: Instant::now() };
        if terms.budget == Budget::LIGHT {
            return self.shared.queue.push(waiting);
        }
        if self.shared.queue.is_closed() {
            return Err(Error::busy("overloaded", "too many writes are waiting", 1));
        }
        let _permit = self.shared.pool.blocking_permit()?;
        self.shared.process(waiting);
        Ok(())
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
        if let Some(keeper) = &self.keeper {
            keeper.stop();
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
        let kind = Kind { begin: sql::BEGIN_READ, writes: false, looks_before_insert: true };
        let deadline = Instant::now() + READ_TIME;
        Arc::new(TransactionReader::new(self, kind, deadline, permit))
    }

    /// Returns a snapshot for a thread that may block.
    fn blocking_snapshot(self: Arc<Self>) -> Arc<dyn Reader> {
        match self.pool.blocking_permit() {
            Ok(permit) => self.snapshot(Some(permit)),
            Err(error) => Arc::new(reader::Unavailable(error)),
        }
    }
}
