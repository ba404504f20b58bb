//! The conformance suite of engines: whether transactions are isolated, and whether what was
//! acknowledged is there after crashes.
//!
//! Tests run it over every engine, and `roadstead store-check` against somebody's own database. A
//! check that cannot fail proves nothing: each has a control, an engine that does something wrong
//! on purpose, which must fail it.

mod anomalies;
mod book;
#[cfg(feature = "postgres")]
mod cutting;
#[cfg(feature = "postgres")]
mod suite;

use std::sync::mpsc::channel;

pub use anomalies::{Anomaly, anomalies};
pub use book::{Book, Entry, write_book};
#[cfg(feature = "postgres")]
pub use cutting::CuttingProxy;
#[cfg(feature = "postgres")]
pub use suite::{Effort, LeaseCheck, Report, run_suite};

use super::{Attempt, Budget, Engine, GivenBack, OnConflict, Reader, Terms, WriteBatch};
use crate::base::{Error, Result};

/// The table that the suite writes to.
pub const TABLE: &str = "conformance";

/// An attempt of the suite.
struct Step<F> {
    run: F,
    end: std::sync::mpsc::Sender<Result<()>>,
}

impl<F: FnMut(&dyn Reader) -> Result<WriteBatch> + Send> Attempt for Step<F> {
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        (self.run)(reader)
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        let _ = self.end.send(end);
    }

    fn give_back(self: Box<Self>, _: GivenBack) {
        let _ = self.end.send(Err(Error::internal("an attempt was given back on its last terms")));
    }
}

/// Runs an attempt and waits until it is over.
fn attempt(
    engine: &dyn Engine,
    run: impl FnMut(&dyn Reader) -> Result<WriteBatch> + Send + 'static,
) -> Result<()> {
    attempt_within(engine, Budget::FULL, run)
}

/// Does the same with another budget: light ones may share a commit.
fn attempt_within(
    engine: &dyn Engine,
    budget: Budget,
    run: impl FnMut(&dyn Reader) -> Result<WriteBatch> + Send + 'static,
) -> Result<()> {
    let (end, ended) = channel();
    let terms = Terms { budget, on_conflict: OnConflict::RunOnWriter };
    engine.submit(Box::new(Step { run, end }), terms)?;
    ended.recv().unwrap_or_else(|_| Err(Error::internal("an attempt was lost")))
}

/// Returns the value under a key.
fn value(reader: &dyn Reader, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut found = None;
    reader.get(TABLE, key, &mut |value| {
        found = Some(value.to_vec());
        Ok(())
    })?;
    Ok(found)
}

/// Returns the number under a key; 0 if there is none.
fn number(reader: &dyn Reader, key: &[u8]) -> Result<u64> {
    let bytes = value(reader, key)?.and_then(|bytes| bytes.try_into().ok());
    Ok(bytes.map_or(0, u64::from_be_bytes))
}
