//! `roadstead serve`

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::common::{Common, init_server_logging};
use super::failure::Failure;
use super::listening::{
    Elsewhere, Listening, TlsChoice, TlsFlags, from_elsewhere, local_url, own_hosts,
    warn_of_local_names, warn_of_port,
};
use super::oidc_flags::OidcFlags;
use super::otlp_flags::OtlpFlags;
use super::shutdown::Shutdown;
use super::{open_files, output, values};
use crate::api::{OrganizationCreators, SystemTls};
use crate::app::tls::{OwnTls, renew, watch, watch_expiry};
use crate::app::{DataDir, Listeners, Server, ServerConfig, Setting, Startup, control};
use crate::auth::name_installation_admins;
use crate::base::{Email, HttpUrl, Id};
use crate::http::MetricsToken;
use crate::outbox::RetentionSettings;
use crate::outside::smtp::{Smtp, SmtpConfig, SmtpUrl};
use crate::resources::organizations;
use crate::store::{Store, Tx};

/// Serve the API and run background jobs
#[derive(Args)]
#[command(after_help = "For a new data directory it prints a link to set the server up.\n\n\
                        SIGTERM, SIGHUP or Ctrl-C: stops accepting connections, answers requests in \
                        flight, and exits within 10 seconds. With --tls-cert, SIGHUP reads the \
                        certificate and its key again instead, as the server does when they change; \
                        with --tls acme it asks the authority at once, if a certificate is wanted.")]
pub struct Serve {
    #[command(flatten)]
    pub(super) listening: Listening,

    #[command(flatten)]
    pub(super) tls: TlsFlags,

    /// A store in PostgreSQL, in place of a data directory: postgres://USER:PASSWORD@HOST/DATABASE
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "URL", env = "ROADSTEAD_STORE", hide_env_values = true)]
    pub(super) store: Option<String>,

    /// URL under which clients reach this server; used in links
    #[arg(long, value_name = "URL", env = "ROADSTEAD_PUBLIC_URL", value_parser = values::public_url)]
    pub(super) public_url: Option<HttpUrl>,

    /// A proxy whose X-Forwarded-For is trusted (a network or an address; repeatable)
    #[arg(long, value_name = "CIDR", env = "ROADSTEAD_TRUSTED_PROXY", value_parser = values::network, value_delimiter = ',')]
    trusted_proxy: Vec<IpNet>,

    /// Requests per second per credential, with bursts of twice that; 0 for no limit
    #[arg(long, value_name = "N", env = "ROADSTEAD_RATE_LIMIT", default_value_t = 500, value_parser = values::whole_number, allow_negative_numbers = true)]
    rate_limit: u32,

    /// A token that lets its bearer read /metrics from another machine
    #[arg(long, value_name = "TOKEN", env = "ROADSTEAD_METRICS_TOKEN", hide_env_values = true, value_parser = values::token)]
    metrics_token: Option<String>,

    /// E-mail address of who administers the installation, in place of those so far (repeatable)
    #[arg(long, value_name = "ADDRESS", env = "ROADSTEAD_INSTALLATION_ADMIN", value_parser = values::email, value_delimiter = ',')]
    installation_admin: Vec<Email>,

    /// Who may create organizations: everyone with an account, or who administers the installation
    #[arg(long, value_name = "WHO", env = "ROADSTEAD_WHO_MAY_CREATE_ORGANIZATIONS", default_value = "everyone", value_parser = values::creators)]
    who_may_create_organizations: OrganizationCreators,

    /// Refuse to create a data directory: fail if there is none
    #[arg(long, env = "ROADSTEAD_MUST_EXIST")]
    pub(super) must_exist: bool,

    /// Retention of deleted and superseded memories
    #[arg(long, value_name = "DURATION", env = "ROADSTEAD_MEMORY_RETENTION", default_value = "30d", value_parser = values::duration_secs)]
    memory_retention: i64,

    /// Retention of the notification log, the audit log, label history and closed drafts
    #[arg(long, value_name = "DURATION", env = "ROADSTEAD_LOG_RETENTION", default_value = "365d", value_parser = values::duration_secs)]
    log_retention: i64,

    /// A private network or address that outgoing calls may reach (repeatable)
    #[arg(long, value_name = "CIDR", env = "ROADSTEAD_ALLOW_PRIVATE_NETWORK", value_parser = values::network, value_delimiter = ',')]
    allow_private_network: Vec<IpNet>,

    /// Certificate authorities to trust for outgoing calls in addition to the built-in ones
    #[arg(long, value_name = "PEM", env = "ROADSTEAD_CA_FILE")]
    ca_file: Option<std::path::PathBuf>,

    /// Silence after which an agent that has sent a heartbeat counts as stale
    #[arg(long, value_name = "DURATION", env = "ROADSTEAD_STALE_AFTER", default_value = "15m", value_parser = values::duration_secs)]
    stale_after: i64,

    /// Server through which mail is sent: smtps://USER:PASSWORD@HOST (TLS) or smtp://… (STARTTLS)
    #[arg(
        long,
        value_name = "URL",
        env = "ROADSTEAD_SMTP_URL",
        hide_env_values = true,
        requires = "mail_from"
    )]
    smtp_url: Option<String>,

    /// Sender of mail: an address, or "Name <address>"
    #[arg(long, value_name = "ADDRESS", env = "ROADSTEAD_MAIL_FROM", requires = "smtp_url")]
    mail_from: Option<String>,

    #[command(flatten)]
    oidc: OidcFlags,

    #[command(flatten)]
    otlp: OtlpFlags,

    #[command(flatten)]
    pub(super) common: Common,
}

impl Serve {
    pub(super) fn run(self, settings: Vec<Setting>) -> Result<(), Failure> {
        #[cfg(feature = "postgres")]
        if let Some(url) = self.store.clone() {
            return self.run_over_store(&url);
        }
        init_server_logging(&self.common);
        let dir = self.common.data_dir();
        let tls = self.tls.read(self.public_url.as_ref())?;
        let config = ServerConfig { data_directory: Some(dir.path().into()), ..self.config()? };
        let version = env!("CARGO_PKG_VERSION").into();
        let startup = Startup { version, settings, open_files: config.open_files };
        let json = self.common.json;
        run(async move {
            let mut shutdown = Shutdown::listen()?;
            // First, so that a port in use leaves no new directory behind.
            let listeners = self.listen(&dir).await?;
            let addresses = listeners.addresses().map_err(Failure::io("a listener"))?;
            let (address, redirect) = (addresses[0], listeners.redirect_address());
            if self.must_exist {
                dir.require_exists()?;
            }
            let created = !dir.exists();
            let store = dir.open_or_create()?;
            let data = dir.absolute();
            tracing::info!(data = %data.display(), created, %address, "starting");
            dir.note_served();
            let hosts = || own_hosts(self.public_url.as_ref(), &addresses);
            let config = ServerConfig { tls: tls.own(&dir, hosts)?, ..config };
            let calls = config.calls();
            let own_tls = config.tls.clone();
            warn_of_local_names(own_tls.as_deref(), &addresses);
            let local = || local_url(address, own_tls.as_deref());
            let link_base = config.public_url.clone().unwrap_or_else(local);
            // Before requests are served, so that a ready server has its link.
            let link = setup_link(&store, &dir, &link_base).await?;
            name_admins(&store, &config).await?;
            let used = dir.clone();
            let on_setup = Arc::new(move || remove_setup_link(&used));
            let server = Server::start_with(store.clone(), listeners, config, Some(on_setup))?;
            let (linked, served) = (link_base.clone(), own_tls.clone());
            let control = control::listen(dir.clone(), store.clone(), linked, startup, served);
            let _control = control.inspect_err(|error| {
                tracing::warn!(%error, "no control socket: commands that need the server will fail");
            });
            control::resume_rotation(dir.clone(), store.clone())?;
            let announced = Announced {
                addresses: &addresses,
                redirect,
                tls: own_tls.as_deref(),
                public_url: self.public_url.as_ref(),
            };
            announced.print(&data, created, link.as_deref(), json)?;
            if link.is_some() {
                tokio::spawn(renew_setup_link(store.clone(), dir, link_base));
            }
            let ended = match (tls, own_tls) {
                (TlsChoice::Files(files, own), _) => {
                    let watching = watch(own, files, shutdown.hangups()?);
                    shutdown.serve(server, &data, watching).await
                }
                (TlsChoice::Acme(settings), Some(own)) => {
                    warn_of_port(&addresses);
                    let renewing = renew(own, data.clone(), settings, calls, shutdown.hangups()?)?;
                    shutdown.serve(server, &data, renewing).await
                }
                (_, own) => shutdown.serve(server, &data, watch_expiry(own)).await,
            };
            store.close();
            ended
        })
    }

    /// Listens; where another process does, it may be a server of the same directory.
    async fn listen(&self, dir: &DataDir) -> Result<Listeners, Failure> {
        let listeners = self.tls.bind(&self.listening).await;
        listeners.map_err(|failure| match failure {
            Failure::Failed(why) if control::is_served(dir) => Failure::Failed(format!(
                "{why}; a server runs already over {}: stop it first, or name another directory with \
                 --data, too",
                dir.absolute().display()
            )),
            failure => failure,
        })
    }

    pub(super) fn config(&self) -> Result<ServerConfig, Failure> {
        let extra_roots_pem = match &self.ca_file {
            None => None,
            Some(path) => Some(std::fs::read(path).map_err(|error| {
                Failure::Usage(format!("--ca-file {}: {error}", path.display()))
            })?),
        };
        let smtp = self.smtp(extra_roots_pem.clone())?;
        Ok(ServerConfig {
            smtp,
            oidc: self.oidc.providers()?,
            spans: self.otlp.target()?,
            open_files: open_files::raise(),
            public_url: self.public_url.as_ref().map(ToString::to_string),
            trusted_proxies: self.trusted_proxy.clone(),
            rate_limit: self.rate_limit,
            installation_admins: (!self.installation_admin.is_empty())
                .then(|| self.installation_admin.clone()),
            organization_creators: self.who_may_create_organizations,
            metrics_token: self.metrics_token.as_deref().map(MetricsToken::new),
            settings: RetentionSettings {
                memory_retention_secs: self.memory_retention,
                log_retention_secs: self.log_retention,
                stale_after_secs: self.stale_after,
                ..RetentionSettings::default()
            },
            allow_private: self.allow_private_network.clone(),
            extra_roots_pem,
            program: super::common::program(),
            ..ServerConfig::default()
        })
    }
}

impl Serve {
    /// Returns the settings of mail. The URL is parsed here, not by clap, which would repeat it with
    /// its password.
    fn smtp(&self, extra_roots_pem: Option<Vec<u8>>) -> Result<Option<SmtpConfig>, Failure> {
        let (Some(url), Some(from)) = (&self.smtp_url, &self.mail_from) else { return Ok(None) };
        let url = SmtpUrl::parse(url)
            .map_err(|problem| Failure::Usage(format!("--smtp-url {problem}")))?;
        let smtp = SmtpConfig { url, from: from.clone(), extra_roots_pem };
        // The server makes its own; this one says early what is wrong.
        Smtp::new(&smtp).map_err(|error| {
            let problems = error.issues().iter().map(|one| format!("{} {}", one.path, one.message));
            Failure::Usage(problems.collect::<Vec<_>>().join("; "))
        })?;
        Ok(Some(smtp))
    }
}

/// Names those who administer the installation, if flags say who.
pub(super) async fn name_admins(store: &Store, config: &ServerConfig) -> Result<(), Failure> {
    if let Some(admins) = config.installation_admins.clone() {
        let name = move |tx: &mut Tx| name_installation_admins(tx, Some(admins.clone()));
        store.write(Id::NIL, name).await?;
    }
    Ok(())
}

/// Runs a future on a new multi-threaded runtime.
pub(super) fn run(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::io("threads cannot be started"))?;
    let result = runtime.block_on(work);
    // A running DNS lookup cannot be cancelled and must not delay the exit.
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}

/// Said where a server listens on all addresses, and it is not known what others call this machine.
const NO_NAME: &str =
    "For other machines: give --public-url with a name of this one that is in the certificate.\n";

/// What is said of where a server listens.
pub(super) struct Announced<'a> {
    pub(super) addresses: &'a [SocketAddr],
    /// Where browsers are led to the first of them.
    pub(super) redirect: Option<SocketAddr>,
    pub(super) tls: Option<&'a OwnTls>,
    pub(super) public_url: Option<&'a HttpUrl>,
}

impl Announced<'_> {
    /// Prints the addresses, the data directory and, until the server is set up, the setup link.
    fn print(
        &self,
        data: &Path,
        created: bool,
        link: Option<&str>,
        json: bool,
    ) -> Result<(), Failure> {
        let dir = data.display().to_string();
        let mut value = json!({"dataDirectory": dir, "created": created, "setupLink": link});
        self.add_to(&mut value);
        let made = if created { "created now" } else { "existing" };
        let text = format!("{}\nData directory: {dir} ({made})", self.text());
        output::print(json, &value, self.with_link(text, link))
    }

    fn elsewhere(&self) -> Option<Elsewhere> {
        from_elsewhere(self.addresses, self.public_url, self.tls)
    }

    /// A text with the setup link, if there is one, for this machine and for others.
    pub(super) fn with_link(&self, mut text: String, link: Option<&str>) -> String {
        if let Some(link) = link {
            text.push_str(&format!(
                "\n\nIt is not set up yet. Within 30 minutes, open this link in a browser, or POST \
                 the token after the # to /api/setup:\n  {link}\n"
            ));
            text.push_str(&self.link_from_elsewhere(link));
        }
        text
    }

    /// The setup link for other machines, or why there is none, where the one above is for this machine.
    fn link_from_elsewhere(&self, link: &str) -> String {
        let is_open =
            self.addresses.iter().any(|address| !address.ip().to_canonical().is_loopback());
        let (true, None, Some((_, token))) = (is_open, self.public_url, link.split_once('#'))
        else {
            return String::new();
        };
        if self.tls.is_none() {
            return "On this machine only: from others, what is entered could be read on the way. \
                    See --tls.\n"
                .into();
        }
        match self.elsewhere() {
            Some(Elsewhere { url, .. }) if !link.starts_with(&format!("{url}/")) => {
                format!("From other machines:\n  {url}/setup#{token}\n")
            }
            None if self.addresses.iter().any(|address| address.ip().is_unspecified()) => {
                NO_NAME.into()
            }
            _ => String::new(),
        }
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    fn urls(&self) -> Vec<String> {
        let scheme = self.scheme();
        self.addresses.iter().map(|address| format!("{scheme}://{address}")).collect()
    }

    /// Adds where it listens, and the certificate.
    pub(super) fn add_to(&self, value: &mut Value) {
        let urls = self.urls();
        value["listening"] = urls.first().map(String::as_str).into();
        value["addresses"] = urls.into();
        value["redirecting"] = self.redirect.map(|address| format!("http://{address}")).into();
        value["tls"] = json!(self.tls.map(OwnTls::status));
    }

    /// The same for people.
    pub(super) fn text(&self) -> String {
        let (version, urls) = (env!("CARGO_PKG_VERSION"), self.urls().join(" and "));
        let mut text = format!("Roadstead {version} listens on {urls}");
        if let Some(Elsewhere { url, remark }) = self.elsewhere() {
            text.push_str(&format!("\nFrom other machines: {url}{remark}"));
        }
        if let Some(SystemTls { certificate, fingerprint, not_after, self_signed, acme, .. }) =
            self.tls.map(OwnTls::status)
        {
            let kind = if self_signed { "Self-signed certificate" } else { "Certificate" };
            text.push_str(&format!(
                "\n{kind}: {certificate}, valid until {not_after}\n  SHA-256 {fingerprint}"
            ));
            match acme {
                Some(acme) if self_signed => {
                    let directory = acme.directory;
                    text.push_str(&format!("\n  Until the authority has issued one: {directory}"));
                }
                _ if self_signed => text.push_str("\n  How to trust it: roadstead doctor"),
                _ => {}
            }
        }
        text
    }
}

async fn setup_link(
    store: &Store,
    dir: &DataDir,
    link_base: &str,
) -> Result<Option<String>, Failure> {
    let token = store.write(Id::NIL, organizations::issue_setup_token).await?;
    let Some(token) = token else {
        dir.remove_setup_link().map_err(Failure::io("the setup link"))?;
        return Ok(None);
    };
    // In the fragment, which browsers do not send, so that it reaches no log.
    let link = format!("{}/setup#{token}", link_base.trim_end_matches('/'));
    dir.write_setup_link(&link).map_err(Failure::io("the setup link"))?;
    Ok(Some(link))
}

/// Removes a link that has been used, or is of no use any more.
fn remove_setup_link(dir: &DataDir) {
    if let Err(error) = dir.remove_setup_link() {
        tracing::warn!(%error, "the used setup link could not be removed");
    }
}

/// Replaces the link before it expires, until it has been used.
async fn renew_setup_link(store: Store, dir: DataDir, link_base: String) {
    /// A link is valid for 30 minutes.
    const RENEW_AFTER: Duration = Duration::from_secs(29 * 60);
    const POLL_INTERVAL: Duration = Duration::from_secs(1);
    let mut created = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if store.read_now(Id::NIL, organizations::has_any_user).unwrap_or(false) {
            // By the link, which is gone then, or by an import.
            remove_setup_link(&dir);
            return;
        }
        if created.elapsed() < RENEW_AFTER {
            continue;
        }
        created = tokio::time::Instant::now();
        match setup_link(&store, &dir, &link_base).await {
            Ok(Some(link)) => output::status(&format!("A new setup link:\n  {link}")),
            Ok(None) => return,
            Err(_) => tracing::warn!("the setup link could not be renewed"),
        }
    }
}
