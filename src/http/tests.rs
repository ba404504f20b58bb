//! The server by itself, with a route or two of its own, over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;
use crate::api::{Empty, Input, Req, Route, Scope};
use crate::auth::{Rule, Tokens};
use crate::base::Result;
use crate::outside;
use crate::store::{Moment, Page, Tx, View};

fn nothing(_: &mut Tx, _: &Req) -> Result<Empty> {
    Ok(Empty {})
}

#[derive(Deserialize, JsonSchema)]
struct Filter {
    kind: Option<String>,
}
impl Input for Filter {}

/// Two parts with nothing in them.
fn parts(_: &View, req: &Req<(), Filter>) -> Result<Page<String>> {
    let next = req.part.after.is_none().then(|| b"position".to_vec());
    Ok(Page { items: req.input.kind.clone().into_iter().collect(), next })
}

/// A server with routes that anybody may call; it serves as long as the runtime lives.
async fn serving(setup_required: bool) -> SocketAddr {
    let store = Store::in_memory(Moment::system());
    let route =
        |path| Route::post(path, Rule::Anyone, "nothing.do", nothing).scope(Scope::Installation);
    let list = Route::list("/parts", Rule::Anyone, "part.list", parts).scope(Scope::Installation);
    let (stop, stopping) = watch::channel(false);
    let context = Context {
        gatekeeper: Gatekeeper::new(Tokens::new(store.keys())),
        passwords: Passwords::default(),
        outside: Outside::new(outside::Config::default()).unwrap(),
        under_way: UnderWay::default(),
        limits: Limits::new(0),
        router: Router::new(vec![route("/setup"), route("/nothing"), list]).unwrap(),
        uses: KeyUses::default(),
        metrics: Metrics::default(),
        public_url: None,
        trusted_proxies: Vec::new(),
        document: b"{}".to_vec(),
        setup_required: AtomicBool::new(setup_required),
        stopping: stopping.clone(),
        store,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        serve(listener, Arc::new(context), stopping).await;
        drop(stop);
    });
    address
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
        raw(address, &format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n\r\n")).await;
    let (head, body) = came.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().into(), body.into())
}

#[tokio::test]
async fn a_request_with_both_lengths_is_refused_behind_others_too() {
    let address = serving(false).await;
    let get = "GET /healthz HTTP/1.1\r\n\r\n";
    let post = "POST /api/nothing HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
    let chunked = "POST /api/nothing HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                   1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
    let both = chunked.replacen("\r\n", "\r\nContent-Length: 4\r\n", 1);
    let came = raw(address, &[get, post, chunked, get, &both, get].concat()).await;
    let statuses: Vec<_> = came.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "200", "200", "200", "400"]);
    assert!(came.contains("connection: close"), "{came}");
}

#[tokio::test]
async fn who_says_that_they_send_no_more_is_answered_all_the_same() {
    let address = serving(false).await;
    let post = "POST /api/nothing HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
    for sent in [post, "GET /healthz HTTP/1.1\r\n\r\n", &[post, post].concat()] {
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
async fn until_somebody_sets_up_nothing_else_answers() {
    let address = serving(true).await;
    let elsewhere = ["/", "/api", "/api/nothing", "/api/nowhere", "/api/openapi.json", "/nowhere"];
    for path in elsewhere {
        let (status, body) = ask(address, "GET", path).await;
        assert!(status == "503" && body.contains("setup_required"), "{path}: {status} {body}");
    }
    for path in ["/setup", "/healthz", "/readyz"] {
        assert_eq!(ask(address, "GET", path).await.0, "200", "{path}");
    }
    // Asking in a wrong way sets nothing up.
    assert_eq!(ask(address, "GET", "/api/setup").await.0, "405");
    assert_eq!(ask(address, "GET", "/").await.0, "503");
    assert_eq!(ask(address, "POST", "/api/setup").await.0, "200");
    assert_eq!(ask(address, "GET", "/").await.0, "200");
}

#[tokio::test]
async fn a_cursor_is_good_for_the_list_that_its_filters_make_whatever_else_is_sent() {
    let address = serving(false).await;
    let (_, body) = ask(address, "GET", "/api/parts?kind=a&kinds=b&limit=1").await;
    let part: Value = serde_json::from_str(&body).unwrap();
    let cursor = part["nextCursor"].as_str().unwrap();
    for (query, status) in [
        ("kind=a", "200"),
        ("limit=7&kind=%61&_=1795292078", "200"),
        ("kind=a&kinds=c&orgslug=x", "200"),
        ("kind=b", "400"),
        ("kinds=b", "400"),
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
        link_base(None, &headers)
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
    assert_eq!(link_base(Some("https://a.test"), &HeaderMap::new()), "https://a.test");
}
