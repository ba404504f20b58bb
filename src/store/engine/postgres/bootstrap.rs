//! Bootstrapping a store: its header, which has the number of its format and which key it belongs to, and
//! the numbers of its tables. While it is being filled from elsewhere, or its key replaced, the header
//! says that, too: then it cannot be used.

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

// The keys of the rows.
const FORMAT_ROW: &str = "format";
const KEY_ROW: &str = "key";
const PREVIOUS_ROW: &str = "previous-key";
const FILLING_ROW: &str = "unfinished";

/// The conditions under which a store is opened.
pub struct BootstrapTerms<'a> {
    /// The text by which its key is recognized.
    pub key_check: &'a str,
    pub must_exist: bool,
    /// What fills it.
    pub filling: Option<&'a str>,
}

/// What a store was created with.
pub struct StoreHeader {
    /// The text by which its key is recognized.
    pub key_check: String,
    /// The previous key, sealed, while it is being replaced.
    pub previous: Option<String>,
    /// What fills it.
    filling: Option<String>,
}

impl StoreHeader {
    /// Reads it; nothing if there is no store yet.
    ///
    /// # Errors
    /// If it cannot be read, or was written by a newer Roadstead.
    fn read(connection: &Connection) -> Result<Option<Self>, Failure> {
        let rows = connection.query_once("SELECT key, value FROM kv WHERE tbl = $1", &[&TABLE])?;
        let mut texts = BTreeMap::new();
        for row in &rows {
            let text = |at| row.try_get::<_, &[u8]>(at).map(String::from_utf8_lossy);
            let (name, text) = (text(0), text(1));
            let (Ok(name), Ok(text)) = (name, text) else { return Err(damaged()) };
            texts.insert(name.into_owned(), text.into_owned());
        }
        if texts.is_empty() {
            return Ok(None);
        }
        let format = texts.remove(FORMAT_ROW);
        let header = StoreHeader {
            key_check: texts.remove(KEY_ROW).ok_or_else(damaged)?,
            previous: texts.remove(PREVIOUS_ROW),
            filling: texts.remove(FILLING_ROW),
        };
        if format.as_deref() == Some(FORMAT) && texts.is_empty() {
            return Ok(Some(header));
        }
        Err(Failure::Refused(Error::new(
            Kind::Conflict,
            "store_is_newer",
            "the store was written by a newer Roadstead; use that version",
        )))
    }

    /// Returns whether it can be opened under these conditions.
    fn admit(&self, terms: &BootstrapTerms<'_>) -> Result<()> {
        match (self.filling.as_deref(), terms.filling) {
            (None, Some(_)) => return Err(not_empty()),
            (Some(found), wanted) if wanted != Some(found) => return Err(unfinished(found)),
            _ => {}
        }
        if self.previous.is_some() {
            return Err(key_unfinished());
        }
        if self.key_check == terms.key_check { Ok(()) } else { Err(other_key()) }
    }
}

impl Shared {
    /// Creates the store with a key, known by its check, unless there is one; returns whether it
    /// did.
    ///
    /// # Errors
    /// If it was created with another key, or by a newer Roadstead; if it was not, but must be; if
    /// something else fills it, or it is full when it is to be filled; if its key is being replaced.
    pub(super) fn bootstrap(
        &self,
        connection: &mut Connection,
        terms: BootstrapTerms<'_>,
    ) -> Result<bool> {
        let found = self.own_transaction(connection, BEGIN_WRITE, |connection| {
            let found = StoreHeader::read(connection)?;
            if found.is_none() {
                if terms.must_exist {
                    return Err(Failure::Refused(no_store()));
                }
                put(connection, FORMAT_ROW, FORMAT)?;
                put(connection, KEY_ROW, terms.key_check)?;
                if let Some(filling) = terms.filling {
                    put(connection, FILLING_ROW, filling)?;
                }
            }
            Ok(found)
        });
        match found.map_err(|failure| failure.error())? {
            None => Ok(true),
            Some(found) => found.admit(&terms).map(|()| false),
        }
    }

    /// Returns what the store was created with.
    ///
    /// # Errors
    /// If there is none, if it is not complete, or cannot be read.
    pub(super) fn header(&self, connection: &mut Connection) -> Result<StoreHeader, Failure> {
        match self.own_transaction(connection, BEGIN_WRITE, StoreHeader::read)? {
            None => Err(Failure::Refused(no_store())),
            Some(StoreHeader { filling: Some(filling), .. }) => {
                Err(Failure::Refused(unfinished(&filling)))
            }
            Some(header) => Ok(header),
        }
    }

    /// Has the store belong to another key; while `previous` is there it cannot be used.
    pub(super) fn set_key(
        &self,
        connection: &mut Connection,
        key_check: &str,
        previous: Option<&str>,
    ) -> Result<(), Failure> {
        self.own_transaction(connection, BEGIN_WRITE, |connection| {
            self.require_member(connection)?;
            put(connection, KEY_ROW, key_check)?;
            match previous {
                Some(previous) => put(connection, PREVIOUS_ROW, previous),
                None => remove(connection, PREVIOUS_ROW),
            }
        })
    }

    /// Notes that the store is full and can be used.
    pub(super) fn complete(&self, connection: &mut Connection) -> Result<(), Failure> {
        self.own_transaction(connection, BEGIN_WRITE, |connection| {
            self.require_member(connection)?;
            remove(connection, FILLING_ROW)
        })
    }
}

fn put(connection: &Connection, name: &str, text: &str) -> Result<(), Failure> {
    let put = connection.change_once(
        "INSERT INTO kv (tbl, key, value) VALUES ($1, $2, $3) \
         ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value",
        &[&TABLE, &name.as_bytes(), &text.as_bytes()],
    );
    put.map(drop)
}

fn remove(connection: &Connection, name: &str) -> Result<(), Failure> {
    let sql = "DELETE FROM kv WHERE tbl = $1 AND key = $2";
    connection.change_once(sql, &[&TABLE, &name.as_bytes()]).map(drop)
}

fn damaged() -> Failure {
    Failure::Refused(Error::internal("the header of the store is damaged"))
}

fn no_store() -> Error {
    Error::new(
        Kind::NotFound,
        "no_store",
        "the database holds no store; start once without --must-exist",
    )
}

fn key_unfinished() -> Error {
    Error::new(
        Kind::Conflict,
        "store_key_unfinished",
        "the key of the store is being replaced; complete that: roadstead secrets rotate",
    )
}

fn not_empty() -> Error {
    Error::new(
        Kind::Conflict,
        "store_not_empty",
        "the database holds a store already; use an empty database",
    )
}

fn unfinished(what: &str) -> Error {
    Error::new(
        Kind::Conflict,
        "store_unfinished",
        format!(
            "the database holds an unfinished store, of the {what}; repeat that command to complete \
             it, or drop the tables kv and kv_slot"
        ),
    )
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
            // Who was taken for gone adds none to a store that others go on with.
            if !names.iter().all(|name| known.contains_key(name.as_bytes())) {
                self.require_member(connection)?;
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
