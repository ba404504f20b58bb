//! How often one host is asked for handles, whoever asks: a verification, its repetition, an agent
//! elsewhere that claims a handle. Anybody can name any host, which did not ask for any of this.

use std::num::NonZeroU32;

use governor::clock::DefaultClock;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use hyper::Method;

use super::call::Call;

/// The path and query that only look-ups have, before the name.
pub const LOOKUP_PATH: &str = "/.well-known/nostr.json?name=";

/// Whether a call is a look-up of a handle: their number is limited, for each host and each
/// organization.
pub fn is_lookup(call: &Call) -> bool {
    call.method == Method::GET && call.url.contains(LOOKUP_PATH)
}

/// Look-ups of one host in an hour by all together: enough for the most handles that an organization
/// lists on a domain, which are asked for when all of them are confirmed, and little for a host that
/// confirms none.
pub const LOOKUPS_AN_HOUR: NonZeroU32 = NonZeroU32::new(1200).expect("it is not zero");

/// Hosts that are remembered before those that may be forgotten are.
const MAX_HOSTS: usize = 10_000;

/// Look-ups of a host in an hour that are kept for whom it has confirmed: as many handles as an
/// organization may list on it.
pub const KEPT_AN_HOUR: NonZeroU32 = NonZeroU32::new(1000).expect("it is not zero");

/// Token buckets for each host.
pub struct LookupLimit {
    all: Buckets,
    kept: Buckets,
}

type Buckets = RateLimiter<String, HashMapStateStore<String>, DefaultClock>;

impl Default for LookupLimit {
    fn default() -> Self {
        LookupLimit {
            all: RateLimiter::hashmap(Quota::per_hour(LOOKUPS_AN_HOUR)),
            kept: RateLimiter::hashmap(Quota::per_hour(KEPT_AN_HOUR)),
        }
    }
}

impl LookupLimit {
    /// Counts a look-up of this host; returns whether it may be made. One for the organization whose
    /// claim the host has confirmed takes of what is kept first.
    pub fn take(&self, host: &str, for_holder: bool) -> bool {
        let host = host.to_ascii_lowercase();
        let is_left = |buckets: &Buckets| {
            if buckets.len() > MAX_HOSTS {
                buckets.retain_recent();
            }
            buckets.check_key(&host).is_ok()
        };
        for_holder && is_left(&self.kept) || is_left(&self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the next look-ups may be made.
    fn allowed(limit: &LookupLimit, host: &str, for_holder: bool) -> usize {
        (0..3000).filter(|_| limit.take(host, for_holder)).count()
    }

    /// Besides those that have come back while it was counted.
    fn assert_about(allowed: usize, most: u32) {
        let most = most as usize;
        assert!((most..most + 10).contains(&allowed), "{allowed}");
    }

    #[test]
    fn a_host_is_asked_so_often_in_an_hour_and_others_are_not_affected() {
        let limit = LookupLimit::default();
        assert_about(allowed(&limit, "Acme.test", false), LOOKUPS_AN_HOUR.get());
        assert!(allowed(&limit, "acme.test", false) < 10 && limit.take("b.test", false));
    }

    #[test]
    fn whom_a_host_has_confirmed_looks_up_whatever_others_have() {
        let limit = LookupLimit::default();
        assert_about(allowed(&limit, "acme.test", false), LOOKUPS_AN_HOUR.get());
        assert_about(allowed(&limit, "acme.test", true), KEPT_AN_HOUR.get());
        let all = LOOKUPS_AN_HOUR.get() + KEPT_AN_HOUR.get();
        assert_about(allowed(&limit, "b.test", true), all);
    }
}
