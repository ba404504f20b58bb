//! How many exchanges with other servers there may be at a time.

use std::time::Duration;

use crate::base::Error;
use crate::store::{Admission, AdmissionLimits, Lane};

/// Exchanges at a time: an eighth of the calls that the process makes. A person has some side by side, an
/// organization not all; each ends within minutes.
const EXCHANGES: AdmissionLimits = AdmissionLimits {
    admitted: 32,
    admitted_of_one: [4, 12],
    waiting: 256,
    waiting_of_one: [8, 32],
    wait: Duration::from_secs(10),
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
}

impl Default for Exchanges {
    fn default() -> Self {
        Exchanges { of_caller: Admission::new(EXCHANGES), of_server: Admission::new(OF_SERVER) }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test]
    async fn a_person_an_organization_and_a_server_have_a_share_each() {
        let Exchanges { of_caller, of_server } = Exchanges::default();
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
}
