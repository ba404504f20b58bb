//! From a URL to an open connection: where it leads, what its name resolves to now, whether we may
//! go there, TCP, TLS, HTTP/1.1.
//!
//! The name is resolved once for each call, and the very addresses that were checked are connected
//! to: an answer of DNS that changes between check and connection changes nothing. Literal
//! addresses take the same road. No proxy is looked up in the environment.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::HeaderValue;
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Request, Response, Uri, body::Incoming};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::{Failure, addresses};
use crate::base::{self, Error};

/// Of several addresses a dead one must leave time for the next, within the call's own limit.
const ATTEMPT_SECS: u64 = 3;

/// An answer's status line and headers. Eight times what common servers accept of a request.
const HEAD_BYTES: usize = 64 * 1024;

/// So much may come before the answer has a head: itself, what was read of the body along with it,
/// and answers that only announce another (100 to 199), which a hostile server could send without
/// end and keep a thread busy with.
const BYTES_BEFORE_HEAD: usize = 8 * HEAD_BYTES;

/// Where a URL leads.
pub struct Target {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    port: u16,
    /// Some when it is `https`: the name that the certificate must carry.
    certified: Option<ServerName<'static>>,
    /// The `Host` header.
    pub authority: HeaderValue,
    /// The request target.
    pub path: Uri,
}

impl Target {
    /// Reads a URL: absolute, `http` or `https` (with `https_only` nothing else), with a host and
    /// without user information. The message never repeats the URL: some are secrets themselves.
    pub fn parse(url: &str, https_only: bool) -> Result<Self, Failure> {
        let uri: Uri = url.parse().map_err(|_| Failure::Url("it is not an absolute URL"))?;
        let (secure, usual_port) = match uri.scheme() {
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
        // A port that is no port would otherwise pass for none at all.
        let port = match &authority.as_str()[written.len()..] {
            "" | ":" => usual_port,
            after => after[1..].parse().map_err(|_| Failure::Url("its port is not a port"))?,
        };
        let certified = match secure {
            false => None,
            true => Some(
                ServerName::try_from(host.to_string())
                    .map_err(|_| Failure::Url("its host is not a name that TLS can check"))?,
            ),
        };
        let authority = match port == usual_port {
            true => HeaderValue::try_from(written),
            false => HeaderValue::try_from(format!("{written}:{port}")),
        }
        .map_err(|_| Failure::Url("its host has characters that HTTP does not allow"))?;
        let path = uri.path_and_query().map_or("/".into(), PathAndQuery::to_string);
        let path = path.parse().map_err(|_| Failure::Url("its path is not a path"))?;

        Ok(Target { host: host.to_string(), port, certified, authority, path })
    }
}

/// A connection for one exchange. Dropping it closes the socket.
pub struct Line {
    sender: SendRequest<Full<Bytes>>,
    has_head: Arc<AtomicBool>,
    /// Moves the bytes. The set ends it when it is dropped.
    _driver: JoinSet<()>,
}

impl Line {
    /// Sends the request and waits for the head of the answer.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let answer = self.sender.send_request(request).await;
        self.has_head.store(true, Ordering::Relaxed);
        answer
    }
}

/// A stream that fails once [`BYTES_BEFORE_HEAD`] have come and the answer still has no head.
struct UntilHead<S> {
    stream: S,
    read_bytes: usize,
    has_head: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for UntilHead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read_bytes > BYTES_BEFORE_HEAD && !self.has_head.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::Error::other("it goes on without a final answer")));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.read_bytes = self.read_bytes.saturating_add(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UntilHead<S> {
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

/// Opens a connection to `target`. `slot` is the call's place among those in flight.
pub async fn open(
    target: &Target,
    lookup: &Lookup,
    allow: &[IpNet],
    tls: &TlsConnector,
    slot: Arc<OwnedSemaphorePermit>,
) -> Result<Line, Failure> {
    let host = || target.host.clone();
    let found = resolve(lookup, &target.host, target.port, slot)
        .await
        .map_err(|reason| Failure::Name { host: host(), reason })?;
    let vetted = addresses::vet(found, allow)
        .map_err(|address| Failure::Address { host: host(), address })?;
    let stream = connect(&vetted)
        .await
        .map_err(|error| Failure::Connect { host: host(), reason: error.to_string() })?;
    let line = match &target.certified {
        None => speak(stream).await,
        Some(name) => {
            let stream = tls
                .connect(name.clone(), stream)
                .await
                .map_err(|error| Failure::Tls { host: host(), reason: error.to_string() })?;
            speak(stream).await
        }
    };
    line.map_err(|error| Failure::protocol(&target.host, &error))
}

/// What gives the addresses of a host and port. It may block. A value, so that the tests can have
/// one that changes its mind.
pub type Lookup = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The addresses of a host as the system sees them, `/etc/hosts` included. The system also takes
/// `127.1` and `0x7f000001` for addresses: whatever it makes of a host is checked afterwards.
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
        // A lookup cannot be broken off. Until it ends it counts as a call in flight, even when
        // the call has given up: a silent DNS server must not eat up the threads.
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
            Err(_) => last = io::Error::other(format!("nobody answered for {ATTEMPT_SECS} s")),
        }
    }
    Err(last)
}

async fn speak<S>(stream: S) -> hyper::Result<Line>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let has_head = Arc::new(AtomicBool::new(false));
    let stream = UntilHead { stream, read_bytes: 0, has_head: has_head.clone() };
    let (sender, connection) =
        Builder::new().max_buf_size(HEAD_BYTES).handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    // What goes wrong here reaches the sender or the reader of the body too.
    driver.spawn(async { drop(connection.await) });
    Ok(Line { sender, has_head, _driver: driver })
}

/// TLS 1.2 and 1.3 with the roots that browsers trust, and those of `--ca-file`.
///
/// # Errors
/// `extra_roots_pem` holds no certificate, or one that cannot be read.
pub fn tls(extra_roots_pem: Option<&[u8]>) -> base::Result<TlsConnector> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = extra_roots_pem {
        add_roots(&mut roots, pem).map_err(|problem| Error::invalid_at("--ca-file", problem))?;
    }
    // Named rather than taken from the process, where another library may have put its own.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::internal)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
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
    match roots.len() == before {
        true => Err("holds no certificate; it must be PEM with at least one block that begins \
                     with -----BEGIN CERTIFICATE-----"
            .into()),
        false => Ok(()),
    }
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
