//! Fencing of the background work: its engine, each of whose commits is refused unless the lease is still
//! the one that it was given.

use std::sync::Arc;

use super::super::{Attempt, Engine, Reader, Snapshot, StoreMeters, Terms};
use super::membership::Member;
use super::shared::Shared;
use crate::base::{Error, Result};

/// An engine whose commits need the lease.
pub struct FencedEngine {
    shared: Arc<Shared>,
    lease: Arc<Member>,
}

impl FencedEngine {
    /// Creates the engine of this lease.
    pub fn new(shared: Arc<Shared>, lease: Member) -> Self {
        FencedEngine { shared, lease: Arc::new(lease) }
    }
}

impl Engine for FencedEngine {
    fn snapshot(&self) -> Arc<dyn Reader> {
        self.shared.clone().blocking_snapshot()
    }

    fn begin_snapshot(&self) -> Snapshot {
        self.shared.begin_snapshot()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        self.shared.notifies_nodes
    }

    fn unavailable(&self) -> Option<Error> {
        self.shared.pool.unavailable()
    }

    fn submit(&self, attempt: Box<dyn Attempt>, terms: Terms) -> Result<()> {
        self.shared.submit(attempt, terms, Some(self.lease.clone()))
    }

    /// The store is closed by who opened it.
    fn close(&self) {}

    fn meters(&self) -> Arc<StoreMeters> {
        self.shared.meters.clone()
    }
}
