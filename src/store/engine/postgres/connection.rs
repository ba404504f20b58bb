//! A connection to the database server, used by one thread at a time.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, Statement};

use super::failure::Failure;
use super::in_force::Epoch;
use super::membership::{Member, TABLE};
use super::opening::{
    HOST_TIME, OPEN_TIME, OnNotification, RawConnection, in_force, in_time, open, open_at,
    require_in_force, run,
};
use super::slot::{Slot, SlotValue, Slots};
use super::sql::{OPTIONAL, SAFETY, Statements};
use super::url::PostgresUrl;
use super::waiting::{Next, begin, wait, wait_before};

/// How long a statement may take, of which none reads more than a thousand rows. Locks are waited
/// for half of that.
pub const STATEMENT_TIME: Duration = Duration::from_secs(8);

/// Rows to write: the numbers of their tables, keys and values.
pub type Rows<'a> = (Vec<i16>, Vec<&'a [u8]>, Vec<&'a [u8]>);

/// The rows that a transaction writes.
#[derive(Default)]
pub struct Changes<'a> {
    pub puts: Rows<'a>,
    pub inserts: Rows<'a>,
    /// Without values.
    pub deletes: Rows<'a>,
}

/// A parameter of a statement.
pub type Param<'a> = &'a (dyn ToSql + Sync);

/// A connection. It is closed when it is dropped.
pub struct Connection {
    pub client: Client,
    pub statements: Statements,
    /// The slot that its commits move; none before the first, and while the outcome of one is open.
    pub slot: Option<Slot>,
    slots: Arc<Slots>,
    /// When it was last put back into the pool.
    pub used_at: Instant,
    /// The epoch of its server; none if that is looked at while another one is in force.
    epoch: Option<Epoch>,
    warned: Arc<AtomicBool>,
    driver: AbortHandle,
}

impl Drop for Connection {
    /// Does not wait for what is under way. Nothing more is asked to be committed.
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.slots.give_back(slot);
        }
        self.driver.abort();
    }
}

/// Opens connections to a store.
#[derive(Clone)]
pub struct Connector {
    pub url: PostgresUrl,
    /// The schema of the tables; `None` is the default of the user.
    pub schema: Option<String>,
    /// Where the connections are driven: their users block.
    pub runtime: Handle,
    /// The slots of this process.
    pub slots: Arc<Slots>,
}

impl Connector {
    /// Creates what opens connections, without slots.
    pub fn new(url: PostgresUrl, schema: Option<String>, runtime: Handle) -> Self {
        Connector { url, schema, runtime, slots: Arc::default() }
    }

    /// Opens a connection and prepares its statements. Blocks.
    pub fn connect(&self, deadline: Instant) -> Result<Connection, Failure> {
        self.prepare(self.connect_raw(deadline)?, STATEMENT_TIME)
    }

    /// Each of its steps may take so long.
    fn prepare(&self, raw: RawConnection, time: Duration) -> Result<Connection, Failure> {
        raw.run(raw.client.batch_execute(SAFETY), time)?;
        // Another database may not know them.
        match raw.run(raw.client.batch_execute(OPTIONAL), time) {
            Err(Failure::Refused(_)) | Ok(()) => {}
            Err(failure) => return Err(failure),
        }
        let statements = raw.run(Statements::prepare(&raw.client), time)?;
        let RawConnection { client, epoch, warned, driver } = raw;
        Ok(Connection {
            client,
            statements,
            slot: None,
            slots: self.slots.clone(),
            used_at: Instant::now(),
            epoch,
            warned,
            driver,
        })
    }

    /// The channel on which the nodes of the store notify each other.
    pub fn channel(&self) -> String {
        self.schema.as_ref().map_or("roadstead".into(), |schema| format!("roadstead_{schema}"))
    }

    /// Opens a connection without settings and statements. Blocks.
    pub fn connect_raw(&self, deadline: Instant) -> Result<RawConnection, Failure> {
        self.connect_listening(deadline, None)
    }

    /// Does the same as [`Connector::connect_raw`], with what is done with notifications.
    pub fn connect_listening(
        &self,
        deadline: Instant,
        on_notification: Option<OnNotification>,
    ) -> Result<RawConnection, Failure> {
        let url = self.url.clone();
        let opening = self.runtime.spawn(async move {
            tokio::time::timeout(OPEN_TIME, open(&url, on_notification)).await
        });
        let opened = match wait(opening, deadline) {
            Some(Ok(Ok(opened))) => opened?,
            Some(Err(error)) => return Err(Failure::Unavailable(error.to_string())),
            Some(Ok(Err(_))) | None => return Err(in_time()),
        };
        self.set_schema(&opened, STATEMENT_TIME)?;
        Ok(opened)
    }

    fn set_schema(&self, raw: &RawConnection, time: Duration) -> Result<(), Failure> {
        let Some(schema) = &self.schema else { return Ok(()) };
        let set = format!("SET search_path TO \"{schema}\"");
        raw.run(raw.client.batch_execute(&set), time)
    }

    /// Opens a connection to this one alone. Each of the five steps hangs for no longer than one address may
    /// take: opening it, the schema, two sets of settings and the statements. Blocks.
    pub fn connect_to(&self, config: Config) -> Result<Connection, Failure> {
        let url = self.url.clone();
        let opening = self.runtime.spawn(async move {
            tokio::time::timeout(HOST_TIME, open_at(&url, &config, None)).await
        });
        let raw = match wait(opening, Instant::now() + HOST_TIME) {
            Some(Ok(Ok(opened))) => opened.map_err(|error| Failure::of(&error))?,
            _ => return Err(in_time()),
        };
        self.set_schema(&raw, HOST_TIME)?;
        self.prepare(raw, HOST_TIME)
    }
}

/// The outcome of a commit.
pub enum Commit {
    Done,
    /// Nothing is stored.
    Failed(Failure),
    /// It may be stored.
    Unanswered,
    /// It is stored, but a warning came with it, or with a write that was sent with it: perhaps it is not on the
    /// standby.
    Doubtful,
}

impl Connection {
    /// Does `work` with its server, if that is in force, and uses what it answers if it still is.
    pub fn in_force<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        in_force(self.epoch.as_ref(), work)
    }

    fn run<T>(
        &self,
        what: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failure> {
        self.in_force(|| run(what, STATEMENT_TIME))
    }

    /// Runs a prepared statement and returns its rows.
    pub fn query(&self, statement: &Statement, params: &[Param]) -> Result<Vec<Row>, Failure> {
        self.run(self.client.query(statement, params))
    }

    /// Begins a transaction and runs its first statement, which reads, in one round trip.
    pub fn begin_and_query(
        &self,
        begin: &str,
        statement: &Statement,
        params: &[Param],
    ) -> Result<Vec<Row>, Failure> {
        let both = async {
            let begun = self.client.batch_execute(begin);
            let (begun, rows) = tokio::join!(biased; begun, self.client.query(statement, params));
            begun.and(rows)
        };
        self.run(both)
    }

    /// Runs statements without parameters and results.
    pub fn execute(&self, sql: &str) -> Result<(), Failure> {
        self.run(self.client.batch_execute(sql))
    }

    /// Runs a statement that is not prepared, and returns its rows.
    pub fn query_once(&self, sql: &str, params: &[Param]) -> Result<Vec<Row>, Failure> {
        self.run(self.client.query(sql, params))
    }

    /// Runs a statement that is not prepared, and returns how many rows it changed.
    pub fn change_once(&self, sql: &str, params: &[Param]) -> Result<u64, Failure> {
        self.run(self.client.execute(sql, params))
    }

    /// Writes rows in the transaction that is under way, moves the slot and commits, all in one round trip. If
    /// it fails, nothing of it is stored, and the transaction has ended or is being rolled back.
    ///
    /// A statement that fails ends the transaction at the server, whose answer to the commit is then that it was
    /// rolled back. So one that must change a row fails if it does not: [`Failure::Stale`] if the slot does
    /// not have the value that is known, [`Failure::Fenced`] if that may also be because the lease is another one.
    pub fn change_and_commit(
        &self,
        changes: &Changes,
        (slot, to, lease): (&Slot, &SlotValue, Option<&Member>),
        deadline: Instant,
    ) -> Commit {
        if let Err(failure) = self.require_in_force() {
            return Commit::Failed(failure);
        }
        self.warned.store(false, Ordering::SeqCst);
        let one = &self.statements;
        // Each statement is sent when it is first polled, if it can be.
        let has_failed = Cell::new(false);
        let change = async |statement: &Statement, params: &[Param]| {
            let end = self.client.execute(statement, params).await;
            has_failed.set(has_failed.get() || end.is_err());
            end
        };
        let write = async |statement: &Statement, (tables, keys, values): &Rows<'_>| {
            if keys.is_empty() { Ok(0) } else { change(statement, &[tables, keys, values]).await }
        };
        let delete = async |(tables, keys, _): &Rows<'_>| {
            if keys.is_empty() { Ok(0) } else { change(&one.delete, &[tables, keys]).await }
        };
        let (id, from, to): (&[u8], &[u8], &[u8]) = (&slot.id, &slot.value, to);
        let mut moving: Vec<Param> = vec![&id, &from, &to];
        let move_slot = match lease {
            None => &one.move_slot,
            Some(lease) => {
                moving.extend([&TABLE as Param, &lease.key, &lease.value]);
                &one.move_slot_under_lease
            }
        };
        let writing = async {
            let (put, inserted, deleted, moved) = tokio::join!(
                biased;
                write(&one.put, &changes.puts),
                write(&one.insert, &changes.inserts),
                delete(&changes.deletes),
                change(move_slot, &moving),
            );
            // After an error the server refuses the others: the first says why.
            let written = put.and(inserted).and(deleted).map_err(|error| (error, false));
            written.and_then(|_| moved.map_err(|error| (error, true)))
        };
        let mut commit = Next::new(self.client.batch_execute("COMMIT"));
        // What was not sent must not be missing in what is committed.
        let is_sent = || !has_failed.get();
        match wait_before(writing, (&mut commit, is_sent), Instant::now() + STATEMENT_TIME) {
            Some(Ok(_)) => {
                let end = self.outcome(commit.wait(commit_deadline(deadline)));
                if matches!(end, Commit::Failed(_)) {
                    // One that was refused before it began has not ended the transaction.
                    self.roll_back();
                }
                end
            }
            Some(Err((error, is_of_slot))) if !commit.is_begun() || Failure::is_answer(&error) => {
                if !commit.is_begun() {
                    self.roll_back();
                }
                Commit::Failed(match self.require_in_force() {
                    Err(failure) => failure,
                    Ok(()) if !is_of_slot || !is_not_moved(&error) => Failure::of(&error),
                    Ok(()) if lease.is_some() => Failure::Fenced,
                    Ok(()) => Failure::Stale,
                })
            }
            Some(Err(_)) | None => Commit::Unanswered,
        }
    }

    /// Commits. An answer of a server that was replaced meanwhile is none (see [`super::in_force`]).
    pub fn commit(&self, deadline: Instant) -> Commit {
        if let Err(failure) = self.require_in_force() {
            return Commit::Failed(failure);
        }
        self.warned.store(false, Ordering::SeqCst);
        let committing = self.client.batch_execute("COMMIT");
        self.outcome(wait(committing, commit_deadline(deadline)))
    }

    /// What an answer to a commit means, if there is one.
    fn outcome(&self, answer: Option<Result<(), tokio_postgres::Error>>) -> Commit {
        if let (Some(epoch), Some(Ok(()))) = (&self.epoch, &answer) {
            epoch.note_answer();
        }
        match answer {
            Some(_) if self.require_in_force().is_err() => Commit::Unanswered,
            Some(Ok(())) if self.warned.load(Ordering::SeqCst) => Commit::Doubtful,
            Some(Ok(())) => Commit::Done,
            Some(Err(error)) if Failure::is_answer(&error) => Commit::Failed(Failure::of(&error)),
            Some(Err(_)) | None => Commit::Unanswered,
        }
    }

    /// Ends the transaction without waiting for the answer.
    pub fn roll_back(&self) {
        begin(self.client.batch_execute("ROLLBACK"));
    }

    /// Returns whether it can still be used, as far as is known.
    pub fn is_usable(&self) -> bool {
        !self.client.is_closed() && self.require_in_force().is_ok()
    }

    /// Returns why a commit was not answered.
    pub fn not_answered(&self) -> Failure {
        let failure = Failure::Unavailable("a commit was not answered".into());
        self.require_in_force().err().unwrap_or(failure)
    }

    fn require_in_force(&self) -> Result<(), Failure> {
        require_in_force(self.epoch.as_ref())
    }
}

/// Until when the answer to a commit is waited for from now on.
fn commit_deadline(deadline: Instant) -> Instant {
    deadline.min(Instant::now() + STATEMENT_TIME)
}

/// Whether a statement failed since no slot was as it had to be (see [`super::sql::Statements::move_slot`]).
fn is_not_moved(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::DIVISION_BY_ZERO)
}
