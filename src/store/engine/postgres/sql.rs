//! The statements of the engine: plain SQL with `unnest`, `LATERAL`, `ON CONFLICT`, a window function and a
//! changing `WITH`, which other databases that speak PostgreSQL's protocol have too. No advisory locks, no system columns.

use tokio_postgres::{Client, Error, Statement};

/// What the values of a part of a scan have together, but for the last one: a reader holds a part at
/// a time.
pub const MAX_PART_BYTES: usize = 2 * 1024 * 1024;

/// Rows of all tables in one: the number of the table, key and value.
pub const CREATE_ROWS: &str = "CREATE TABLE IF NOT EXISTS kv (\
     tbl smallint NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (tbl, key))";

/// Rows of queues come and go at the front of their ranges, and each look passes those that died since the
/// last vacuum. By default that comes after a fifth of all rows has died, however many there are. A vacuum
/// that is under way gives way after a second (`deadlock_timeout`).
pub const VACUUM_ROWS_OFTEN: &str = "SET lock_timeout = '3s'; ALTER TABLE kv SET (\
     autovacuum_vacuum_scale_factor = 0.005, autovacuum_vacuum_threshold = 5000, \
     autovacuum_vacuum_cost_delay = 0)";

/// Whether a table has storage parameters that say when it is vacuumed. Who has set others has a reason.
pub const HAS_VACUUM_SETTINGS: &str = "SELECT 1 FROM pg_class WHERE oid = 'kv'::regclass \
     AND array_to_string(reloptions, ' ') LIKE '%autovacuum_vacuum_%'";

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

/// Settings that other databases may not have. Reading whole tables, or joining by hash, would lock more
/// than is read: any writer would be in conflict. And the connections of a machine that is gone would
/// stay for two hours, of the few that the database server has.
pub const OPTIONAL: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; \
     SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; \
     SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3";

/// Begins a transaction that writes.
pub const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

/// Begins a transaction that writes without validation of what it reads: a negative control.
pub const BEGIN_WRITE_UNVALIDATED: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";

/// Begins a snapshot. Its reader may take its time.
pub const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL idle_in_transaction_session_timeout = 0";

/// Changes the slot `$1` from the value `$2` to `$3`.
pub const MOVE_SLOT: &str = "UPDATE kv_slot SET value = $3 WHERE id = $1 AND value = $2";

/// The prepared statements of a connection.
pub struct Statements {
    pub get: Statement,
    /// An entry of a unique index, and the record under the owner `$4` and the key in it: its value, if that
    /// has no more than `$5` bytes, and whether there is none.
    pub find: Statement,
    /// What is under each of the keys `$2`: the key, its value, if that has no more than `$3` bytes, and
    /// whether there is none.
    pub get_all: Statement,
    pub ascending: Statement,
    pub ascending_to_end: Statement,
    pub descending: Statement,
    pub descending_to_end: Statement,
    pub put: Statement,
    pub insert: Statement,
    pub delete: Statement,
    /// Changes the slot as [`MOVE_SLOT`] does, and divides by how many that were: one that is not as it is
    /// known to be fails, and with it the transaction.
    pub move_slot: Statement,
    /// The same, if the lease is still this one.
    pub move_slot_under_lease: Statement,
}

/// A part of a scan: rows from `$2` on, as far as `to` says, not more than `limit`, and none behind
/// those whose values have [`MAX_PART_BYTES`] together. The server counts: what it sends is held.
fn part(to: &str, order: &str, limit: &str) -> String {
    format!(
        "SELECT key, value FROM (\
         SELECT key, value, sum(octet_length(value)) OVER \
         (ORDER BY key {order} ROWS UNBOUNDED PRECEDING) - octet_length(value) AS before FROM (\
         SELECT key, value FROM kv WHERE tbl = $1 AND key >= $2 AND {to} \
         ORDER BY key {order} LIMIT {limit}) AS limited) AS counted \
         WHERE before < {MAX_PART_BYTES} ORDER BY key {order}"
    )
}

/// The row under a key that another row gives. A plain join would read all of a table that the statistics
/// say is nearly empty, and compare the keys then: what died in it, too, and with all of it locked.
fn row(table: &str, key: &str, name: &str) -> String {
    format!(
        "LATERAL (SELECT key, value FROM kv WHERE tbl = {table} AND key = {key} LIMIT 1) AS {name}"
    )
}

/// A condition on the lease `$5` of the table `$4`: it still has the value `$6`.
const UNDER_LEASE: &str =
    " AND EXISTS (SELECT 1 FROM kv WHERE tbl = $4 AND key = $5 AND kv.value = $6)";

/// See [`Statements::move_slot`].
fn move_slot(condition: &str) -> String {
    format!("WITH moved AS ({MOVE_SLOT}{condition} RETURNING 1) SELECT 1 / count(*) FROM moved")
}

impl Statements {
    /// Prepares them in one round trip.
    pub async fn prepare(client: &Client) -> Result<Self, Error> {
        let [up, down] = ["", "DESC"].map(|order| part("key < $3", order, "$4"));
        let [up_to_end, down_to_end] = ["", "DESC"].map(|order| part("TRUE", order, "$3"));
        let find_row = format!(
            "SELECT entry.value, CASE WHEN octet_length(record.value) <= $5 THEN record.value END, \
             record.key IS NULL FROM kv AS entry LEFT JOIN {} ON TRUE \
             WHERE entry.tbl = $1 AND entry.key = $2",
            row("$3", "$4 || entry.value", "record")
        );
        let get_rows = format!(
            "SELECT wanted.key, CASE WHEN octet_length(kv.value) <= $3 THEN kv.value END, \
             kv.key IS NULL FROM unnest($2::bytea[]) AS wanted (key) LEFT JOIN {} ON TRUE",
            row("$1", "wanted.key", "kv")
        );
        let [free, under_lease] = ["", UNDER_LEASE].map(move_slot);
        let (
            get,
            find,
            get_all,
            ascending,
            ascending_to_end,
            descending,
            descending_to_end,
            put,
            insert,
            delete,
            moved,
            moved_under_lease,
        ) = tokio::try_join!(
            client.prepare("SELECT value FROM kv WHERE tbl = $1 AND key = $2"),
            client.prepare(&find_row),
            client.prepare(&get_rows),
            client.prepare(&up),
            client.prepare(&up_to_end),
            client.prepare(&down),
            client.prepare(&down_to_end),
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
            client.prepare(&free),
            client.prepare(&under_lease),
        )?;
        Ok(Statements {
            get,
            find,
            get_all,
            ascending,
            ascending_to_end,
            descending,
            descending_to_end,
            put,
            insert,
            delete,
            move_slot: moved,
            move_slot_under_lease: moved_under_lease,
        })
    }
}
