//! Calls that outside agents cause, to hosts that they choose and that may be slow: few at a time,
//! with turns between networks, and between the addresses of each.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::slots::Shares;
use crate::base::{Error, Result, address_block, address_network};
use crate::store::engine::Bounds;
use crate::store::{FairSemaphore, Lane, Permit, WorkHints};

/// Concurrent calls: a quarter of those that the process makes, so that slow hosts of outsiders do
/// not delay what members need.
const MAX_CALLS: usize = 16;

/// Those of one network: three quarters, so that a sender with all addresses of a network leaves
/// something for the others.
const MAX_CALLS_OF_NETWORK: usize = 12;

/// Requests that wait for a call, each with a body of up to 16 KiB: 8 MiB together.
const MAX_WAITING: usize = 512;

/// Those of one network and of one address: many senders of slow domains, in several networks, are
/// needed before others are turned away.
const WAITING_OF_NETWORK: Bounds =
    Bounds { items: 128, lane_items: 8, bytes: usize::MAX, lane_bytes: usize::MAX };

/// Those that got the turn of their network: no more than that many, so no further bound is needed.
const WAITING_FOR_ALL: Bounds =
    Bounds { items: MAX_WAITING, lane_items: MAX_WAITING, ..WAITING_OF_NETWORK };

/// How long a call waits for its turn: as long as one of them may take.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Admits calls that outside agents cause.
pub struct OutsideCalls {
    all: Arc<FairSemaphore>,
    networks: Shares<IpAddr, FairSemaphore>,
    waiting: Semaphore,
}

/// A call, until it is dropped.
pub struct OutsideCall {
    _of_all: Permit,
    _of_network: Permit,
}

impl Default for OutsideCalls {
    fn default() -> Self {
        let of_network = || FairSemaphore::with_waiting(MAX_CALLS_OF_NETWORK, WAITING_OF_NETWORK);
        OutsideCalls {
            all: Arc::new(FairSemaphore::with_waiting(MAX_CALLS, WAITING_FOR_ALL)),
            networks: Shares::new(of_network),
            waiting: Semaphore::new(MAX_WAITING),
        }
    }
}

impl OutsideCalls {
    /// Waits for the turn of this address.
    ///
    /// # Errors
    /// 503 if it does not come in time, or too many wait.
    pub async fn admit(&self, address: IpAddr) -> Result<OutsideCall> {
        let network = address_network(address);
        let of_network = self.networks.of_one(network);
        let turn = async {
            let _waiting = self.waiting.try_acquire().ok()?;
            let _of_network = of_network.acquire(hints(address_block(address))).await.ok()?;
            let _of_all = self.all.acquire(hints(network)).await.ok()?;
            Some(OutsideCall { _of_all, _of_network })
        };
        timeout(MAX_WAIT, turn).await.ok().flatten().ok_or_else(|| {
            Error::busy(
                "overloaded",
                "too many requests of agents outside are in progress; try again",
                5,
            )
        })
    }
}

fn hints(address: IpAddr) -> WorkHints {
    WorkHints::of_lane(lane_of(address))
}

/// The lane of an address, or of a network.
pub fn lane_of(address: IpAddr) -> Lane {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;
    use crate::base::Kind;

    type Admission<'a> = Pin<Box<dyn Future<Output = Result<OutsideCall>> + 'a>>;

    /// What an admission is now; `None` while it waits.
    async fn now(admission: &mut Admission<'_>) -> Option<Result<OutsideCall>> {
        timeout(Duration::ZERO, admission).await.ok()
    }

    #[tokio::test]
    async fn neither_an_address_nor_a_network_whose_hosts_are_slow_holds_up_the_others() {
        let calls = OutsideCalls::default();
        let from = |network: u8, last: u8| -> Admission {
            Box::pin(calls.admit(IpAddr::from([192, network, 2, last])))
        };
        let mut held = Vec::new();
        for _ in 0..MAX_CALLS_OF_NETWORK {
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
        held.truncate(MAX_CALLS_OF_NETWORK - 2);
        let (first, second) = (now(&mut waiting[0]).await, now(&mut neighbour).await);
        assert!(first.is_some() && second.is_some());
        assert!(now(&mut waiting[1]).await.is_none());
    }

    #[tokio::test]
    async fn a_network_with_many_addresses_does_not_fill_the_queue() {
        let calls = OutsideCalls::default();
        let from = |network: u8, last: u8| -> Admission {
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
        assert_eq!((held.len(), refused), (MAX_CALLS_OF_NETWORK, 256 - 12 - 128));
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
        let mut others: Vec<_> = (0..MAX_CALLS_OF_NETWORK)
            .map(|_| Box::pin(calls.admit(IpAddr::from([192, 0, 2, 2]))) as Admission)
            .collect();
        let mut admitted = Vec::new();
        for other in &mut others {
            admitted.extend(now(other).await);
        }
        assert_eq!(admitted.len(), MAX_CALLS_OF_NETWORK - 1, "one has its place still");
        drop(held);
    }
}
