//! Reading one task, compared with a bare hyper server that sends the same bytes from memory.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::client::{self, Connection, load};
use crate::fixture::{Fixture, id, server_runtime};
use crate::rounds::{self, PROFILE, TIME, figure, ratio};
use crate::table::{Row, Target};

const CONNECTIONS: usize = 32;

/// Measures reads.
pub fn rows() -> Vec<Row> {
    let (fixture, request) = fixture();
    let bare = Bare::start(fixture.address, &request[0]);
    let outcomes =
        rounds::run(&mut [&mut || load(fixture.address, CONNECTIONS, TIME, &request), &mut || {
            load(bare.address, CONNECTIONS, TIME, &request)
        }]);
    vec![Row {
        name: format!("GET of a task, {CONNECTIONS} connections"),
        ours: figure(&outcomes[0]),
        baseline: format!("bare hyper {}", figure(&outcomes[1])),
        ratio: ratio(&outcomes[0], &outcomes[1]),
        target: Target::AtLeast(0.8),
    }]
}

/// Runs reads for a profiler.
pub fn profile() -> Vec<Row> {
    let (fixture, request) = fixture();
    eprintln!("{:?}", load(fixture.address, CONNECTIONS, PROFILE, &request));
    vec![]
}

/// A server with a task, and the request that reads it.
fn fixture() -> (Fixture, [Vec<u8>; 1]) {
    let fixture = Fixture::new(1);
    let task = id(&fixture.ask(&fixture.post_task()));
    let request = fixture.get(&format!("/teams/{}/tasks/{task}", fixture.team));
    (fixture, [request])
}

/// A bare hyper server with one response.
pub struct Bare {
    pub address: SocketAddr,
    _runtime: Runtime,
}

impl Bare {
    /// Starts a server that responds to every request as `original` does to `request`.
    pub fn start(original: SocketAddr, request: &[u8]) -> Self {
        let (headers, body) = answer(original, request);
        let runtime = server_runtime("bare");
        let listener = runtime
            .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("connections come");
                stream.set_nodelay(true).expect("it is a TCP connection");
                let (headers, body) = (headers.clone(), body.clone());
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let mut response = Response::new(Full::new(body.clone()));
                    *response.headers_mut() = headers.clone();
                    async {
                        request.into_body().collect().await?;
                        Ok::<_, hyper::Error>(response)
                    }
                });
                tokio::spawn(
                    http1::Builder::new()
                        .header_read_timeout(None)
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Bare { address, _runtime: runtime }
    }
}

/// The header fields of a response, without those that hyper adds, and its body.
fn answer(address: SocketAddr, request: &[u8]) -> (HeaderMap, Bytes) {
    client::runtime().block_on(async {
        let mut connection = Connection::open(address).await;
        let answer = connection.ask(request).await;
        let head = std::str::from_utf8(answer.head).expect("heads are ASCII");
        let mut headers = HeaderMap::new();
        for line in head.lines().skip(1) {
            let Some((name, value)) = line.split_once(": ") else { continue };
            let name: HeaderName = name.parse().expect("it is a name");
            if name != DATE && name != CONTENT_LENGTH {
                headers.insert(name, HeaderValue::from_str(value).expect("it is a value"));
            }
        }
        (headers, Bytes::copy_from_slice(answer.body))
    })
}
