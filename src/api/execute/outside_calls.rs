//! Calls that outside agents cause, to hosts that they choose and that may be slow: few at a time,
//! with turns between networks, and between the addresses of each.

use std::net::IpAddr;
use std::time::Duration;

use crate::base::{Error, Result, address_block, address_network};
use crate::store::{Admission, AdmissionLimits, Permit};

/// Concurrent calls: a quarter of those that the process makes, so that slow hosts of outsiders do
/// not delay what members need. Those of one network are three quarters, so that a sender with all
/// addresses of a network leaves something for the others.
///
/// 512 requests wait, each with a body of up to 16 KiB: 8 MiB together. Those of one address and of one
/// network: many senders of slow domains, in several networks, are needed before others are turned away.
/// A call waits as long as one of them may take.
const LIMITS: AdmissionLimits = AdmissionLimits {
    admitted: 16,
    admitted_of_one: [usize::MAX, 12],
    waiting: 512,
    waiting_of_one: [8, 128],
    wait: Duration::from_secs(5),
    refusal: || {
        Error::busy(
            "overloaded",
            "too many requests of agents outside are in progress; try again",
            5,
        )
    },
};

/// Admits calls that outside agents cause.
pub struct OutsideCalls(pub(super) Admission<IpAddr>);

/// A call, until it is dropped.
pub type OutsideCall = Permit<IpAddr>;

impl Default for OutsideCalls {
    fn default() -> Self {
        OutsideCalls(Admission::new(LIMITS))
    }
}

impl OutsideCalls {
    /// Waits for the turn of this address.
    ///
    /// # Errors
    /// 503 if it does not come in time, or too many wait.
    pub async fn admit(&self, address: IpAddr) -> Result<OutsideCall> {
        self.0.enter([address_block(address), address_network(address)], 0).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use tokio::time::timeout;

    use super::*;
    use crate::base::Kind;

    type Admitting<'a> = Pin<Box<dyn Future<Output = Result<OutsideCall>> + 'a>>;

    /// What an admission is now; `None` while it waits.
    async fn now(admission: &mut Admitting<'_>) -> Option<Result<OutsideCall>> {
        timeout(Duration::ZERO, admission).await.ok()
    }

    #[tokio::test]
    async fn neither_an_address_nor_a_network_whose_hosts_are_slow_holds_up_the_others() {
        let calls = OutsideCalls::default();
        let from = |network: u8, last: u8| -> Admitting {
            Box::pin(calls.admit(IpAddr::from([192, network, 2, last])))
        };
        let mut held = Vec::new();
        for _ in 0..LIMITS.admitted_of_one[1] {
            held.push(now(&mut from(0, 1)).await.expect("there is room").unwrap());
        }
        let mut waiting: Vec<_> = (0..8).map(|_| from(0, 1)).collect();
        for one in &mut waiting {
            assert!(now(one).await.is_none());
        }
        let refused = now(&mut from(0, 1)).await.expect("it does not wait").err().unwrap();
        assert_eq!((refused.kind(), refused.code()), (Kind::Busy, "overloaded"));

        let mut neighbour = from(0, 2);
        assert!(now(&mut neighbour).await.is_none());
        let other = now(&mut from(1, 1)).await.expect("its network has room");
        assert!(other.is_ok());
        // Two places become free: one for each address.
        held.truncate(LIMITS.admitted_of_one[1] - 2);
        let (first, second) = (now(&mut waiting[0]).await, now(&mut neighbour).await);
        assert!(first.is_some() && second.is_some());
        assert!(now(&mut waiting[1]).await.is_none());
    }

    #[tokio::test]
    async fn a_network_with_many_addresses_does_not_fill_the_queue() {
        let calls = OutsideCalls::default();
        let from = |network: u8, last: u8| -> Admitting {
            Box::pin(calls.admit(IpAddr::from([192, network, 2, last])))
        };
        let mut all: Vec<_> = (0..=255).map(|last| from(0, last)).collect();
        let mut held = Vec::new();
        let mut refused = 0;
        for one in &mut all {
            match now(one).await {
                Some(Ok(call)) => held.push(call),
                Some(Err(_)) => refused += 1,
                None => {}
            }
        }
        assert_eq!((held.len(), refused), (LIMITS.admitted_of_one[1], 256 - 12 - 128));
        assert!(now(&mut from(1, 1)).await.is_some_and(|admitted| admitted.is_ok()));
    }

    #[tokio::test]
    async fn a_network_that_has_calls_is_not_forgotten() {
        let calls = OutsideCalls::default();
        let held = calls.admit(IpAddr::from([192, 0, 2, 1])).await.unwrap();
        for n in 0..1000_u16 {
            let [high, low] = n.to_be_bytes();
            drop(calls.admit(IpAddr::from([10 + high, low, 2, 1])).await.unwrap());
        }
        let mut others: Vec<_> = (0..LIMITS.admitted_of_one[1])
            .map(|_| Box::pin(calls.admit(IpAddr::from([192, 0, 2, 2]))) as Admitting)
            .collect();
        let mut admitted = Vec::new();
        for other in &mut others {
            admitted.extend(now(other).await);
        }
        assert_eq!(admitted.len(), LIMITS.admitted_of_one[1] - 1, "one has its place still");
        drop(held);
    }
}
