//! HTTP/2 within TLS, with hyper's client and one that sends frames.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper::{Method, Request, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::{Instant, timeout};

use super::frame_client::*;
use super::tls::{PATIENCE, Tls};
use super::*;

/// A client of hyper's.
async fn client(tls: &Tls) -> SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(tls.connect().await);
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
    let (client, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    client
}

fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(format!("https://a{path}"));
    request.body(Full::new(body.into())).unwrap()
}

async fn start(max_connections: usize) -> Tls {
    Tls::start(Duration::from_secs(60), max_connections).await.with_http2()
}

#[tokio::test]
async fn a_hundred_requests_at_a_time_are_answered_on_one_connection() {
    let tls = start(1000).await;
    let client = client(&tls).await;
    let asking: Vec<_> = (0..1000)
        .map(|number| {
            let mut client = client.clone();
            tokio::spawn(async move {
                let path = format!("/api/parts?kind={number}");
                let answer = client.send_request(request(Method::GET, &path, "")).await.unwrap();
                assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
                assert!(answer.headers().contains_key("x-request-id"));
                assert!(!answer.headers().contains_key("connection"));
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                assert!(String::from_utf8_lossy(&body).contains(&format!("\"{number}\"")));
            })
        })
        .collect();
    for asked in asking {
        asked.await.unwrap();
    }
}

#[tokio::test]
async fn large_bodies_come_whole_in_both_directions_and_none_with_head_or_304() {
    let tls = start(1000).await;
    let mut client = client(&tls).await;
    let picture: Vec<u8> = (0..3 * 1024 * 1024).map(|at| (at % 251) as u8).collect();
    let mut put = request(Method::PUT, "/api/pictures/large?by=ada", picture.clone());
    put.headers_mut().insert("content-type", "image/png".parse().unwrap());
    let answer = client.send_request(put).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let get = |method| request(method, "/api/pictures/large", "");
    let answer = client.send_request(get(Method::GET)).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), picture);
    let kind = "k".repeat(10_000);
    let path = format!("/api/parts?kind={kind}");
    let answer = client.send_request(request(Method::GET, &path, "")).await.unwrap();
    let length = answer.headers()["content-length"].clone();
    assert!(answer.into_body().collect().await.unwrap().to_bytes().len() > kind.len());
    let answer = client.send_request(request(Method::HEAD, &path, "")).await.unwrap();
    assert_eq!(answer.headers()["content-length"], length);
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    let (let_it, let_answer) = watch::channel(true);
    let fetched = format!("/api/fetched?url=http://{}/a", elsewhere(let_answer).await);
    let answer = client.send_request(request(Method::GET, &fetched, "")).await.unwrap();
    let tag = answer.headers()["etag"].clone();
    assert!(!answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    let mut again = request(Method::GET, &fetched, "");
    again.headers_mut().insert("if-none-match", tag);
    let answer = client.send_request(again).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_MODIFIED);
    drop(let_it);
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    let answer = client.send_request(request(Method::HEAD, "/api/flood", "")).await.unwrap();
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    let torn =
        client.send_request(request(Method::PUT, "/api/pictures/t?by=a", "x")).await.unwrap();
    assert_eq!(torn.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "and its body is read");
}

#[tokio::test]
async fn the_authority_is_held_to_the_rules_of_host_and_a_head_to_its_limits() {
    let tls = start(1000).await;
    let mut client = FrameClient::open(&tls, &[]).await;
    let with = |authority: &str, fields: &[(&str, &str)]| {
        let rest = head("GET", "/healthz", fields);
        let after = rest.iter().position(|byte| *byte == 1).unwrap();
        let authority = match authority {
            "" => vec![],
            authority => [&[1, authority.len() as u8], authority.as_bytes()].concat(),
        };
        [&rest[..after], &authority, &rest[after + 3..]].concat()
    };
    let long = "x".repeat(60_000);
    let many: Vec<_> = (0..101).map(|_| ("x", "y")).collect();
    let crumbs: Vec<_> = (0..150).map(|_| ("cookie", "a=b")).collect();
    for (block, status) in [
        (with("a:7420", &[]), "200"),
        (with("a", &[("host", "a")]), "200"),
        (with("", &[("host", "a")]), "200"),
        (with("", &[]), "400"),
        (with("a", &[("host", "b")]), "400"),
        (with("u@a", &[]), "400"),
        (with("a:99999", &[]), "400"),
        (with("a", &[("x", &long[..50_000])]), "200"),
        (with("a", &crumbs), "200"),
        (with("a", &many), "431"),
        (with("a", &[("x", &long), ("y", &long[..10_000])]), "431"),
        (head("GET", &format!("/{}", &long[..16_500]), &[]), "414"),
    ] {
        let (number, last) = (client.next(), block.chunks(16_000).count() - 1);
        for (nth, part) in block.chunks(16_000).enumerate() {
            let kind = if nth == 0 { HEADERS } else { CONTINUATION };
            let flags = if nth == 0 { END_STREAM } else { 0 };
            let flags = flags | if nth == last { END_HEADERS } else { 0 };
            client.send(&frame(kind, flags, number, part)).await;
        }
        assert_eq!(client.status(number).await, status, "{:?}", &block[..block.len().min(40)]);
    }
}

/// Lets each stream have this much at once, and all together more.
async fn open_wide(tls: &Tls, window: u32) -> FrameClient {
    let mut client = FrameClient::open(tls, &[(4, window)]).await;
    client.send(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes())).await;
    client
}

#[tokio::test]
async fn ten_event_streams_are_live_beside_each_other_and_beside_requests() {
    let tls = start(1000).await;
    let mut client = open_wide(&tls, 10_000).await;
    let mut live = Vec::new();
    for _ in 0..10 {
        let block = head("GET", "/api/flood", &[("accept", "text/event-stream")]);
        live.push(client.ask(&block).await);
    }
    let mut silent = live.clone();
    while !silent.is_empty() {
        let came = client.next_of(&[DATA, RST_STREAM, GOAWAY]).await.unwrap();
        assert_eq!(came.kind, DATA, "{came:?}");
        silent.retain(|number| *number != came.stream);
    }
    let number = client.get("/healthz").await;
    assert_eq!(client.status(number).await, "200");
    // The client leaves one page, and its stream ends alone.
    client.send(&frame(RST_STREAM, 0, live[0], &CANCEL.to_be_bytes())).await;
    client.send(&frame(WINDOW_UPDATE, 0, live[9], &10_000_u32.to_be_bytes())).await;
    loop {
        let came = client.next_of(&[DATA, RST_STREAM, GOAWAY]).await.unwrap();
        assert_eq!(came.kind, DATA, "{came:?}");
        if came.stream == live[9] {
            break;
        }
    }
}

#[tokio::test]
async fn a_request_that_its_client_takes_back_is_completed() {
    let tls = start(1000).await;
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http%3A%2F%2F{}%2F", elsewhere.local_addr().unwrap());
    let mut client = FrameClient::open(&tls, &[]).await;
    let number = client.get(&format!("/api/fetched?url={url}")).await;
    let (mut called, _) = timeout(PATIENCE, elsewhere.accept()).await.unwrap().unwrap();
    called.read_exact(&mut [0; 4]).await.unwrap();
    client.send(&frame(RST_STREAM, 0, number, &CANCEL.to_be_bytes())).await;
    let other = client.get("/healthz").await;
    assert_eq!(client.status(other).await, "200");
    loop {
        match called.try_read(&mut [0; 1024]) {
            Ok(read) => assert_ne!(read, 0, "the call was given up"),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    called.write_all(answer).await.unwrap();
    let _ = timeout(PATIENCE, called.read_to_end(&mut Vec::new())).await.unwrap();
}

#[tokio::test]
async fn at_shutdown_requests_in_progress_are_answered_and_connections_end_soon() {
    let tls = start(1000).await;
    let (mut idle, mut busy) =
        (FrameClient::open(&tls, &[]).await, FrameClient::open(&tls, &[]).await);
    let number = idle.get("/healthz").await;
    assert_eq!(idle.status(number).await, "200");
    let number = busy.next();
    let block = head("POST", "/api/nothing", &[]);
    busy.send(&frame(HEADERS, END_HEADERS, number, &block)).await;
    // Once this is answered, the one before has begun.
    let other = busy.get("/healthz").await;
    assert_eq!(busy.status(other).await, "200");
    let since = Instant::now();
    tls.server.stop.send_replace(true);
    assert_eq!(idle.next_of(&[GOAWAY]).await.unwrap().reason(), 0);
    assert_eq!(busy.next_of(&[GOAWAY]).await.unwrap().reason(), 0);
    busy.send(&frame(DATA, END_STREAM, number, b"{}")).await;
    assert_eq!(busy.next_of(&[HEADERS]).await.unwrap().status(), "200");
    assert_eq!(busy.ended().await.unwrap_or(0), 0);
    assert_eq!(idle.ended().await.unwrap_or(0), 0);
    assert!(since.elapsed() < Duration::from_secs(6), "nothing had to be waited for");
}

#[tokio::test]
async fn who_is_silent_at_shutdown_is_not_waited_for() {
    let tls = start(1000).await;
    let mut idle = FrameClient::open(&tls, &[]).await;
    let number = idle.get("/healthz").await;
    assert_eq!(idle.status(number).await, "200");
    let since = Instant::now();
    tls.server.stop.send_replace(true);
    // Nothing is answered, as by a machine that is asleep.
    let mut came = Vec::new();
    let _ = timeout(PATIENCE, idle.stream.read_to_end(&mut came)).await.expect("it is closed");
    assert!(since.elapsed() < Duration::from_secs(6), "{:?}", since.elapsed());
}

#[tokio::test]
async fn clients_that_do_not_ask_for_http_2_speak_http_1() {
    let tls = Tls::start(Duration::from_secs(60), 1000).await;
    let mut stream = tls.connect().await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut came = String::new();
    stream.read_to_string(&mut came).await.unwrap();
    assert!(came.starts_with("HTTP/1.1 200"), "{came}");
    let mut stream = tls.connect().await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut came = String::new();
    stream.read_to_string(&mut came).await.unwrap();
    assert!(came.starts_with("HTTP/1.1 400") && came.contains("ALPN h2"), "{came}");
}
