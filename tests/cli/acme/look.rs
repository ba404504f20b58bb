//! How an authority looks (RFC 8737, 3), and what it reads of a request for a certificate.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rcgen::PublicKeyData;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

/// Connects in these protocols, whoever answers: the connection after its handshake.
pub fn connect(
    at: SocketAddr,
    name: &str,
    protocols: &[&str],
) -> Result<(ClientConnection, TcpStream), String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let server = ServerName::try_from(name.to_string()).map_err(|error| error.to_string())?;
    let mut connection =
        ClientConnection::new(Arc::new(config), server).map_err(|error| error.to_string())?;
    let mut stream = TcpStream::connect(at).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    Ok((connection, stream))
}

/// Looks for this proof in the certificate that a name is shown.
pub fn look(at: SocketAddr, name: &str, proof: &[u8]) -> Result<(), String> {
    let (mut connection, mut stream) = connect(at, name, &["acme-tls/1"])?;
    if connection.alpn_protocol() != Some(b"acme-tls/1") {
        return Err("another protocol".into());
    }
    let der = connection.peer_certificates().ok_or("no certificate")?[0].to_vec();
    // id-pe-acmeIdentifier, critical, with the digest as an octet string in one.
    let extension =
        [&[0x06, 8, 0x2B, 6, 1, 5, 5, 7, 1, 31, 0x01, 1, 0xFF, 0x04, 34, 0x04, 32][..], proof]
            .concat();
    let has = |bytes: &[u8]| der.windows(bytes.len()).any(|at| at == bytes);
    // The only name: a list of one.
    let names = [&[0x30, name.len() as u8 + 2, 0x82, name.len() as u8][..], name.as_bytes()];
    if !has(&extension) || !has(&names.concat()) {
        return Err("the certificate has no proof".into());
    }
    // Nothing is said in this protocol, and the server ends it.
    match rustls::Stream::new(&mut connection, &mut stream).read(&mut [0]) {
        Ok(0) => Ok(()),
        other => Err(format!("it goes on: {other:?}")),
    }
}

/// Takes every certificate: what counts is in it.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The key of a request for a certificate.
pub struct RequestKey(Vec<u8>);

impl PublicKeyData for RequestKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }
    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

/// The first value of DER: all of it, its content, and what follows.
fn value(der: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let first = usize::from(*der.get(1)?);
    let (length, head) = match first {
        0..=0x7F => (first, 2),
        0x81 => (usize::from(*der.get(2)?), 3),
        0x82 => (usize::from(*der.get(2)?) << 8 | usize::from(*der.get(3)?), 4),
        _ => return None,
    };
    let whole = der.get(..head + length)?;
    Some((whole, &whole[head..], &der[whole.len()..]))
}

/// The key of a request (PKCS #10), if it has signed it.
pub fn key_of(request: &[u8]) -> Option<RequestKey> {
    let (_, content, _) = value(request)?;
    let (info, fields, rest) = value(content)?;
    let (_, _, rest) = value(rest)?;
    let (_, signature, _) = value(rest)?;
    // Behind the version and the subject.
    let (_, _, fields) = value(fields)?;
    let (_, _, fields) = value(fields)?;
    let (_, key, _) = value(fields)?;
    let (_, _, key) = value(key)?;
    let (_, key, _) = value(key)?;
    let (key, signature) = (key.get(1..)?, signature.get(1..)?);
    let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key);
    verifier.verify(info, signature).ok()?;
    Some(RequestKey(key.to_vec()))
}
