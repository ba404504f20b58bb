//! The server with a few routes of its own, over real sockets.

mod content;
mod frame_client;
mod http2;
mod http2_abuses;
mod streams;
mod tls;
mod watching;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use bytes::Bytes;
use hyper::header::{HOST, HeaderMap};

use super::context::link_base;
use super::*;
use crate::api::execute::{self, Coordination, Executor};
use crate::api::{Calls, Empty, Input, Outcome, Output, Req, ResourceRef, Route, op};
use crate::auth::ANYONE;
use crate::base::Result;
use crate::outside::{self, BodyLimit, Call, Outside};
use crate::store::{Clock, Page, Store, Tx, View};

/// Two pages, of which one is open before setup.
struct Pages;

impl Site for Pages {
    fn patterns(&self) -> Vec<&'static str> {
        vec!["/", "/begin"]
    }
    fn find(&self, path: &str) -> Option<SitePath> {
        let pattern = self.patterns().into_iter().find(|pattern| *pattern == path)?;
        let open_before_setup = pattern == "/begin";
        Some(SitePath { pattern, is_read: true, is_posted: false, open_before_setup })
    }
    fn answer<'a>(&'a self, request: SiteRequest<'a>) -> SiteFuture<'a> {
        let text = if request.path == "/" { "here" } else { "begin" };
        let response = hyper::Response::new(ResponseBody::Whole(text.into()));
        Box::pin(async { SiteReply { response, caller: None } })
    }
    fn error_page(&self, error: &crate::base::Error, _: &str) -> hyper::Response<ResponseBody> {
        let mut response = hyper::Response::new(ResponseBody::Whole("failed".into()));
        *response.status_mut() = status(error.kind());
        response
    }
}

fn nothing(_: &mut Tx, _: &Req) -> Result<Empty> {
    Ok(Empty {})
}

#[derive(Deserialize, JsonSchema)]
struct Filter {
    kind: Option<String>,
}
impl Input for Filter {}

/// Two empty pages.
fn parts(_: &View, req: &Req<(), Filter>) -> Result<Page<String>> {
    let next = req.page.after.is_none().then(|| b"position".to_vec());
    Ok(Page { items: req.input.kind.clone().into_iter().collect(), next })
}

#[derive(Deserialize, JsonSchema)]
struct Urls {
    urls: Vec<String>,
}
impl Input for Urls {}

impl Output for String {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// The id that an operation inserts in each run: if an earlier run is not discarded, the next one
/// conflicts with it.
const MARK: uuid::Uuid = uuid::Uuid::from_u128(7);

/// Fetches these addresses. Writes before the results are known; a discarded run leaves nothing.
fn fetch(tx: &mut Tx, req: &Req<(), Urls>, calls: &mut Calls) -> Result<Outcome<Vec<String>>> {
    use crate::auth::{Session, User};
    let (id, now) = (crate::base::Id::<Session>::new(MARK), tx.now());
    let user = crate::base::Id::<User>::new(MARK);
    tx.insert(&Session { id, user, generation: 0, created_at: now, expires_at: now })?;
    let limits = outside::Limits {
        total: std::time::Duration::from_secs(10),
        answer: BodyLimit::UpTo(1000),
        https_only: false,
    };
    let found = req.input.urls.iter().map(|url| {
        let (method, url) = (outside::Method::GET, url.clone());
        let call = Call { method, url, headers: vec![], body: vec![], limits };
        match calls.send(call) {
            None => "not heard yet".into(),
            Some(heard) => match heard.answer {
                Ok(answer) => String::from_utf8(answer.body).unwrap(),
                Err(failure) => failure.to_string(),
            },
        }
    });
    Ok(Outcome::Done(found.collect()))
}

#[derive(Deserialize, JsonSchema)]
struct Url {
    url: String,
}
impl Input for Url {}

/// What is at this address.
fn fetched(_: &View, req: &Req<(), Url>, calls: &mut Calls) -> Result<Vec<String>> {
    let limits = outside::Limits {
        total: std::time::Duration::from_secs(10),
        answer: BodyLimit::UpTo(1000),
        https_only: false,
    };
    let (method, url) = (outside::Method::GET, req.input.url.clone());
    let heard = calls.send(Call { method, url, headers: vec![], body: vec![], limits });
    let body = heard.and_then(|heard| heard.answer.ok()).map(|answer| answer.body);
    Ok(vec![String::from_utf8(body.unwrap_or_default()).unwrap()])
}

/// A server with routes that anybody may call; it serves as long as the runtime lives.
async fn serving(setup_required: bool) -> SocketAddr {
    start(setup_required).await.address
}

struct Server {
    address: SocketAddr,
    store: Store,
    stop: Arc<watch::Sender<bool>>,
}

async fn start(setup_required: bool) -> Server {
    start_with(setup_required, 1000).await
}

async fn serving_at_most(max_connections: usize) -> SocketAddr {
    let Server { address, stop, .. } = start_with(false, max_connections).await;
    std::mem::forget(stop); // It serves until the test ends.
    address
}

async fn start_with(setup_required: bool, max_connections: usize) -> Server {
    start_speaking(Speaks::Http, setup_required, max_connections).await
}

async fn start_speaking(speaks: Speaks, setup_required: bool, max_connections: usize) -> Server {
    let store = Store::in_memory(Clock::system(), &[]);
    let route = |path| Route::post(path, ANYONE, "nothing.do", op::write(nothing));
    let fetch = Route::post("/fetch", ANYONE, "page.fetch", op::write(op::calling(10, fetch)));
    let list = Route::get("/parts", ANYONE, "part.list", op::list(parts));
    let (stop, stopping) = watch::channel(false);
    let stop = Arc::new(stop);
    let outside = Outside::new(outside::ClientConfig {
        allow_private: vec!["127.0.0.0/8".parse().unwrap()],
        extra_roots_pem: None,
    });
    let executor = Executor::new(execute::ExecutorConfig {
        system: Arc::default(),
        oidc: Arc::default(),
        coordination: Arc::new(Coordination::new(store.clone(), 0, setup_required)),
        store: store.clone(),
        outside: outside.unwrap(),
        stopping: stopping.clone(),
    });
    let context = ServerContext {
        executor: Arc::new(executor),
        router: Arc::new(
            Router::new(vec![
                route("/begin").open_before_setup(),
                route("/nothing"),
                list,
                fetch,
                watching::route(),
                streams::route(),
                Route::get("/fetched", ANYONE, "page.read", op::read(op::calling(10, fetched))),
                content::upload(),
                content::download(),
            ])
            .unwrap(),
        ),
        site: Arc::new(Pages),
        protocols: Vec::new(),
        documents: Vec::new(),
        metrics: Metrics::new(
            [],
            [],
            Sources {
                stored: StoredSources {
                    stored: vec![],
                    oldest: vec![],
                    organizations: |_| Ok(vec![]),
                },
                others: vec![],
            },
        ),
        metrics_token: None,
        is_replicated: None,
        spans: None,
        public_url: None,
        trusted_proxies: Vec::new(),
        document: LazyLock::new(|| Document::new(Bytes::from_static(b"{}"))),
        routes_document: LazyLock::new(|| Document::new(Bytes::from_static(b"[]"))),
        bodies: BodyBudgets::default(),
        max_connections,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stops = stop.clone();
    tokio::spawn(async move {
        let listeners = vec![Listener { socket: listener, speaks }];
        serve(listeners, Arc::new(context), stopping).await;
        drop(stops);
    });
    Server { address, store, stop }
}

/// Everything that comes back on a connection on which this was sent, until it closes.
async fn raw(address: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut came = String::new();
    stream.read_to_string(&mut came).await.unwrap();
    came
}

/// The status and body of an answer.
async fn ask(address: SocketAddr, method: &str, path: &str) -> (String, String) {
    let came =
        raw(address, &format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
            .await;
    let (head, body) = came.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().into(), body.into())
}

#[tokio::test]
async fn a_request_with_both_lengths_is_refused_behind_others_too() {
    let address = serving(false).await;
    let get = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = "POST /api/nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    let chunked = "POST /api/nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
    let both = chunked.replacen("\r\n", "\r\nContent-Length: 4\r\n", 1);
    let came = raw(address, &[get, post, chunked, get, &both, get].concat()).await;
    let statuses: Vec<_> = came.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "200", "200", "200", "400"]);
    assert!(came.contains("connection: close"), "{came}");
}

#[tokio::test]
async fn a_request_with_both_lengths_is_refused_behind_trailers_that_look_like_a_request() {
    let address = serving(false).await;
    let get = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunked = "POST /api/nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let both = chunked.replacen("\r\n", "\r\nContent-Length: 5\r\n", 1);
    // Behind a line feed alone hyper reads on in the trailers.
    for trailers in ["\nGET / HTTP/1.1\r\n\r\n", "X: y\n\r\nA: b\r\n\r\n"] {
        let sent = [chunked, "0\r\n", trailers, &both, "0\r\n\r\n", get].concat();
        let came = raw(address, &sent).await;
        let statuses: Vec<_> = came.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(statuses, ["200", "400"], "{trailers:?}");
    }
}

#[tokio::test]
async fn a_half_closed_connection_gets_its_response() {
    let address = serving(false).await;
    let post = "POST /api/nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    for sent in [post, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", &[post, post].concat()] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut came = String::new();
            stream.read_to_string(&mut came).await.unwrap();
            let asked = sent.matches("HTTP/1.1").count();
            assert_eq!(came.matches("HTTP/1.1 200 OK").count(), asked, "{came}");
        }
    }
}

#[tokio::test]
async fn before_setup_only_setup_responds() {
    let address = serving(true).await;
    let elsewhere = ["/", "/api", "/api/nothing", "/api/nowhere", "/api/openapi.json", "/nowhere"];
    for path in elsewhere {
        let (status, body) = ask(address, "GET", path).await;
        assert!(status == "503" && body.contains("setup_required"), "{path}: {status} {body}");
    }
    for path in ["/begin", "/healthz", "/readyz"] {
        assert_eq!(ask(address, "GET", path).await.0, "200", "{path}");
    }
    // Asking in a wrong way sets nothing up.
    assert_eq!(ask(address, "GET", "/api/begin").await.0, "405");
    assert_eq!(ask(address, "GET", "/").await.0, "503");
    assert_eq!(ask(address, "POST", "/api/begin").await.0, "200");
    assert_eq!(ask(address, "GET", "/").await.0, "200");
}

#[tokio::test]
async fn a_cursor_is_valid_for_the_same_path_and_filters_only() {
    let address = serving(false).await;
    let (_, body) = ask(address, "GET", "/api/parts?kind=a&limit=1").await;
    let part: Value = serde_json::from_str(&body).unwrap();
    let cursor = part["nextCursor"].as_str().unwrap();
    for (query, status) in [
        ("kind=a", "200"),
        ("limit=7&kind=%61", "200"),
        ("kind=a&kinds=c", "400"),
        ("kind=b", "400"),
        ("", "400"),
        ("kind=a&kind[x]=b", "400"),
    ] {
        let answer = ask(address, "GET", &format!("/api/parts?{query}&cursor={cursor}")).await;
        assert_eq!(answer.0, status, "{query}: {}", answer.1);
    }
}

#[test]
fn links_begin_with_a_host_header_that_names_this_machine_and_nothing_else() {
    let base = |host: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        link_base(None, None, &headers)
    };
    for host in ["localhost:7420", "LOCALHOST", "127.0.0.1:80", "127.1.2.3", "[::1]:7420"] {
        assert_eq!(base(host), format!("http://{host}"));
    }
    for host in [
        "example.com",
        "localhost:x@example.com",
        "localhost@example.com",
        "127.0.0.1.example.com",
        "localhost/x",
        "",
        "10.0.0.1",
        "[::2]",
    ] {
        assert_eq!(base(host), "", "{host}");
    }
    assert_eq!(base("localhost:99999"), "http://localhost");
    assert_eq!(link_base(Some("https://a.test"), None, &HeaderMap::new()), "https://a.test");
}

#[tokio::test]
async fn who_speaks_http_2_or_tls_is_told_what_this_server_speaks() {
    let address = serving(false).await;
    for spoken in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\u{16}\u{3}\u{1}\u{0}\u{1}\u{1}\r\n\r\n"] {
        let came = raw(address, spoken).await;
        assert!(came.starts_with("HTTP/1.1 400"), "{came}");
        assert!(
            came.contains("\"other_protocol\"") && came.contains("HTTP/1.1 without TLS"),
            "{came}"
        );
    }
    let came = raw(address, "PRI * HTTP/1.1\r\nHost: a\r\n\r\n<").await;
    assert!(!came.contains("other_protocol"), "{came}");
}

/// Somewhere to call: answers each request with its path, once it is let.
async fn elsewhere(let_answer: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut let_answer = let_answer.clone();
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let path = head.split(' ').nth(1).unwrap();
                let_answer.wait_for(|let_answer| *let_answer).await.unwrap();
                let length = path.len();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{path}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    address
}

/// A request for what is at these addresses, with this `Idempotency-Key`.
fn fetching(urls: &[String], key: &str) -> String {
    let body = serde_json::json!({"urls": urls}).to_string();
    let length = body.len();
    format!(
        "POST /api/fetch HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {key}\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn an_operation_runs_until_all_results_are_known_and_only_that_run_is_committed() {
    let address = serving(false).await;
    let (_let, let_answer) = watch::channel(true);
    let there = elsewhere(let_answer).await;
    let urls = ["a", "b"].map(|path| format!("http://{there}/{path}"));
    let came = raw(address, &fetching(&urls, "one")).await;
    assert!(came.starts_with("HTTP/1.1 200") && came.ends_with(r#"["/a","/b"]"#), "{came}");
    // The run that stayed did write: the next one finds it, and fails.
    let came = raw(address, &fetching(&urls, "two")).await;
    assert!(came.starts_with("HTTP/1.1 500"), "{came}");
}

#[tokio::test]
async fn a_get_may_call_too_and_what_it_reads_has_a_tag() {
    let address = serving(false).await;
    let (_let, let_answer) = watch::channel(true);
    let there = elsewhere(let_answer).await;
    let get = |more: &str| {
        format!(
            "GET /api/fetched?url=http://{there}/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n"
        )
    };
    let came = raw(address, &get("")).await;
    assert!(came.starts_with("HTTP/1.1 200") && came.ends_with(r#"["/a"]"#), "{came}");
    let tag = came.lines().find(|line| line.starts_with("etag: ")).unwrap();
    let has_it = format!("If-None-Match: {}\r\n", &tag["etag: ".len()..]);
    assert!(raw(address, &get(&has_it)).await.starts_with("HTTP/1.1 304"));
}

#[tokio::test]
async fn a_repeat_of_a_request_in_flight_is_refused_and_later_replayed() {
    let address = serving(false).await;
    let (let_it, let_answer) = watch::channel(false);
    let there = elsewhere(let_answer.clone()).await;
    let request = fetching(&[format!("http://{there}/a")], "key");
    let first = tokio::spawn({
        let request = request.clone();
        async move { raw(address, &request).await }
    });
    // Three listen once it calls: this test, the one that accepts, and the connection.
    while let_it.receiver_count() < 3 {
        tokio::task::yield_now().await;
    }
    let early = raw(address, &request).await;
    assert!(early.starts_with("HTTP/1.1 409") && early.contains("retry-after: 1"), "{early}");
    let_it.send_replace(true);
    assert!(first.await.unwrap().starts_with("HTTP/1.1 200"));
    let late = raw(address, &request).await;
    assert!(late.starts_with("HTTP/1.1 200") && late.contains("idempotency-replayed"), "{late}");
}

#[tokio::test]
async fn calls_in_flight_are_given_up_at_shutdown() {
    let Server { address, stop, .. } = start(false).await;
    let (let_it, let_answer) = watch::channel(false);
    let there = elsewhere(let_answer.clone()).await;
    let request = fetching(&[format!("http://{there}/a")], "key");
    let asking = tokio::spawn(async move { raw(address, &request).await });
    // As above: it calls.
    while let_it.receiver_count() < 3 {
        tokio::task::yield_now().await;
    }
    stop.send_replace(true);
    let came = asking.await.unwrap();
    assert!(came.starts_with("HTTP/1.1 503") && came.contains("\"stopping\""), "{came}");
    assert!(came.contains("retry-after: "), "{came}");
}

/// What comes back next, which fits into one read.
async fn answer(stream: &mut TcpStream) -> String {
    let mut came = vec![0; 4096];
    let read = stream.read(&mut came).await.unwrap();
    String::from_utf8_lossy(&came[..read]).into_owned()
}

#[tokio::test]
async fn a_route_that_needs_no_credential_takes_16_kib() {
    let address = serving(false).await;
    for (bytes, status) in [(16 * 1024, "200"), (16 * 1024 + 1, "413")] {
        let body = format!("{{{}}}", " ".repeat(bytes - 2));
        let post = format!(
            "POST /api/nothing HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(post.as_bytes()).await.unwrap();
        let came = answer(&mut stream).await;
        assert!(came.starts_with(&format!("HTTP/1.1 {status}")), "{came}");
        assert!(status == "200" || came.contains("may have 16 KiB"), "{came}");
    }
}

#[tokio::test]
async fn an_address_gets_no_more_than_its_share_of_the_connections() {
    let address = serving_at_most(16).await;
    let mut held = Vec::new();
    for _ in 0..16 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /api/parts HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let came = answer(&mut stream).await;
        held.push((stream, came));
    }
    let is_good = |came: &str| came.starts_with("HTTP/1.1 200");
    let good = held.iter().take_while(|(_, came)| is_good(came)).count();
    assert_eq!(good, 12, "three quarters");
    let refused = &held[12].1;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: ") && refused.contains("too_many_connections"));

    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = other.connect(address).await.unwrap();
    other.write_all(b"GET /api/parts HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert!(is_good(&answer(&mut other).await));
}
