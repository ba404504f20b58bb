//! TLS of the server's own: 1.2 and 1.3, HTTP/2 or HTTP/1.1 within it, with a certificate that can be
//! replaced while it serves.

mod certificate;
mod challenges;
mod pair;
mod trust;

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub use certificate::CertificateFacts;
pub use challenges::Challenges;
pub use pair::{Pair, PairProblem};

use challenges::{ACME_TLS, is_look};
use tokio::io::AsyncWriteExt as _;

use super::transport::Socket;
use crate::base::{Error, Result};

/// Time limit of a handshake, from the start of the connection: as long as that of a head.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The port of https URLs that name none.
pub const HTTPS_PORT: u16 = 443;

/// Sessions that are kept for clients that cannot keep a ticket: some 100 KB.
const MAX_SESSIONS: usize = 1024;

/// How much of a response is encrypted ahead of what the client accepts: a record. rustls would keep four of
/// each client that does not read.
const MAX_UNSENT_BYTES: usize = 16 * 1024;

/// What a handshake begins with, in each version of TLS.
pub const HANDSHAKE: u8 = 22;

/// The name of HTTP/2 in a handshake (ALPN).
const HTTP2: &[u8] = b"h2";

/// The TLS of a server.
pub struct ServerTls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    /// Time limit of a handshake.
    pub handshake_time: Duration,
}

impl ServerTls {
    /// TLS with this certificate. With `challenges`, authorities that look whether a name is this
    /// server's are answered, too.
    ///
    /// # Errors
    /// If there is no randomness for the keys of tickets.
    pub fn new(pair: Pair, challenges: Option<Arc<Challenges>>) -> Result<Self> {
        let current = Arc::new(Current { pair: RwLock::new(Arc::new(pair)), challenges });
        // Explicit, because another library may have set a different process default.
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(Error::internal)?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        if current.challenges.is_some() {
            config.alpn_protocols.push(ACME_TLS.to_vec());
        }
        // Tickets are kept by clients, under keys that are replaced every six hours.
        config.ticketer = Ticketer::new().map_err(Error::internal)?;
        config.session_storage = ServerSessionMemoryCache::new(MAX_SESSIONS);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(ServerTls { acceptor, current, handshake_time: HANDSHAKE_TIME })
    }

    /// The certificate that the next handshake gets.
    pub fn pair(&self) -> Arc<Pair> {
        self.current.get()
    }

    /// Serves another certificate from the next handshake on. Connections and sessions that exist go
    /// on. Returns whether clients are sent something else from then on: also the same certificate with
    /// other issuers is that.
    pub fn replace(&self, pair: Pair) -> bool {
        let pair = Arc::new(pair);
        let mut current = self.current.pair.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, pair.clone());
        before.certified.cert != pair.certified.cert
    }

    /// The answers to authorities, if any are expected to look.
    pub fn challenges(&self) -> Option<&Arc<Challenges>> {
        self.current.challenges.as_ref()
    }

    /// Does the handshake of a connection at this port; `None` if that was all of it: an authority has
    /// looked.
    ///
    /// # Errors
    /// If the client speaks no TLS, or none that the server does.
    pub async fn accept(
        &self,
        socket: Socket,
        port: u16,
    ) -> io::Result<Option<(TlsStream<Socket>, OverTls)>> {
        let limited = |connection: &mut ServerConnection| {
            connection.set_buffer_limit(Some(MAX_UNSENT_BYTES));
        };
        let mut stream = self.acceptor.accept_with(socket, limited).await?;
        let protocol = stream.get_ref().1.alpn_protocol();
        if protocol == Some(ACME_TLS) {
            stream.shutdown().await?;
            return Ok(None);
        }
        let is_http2 = protocol == Some(HTTP2);
        Ok(Some((stream, OverTls { pair: self.pair(), port, is_http2 })))
    }
}

/// The certificate that is served, and those for authorities.
struct Current {
    pair: RwLock<Arc<Pair>>,
    challenges: Option<Arc<Challenges>>,
}

impl Current {
    fn get(&self) -> Arc<Pair> {
        self.pair.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match &self.challenges {
            Some(challenges) if is_look(&hello) => challenges.shown_to(&hello),
            _ => Some(self.get().certified.clone()),
        }
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// That a request has arrived over the server's own TLS: among the extensions of its head.
#[derive(Clone)]
pub struct OverTls {
    pair: Arc<Pair>,
    /// The port of the listener.
    port: u16,
    /// Whether HTTP/2 was agreed on in the handshake.
    pub is_http2: bool,
}

impl OverTls {
    /// Whether browsers trust the certificate without being told to, so that they may be told to come back
    /// over TLS alone (`Strict-Transport-Security`).
    pub fn is_strict(&self) -> bool {
        self.pair.is_of_web && !self.pair.is_self_made
    }

    /// Whether `name` and `port` of a `Host` are this server's own: its certificate is for exactly this
    /// name, and it listens at this port. At another port of the same host there may be somebody else. A
    /// certificate that several servers share names the others as well, which is for `--public-url` to
    /// tell.
    pub fn is_own(&self, name: &str, port: Option<u16>) -> bool {
        port.unwrap_or(HTTPS_PORT) == self.port && self.pair.facts.names_exactly(name)
    }
}
