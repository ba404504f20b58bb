//! The connections of an engine, and who may hold one.
//!
//! Snapshots that tasks await, snapshots of threads that block, and attempts have each a number of
//! their own, so that none of them can keep another from ending.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::{Connection, Connector};
use super::failure::{Failure, unavailable};
use super::in_force::Preferred;
use super::waiting::wait;
use crate::base::{Error, Result};

/// Snapshots that requests read at, at once. With 8 threads for light attempts, the heartbeat, the notifier
/// and who looks at the settings a server uses 33 connections. PostgreSQL has 97 for them by default.
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
    /// Whether no server could be reached when one was needed last.
    is_away: AtomicBool,
}

impl Pool {
    /// Creates a pool without connections.
    pub fn new(connector: Connector) -> Self {
        Pool {
            connector,
            idle: Mutex::default(),
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            blocking: Arc::new(Semaphore::new(MAX_BLOCKING)),
            is_away: AtomicBool::default(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect("no thread panics while holding it")
    }

    /// Returns a connection that is not in a transaction: one with a slot, if it is to write and
    /// there is one. Those of a server that is not in force any more are closed. Blocks.
    pub fn take(&self, writes: bool, deadline: Instant) -> Result<Connection, Failure> {
        let mut closed = Vec::new();
        let found = {
            let mut idle = self.idle();
            while let Some(at) = idle.iter().position(|one| !one.is_usable()) {
                closed.push(idle.swap_remove(at));
            }
            let fits = idle.iter().rposition(|one| one.slot.is_some() == writes);
            let at = fits.or(idle.len().checked_sub(1));
            at.map(|at| idle.swap_remove(at))
        };
        drop(closed);
        found.map_or_else(|| self.connect(deadline), Ok)
    }

    fn connect(&self, deadline: Instant) -> Result<Connection, Failure> {
        let opened = self.connector.connect(deadline);
        match &opened {
            Err(Failure::Unavailable(_)) => self.set_away(true),
            Err(_) => {}
            Ok(_) => self.set_away(false),
        }
        opened
    }

    /// Notes whether a server can be reached.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Returns the error of what needs a server, while none can be reached.
    pub fn unavailable(&self) -> Option<Error> {
        self.is_away.load(Ordering::Relaxed).then(unavailable)
    }

    /// What is in force at present.
    pub fn in_force(&self) -> Preferred {
        self.connector.url.in_force.now()
    }

    /// Takes a connection back. Its transaction has ended, or is being rolled back.
    pub fn put(&self, mut connection: Connection) {
        // Who takes it looks again.
        if connection.is_usable() {
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

    /// Closes the idle connections: their server is gone, or not the one that accepts writes. Not to be done
    /// where the server of one was replaced: the others are to the new one, or closed by who takes them.
    pub fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    /// Waits until a request may have a snapshot.
    ///
    /// # Errors
    /// 503 if too many have one.
    pub async fn reader_permit(&self) -> Result<OwnedSemaphorePermit> {
        match tokio::time::timeout(MAX_WAIT, self.readers.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(self.too_many()),
        }
    }

    /// Waits until a thread that blocks may have a connection.
    ///
    /// # Errors
    /// 503 if too many have one.
    pub fn blocking_permit(&self) -> Result<OwnedSemaphorePermit> {
        match wait(self.blocking.clone().acquire_owned(), Instant::now() + MAX_WAIT) {
            Some(Ok(permit)) => Ok(permit),
            _ => Err(self.too_many()),
        }
    }

    /// Why there is no room: those before wait for a server that is away, or they are many.
    fn too_many(&self) -> Error {
        let many = || Error::busy("overloaded", "too many requests wait for the database", 1);
        self.unavailable().unwrap_or_else(many)
    }
}

#[cfg(test)]
mod tests {
    use super::super::url::PostgresUrl;
    use super::*;

    #[test]
    fn who_finds_no_room_is_told_whether_the_server_is_away() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let url = PostgresUrl::parse("postgres://a@127.0.0.1:1/b").unwrap();
        let pool = Pool::new(Connector::new(url, None, runtime.handle().clone()));
        assert_eq!(pool.too_many().code(), "overloaded");
        let soon = Instant::now() + Duration::from_secs(5);
        assert!(matches!(pool.take(false, soon), Err(Failure::Unavailable(_))));
        assert_eq!(pool.too_many().code(), "store_unavailable");
        pool.set_away(false);
        assert_eq!(pool.too_many().code(), "overloaded");
    }
}
