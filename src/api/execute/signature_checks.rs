//! Checks of the signatures of outside agents: one at a time, and on a thread of lower priority, so
//! that however many are sent, the requests of members go first.

use std::net::IpAddr;
use std::time::Duration;

use crate::auth::nostr::{Claim, Signer};
use crate::base::{Error, Result, address_network};
use crate::store::{Admission, AdmissionLimits, HeavyThreads};

/// One check at a time: one thread makes some 10,000 a second, more than rate limits let through to a
/// hundred organizations. Requests that wait for theirs do for some 50 ms, all together, each with a head of
/// some kilobytes; no network fills the queue.
const LIMITS: AdmissionLimits = AdmissionLimits {
    admitted: 1,
    admitted_of_one: [1; 2],
    waiting: 512,
    waiting_of_one: [384; 2],
    wait: Duration::from_secs(30),
    refusal: || {
        Error::busy(
            "overloaded",
            "too many signatures of agents outside are being checked; try again",
            1,
        )
    },
};

/// Checks signatures.
pub struct SignatureChecks {
    pub(super) turns: Admission<IpAddr>,
    threads: HeavyThreads,
}

impl Default for SignatureChecks {
    fn default() -> Self {
        SignatureChecks { turns: Admission::new(LIMITS), threads: HeavyThreads::default() }
    }
}

impl SignatureChecks {
    /// Checks the signature of a request from this address, in the turn of its network.
    ///
    /// # Errors
    /// 401 if it is wrong; 503 if too many wait.
    pub async fn verify(&self, claim: Claim, address: IpAddr) -> Result<Signer> {
        let turn = self.turns.enter([address_network(address); 2], 0).await?;
        let check = move || {
            // A dropped request holds its turn until its check ends.
            let _turn = turn;
            claim.verify()
        };
        self.threads.run(check).await?
    }
}
