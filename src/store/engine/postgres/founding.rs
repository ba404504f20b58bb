//! What a store was founded with: the number of its format, which key it belongs to, and the numbers of
//! its tables.

use std::collections::BTreeMap;

use super::connection::Connection;
use super::failure::Failure;
use super::shared::Shared;
use super::sql::BEGIN_WRITE;
use super::tables::{FIRST, NAMES};
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

impl Shared {
    /// Finds the numbers of these tables, and gives one to each that has none.
    pub(super) fn add_tables(
        &self,
        connection: &mut Connection,
        names: &[&'static str],
    ) -> Result<(), Failure> {
        let end = self.own_transaction(connection, BEGIN_WRITE, |connection| {
            let rows =
                connection.query_once("SELECT key, value FROM kv WHERE tbl = $1", &[&NAMES])?;
            let mut known = BTreeMap::new();
            for row in &rows {
                let (key, value) = (row.try_get::<_, &[u8]>(0), row.try_get::<_, &[u8]>(1));
                let number = value.ok().and_then(|value| value.try_into().ok());
                let (Ok(key), Some(number)) = (key, number.map(i16::from_be_bytes)) else {
                    return Err(Failure::Refused(Error::internal(
                        "the table of tables is damaged",
                    )));
                };
                known.insert(key.to_vec(), number);
            }
            let mut next = known.values().max().map_or(FIRST, |last| last + 1);
            let mut numbers = Vec::new();
            for name in names {
                let number = known.get(name.as_bytes()).copied().unwrap_or(next);
                if number == next {
                    let value = next.to_be_bytes();
                    let (key, value): (&[u8], &[u8]) = (name.as_bytes(), &value);
                    connection.change_once(
                        "INSERT INTO kv (tbl, key, value) VALUES ($1, $2, $3)",
                        &[&NAMES, &key, &value],
                    )?;
                    next += 1;
                }
                numbers.push((*name, number));
            }
            Ok(numbers)
        })?;
        for (name, number) in end {
            self.tables.add(name, number);
        }
        Ok(())
    }
}
