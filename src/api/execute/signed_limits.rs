//! Rate limits of signed requests, which agents outside send (reference: exchange, "Too many
//! requests"). They hold whatever `--rate-limit` says.

use std::net::IpAddr;
use std::num::NonZeroU32;

use governor::{Quota, RateLimiter};
use uuid::Uuid;

use super::rate_limits::{Keyed, take};
use crate::base::{Error, Kind, ReachedLimit, Result, address_block, address_network};

/// Requests per minute and address: an agent that polls its thread needs a few, and a signature
/// costs more to check than anything else that an outsider may ask for.
const A_MINUTE: NonZeroU32 = NonZeroU32::new(60).expect("it is not zero");

/// Requests per second to an organization, from all addresses together, and as many again of keys
/// that it has accepted. Each leaves a row for up to two minutes, so this bounds them to 24,000.
const A_SECOND: NonZeroU32 = NonZeroU32::new(100).expect("it is not zero");

/// Requests per second of one network to an organization: three quarters, so that a sender with all
/// addresses of a network leaves something for the others.
const A_SECOND_OF_NETWORK: NonZeroU32 = NonZeroU32::new(75).expect("it is not zero");

/// Requests per minute that are reserved for a key that an organization has accepted: as many as one
/// address may send.
const RESERVED_A_MINUTE: NonZeroU32 = A_MINUTE;

/// Calls in an hour to one host that outside agents cause, half of all look-ups of a host: they
/// leave the others for those who verify it.
const CALLS_AN_HOUR: NonZeroU32 = NonZeroU32::new(600).expect("it is not zero");

/// So many of them at once.
const CALLS_AT_ONCE: NonZeroU32 = NonZeroU32::new(60).expect("it is not zero");

/// The token buckets of signed requests.
pub struct SignedLimits {
    addresses: Keyed<IpAddr>,
    networks: Keyed<(Uuid, IpAddr)>,
    organizations: Keyed<Uuid>,
    reserved: Keyed<(Uuid, [u8; 32])>,
    reserved_of_organizations: Keyed<Uuid>,
    hosts: Keyed<String>,
}

impl Default for SignedLimits {
    fn default() -> Self {
        SignedLimits {
            addresses: RateLimiter::hashmap(Quota::per_minute(A_MINUTE)),
            networks: RateLimiter::hashmap(Quota::per_second(A_SECOND_OF_NETWORK)),
            organizations: RateLimiter::hashmap(Quota::per_second(A_SECOND)),
            reserved: RateLimiter::hashmap(Quota::per_minute(RESERVED_A_MINUTE)),
            reserved_of_organizations: RateLimiter::hashmap(Quota::per_second(A_SECOND)),
            hosts: RateLimiter::hashmap(Quota::per_hour(CALLS_AN_HOUR).allow_burst(CALLS_AT_ONCE)),
        }
    }
}

impl SignedLimits {
    /// Counts a request for its address, also one whose signature is wrong.
    ///
    /// # Errors
    /// 429.
    pub fn of_address(&self, address: IpAddr) -> Result<()> {
        take(Some(&self.addresses), &address_block(address)).map_err(|secs| {
            let limit = ReachedLimit { name: "nip98", quota: A_MINUTE.get(), window_secs: 60 };
            Error::new(
                Kind::Limited,
                "rate_limited",
                "too many signed requests; wait as Retry-After says",
            )
            .retry_after(secs)
            .limit(limit)
        })
    }

    /// Counts a request for the organization it is about and its network there, also one whose
    /// signature is wrong.
    ///
    /// # Errors
    /// 429 if its network has sent too many; 503 if all together have: it is not the caller who
    /// sends too much.
    pub fn of_organization(&self, org: Uuid, address: IpAddr) -> Result<()> {
        let network = (org, address_network(address));
        take(Some(&self.networks), &network).map_err(|secs| {
            let (name, quota) = ("nip98-network", A_SECOND_OF_NETWORK.get());
            Error::new(
                Kind::Limited,
                "rate_limited",
                "too many signed requests from the network of this address; wait as Retry-After says",
            )
            .retry_after(secs)
            .limit(ReachedLimit { name, quota, window_secs: 1 })
        })?;
        take(Some(&self.organizations), &org).map_err(|secs| {
            let (name, quota) = ("nip98-organization", A_SECOND.get());
            Error::busy(
                "overloaded",
                "too many agents outside are writing to this organization; try again",
                secs,
            )
            .limit(ReachedLimit { name, quota, window_secs: 1 })
        })
    }

    /// Counts a request of a key that the organization has accepted; returns whether some were left
    /// of those that are reserved for it. Only one whose signature is right may be counted: anyone
    /// can send the key of another.
    pub fn take_reserved(&self, org: Uuid, key: [u8; 32]) -> bool {
        take(Some(&self.reserved), &(org, key)).is_ok()
            && take(Some(&self.reserved_of_organizations), &org).is_ok()
    }

    /// Counts a call to a host that an outside agent causes.
    ///
    /// # Errors
    /// 429.
    pub fn call(&self, host: &str) -> Result<()> {
        take(Some(&self.hosts), &host.to_ascii_lowercase()).map_err(|secs| {
            let (name, quota) = ("handle-checks", CALLS_AN_HOUR.get());
            Error::new(
                Kind::Limited,
                "rate_limited",
                "the domain of the handle was asked too often; wait as Retry-After says",
            )
            .retry_after(secs)
            .limit(ReachedLimit { name, quota, window_secs: 3600 })
        })
    }

    /// Drops buckets that are full again.
    pub fn evict_idle(&self) {
        self.addresses.retain_recent();
        self.networks.retain_recent();
        self.organizations.retain_recent();
        self.reserved.retain_recent();
        self.reserved_of_organizations.retain_recent();
        self.hosts.retain_recent();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORG: Uuid = Uuid::from_u128(1);

    fn ipv4(network: u8, host: u16) -> IpAddr {
        let [high, low] = host.to_be_bytes();
        IpAddr::from([10, network, high, low])
    }

    #[test]
    fn an_address_has_60_a_minute_and_a_host_as_many_calls() {
        let limits = SignedLimits::default();
        let address = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, n]);
        assert_eq!((0..100).filter(|n| limits.of_address(address(*n)).is_ok()).count(), 60);
        assert_eq!(limits.of_address(address(1)).unwrap_err().reached().unwrap().name, "nip98");
        assert!(limits.of_address(ipv4(1, 1)).is_ok());
        let calls = |host: &str| (0..100).filter(|_| limits.call(host).is_ok()).count();
        assert_eq!((calls("a.test"), calls("A.Test"), calls("b.test")), (60, 0, 60));
        // One comes back in six seconds: 600 in an hour, and other look-ups are left.
        let refused = limits.call("a.test").unwrap_err();
        assert!((2..=6).contains(&refused.retry_after_secs().unwrap()));
        assert_eq!(refused.reached().unwrap().quota, 600);
    }

    #[test]
    fn a_network_with_many_addresses_leaves_something_of_an_organization_for_others() {
        let limits = SignedLimits::default();
        let from = |network| {
            let mut sent = (0..).map(|host| limits.of_organization(ORG, ipv4(network, host)));
            let refused = (0..).find_map(|nth| Some((nth, sent.next()?.err()?)));
            refused.expect("they are limited")
        };
        let (first, refused) = from(1);
        // Those that a few milliseconds add.
        assert!((75..90).contains(&first), "{first}");
        assert_eq!((refused.kind(), refused.retry_after_secs()), (Kind::Limited, Some(1)));
        assert_eq!(refused.reached().unwrap().name, "nip98-network");
        let (second, refused) = from(2);
        assert!((10..50).contains(&second), "{second}");
        assert_eq!((refused.kind(), refused.code()), (Kind::Busy, "overloaded"));
        // Those of another organization are its own.
        assert!(limits.of_organization(Uuid::from_u128(2), ipv4(1, 1)).is_ok());
    }

    #[test]
    fn an_accepted_key_has_requests_that_others_cannot_use_up() {
        let limits = SignedLimits::default();
        while limits.of_organization(ORG, ipv4(1, 1)).is_ok() {}
        while limits.of_organization(ORG, ipv4(2, 1)).is_ok() {}
        let reserved = |org, key| (0..100).filter(|_| limits.take_reserved(org, [key; 32])).count();
        assert_eq!((reserved(ORG, 1), reserved(Uuid::from_u128(2), 1)), (60, 60));
        // All accepted keys of an organization together have no more than strangers.
        let others: usize = (2..100).map(|key| reserved(ORG, key)).sum();
        assert!((40..60).contains(&others), "{others}");
    }
}
