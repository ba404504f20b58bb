//! What is known of a request before it runs.

use super::engine::Lane;
use super::record::Org;
use crate::base::Id;

/// A request with more bytes than this is large: it runs in the turn of its lane on a thread that
/// may block. 64 KiB: parsing, checking and encoding that much takes about a millisecond at worst,
/// which every other request on the same thread, or in the same commit, may have to wait.
pub const LARGE_BYTES: usize = 64 * 1024;

/// What is known of a request before it runs. It decides where the request runs and when, not what
/// it may do.
#[derive(Clone, Copy, Debug)]
pub struct WorkHints {
    /// Whose turn the work takes: an organization's, or that of another sharer.
    pub lane: Lane,
    /// Whose turn the work takes as well, if it is large: that of the person behind the request. One
    /// person may have many organizations. Where there is none, the lane again.
    pub user: Lane,
    /// The bytes of the request that the work holds in memory.
    pub bytes: usize,
}

impl WorkHints {
    /// The lane of all requests without a credential. No organization has this id.
    pub const ANONYMOUS: Lane = [0xff; 16];

    /// Small work of an organization; [`Id::NIL`]: of the server itself.
    pub fn small(org: Id<Org>) -> Self {
        WorkHints::of_lane(*org.bytes())
    }

    /// Small work of this lane alone.
    pub fn of_lane(lane: Lane) -> Self {
        WorkHints { lane, user: lane, bytes: 0 }
    }

    /// The same for work that takes long however small its request is: it counts as large.
    pub fn costly(self) -> Self {
        WorkHints { bytes: self.bytes.max(LARGE_BYTES + 1), ..self }
    }

    /// Whose turn the work takes: the person's and the lane's.
    pub fn keys(&self) -> [Lane; 2] {
        [self.user, self.lane]
    }

    /// Whether the work must not run where others wait for it.
    pub fn is_large(&self) -> bool {
        self.bytes > LARGE_BYTES
    }
}
