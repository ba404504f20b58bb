//! The numbers of tables.

use std::collections::BTreeMap;
use std::sync::RwLock;

use crate::base::{Error, Result};

/// The table whose rows say which number a table has: key the name, value the number.
pub const NAMES: i16 = 0;

/// The numbers below are the engine's own.
pub const FIRST: i16 = 16;

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

    /// Notes the number of a table.
    pub fn add(&self, name: &'static str, number: i16) {
        self.0.write().expect("no thread panics while holding it").insert(name, number);
    }
}
