//! Encryption of connections to PostgreSQL, with certificates verified, and what binds a sign-in by SCRAM to
//! the connection: who only passes it on, with another certificate, cannot complete it.

use std::fs;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aws_lc_rs::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
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
    /// `tls-server-end-point` of RFC 5929: the hash of the server's certificate.
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates().unwrap_or_default();
        let own: Option<&[u8]> = certificates.first().map(AsRef::as_ref);
        match own.and_then(|own| Some(digest(binding_hash(own)?, own))) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash.as_ref().to_vec()),
            None => ChannelBinding::none(),
        }
    }
}

/// Returns the hash of the signature of a certificate, in place of MD5 and SHA-1 SHA-256. `None`: the
/// signature has none of its own (Ed25519), or says it elsewhere (RSASSA-PSS).
fn binding_hash(certificate: &[u8]) -> Option<&'static Algorithm> {
    let (certificate, _) = element(certificate)?;
    let (_signed, rest) = element(certificate)?;
    let (algorithm, _) = element(rest)?;
    let (identifier, _) = element(algorithm)?;
    match identifier {
        // 1.2.840.113549.1.1: RSA with MD5, SHA-1, SHA-256, SHA-384, SHA-512.
        [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, rsa] => match rsa {
            4 | 5 | 11 => Some(&SHA256),
            12 => Some(&SHA384),
            13 => Some(&SHA512),
            _ => None,
        },
        // 1.2.840.10045.4: ECDSA with SHA-1, and 3: SHA-256, SHA-384, SHA-512.
        [0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 1] | [0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 2] => {
            Some(&SHA256)
        }
        [0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 3] => Some(&SHA384),
        [0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 4] => Some(&SHA512),
        _ => None,
    }
}

/// Returns the content of the first element of DER, and what follows it.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let [_tag, first, rest @ ..] = der else { return None };
    let (length, rest) = match first {
        0..=0x7F => (usize::from(*first), rest),
        // So many bytes of length: a certificate has two or three.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    use super::*;

    fn made(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let params = CertificateParams::new(vec!["db.example".to_string()]).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_sign_in_is_bound_by_the_hash_of_the_signature() {
        for (signature, hash) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, Some(&SHA256)),
            (&rcgen::PKCS_ECDSA_P384_SHA384, Some(&SHA384)),
            (&rcgen::PKCS_ED25519, None),
        ] {
            assert_eq!(binding_hash(&made(signature)), hash);
        }
    }

    #[test]
    fn what_is_no_certificate_binds_nothing() {
        let made = made(&rcgen::PKCS_ECDSA_P256_SHA256);
        for end in 0..made.len() {
            assert_eq!(binding_hash(&made[..end]), None, "{end}");
        }
        for other in [&[0x30, 0x80][..], &[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF], &[0x30, 0x85]] {
            assert_eq!(binding_hash(other), None);
        }
    }
}
