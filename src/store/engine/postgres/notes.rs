//! What tools note beside a store.

use std::time::Instant;

use super::Postgres;
use super::bootstrap::StoreHeader;
use super::connection::Connection;
use super::failure::Failure;
use super::shared::OPEN_TIME;
use super::sql::BEGIN_WRITE;
use crate::base::Result;

/// The number of the table of notes: key the name, value the text.
const TABLE: i16 = 15;

impl Postgres {
    /// Returns what the store was created with. Blocks.
    ///
    /// # Errors
    /// If there is none, if it is not complete, or cannot be read.
    pub fn header(&self) -> Result<StoreHeader> {
        self.with_connection(|connection| self.shared.header(connection))
    }

    /// Has the store belong to another key; while `previous` is there it cannot be used. Blocks.
    pub fn set_key(&self, key_check: &str, previous: Option<&str>) -> Result<()> {
        self.with_connection(|connection| self.shared.set_key(connection, key_check, previous))
    }

    /// Returns a note. Blocks.
    pub fn note(&self, name: &str) -> Result<Option<String>> {
        self.with_connection(|connection| {
            let rows = connection.query_once(
                "SELECT value FROM kv WHERE tbl = $1 AND key = $2",
                &[&TABLE, &name.as_bytes()],
            )?;
            let text = rows.first().map(|row| row.try_get::<_, &[u8]>(0)).transpose();
            let text = text.map_err(|error| Failure::of(&error))?;
            Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()))
        })
    }

    /// Writes a note. Blocks.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub fn set_note(&self, name: &str, text: &str) -> Result<()> {
        self.with_connection(|connection| {
            let set = |connection: &Connection| {
                self.shared.require_member(connection)?;
                connection.change_once(
                    "INSERT INTO kv (tbl, key, value) VALUES ($1, $2, $3) \
                     ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value",
                    &[&TABLE, &name.as_bytes(), &text.as_bytes()],
                )
            };
            self.shared.own_transaction(connection, BEGIN_WRITE, set).map(drop)
        })
    }

    /// Requires that nobody has taken the store over from this process, its owner or one of its nodes: what
    /// it has read until now is all there is, if it is the owner. Blocks.
    ///
    /// # Errors
    /// If others have removed it, or that cannot be read.
    pub fn require_membership(&self) -> Result<()> {
        self.with_connection(|connection| {
            let require = |connection: &Connection| self.shared.require_member(connection);
            self.shared.own_transaction(connection, BEGIN_WRITE, require)
        })
    }

    /// Has a store that was filled be used from now on. Blocks.
    pub fn complete(&self) -> Result<()> {
        self.with_connection(|connection| self.shared.complete(connection))
    }

    pub(super) fn with_connection<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T> {
        let connection = self.shared.pool.take(false, Instant::now() + OPEN_TIME);
        let done = connection.and_then(|mut connection| {
            let done = work(&mut connection)?;
            self.shared.pool.put(connection);
            Ok(done)
        });
        done.map_err(|failure| failure.error())
    }
}
