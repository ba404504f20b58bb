//! The right to do the background work of a store that several servers share.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::Engine;
use crate::base::Error;

/// The detail of the error of work whose lease is another server's now.
pub(super) const LEASE_LOST: &str = "another server does the background work now";

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

/// Whether work failed since its lease is another server's now, which does it.
pub fn is_lease_lost(error: &Error) -> bool {
    error.log_detail() == Some(LEASE_LOST)
}

/// The lease while this server has it; none while another one does, or nobody.
pub type WorkLeases = watch::Receiver<Option<WorkLease>>;
