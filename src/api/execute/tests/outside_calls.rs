//! Calls that outside agents cause, to hosts that do not answer.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;

use super::*;
use crate::api::execute::call_round::CallRound;
use crate::api::execute::executor::MAX_OUTSIDE_CALLS;
use crate::store::Permit;

type Admission<'a> = Pin<Box<dyn Future<Output = Result<Permit>> + 'a>>;

/// What an admission is now; `None` while it waits.
async fn now(admission: &mut Admission<'_>) -> Option<Result<Permit>> {
    tokio::time::timeout(Duration::ZERO, admission).await.ok()
}

#[tokio::test]
async fn an_address_whose_hosts_are_slow_does_not_hold_up_the_others() {
    let fixture = Fixture::new().await;
    let round = CallRound::new(&fixture.executor, None, None);
    let from = |last: u8| -> Admission {
        Box::pin(round.admit(&[], IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))))
    };
    let mut held = Vec::new();
    for _ in 0..MAX_OUTSIDE_CALLS {
        held.push(now(&mut from(1)).await.expect("there is room").unwrap());
    }
    let mut waiting: Vec<_> = (0..8).map(|_| from(1)).collect();
    for one in &mut waiting {
        assert!(now(one).await.is_none());
    }
    let refused = now(&mut from(1)).await.expect("it does not wait").err().unwrap();
    assert_eq!((refused.kind(), refused.code()), (Kind::Busy, "overloaded"));

    let mut other = from(2);
    assert!(now(&mut other).await.is_none());
    // Two places become free: one for each address.
    held.truncate(MAX_OUTSIDE_CALLS - 2);
    let (first, second) = (now(&mut waiting[0]).await, now(&mut other).await);
    assert!(first.is_some() && second.is_some());
    assert!(now(&mut waiting[1]).await.is_none());
}
