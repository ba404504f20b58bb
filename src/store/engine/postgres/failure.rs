//! Why a statement failed, and what to do then.

use tokio_postgres::error::{Severity, SqlState};

use super::super::work_lease::LEASE_LOST;
use crate::base::Error;

/// Why a statement or a transaction failed. Except after a commit, nothing of it is stored.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Another transaction was in its way: it runs again.
    Conflict,
    /// A row that it needs stayed locked, by a transaction that does not end: one whose process is gone,
    /// which the server ends soon, or one that commits and waits for a standby. It runs again.
    Blocked,
    /// It inserts a key that exists.
    Duplicate,
    /// The server cannot be reached or does not accept writes: the connection is of no use, and the
    /// transaction may run again on another. The reason is for the log.
    Unavailable(String),
    /// Another server has come into force since the connection was opened: it is of no use, and those to
    /// that server are. The transaction runs again there.
    Replaced,
    /// The server has no connection left for this one. Those that are open are of use.
    Crowded(String),
    /// The slot of the connection is not what it is known to be: the others have removed this process from
    /// the store, or a standby was promoted that lacks commits. It runs again with another slot, which
    /// only those who are at the store can have.
    Stale,
    /// The others have removed this process from the store.
    Removed,
    /// Another node has the lease that this needs.
    Fenced,
    /// It has read for as long as the attempts that it is for may take.
    TooLong,
    /// It fails for another reason and would fail again.
    Refused(Error),
}

impl Failure {
    /// Returns what a driver's error means, of a statement other than a commit.
    pub fn of(error: &tokio_postgres::Error) -> Failure {
        let Some(cause) = error.as_db_error() else {
            return Failure::Unavailable(error.to_string());
        };
        let code = cause.code();
        let text = format!("{} ({})", cause.message(), code.code());
        if is_conflict(code) {
            Failure::Conflict
        } else if *code == SqlState::TOO_MANY_CONNECTIONS {
            Failure::Crowded(text)
        } else if *code == SqlState::LOCK_NOT_AVAILABLE {
            Failure::Blocked
        } else if is_duplicate(code) {
            Failure::Duplicate
        } else if is_unavailable(code) || ends_connection(cause) {
            Failure::Unavailable(text)
        } else if *code == SqlState::DISK_FULL {
            Failure::Refused(disk_full().detail(text))
        } else {
            Failure::Refused(Error::internal(format!("PostgreSQL: {text}{}", advice(code))))
        }
    }

    /// Returns whether the server answered a commit with an error that says that nothing is stored.
    /// Any other failure leaves its outcome open: distributed databases also answer that they do
    /// not know it themselves (40003, 08007).
    pub fn is_answer(error: &tokio_postgres::Error) -> bool {
        let is_open = |code: &SqlState| {
            *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN || code.code().starts_with("08")
        };
        error.as_db_error().is_some_and(|cause| !ends_connection(cause) && !is_open(cause.code()))
    }

    /// Returns the error that callers get.
    pub fn error(&self) -> Error {
        match self {
            Failure::Conflict | Failure::Duplicate => contended(),
            Failure::Blocked => commits_hang(),
            Failure::Unavailable(why) | Failure::Crowded(why) => unavailable().detail(why),
            Failure::Replaced => unavailable().detail("another database server is in force"),
            Failure::Stale => unavailable().detail("the slot is another one"),
            Failure::Removed => {
                unavailable().detail("others have removed this process from the store")
            }
            Failure::Fenced => unavailable().detail(LEASE_LOST),
            Failure::TooLong => too_long(),
            Failure::Refused(error) => error.clone(),
        }
    }
}

/// The error of an attempt that conflicts again and again.
pub fn contended() -> Error {
    Error::busy("overloaded", "others keep changing the same things; try again", 1)
}

/// The error of a write that there is no room or time for.
pub fn too_many_wait() -> Error {
    Error::busy("overloaded", "too many writes are waiting", 1)
}

/// The error of an attempt that has read for as long as an attempt may take.
pub fn too_long() -> Error {
    Error::busy("overloaded", "reading took too long; ask for less at once, or try again", 5)
}

/// The error of what cannot be done while the database server is away.
pub fn unavailable() -> Error {
    Error::busy("store_unavailable", "the database server cannot be reached now; try again", 2)
}

/// The error of what waits for a commit that does not end.
fn commits_hang() -> Error {
    Error::busy(
        "store_unavailable",
        "the database server does not finish commits now, as when its synchronous standby is away; \
         try again",
        5,
    )
}

fn disk_full() -> Error {
    Error::busy("disk_full", "the disk of the database server is full", 30)
}

fn is_conflict(code: &SqlState) -> bool {
    [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        // Among others, when no predicate lock is left: fewer at once need fewer.
        SqlState::OUT_OF_MEMORY,
    ]
    .contains(code)
}

/// Whether something that was to be created is there. `IF NOT EXISTS` says so too where another process
/// creates the same at the same moment.
fn is_duplicate(code: &SqlState) -> bool {
    [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_OBJECT,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_SCHEMA,
    ]
    .contains(code)
}

fn is_unavailable(code: &SqlState) -> bool {
    let other = [
        // The server has become a standby.
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::QUERY_CANCELED,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    // 08: the connection; 57P: the server stops, has crashed or starts.
    code.code().starts_with("08") || code.code().starts_with("57P") || other.contains(code)
}

/// What to do about an error that a new installation meets.
fn advice(code: &SqlState) -> &'static str {
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        "; its user must own the database, or be granted USAGE and CREATE on the schema"
    } else if *code == SqlState::INVALID_SCHEMA_NAME {
        "; the user's search_path names no schema that exists"
    } else if *code == SqlState::UNDEFINED_COLUMN {
        "; a table kv or kv_slot there is not Roadstead's: give it a database of its own"
    } else {
        ""
    }
}

/// Whether the server closes the connection after this error, and may not have said everything.
fn ends_connection(cause: &tokio_postgres::error::DbError) -> bool {
    // Not every database says it so that it is not translated.
    cause.parsed_severity().map_or(cause.severity() != "ERROR", |one| one != Severity::Error)
}
