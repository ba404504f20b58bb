//! A client of a server with TLS, and the certificate that it trusts.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use roadstead::app::tls::TlsFiles;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fixture::file;

/// Writes a certificate for this machine, with its key; returns the files and the certificate.
pub fn certify(place: &TempDir) -> (TlsFiles, String) {
    let key = KeyPair::generate().expect("there is randomness");
    let params = CertificateParams::new(vec!["127.0.0.1".into()]).expect("it is an address");
    let made = params.self_signed(&key).expect("the key is good").pem();
    let files = TlsFiles { certificate: file(place, "pem"), key: file(place, "key") };
    std::fs::write(&files.certificate, &made).expect("there is a place for it");
    std::fs::write(&files.key, key.serialize_pem()).expect("there is a place for it");
    (files, made)
}

/// A client of a server with TLS.
pub struct Client {
    /// Where the server listens.
    pub address: SocketAddr,
    /// Speaks HTTP/1.1.
    pub http1: TlsConnector,
    /// Speaks HTTP/2.
    pub http2: TlsConnector,
}

impl Client {
    /// One that trusts this certificate.
    pub fn of(address: SocketAddr, certificate: &str) -> Self {
        let [http1, http2] =
            [&b"http/1.1"[..], b"h2"].map(|protocol| connector(certificate, protocol));
        Client { address, http1, http2 }
    }

    /// Connects, with a handshake.
    pub async fn connect(&self, connector: &TlsConnector) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.set_nodelay(true).expect("it is a TCP connection");
        let name = ServerName::from(self.address.ip());
        connector.connect(name, stream).await.expect("the certificate is good")
    }
}

/// A client that trusts this certificate, speaks this protocol and keeps no sessions.
fn connector(certificate: &str, protocol: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("it is one");
    roots.add(certificate).expect("it is one");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("they are known")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    TlsConnector::from(Arc::new(config))
}
