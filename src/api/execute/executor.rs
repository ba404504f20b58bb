//! What lives as long as the process and every request is executed with.

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

/// Executes routes. Its methods are in `pipeline.rs`.
pub struct Executor {
    /// The store.
    pub store: Store,
    /// Works out who calls.
    pub authenticator: Authenticator,
    /// When keys were used.
    pub key_usage: KeyUsage,
    /// What this process has in common with others that serve the same store.
    pub coordination: Arc<dyn Coordination>,
    /// Where passwords are hashed.
    pub(super) passwords: Passwords,
    /// The way out.
    pub(super) outside: Outside,
    /// Where searches that take long are made.
    pub(super) searches: Searches,
    /// Answers that many ask or wait for.
    pub(super) contents: ContentCache,
    /// Whether the process stops.
    pub(super) stopping: watch::Receiver<bool>,
    setup_required: AtomicBool,
}

/// What an [`Executor`] is made of.
pub struct Config {
    /// The store.
    pub store: Store,
    /// The way out.
    pub outside: Outside,
    /// What this process has in common with others that serve the same store.
    pub coordination: Arc<dyn Coordination>,
    /// Whether only setting up is possible.
    pub setup_required: bool,
    /// Whether the process stops.
    pub stopping: watch::Receiver<bool>,
}

impl Executor {
    /// An executor.
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

    /// Whether the process stops.
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

    /// Refuses everything until the server is set up.
    ///
    /// # Errors
    /// 503 until then.
    pub fn require_setup(&self) -> Result<()> {
        if !self.is_setup_required() {
            return Ok(());
        }
        Err(Error::busy(
            "setup_required",
            "nobody has set this server up yet; open the setup link that it printed",
            10,
        ))
    }
}
