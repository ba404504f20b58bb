//! The client against real servers on the loopback interface that speak raw bytes.

mod kept;
mod limits;
mod many;
mod names;
mod spans;
mod stream;
mod tls;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::call::MAX_IN_FLIGHT;
use super::*;

const LIMITS: Limits =
    Limits { total: Duration::from_secs(10), answer: BodyLimit::UpTo(1000), https_only: false };
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn get(url: impl Into<String>) -> Call {
    Call {
        method: Method::GET,
        url: url.into(),
        headers: Vec::new(),
        body: Vec::new(),
        limits: LIMITS,
    }
}

/// A client with the default settings.
fn strict() -> Outside {
    Outside::new(ClientConfig::default()).unwrap()
}

/// A client that may call loopback addresses and trusts the authority in `fixtures/`.
fn open_to_loopback() -> Outside {
    let allow_private = vec!["127.0.0.0/8".parse().unwrap()];
    let extra_roots_pem = Some(include_bytes!("../fixtures/ca.pem").to_vec());
    Outside::new(ClientConfig { allow_private, extra_roots_pem }).unwrap()
}

/// A port on which `serve` handles the first connection.
async fn server<F, T>(serve: impl FnOnce(TcpStream) -> F + Send + 'static) -> (u16, JoinHandle<T>)
where
    F: Future<Output = T> + Send,
    T: Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await }))
}

/// A port that sends this answer to the first request, which the handle returns.
async fn answering(answer: impl Into<Vec<u8>>) -> (u16, JoinHandle<String>) {
    let answer = answer.into();
    server(async move |mut stream: TcpStream| exchange(&mut stream, &answer).await).await
}

async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: &[u8]) -> String {
    let request = read_request(stream).await;
    // The client may close the connection before it has read everything.
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
    request
}

/// Reads a head and as many bytes as it announces.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut request = String::new();
    loop {
        let mut bytes = [0; 1024];
        let n = stream.read(&mut bytes).await.unwrap();
        request += std::str::from_utf8(&bytes[..n]).unwrap();
        let Some((head, body)) = request.split_once("\r\n\r\n") else {
            if n == 0 {
                return request;
            }
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if n == 0 || body.len() == length.map_or(0, |length| length.parse().unwrap()) {
            return request;
        }
    }
}

/// A listener to which no connection may be made.
fn unused_listener() -> (u16, std::net::TcpListener) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    (listener.local_addr().unwrap().port(), listener)
}

fn no_connection(listener: &std::net::TcpListener) -> bool {
    listener.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[tokio::test]
async fn a_call_is_sent_as_given_and_its_answer_is_returned() {
    let (port, seen) =
        answering("HTTP/1.1 418 Teapot\r\nX-Kind: pot\r\ncontent-length: 5\r\n\r\nshort").await;
    let mut call = get(format!("http://127.0.0.1:{port}/a?b=c#d"));
    call.method = Method::POST;
    call.headers = vec![("X-One".into(), "1".into()), ("x-one".into(), "2".into())];
    call.body = b"stout".to_vec();

    let answer = open_to_loopback().send(call).await.unwrap();
    assert_eq!((answer.status, &*answer.body), (418, &b"short"[..]));
    assert_eq!(answer.header("x-kind"), Some("pot"));
    assert!(!answer.is_success());

    let version = env!("CARGO_PKG_VERSION");
    let request = seen.await.unwrap();
    let (first, rest) = request.split_once("\r\n").unwrap();
    assert_eq!(first, "POST /a?b=c HTTP/1.1");
    let mut lines: Vec<&str> = rest.lines().collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "",
            "accept-encoding: identity",
            "connection: close",
            "content-length: 5",
            &format!("host: 127.0.0.1:{port}"),
            "stout",
            &format!("user-agent: roadstead/{version}"),
            "x-one: 1",
            "x-one: 2",
        ]
    );
}

#[tokio::test]
async fn loopback_is_refused_in_every_notation_unless_allowed() {
    let (port, listener) = unused_listener();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "0",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
    ] {
        let failure = strict().send(get(format!("http://{host}:{port}/"))).await.unwrap_err();
        assert!(matches!(failure, Failure::Address { .. }), "{host}: {failure:?}");
        assert!(no_connection(&listener), "{host}");
    }
}

#[tokio::test]
async fn an_allowed_address_may_be_called_in_every_notation() {
    for host in ["127.0.0.1", "127.1", "2130706433", "localhost", "[::ffff:127.0.0.1]"] {
        let (port, _) = answering(OK).await;
        let answer = open_to_loopback().send(get(format!("http://{host}:{port}/"))).await;
        assert_eq!(answer.map(|answer| answer.body), Ok(b"ok".to_vec()), "{host}");
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let (trap_port, listener) = unused_listener();
    let location = format!("http://127.0.0.1:{trap_port}/");
    let (port, _) = answering(format!(
        "HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
    ))
    .await;
    let answer = open_to_loopback().send(get(format!("http://127.0.0.1:{port}/"))).await.unwrap();
    assert_eq!((answer.status, answer.header("location")), (302, Some(&*location)));
    assert!(no_connection(&listener));
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let (arrived, arrival) = tokio::sync::oneshot::channel();
    let (port, served) = server(async move |mut stream: TcpStream| {
        read_request(&mut stream).await;
        arrived.send(()).unwrap();
        stream.read(&mut [0]).await.unwrap()
    })
    .await;
    let client = open_to_loopback();
    let call =
        tokio::spawn(async move { client.send(get(format!("http://127.0.0.1:{port}/"))).await });
    arrival.await.unwrap();
    call.abort();
    assert_eq!(served.await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_not_http_is_a_failure_that_does_not_repeat_it() {
    let bomb = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "palaver ".repeat(20_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: palaver\r\n".repeat(200));
    for answer in [
        "",
        "palaver",
        "<html>palaver</html>\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "HTTP/1.1 palaver\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: palaver\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\npalaver",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npalaver",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\npalaver",
        &bomb,
        &many,
    ] {
        let (port, _) = answering(answer).await;
        let failure =
            open_to_loopback().send(get(format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
        assert!(matches!(failure, Failure::Protocol { .. }), "{answer:.80}: {failure:?}");
        assert!(!failure.to_string().contains("palaver"), "{failure}");
    }
}

#[tokio::test]
async fn a_closed_port_and_an_unknown_name_are_different_failures() {
    let (port, listener) = unused_listener();
    drop(listener);
    let client = open_to_loopback();
    let failure = client.send(get(format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
    assert!(matches!(failure, Failure::Connect { .. }), "{failure:?}");

    // A label of 64 characters is invalid, so no DNS server is asked.
    let url = format!("http://{}.test/", "a".repeat(64));
    let failure = client.send(get(url)).await.unwrap_err();
    assert!(matches!(failure, Failure::Name { .. }), "{failure:?}");
}

#[tokio::test]
async fn reserved_and_invalid_headers_are_refused() {
    let (port, listener) = unused_listener();
    for (name, value) in [
        ("Host", "other.test"),
        ("content-length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("x-key", "a\r\nx-other: b"),
        ("x key", "a"),
        ("", "a"),
    ] {
        let mut call = get(format!("http://127.0.0.1:{port}/"));
        call.headers.push((name.into(), value.into()));
        let failure = open_to_loopback().send(call).await.unwrap_err();
        assert_eq!(failure, Failure::Header { name: name.into() });
    }
    assert!(no_connection(&listener));
}

#[tokio::test]
async fn failures_name_the_host_but_neither_path_nor_address() {
    let (port, _listener) = unused_listener();
    let url = format!("http://localhost:{port}/services/T0/B0/sesame?open=sesame");
    let failure = strict().send(get(url)).await.unwrap_err().to_string();
    assert!(failure.contains("localhost"), "{failure}");
    assert!(!failure.contains("sesame") && !failure.contains("127.0.0.1"), "{failure}");
    let failure = strict().send(get("sesame://x/sesame")).await.unwrap_err().to_string();
    assert!(!failure.contains("sesame"), "{failure}");
}
