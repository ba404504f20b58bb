//! Connections that begin with a handshake, or with none.

use std::io::{ErrorKind, Write as _};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite as _};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::http::connection_state::ConnectionState;
use crate::http::transport::Socket;

/// TLS for 127.0.0.1, and a client that trusts it.
fn made(is_of_web: bool) -> (ServerTls, TlsConnector) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let pair = Pair::from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    assert!(!pair.is_of_web, "nobody else trusts it");
    let pair = if is_of_web { pair.of_web() } else { pair };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (ServerTls::new(pair, None).unwrap(), TlsConnector::from(Arc::new(config)))
}

/// A server with TLS, and a client that trusts it.
pub(super) struct Tls {
    pub(super) server: Server,
    connector: TlsConnector,
}

impl Tls {
    /// A client that speaks HTTP/2 where the server does.
    pub(super) fn with_http2(mut self) -> Self {
        let mut config = ClientConfig::clone(self.connector.config());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        self.connector = TlsConnector::from(Arc::new(config));
        self
    }

    pub(super) async fn start(handshake_time: Duration, max_connections: usize) -> Self {
        let (mut tls, connector) = made(true);
        tls.handshake_time = handshake_time;
        let server = start_speaking(Speaks::Https(Arc::new(tls)), false, max_connections).await;
        Tls { server, connector }
    }

    /// One that only those trust who were told to.
    async fn of_own_authority() -> Self {
        let (tls, connector) = made(false);
        let server = start_speaking(Speaks::Https(Arc::new(tls)), false, 1000).await;
        Tls { server, connector }
    }

    pub(super) async fn plain(&self) -> TcpStream {
        TcpStream::connect(self.server.address).await.unwrap()
    }

    pub(super) async fn connect(&self) -> TlsStream<TcpStream> {
        self.secured(self.plain().await).await
    }

    /// Whether a connection is accepted, as one is that does its handshake.
    pub(super) async fn accepts(&self) -> bool {
        let name = ServerName::from(self.server.address.ip());
        self.connector.connect(name, self.plain().await).await.is_ok()
    }

    async fn secured(&self, stream: TcpStream) -> TlsStream<TcpStream> {
        let name = ServerName::from(self.server.address.ip());
        self.connector.connect(name, stream).await.unwrap()
    }
}

/// What comes until the connection is closed, which must be soon.
pub(super) async fn to_its_end(
    stream: &mut (impl AsyncRead + Unpin),
) -> (Vec<u8>, std::io::Result<usize>) {
    let mut came = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut came)).await;
    (came, ended.expect("it is closed before the time of its handshake"))
}

/// Shorter than the time of handshakes here, unless a test is about that.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The beginning of a handshake: it goes on.
const HALF: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252];

#[tokio::test]
async fn slow_handshakes_end_after_their_time_and_hold_nobody_up() {
    let tls = Tls::start(Duration::from_secs(5), 1000).await;
    let mut slow = Vec::new();
    for number in 0..100 {
        let mut stream = tls.plain().await;
        if number % 2 == 0 {
            stream.write_all(HALF).await.unwrap();
        }
        slow.push(stream);
    }
    // Behind any of them it would wait for the end of that.
    let asked = async {
        let mut stream = tls.connect().await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    };
    let mut stream = timeout(Duration::from_secs(5), asked).await.unwrap();
    for one in slow.iter().rev().take(2) {
        let read = one.try_read(&mut [0]);
        assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it is open");
    }
    for mut stream in slow {
        // Closed without a word.
        let (came, _) = to_its_end(&mut stream).await;
        assert_eq!(came, b"");
    }
    // What has its handshake has the time of any connection.
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let (rest, _) = to_its_end(&mut stream).await;
    assert!(String::from_utf8(rest).unwrap().contains("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_not_read_on() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let mut stream = tls.plain().await;
    // The most of a message of 65,000 bytes, in records of 16,384.
    let message = [&[1, 0, 0xFD, 0xE8][..], &[0; 60_000]].concat();
    for record in message.chunks(16_384) {
        let length = u16::try_from(record.len()).unwrap().to_be_bytes();
        // The server may have closed the connection before.
        let _ = stream.write_all(&[&[22, 3, 1][..], &length, record].concat()).await;
    }
    assert_eq!(to_its_end(&mut stream).await.0, b"");
}

#[tokio::test]
async fn a_connection_counts_from_before_its_handshake() {
    let tls = Tls::start(Duration::from_secs(60), 16).await;
    let mut held = Vec::new();
    // An address gets three quarters.
    for _ in 0..12 {
        held.push(tls.plain().await);
    }
    let mut refused = tls.plain().await;
    assert_eq!(to_its_end(&mut refused).await.0, b"");
    drop(held);
    while !tls.accepts().await {}
}

#[tokio::test]
async fn a_request_that_comes_with_the_end_of_the_handshake_is_answered() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let get = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    for _ in 0..20 {
        let name = ServerName::from(tls.server.address.ip());
        // It is encrypted behind the client's last message, and both are one write.
        let with_request = |connection: &mut ClientConnection| {
            connection.writer().write_all(get).unwrap();
        };
        let connecting = tls.connector.connect_with(name, tls.plain().await, with_request);
        let mut stream = connecting.await.unwrap();
        let mut head = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut head)).await.unwrap().unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
    }
}

#[tokio::test]
async fn requests_that_come_together_or_in_parts_are_answered() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let mut stream = tls.connect().await;
    let get = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    // Behind a large head a connection gives up its buffers as soon as it is idle.
    let large = format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(10_000));
    let (both, mut came) = ([get.as_slice(), large.as_bytes()].concat(), Vec::new());
    stream.write_all(&both).await.unwrap();
    let count = |came: &[u8]| String::from_utf8_lossy(came).matches("HTTP/1.1 200").count();
    while count(&came) < 2 {
        assert_ne!(stream.read_buf(&mut came).await.unwrap(), 0);
    }
    for byte in get {
        stream.write_all(&[*byte]).await.unwrap();
        stream.flush().await.unwrap();
    }
    while count(&came) < 3 {
        assert_ne!(stream.read_buf(&mut came).await.unwrap(), 0);
    }
    stream.write_all(get).await.unwrap();
    stream.shutdown().await.unwrap();
    while stream.read_buf(&mut came).await.unwrap() > 0 {}
    assert_eq!(count(&came), 4, "half-closed, it gets its answer");
    assert!(String::from_utf8_lossy(&came).contains("strict-transport-security"));
}

#[tokio::test]
async fn browsers_are_not_told_to_insist_on_tls_with_a_certificate_that_they_may_not_trust() {
    for (tls, is_told) in [
        (Tls::of_own_authority().await, false),
        (Tls::start(Duration::from_secs(60), 1000).await, true),
    ] {
        let mut stream = tls.connect().await;
        let get = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(get).await.unwrap();
        let mut came = Vec::new();
        while stream.read_buf(&mut came).await.unwrap() > 0 {}
        let came = String::from_utf8_lossy(&came).to_string();
        assert!(came.starts_with("HTTP/1.1 200"), "{came}");
        assert_eq!(came.contains("strict-transport-security"), is_told, "{came}");
    }
}

#[tokio::test]
async fn who_closes_without_a_word_of_tls_gets_its_answer_unless_its_request_was_cut_off() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let post = "POST /api/nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    let get = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    let cut = post.strip_suffix('}').unwrap();
    for (sent, answers) in [(post, 1), (get, 1), (&*[post, post].concat(), 2), (cut, 0)] {
        for _ in 0..20 {
            let mut stream = tls.connect().await;
            stream.write_all(sent.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            stream.get_mut().0.shutdown().await.unwrap();
            let (came, ended) = to_its_end(&mut stream).await;
            let came = String::from_utf8(came).unwrap();
            assert_eq!(came.matches("HTTP/1.1 200 OK").count(), answers, "{came}");
            assert!(ended.is_ok() || answers == 0, "{ended:?}");
        }
    }
}

/// Counts answers in what comes in parts.
#[derive(Default)]
struct Answers {
    count: usize,
    bytes: usize,
    /// The end of what came, in which the beginning of one may be.
    end: Vec<u8>,
}

impl Answers {
    fn add(&mut self, part: &[u8]) {
        const BEGINNING: &[u8] = b"HTTP/1.1 200 OK";
        self.end.extend_from_slice(part);
        self.bytes += part.len();
        self.count += self.end.windows(BEGINNING.len()).filter(|bytes| *bytes == BEGINNING).count();
        let counted = (self.end.len() + 1).saturating_sub(BEGINNING.len());
        self.end.drain(..counted);
    }
}

#[tokio::test]
async fn answers_come_whole_to_a_client_that_reads_once_nothing_goes_on() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.set_send_buffer_size(16 * 1024).unwrap();
    let mut stream = tls.secured(socket.connect(tls.server.address).await.unwrap()).await;
    let get = "GET /api/parts?kind=KIND HTTP/1.1\r\nHost: a\r\n\r\n";
    let get = get.replace("KIND", &"k".repeat(8000)).into_bytes();
    // Until the server takes no more requests, since nobody takes its answers.
    let mut sent = 0;
    while let Ok(written) =
        timeout(Duration::from_secs(1), stream.write(&get[sent % get.len()..])).await
    {
        sent += written.unwrap();
        assert!(sent < 200 << 20, "it goes on although nothing is read");
    }
    let asked = sent.div_ceil(get.len());
    let rest = get[sent - (asked - 1) * get.len()..].to_vec();
    let (mut reading, mut writing) = tokio::io::split(stream);
    let sending = tokio::spawn(async move {
        writing.write_all(&rest).await.unwrap();
        writing.flush().await.unwrap();
        writing
    });
    let (mut answers, mut part) = (Answers::default(), vec![0; 64 * 1024]);
    while answers.count < asked {
        let read = timeout(PATIENCE, reading.read(&mut part)).await.unwrap().unwrap();
        assert_ne!(read, 0, "{} of {asked}", answers.count);
        answers.add(&part[..read]);
    }
    assert_eq!(answers.count, asked);
    assert!(answers.bytes > (asked - 1) * 8000);
    drop(sending.await.unwrap());
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_disconnected() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let mut stream = tls.connect().await;
    let head = b"GET /api/flood HTTP/1.1\r\nAccept: text/event-stream\r\nHost: a\r\n\r\n";
    stream.write_all(head).await.unwrap();
    // What is written fails once the server has closed the connection.
    let (since, mut tick) = (Instant::now(), tokio::time::interval(Duration::from_millis(100)));
    while stream.write_all(b"\r\n").await.is_ok() && stream.flush().await.is_ok() {
        assert!(since.elapsed() < Duration::from_secs(60), "it is still open");
        tick.tick().await;
    }
    assert!(since.elapsed() > Duration::from_secs(20), "it was given time");
}

#[tokio::test]
async fn a_head_that_is_too_slow_is_told_so_and_that_nothing_was_cut_off() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let mut stream = tls.connect().await;
    stream.write_all(b"GET /healthz HT").await.unwrap();
    stream.flush().await.unwrap();
    let (came, ended) = to_its_end(&mut stream).await;
    assert!(came.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&came));
    ended.unwrap();
}

#[tokio::test]
async fn a_part_of_a_record_is_the_beginning_of_a_head() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let mut stream = tls.connect().await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    // An idle connection has two minutes, a head ten seconds.
    let since = Instant::now();
    stream.get_mut().0.write_all(&[23, 3, 3, 0x40, 0, 1, 2, 3]).await.unwrap();
    to_its_end(&mut stream).await.1.unwrap();
    assert!(since.elapsed() > Duration::from_secs(5), "it was given time");
}

#[tokio::test]
async fn at_shutdown_idle_connections_are_told_that_nothing_was_cut_off_and_handshakes_end() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let (mut idle, mut half) = (tls.connect().await, tls.plain().await);
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut head = [0; 12];
    idle.read_exact(&mut head).await.unwrap();
    half.write_all(HALF).await.unwrap();
    tls.server.stop.send_replace(true);
    to_its_end(&mut idle).await.1.unwrap();
    assert_eq!(to_its_end(&mut half).await.0, b"");
}

#[tokio::test]
async fn of_what_a_client_does_not_read_one_record_is_kept() {
    let (tls, connector) = made(true);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connecting = async {
        let stream = TcpStream::connect(address).await.unwrap();
        connector.connect(ServerName::from(address.ip()), stream).await.unwrap()
    };
    let accepting = async {
        let (stream, _) = listener.accept().await.unwrap();
        tls.accept(Socket::new(stream, ConnectionState::new()), address.port()).await.unwrap()
    };
    let (_client, accepted) = tokio::join!(connecting, accepting);
    let (mut stream, _) = accepted.expect("it is no look of an authority");
    let bytes = vec![0; 1024 * 1024];
    // Until the sockets of both are full. The runtime would interrupt it before.
    let filling = tokio::task::coop::unconstrained(std::future::poll_fn(|cx| {
        while let Poll::Ready(written) = Pin::new(&mut stream).poll_write(cx, &bytes) {
            assert_ne!(written.unwrap(), 0);
        }
        Poll::Ready(())
    }));
    filling.await;
    let unsent = stream.get_mut().1.process_new_packets().unwrap().tls_bytes_to_write();
    assert!((1..=17 * 1024).contains(&unsent), "{unsent}");
}
