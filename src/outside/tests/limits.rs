//! Limits of size, time and calls in flight.

use super::*;
use crate::outside::lookup_limit::{LOOKUP_PATH, LOOKUPS_AN_HOUR};

#[tokio::test]
async fn an_answer_may_be_as_long_as_the_limit_and_no_longer() {
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
            if passes {
                assert_eq!(answer.unwrap().body.len(), length, "{head}");
            } else {
                let expected = Failure::TooLarge { host: "127.0.0.1".into(), bytes: 1000 };
                assert_eq!(answer.unwrap_err(), expected, "{head}");
            }
        }
    }
}

/// Sends an endless answer until the client closes the connection.
async fn endless(mut stream: TcpStream) {
    read_request(&mut stream).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
}

/// Sends an answer byte by byte until the client closes the connection.
async fn dripping(mut stream: TcpStream) {
    read_request(&mut stream).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n").await.unwrap();
    while stream.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Reads the request and sends nothing until the client closes the connection.
pub(super) async fn silent(mut stream: TcpStream) {
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
async fn the_time_limit_covers_the_whole_call() {
    let (drip, dripped) = server(dripping).await;
    let (hush, hushed) = server(silent).await;
    for port in [drip, hush] {
        let mut call = get(format!("http://127.0.0.1:{port}/"));
        call.limits.total = Duration::from_millis(200);
        let begin = Instant::now();
        let failure = open_to_loopback().send(call).await.unwrap_err();
        assert!(matches!(failure, Failure::TimedOut { .. }), "{failure:?}");
        // The servers would never end.
        assert!((200..60_000).contains(&begin.elapsed().as_millis()));
        assert_eq!(failure.to_string(), "127.0.0.1 gave no complete answer within 0.2 s");
    }
    dripped.await.unwrap();
    hushed.await.unwrap();
}

#[tokio::test]
async fn an_error_after_the_head_is_no_failure_when_the_body_is_ignored() {
    let (cut, _) = answering("HTTP/1.1 204 No Content\r\ncontent-length: 9\r\n\r\n").await;
    let (short, _) = answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc").await;
    let (large, _) = server(endless).await;
    let (slow, _) = server(dripping).await;
    for port in [cut, short, large, slow] {
        let mut call = get(format!("http://127.0.0.1:{port}/"));
        call.limits.answer = BodyLimit::Ignored;
        call.limits.total = Duration::from_secs(10);
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
        // The client has read the head by then; if it closed now, this would read the end.
        let left = timeout(Duration::from_millis(100), stream.read(&mut [0])).await;
        stream.write_all(b"ok").await.unwrap();
        left.is_err()
    })
    .await;
    let mut call = get(format!("http://127.0.0.1:{port}/"));
    call.limits.answer = BodyLimit::Ignored;
    assert_eq!(open_to_loopback().send(call).await.unwrap().status, 200);
    assert!(served.await.unwrap());
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_for_a_slot_within_their_time() {
    let client = open_to_loopback();
    let all = client.slots.clone().acquire_many_owned(MAX_IN_FLIGHT as u32).await.unwrap();

    let (trap_port, listener) = unused_listener();
    let mut call = get(format!("http://127.0.0.1:{trap_port}/"));
    call.limits.total = Duration::from_millis(50);
    assert_eq!(client.clone().send(call).await.unwrap_err(), Failure::Busy);
    assert!(no_connection(&listener));

    let (port, _) = answering(OK).await;
    let waiting = client.send(get(format!("http://127.0.0.1:{port}/")));
    let (answer, ()) = tokio::join!(waiting, async { drop(all) });
    assert!(answer.unwrap().is_success());
    // All slots are free again, those of lookups included.
    let free = client.slots.acquire_many(MAX_IN_FLIGHT as u32);
    drop(timeout(Duration::from_secs(10), free).await.unwrap());
}

#[tokio::test]
async fn interim_answers_are_bounded() {
    let (port, _) = server(|mut stream| async move {
        read_request(&mut stream).await;
        let many = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
        let mut sent = 0;
        while stream.write_all(&many).await.is_ok() {
            sent += many.len();
        }
        sent
    })
    .await;
    let failure = open_to_loopback().send(get(format!("http://127.0.0.1:{port}/"))).await;
    let Err(Failure::Protocol { reason, .. }) = failure else { panic!("{failure:?}") };
    assert!(reason.contains("without a final answer"), "{reason}");
}

#[tokio::test]
async fn a_large_answer_may_follow_interim_answers() {
    let body = "x".repeat(1000);
    let answer = format!(
        "{}HTTP/1.1 200 OK\r\ncontent-length: 3000000\r\n\r\n{}",
        "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(10),
        body.repeat(3000)
    );
    let (port, _) = answering(answer).await;
    let mut call = get(format!("http://127.0.0.1:{port}/"));
    call.limits.answer = BodyLimit::UpTo(4_000_000);
    let answer = open_to_loopback().send(call).await;
    assert_eq!(answer.unwrap().body.len(), 3_000_000);
}

#[tokio::test]
async fn a_host_that_was_asked_for_too_many_handles_is_asked_for_no_more() {
    // It may not be called at all, which is found out after a call is counted.
    let client = strict();
    let asked_for = format!("http://127.0.0.1{LOOKUP_PATH}ada");
    let (most, mut sent) = (LOOKUPS_AN_HOUR.get() as usize, 0);
    for _ in 0..most + 20 {
        match client.send(get(&*asked_for)).await.unwrap_err() {
            Failure::TooOften { host } => assert_eq!(host, "127.0.0.1"),
            Failure::Address { .. } => sent += 1,
            other => panic!("{other:?}"),
        }
    }
    // Those that have come back while it was counted.
    assert!((most..most + 10).contains(&sent), "{sent}");
    // Other calls of it are not counted.
    let failure = client.send(get("http://127.0.0.1/")).await.unwrap_err();
    assert!(matches!(failure, Failure::Address { .. }), "{failure:?}");
}
