//! The executor: the state that all requests share for the lifetime of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::content_cache::ContentCache;
use super::coordination::Coordination;
use super::key_usage::KeyUsage;
use super::searches::Searches;
use crate::auth::passwords::Passwords;
use crate::auth::{Authenticator, Tokens};
use crate::base::{Error, Result};
use crate::outside::Outside;
use crate::store::Store;

/// Executes routes; see `pipeline.rs` for the steps.
pub struct Executor {
    pub store: Store,
    /// Authenticates and authorizes callers.
    pub authenticator: Authenticator,
    /// The last uses of API keys.
    pub key_usage: KeyUsage,
    /// The state shared with other processes that serve the same store.
    pub coordination: Arc<dyn Coordination>,
    pub(super) passwords: Passwords,
    /// The client for outgoing calls.
    pub(super) outside: Outside,
    /// Slow searches.
    pub(super) searches: Searches,
    /// Contents that many clients read or wait for.
    pub(super) contents: ContentCache,
    /// Set when the process begins to stop.
    pub(super) stopping: watch::Receiver<bool>,
    setup_required: AtomicBool,
}

/// The parts of an [`Executor`].
pub struct Config {
    pub store: Store,
    /// The client for outgoing calls.
    pub outside: Outside,
    /// The state shared with other processes that serve the same store.
    pub coordination: Arc<dyn Coordination>,
    /// Whether the server must be set up first.
    pub setup_required: bool,
    /// Set when the process begins to stop.
    pub stopping: watch::Receiver<bool>,
}

impl Executor {
    /// Creates an executor.
    pub fn new(config: Config) -> Self {
        let Config { store, outside, coordination, setup_required, stopping } = config;
        Executor {
            authenticator: Authenticator::new(Tokens::new(store.keys())),
            store,
            key_usage: KeyUsage::default(),
            coordination,
            passwords: Passwords::default(),
            outside,
            searches: Searches::default(),
            contents: ContentCache::default(),
            stopping,
            setup_required: AtomicBool::new(setup_required),
        }
    }

    /// Whether the process is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Whether only routes that are [open before
    /// setup](crate::api::Route::open_before_setup) are executed.
    pub fn is_setup_required(&self) -> bool {
        self.setup_required.load(Ordering::Relaxed)
    }

    pub(super) fn end_setup(&self) {
        self.setup_required.store(false, Ordering::Relaxed);
    }

    /// Refuses requests until the server is set up.
    ///
    /// # Errors
    /// 503 until then.
    pub fn require_setup(&self) -> Result<()> {
        if !self.is_setup_required() {
            return Ok(());
        }
        Err(Error::busy(
            "setup_required",
            "this server is not set up yet; open the setup link that it printed",
            10,
        ))
    }
}
