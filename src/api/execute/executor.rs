//! The executor: the state that all requests share for the lifetime of the process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::content_cache::ContentCache;
use super::coordination::Coordination;
use super::exchanges::Exchanges;
use super::last_uses::{KeyUsage, SessionUsage};
use super::meters::Meters;
use super::outside_calls::OutsideCalls;
use super::refusal_delay::RefusalDelay;
use super::searches::Searches;
use super::signature_checks::SignatureChecks;
use super::works::{COMPUTATIONS, FILES, MAX_WAITING, Slot, Works};
use crate::api::{ServerInfo, SystemMonitor};
use crate::auth::oidc::Oidc;
use crate::auth::passwords::Passwords;
use crate::auth::{
    Authenticator, Identity, Membership, Organization, RawCredential, Role, Tokens,
    key_organization,
};
use crate::base::metrics::{Family, FamilyKind};
use crate::base::{Error, Id, Result, Slug};
use crate::outside::Outside;
use crate::store::{
    ACCESS_CHANGED, Admission, AdmissionFigures, AdmissionLimits, Lane, Listener, Org, Store, View,
    org_topic,
};

/// Requests that make calls at a time: with eight calls each they take half of the calls
/// that the process makes; the rest is left to what the server sends by itself. A user has half of them
/// at most, and an organization not all: servers that do not answer, which anybody may name as a
/// provider, hold up nobody else. Each holds its slot for a round of calls: half a minute at worst, and a
/// minute where a publication runs inputs. What takes minutes has slots of its own.
const CALLS: AdmissionLimits = AdmissionLimits {
    admitted: 16,
    admitted_of_one: [8, 10],
    waiting: MAX_WAITING,
    waiting_of_one: [MAX_WAITING / 4; 2],
    wait: Duration::from_secs(30),
    refusal: || Error::busy("overloaded", "too many requests wait for other servers; try again", 5),
};

/// Requests that wait until another one has read the same documents of a provider of sign-ins, one at a time
/// for each provider. Each holds a token of up to 16 KB: 32 MB. A provider that signs everybody out sends one
/// for each session, and one address does not take all places.
const CALL_TURNS: AdmissionLimits = AdmissionLimits {
    admitted: usize::MAX,
    admitted_of_one: [usize::MAX, 1],
    waiting: 2048,
    waiting_of_one: [512, 1024],
    ..CALLS
};

/// Batches, such as comparisons over inputs: five minutes each at most. Each may hold some 50 MB of texts and
/// answers.
const LONG_CALLS: AdmissionLimits = AdmissionLimits {
    admitted: 4,
    admitted_of_one: [1, 2],
    refusal: || {
        Error::busy(
            "overloaded",
            "too many comparisons are under way, of which each user has one at a time; try again",
            30,
        )
    },
    ..CALLS
};

/// Streams of what changes. Each watches up to 16 resources, takes some 115 KB, and reads its resources
/// again when one changes: 1,024 take 120 MB, and 1,500 of one user, who changed what they watch all the
/// time, held up others' writes by 80 ms. A team needs one for each of its agents' clients.
const STREAMS: AdmissionLimits = AdmissionLimits {
    admitted: 1024,
    admitted_of_one: [128, 256],
    waiting: MAX_WAITING,
    waiting_of_one: [MAX_WAITING / 4; 2],
    wait: Duration::from_millis(100),
    refusal: || {
        Error::busy(
            "overloaded",
            "too many streams of changes are open; close some, or watch more with one",
            5,
        )
    },
};

/// Executes routes; see `pipeline.rs` for the steps.
pub struct Executor {
    pub store: Store,
    /// Authenticates and authorizes callers.
    pub authenticator: Authenticator,
    /// The last uses of API keys.
    pub key_usage: KeyUsage,
    /// The last uses of sessions.
    pub session_usage: SessionUsage,
    /// What requests have to do with each other besides the store.
    pub coordination: Arc<Coordination>,
    /// What executing requests counts for the metrics.
    pub meters: Arc<Meters>,
    pub(super) passwords: Passwords,
    /// The client for outgoing calls.
    pub(super) outside: Outside,
    /// The calls that outside agents cause.
    pub(super) outside_calls: OutsideCalls,
    /// The checks of what outside agents sign.
    pub(super) signature_checks: SignatureChecks,
    /// What slows down outside agents that send too much.
    pub(super) refusal_delay: RefusalDelay,
    /// Slow searches.
    pub(super) searches: Searches,
    /// Costly work of operations.
    pub(super) works: Works,
    pub(super) computations: Works,
    /// Requests that make calls.
    pub(super) call_slots: Admission<Lane>,
    /// Requests that make many long calls.
    pub(super) long_call_slots: Admission<Lane>,
    /// Requests whose calls are made one after another.
    pub(super) call_turns: Admission<Lane>,
    /// Answers of other servers that are passed on as they come.
    pub(super) exchanges: Exchanges,
    /// Streams of what changes.
    streams: Admission<Lane>,
    /// What requests are told of the server.
    pub(super) server: Arc<ServerInfo>,
    /// Contents that many clients read or wait for.
    pub(super) contents: ContentCache,
    /// Set when the process begins to stop.
    pub(super) stopping: watch::Receiver<bool>,
}

/// The parts of an [`Executor`].
pub struct ExecutorConfig {
    pub store: Store,
    /// The client for outgoing calls.
    pub outside: Outside,
    /// What requests have to do with each other besides the store.
    pub coordination: Arc<Coordination>,
    /// What the server knows of itself.
    pub system: Arc<SystemMonitor>,
    /// The providers with which people sign in.
    pub oidc: Arc<Oidc>,
    /// Set when the process begins to stop.
    pub stopping: watch::Receiver<bool>,
}

impl Executor {
    /// Creates an executor.
    pub fn new(config: ExecutorConfig) -> Self {
        let ExecutorConfig { store, outside, coordination, system, oidc, stopping } = config;
        let sends_mail = outside.mail.is_configured();
        let keys = store.keys().clone();
        let server = Arc::new(ServerInfo { system, sends_mail, oidc, keys });
        Executor {
            authenticator: Authenticator::new(Tokens::new(store.keys())),
            store,
            key_usage: KeyUsage::default(),
            session_usage: SessionUsage::default(),
            coordination,
            meters: Arc::default(),
            passwords: Passwords::default(),
            outside,
            outside_calls: OutsideCalls::default(),
            signature_checks: SignatureChecks::default(),
            refusal_delay: RefusalDelay::default(),
            searches: Searches::default(),
            works: Works::new(FILES),
            computations: Works::new(COMPUTATIONS),
            call_slots: Admission::new(CALLS),
            long_call_slots: Admission::new(LONG_CALLS),
            call_turns: Admission::new(CALL_TURNS),
            exchanges: Exchanges::default(),
            streams: Admission::new(STREAMS),
            server,
            contents: ContentCache::default(),
            stopping,
        }
    }

    /// What requests are told of the server.
    pub fn server_info(&self) -> &Arc<ServerInfo> {
        &self.server
    }

    /// Whether the process is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns the slug of the organization that an API key is for; none for a session.
    pub async fn key_organization(&self, identity: &Identity) -> Result<Option<Slug>> {
        let Some(org) = key_organization(identity) else { return Ok(None) };
        let find = |view: &View| view.fetch::<Organization>(&org);
        Ok(Some(self.store.read(Id::NIL, find).await?.slug))
    }

    /// Returns the role with which an API key acts in its organization; `None` for a session, and for a
    /// user who has left.
    pub async fn key_role(&self, identity: &Identity) -> Result<Option<Role>> {
        let Some(org) = key_organization(identity) else { return Ok(None) };
        let find = |view: &View| view.get::<Membership>(&(identity.user, org));
        let membership = self.store.read(Id::NIL, find).await?;
        Ok(membership.map(|membership| identity.role_in(&membership)))
    }

    /// Takes the slot of a stream that tells this caller of changes, to be held while it is open.
    ///
    /// # Errors
    /// 503 if the caller, its organization, or all together have too many open.
    pub async fn stream_slot(
        &self,
        credential: &RawCredential,
        identity: &Identity,
    ) -> Result<Slot> {
        let lane = self.authenticator.lane(credential, Some(identity));
        self.streams.enter([*identity.user.bytes(), lane], 0).await
    }

    /// The families for `/metrics` of what only a few may do at a time.
    pub fn admissions(&self) -> [Family; 3] {
        let all = [
            ("costly_work", self.store.costly_work()),
            ("calls", self.call_slots.figures()),
            ("long_calls", self.long_call_slots.figures()),
            ("call_turns", self.call_turns.figures()),
            ("calls_from_outside", self.outside_calls.0.figures()),
            ("signatures_from_outside", self.signature_checks.turns.figures()),
            ("searches", self.searches.0.figures()),
            ("files", self.works.0.figures()),
            ("computations", self.computations.0.figures()),
            ("exchanges", self.exchanges.of_caller.figures()),
            ("exchanges_of_server", self.exchanges.of_server.figures()),
            ("streams", self.streams.figures()),
        ];
        let family = |name, help, kind, value: fn(&AdmissionFigures) -> u64| {
            Family::by_label(name, help, kind, "of", all.map(|(of, all)| (of, value(&all))))
        };
        [
            family(
                "roadstead_admitted",
                "Work in progress, of kinds of which there is only so much at a time",
                FamilyKind::Gauge,
                |figures| figures.admitted,
            ),
            family(
                "roadstead_admission_waiting",
                "Work that waits to be admitted",
                FamilyKind::Gauge,
                |figures| figures.waiting,
            ),
            family(
                "roadstead_admissions_refused",
                "Work that was not admitted in time, or could not wait for it",
                FamilyKind::Counter,
                |figures| figures.refused,
            ),
        ]
    }

    /// Subscribes to the commits in an organization.
    pub fn subscribe_to(&self, org: Id<Org>) -> Listener {
        self.store.signals().subscribe(org_topic(org))
    }

    /// Subscribes to changes of who may do what: whoever goes on telling of changes asks again then.
    pub fn subscribe_to_access(&self) -> Listener {
        self.store.signals().subscribe(ACCESS_CHANGED)
    }

    /// Returns when the process begins to stop.
    pub async fn stopped(&self) {
        // An error means that the process has stopped.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// Refuses requests until the server is set up.
    ///
    /// # Errors
    /// 503 until then.
    pub fn require_setup(&self) -> Result<()> {
        if !self.coordination.is_setup_required() {
            return Ok(());
        }
        Err(Error::busy(
            "setup_required",
            "this server is not set up yet; open the setup link that it printed",
            10,
        ))
    }
}
