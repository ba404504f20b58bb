//! `roadstead serve --store`: the server over a store in PostgreSQL.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::block_in_place;

use super::common::init_server_logging;
use super::failure::Failure;
use super::listening::{TlsChoice, local_url, warn_of_local_names};
use super::serve::{Announced, Serve, name_admins, run};
use super::shutdown::{Shutdown, StopLimit, end_after};
use super::store_check::url;
use super::{machine, output};
use crate::app::shared_store::SharedStore;
use crate::app::tls::{OwnTls, TlsFiles, watch};
use crate::app::{Server, ServerConfig};
use crate::base::Id;
use crate::resources::organizations;
use crate::store::Store;
use crate::store::engine::postgres::{Durability, Node, Postgres};

/// How often the settings of the database server are looked at: another one, with other settings, may
/// have been promoted.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// How long stopping may take while the database server hangs: requests are given 8 seconds to be answered.
const HANGING_STOP_TIME: Duration = Duration::from_secs(12);

/// The same while the database server answers, and the machine or it is slow. Service managers wait for 15
/// seconds (`TimeoutStopSec`) before they kill.
const STOP_TIME: Duration = Duration::from_secs(14);

/// The database server hangs if its last answer is older, or it does not finish commits. It is asked each
/// second until the store is left, and answers after 4 s that a lock could not be had.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// How often they are logged although they are the same: hourly.
const LOG_EVERY: u32 = 360;

impl Serve {
    /// The certificate that it serves, if it speaks TLS, with the files that it is read from.
    fn tls_of_files(&self) -> Result<(Option<TlsFiles>, Option<Arc<OwnTls>>), Failure> {
        match self.tls.read(self.public_url.as_ref())? {
            TlsChoice::None => Ok((None, None)),
            TlsChoice::Files(files, own) => Ok((Some(files), Some(own))),
            TlsChoice::SelfSigned | TlsChoice::Acme(_) => Err(Failure::Usage(
                "--tls keeps its certificate in a data directory, which a store in PostgreSQL has not: \
                 give --tls-cert and --tls-key, or put a proxy with TLS in front"
                    .into(),
            )),
        }
    }

    /// Serves the store at this URL. There is no data directory, so nothing that needs one: no
    /// control socket, no backups by the server, no replacement of the key.
    pub(super) fn run_over_store(self, text: &str) -> Result<(), Failure> {
        init_server_logging(&self.common);
        let url = url(text)?;
        let (tls, own_tls) = self.tls_of_files()?;
        let key_source = self.common.data_dir().key_source().clone();
        let is_replicated = Arc::<AtomicBool>::default();
        let config = ServerConfig {
            is_replicated: Some(is_replicated.clone()),
            tls: own_tls.clone(),
            ..self.config()?
        };
        let (must_exist, json) = (self.must_exist, self.common.json);
        run(async move {
            let mut shutdown = Shutdown::listen()?;
            // Until it is served, much may wait for the database.
            let opening =
                Shutdown::at_once(0, "stopped before the store was served", tls.is_none())?;
            let listeners = self.tls.bind(&self.listening).await?;
            let addresses = listeners.addresses().map_err(Failure::io("a listener"))?;
            let (address, redirect) = (addresses[0], listeners.redirect_address());
            let (place, node) = (url.shown(), node(address));
            let progress = |line: &str| {
                output::progress(line);
                if !line.is_empty() {
                    tracing::info!(store = %place, "{line}");
                }
            };
            let SharedStore { store, engine } = block_in_place(|| {
                SharedStore::open(url, &key_source, node, must_exist, &progress)
            })?;
            let created = engine.is_new();
            tracing::info!(store = %place, created, %address, "starting");
            let seen = block_in_place(|| look(&engine, &is_replicated, None));
            warn_of_local_names(own_tls.as_deref(), &addresses);
            let local = || local_url(address, own_tls.as_deref());
            let link_base = config.public_url.clone().unwrap_or_else(local);
            let link = setup_link(&store, &link_base).await?;
            name_admins(&store, &config).await?;
            let (leases, nodes) = (Some(engine.leases()), Some(engine.nodes()));
            let config = ServerConfig { leases, nodes, ..config };
            let server = Server::start_with(store.clone(), listeners, config, None)?;
            opening.abort();
            let announced = Announced {
                addresses: &addresses,
                redirect,
                tls: own_tls.as_deref(),
                public_url: self.public_url.as_ref(),
            };
            announce(&announced, &place, created, link.as_deref(), json)?;
            let watching: Pin<Box<dyn Future<Output = Infallible>>> = match tls.zip(own_tls) {
                Some((files, own)) => Box::pin(watch(own, files, shutdown.hangups()?)),
                None => Box::pin(std::future::pending()),
            };
            let checking = tokio::spawn(look_on(engine.clone(), is_replicated, seen));
            let shutdown = shutdown.within(stop_limit(&engine));
            let ended = tokio::select! {
                ended = shutdown.serve(server, Path::new(&place), watching) => ended,
                () = removed(engine.is_removed()) => {
                    end_after(stop_limit(&engine))?;
                    Err(Failure::Failed(
                        "others have removed this server from the store, in which it was silent for \
                         long; it has stopped".into(),
                    ))
                }
            };
            checking.abort();
            let _again = Shutdown::at_once(1, "stopped before the store was closed", false)?;
            block_in_place(|| store.close());
            ended
        })
    }
}

fn stop_limit(engine: &Arc<Postgres>) -> StopLimit {
    let engine = engine.clone();
    StopLimit {
        hanging: HANGING_STOP_TIME,
        most: STOP_TIME,
        is_answering: Arc::new(move || engine.is_answering(ANSWER_TIME)),
    }
}

/// What another server is told about this one.
fn node(address: SocketAddr) -> Node {
    let description = this_process(&format!("the server at {address}"));
    Node::new(env!("CARGO_PKG_VERSION"), &description).at(&address.to_string())
}

/// What others are told about this process.
pub(super) fn this_process(what: &str) -> String {
    let host = machine::name().unwrap_or_else(|| "another host".into());
    format!("{what} of {host}, process {}", std::process::id())
}

/// Waits until others have removed this server from the store.
async fn removed(mut is_removed: watch::Receiver<bool>) {
    if is_removed.wait_for(|removed| *removed).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Looks at the settings of the database server, and logs what is to be known about them, unless it
/// was logged `before`.
fn look(
    engine: &Postgres,
    is_replicated: &AtomicBool,
    before: Option<&Durability>,
) -> Option<Durability> {
    match engine.durability() {
        Ok(durability) => {
            is_replicated.store(durability.is_replicated(), Ordering::Relaxed);
            let remarks = durability.remarks();
            if before.is_none_or(|before| before.remarks() != remarks) {
                for remark in remarks {
                    tracing::warn!(version = %durability.version, "{remark}");
                }
            }
            Some(durability)
        }
        Err(error) => {
            if is_replicated.swap(false, Ordering::Relaxed) || before.is_some() {
                tracing::warn!(%error, "the settings of the database server cannot be read");
            }
            None
        }
    }
}

/// Looks again and again.
async fn look_on(
    engine: Arc<Postgres>,
    is_replicated: Arc<AtomicBool>,
    mut seen: Option<Durability>,
) {
    for number in 1_u32.. {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let before = seen.filter(|_| !number.is_multiple_of(LOG_EVERY));
        seen = block_in_place(|| look(&engine, &is_replicated, before.as_ref()));
    }
}

/// Returns the setup link, until the store is set up: all servers of it print the same one. It is
/// valid for 30 minutes at most; a restart prints another one then.
async fn setup_link(store: &Store, link_base: &str) -> Result<Option<String>, Failure> {
    let token = store.write(Id::NIL, organizations::shared_setup_token).await?;
    Ok(token.map(|token| format!("{}/setup#{token}", link_base.trim_end_matches('/'))))
}

fn announce(
    announced: &Announced<'_>,
    place: &str,
    created: bool,
    link: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    let mut value = json!({ "store": place, "created": created, "setupLink": link });
    announced.add_to(&mut value);
    let made = if created { "founded now" } else { "existing" };
    let text = format!("{}\nStore: {place} ({made})", announced.text());
    output::print(json, &value, announced.with_link(text, link))
}
