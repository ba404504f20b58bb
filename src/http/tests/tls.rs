//! Connections that begin with a handshake, or with none.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWrite as _;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::http::connection_state::ConnectionState;
use crate::http::transport::Socket;

/// TLS for 127.0.0.1, and a client that trusts it.
fn made() -> (ServerTls, TlsConnector) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let pair = Pair::from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (ServerTls::new(pair, true).unwrap(), TlsConnector::from(Arc::new(config)))
}

/// A server with TLS, and a client that trusts it.
struct Tls {
    server: Server,
    connector: TlsConnector,
}

impl Tls {
    async fn start(handshake_time: Duration, max_connections: usize) -> Self {
        let (mut tls, connector) = made();
        tls.handshake_time = handshake_time;
        let server = start_speaking(Speaks::Https(Arc::new(tls)), false, max_connections).await;
        Tls { server, connector }
    }

    async fn plain(&self) -> TcpStream {
        TcpStream::connect(self.server.address).await.unwrap()
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let name = ServerName::from(self.server.address.ip());
        self.connector.connect(name, self.plain().await).await.unwrap()
    }
}

/// The beginning of a handshake: it goes on.
const HALF: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252];

#[tokio::test]
async fn slow_handshakes_end_after_their_time_and_hold_nobody_up() {
    let tls = Tls::start(Duration::from_millis(500), 1000).await;
    let mut slow = Vec::new();
    for number in 0..100 {
        let mut stream = tls.plain().await;
        if number % 2 == 0 {
            stream.write_all(HALF).await.unwrap();
        }
        slow.push(stream);
    }
    let mut stream = tls.connect().await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    for mut stream in slow {
        // Closed without a word.
        let read = stream.read_to_end(&mut Vec::new()).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    // What has its handshake has the time of any connection.
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.contains("HTTP/1.1 200"), "{rest}");
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
    let read = stream.read_to_end(&mut Vec::new()).await;
    assert!(matches!(read, Ok(0) | Err(_)), "closed before its time: {read:?}");
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
    let read = refused.read_to_end(&mut Vec::new()).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    drop(held);
    loop {
        let name = ServerName::from(tls.server.address.ip());
        if tls.connector.connect(name, tls.plain().await).await.is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn requests_that_come_with_the_end_of_the_handshake_or_in_parts_are_answered() {
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
            let mut came = Vec::new();
            let ended = stream.read_to_end(&mut came).await;
            let came = String::from_utf8(came).unwrap();
            assert_eq!(came.matches("HTTP/1.1 200 OK").count(), answers, "{came}");
            assert!(ended.is_ok() || answers == 0, "{ended:?}");
        }
    }
}

#[tokio::test]
async fn a_large_answer_comes_whole_to_a_client_that_reads_late() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let stream = tls.connect().await;
    let get = "GET /api/parts?kind=KIND HTTP/1.1\r\nHost: a\r\n\r\n";
    let get = get.replace("KIND", &"k".repeat(8000));
    let all = get.repeat(400);
    let (mut reading, mut writing) = tokio::io::split(stream);
    let sending = tokio::spawn(async move {
        writing.write_all(all.as_bytes()).await.unwrap();
        writing.flush().await.unwrap();
        writing
    });
    let (mut came, mut bytes) = (0, vec![0; 64 * 1024]);
    let mut text = String::new();
    while text.matches("HTTP/1.1 200").count() < 400 {
        let read = reading.read(&mut bytes).await.unwrap();
        assert_ne!(read, 0);
        came += read;
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    assert!(came > 400 * 8000);
    drop(sending.await.unwrap());
}

#[tokio::test]
async fn of_what_a_client_does_not_read_one_record_is_kept() {
    let (tls, connector) = made();
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
    let (_client, (mut stream, _)) = tokio::join!(connecting, accepting);
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
