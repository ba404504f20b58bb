//! The statements of the engine: plain SQL with `unnest` and `ON CONFLICT`, which other databases
//! that speak PostgreSQL's protocol have too. No advisory locks, no system columns.

use tokio_postgres::{Client, Error, Statement};

/// Rows of all tables in one: the number of the table, key and value.
pub const CREATE_ROWS: &str = "CREATE TABLE IF NOT EXISTS kv (\
     tbl smallint NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (tbl, key))";

/// The slots of writers: see [`super::slot`]. They change with every commit, so each page keeps
/// space for new versions of its rows.
pub const CREATE_SLOTS: &str = "CREATE TABLE IF NOT EXISTS kv_slot (\
     id bytea PRIMARY KEY, value bytea NOT NULL) WITH (fillfactor = 20)";

/// Settings without which commits would not be safe.
///
/// A `statement_timeout` that ends the wait for a standby would be answered as success. A
/// transaction whose process is gone must not hold its locks, and its slot, for long.
pub const SAFETY: &str = "SET synchronous_commit = on; SET statement_timeout = 0; \
     SET client_min_messages = warning; SET lock_timeout = '4s'; \
     SET idle_in_transaction_session_timeout = '8s'";

/// Settings of the planner, which other databases may not have. Reading whole tables, or joining by
/// hash, would lock more than is read: any writer would be in conflict.
pub const PLANNER: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; \
     SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";

/// Begins a transaction that writes.
pub const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

/// Begins a transaction that writes without validation of what it reads: a negative control.
pub const BEGIN_WRITE_UNVALIDATED: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";

/// Begins a snapshot. Its reader may take its time.
pub const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL idle_in_transaction_session_timeout = 0";

/// The prepared statements of a connection.
pub struct Statements {
    pub get: Statement,
    pub ascending: Statement,
    pub ascending_to_end: Statement,
    pub descending: Statement,
    pub descending_to_end: Statement,
    pub put: Statement,
    pub insert: Statement,
    pub delete: Statement,
    pub move_slot: Statement,
    /// The same, if the lease is still this one.
    pub move_slot_under_lease: Statement,
}

impl Statements {
    /// Prepares them in one round trip.
    pub async fn prepare(client: &Client) -> Result<Self, Error> {
        let (
            get,
            ascending,
            ascending_to_end,
            descending,
            descending_to_end,
            put,
            insert,
            delete,
            slot,
            slot_under_lease,
        ) = tokio::try_join!(
            client.prepare("SELECT value FROM kv WHERE tbl = $1 AND key = $2"),
            client.prepare(
                "SELECT key, value FROM kv WHERE tbl = $1 AND key >= $2 AND key < $3 \
                 ORDER BY key LIMIT $4"
            ),
            client.prepare(
                "SELECT key, value FROM kv WHERE tbl = $1 AND key >= $2 ORDER BY key LIMIT $3"
            ),
            client.prepare(
                "SELECT key, value FROM kv WHERE tbl = $1 AND key >= $2 AND key < $3 \
                 ORDER BY key DESC LIMIT $4"
            ),
            client.prepare(
                "SELECT key, value FROM kv WHERE tbl = $1 AND key >= $2 ORDER BY key DESC LIMIT $3"
            ),
            client.prepare(
                "INSERT INTO kv (tbl, key, value) \
                 SELECT * FROM unnest($1::smallint[], $2::bytea[], $3::bytea[]) \
                 ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value"
            ),
            client.prepare(
                "INSERT INTO kv (tbl, key, value) \
                 SELECT * FROM unnest($1::smallint[], $2::bytea[], $3::bytea[])"
            ),
            client.prepare(
                "DELETE FROM kv USING unnest($1::smallint[], $2::bytea[]) AS gone (tbl, key) \
                 WHERE kv.tbl = gone.tbl AND kv.key = gone.key"
            ),
            client.prepare("UPDATE kv_slot SET value = $3 WHERE id = $1 AND value = $2"),
            client.prepare(
                "UPDATE kv_slot SET value = $3 WHERE id = $1 AND value = $2 AND EXISTS \
                 (SELECT 1 FROM kv WHERE tbl = $4 AND key = $5 AND kv.value = $6)"
            ),
        )?;
        Ok(Statements {
            get,
            ascending,
            ascending_to_end,
            descending,
            descending_to_end,
            put,
            insert,
            delete,
            move_slot: slot,
            move_slot_under_lease: slot_under_lease,
        })
    }
}
