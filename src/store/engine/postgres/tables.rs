//! The numbers of tables.

use std::collections::BTreeMap;
use std::sync::RwLock;

use super::Shared;
use super::connection::Connection;
use super::failure::Failure;
use super::sql::BEGIN_WRITE;
use crate::base::{Error, Result};

/// The table whose rows say which number a table has: key the name, value the number.
const NAMES: i16 = 0;

/// The numbers below are the engine's own.
const FIRST: i16 = 16;

/// The numbers of tables by name.
#[derive(Default)]
pub struct Tables(RwLock<BTreeMap<&'static str, i16>>);

impl Tables {
    /// Returns the number of a table.
    ///
    /// # Errors
    /// 500 if there is no such table.
    pub fn number(&self, name: &str) -> Result<i16> {
        let tables = self.0.read().expect("no thread panics while holding it");
        let number = tables.get(name).copied();
        number.ok_or_else(|| Error::internal(format!("there is no table {name}")))
    }

    fn add(&self, name: &'static str, number: i16) {
        self.0.write().expect("no thread panics while holding it").insert(name, number);
    }
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
