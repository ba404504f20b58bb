//! The connections of an engine, and who may hold one.
//!
//! Snapshots that tasks await, snapshots of threads that block, and attempts have each a number of
//! their own, so that none of them can keep another from ending.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::{Connection, Connector};
use super::failure::Failure;
use super::waiting::wait;
use crate::base::{Error, Result};

/// Snapshots that requests read at, at once. PostgreSQL has 100 connections by default; with those of
/// the heartbeat and the notifier a server uses 32, which leaves room for two more.
const MAX_READERS: usize = 16;

/// Snapshots and heavy attempts of threads that block, at once.
const MAX_BLOCKING: usize = 6;

/// How long a request waits for a snapshot.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// How long a connection may be idle: those of a burst are not kept for ever, of the few that the
/// database server has.
const MAX_IDLE: Duration = Duration::from_secs(600);

/// The connections of an engine.
pub struct Pool {
    pub connector: Connector,
    idle: Mutex<Vec<Connection>>,
    readers: Arc<Semaphore>,
    blocking: Arc<Semaphore>,
}

impl Pool {
    /// Creates a pool without connections.
    pub fn new(connector: Connector) -> Self {
        Pool {
            connector,
            idle: Mutex::default(),
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            blocking: Arc::new(Semaphore::new(MAX_BLOCKING)),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect("no thread panics while holding it")
    }

    /// Returns a connection that is not in a transaction: one with a slot, if it is to write and
    /// there is one. Blocks.
    pub fn take(&self, writes: bool, deadline: Instant) -> Result<Connection, Failure> {
        let mut closed = Vec::new();
        let found = {
            let mut idle = self.idle();
            while let Some(at) = idle.iter().position(|one| !one.is_open()) {
                closed.push(idle.swap_remove(at));
            }
            let fits = idle.iter().rposition(|one| one.slot.is_some() == writes);
            let at = fits.or(idle.len().checked_sub(1));
            at.map(|at| idle.swap_remove(at))
        };
        drop(closed);
        found.map_or_else(|| self.connector.connect(deadline), Ok)
    }

    /// Takes a connection back. Its transaction has ended, or is being rolled back.
    pub fn put(&self, mut connection: Connection) {
        if connection.is_open() {
            connection.used_at = Instant::now();
            self.idle().push(connection);
        }
    }

    /// Closes the connections that nobody has used for ten minutes.
    pub fn close_unused(&self, now: Instant) {
        let is_unused =
            |one: &mut Connection| now.saturating_duration_since(one.used_at) >= MAX_IDLE;
        let closed: Vec<_> = self.idle().extract_if(.., is_unused).collect();
        drop(closed);
    }

    /// Closes the idle connections: their server is gone, or not the one that accepts writes.
    pub fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    /// Waits until a request may have a snapshot.
    ///
    /// # Errors
    /// 503 if too many have one.
    pub async fn reader_permit(readers: Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
        match tokio::time::timeout(MAX_WAIT, readers.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(too_many()),
        }
    }

    /// The permits of [`Pool::reader_permit`].
    pub fn readers(&self) -> Arc<Semaphore> {
        self.readers.clone()
    }

    /// Waits until a thread that blocks may have a connection.
    ///
    /// # Errors
    /// 503 if too many have one.
    pub fn blocking_permit(&self) -> Result<OwnedSemaphorePermit> {
        match wait(self.blocking.clone().acquire_owned(), Instant::now() + MAX_WAIT) {
            Some(Ok(permit)) => Ok(permit),
            _ => Err(too_many()),
        }
    }
}

fn too_many() -> Error {
    Error::busy("overloaded", "too many requests wait for the database", 1)
}
