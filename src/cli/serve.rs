//! `roadstead serve`

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Common, Failure, output, values};
use crate::app::{Config, DataDir, Server};
use crate::base::{HttpUrl, Id};
use crate::outbox::Settings;
use crate::resources::organizations;
use crate::store::Store;

/// Serve the API, and do what is due in the background
#[derive(Args)]
#[command(after_help = "On an empty data directory it prints a link by which the first person \
                        sets it up.\n\nSIGTERM or Ctrl-C: what is in flight is answered, then it \
                        ends, within 10 seconds.")]
pub struct Serve {
    /// Where to listen
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "ROADSTEAD_LISTEN",
        default_value = "127.0.0.1:7420",
        value_parser = values::host_and_port
    )]
    listen: String,

    /// How this server is reached from outside; used in links
    #[arg(long, value_name = "URL", env = "ROADSTEAD_PUBLIC_URL", value_parser = |text: &str| HttpUrl::parse(text))]
    public_url: Option<HttpUrl>,

    /// A proxy whose X-Forwarded-For is believed (a network or an address; repeatable)
    #[arg(long, value_name = "CIDR", env = "ROADSTEAD_TRUSTED_PROXY", value_parser = values::network, value_delimiter = ',')]
    trusted_proxy: Vec<IpNet>,

    /// Requests a second per credential, twice that at once; 0 for no limit
    #[arg(long, value_name = "N", env = "ROADSTEAD_RATE_LIMIT", default_value_t = 500)]
    rate_limit: u32,

    /// How long deleted and superseded memories are kept
    #[arg(long, value_name = "DURATION", env = "ROADSTEAD_MEMORY_RETENTION", default_value = "30d", value_parser = values::duration_secs)]
    memory_retention: i64,

    /// How long entries of the notification log are kept
    #[arg(long, value_name = "DURATION", env = "ROADSTEAD_LOG_RETENTION", default_value = "365d", value_parser = values::duration_secs)]
    log_retention: i64,

    /// A private network, or address, that outgoing calls may reach (repeatable)
    #[arg(long, value_name = "CIDR", env = "ROADSTEAD_ALLOW_PRIVATE_NETWORK", value_parser = values::network, value_delimiter = ',')]
    allow_private_network: Vec<IpNet>,

    /// Certificate authorities to trust for outgoing calls beside the built-in ones
    #[arg(long, value_name = "PEM", env = "ROADSTEAD_CA_FILE")]
    ca_file: Option<std::path::PathBuf>,

    /// Flags of what comes later, taken so that a service file that has them starts: how long an
    /// agent may be silent, and how mail is sent.
    #[arg(long, env = "ROADSTEAD_STALE_AFTER", hide = true, value_parser = values::duration_secs)]
    stale_after: Option<i64>,
    #[arg(long, env = "ROADSTEAD_SMTP_URL", hide = true)]
    smtp_url: Option<String>,
    #[arg(long, env = "ROADSTEAD_MAIL_FROM", hide = true)]
    mail_from: Option<String>,

    #[command(flatten)]
    common: Common,
}

impl Serve {
    pub(super) fn run(self) -> Result<(), Failure> {
        super::log(&self.common);
        let config = self.config()?;
        let dir = self.common.data_dir();
        let json = self.common.json;
        run(async move {
            let stop = Stop::listen()?;
            // Before the rest, so that a port that is taken leaves no directory behind.
            let listener = listen_at(&self.listen).await?;
            let address = listener.local_addr()?;
            let store = dir.open_or_make()?;
            let link_base = config.public_url.clone().unwrap_or_else(|| reached_at(address));
            // Before anybody is answered: whoever sees the server ready finds its link.
            let link = setup_link(&store, &dir, &link_base).await?;
            let server = Server::start(store.clone(), listener, config)?;
            announce(address, link.as_deref(), json)?;
            if link.is_some() {
                tokio::spawn(renew(store, dir, link_base));
            }
            stop.serve(server, std::future::pending()).await
        })
    }

    fn config(&self) -> Result<Config, Failure> {
        let extra_roots_pem = match &self.ca_file {
            None => None,
            Some(path) => Some(std::fs::read(path).map_err(|error| {
                Failure::Unusable(format!("--ca-file {}: {error}", path.display()))
            })?),
        };
        Ok(Config {
            public_url: self.public_url.as_ref().map(ToString::to_string),
            trusted_proxies: self.trusted_proxy.clone(),
            rate_limit: self.rate_limit,
            settings: Settings {
                memory_retention_secs: self.memory_retention,
                log_retention_secs: self.log_retention,
            },
            allow_private: self.allow_private_network.clone(),
            extra_roots_pem,
        })
    }
}

/// Runs a server's work to its end.
pub(super) fn run(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // A name that is being looked up cannot be broken off; it must not keep us either.
    runtime.shutdown_timeout(Duration::from_millis(200));
    done
}

pub(super) async fn listen_at(address: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::Unusable(format!("cannot listen at {address}: {error}; choose another --listen"))
    })
}

/// Says where the server listens and, while nobody has set it up, by which link that is done.
fn announce(address: SocketAddr, link: Option<&str>, json: bool) -> Result<(), Failure> {
    let at = format!("http://{address}");
    let value = json!({"listening": at, "setupLink": link});
    let mut text = format!("Roadstead {} listens at {at}", env!("CARGO_PKG_VERSION"));
    if let Some(link) = link {
        text.push_str(&format!(
            "\n\nNobody has set it up yet. Within 30 minutes, POST what stands behind the # to \
             /api/setup:\n  {link}\n"
        ));
    }
    output::print(json, &value, &text)
}

/// Where a browser on this machine reaches a listener that may be bound to every address.
fn reached_at(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("http://127.0.0.1:{}", address.port()),
        false => format!("http://{address}"),
    }
}

async fn setup_link(
    store: &Store,
    dir: &DataDir,
    link_base: &str,
) -> Result<Option<String>, Failure> {
    let token = store.write(Id::NOTHING, organizations::new_setup_token).await?;
    let Some(token) = token else {
        dir.remove_setup_link()?;
        return Ok(None);
    };
    // In the fragment, so that it reaches no log.
    let link = format!("{}/setup#{token}", link_base.trim_end_matches('/'));
    dir.write_setup_link(&link)?;
    Ok(Some(link))
}

/// Makes the link anew before it ends, and removes it once it has been used.
async fn renew(store: Store, dir: DataDir, link_base: String) {
    /// The link lasts 30 minutes; a new one comes with one to spare.
    const RENEW: Duration = Duration::from_secs(29 * 60);
    const LOOK: Duration = Duration::from_secs(1);
    let mut made = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(LOOK).await;
        if store.read_now(Id::NOTHING, organizations::any_user).unwrap_or(false) {
            if let Err(error) = dir.remove_setup_link() {
                tracing::warn!(%error, "the used setup link could not be removed");
            }
            return;
        }
        if made.elapsed() < RENEW {
            continue;
        }
        made = tokio::time::Instant::now();
        match setup_link(&store, &dir, &link_base).await {
            Ok(Some(link)) => output::say(&format!("A new setup link:\n  {link}")),
            Ok(None) => return,
            Err(_) => tracing::warn!("the setup link could not be made anew"),
        }
    }
}

/// The signals that end a server. Listened to before anybody is told that it is there: one that
/// came earlier would end the process on the spot.
pub(super) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub(super) fn listen() -> Result<Self, Failure> {
        Ok(Stop {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Serves until SIGTERM or Ctrl-C, and does `meanwhile` until then. A second signal ends the
    /// process at once.
    pub(super) async fn serve(
        mut self,
        server: Server,
        meanwhile: impl Future<Output = Infallible>,
    ) -> Result<(), Failure> {
        tokio::select! {
            () = self.told() => {}
            never = meanwhile => match never {},
        }
        tracing::info!("stopping: what is in flight is answered first");
        tokio::select! {
            () = server.stop() => Ok(()),
            () = self.told() => Err(Failure::Failed("stopped at once".into())),
        }
    }

    async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
