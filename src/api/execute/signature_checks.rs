//! Checks of the signatures of outside agents: one at a time, and on a thread of lower priority, so
//! that however many are sent, the requests of members go first.

use std::net::IpAddr;
use std::sync::Arc;

use super::outside_calls::lane_of;
use crate::auth::nostr::{Claim, Signer};
use crate::base::{Error, Result, address_network};
use crate::store::engine::Bounds;
use crate::store::{FairSemaphore, HeavyThreads, WorkHints};

/// Checks at a time: one thread makes some 10,000 a second, more than rate limits let through to a
/// hundred organizations.
const MAX_CONCURRENT_CHECKS: usize = 1;

/// Requests that wait for their check, all together for some 50 ms, each with a head of some
/// kilobytes. The lane is the network; no network fills the queue.
const WAITING_CHECKS: Bounds =
    Bounds { items: 512, lane_items: 384, bytes: usize::MAX, lane_bytes: usize::MAX };

/// When to retry if too many wait.
const RETRY_SECS: u32 = 1;

/// Checks signatures.
pub struct SignatureChecks {
    turns: Arc<FairSemaphore>,
    threads: HeavyThreads,
}

impl Default for SignatureChecks {
    fn default() -> Self {
        let turns = FairSemaphore::with_waiting(MAX_CONCURRENT_CHECKS, WAITING_CHECKS);
        SignatureChecks { turns: Arc::new(turns), threads: HeavyThreads::default() }
    }
}

impl SignatureChecks {
    /// Checks the signature of a request from this address, in the turn of its network.
    ///
    /// # Errors
    /// 401 if it is wrong; 503 if too many wait.
    pub async fn verify(&self, claim: Claim, address: IpAddr) -> Result<Signer> {
        let hints = WorkHints::of_lane(lane_of(address_network(address)));
        let turn = self.turns.acquire(hints).await.map_err(|_| {
            Error::busy(
                "overloaded",
                "too many signatures of agents outside are being checked; try again",
                RETRY_SECS,
            )
        })?;
        let check = move || {
            // A dropped request holds its turn until its check ends.
            let _turn = turn;
            claim.verify()
        };
        self.threads.run(check).await?
    }
}
