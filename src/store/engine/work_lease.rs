//! The right to do the background work of a store that several servers share.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::Engine;

/// The right to do the background work of a store that several servers share, while this one has it.
#[derive(Clone)]
pub struct WorkLease {
    /// What the work must be done with: its commits are refused once another server has the lease.
    pub engine: Arc<dyn Engine>,
}

impl fmt::Debug for WorkLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkLease")
    }
}

impl PartialEq for WorkLease {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.engine, &other.engine)
    }
}

/// The lease while this server has it; none while another one does, or nobody.
pub type WorkLeases = watch::Receiver<Option<WorkLease>>;
