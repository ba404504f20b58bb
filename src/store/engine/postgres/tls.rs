//! Encryption of connections to PostgreSQL, with certificates verified.

use std::fs;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

/// Encrypts connections with TLS 1.2 or 1.3.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl Tls {
    /// Trusts Mozilla's roots or, if a PEM file is given, its certificates alone.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn new(roots_file: Option<&Path>) -> Result<Self, String> {
        let roots = match roots_file {
            None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
            Some(path) => roots_in(path).map_err(|problem| format!("sslrootcert {problem}"))?,
        };
        // Explicit, because another library may have set a different process default.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // PostgreSQL 17 refuses any other protocol.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Tls(TlsConnector::from(Arc::new(config))))
    }
}

fn roots_in(path: &Path) -> Result<RootCertStore, String> {
    let pem = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("is broken: {error}"))?;
        roots.add(certificate).map_err(|error| format!("is broken: {error}"))?;
    }
    if roots.is_empty() {
        return Err("holds no certificate; it must be PEM".into());
    }
    Ok(roots)
}

/// A handshake with a named server.
pub struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Session;
    type TlsConnect = Handshake;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, InvalidDnsNameError> {
        let name = ServerName::try_from(domain.to_string())?;
        Ok(Handshake { connector: self.0.clone(), name })
    }
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Session;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Session>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(Session) })
    }
}

/// An encrypted connection.
pub struct Session(client::TlsStream<Socket>);

impl TlsStream for Session {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Session {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Session {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
