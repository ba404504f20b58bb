//! The executor: the state that all requests share for the lifetime of the process.

use std::sync::Arc;

use tokio::sync::watch;

use super::content_cache::ContentCache;
use super::coordination::Coordination;
use super::key_usage::KeyUsage;
use super::meters::Meters;
use super::outside_calls::OutsideCalls;
use super::refusal_delay::RefusalDelay;
use super::searches::Searches;
use super::signature_checks::SignatureChecks;
use super::works::Works;
use crate::api::SystemMonitor;
use crate::auth::passwords::Passwords;
use crate::auth::{Authenticator, Identity, Organization, Tokens, key_organization};
use crate::base::{Error, Id, Result, Slug};
use crate::outside::Outside;
use crate::store::{Listener, Org, Store, View, org_topic};

/// Executes routes; see `pipeline.rs` for the steps.
pub struct Executor {
    pub store: Store,
    /// Authenticates and authorizes callers.
    pub authenticator: Authenticator,
    /// The last uses of API keys.
    pub key_usage: KeyUsage,
    /// The state shared with other processes that serve the same store.
    pub coordination: Arc<dyn Coordination>,
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
    /// What the server knows of itself.
    pub(super) system: Arc<SystemMonitor>,
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
    /// The state shared with other processes that serve the same store.
    pub coordination: Arc<dyn Coordination>,
    /// What the server knows of itself.
    pub system: Arc<SystemMonitor>,
    /// Set when the process begins to stop.
    pub stopping: watch::Receiver<bool>,
}

impl Executor {
    /// Creates an executor.
    pub fn new(config: ExecutorConfig) -> Self {
        let ExecutorConfig { store, outside, coordination, system, stopping } = config;
        Executor {
            authenticator: Authenticator::new(Tokens::new(store.keys())),
            store,
            key_usage: KeyUsage::default(),
            coordination,
            meters: Arc::default(),
            passwords: Passwords::default(),
            outside,
            outside_calls: OutsideCalls::default(),
            signature_checks: SignatureChecks::default(),
            refusal_delay: RefusalDelay::default(),
            searches: Searches::default(),
            works: Works::default(),
            system,
            contents: ContentCache::default(),
            stopping,
        }
    }

    /// Whether the process is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns the slug of the organization that an API key is for; none for a session.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub async fn key_organization(&self, identity: &Identity) -> Result<Option<Slug>> {
        let Some(org) = key_organization(identity) else { return Ok(None) };
        let find = |view: &View| view.fetch::<Organization>(&org);
        Ok(Some(self.store.read(Id::NIL, find).await?.slug))
    }

    /// Subscribes to the commits in an organization.
    pub fn subscribe_to(&self, org: Id<Org>) -> Listener {
        self.coordination.subscribe(org_topic(org))
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
