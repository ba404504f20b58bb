//! TLS of the server's own beside plain HTTP, HTTP/2 beside HTTP/1.1, new handshakes, and what abuses of
//! HTTP/2 do to the writes of others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair};
use roadstead::app::tls::{OwnTls, TlsFiles};
use roadstead::app::{Server, ServerConfig};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{self, Connection, Outcome, load};
use crate::fixture::{Fixture, file, id, place};
use crate::rounds::{self, TIME, figure, rate, ratio};
use crate::table::{Row, Target, time};
use crate::{processor, requests};

/// As many requests at a time, of HTTP/1.1 on as many connections.
const AT_ONCE: usize = 32;
/// How many connections of HTTP/2 have them.
const MULTIPLEXED: usize = 4;

/// Fewer new connections a second, each with its key exchange and signature, would be a fault.
const HANDSHAKES: f64 = 200.0;

/// The longest that 99 of 100 small writes may take beside an abuse, as beside a costly neighbour.
const WRITE_LIMIT: Duration = Duration::from_millis(50);
const WRITES: usize = 600;
const PAUSE: Duration = Duration::from_millis(5);

/// Measures TLS and HTTP/2.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(1);
    let task = id(&fixture.ask(&fixture.post_task()));
    let path = format!("/teams/{}/tasks/{task}", fixture.team);
    let tls = Tls::start(&fixture);
    let request = requests::get(&tls.address.to_string(), &fixture.key, &path);
    let plain = [fixture.get(&path)];
    let outcomes = rounds::run(&mut [
        &mut || tls.http1(&request),
        &mut || load(fixture.address, AT_ONCE, TIME, &plain),
        &mut || tls.http2(&fixture.key, &path),
        &mut || tls.new_connections(&request),
    ]);
    let [over_tls, over_plain, http2, new] = &outcomes[..] else { return Vec::new() };
    let mut rows = vec![
        Row {
            name: format!("GET of a task over TLS, {AT_ONCE} connections"),
            ours: figure(over_tls),
            baseline: format!("plain {}", figure(over_plain)),
            ratio: ratio(over_tls, over_plain),
            target: Target::AtLeast(0.6),
        },
        Row {
            name: format!(
                "GET of a task over HTTP/2, {MULTIPLEXED} connections, {AT_ONCE} at once"
            ),
            ours: figure(http2),
            baseline: format!("HTTP/1.1 over TLS {}", figure(over_tls)),
            ratio: ratio(http2, over_tls),
            target: Target::AtLeast(0.6),
        },
        Row {
            name: "new TLS connections with a handshake and a request each".into(),
            ours: figure(new),
            baseline: format!("limit {HANDSHAKES}/s"),
            ratio: rate(new) / HANDSHAKES,
            target: Target::AtLeast(1.0),
        },
    ];
    rows.push(ALONE.measure(&fixture, &tls));
    rows.extend(ABUSES.iter().map(|abuse| abuse.measure(&fixture, &tls)));
    rows
}

/// The server of a fixture with TLS, and a client that trusts it.
struct Tls {
    address: SocketAddr,
    http1: TlsConnector,
    http2: TlsConnector,
    _server: Server,
    _files: TempDir,
}

impl Tls {
    fn start(fixture: &Fixture) -> Self {
        let files = place();
        let key = KeyPair::generate().expect("there is randomness");
        let params = CertificateParams::new(vec!["127.0.0.1".into()]).expect("it is an address");
        let made = params.self_signed(&key).expect("the key is good").pem();
        let own = TlsFiles { certificate: file(&files, "pem"), key: file(&files, "key") };
        std::fs::write(&own.certificate, &made).expect("there is a place for it");
        std::fs::write(&own.key, key.serialize_pem()).expect("there is a place for it");
        let own = OwnTls::of_files(&own).expect("the pair is good");
        let config = ServerConfig { tls: Some(own), rate_limit: 0, ..ServerConfig::default() };
        let server = fixture.also_serving(config);
        let http1 = connector(&made, b"http/1.1");
        let http2 = connector(&made, b"h2");
        Tls { address: server.address, http1, http2, _server: server, _files: files }
    }

    async fn connect(&self, connector: &TlsConnector) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.set_nodelay(true).expect("it is a TCP connection");
        let name = ServerName::from(self.address.ip());
        connector.connect(name, stream).await.expect("the certificate is good")
    }

    /// Requests of HTTP/1.1, each connection one after another.
    fn http1(&self, request: &[u8]) -> Outcome {
        client::runtime().block_on(async {
            let mut busy = Vec::new();
            for _ in 0..AT_ONCE {
                let mut connection = Connection::over(self.connect(&self.http1).await);
                let request = request.to_vec();
                busy.push(async move |end: Instant| {
                    let mut answers = 0;
                    while Instant::now() < end {
                        connection.ask(&request).await;
                        answers += 1;
                    }
                    answers
                });
            }
            counted(busy).await
        })
    }

    /// The same requests over HTTP/2, several at a time on a connection.
    fn http2(&self, key: &str, path: &str) -> Outcome {
        client::runtime().block_on(async {
            let mut busy = Vec::new();
            for _ in 0..MULTIPLEXED {
                let opened = self.open().await;
                for _ in 0..AT_ONCE / MULTIPLEXED {
                    let mut opened = opened.clone();
                    let url = format!("https://{}/api{path}?orgSlug=acme", self.address);
                    let request = Request::get(url).header("x-api-key", key);
                    let request = request.body(Empty::<Bytes>::new()).expect("it is one");
                    busy.push(async move |end: Instant| {
                        let mut answers = 0;
                        while Instant::now() < end {
                            let answer = opened.send_request(request.clone()).await;
                            let answer = answer.expect("the server answers");
                            assert_eq!(answer.status(), 200);
                            answer.into_body().collect().await.expect("it comes whole");
                            answers += 1;
                        }
                        answers
                    });
                }
            }
            counted(busy).await
        })
    }

    async fn open(&self) -> SendRequest<Empty<Bytes>> {
        let stream = TokioIo::new(self.connect(&self.http2).await);
        let (client, connection) =
            handshake(TokioExecutor::new(), stream).await.expect("it is spoken");
        tokio::spawn(connection);
        client
    }

    /// A connection for each request. Sessions are not resumed: a client that keeps none asks.
    fn new_connections(&self, request: &[u8]) -> Outcome {
        client::runtime().block_on(async {
            let busy = (0..AT_ONCE).map(|_| {
                let (address, connector) = (self.address, self.http1.clone());
                let request = request.to_vec();
                async move |end: Instant| {
                    let mut answers = 0;
                    while Instant::now() < end {
                        let stream = TcpStream::connect(address).await.expect("it listens");
                        let name = ServerName::from(address.ip());
                        let stream = connector.connect(name, stream).await;
                        let stream = stream.expect("the certificate is good");
                        Connection::over(stream).ask(&request).await;
                        answers += 1;
                    }
                    answers
                }
            });
            counted(busy).await
        })
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

/// Runs clients for a round, each of which counts its answers.
async fn counted<C, F>(clients: impl IntoIterator<Item = C>) -> Outcome
where
    C: FnOnce(Instant) -> F,
    F: Future<Output = u32> + Send + 'static,
{
    let before = processor::others();
    let start = Instant::now();
    let mut busy = JoinSet::new();
    for client in clients {
        busy.spawn(client(start + TIME));
    }
    let answers: u32 = busy.join_all().await.into_iter().sum();
    let processor = processor::others().saturating_sub(before) / answers.max(1);
    Outcome { rate: f64::from(answers) / start.elapsed().as_secs_f64(), processor }
}

// ── Abuses ───────────────────────────────────────────────────────────────────

/// What clients of HTTP/2 may try, again and again on connection after connection.
struct Abuse {
    name: &'static str,
    /// What is sent for the nth stream.
    frames: fn(u32) -> Vec<u8>,
}

/// No clients at all, to compare with.
const ALONE: Abuse = Abuse { name: "nothing", frames: |_| Vec::new() };

const ABUSES: [Abuse; 5] = [
    Abuse { name: "streams that are reset at once", frames: reset },
    Abuse { name: "a head continued without end", frames: continued },
    Abuse { name: "heads of a few bytes that stand for many", frames: bomb },
    Abuse { name: "bodies that never end", frames: unfinished },
    Abuse { name: "looks whether the server is there", frames: pings },
];

const CLIENTS: usize = 8;
/// The head of a GET of `/` of the host `a`, compressed.
const GET: &[u8] = &[0x82, 0x87, 0x84, 0x01, 1, b'a'];
const POST: &[u8] = &[0x83, 0x87, 0x84, 0x01, 1, b'a'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn reset(stream: u32) -> Vec<u8> {
    [frame(1, 5, stream, GET), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
}

fn continued(stream: u32) -> Vec<u8> {
    let first = if stream == 1 { frame(1, 1, 1, GET) } else { Vec::new() };
    [first, frame(9, 0, 1, &[0x82; 16_000])].concat()
}

fn bomb(stream: u32) -> Vec<u8> {
    let mut head = GET.to_vec();
    if stream == 1 {
        // A field that is remembered: `x`, with 4,000 bytes.
        head.extend([0x40, 1, b'x', 0x7F, 0xA1, 0x1E]);
        head.extend([b'v'; 4000]);
    }
    head.extend([0xBE; 15]);
    frame(1, 5, stream, &head)
}

fn unfinished(stream: u32) -> Vec<u8> {
    [frame(1, 4, stream, POST), frame(0, 0, stream, &[b'{'; 16_000])].concat()
}

fn pings(_: u32) -> Vec<u8> {
    frame(6, 0, 0, &[0; 8]).repeat(500)
}

impl Abuse {
    /// Measures small writes meanwhile, on a connection of their own.
    fn measure(&self, fixture: &Fixture, tls: &Tls) -> Row {
        eprintln!("  {}", self.name);
        let over = Arc::new(AtomicBool::new(false));
        let write = fixture.post_task();
        let mut times = std::thread::scope(|scope| {
            let is_over = over.clone();
            scope.spawn(move || client::runtime().block_on(self.run(tls, &is_over)));
            let times = client::runtime().block_on(async {
                let mut connection = Connection::open(fixture.address).await;
                let mut times = Vec::new();
                for _ in 0..WRITES {
                    let start = Instant::now();
                    connection.ask(&write).await;
                    times.push(start.elapsed());
                    tokio::time::sleep(PAUSE).await;
                }
                times
            });
            over.store(true, Ordering::Relaxed);
            times
        });
        times.sort_unstable();
        let (most, half) = (times[WRITES * 99 / 100], times[WRITES / 2]);
        Row {
            name: format!("HTTP/2, {CLIENTS} clients: {}: another's write, p99", self.name),
            ours: format!("{} (p50 {})", time(most), time(half)),
            baseline: format!("limit {}", time(WRITE_LIMIT)),
            ratio: most.as_secs_f64() / WRITE_LIMIT.as_secs_f64(),
            target: Target::AtMost(1.0),
        }
    }

    async fn run(&self, tls: &Tls, over: &AtomicBool) {
        if (self.frames)(1).is_empty() {
            return;
        }
        let clients = (0..CLIENTS).map(|_| async {
            while !over.load(Ordering::Relaxed) {
                self.once(tls, over).await;
            }
        });
        let mut clients: Vec<_> = clients.map(Box::pin).collect();
        std::future::poll_fn(|cx| {
            clients.retain_mut(|client| client.as_mut().poll(cx).is_pending());
            if clients.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    /// A connection until the server ends it, or does not answer for a moment.
    async fn once(&self, tls: &Tls, over: &AtomicBool) {
        let stream = tls.connect(&tls.http2).await;
        let (mut reading, mut writing) = tokio::io::split(stream);
        let sending = async {
            writing.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
            writing.write_all(&frame(4, 0, 0, &[])).await?;
            for stream in (1..).step_by(2) {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                writing.write_all(&(self.frames)(stream)).await?;
                writing.flush().await?;
            }
            std::io::Result::Ok(())
        };
        let ended = async {
            let mut bytes = vec![0; 16 * 1024];
            while reading.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
        };
        let sent = tokio::time::timeout(Duration::from_secs(1), sending);
        tokio::select! {
            _ = sent => {}
            () = ended => {}
        }
    }
}
