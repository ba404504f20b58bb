//! Rate limits (reference: conventions, "Rate limits").

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{NotUntil, Quota, RateLimiter};

use crate::base::{Error, Kind, ReachedLimit, Result, address_block};
use crate::store::Lane;

/// A token bucket for each key.
pub(super) type Keyed<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// Sign-in attempts per minute: a person who mistypes needs fewer, a guesser gets 14,400 a day.
const SIGN_INS_A_MINUTE: NonZeroU32 = NonZeroU32::new(10).expect("it is not zero");

/// Look-ups of handles in an hour that an organization causes, of all hosts: two verifications of as
/// many handles as it may list.
const LOOKUPS_AN_HOUR: NonZeroU32 = NonZeroU32::new(2400).expect("it is not zero");

/// Exchanges with models in a minute that a person begins, and that an organization does: each costs
/// money, and nobody reads more.
const EXCHANGES_A_MINUTE: NonZeroU32 = NonZeroU32::new(30).expect("it is not zero");
const OF_ORGANIZATION_A_MINUTE: NonZeroU32 = NonZeroU32::new(120).expect("it is not zero");

/// Attempts per minute for one e-mail address from everywhere: so many that nobody locks out its user
/// from one network, or from a few.
const OF_EMAIL_A_MINUTE: NonZeroU32 = NonZeroU32::new(100).expect("it is not zero");

/// All credentials of a person together have this many times the rate of one.
const CREDENTIALS_AT_ONCE: u32 = 16;

/// The fingerprint of a credential, and the id of the person behind it.
pub type CountedCredential = ([u8; 32], [u8; 16]);

/// The token buckets of all clients. Those of an address are of its block ([`address_block`]).
pub struct RateLimits {
    rate: u32,
    credentials: Option<Keyed<[u8; 32]>>,
    /// By the person behind the credential.
    people: Option<Keyed<[u8; 16]>>,
    addresses: Option<Keyed<IpAddr>>,
    sign_ins: SignIns,
    lookups: Keyed<Lane>,
    /// By person and by organization.
    exchanges: [Keyed<Lane>; 2],
}

struct SignIns {
    addresses: Keyed<IpAddr>,
    emails: Keyed<String>,
    both: Keyed<(String, IpAddr)>,
}

impl RateLimits {
    /// Allows `rate` requests per second, with bursts of twice that; 0 for no limit.
    pub fn new(rate: u32) -> Self {
        fn quota<K: Hash + Eq + Clone>(rate: u32) -> Option<Keyed<K>> {
            let a_second = NonZeroU32::new(rate)?;
            let at_once = NonZeroU32::new(rate.saturating_mul(2))?;
            Some(RateLimiter::hashmap(Quota::per_second(a_second).allow_burst(at_once)))
        }
        fn sign_ins<K: Hash + Eq + Clone>(a_minute: NonZeroU32) -> Keyed<K> {
            RateLimiter::hashmap(Quota::per_minute(a_minute))
        }
        RateLimits {
            rate,
            credentials: quota(rate),
            people: quota(rate.saturating_mul(CREDENTIALS_AT_ONCE)),
            addresses: quota(rate),
            sign_ins: SignIns {
                addresses: sign_ins(SIGN_INS_A_MINUTE),
                emails: sign_ins(OF_EMAIL_A_MINUTE),
                both: sign_ins(SIGN_INS_A_MINUTE),
            },
            lookups: RateLimiter::hashmap(Quota::per_hour(LOOKUPS_AN_HOUR)),
            exchanges: [EXCHANGES_A_MINUTE, OF_ORGANIZATION_A_MINUTE]
                .map(|a_minute| RateLimiter::hashmap(Quota::per_minute(a_minute))),
        }
    }

    /// Counts a request against the bucket of its credential and that of the person behind it, who
    /// may have many; or, without one, of its address.
    ///
    /// # Errors
    /// 429.
    pub fn request(&self, credential: Option<CountedCredential>, address: IpAddr) -> Result<()> {
        match credential {
            Some((credential, person)) => take(self.credentials.as_ref(), &credential)
                .and_then(|()| take(self.people.as_ref(), &person)),
            None => take(self.addresses.as_ref(), &address_block(address)),
        }
        .map_err(|secs| {
            let limit = ReachedLimit { name: "default", quota: self.rate, window_secs: 1 };
            Error::new(Kind::Limited, "rate_limited", "too many requests; wait as Retry-After says")
                .retry_after(secs)
                .limit(limit)
        })
    }

    /// Counts a sign-in attempt for its address, for the pair of its e-mail and its address, and in a
    /// much larger bucket for its e-mail: attempts from one address lock the user out nowhere else. If
    /// the address is known to have signed in with the e-mail, only the pair counts, so that attempts of
    /// others, from the same or another address, lock no user out.
    ///
    /// # Errors
    /// 429.
    pub fn sign_in(&self, email: &str, known: bool, address: IpAddr) -> Result<()> {
        let address = address_block(address);
        let SignIns { addresses, emails, both } = &self.sign_ins;
        let of_address = || take(Some(addresses), &address);
        let of_email = || take(Some(emails), &email.to_string());
        let of_both = || take(Some(both), &(email.to_string(), address));
        // An attempt that its address has no room for is none for the e-mail. Those before the first
        // success count for the pair too.
        let taken = if known {
            of_both()
        } else {
            of_address().and_then(|()| of_both()).and_then(|()| of_email())
        };
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

    /// Counts an exchange with a model for the person and the organization.
    ///
    /// # Errors
    /// 429.
    pub fn exchange(&self, person: Lane, organization: Lane) -> Result<()> {
        let [people, organizations] = &self.exchanges;
        let of_person = ("model", EXCHANGES_A_MINUTE);
        let of_organization = ("model-organization", OF_ORGANIZATION_A_MINUTE);
        take(Some(people), &person).map_err(|secs| too_many_exchanges(secs, of_person)).and_then(
            |()| {
                take(Some(organizations), &organization)
                    .map_err(|secs| too_many_exchanges(secs, of_organization))
            },
        )
    }

    /// Drops buckets that are full again, so that memory does not grow with every address.
    pub fn evict_idle(&self) {
        if let Some(credentials) = &self.credentials {
            credentials.retain_recent();
        }
        if let Some(addresses) = &self.addresses {
            addresses.retain_recent();
        }
        if let Some(people) = &self.people {
            people.retain_recent();
        }
        self.sign_ins.addresses.retain_recent();
        self.sign_ins.emails.retain_recent();
        self.sign_ins.both.retain_recent();
        self.lookups.retain_recent();
        self.exchanges.iter().for_each(RateLimiter::retain_recent);
    }

    /// Counts look-ups of handles that an organization causes: all or none, so that what is refused
    /// keeps no later request waiting.
    ///
    /// # Errors
    /// 429.
    pub fn lookups(&self, organization: Lane, number: usize) -> Result<()> {
        let Some(number) = u32::try_from(number).ok().and_then(NonZeroU32::new) else {
            return Ok(());
        };
        let taken = match self.lookups.check_key_n(&organization, number) {
            Ok(taken) => taken.map_err(|until| secs_until(&until)),
            // More than there ever are at once.
            Err(_) => Err(3600),
        };
        taken.map_err(|secs| {
            let (name, quota) = ("handle-checks-organization", LOOKUPS_AN_HOUR.get());
            let message =
                "the organization has looked up too many handles; wait as Retry-After says";
            Error::new(Kind::Limited, "rate_limited", message)
                .retry_after(secs)
                .limit(ReachedLimit { name, quota, window_secs: 3600 })
        })
    }
}

/// Exchanges that are over the rate of a person, or of an organization.
fn too_many_exchanges(secs: u32, (name, quota): (&'static str, NonZeroU32)) -> Error {
    let limit = ReachedLimit { name, quota: quota.get(), window_secs: 60 };
    let message = "models were asked too often; wait as Retry-After says";
    Error::new(Kind::Limited, "rate_limited", message).retry_after(secs).limit(limit)
}

fn too_many_sign_ins(secs: u32) -> Error {
    let limit = ReachedLimit { name: "sign-in", quota: SIGN_INS_A_MINUTE.get(), window_secs: 60 };
    let message = "too many sign-in attempts; wait as Retry-After says";
    Error::new(Kind::Limited, "rate_limited", message).retry_after(secs).limit(limit)
}

/// Takes a token from a bucket; the error is the time until there is one, in seconds.
pub(super) fn take<K: Hash + Eq + Clone>(bucket: Option<&Keyed<K>>, key: &K) -> Result<(), u32> {
    let Some(bucket) = bucket else { return Ok(()) };
    bucket.check_key(key).map_err(|until| secs_until(&until))
}

/// The time until there is what was asked for, in seconds.
fn secs_until(until: &NotUntil<<DefaultClock as Clock>::Instant>) -> u32 {
    let wait = until.wait_time_from(DefaultClock::default().now());
    let secs = wait.saturating_add(Duration::from_millis(999)).as_secs().max(1);
    u32::try_from(secs).unwrap_or(u32::MAX)
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
        let allowed = (0..2 * most).filter(|_| limits.lookups([1; 16], 1).is_ok()).count();
        // Those that have come back while it was counted.
        assert!((most..most + 10).contains(&allowed), "{allowed}");
        let refused = limits.lookups([1; 16], 1).unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (Kind::Limited, "rate_limited"));
        assert!(limits.lookups([2; 16], 1).is_ok());
    }

    #[test]
    fn look_ups_for_which_there_is_no_room_together_take_none() {
        let limits = RateLimits::new(0);
        let most = LOOKUPS_AN_HOUR.get() as usize;
        assert!(limits.lookups([1; 16], most - 100).is_ok());
        for _ in 0..100 {
            assert!(limits.lookups([1; 16], 1000).is_err());
        }
        assert!(limits.lookups([1; 16], 100).is_ok());
        assert!(limits.lookups([1; 16], 2 * most).is_err());
        assert!(limits.lookups([1; 16], 0).is_ok());
    }

    #[test]
    fn a_person_asks_models_so_often_in_a_minute_and_an_organization_four_times_as_often() {
        let limits = RateLimits::new(0);
        let asked = |person: u8, organization: u8| {
            limits.exchange([person; 16], [organization; 16]).map_err(|error| error.code())
        };
        let allowed = (0..100).filter(|_| asked(1, 1).is_ok()).count();
        assert!((30..32).contains(&allowed), "{allowed}");
        assert_eq!(asked(1, 2), Err("rate_limited"), "in another organization, too");
        let allowed = (2..200).filter(|person| asked(*person, 1).is_ok()).count();
        assert!((88..92).contains(&allowed), "{allowed}");
        assert!(asked(200, 2).is_ok());
    }

    #[test]
    fn twice_the_rate_may_come_at_once_and_each_credential_has_its_own() {
        let limits = RateLimits::new(5);
        let one = Some(([1; 32], [1; 16]));
        let allowed = (0..100).filter(|_| limits.request(one, HERE).is_ok()).count();
        assert!((10..12).contains(&allowed), "{allowed}");
        assert!(limits.request(Some(([2; 32], [1; 16])), HERE).is_ok());
        assert!(limits.request(None, HERE).is_ok());
        let refused = limits.request(one, HERE).unwrap_err();
        assert_eq!((refused.kind(), refused.retry_after_secs()), (Kind::Limited, Some(1)));
    }

    #[test]
    fn all_keys_of_a_person_together_have_sixteen_times_the_rate() {
        let limits = RateLimits::new(1);
        let request = |n: u8| limits.request(Some(([n; 32], [1; 16])), HERE).is_ok();
        let allowed = (0..200).filter(|n| request(*n)).count();
        assert!((32..36).contains(&allowed), "{allowed}");
        assert!(limits.request(Some(([0; 32], [2; 16])), HERE).is_ok(), "others are not affected");
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
    fn guessing_locks_no_user_out_elsewhere() {
        let limits = RateLimits::new(0);
        let tried = (0..2000).filter(|_| limits.sign_in("ada@acme.test", false, THERE).is_ok());
        assert_eq!(tried.count(), 10);
        assert!(limits.sign_in("ada@acme.test", false, HERE).is_ok());
        assert!(limits.sign_in("ada@acme.test", true, HERE).is_ok());
        // From many networks at once there is a limit, too.
        let from = |n: u8| IpAddr::from([203, 0, 113, n]);
        let all = (0..250).map(|n| {
            (0..10).filter(|_| limits.sign_in("ben@acme.test", false, from(n)).is_ok()).count()
        });
        assert_eq!(all.sum::<usize>(), 100);
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
