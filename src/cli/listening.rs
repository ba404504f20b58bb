//! Where a server listens, and with which TLS.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::acme_flags::AcmeFlags;
use super::binding::{Wanted, listen};
use super::failure::Failure;
use super::{machine, values};
use crate::api::SystemTls;
use crate::app::tls::{AcmeSettings, Hosts, OwnTls, TlsFiles};
use crate::app::{DataDir, Listeners};
use crate::base::HttpUrl;
use crate::http::names_this_machine;
use crate::outside::own_address;

/// The addresses of a server, for each command that has them.
#[derive(Args)]
pub(super) struct Listening {
    /// Address to listen on (repeatable)
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "ROADSTEAD_LISTEN",
        default_value = "127.0.0.1:7420",
        value_parser = values::host_and_port,
        value_delimiter = ','
    )]
    pub(super) listen: Vec<String>,
}

impl Listening {
    /// Listens on all of them.
    pub(super) async fn bind(&self) -> Result<Listeners, Failure> {
        self.bind_with(None).await
    }

    /// Listens where browsers are led to TLS, too.
    async fn bind_with(&self, redirect: Option<&str>) -> Result<Listeners, Failure> {
        let main = self.listen.iter().map(|address| Wanted { flag: "--listen", address });
        let other = redirect.map(|address| Wanted { flag: "--redirect-http", address });
        let mut open = listen(&main.chain(other).collect::<Vec<_>>()).await?;
        let redirect = if redirect.is_some() { open.pop() } else { None };
        Ok(Listeners { main: open, redirect })
    }
}

/// The TLS of a server.
#[derive(Args)]
pub(super) struct TlsFlags {
    /// Serve TLS with the certificate in this file, PEM, with those of its issuers behind it
    #[arg(
        long,
        value_name = "FILE",
        env = "ROADSTEAD_TLS_CERT",
        requires = "tls_key",
        conflicts_with = "tls"
    )]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate, PEM, not encrypted
    #[arg(long, value_name = "FILE", env = "ROADSTEAD_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Serve TLS with a certificate that the server gets or makes itself, in its data directory
    #[arg(long, value_enum, value_name = "HOW", env = "ROADSTEAD_TLS")]
    tls: Option<TlsKind>,

    #[command(flatten)]
    acme: AcmeFlags,

    /// Lead browsers that come without TLS to this address to where it is spoken
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "ROADSTEAD_REDIRECT_HTTP",
        value_parser = values::host_and_port
    )]
    redirect_http: Option<String>,
}

/// Where a certificate comes from if no file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsKind {
    /// The server makes it; clients must be told to trust it
    SelfSigned,
    /// An authority issues it for --domain, by ACME
    Acme,
}

/// A certificate, read before a port is opened.
pub(super) enum TlsChoice {
    None,
    Files(TlsFiles, Arc<OwnTls>),
    SelfSigned,
    Acme(AcmeSettings),
}

impl TlsFlags {
    /// Reads the files.
    ///
    /// # Errors
    /// Usage, if they cannot be served, or flags do not fit TLS.
    pub(super) fn read(&self, public_url: Option<&HttpUrl>) -> Result<TlsChoice, Failure> {
        let is_on = self.tls_cert.is_some() || self.tls.is_some();
        let is_plain = |url: &&HttpUrl| url.as_str().starts_with("http:");
        if let Some(url) = public_url.filter(is_plain).filter(|_| is_on) {
            return Err(Failure::Usage(format!(
                "--public-url {url} is plain HTTP, and the server speaks TLS: give it with https://"
            )));
        }
        let choice = match (&self.tls_cert, &self.tls_key, self.tls) {
            (Some(certificate), Some(key), _) => {
                let files = TlsFiles { certificate: certificate.clone(), key: key.clone() };
                let own = OwnTls::of_files(&files).map_err(Failure::Usage)?;
                TlsChoice::Files(files, own)
            }
            (_, _, Some(TlsKind::SelfSigned)) => TlsChoice::SelfSigned,
            (_, _, Some(TlsKind::Acme)) => TlsChoice::Acme(self.acme.settings()?),
            _ => TlsChoice::None,
        };
        if !matches!(choice, TlsChoice::Acme(_)) {
            self.acme.require_none()?;
        }
        if matches!(choice, TlsChoice::None) && self.redirect_http.is_some() {
            return Err(Failure::Usage(
                "--redirect-http leads to TLS, and there is none: give --tls-cert and --tls-key, \
                 --tls acme, or --tls self-signed"
                    .into(),
            ));
        }
        Ok(choice)
    }

    /// Listens where browsers are led to TLS, too.
    pub(super) async fn bind(&self, listening: &Listening) -> Result<Listeners, Failure> {
        listening.bind_with(self.redirect_http.as_deref()).await
    }
}

impl TlsChoice {
    /// The TLS to speak. A self-signed certificate is made in `dir`, if it has none and needs one, for
    /// these hosts.
    pub(super) fn own(
        &self,
        dir: &DataDir,
        hosts: impl FnOnce() -> Hosts,
    ) -> Result<Option<Arc<OwnTls>>, Failure> {
        match self {
            TlsChoice::None => Ok(None),
            TlsChoice::Files(_, own) => Ok(Some(own.clone())),
            TlsChoice::SelfSigned => Ok(Some(OwnTls::self_signed(dir.path(), &hosts())?)),
            TlsChoice::Acme(settings) => {
                let hosts = hosts().with(&settings.domains);
                Ok(Some(OwnTls::of_acme(dir.path(), &hosts, settings)?))
            }
        }
    }
}

/// The hosts by which clients may reach a server: that of its public URL, its addresses, and the names
/// of this machine.
pub(super) fn own_hosts(public_url: Option<&HttpUrl>, addresses: &[SocketAddr]) -> Hosts {
    let public = public_url.map(|url| url.host().trim_matches(['[', ']']).to_string());
    let addresses = addresses.iter().map(|address| address.ip().to_canonical());
    let addresses = addresses.filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
    let name = machine::name().and_then(|name| usable(&name));
    // As a machine is called in a network without a DNS server.
    let local = name.as_deref().filter(|name| !name.contains('.'));
    let local = local.map(|name| format!("{name}.local"));
    let loopback = ["localhost", "127.0.0.1", "::1"].map(String::from);
    let asked: Vec<String> = public.into_iter().chain(addresses).collect();
    let named = asked.iter().cloned().chain(name).chain(local).chain(loopback);
    let mut all = Vec::new();
    for host in named.filter(|host| host != "localhost.local") {
        if !all.contains(&host) {
            all.push(host);
        }
    }
    Hosts { asked, all }
}

/// The name of a machine, if it is one that a certificate can have.
fn usable(name: &str) -> Option<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_part)).then(|| name.to_ascii_lowercase())
}

/// Warns if a server listens for other machines with a certificate that is for none of their names of it.
pub(super) fn warn_of_local_names(tls: Option<&OwnTls>, addresses: &[SocketAddr]) {
    let is_open = addresses.iter().any(|address| !address.ip().to_canonical().is_loopback());
    let Some(own) = tls.filter(|own| is_open && own.is_local()) else { return };
    let SystemTls { certificate, names, self_signed, .. } = own.status();
    let to_do = if self_signed {
        "give --public-url, and remove the certificate to have a new one made"
    } else {
        "get one for the host by which they come"
    };
    tracing::warn!(
        %certificate,
        names = %names.join(", "),
        "clients on other machines will refuse the TLS certificate, which is not for them: {to_do}"
    );
}

/// Says where an authority looks for the proof, if no listener is there: something else may forward it.
pub(super) fn warn_of_port(addresses: &[SocketAddr]) {
    let is_there =
        |address: &SocketAddr| address.port() == 443 && !address.ip().to_canonical().is_loopback();
    if !addresses.iter().any(is_there) {
        tracing::warn!(
            "the authority looks at port 443 of each domain, and the server does not listen there: \
             have it forwarded here, or give --listen 0.0.0.0:443"
        );
    }
}

/// The URL of a listener, which may be bound to all addresses, for a browser on this machine.
pub(super) fn local_url(address: SocketAddr, tls: Option<&OwnTls>) -> String {
    let (scheme, usual_port) = if tls.is_some() { ("https", 443) } else { ("http", 80) };
    // A certificate of an authority is for names, and not for this machine's addresses.
    let named = tls.filter(|own| own.is_of_authority()).and_then(OwnTls::host);
    match named {
        Some(host) if address.port() == usual_port => format!("{scheme}://{host}"),
        Some(host) => format!("{scheme}://{host}:{}", address.port()),
        None if address.ip().is_unspecified() => format!("{scheme}://127.0.0.1:{}", address.port()),
        None => format!("{scheme}://{address}"),
    }
}

/// How other machines reach a server.
#[derive(Debug, PartialEq)]
pub(super) struct Elsewhere {
    pub(super) url: String,
    /// What there is to say of it, after a blank or a comma; may be empty.
    pub(super) remark: String,
}

/// What is known of a server that listens on all addresses, besides its public URL.
#[derive(Default)]
struct Known {
    /// The host of its certificate, if it has one, and that is for others.
    certified: Option<Option<String>>,
    /// The name of this machine.
    machine: Option<String>,
    /// How the address by which this machine reaches others is found: nobody asks where it says nothing new.
    address: Option<fn() -> Option<IpAddr>>,
    /// Whether this is a container, whose name and address nobody else knows.
    is_container: bool,
}

/// Returns how other machines reach a server: by its public URL, by the host of its certificate or, if it
/// listens on all addresses, by the name of this machine, or else by its address.
pub(super) fn from_elsewhere(
    addresses: &[SocketAddr],
    public_url: Option<&HttpUrl>,
    tls: Option<&OwnTls>,
) -> Option<Elsewhere> {
    let is_container = ["/.dockerenv", "/run/.containerenv"];
    let known = Known {
        certified: tls.map(OwnTls::host),
        machine: machine::name().and_then(|name| usable(&name)),
        address: Some(own_address),
        is_container: is_container.into_iter().any(|file| std::path::Path::new(file).exists()),
    };
    elsewhere(addresses, public_url, known)
}

fn elsewhere(
    addresses: &[SocketAddr],
    public_url: Option<&HttpUrl>,
    known: Known,
) -> Option<Elsewhere> {
    let Known { certified, machine, address, is_container } = known;
    let hint = " (the console needs TLS there: see --tls)";
    if let Some(url) = public_url {
        let needs_tls = certified.is_none() && url.starts_with("http:");
        let remark = if needs_tls { hint } else { "" }.to_string();
        let is_public = !names_this_machine(&url.host());
        return is_public.then(|| Elsewhere { url: url.as_str().into(), remark });
    }
    let port = addresses.iter().find(|address| address.ip().is_unspecified())?.port();
    let is_usable = |host: &String| !names_this_machine(host);
    let (scheme, hint) = if certified.is_some() { ("https", "") } else { ("http", hint) };
    let host = match certified {
        Some(certified) => certified.filter(is_usable)?,
        None => match machine.clone().filter(is_usable).filter(|_| !is_container) {
            Some(name) => name,
            None => {
                let address = address.filter(|_| !is_container)?()?;
                let url = format!("{scheme}://{}", SocketAddr::new(address, port));
                return Some(Elsewhere { url, remark: hint.into() });
            }
        },
    };
    // A certificate of the server's own has the name of this machine, too.
    let is_machine = machine.as_ref() == Some(&host);
    if is_machine && is_container {
        return None;
    }
    let if_known = if is_machine { ", if other machines know this name" } else { "" };
    Some(Elsewhere {
        url: format!("{scheme}://{host}:{port}"),
        remark: format!("{if_known}{hint}"),
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_server_is_reached_by_its_public_name_its_addresses_and_this_machine() {
        let url = HttpUrl::parse("https://[2001:db8::7]:8443").unwrap();
        let addresses = ["0.0.0.0:7420", "10.0.0.7:7420", "127.0.0.1:80"];
        let addresses = addresses.map(|address| address.parse().unwrap());
        let Hosts { asked, all: hosts } = own_hosts(Some(&url), &addresses);
        assert_eq!(asked, ["2001:db8::7", "10.0.0.7", "127.0.0.1"]);
        assert_eq!(hosts.first().map(String::as_str), Some("2001:db8::7"));
        for host in ["10.0.0.7", "localhost", "127.0.0.1", "::1"] {
            assert_eq!(hosts.iter().filter(|one| *one == host).count(), 1, "{host}: {hosts:?}");
        }
        assert!(!hosts.iter().any(|host| host == "0.0.0.0"), "{hosts:?}");
        let name = machine::name().and_then(|name| usable(&name));
        assert!(name.is_none_or(|name| hosts.contains(&name)), "{hosts:?}");
    }

    /// What other machines are told of a server.
    fn said(
        address: &str,
        public: Option<&str>,
        certified: Option<Option<&str>>,
        (machine, is_container): (Option<&str>, bool),
    ) -> Option<String> {
        let public = public.map(|url| HttpUrl::parse(url).unwrap());
        let certified = certified.map(|host| host.map(str::to_string));
        let machine = machine.map(str::to_string);
        let known = Known {
            certified,
            machine,
            address: Some(|| Some(Ipv4Addr::new(10, 0, 0, 7).into())),
            is_container,
        };
        let addresses = ["127.0.0.1:1", address].map(|address| address.parse().unwrap());
        let found = elsewhere(&addresses, public.as_ref(), known);
        found.map(|Elsewhere { url, remark }| format!("{url}{remark}"))
    }

    const BOX_1: (Option<&str>, bool) = (Some("box-1"), false);

    #[test]
    fn other_machines_are_told_a_url_that_they_may_reach() {
        let behind = said("0.0.0.0:7420", Some("https://a.example"), None, BOX_1);
        assert_eq!(behind.as_deref(), Some("https://a.example"));
        let plain = said("127.0.0.1:7420", Some("http://a.example"), None, BOX_1).unwrap();
        assert!(plain.starts_with("http://a.example (the console needs TLS"), "{plain}");
        assert_eq!(said("0.0.0.0:7420", Some("http://localhost:7420"), None, BOX_1), None);
        assert_eq!(said("10.0.0.7:7420", None, None, BOX_1), None);
        for address in ["0.0.0.0:7420", "[::]:7420"] {
            let named = said(address, None, None, BOX_1).unwrap();
            assert!(named.starts_with("http://box-1:7420, if other machines know"), "{named}");
            assert!(named.contains("see --tls"), "{named}");
            let certified = said(address, None, Some(Some("a.example")), BOX_1);
            assert_eq!(certified.as_deref(), Some("https://a.example:7420"));
        }
        let own = said("0.0.0.0:7420", None, Some(Some("box-1")), BOX_1).unwrap();
        assert!(own.ends_with("if other machines know this name"), "{own}");
        // Of a certificate for no host of others.
        assert_eq!(said("0.0.0.0:7420", None, Some(None), BOX_1), None);
        assert_eq!(said("0.0.0.0:7420", None, Some(Some("localhost")), BOX_1), None);
    }

    #[test]
    fn without_a_usable_name_other_machines_are_told_the_address_of_this_one() {
        for machine in [None, Some("localhost")] {
            let named = said("0.0.0.0:7420", None, None, (machine, false)).unwrap();
            assert!(named.starts_with("http://10.0.0.7:7420 (the console needs TLS"), "{named}");
        }
        // Nobody else knows the name and the address of a container.
        for machine in [None, Some("box-1")] {
            assert_eq!(said("0.0.0.0:7420", None, None, (machine, true)), None);
            assert_eq!(
                said("0.0.0.0:7420", None, Some(Some("box-1")), (Some("box-1"), true)),
                None
            );
        }
        let nothing = elsewhere(&["0.0.0.0:1".parse().unwrap()], None, Known::default());
        assert_eq!(nothing, None);
    }

    #[test]
    fn a_certificate_has_names_of_letters_digits_hyphens_and_dots() {
        assert_eq!(usable("Box-1.Lan").as_deref(), Some("box-1.lan"));
        for name in ["", "(none)", "a b", "a_b", "b\u{fc}ro"] {
            assert_eq!(usable(name), None, "{name}");
        }
    }
}
