//! What processes that serve the same store have in common beside it: signals, rates, and what is
//! in flight. There is one implementation, for a process alone; several machines would share theirs.
//!
//! What was concluded about credentials needs none of this: it is kept under the number of the last
//! change of access, which comes with each snapshot
//! ([`Reader::access_version`](crate::store::engine::Reader::access_version)).

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use super::rate_limits::RateLimits;
use crate::base::{Error, Result};
use crate::store::{Listener, Store, Topic};

/// What processes that serve the same store have in common beside it.
pub trait Coordination: Send + Sync {
    /// Begins to listen to the commits of all of them. Signals are hints and may be lost.
    fn subscribe(&self, topic: Topic) -> Listener;

    /// Takes a request from the bucket of a credential, or of an address without one.
    ///
    /// # Errors
    /// 429.
    fn take_request(&self, credential: Option<[u8; 32]>, address: IpAddr) -> Result<()>;

    /// Takes a sign-in attempt; `is_known` where the address has signed in with the e-mail before.
    ///
    /// # Errors
    /// 429.
    fn take_sign_in(&self, email: &str, is_known: bool, address: IpAddr) -> Result<()>;

    /// Notes that a request is in flight, by its fingerprint, until what is returned is dropped.
    ///
    /// # Errors
    /// 409 if it is already.
    fn begin(&self, request: [u8; 32]) -> Result<InFlightGuard>;

    /// Forgets what idle clients left.
    fn evict_idle(&self);
}

/// The place of one request among those in flight. Dropping it ends that.
pub struct InFlightGuard {
    _end: Box<dyn Send>,
}

/// A process alone.
pub struct LocalCoordination {
    store: Store,
    rate_limits: RateLimits,
    in_flight: Arc<InFlight>,
}

impl LocalCoordination {
    /// The only process that serves `store`. Each credential may make `rate` requests a second; 0
    /// for no limit.
    pub fn new(store: Store, rate: u32) -> Self {
        let rate_limits = RateLimits::new(rate);
        LocalCoordination { store, rate_limits, in_flight: Arc::default() }
    }
}

impl Coordination for LocalCoordination {
    fn subscribe(&self, topic: Topic) -> Listener {
        self.store.signals().listen(topic)
    }

    fn take_request(&self, credential: Option<[u8; 32]>, address: IpAddr) -> Result<()> {
        self.rate_limits.request(credential, address)
    }

    fn take_sign_in(&self, email: &str, is_known: bool, address: IpAddr) -> Result<()> {
        self.rate_limits.sign_in(email, is_known, address)
    }

    fn begin(&self, request: [u8; 32]) -> Result<InFlightGuard> {
        let end = InFlight::begin(self.in_flight.clone(), request)?;
        Ok(InFlightGuard { _end: Box::new(end) })
    }

    fn evict_idle(&self) {
        self.rate_limits.evict_idle();
    }
}

/// What is in flight with an `Idempotency-Key` and calls outside: until it is done, nothing says so
/// in the store.
#[derive(Default)]
struct InFlight(Mutex<HashSet<[u8; 32]>>);

/// One request in flight.
struct Entry(Arc<InFlight>, [u8; 32]);

impl InFlight {
    fn begin(this: Arc<Self>, request: [u8; 32]) -> Result<Entry> {
        if this.0.lock().expect("nobody panics holding it").insert(request) {
            return Ok(Entry(this, request));
        }
        Err(Error::conflict(
            "still_under_way",
            "the first request with this Idempotency-Key is still under way; repeat it later",
        )
        .retry_after(1))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.0.lock().expect("nobody panics holding it").remove(&self.1);
    }
}
