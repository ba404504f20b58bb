//! Rate limits (reference: conventions, "Rate limits").

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::base::{Error, Kind, ReachedLimit, Result, address_block};
use crate::store::Lane;

/// A token bucket for each key.
pub(super) type Keyed<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// Sign-in attempts per minute: a person who mistypes needs fewer, a guesser gets 14,400 a day.
const SIGN_INS_A_MINUTE: NonZeroU32 = NonZeroU32::new(10).expect("it is not zero");

/// Look-ups of handles in an hour that an organization causes, of all hosts: two verifications of as
/// many handles as it may list.
const LOOKUPS_AN_HOUR: NonZeroU32 = NonZeroU32::new(2400).expect("it is not zero");

/// The token buckets of all clients. Those of an address are of its block ([`address_block`]).
pub struct RateLimits {
    rate: u32,
    credentials: Option<Keyed<[u8; 32]>>,
    addresses: Option<Keyed<IpAddr>>,
    sign_ins: SignIns,
    lookups: Keyed<Lane>,
}

struct SignIns {
    addresses: Keyed<IpAddr>,
    emails: Keyed<String>,
    known: Keyed<(String, IpAddr)>,
}

impl RateLimits {
    /// Allows `rate` requests per second, with bursts of twice that; 0 for no limit.
    pub fn new(rate: u32) -> Self {
        fn quota<K: Hash + Eq + Clone>(rate: u32) -> Option<Keyed<K>> {
            let a_second = NonZeroU32::new(rate)?;
            let at_once = NonZeroU32::new(rate.saturating_mul(2))?;
            Some(RateLimiter::hashmap(Quota::per_second(a_second).allow_burst(at_once)))
        }
        fn sign_ins<K: Hash + Eq + Clone>() -> Keyed<K> {
            RateLimiter::hashmap(Quota::per_minute(SIGN_INS_A_MINUTE))
        }
        RateLimits {
            rate,
            credentials: quota(rate),
            addresses: quota(rate),
            sign_ins: SignIns { addresses: sign_ins(), emails: sign_ins(), known: sign_ins() },
            lookups: RateLimiter::hashmap(Quota::per_hour(LOOKUPS_AN_HOUR)),
        }
    }

    /// Counts a request against the bucket of its credential or, without one, of its address.
    ///
    /// # Errors
    /// 429.
    pub fn request(&self, credential: Option<[u8; 32]>, address: IpAddr) -> Result<()> {
        match credential {
            Some(credential) => take(self.credentials.as_ref(), &credential),
            None => take(self.addresses.as_ref(), &address_block(address)),
        }
        .map_err(|secs| {
            let limit = ReachedLimit { name: "default", quota: self.rate, window_secs: 1 };
            Error::new(Kind::Limited, "rate_limited", "too many requests; wait as Retry-After says")
                .retry_after(secs)
                .limit(limit)
        })
    }

    /// Counts a sign-in attempt for its address, for its e-mail, and for the pair. If the address
    /// is known to have signed in with the e-mail, only the pair counts, so that attempts of
    /// others, from the same or another address, lock no user out.
    ///
    /// # Errors
    /// 429.
    pub fn sign_in(&self, email: &str, known: bool, address: IpAddr) -> Result<()> {
        let address = address_block(address);
        let SignIns { addresses, emails, known: both } = &self.sign_ins;
        let of_address = || take(Some(addresses), &address);
        let of_email = || take(Some(emails), &email.to_string());
        let of_both = || take(Some(both), &(email.to_string(), address));
        let of_any = of_address().and_then(|()| of_email());
        // Attempts before the first success count for the pair too.
        let taken = if known { of_both() } else { of_any.and_then(|()| of_both()) };
        taken.map_err(too_many_sign_ins)
    }

    /// Counts a sign-in attempt that names nobody, such as one with an unknown token, for its
    /// address.
    ///
    /// # Errors
    /// 429.
    pub fn attempt_of(&self, address: IpAddr) -> Result<()> {
        let addresses = Some(&self.sign_ins.addresses);
        take(addresses, &address_block(address)).map_err(too_many_sign_ins)
    }

    /// Drops buckets that are full again, so that memory does not grow with every address.
    pub fn evict_idle(&self) {
        if let Some(credentials) = &self.credentials {
            credentials.retain_recent();
        }
        if let Some(addresses) = &self.addresses {
            addresses.retain_recent();
        }
        self.sign_ins.addresses.retain_recent();
        self.sign_ins.emails.retain_recent();
        self.sign_ins.known.retain_recent();
        self.lookups.retain_recent();
    }

    /// Counts a look-up of a handle that an organization causes.
    ///
    /// # Errors
    /// 429.
    pub fn lookup(&self, organization: Lane) -> Result<()> {
        take(Some(&self.lookups), &organization).map_err(|secs| {
            let (name, quota) = ("handle-checks-organization", LOOKUPS_AN_HOUR.get());
            let message =
                "the organization has looked up too many handles; wait as Retry-After says";
            Error::new(Kind::Limited, "rate_limited", message)
                .retry_after(secs)
                .limit(ReachedLimit { name, quota, window_secs: 3600 })
        })
    }
}

fn too_many_sign_ins(secs: u32) -> Error {
    let limit = ReachedLimit { name: "sign-in", quota: SIGN_INS_A_MINUTE.get(), window_secs: 60 };
    let message = "too many sign-in attempts; wait as Retry-After says";
    Error::new(Kind::Limited, "rate_limited", message).retry_after(secs).limit(limit)
}

/// Takes a token from a bucket; the error is the time until there is one, in seconds.
pub(super) fn take<K: Hash + Eq + Clone>(bucket: Option<&Keyed<K>>, key: &K) -> Result<(), u32> {
    let Some(bucket) = bucket else { return Ok(()) };
    bucket.check_key(key).map_err(|until| {
        let wait = until.wait_time_from(DefaultClock::default().now());
        let secs = wait.saturating_add(Duration::from_millis(999)).as_secs().max(1);
        u32::try_from(secs).unwrap_or(u32::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn an_organization_looks_up_so_many_handles_in_an_hour() {
        let limits = RateLimits::new(0);
        let most = LOOKUPS_AN_HOUR.get() as usize;
        let allowed = (0..2 * most).filter(|_| limits.lookup([1; 16]).is_ok()).count();
        // Those that have come back while it was counted.
        assert!((most..most + 10).contains(&allowed), "{allowed}");
        let refused = limits.lookup([1; 16]).unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (Kind::Limited, "rate_limited"));
        assert!(limits.lookup([2; 16]).is_ok());
    }

    #[test]
    fn twice_the_rate_may_come_at_once_and_each_credential_has_its_own() {
        let limits = RateLimits::new(5);
        let allowed = (0..100).filter(|_| limits.request(Some([1; 32]), HERE).is_ok()).count();
        assert!((10..12).contains(&allowed), "{allowed}");
        assert!(limits.request(Some([2; 32]), HERE).is_ok());
        assert!(limits.request(None, HERE).is_ok());
        let refused = limits.request(Some([1; 32]), HERE).unwrap_err();
        assert_eq!((refused.kind(), refused.retry_after_secs()), (Kind::Limited, Some(1)));
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_share_their_buckets() {
        let address = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, n]);
        let limits = RateLimits::new(1);
        let allowed = (0..100).filter(|n| limits.request(None, address(*n)).is_ok()).count();
        assert!((2..4).contains(&allowed), "{allowed}");
        let attempt = |n| limits.sign_in(&format!("{n}@acme.test"), false, address(n));
        assert_eq!((0..100).filter(|n| attempt(*n).is_ok()).count(), 10);
        assert!(limits.request(None, IpAddr::from([0x2001, 0xdb8, 0, 8, 0, 0, 0, 1])).is_ok());
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        let limits = RateLimits::new(0);
        assert!((0..10_000).all(|_| limits.request(None, HERE).is_ok()));
    }

    #[test]
    fn guessing_does_not_lock_out_known_addresses() {
        let limits = RateLimits::new(0);
        let tried = (0..20).filter(|_| limits.sign_in("ada@acme.test", false, THERE).is_ok());
        assert_eq!(tried.count(), 10);
        assert!(limits.sign_in("ada@acme.test", false, HERE).is_err());
        assert!(limits.sign_in("ada@acme.test", true, HERE).is_ok());
        // Nor by guessing at others from the same address.
        let guess = |n| limits.sign_in(&format!("{n}@acme.test"), false, HERE);
        assert!((0..20).any(|n| guess(n).is_err()));
        assert!(limits.sign_in("ada@acme.test", true, HERE).is_ok());
    }

    #[test]
    fn every_attempt_counts_also_those_that_make_an_address_known() {
        let limits = RateLimits::new(0);
        assert!(limits.sign_in("ada@acme.test", false, HERE).is_ok());
        let tried = (0..20).filter(|_| limits.sign_in("ada@acme.test", true, HERE).is_ok());
        assert_eq!(tried.count(), 9);
    }
}
