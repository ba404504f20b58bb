//! The wiring of configuration, store, jobs and server. The only module that knows all layers.

mod data;
mod data_dir_error;
mod secret_key;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use data::DataDir;
pub use data_dir_error::DataDirError;
pub use secret_key::KeySource;

use crate::api::execute::{self, Executor, LocalCoordination};
use crate::api::openapi;
use crate::base::{Error, Id, Result};
use crate::http::{self, AnonymousBudget, Context, Metrics, Page, Router};
use crate::outbox::RetentionSettings;
use crate::outbox::runner::Runner;
use crate::outside::{self, Outside, mail};
use crate::resources::{self, organizations};
use crate::store::{Org, Store};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--public-url`.
    pub public_url: Option<String>,
    /// `--trusted-proxy`.
    pub trusted_proxies: Vec<IpNet>,
    /// `--rate-limit`.
    pub rate_limit: u32,
    /// Settings of background jobs.
    pub settings: RetentionSettings,
    /// `--allow-private-network`.
    pub allow_private: Vec<IpNet>,
    /// The content of `--ca-file`.
    pub extra_roots_pem: Option<Vec<u8>>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            public_url: None,
            trusted_proxies: Vec::new(),
            rate_limit: 500,
            settings: RetentionSettings::default(),
            allow_private: Vec::new(),
            extra_roots_pem: None,
        }
    }
}

/// A running server.
pub struct Server {
    /// The address of its listener.
    pub address: SocketAddr,
    pub store: Store,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
    working: tokio::task::JoinHandle<()>,
    flushing: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Starts serving `store` at `listener`.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn start(store: Store, listener: TcpListener, config: Config) -> Result<Self> {
        let address = listener
            .local_addr()
            .map_err(|e| Error::internal(format!("the listener has no address: {e}")))?;
        let (stop, stopping) = watch::channel(false);
        let routes = resources::routes();
        let anybody = store.read_now(Id::NIL, organizations::has_any_user)?;
        let outside = Outside::new(outside::Config {
            allow_private: config.allow_private,
            extra_roots_pem: config.extra_roots_pem,
        })?;
        let executor = Arc::new(Executor::new(execute::Config {
            coordination: Arc::new(LocalCoordination::new(store.clone(), config.rate_limit)),
            store: store.clone(),
            outside: outside.clone(),
            setup_required: !anybody && !address.ip().is_loopback(),
            stopping: stopping.clone(),
        }));
        let context = Arc::new(Context {
            executor: executor.clone(),
            router: Router::new(routes)?,
            pages: PAGES,
            public_url: config.public_url.map(|url| url.trim_end_matches('/').to_string()),
            trusted_proxies: config.trusted_proxies,
            document: LazyLock::new(document),
            anonymous: AnonymousBudget::default(),
            metrics: Metrics::new(resources::metrics(), all_organizations),
        });
        let runner = Runner {
            store: store.clone(),
            outside,
            mail: Arc::new(mail::NotConfigured),
            jobs: resources::jobs(),
            workflows: resources::workflows(),
            sweeps: resources::sweeps(),
            settings: RetentionSettings { started_at: store.clock().now(), ..config.settings },
            organizations: all_organizations,
        };
        Ok(Server {
            address,
            serving: tokio::spawn(http::serve(listener, context, stopping.clone())),
            working: tokio::spawn(runner.run(stopping.clone())),
            flushing: tokio::spawn(flush_key_usage(executor, stopping)),
            store,
            stop,
        })
    }

    /// Stops gracefully: accepts no new connections, completes requests in flight, ends long polls
    /// and streams, and waits for running jobs. Takes at most 10 s.
    pub async fn stop(self) {
        /// Time for jobs, after the 8 s for connections.
        const JOBS_END: Duration = Duration::from_secs(1);
        self.stop.send_replace(true);
        let _ = self.serving.await;
        let jobs = async { (self.working.await, self.flushing.await) };
        if tokio::time::timeout(JOBS_END, jobs).await.is_err() {
            tracing::warn!("some jobs did not end in time; they will run again");
        }
    }
}

/// The HTML pages: for now one page that says which server this is.
const PAGES: &[Page] = &[
    Page { path: "/", html: HOME, open_before_setup: false },
    Page { path: "/setup", html: HOME, open_before_setup: true },
    Page { path: "/invitations", html: HOME, open_before_setup: false },
];
const HOME: &str = include_str!("home.html");

/// The OpenAPI document.
fn document() -> Bytes {
    let document = openapi::document(&resources::routes(), env!("CARGO_PKG_VERSION"));
    document.to_string().into()
}

fn all_organizations(store: &Store) -> Result<Vec<Id<Org>>> {
    store.read_now(Id::NIL, organizations::all)
}

/// Periodically writes the last uses of keys, and drops idle rate limits.
async fn flush_key_usage(executor: Arc<Executor>, mut stopping: watch::Receiver<bool>) {
    let mut last = false;
    while !last {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(execute::FLUSH_EVERY_SECS)) => {}
            _ = stopping.wait_for(|stopping| *stopping) => last = true,
        }
        executor.coordination.evict_idle();
        let due = executor.key_usage.due();
        if due.is_empty() {
            continue;
        }
        let uses = due.clone();
        let written =
            executor.store.write(Id::NIL, move |tx| organizations::record_key_usage(tx, &uses));
        if let Err(error) = written.await {
            executor.key_usage.restore(&due);
            tracing::warn!(%error, "the last uses of keys could not be written");
        }
    }
}
