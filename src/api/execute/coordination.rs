//! What requests of a process have to do with each other besides the store: rate limits, quotas, requests
//! in flight, and whether the server is set up. Each process counts what it sees itself; whether
//! another process has set it up, the store says.
//!
//! The cache of credentials needs no coordination: its key is the version of the last change of
//! access, which is part of each snapshot
//! ([`Reader::access_version`](crate::store::engine::Reader::access_version)).

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::answer_quota::AnswerQuota;
use super::rate_limits::{CountedCredential, RateLimits};
use super::signed_limits::SignedLimits;
use crate::api::idempotency::StoredAnswers;
use crate::base::{Error, Id, Result};
use crate::store::{Lane, ListSource, Org, Store};

/// What happens when the server is set up, before that is answered.
pub type OnSetup = Arc<dyn Fn() + Send + Sync>;

/// Marks a request as in flight until it is dropped.
pub struct InFlightGuard {
    all: Arc<InFlight>,
    request: [u8; 32],
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut all = self.all.lock().expect("no code panics while holding the lock");
        all.remove(&self.request);
    }
}

/// The requests in flight that have an `Idempotency-Key` and make outgoing calls, and those that send
/// mails: until they are done, the store holds no record of them.
type InFlight = Mutex<HashSet<[u8; 32]>>;

/// What requests of a process have to do with each other besides the store.
pub struct Coordination {
    store: Store,
    rate_limits: RateLimits,
    signed_limits: SignedLimits,
    in_flight: Arc<InFlight>,
    setup_required: AtomicBool,
    /// Whether another process has set the store up meanwhile.
    is_set_up: Option<fn(&Store) -> bool>,
    on_setup: Option<OnSetup>,
    answers: AnswerQuota,
}

impl Coordination {
    /// Creates the coordination of a process that serves `store`. Each credential may make
    /// `rate` requests per second; 0 for no limit. `setup_required` says whether the server must be
    /// set up first.
    pub fn new(store: Store, rate: u32, setup_required: bool) -> Self {
        Coordination {
            store,
            rate_limits: RateLimits::new(rate),
            signed_limits: SignedLimits::default(),
            in_flight: Arc::default(),
            setup_required: AtomicBool::new(setup_required),
            is_set_up: None,
            on_setup: None,
            answers: AnswerQuota::default(),
        }
    }

    /// Has it look whether another process has set the store up, until one has. May block.
    pub fn looking(self, is_set_up: fn(&Store) -> bool) -> Self {
        Coordination { is_set_up: Some(is_set_up), ..self }
    }

    /// Sets what happens when the server is set up.
    pub fn on_setup(self, on_setup: Option<OnSetup>) -> Self {
        Coordination { on_setup, ..self }
    }

    /// Counts a request against the rate limits of its credential and of the person behind it or,
    /// without one, of its address.
    ///
    /// # Errors
    /// 429.
    pub fn take_request(
        &self,
        credential: Option<CountedCredential>,
        address: IpAddr,
    ) -> Result<()> {
        self.rate_limits.request(credential, address)
    }

    /// Counts a sign-in attempt; `is_known` if the address has signed in with the e-mail before.
    ///
    /// # Errors
    /// 429.
    pub fn take_sign_in(&self, email: &str, is_known: bool, address: IpAddr) -> Result<()> {
        self.rate_limits.sign_in(email, is_known, address)
    }

    /// Counts a sign-in attempt that names nobody for its address.
    ///
    /// # Errors
    /// 429.
    pub fn take_attempt_of(&self, address: IpAddr) -> Result<()> {
        self.rate_limits.attempt_of(address)
    }

    /// Counts a request that an outside agent has signed, or pretends to have, for its address.
    ///
    /// # Errors
    /// 429.
    pub fn take_signed(&self, address: IpAddr) -> Result<()> {
        self.signed_limits.of_address(address)
    }

    /// Counts such a request for the organization it is about, and its network there.
    ///
    /// # Errors
    /// 429, 503.
    pub fn take_signed_for(&self, org: Id<Org>, address: IpAddr) -> Result<()> {
        self.signed_limits.of_organization(org.uuid(), address)
    }

    /// Counts a request signed by a key that the organization has accepted; returns whether some
    /// were left of those that are reserved for it.
    pub fn take_reserved(&self, org: Id<Org>, key: [u8; 32]) -> bool {
        self.signed_limits.take_reserved(org.uuid(), key)
    }

    /// Counts a call to a host that an outside agent causes.
    ///
    /// # Errors
    /// 429.
    pub fn take_outside_call(&self, host: &str) -> Result<()> {
        self.signed_limits.call(host)
    }

    /// Counts look-ups of handles that an organization causes, all or none.
    ///
    /// # Errors
    /// 429.
    pub fn take_lookups(&self, lane: Lane, number: usize) -> Result<()> {
        self.rate_limits.lookups(lane, number)
    }

    /// Counts an exchange with another server for the person and the organization.
    ///
    /// # Errors
    /// 429.
    pub fn take_exchange(&self, person: Lane, organization: Lane) -> Result<()> {
        self.rate_limits.exchange(person, organization)
    }

    /// Marks a request as in flight, by its fingerprint, or mails by their tag, until the guard is
    /// dropped.
    ///
    /// # Errors
    /// 409 if it is in flight already.
    pub fn begin(&self, request: [u8; 32]) -> Result<InFlightGuard> {
        if self.in_flight.lock().expect("no code panics while holding the lock").insert(request) {
            return Ok(InFlightGuard { all: self.in_flight.clone(), request });
        }
        Err(Error::conflict(
            "still_under_way",
            "the first request with this Idempotency-Key is still in progress; repeat it later",
        )
        .retry_after(1))
    }

    /// Returns how many more bytes of answers may be stored for this credential.
    pub fn answer_room(&self, credential: &[u8; 32]) -> Result<u64> {
        self.answers.room(credential, self.store.clock().now(), || {
            self.store.read_now(Id::NIL, |view| view.all(ListSource::TABLE, credential))
        })
    }

    /// Counts the stored bytes of an answer.
    pub fn count_answer(&self, credential: [u8; 32], bytes: u64) {
        self.answers.add(credential, bytes, self.store.clock().now());
    }

    /// Returns the sums of stored answers that are to be written now.
    pub fn due_sums(&self) -> Vec<StoredAnswers> {
        self.answers.due()
    }

    /// Takes back sums that could not be written.
    pub fn restore_sums(&self, due: &[StoredAnswers]) {
        self.answers.restore(due);
    }

    /// Drops the state of idle clients.
    pub fn evict_idle(&self) {
        self.answers.evict_expired(self.store.clock().now());
        self.rate_limits.evict_idle();
        self.signed_limits.evict_idle();
    }

    /// Whether only routes that are [open before
    /// setup](crate::api::Route::open_before_setup) are executed.
    pub fn is_setup_required(&self) -> bool {
        let is_required = self.setup_required.load(Ordering::Relaxed);
        if is_required && self.is_set_up.is_some_and(|is_set_up| is_set_up(&self.store)) {
            self.setup_required.store(false, Ordering::Relaxed);
            return false;
        }
        is_required
    }

    /// Ends that state, for all processes: the server has been set up.
    pub fn end_setup(&self) {
        self.setup_required.store(false, Ordering::Relaxed);
        if let Some(on_setup) = &self.on_setup {
            on_setup();
        }
    }
}
