//! The owner of a store: the only process that writes to it.
//!
//! Two rows hold it: who the owner is, and a beat, which the owner changes every two seconds. Who
//! finds an owner watches the beat on its own clock: if that changes, the store is in use; if it
//! does not change for eight seconds, the owner is gone and the store is taken over. No clocks of
//! two machines are compared. What an earlier owner still does fails at its commit (see
//! [`super::slot`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::connection::{Connection, STATEMENT_TIME};
use super::failure::Failure;
use super::owner::{OWNER, Owner, TABLE};
use super::shared::Shared;
use super::slot::fresh;
use super::sql::BEGIN_WRITE;
use crate::base::{Error, Kind, Result};

/// The key of the row of the beat.
const BEAT: &[u8] = b"beat";

/// How often the owner changes the beat.
const BEAT_INTERVAL: Duration = Duration::from_secs(2);

/// How long a beat may stay the same: three may be late.
const MAX_SILENCE: Duration = Duration::from_secs(8);

/// How often the beat of another owner is looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// What others are told about the owner in a row.
fn described(row: &[u8]) -> String {
    String::from_utf8_lossy(row.get(16..).unwrap_or_default()).into_owned()
}

/// What was found when a store was to be acquired.
enum Found {
    /// Nobody, or an owner that is gone: it is acquired.
    Acquired,
    /// An owner, with its beat.
    Owned { owner: Vec<u8>, beat: Vec<u8> },
}

impl Shared {
    /// Makes `owner` the owner of the store. Waits up to eight seconds for an earlier one to be
    /// gone.
    ///
    /// # Errors
    /// If the store is in use; if the server fails.
    pub(super) fn acquire(
        &self,
        connection: &mut Connection,
        owner: &Owner,
        progress: &dyn Fn(&str),
    ) -> Result<()> {
        let mut seen: Option<(Vec<u8>, Vec<u8>, Instant)> = None;
        loop {
            let gone = seen.as_ref().filter(|(_, _, since)| since.elapsed() >= MAX_SILENCE);
            let gone = gone.map(|(owner, beat, _)| (owner.as_slice(), beat.as_slice()));
            let found = self
                .own_transaction(connection, BEGIN_WRITE, |connection| {
                    try_acquire(connection, owner, gone)
                })
                .map_err(|failure| failure.error())?;
            let (other, beat) = match found {
                Found::Acquired => break,
                Found::Owned { owner, beat } => (owner, beat),
            };
            match &seen {
                Some((owner, old, _)) if *owner == other && *old == beat => {}
                Some(_) => return Err(in_use(&other)),
                None => {
                    progress(&format!("waiting for {} to be gone", described(&other)));
                    seen = Some((other, beat, Instant::now()));
                }
            }
            thread::sleep(WATCH_INTERVAL);
        }
        progress("");
        Ok(())
    }

    /// Changes the beat.
    fn beat(&self, connection: &mut Connection, owner: &Owner) -> Result<(), Failure> {
        let next = fresh();
        let next: &[u8] = &next;
        self.own_transaction(connection, BEGIN_WRITE, |connection| {
            let changed = connection.change_once(
                "UPDATE kv SET value = $1 WHERE tbl = $2 AND key = $3 AND EXISTS \
                 (SELECT 1 FROM kv WHERE tbl = $2 AND key = $4 AND value = $5)",
                &[&next, &TABLE, &BEAT, &OWNER, &owner.bytes()],
            )?;
            if changed == 1 { Ok(()) } else { Err(Failure::TakenOver) }
        })
    }

    /// Gives the store up, so that the next owner need not wait.
    fn release(&self, owner: &Owner) -> Result<(), Failure> {
        let mut connection = self.pool.take(false, Instant::now() + STATEMENT_TIME)?;
        self.own_transaction(&mut connection, BEGIN_WRITE, |connection| {
            let owned = connection.change_once(
                "DELETE FROM kv WHERE tbl = $1 AND key = $2 AND value = $3",
                &[&TABLE, &OWNER, &owner.bytes()],
            )?;
            if owned == 1 {
                connection
                    .change_once("DELETE FROM kv WHERE tbl = $1 AND key = $2", &[&TABLE, &BEAT])?;
                connection.change_once("DELETE FROM kv_slot", &[])?;
            }
            Ok(())
        })
    }
}

/// Acquires the store, if it has no owner or still the one that is `gone`, with its beat.
fn try_acquire(
    connection: &Connection,
    owner: &Owner,
    gone: Option<(&[u8], &[u8])>,
) -> Result<Found, Failure> {
    let value = |key: &[u8]| {
        let rows = connection
            .query_once("SELECT value FROM kv WHERE tbl = $1 AND key = $2", &[&TABLE, &key])?;
        Ok(rows.first().and_then(|row| row.try_get::<_, Vec<u8>>(0).ok()))
    };
    if let Some(other) = value(OWNER)? {
        let beat = value(BEAT)?.unwrap_or_default();
        if gone != Some((other.as_slice(), beat.as_slice())) {
            return Ok(Found::Owned { owner: other, beat });
        }
    }
    connection.change_once("DELETE FROM kv WHERE tbl = $1", &[&TABLE])?;
    // No commit of an earlier owner can succeed from here on.
    connection.change_once("DELETE FROM kv_slot", &[])?;
    let beat = fresh();
    let beat: &[u8] = &beat;
    connection.change_once(
        "INSERT INTO kv (tbl, key, value) VALUES ($1, $2, $3), ($1, $4, $5)",
        &[&TABLE, &OWNER, &owner.bytes(), &BEAT, &beat],
    )?;
    Ok(Found::Acquired)
}

fn in_use(other: &[u8]) -> Error {
    Error::new(
        Kind::Conflict,
        "store_in_use",
        format!("the store is in use by {}; stop that server first", described(other)),
    )
}

/// The thread that keeps the store of its owner.
pub struct Keeper {
    is_stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(shared: &Arc<Shared>, owner: Owner) -> Result<Self> {
        let is_stopped = Arc::<AtomicBool>::default();
        let (stopped, shared) = (is_stopped.clone(), Arc::downgrade(shared));
        let thread = thread::Builder::new()
            .name("owner".into())
            .spawn(move || keep(&shared, &owner, &stopped))
            .map_err(|e| Error::internal(format!("a thread cannot be started: {e}")))?;
        Ok(Keeper { is_stopped, thread: Mutex::new(Some(thread)) })
    }

    /// Gives the store up and ends the thread.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn keep(shared: &Weak<Shared>, owner: &Owner, is_stopped: &AtomicBool) {
    let mut next = Instant::now() + BEAT_INTERVAL;
    loop {
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
        let Some(shared) = shared.upgrade() else { return };
        if is_stopped.load(Ordering::SeqCst) {
            if let Err(failure) = shared.release(owner) {
                tracing::debug!(?failure, "the store could not be given up");
            }
            return;
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + BEAT_INTERVAL;
        let connection = shared.pool.take(false, next);
        let beaten = connection.and_then(|mut connection| {
            shared.beat(&mut connection, owner)?;
            shared.pool.put(connection);
            Ok(())
        });
        match beaten {
            Ok(()) => {}
            Err(Failure::TakenOver) => {
                shared.taken_over();
                return;
            }
            Err(failure) => tracing::warn!(?failure, "the store cannot be kept at the moment"),
        }
    }
}
