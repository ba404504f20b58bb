//! TLS of the server's own beside plain HTTP, HTTP/2 beside HTTP/1.1, new handshakes, and what abuses of
//! HTTP/2 do to the writes of others.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use roadstead::app::tls::OwnTls;
use roadstead::app::{Server, ServerConfig};
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::client::{self, Connection, Outcome, load};
use crate::fixture::{Fixture, id, place};
use crate::http2_abuses::{ABUSES, ALONE};
use crate::rounds::{self, TIME, figure, rate, ratio};
use crate::table::{Row, Target};
use crate::tls_client::{Client, certify};
use crate::{processor, requests};

/// As many requests at a time, of HTTP/1.1 on as many connections.
const AT_ONCE: usize = 32;
/// How many connections of HTTP/2 have them.
const MULTIPLEXED: usize = 4;

/// Fewer new connections a second, each with its key exchange and signature, would be a fault.
const HANDSHAKES: f64 = 200.0;

/// Measures TLS and HTTP/2.
pub fn rows() -> Vec<Row> {
    let fixture = Fixture::new(1);
    let task = id(&fixture.ask(&fixture.post_task()));
    let path = format!("/teams/{}/tasks/{task}", fixture.team);
    let tls = Tls::start(&fixture);
    let client = &tls.client;
    let request = requests::get(&client.address.to_string(), &fixture.key, &path);
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
    rows.push(ALONE.measure(&fixture, client));
    rows.extend(ABUSES.iter().map(|abuse| abuse.measure(&fixture, client)));
    rows
}

/// The server of a fixture with TLS, and a client that trusts it.
struct Tls {
    client: Client,
    _server: Server,
    _files: TempDir,
}

impl Tls {
    fn start(fixture: &Fixture) -> Self {
        let files = place();
        let (own, made) = certify(&files);
        let own = OwnTls::of_files(&own).expect("the pair is good");
        let config = ServerConfig { tls: Some(own), rate_limit: 0, ..ServerConfig::default() };
        let server = fixture.also_serving(config);
        Tls { client: Client::of(server.address, &made), _server: server, _files: files }
    }

    /// Requests of HTTP/1.1, each connection one after another.
    fn http1(&self, request: &[u8]) -> Outcome {
        client::runtime().block_on(async {
            let mut busy = Vec::new();
            for _ in 0..AT_ONCE {
                let mut connection =
                    Connection::over(self.client.connect(&self.client.http1).await);
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
                    let url = format!("https://{}/api{path}?orgSlug=acme", self.client.address);
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
        let stream = TokioIo::new(self.client.connect(&self.client.http2).await);
        let (client, connection) =
            handshake(TokioExecutor::new(), stream).await.expect("it is spoken");
        tokio::spawn(connection);
        client
    }

    /// A connection for each request. Sessions are not resumed: a client that keeps none asks.
    fn new_connections(&self, request: &[u8]) -> Outcome {
        client::runtime().block_on(async {
            let busy = (0..AT_ONCE).map(|_| {
                let (address, connector) = (self.client.address, self.client.http1.clone());
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
