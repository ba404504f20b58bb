//! What a store was founded with: the number of its format, and which key it belongs to.

use super::Shared;
use super::connection::Connection;
use super::failure::Failure;
use super::sql::BEGIN_WRITE;
use crate::base::{Error, Kind, Result};

/// The number of the table of these rows.
const TABLE: i16 = 2;

/// The layout of the tables. A newer Roadstead writes a larger number.
const FORMAT: &str = "1";

impl Shared {
    /// Founds the store with a key, known by its check, unless it is founded; returns whether it
    /// was.
    ///
    /// # Errors
    /// If it was founded with another key, or by a newer Roadstead; if it was not, but must be.
    pub(super) fn found(
        &self,
        connection: &mut Connection,
        key_check: &str,
        must_exist: bool,
    ) -> Result<bool> {
        let stored = self.own_transaction(connection, BEGIN_WRITE, |connection| {
            let rows = connection
                .query_once("SELECT value FROM kv WHERE tbl = $1 ORDER BY key", &[&TABLE])?;
            if rows.is_empty() && must_exist {
                return Err(Failure::Refused(Error::new(
                    Kind::NotFound,
                    "no_store",
                    "the database holds no store; start once without --must-exist",
                )));
            }
            if rows.is_empty() {
                let of = |text: &'static str| text.as_bytes();
                connection.change_once(
                    "INSERT INTO kv (tbl, key, value) VALUES ($1, $2, $3), ($1, $4, $5)",
                    &[&TABLE, &of("format"), &of(FORMAT), &of("key"), &key_check.as_bytes()],
                )?;
                return Ok(None);
            }
            let texts = rows.iter().map(|row| row.try_get::<_, Vec<u8>>(0));
            let texts: Result<Vec<_>, _> = texts.collect();
            texts.map(Some).map_err(|error| Failure::of(&error))
        });
        match stored.map_err(|failure| failure.error())?.as_deref() {
            None => Ok(true),
            Some([format, key]) if format == FORMAT.as_bytes() => {
                if key == key_check.as_bytes() {
                    Ok(false)
                } else {
                    Err(other_key())
                }
            }
            Some(_) => Err(Error::new(
                Kind::Conflict,
                "store_is_newer",
                "the store was written by a newer Roadstead; use that version",
            )),
        }
    }
}

fn other_key() -> Error {
    Error::new(
        Kind::Conflict,
        "store_of_another_key",
        "the key is not the one of this store; all servers of a store need the same key",
    )
}
