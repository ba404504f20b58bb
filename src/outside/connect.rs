//! From a URL to an open connection: parsing, name resolution, the check of addresses, TCP, TLS,
//! HTTP/1.1.
//!
//! The name is resolved once per call and the connection goes to the addresses that were checked,
//! so a DNS answer that changes in between (DNS rebinding) has no effect. Literal addresses are
//! checked the same way. Proxy settings in the environment are ignored.

use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::HeaderValue;
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Request, Response, Uri, body::Incoming};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::addresses;
use super::call::Failure;
use crate::base::{self, Error};

/// Time to connect to one address: a dead one must leave time for the next within the call's limit.
const ATTEMPT_SECS: u64 = 3;

/// Limit of an answer's status line and headers, eight times what common servers accept.
const HEAD_BYTES: usize = 64 * 1024;

/// Limit of the bytes received before the final answer has a head: the head itself, body bytes read
/// along with it, and interim answers (100 to 199), which a hostile server could send endlessly.
const BYTES_BEFORE_HEAD: usize = 8 * HEAD_BYTES;

/// A parsed URL.
pub struct Target {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    port: u16,
    /// The name that the certificate must carry; none for `http`.
    server_name: Option<ServerName<'static>>,
    /// The `Host` header.
    pub authority: HeaderValue,
    /// The request target.
    pub path: Uri,
}

impl Target {
    /// Parses a URL: absolute, `http` or `https` (with `https_only` only the latter), with a host
    /// and without user information. The error never repeats the URL, since some URLs are secrets.
    pub fn parse(url: &str, https_only: bool) -> Result<Self, Failure> {
        let uri: Uri = url.parse().map_err(|_| Failure::Url("it is not an absolute URL"))?;
        let (secure, default_port) = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => (true, 443),
            Some(_) if https_only => return Err(Failure::Url("it must begin with https://")),
            Some(scheme) if *scheme == Scheme::HTTP => (false, 80),
            _ => return Err(Failure::Url("it must begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or(Failure::Url("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(Failure::Url("it must not contain user information"));
        }

        let written = authority.host();
        let host = match written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) if inner.parse::<Ipv6Addr>().is_ok() => inner,
            Some(_) => return Err(Failure::Url("its host is not an IPv6 address")),
            None if written.is_empty() => return Err(Failure::Url("it names no host")),
            None => written,
        };
        // `Uri` gives no port where the text after the colon is not one.
        let port = match &authority.as_str()[written.len()..] {
            "" | ":" => default_port,
            after => after[1..].parse().map_err(|_| Failure::Url("its port is not a port"))?,
        };
        let server_name = if secure {
            let name = ServerName::try_from(host.to_string());
            Some(name.map_err(|_| Failure::Url("its host is not a name that TLS can check"))?)
        } else {
            None
        };
        let authority = if port == default_port {
            HeaderValue::try_from(written)
        } else {
            HeaderValue::try_from(format!("{written}:{port}"))
        }
        .map_err(|_| Failure::Url("its host has characters that HTTP does not allow"))?;
        let path = uri.path_and_query().map_or("/".into(), PathAndQuery::to_string);
        let path = path.parse().map_err(|_| Failure::Url("its path is not a path"))?;

        Ok(Target { host: host.to_string(), port, server_name, authority, path })
    }

    /// What a connection must lead to so that it can be used: host, port and whether it is encrypted.
    pub fn server(&self) -> (String, u16, bool) {
        (self.host.clone(), self.port, self.server_name.is_some())
    }
}

/// A connection, for one request after the other. Dropping it closes the socket.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    before_head: Arc<BeforeHead>,
    /// The task that drives the connection; dropping the set aborts it.
    _driver: JoinSet<()>,
}

impl Connection {
    /// Sends the request and waits for the head of the answer.
    ///
    /// # Errors
    /// With the request, if nothing of it was sent: the server has closed the connection.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        self.before_head.read_bytes.store(0, Ordering::Relaxed);
        self.before_head.has_head.store(false, Ordering::Relaxed);
        let answer = self.sender.try_send_request(request).await;
        self.before_head.has_head.store(true, Ordering::Relaxed);
        answer
    }

    /// Whether it can take another request, once the answer before is read to its end.
    pub async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }
}

/// What was received of the answer to the current request.
#[derive(Default)]
struct BeforeHead {
    read_bytes: AtomicUsize,
    has_head: AtomicBool,
}

/// A stream that fails after [`BYTES_BEFORE_HEAD`] without a head of the final answer.
struct HeadLimit<S> {
    stream: S,
    before_head: Arc<BeforeHead>,
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let BeforeHead { read_bytes, has_head } = &*self.before_head;
        if read_bytes.load(Ordering::Relaxed) > BYTES_BEFORE_HEAD
            && !has_head.load(Ordering::Relaxed)
        {
            return Poll::Ready(Err(io::Error::other("too many bytes without a final answer")));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        self.before_head.read_bytes.fetch_add(read, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Opens a connection to `target`. `slot` is the call's permit of the limit of calls in flight.
pub async fn open(
    target: &Target,
    lookup: &Lookup,
    allow: &[IpNet],
    tls: &TlsConnector,
    slot: Arc<OwnedSemaphorePermit>,
) -> Result<Connection, Failure> {
    let host = || target.host.clone();
    let found = resolve(lookup, &target.host, target.port, slot)
        .await
        .map_err(|reason| Failure::Name { host: host(), reason })?;
    let vetted = addresses::vet(found, allow)
        .map_err(|address| Failure::Address { host: host(), address })?;
    let stream = connect(&vetted)
        .await
        .map_err(|error| Failure::Connect { host: host(), reason: error.to_string() })?;
    let connection = match &target.server_name {
        None => handshake(stream).await,
        Some(name) => {
            let stream = tls
                .connect(name.clone(), stream)
                .await
                .map_err(|error| Failure::Tls { host: host(), reason: error.to_string() })?;
            handshake(stream).await
        }
    };
    connection.map_err(|error| Failure::protocol(&target.host, &error))
}

/// Resolves a host and port to addresses; may block. Tests pass one whose results change.
pub type Lookup = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// How names are resolved. A test may lead a name to a server of its own, at any port.
#[derive(Clone)]
pub struct Resolver(pub Lookup);

impl Default for Resolver {
    /// As the system does.
    fn default() -> Self {
        Resolver(Arc::new(system_lookup))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// Resolves a host as the system does, `/etc/hosts` included. The system also accepts `127.1` and
/// `0x7f000001` as addresses, so its results are checked, not the text.
pub fn system_lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (host, port).to_socket_addrs().map(Vec::from_iter)
}

async fn resolve(
    lookup: &Lookup,
    host: &str,
    port: u16,
    slot: Arc<OwnedSemaphorePermit>,
) -> Result<Vec<SocketAddr>, String> {
    let (lookup, host) = (lookup.clone(), host.to_string());
    let looked_up = tokio::task::spawn_blocking(move || {
        // A lookup cannot be cancelled. It holds its slot until it ends, even after the call timed
        // out: a silent DNS server must not use up the blocking threads.
        let _slot = slot;
        lookup(&host, port)
    });
    match looked_up.await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the server is stopping".into()),
    }
}

/// Connects to the first address that answers.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let attempt = TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_secs(ATTEMPT_SECS), attempt).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::other(format!("no answer within {ATTEMPT_SECS} s")),
        }
    }
    Err(last)
}

async fn handshake<S>(stream: S) -> hyper::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let before_head = Arc::new(BeforeHead::default());
    let stream = HeadLimit { stream, before_head: before_head.clone() };
    let (sender, connection) =
        Builder::new().max_buf_size(HEAD_BYTES).handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    // Its errors also reach the sender or the reader of the body.
    driver.spawn(async { drop(connection.await) });
    Ok(Connection { sender, before_head, _driver: driver })
}

/// Returns a TLS 1.2 and 1.3 connector that trusts Mozilla's roots and those of `--ca-file`.
///
/// # Errors
/// `extra_roots_pem` holds no certificate, or one that cannot be read.
pub fn tls(extra_roots_pem: Option<&[u8]>) -> base::Result<TlsConnector> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = extra_roots_pem {
        add_roots(&mut roots, pem).map_err(|problem| Error::invalid_at("--ca-file", problem))?;
    }
    // Explicit, because another library may have set a different process default.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::internal)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns a connector that accepts any certificate.
///
/// # Errors
/// If TLS cannot be set up.
pub fn unverified_tls() -> base::Result<TlsConnector> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyCertificate(provider.signature_verification_algorithms));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::internal)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Accepts every certificate whose key the server has.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

fn add_roots(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), String> {
    let before = roots.len();
    for (n, certificate) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
        let certificate =
            certificate.map_err(|error| format!("is broken at certificate {n}: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("holds a certificate (number {n}) that is none: {error}"))?;
    }
    if roots.len() == before {
        return Err("holds no certificate; it must be PEM with at least one block that begins \
                     with -----BEGIN CERTIFICATE-----"
            .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str, https_only: bool) -> Option<Failure> {
        Target::parse(url, https_only).err()
    }

    #[test]
    fn a_url_says_host_port_and_path() {
        for (url, host, port, authority, path) in [
            ("http://a.test", "a.test", 80, "a.test", "/"),
            ("http://a.test:/", "a.test", 80, "a.test", "/"),
            ("https://a.test?x=1", "a.test", 443, "a.test", "/?x=1"),
            ("https://a.test:443/b#c", "a.test", 443, "a.test", "/b"),
            ("http://a.test:443/b?c=d", "a.test", 443, "a.test:443", "/b?c=d"),
            ("http://[::1]:8080/", "::1", 8080, "[::1]:8080", "/"),
            ("HTTPS://[::FFFF:127.0.0.1]/", "::FFFF:127.0.0.1", 443, "[::FFFF:127.0.0.1]", "/"),
        ] {
            let target = Target::parse(url, false).unwrap();
            assert_eq!(target.host, host, "{url}");
            assert_eq!(target.port, port, "{url}");
            assert_eq!(target.authority, authority, "{url}");
            assert_eq!(target.path.to_string(), path, "{url}");
        }
    }

    #[test]
    fn what_is_no_http_url_is_refused() {
        for url in [
            "",
            "a.test",
            "/path",
            "//a.test/",
            "ftp://a.test/",
            "file:///etc/passwd",
            "http://",
            "http:///path",
            "http://:80/",
            "http://a.test:99999/",
            "http://a.test:-1/",
            "http://[fe80::1%25eth0]/",
            "http://[127.0.0.1]/",
            "http://a b.test/",
            "http://a.test\r\nX: y/",
            "http://bücher.test/",
        ] {
            assert!(matches!(refusal(url, false), Some(Failure::Url(_))), "{url}");
        }
    }

    #[test]
    fn user_information_is_refused() {
        for url in ["http://user@a.test/", "https://user:password@a.test/", "http://@a.test/"] {
            assert_eq!(
                refusal(url, false),
                Some(Failure::Url("it must not contain user information")),
                "{url}"
            );
        }
    }

    #[test]
    fn https_only_refuses_http() {
        assert_eq!(
            refusal("http://a.test/", true),
            Some(Failure::Url("it must begin with https://"))
        );
        assert_eq!(refusal("https://a.test/", true), None);
    }

    #[test]
    fn a_file_of_roots_says_what_is_wrong_with_it() {
        let broken =
            "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
        for (pem, complaint) in [
            ("", "holds no certificate"),
            ("not PEM at all", "holds no certificate"),
            (include_str!("fixtures/server.key"), "holds no certificate"),
            ("-----BEGIN CERTIFICATE-----\nMIIB\n", "is broken at certificate 1"),
            (broken, "(number 1) that is none"),
        ] {
            let error = tls(Some(pem.as_bytes())).err().unwrap();
            assert!(error.message().starts_with("--ca-file "), "{error}");
            assert!(error.message().contains(complaint), "{error}");
        }
        assert!(tls(Some(include_bytes!("fixtures/ca.pem"))).is_ok());
    }
}
