//! `roadstead serve --store`: the server over a store in PostgreSQL.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::block_in_place;

use super::common::init_logging;
use super::failure::Failure;
use super::output;
use super::serve::{Serve, Shutdown, listen_at, local_url, run};
use super::store_check::url;
use crate::app::shared_store::SharedStore;
use crate::app::{Server, ServerConfig};
use crate::base::Id;
use crate::resources::organizations;
use crate::store::Store;
use crate::store::engine::postgres::Postgres;

/// How often the settings of the database server are looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);

impl Serve {
    /// Serves the store at this URL. There is no data directory, so nothing that needs one: no
    /// control socket, no backups by the server, no replacement of the key.
    pub(super) fn run_over_store(self, text: &str) -> Result<(), Failure> {
        init_logging(&self.common);
        let url = url(text)?;
        let key_source = self.common.data_dir().key_source().clone();
        let is_replicated = Arc::<AtomicBool>::default();
        let config = ServerConfig { is_replicated: Some(is_replicated.clone()), ..self.config()? };
        let must_exist = self.must_exist;
        let json = self.common.json;
        run(async move {
            let shutdown = Shutdown::listen()?;
            let listener = listen_at(&self.listen).await?;
            let address = listener.local_addr()?;
            let (place, owner) = (url.shown(), description(address));
            let progress = |line: &str| {
                output::progress(line);
                if !line.is_empty() {
                    tracing::info!(store = %place, "{line}");
                }
            };
            let opened = block_in_place(|| {
                SharedStore::open(url, &key_source, &owner, must_exist, &progress)
            })?;
            let SharedStore { store, engine } = opened;
            let created = engine.is_new();
            tracing::info!(store = %place, created, %address, "starting");
            block_in_place(|| look(&engine, &is_replicated));
            let link_base = config.public_url.clone().unwrap_or_else(|| local_url(address));
            let link = setup_link(&store, &link_base).await?;
            let server = Server::start_with(store.clone(), listener, config, None)?;
            announce(address, &place, created, link.as_deref(), json)?;
            let checking = tokio::spawn(look_every_hour(engine.clone(), is_replicated));
            let ended = tokio::select! {
                ended = shutdown.serve(server, Path::new(&place), std::future::pending()) => ended,
                () = lost(engine.is_lost()) => Err(Failure::Failed(
                    "another server has taken over the store; this one has stopped".into(),
                )),
            };
            checking.abort();
            block_in_place(|| store.close());
            ended
        })
    }
}

/// What another server is told about this one.
fn description(address: SocketAddr) -> String {
    this_process(&format!("the server at {address}"))
}

/// What others are told about this process.
pub(super) fn this_process(what: &str) -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    let host = if name.is_empty() { "another host" } else { name };
    format!("{what} of {host}, process {}", std::process::id())
}

/// Waits until another server has taken the store over.
async fn lost(mut is_lost: watch::Receiver<bool>) {
    if is_lost.wait_for(|lost| *lost).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Looks at the settings of the database server, and logs what is to be known about them.
fn look(engine: &Postgres, is_replicated: &AtomicBool) {
    match engine.durability() {
        Ok(durability) => {
            is_replicated.store(durability.is_replicated(), Ordering::Relaxed);
            for remark in durability.remarks() {
                tracing::warn!(version = %durability.version, "{remark}");
            }
        }
        Err(error) => {
            is_replicated.store(false, Ordering::Relaxed);
            tracing::warn!(%error, "the settings of the database server cannot be read");
        }
    }
}

async fn look_every_hour(engine: Arc<Postgres>, is_replicated: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        block_in_place(|| look(&engine, &is_replicated));
    }
}

/// Returns a new setup link, until the server is set up. It is valid for 30 minutes; a restart
/// prints another one.
async fn setup_link(store: &Store, link_base: &str) -> Result<Option<String>, Failure> {
    let token = store.write(Id::NIL, organizations::issue_setup_token).await?;
    Ok(token.map(|token| format!("{}/setup#{token}", link_base.trim_end_matches('/'))))
}

fn announce(
    address: SocketAddr,
    place: &str,
    created: bool,
    link: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    let at = format!("http://{address}");
    let value = json!({ "listening": at, "store": place, "created": created, "setupLink": link });
    let made = if created { "founded now" } else { "existing" };
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("Roadstead {version} listens on {at}\nStore: {place} ({made})");
    if let Some(link) = link {
        text.push_str(&format!(
            "\n\nIt is not set up yet. Within 30 minutes, open this link in a browser, or POST the \
             token after the # to /api/setup:\n  {link}\n"
        ));
    }
    output::print(json, &value, &text)
}
