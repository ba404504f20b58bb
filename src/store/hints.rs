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
    /// Whose turn the work takes.
    pub lane: Lane,
    /// The bytes of the request that the work holds in memory.
    pub bytes: usize,
}

impl WorkHints {
    /// The lane of all requests without a credential. No organization has this id.
    pub const ANONYMOUS: Lane = [0xff; 16];

    /// Small work of an organization; [`Id::NIL`]: of the server itself.
    pub fn small(org: Id<Org>) -> Self {
        WorkHints { lane: *org.bytes(), bytes: 0 }
    }

    /// Whether the work must not run where others wait for it.
    pub fn is_large(&self) -> bool {
        self.bytes > LARGE_BYTES
    }
}
