//! The engine of the background work: each of its commits is refused unless the lease is still the
//! one that it was given.

use std::sync::Arc;

use super::super::{Attempt, Engine, Reader, Snapshot, StoreMeters, Terms};
use super::presence::Presence;
use super::shared::Shared;
use crate::base::Result;

/// An engine whose commits need the lease.
pub struct Fenced {
    shared: Arc<Shared>,
    lease: Arc<Presence>,
}

impl Fenced {
    /// Creates the engine of this lease.
    pub fn new(shared: Arc<Shared>, lease: Presence) -> Self {
        Fenced { shared, lease: Arc::new(lease) }
    }
}

impl Engine for Fenced {
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
        self.shared.is_telling
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
