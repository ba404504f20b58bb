//! The servers of a store that several share, as one of them sees them.

use std::time::Instant;

use tokio::sync::watch;

/// A server of a store that several share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenNode {
    /// Eight hexadecimal digits, others at each of its starts.
    pub id: String,
    /// What it says of itself: where it runs.
    pub description: String,
    /// Where it listens, if it says so.
    pub address: Option<String>,
    pub release: String,
    /// When its last heartbeat was seen, or it was first seen, on the clock of who observes.
    pub beat_at: Instant,
    /// Whether a heartbeat was seen: it is alive for certain.
    pub is_alive: bool,
    /// Whether it is the one that observes.
    pub is_own: bool,
    /// Whether it has the lease for the background work.
    pub has_lease: bool,
}

/// All servers of a store, as last observed.
pub type SeenNodes = watch::Receiver<Vec<SeenNode>>;
