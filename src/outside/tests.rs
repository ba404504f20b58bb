//! The client against real servers on the loopback interface that speak raw bytes.

use std::io::ErrorKind;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::*;

const LIMITS: Limits =
    Limits { total: Duration::from_secs(10), answer: AnswerBody::UpTo(1000), https_only: false };
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn get(url: impl Into<String>) -> Call {
    Call {
        method: Method::Get,
        url: url.into(),
        headers: Vec::new(),
        body: Vec::new(),
        limits: LIMITS,
    }
}

/// A client as it is without options.
fn strict() -> Outside {
    Outside::new(Config::default()).unwrap()
}

/// A client that may call this machine and trusts the authority in `fixtures/`.
fn open_to_loopback() -> Outside {
    let allow_private = vec!["127.0.0.0/8".parse().unwrap()];
    let extra_roots_pem = Some(include_bytes!("fixtures/ca.pem").to_vec());
    Outside::new(Config { allow_private, extra_roots_pem }).unwrap()
}

/// A port on which `serve` speaks to whoever connects first.
async fn server<F, T>(serve: impl FnOnce(TcpStream) -> F + Send + 'static) -> (u16, JoinHandle<T>)
where
    F: Future<Output = T> + Send,
    T: Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await }))
}

/// A port that answers this to the first request, which the handle gives.
async fn answering(answer: impl Into<Vec<u8>>) -> (u16, JoinHandle<String>) {
    let answer = answer.into();
    server(async move |mut stream: TcpStream| exchange(&mut stream, &answer).await).await
}

async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: &[u8]) -> String {
    let request = read_request(stream).await;
    // A client that has seen enough may be gone before the end.
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
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if n == 0 || body.len() == length.map_or(0, |length| length.parse().unwrap()) {
            return request;
        }
    }
}

/// A listener to which nobody may connect.
fn trap() -> (u16, std::net::TcpListener) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    (listener.local_addr().unwrap().port(), listener)
}

fn nobody_came(listener: &std::net::TcpListener) -> bool {
    listener.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[tokio::test]
async fn a_call_arrives_as_it_was_made_and_the_answer_comes_back() {
    let (port, seen) =
        answering("HTTP/1.1 418 Teapot\r\nX-Kind: pot\r\ncontent-length: 5\r\n\r\nshort").await;
    let mut call = get(format!("http://127.0.0.1:{port}/a?b=c#d"));
    call.method = Method::Post;
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
async fn this_machine_is_not_called_by_any_of_its_names_unless_allowed() {
    let (port, listener) = trap();
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
        assert!(nobody_came(&listener), "{host}");
    }
}

#[tokio::test]
async fn a_name_is_as_good_as_its_address_once_allowed() {
    for host in ["127.0.0.1", "127.1", "2130706433", "localhost", "[::ffff:127.0.0.1]"] {
        let (port, _) = answering(OK).await;
        let answer = open_to_loopback().send(get(format!("http://{host}:{port}/"))).await;
        assert_eq!(answer.map(|answer| answer.body), Ok(b"ok".to_vec()), "{host}");
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let (trap_port, listener) = trap();
    let location = format!("http://127.0.0.1:{trap_port}/");
    let (port, _) = answering(format!(
        "HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
    ))
    .await;
    let answer = open_to_loopback().send(get(format!("http://127.0.0.1:{port}/"))).await.unwrap();
    assert_eq!((answer.status, answer.header("location")), (302, Some(&*location)));
    assert!(nobody_came(&listener));
}

#[tokio::test]
async fn an_answer_of_just_the_limit_passes_and_one_byte_more_does_not() {
    for (length, passes) in [(1000, true), (1001, false)] {
        let body = "x".repeat(length);
        for head in [
            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"),
            format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
            ),
        ] {
            let (port, _) = answering(head.as_str()).await;
            let answer = open_to_loopback().send(get(format!("http://127.0.0.1:{port}/"))).await;
            match passes {
                true => assert_eq!(answer.unwrap().body.len(), length, "{head}"),
                false => assert_eq!(
                    answer.unwrap_err(),
                    Failure::TooLarge { host: "127.0.0.1".into(), bytes: 1000 },
                    "{head}"
                ),
            }
        }
    }
}

/// Sends an answer without end, until the client is gone.
async fn endless(mut stream: TcpStream) {
    read_request(&mut stream).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
}

/// Sends an answer a byte at a time, until the client is gone.
async fn dripping(mut stream: TcpStream) {
    read_request(&mut stream).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n").await.unwrap();
    while stream.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Takes the request and says nothing, until the client is gone.
async fn silent(mut stream: TcpStream) {
    read_request(&mut stream).await;
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn reading_stops_at_the_limit() {
    let (port, served) = server(endless).await;
    let failure =
        open_to_loopback().send(get(format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
    assert!(matches!(failure, Failure::TooLarge { .. }), "{failure:?}");
    served.await.unwrap();
}

#[tokio::test]
async fn slow_servers_meet_the_time_limit_of_the_whole_call() {
    let (drip, dripped) = server(dripping).await;
    let (hush, hushed) = server(silent).await;
    for port in [drip, hush] {
        let mut call = get(format!("http://127.0.0.1:{port}/"));
        call.limits.total = Duration::from_millis(200);
        let begin = Instant::now();
        let failure = open_to_loopback().send(call).await.unwrap_err();
        assert!(matches!(failure, Failure::TimedOut { .. }), "{failure:?}");
        assert!(begin.elapsed() >= Duration::from_millis(200));
        assert_eq!(failure.to_string(), "127.0.0.1 gave no complete answer within 0.2 s");
    }
    dripped.await.unwrap();
    hushed.await.unwrap();
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
async fn what_follows_the_status_cannot_undo_it_when_the_body_is_ignored() {
    let (cut, _) = answering("HTTP/1.1 204 No Content\r\ncontent-length: 9\r\n\r\n").await;
    let (short, _) = answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc").await;
    let (large, _) = server(endless).await;
    let (slow, _) = server(dripping).await;
    for port in [cut, short, large, slow] {
        let mut call = get(format!("http://127.0.0.1:{port}/"));
        call.limits.answer = AnswerBody::Ignored;
        call.limits.total = Duration::from_millis(500);
        let answer = open_to_loopback().send(call).await.unwrap();
        assert!(answer.is_success());
        assert!(answer.body.is_empty());
    }
}

#[tokio::test]
async fn an_ignored_body_is_still_read_so_that_its_server_can_finish() {
    let (port, served) = server(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await.unwrap();
        // It takes the client less to read the head; were it to leave then, this would see the end.
        let left = timeout(Duration::from_millis(100), stream.read(&mut [0])).await;
        stream.write_all(b"ok").await.unwrap();
        left.is_err()
    })
    .await;
    let mut call = get(format!("http://127.0.0.1:{port}/"));
    call.limits.answer = AnswerBody::Ignored;
    assert_eq!(open_to_loopback().send(call).await.unwrap().status, 200);
    assert!(served.await.unwrap());
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
async fn a_closed_port_and_an_unknown_name_are_told_apart() {
    let (port, listener) = trap();
    drop(listener);
    let client = open_to_loopback();
    let failure = client.send(get(format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
    assert!(matches!(failure, Failure::Connect { .. }), "{failure:?}");

    // A label of 64 characters is no name: no server need be asked.
    let url = format!("http://{}.test/", "a".repeat(64));
    let failure = client.send(get(url)).await.unwrap_err();
    assert!(matches!(failure, Failure::Name { .. }), "{failure:?}");
}

#[tokio::test]
async fn headers_that_belong_to_the_client_or_break_the_head_are_not_sent() {
    let (port, listener) = trap();
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
    assert!(nobody_came(&listener));
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_for_their_turn_within_their_time() {
    let client = open_to_loopback();
    let all = client.slots.clone().acquire_many_owned(IN_FLIGHT as u32).await.unwrap();

    let (trap_port, listener) = trap();
    let mut call = get(format!("http://127.0.0.1:{trap_port}/"));
    call.limits.total = Duration::from_millis(50);
    assert_eq!(client.clone().send(call).await.unwrap_err(), Failure::Busy);
    assert!(nobody_came(&listener));

    let (port, _) = answering(OK).await;
    let waiting = client.send(get(format!("http://127.0.0.1:{port}/")));
    let (answer, ()) = tokio::join!(waiting, async { drop(all) });
    assert!(answer.unwrap().is_success());
    // All places are free again, those of lookups included.
    drop(client.slots.acquire_many(IN_FLIGHT as u32).await.unwrap());
}

#[tokio::test]
async fn failures_name_the_host_but_neither_path_nor_address() {
    let (port, _listener) = trap();
    let url = format!("http://localhost:{port}/services/T0/B0/sesame?open=sesame");
    let failure = strict().send(get(url)).await.unwrap_err().to_string();
    assert!(failure.contains("localhost"), "{failure}");
    assert!(!failure.contains("sesame") && !failure.contains("127.0.0.1"), "{failure}");
    let failure = strict().send(get("sesame://x/sesame")).await.unwrap_err().to_string();
    assert!(!failure.contains("sesame"), "{failure}");
}

// ── TLS ──────────────────────────────────────────────────────────────────────

/// A port that speaks TLS as `localhost`, certified by the authority in `fixtures/`. Both were made
/// with `openssl ca` for this purpose only, to last until 2120.
async fn answering_in_tls() -> (u16, JoinHandle<Option<String>>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(include_bytes!("fixtures/server.pem")).unwrap()],
            PrivateKeyDer::from_pem_slice(include_bytes!("fixtures/server.key")).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    server(async move |stream| {
        let mut stream = acceptor.accept(stream).await.ok()?;
        Some(exchange(&mut stream, OK.as_bytes()).await)
    })
    .await
}

#[tokio::test]
async fn tls_works_with_a_name_that_an_extra_root_vouches_for() {
    let (port, seen) = answering_in_tls().await;
    let mut call = get(format!("https://localhost:{port}/"));
    call.limits.https_only = true;
    let answer = open_to_loopback().send(call).await.unwrap();
    assert_eq!(answer.body, b"ok");
    assert!(seen.await.unwrap().unwrap().contains(&format!("host: localhost:{port}\r\n")));
}

#[tokio::test]
async fn a_certificate_for_another_name_or_from_a_stranger_gets_no_request() {
    let stranger = Outside::new(Config {
        allow_private: vec!["127.0.0.0/8".parse().unwrap()],
        extra_roots_pem: None,
    });
    for (client, host) in [(open_to_loopback(), "127.0.0.1"), (stranger.unwrap(), "localhost")] {
        let (port, seen) = answering_in_tls().await;
        let failure = client.send(get(format!("https://{host}:{port}/"))).await.unwrap_err();
        assert!(matches!(failure, Failure::Tls { .. }), "{failure:?}");
        assert_eq!(seen.await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_server_without_tls_gets_no_request() {
    let (port, seen) = server(async |mut stream: TcpStream| {
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
        first[0]
    })
    .await;
    let failure =
        open_to_loopback().send(get(format!("https://127.0.0.1:{port}/"))).await.unwrap_err();
    assert!(matches!(failure, Failure::Tls { .. }), "{failure:?}");
    const TLS_HANDSHAKE: u8 = 22;
    assert_eq!(seen.await.unwrap(), TLS_HANDSHAKE);
}
