//! An engine that counts what is read of one table, in snapshots and in transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::attempt::{Attempt, Engine, GivenBack, Terms};
use super::fair_queue::Lane;
use super::metrics::StoreMeters;
use super::observed::ObservedReader;
use super::reader::Reader;
use super::writes::WriteBatch;
use crate::base::Result;

/// An engine that adds the values that are read of a table to a count.
pub struct Counting {
    engine: Arc<dyn Engine>,
    table: &'static str,
    count: Arc<AtomicUsize>,
}

impl Counting {
    /// Counts what is read of `table` through this engine.
    pub fn over(
        engine: Arc<dyn Engine>,
        table: &'static str,
        count: Arc<AtomicUsize>,
    ) -> Arc<dyn Engine> {
        Arc::new(Counting { engine, table, count })
    }

    fn seen(&self) -> impl Fn(&'static str, usize) + Send + Sync + 'static {
        let (counted, count) = (self.table, self.count.clone());
        move |table, _| {
            count.fetch_add(usize::from(table == counted), Ordering::Relaxed);
        }
    }
}

impl Engine for Counting {
    fn snapshot(&self) -> Arc<dyn Reader> {
        Arc::new(ObservedReader::new(self.engine.snapshot(), self.seen()))
    }
    fn submit(&self, attempt: Box<dyn Attempt>, terms: Terms) -> Result<()> {
        self.engine.submit(Box::new(Counted { attempt, seen: self.seen() }), terms)
    }
    fn close(&self) {
        self.engine.close();
    }
    fn meters(&self) -> Arc<StoreMeters> {
        self.engine.meters()
    }
}

struct Counted<F> {
    attempt: Box<dyn Attempt>,
    seen: F,
}

impl<F: Fn(&'static str, usize) + Send + Sync> Attempt for Counted<F> {
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        self.attempt.run(&ObservedReader::new(reader, &self.seen))
    }
    fn lane(&self) -> Lane {
        self.attempt.lane()
    }
    fn bytes(&self) -> usize {
        self.attempt.bytes()
    }
    fn complete(self: Box<Self>, end: Result<()>) {
        self.attempt.complete(end);
    }
    fn give_back(self: Box<Self>, why: GivenBack) {
        self.attempt.give_back(why);
    }
}
