//! How often one host is asked for handles, whoever asks: a verification, its repetition, an agent
//! elsewhere that claims a handle. Anybody can name any host, which did not ask for any of this.

use std::num::NonZeroU32;

use governor::clock::DefaultClock;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::call::{Call, Method};

/// The path and query that only look-ups have, before the name.
pub const LOOKUP_PATH: &str = "/.well-known/nostr.json?name=";

/// Whether a call is a look-up of a handle: their number is limited, for each host and each
/// organization.
pub fn is_lookup(call: &Call) -> bool {
    call.method == Method::Get && call.url.contains(LOOKUP_PATH)
}

/// Look-ups of one host in an hour: enough for the most handles that an organization lists on a
/// domain, which are asked for when all of them are confirmed, and little for a host that confirms
/// none.
pub const LOOKUPS_AN_HOUR: NonZeroU32 = NonZeroU32::new(1200).expect("it is not zero");

/// Hosts that are remembered before those that may be forgotten are.
const MAX_HOSTS: usize = 10_000;

/// A token bucket for each host.
pub struct LookupLimit(RateLimiter<String, HashMapStateStore<String>, DefaultClock>);

impl Default for LookupLimit {
    fn default() -> Self {
        LookupLimit(RateLimiter::hashmap(Quota::per_hour(LOOKUPS_AN_HOUR)))
    }
}

impl LookupLimit {
    /// Counts a look-up of this host; returns whether it may be made.
    pub fn take(&self, host: &str) -> bool {
        if self.0.len() > MAX_HOSTS {
            self.0.retain_recent();
        }
        self.0.check_key(&host.to_ascii_lowercase()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_asked_so_often_in_an_hour_and_others_are_not_affected() {
        let limit = LookupLimit::default();
        let allowed = (0..2 * LOOKUPS_AN_HOUR.get()).filter(|_| limit.take("Acme.test")).count();
        let most = LOOKUPS_AN_HOUR.get() as usize;
        // Those that have come back while it was counted.
        assert!((most..most + 10).contains(&allowed), "{allowed}");
        assert!(!limit.take("acme.test") && limit.take("b.test"));
    }
}
