//! How many exchanges with other servers there may be at a time.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use crate::base::{Error, Result};
use crate::store::{Admission, AdmissionLimits, Lane, Permit};

/// How long one waits in all, and a batch.
const WAIT: Duration = Duration::from_secs(10);
const BATCH_WAIT: Duration = Duration::from_secs(30);

/// Exchanges at a time: an eighth of the calls that the process makes. A person has some side by side, an
/// organization not all; each ends within minutes.
const EXCHANGES: AdmissionLimits = AdmissionLimits {
    admitted: 32,
    admitted_of_one: [4, 12],
    waiting: 256,
    waiting_of_one: [8, 32],
    wait: WAIT,
    refusal: || {
        Error::busy("overloaded", "too many models are being asked; wait for their answers", 5)
    },
};

/// Those of one server: it would refuse more, and answer each more slowly.
const OF_SERVER: AdmissionLimits = AdmissionLimits {
    admitted_of_one: [6, usize::MAX],
    refusal: || {
        Error::busy(
            "overloaded",
            "this LLM provider is asked by too many others at the moment; try again",
            5,
        )
    },
    ..EXCHANGES
};

/// Admits exchanges.
pub struct Exchanges {
    pub of_caller: Admission<Lane>,
    pub of_server: Admission<Lane>,
    /// The longest wait for both, and for those of a batch.
    wait: Duration,
    batch_wait: Duration,
}

impl Default for Exchanges {
    fn default() -> Self {
        Exchanges {
            of_caller: Admission::new(EXCHANGES),
            of_server: Admission::new(OF_SERVER),
            wait: WAIT,
            batch_wait: BATCH_WAIT,
        }
    }
}

impl Exchanges {
    /// Waits until a person, with its organization, may call a server.
    ///
    /// # Errors
    /// 503 if as many wait as may, or after the maximum wait.
    pub async fn enter(&self, caller: [Lane; 2], server: Lane) -> Result<[Permit<Lane>; 2]> {
        let both = async {
            let of_caller = self.of_caller.enter(caller, 0).await?;
            Ok([of_caller, self.of_server.enter([server, caller[1]], 0).await?])
        };
        timeout(self.wait, both).await.unwrap_or_else(|_| Err((OF_SERVER.refusal)()))
    }

    /// The same for a batch, which has one of these slots instead of that of an exchange.
    ///
    /// # Errors
    /// As [`Exchanges::enter`].
    pub async fn enter_batch(
        &self,
        slots: &Admission<Lane>,
        caller: [Lane; 2],
        server: Lane,
    ) -> Result<[Permit<Lane>; 2]> {
        let until = Instant::now() + self.batch_wait;
        // Each says what was waited for; the first one is bounded by its own wait.
        let of_caller = slots.enter(caller, 0).await?;
        let of_server = timeout_at(until, self.of_server.enter([server, caller[1]], 0)).await;
        Ok([of_caller, of_server.unwrap_or_else(|_| Err((OF_SERVER.refusal)()))?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test]
    async fn a_person_an_organization_and_a_server_have_a_share_each() {
        let Exchanges { of_caller, of_server, .. } = Exchanges::default();
        let mut held = Vec::new();
        for person in 0..3 {
            for _ in 0..4 {
                held.push(of_caller.enter([[person; 16], [9; 16]], 0).await.unwrap());
            }
        }
        assert!(soon(of_caller.enter([[0; 16], [8; 16]], 0)).await.is_none(), "of a person");
        assert!(soon(of_caller.enter([[7; 16], [9; 16]], 0)).await.is_none(), "of an organization");
        assert!(soon(of_caller.enter([[7; 16], [8; 16]], 0)).await.is_some());
        for _ in 0..6 {
            held.push(of_server.enter([[1; 16], [9; 16]], 0).await.unwrap());
        }
        assert!(soon(of_server.enter([[1; 16], [9; 16]], 0)).await.is_none(), "of a server");
        assert!(soon(of_server.enter([[2; 16], [9; 16]], 0)).await.is_some());
    }
    #[tokio::test]
    async fn the_wait_for_both_slots_is_bounded_as_one() {
        let for_hours = |limits: AdmissionLimits| {
            Admission::new(AdmissionLimits { wait: Duration::from_secs(36_000), ..limits })
        };
        let all = Exchanges {
            of_caller: for_hours(EXCHANGES),
            of_server: for_hours(OF_SERVER),
            wait: Duration::from_millis(50),
            batch_wait: Duration::from_millis(50),
        };
        let mut held = Vec::new();
        for organization in 0..6 {
            held.push(all.enter([[organization; 16]; 2], [1; 16]).await.unwrap());
        }
        let refused = all.enter([[7; 16]; 2], [1; 16]);
        let refused = timeout(Duration::from_secs(60), refused).await.expect("it does not wait on");
        assert_eq!(refused.err().unwrap().code(), "overloaded");
        assert_eq!(all.of_caller.figures().admitted, 6, "what it had of its own is free");
        let slots = for_hours(EXCHANGES);
        let refused = all.enter_batch(&slots, [[7; 16]; 2], [1; 16]);
        let refused = timeout(Duration::from_secs(60), refused).await.expect("nor does a batch");
        assert_eq!(refused.err().unwrap().code(), "overloaded");
        assert_eq!(slots.figures().admitted, 0);
    }
}
