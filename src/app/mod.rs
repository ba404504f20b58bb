//! The wiring: configuration, store, jobs, server, signals. The only place that knows all layers.

mod data;
mod data_dir_error;
mod secret_key;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use data::DataDir;
pub use data_dir_error::DataDirError;
pub use secret_key::KeySource;

use crate::api::openapi;
use crate::auth::passwords::Passwords;
use crate::auth::{Gatekeeper, Tokens};
use crate::base::{Error, Id, Result};
use crate::http::{
    self, Context, KeyUses, Limits, Metrics, Router, Searches, Shared, Strangers, UnderWay,
};
use crate::outbox::Settings;
use crate::outbox::runner::Runner;
use crate::outside::{self, Outside};
use crate::resources::{self, organizations};
use crate::store::Store;

/// What the person who runs the server chose.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--public-url`.
    pub public_url: Option<String>,
    /// `--trusted-proxy`.
    pub trusted_proxies: Vec<IpNet>,
    /// `--rate-limit`.
    pub rate_limit: u32,
    /// What work in the background needs to know.
    pub settings: Settings,
    /// `--allow-private-network`.
    pub allow_private: Vec<IpNet>,
    /// What `--ca-file` holds.
    pub extra_roots_pem: Option<Vec<u8>>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            public_url: None,
            trusted_proxies: Vec::new(),
            rate_limit: 500,
            settings: Settings {
                memory_retention_secs: 30 * 24 * 3600,
                log_retention_secs: 365 * 24 * 3600,
            },
            allow_private: Vec::new(),
            extra_roots_pem: None,
        }
    }
}

/// A running server.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its store.
    pub store: Store,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
    working: tokio::task::JoinHandle<()>,
    flushing: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Starts to serve `store` at `listener`.
    ///
    /// # Errors
    /// If the configuration cannot be used.
    pub fn start(store: Store, listener: TcpListener, config: Config) -> Result<Self> {
        let address = listener
            .local_addr()
            .map_err(|e| Error::internal(format!("the listener has no address: {e}")))?;
        let (stop, stopping) = watch::channel(false);
        let routes = resources::routes();
        let anybody = store.read(Id::NOTHING, organizations::any_user)?;
        let outside = Outside::new(outside::Config {
            allow_private: config.allow_private,
            extra_roots_pem: config.extra_roots_pem,
        })?;
        let context = Arc::new(Context {
            gatekeeper: Gatekeeper::new(Tokens::new(store.keys())),
            passwords: Passwords::default(),
            outside: outside.clone(),
            searches: Searches::default(),
            under_way: UnderWay::default(),
            shared: Shared::default(),
            strangers: Strangers::default(),
            limits: Limits::new(config.rate_limit),
            router: Router::new(routes)?,
            uses: KeyUses::default(),
            public_url: config.public_url.map(|url| url.trim_end_matches('/').to_string()),
            trusted_proxies: config.trusted_proxies,
            document: LazyLock::new(document),
            metrics: Metrics::new(vec![(
                "wakes_dropped",
                "Wakes dropped because their reason had gone away",
                dropped_wakes,
            )]),
            setup_required: AtomicBool::new(!anybody && !address.ip().is_loopback()),
            stopping: stopping.clone(),
            store: store.clone(),
        });
        let runner = Runner {
            store: store.clone(),
            outside,
            jobs: resources::jobs(),
            sweeps: resources::sweeps(),
            settings: config.settings,
            organizations: |store| store.read(Id::NOTHING, organizations::all),
        };
        Ok(Server {
            address,
            serving: tokio::spawn(http::serve(listener, context.clone(), stopping.clone())),
            working: tokio::spawn(runner.run(stopping.clone())),
            flushing: tokio::spawn(keep_uses(context, stopping)),
            store,
            stop,
        })
    }

    /// Stops: no new connections, what is in flight is answered, what waits ends with what there
    /// is, jobs under way come to their end. At most 10 s.
    pub async fn stop(self) {
        /// What is left of the 10 s when connections had their eight.
        const JOBS_END: Duration = Duration::from_secs(1);
        self.stop.send_replace(true);
        let _ = self.serving.await;
        let jobs = async { (self.working.await, self.flushing.await) };
        if tokio::time::timeout(JOBS_END, jobs).await.is_err() {
            tracing::warn!("some jobs did not end in time; they will be done again");
        }
    }
}

/// The OpenAPI document.
fn document() -> Bytes {
    let document = openapi::document(&resources::routes(), env!("CARGO_PKG_VERSION"));
    document.to_string().into()
}

/// How many wakes were dropped, in all organizations.
fn dropped_wakes(store: &Store) -> Result<u64> {
    let organizations = store.read(Id::NOTHING, organizations::all)?;
    organizations.into_iter().map(|org| store.read(org, resources::dropped_wakes)).sum()
}

/// Writes down now and then when keys were used, and forgets idle buckets.
async fn keep_uses(context: Arc<Context>, mut stopping: watch::Receiver<bool>) {
    let mut last = false;
    while !last {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(http::FLUSH_EVERY_SECS)) => {}
            _ = stopping.wait_for(|stopping| *stopping) => last = true,
        }
        context.limits.forget_idle();
        let due = context.uses.due();
        if due.is_empty() {
            continue;
        }
        let uses = due.clone();
        let written =
            context.store.write(Id::NOTHING, move |tx| organizations::note_uses(tx, &uses));
        if let Err(error) = written.await {
            context.uses.unwritten(&due);
            tracing::warn!(%error, "when keys were used could not be written down");
        }
    }
}
