//! The wiring of configuration, store, jobs and server. The only module that knows all layers.

mod audit;
mod background;
pub mod backup;
mod check;
pub mod control;
mod data;
mod data_dir_error;
pub mod doctor;
mod erasures;
mod flushing;
mod format_file;
mod host;
mod installation;
mod listeners;
#[cfg(feature = "postgres")]
pub mod migration;
mod monitor;
pub mod moving;
pub mod panics;
mod placement;
mod recovery;
pub mod repair;
mod rotation;
mod secret_key;
#[cfg(feature = "postgres")]
pub mod shared_store;
#[cfg(feature = "postgres")]
pub mod shared_store_rotation;
mod spans;
mod status;
pub mod tls;
mod written_by;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::watch;

pub use audit::{AuditReply, AuditRequest, CheckedLog, audit_reply};
pub use check::check_store;
pub use data::DataDir;
pub use data_dir_error::DataDirError;
pub use format_file::FORMAT as DATA_DIRECTORY_FORMAT;
pub use installation::{
    AdminsChange, AdminsOfInstallation, admins_of_installation, parse as parse_admins,
};
pub use listeners::Listeners;
use monitor::Monitor;
pub use recovery::{PasswordResetLink, reset_password};
pub use rotation::{Rotated, rotate};
pub use secret_key::{KeySource, key_in_file};
pub use status::{ServerStatus, Setting, SettingSource, Startup, StoreStatus, store_status};
use tls::OwnTls;

use crate::api::execute::{self, Coordination, Executor, OnSetup};
use crate::api::{OrganizationCreators, Route, SystemMonitor};
use crate::auth::oidc::{Oidc, OidcProvider};
use crate::base::metrics::{Family, FamilyKind, SampleValue};
use crate::base::{Email, Id, Result};
use crate::console::{Console, FirstVisit};
use crate::http::{
    self, BodyBudgets, Document, Metrics, MetricsToken, Protocol, Router, ServerContext, Site,
    Sources, StoredSources,
};
use crate::mcp::{self, Mcp};
use crate::outbox::runner::Runner;
use crate::outbox::{DeliveryMeters, RetentionSettings};
use crate::outside::smtp::{Smtp, SmtpConfig};
use crate::outside::{Children, ClientConfig, Outside, Resolver, SpanTarget, Spans};
use crate::resources::{self, organizations};
use crate::store::engine::{SeenNodes, WorkLeases};
use crate::store::{Org, Store};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// `--public-url`.
    pub public_url: Option<String>,
    /// `--trusted-proxy`.
    pub trusted_proxies: Vec<IpNet>,
    /// How many files the process may open.
    pub open_files: u64,
    /// `--rate-limit`.
    pub rate_limit: u32,
    /// The TLS of all listeners; without it they speak plain HTTP.
    pub tls: Option<Arc<OwnTls>>,
    /// `--metrics-token`.
    pub metrics_token: Option<MetricsToken>,
    /// `--installation-admin`: who administers the installation from now on; `None`: who did before.
    pub installation_admins: Option<Vec<Email>>,
    /// `--who-may-create-organizations`.
    pub organization_creators: OrganizationCreators,
    /// Settings of background jobs.
    pub settings: RetentionSettings,
    /// `--allow-private-network`.
    pub allow_private: Vec<IpNet>,
    /// The content of `--ca-file`.
    pub extra_roots_pem: Option<Vec<u8>>,
    /// `--smtp-url` and `--mail-from`; mail cannot be sent without.
    pub smtp: Option<SmtpConfig>,
    /// `--oidc`: the providers with which people sign in.
    pub oidc: Vec<OidcProvider>,
    /// `--otlp-endpoint` and `--otlp-header-file`: the collector of spans.
    pub spans: Option<SpanTarget>,
    /// How outgoing calls resolve names.
    pub resolver: Resolver,
    /// This program, for child processes; files in some formats cannot be read without.
    pub program: Option<PathBuf>,
    /// The data directory, whose last backup is a metric.
    pub data_directory: Option<PathBuf>,
    /// Whether each commit is on a second machine before it is acknowledged, as last checked;
    /// `None`: the store is on this machine.
    pub is_replicated: Option<Arc<AtomicBool>>,
    /// The lease for the background work; `None`: no other server serves the store.
    pub leases: Option<WorkLeases>,
    /// The servers of the store; `None`: no other server serves it.
    pub nodes: Option<SeenNodes>,
    /// The link of the demo, which signs in once.
    pub first_visit: Option<Arc<FirstVisit>>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            public_url: None,
            trusted_proxies: Vec::new(),
            open_files: 1 << 20, // More than connections need.
            rate_limit: 500,
            tls: None,
            metrics_token: None,
            installation_admins: None,
            organization_creators: OrganizationCreators::Everyone,
            settings: RetentionSettings::default(),
            allow_private: Vec::new(),
            extra_roots_pem: None,
            smtp: None,
            oidc: Vec::new(),
            spans: None,
            resolver: Resolver::default(),
            program: None,
            data_directory: None,
            is_replicated: None,
            leases: None,
            nodes: None,
            first_visit: None,
        }
    }
}

impl ServerConfig {
    /// The settings of outgoing calls, and how names are resolved for them.
    pub fn calls(&self) -> (ClientConfig, Resolver) {
        let (allow_private, extra_roots_pem) =
            (self.allow_private.clone(), self.extra_roots_pem.clone());
        (ClientConfig { allow_private, extra_roots_pem }, self.resolver.clone())
    }
}

/// A running server.
pub struct Server {
    /// The address of its first listener.
    pub address: SocketAddr,
    pub store: Store,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
    working: tokio::task::JoinHandle<()>,
    flushing: tokio::task::JoinHandle<()>,
    exporting: tokio::task::JoinHandle<()>,
    /// Set once the last request is answered.
    stop_flushing: watch::Sender<bool>,
    leases: Option<WorkLeases>,
    measuring: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Starts serving `store` at `listeners`.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn start(
        store: Store,
        listeners: impl Into<Listeners>,
        config: ServerConfig,
    ) -> Result<Self> {
        Self::start_with(store, listeners.into(), config, None)
    }

    /// Does the same as [`Server::start`]; `on_setup` is called when the server is set up, before
    /// that is answered.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn start_with(
        store: Store,
        listeners: Listeners,
        config: ServerConfig,
        on_setup: Option<OnSetup>,
    ) -> Result<Self> {
        let (addresses, listeners) = listeners.speaking(&config)?;
        let [(stop, stopping), (stop_flushing, served)] = [(); 2].map(|()| watch::channel(false));
        let routes = resources::routes();
        let (collector, public_url) = (config.spans.as_ref(), config.public_url.as_deref());
        let exporter = spans::exporter(collector, config.calls(), public_url, &store)?;
        let spans = exporter.as_ref().map(|exporter| exporter.spans.clone());
        let outside = outgoing(&config)?.with_spans(spans.clone());
        let needs_setup = is_setup_required(&store, &addresses)?;
        let coordination = Arc::new(coordination(&store, &config, needs_setup, on_setup));
        let system = Arc::new(SystemMonitor::new(config.organization_creators));
        let settings = RetentionSettings { started_at: store.clock().now(), ..config.settings };
        let executor = Arc::new(Executor::new(execute::ExecutorConfig {
            system: system.clone(),
            oidc: Arc::new(Oidc::new(config.oidc.clone())),
            coordination: coordination.clone(),
            store: store.clone(),
            outside: outside.clone(),
            stopping: stopping.clone(),
        }));
        let deliveries = Arc::<DeliveryMeters>::default();
        let site: Arc<dyn Site> = Arc::new(Console::new(config.first_visit.clone())?);
        let metrics = metrics(&routes, &*site, &executor, &deliveries, &spans, &config);
        let router = Arc::new(Router::new(routes)?);
        let mcp: Arc<dyn Protocol> = Arc::new(Mcp::new(router.clone()));
        let context = Arc::new(ServerContext {
            executor: executor.clone(),
            router,
            site,
            protocols: vec![mcp],
            documents: resources::documents(),
            public_url: config.public_url.map(|url| url.trim_end_matches('/').to_string()),
            trusted_proxies: config.trusted_proxies,
            document: LazyLock::new(|| encoded(resources::document)),
            routes_document: LazyLock::new(|| encoded(resources::document_without_webhooks)),
            bodies: BodyBudgets::default(),
            max_connections: http::max_connections(config.open_files),
            metrics,
            metrics_token: config.metrics_token,
            is_replicated: config.is_replicated,
            spans,
        });
        let runner = runner(&store, outside, settings.clone(), deliveries.clone());
        let monitor = Monitor {
            context: context.clone(),
            deliveries,
            settings,
            data_directory: config.data_directory,
            tls: config.tls,
            nodes: config.nodes,
            system,
        };
        Ok(Server {
            address: addresses[0],
            measuring: monitor.start(stopping.clone()),
            serving: tokio::spawn(http::serve(listeners, context, stopping.clone())),
            working: tokio::spawn(background::run(runner, config.leases.clone(), stopping)),
            flushing: tokio::spawn(flushing::flush(executor, served.clone())),
            exporting: tokio::spawn(spans::export(exporter, served)),
            stop_flushing,
            leases: config.leases,
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
        self.stop_flushing.send_replace(true);
        let jobs = async {
            let _ = (self.working.await, self.flushing.await, self.measuring.await);
            if let Some(store) = background::store_for_rest(&self.store, self.leases.as_ref()) {
                audit::append_rest(&store).await;
            }
            // The jobs may have erased something since it was flushed for the last time.
            self.store.record_rest_of_erasures().await;
        };
        let jobs = tokio::time::timeout(JOBS_END, jobs);
        let (jobs, ()) = tokio::join!(jobs, spans::end(self.exporting));
        if jobs.is_err() {
            tracing::warn!("some jobs did not end in time; they will run again");
        }
    }
}

/// What the requests of this server have to do with each other; it looks whether another of the store has
/// set that up, if there may be one.
fn coordination(
    store: &Store,
    config: &ServerConfig,
    setup_required: bool,
    on_setup: Option<OnSetup>,
) -> Coordination {
    let coordination = Coordination::new(store.clone(), config.rate_limit, setup_required);
    match &config.leases {
        Some(_) => coordination.on_setup(on_setup).looking(is_set_up),
        None => coordination.on_setup(on_setup),
    }
}

/// The client for outgoing calls, mail and child processes.
fn outgoing(config: &ServerConfig) -> Result<Outside> {
    let (calls, resolver) = config.calls();
    let outside = Outside::new(calls)?
        .resolving(resolver)
        .with_children(Children::new(config.program.clone()));
    Ok(match &config.smtp {
        Some(smtp) => outside.with_mail(Arc::new(Smtp::new(smtp)?)),
        None => outside,
    })
}

/// The runner of background work.
fn runner(
    store: &Store,
    outside: Outside,
    settings: RetentionSettings,
    meters: Arc<DeliveryMeters>,
) -> Runner {
    Runner {
        store: store.clone(),
        mail: outside.mail.clone(),
        outside,
        jobs: resources::jobs(),
        workflows: resources::workflows(),
        sweeps: resources::sweeps(),
        settings,
        organizations: all_organizations,
        meters,
    }
}

/// Whether the server must be set up before it answers: it can be reached from elsewhere, and has no
/// user.
fn is_setup_required(store: &Store, addresses: &[SocketAddr]) -> Result<bool> {
    let is_local = addresses.iter().all(|address| address.ip().is_loopback());
    Ok(!is_local && !store.read_now(Id::NIL, organizations::has_any_user)?)
}

/// Whether another server has set the installation up. Looked at until it has: 503 meanwhile.
fn is_set_up(store: &Store) -> bool {
    store.read_now(Id::NIL, organizations::has_any_user).unwrap_or(false)
}

/// The metrics of all layers.
fn metrics(
    routes: &[Route],
    site: &dyn Site,
    executor: &Arc<Executor>,
    deliveries: &Arc<DeliveryMeters>,
    spans: &Option<Arc<Spans>>,
    config: &ServerConfig,
) -> Metrics {
    let (store, requests) = (executor.store.meters(), executor.meters.clone());
    let (deliveries, data_directory) = (deliveries.clone(), config.data_directory.clone());
    let (is_replicated, leases) = (config.is_replicated.clone(), config.leases.clone());
    let (tls, spans) = (config.tls.clone(), spans.clone());
    let (damaged, admitting) = (executor.store.clone(), executor.clone());
    let started = executor.store.clock().now();
    let sources = Sources {
        stored: StoredSources {
            stored: resources::metrics(),
            oldest: resources::oldest(),
            organizations: all_organizations,
        },
        others: vec![
            Box::new(move || requests.families()),
            Box::new(move || admitting.admissions().into()),
            Box::new(move || store.families()),
            Box::new(move || vec![damage_found(&damaged)]),
            Box::new(move || deliveries.families()),
            Box::new(move || spans.as_deref().map_or_else(Vec::new, Spans::families)),
            Box::new(move || host::families(started)),
            Box::new(|| vec![panics::family()]),
            Box::new(move || data_directory.as_deref().map_or_else(Vec::new, backup::families)),
            Box::new(move || is_replicated.as_deref().map(replication).into_iter().collect()),
            Box::new(move || leases.as_ref().map(background_work).into_iter().collect()),
            Box::new(move || tls.iter().map(|own| own.family()).collect()),
        ],
    };
    let routes = routes.iter().map(|route| (route.method, route.path, route.waits()));
    let documents = resources::documents().into_iter().map(|document| document.path);
    let own = http::PATHS.into_iter().chain([mcp::PATH]);
    let pages = site.patterns().into_iter().chain(own).chain(documents);
    Metrics::new(routes, pages, sources)
}

/// How often reads found damage.
fn damage_found(store: &Store) -> Family {
    let count = store.known_damage().map_or(0, |known| known.count);
    Family::single(
        "roadstead_damage_found",
        "Reads that found a record or an index entry damaged, or the end of an audit log changed",
        FamilyKind::Counter,
        SampleValue::Number(count as f64),
    )
}

/// Whether a store elsewhere is replicated.
fn replication(is_replicated: &AtomicBool) -> Family {
    Family::gauge(
        "roadstead_store_replicated",
        "Whether each commit is on a second database server before it is acknowledged",
        if is_replicated.load(Ordering::Relaxed) { 1.0 } else { 0.0 },
    )
}

/// Whether this server does the background work of a store elsewhere.
fn background_work(leases: &WorkLeases) -> Family {
    Family::gauge(
        "roadstead_background_work",
        "Whether this server does the background work of the store: of all its servers one does",
        if leases.borrow().is_some() { 1.0 } else { 0.0 },
    )
}

/// An OpenAPI document of this version as it is served.
fn encoded(document: fn(&str) -> serde_json::Value) -> Document {
    Document::new(document(env!("CARGO_PKG_VERSION")).to_string().into())
}

fn all_organizations(store: &Store) -> Result<Vec<Id<Org>>> {
    store.read_now(Id::NIL, organizations::all)
}
