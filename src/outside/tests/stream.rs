//! Answers that are read piece by piece.

use super::*;

const SOON: Duration = Duration::from_millis(200);
const PAUSES: Pauses = Pauses { first: Duration::from_secs(10), between: Duration::from_secs(10) };

/// What comes of an answer from this port, piece by piece.
async fn read(port: u16, limits: Limits, pauses: Pauses) -> Result<String, Failure> {
    let call = Call { limits, ..get(format!("http://127.0.0.1:{port}/")) };
    let mut answer = open_to_loopback().open(call, pauses).await?;
    assert_eq!(answer.head.status, 200);
    let mut all = Vec::new();
    while let Some(piece) = answer.next().await? {
        assert!(!piece.is_empty());
        all.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(all).unwrap())
}

#[tokio::test]
async fn pieces_come_before_the_answer_is_whole() {
    let (more, go_on) = tokio::sync::oneshot::channel::<()>();
    let (port, served) = server(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nfirst";
        stream.write_all(head).await.unwrap();
        go_on.await.unwrap();
        stream.write_all(b"second").await.unwrap();
    })
    .await;
    let call = get(format!("http://127.0.0.1:{port}/"));
    let mut answer = open_to_loopback().open(call, PAUSES).await.unwrap();
    assert_eq!(answer.head.header("content-type"), Some("text/event-stream"));
    assert_eq!(&answer.next().await.unwrap().unwrap()[..], b"first");
    more.send(()).unwrap();
    assert_eq!(&answer.next().await.unwrap().unwrap()[..], b"second");
    assert!(answer.next().await.unwrap().is_none());
    served.await.unwrap();
}

#[tokio::test]
async fn a_stream_may_be_as_long_as_the_limit_and_no_longer() {
    for (length, passes) in [(1000, true), (1001, false)] {
        let body = "x".repeat(length);
        for head in [
            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"),
            format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
        ] {
            let (port, _) = answering(head.as_str()).await;
            let expected = Failure::TooLarge { host: "127.0.0.1".into(), bytes: 1000 };
            let heard = read(port, LIMITS, PAUSES).await;
            assert_eq!(heard, if passes { Ok(body.clone()) } else { Err(expected) });
        }
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left_before_the_head_and_within_the_body() {
    let (hush, hushed) = server(super::limits::silent).await;
    let pauses = Pauses { first: SOON, ..PAUSES };
    let silent = |pause| Failure::Silent { host: "127.0.0.1".into(), pause };
    assert_eq!(read(hush, LIMITS, pauses).await, Err(silent(SOON)));
    hushed.await.unwrap();
    for (body, pauses) in
        [("", Pauses { first: SOON, ..PAUSES }), ("a", Pauses { between: SOON, ..PAUSES })]
    {
        let (port, served) = server(async move |mut stream: TcpStream| {
            read_request(&mut stream).await;
            let head = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
            stream.write_all(head.as_bytes()).await.unwrap();
            // The client closes the connection.
            let _ = stream.read(&mut [0]).await;
        })
        .await;
        assert_eq!(read(port, LIMITS, pauses).await, Err(silent(SOON)), "{body}");
        served.await.unwrap();
    }
    assert_eq!(silent(SOON).to_string(), "127.0.0.1 sent nothing for 0.2 s");
}

#[tokio::test]
async fn a_server_that_goes_on_slowly_is_left_at_the_end_of_the_time() {
    let (port, served) = server(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let limits = Limits { total: SOON, ..LIMITS };
    let expected = Failure::TimedOut { host: "127.0.0.1".into(), after: SOON };
    assert_eq!(read(port, limits, PAUSES).await, Err(expected));
    served.await.unwrap();
}

#[tokio::test]
async fn what_is_there_already_is_not_read_after_the_end_of_the_time() {
    let (port, served) = server(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        // More than is read; until the client has gone.
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    })
    .await;
    let limits = Limits { total: SOON, answer: BodyLimit::UpTo(usize::MAX), ..LIMITS };
    let call = Call { limits, ..get(format!("http://127.0.0.1:{port}/")) };
    let begun = Instant::now();
    let mut answer = open_to_loopback().open(call, PAUSES).await.unwrap();
    while begun.elapsed() <= 2 * SOON {
        if answer.next().await.is_err() {
            break;
        }
    }
    let late = answer.next().await;
    assert_eq!(late, Err(Failure::TimedOut { host: "127.0.0.1".into(), after: SOON }));
    drop(answer);
    served.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure() {
    let (port, _) = answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort").await;
    let failure = read(port, LIMITS, PAUSES).await.unwrap_err();
    assert!(matches!(failure, Failure::Protocol { .. }), "{failure:?}");
}

#[tokio::test]
async fn addresses_and_slots_are_those_of_every_call() {
    let (port, listener) = unused_listener();
    let call = get(format!("http://127.0.0.1:{port}/"));
    let failure = strict().open(call, PAUSES).await.err().unwrap();
    assert!(matches!(failure, Failure::Address { .. }), "{failure:?}");
    assert!(no_connection(&listener));

    let client = open_to_loopback();
    let (port, _) = answering(OK).await;
    let answer = client.open(get(format!("http://127.0.0.1:{port}/")), PAUSES).await.unwrap();
    assert_eq!(client.slots.available_permits(), MAX_IN_FLIGHT - 1);
    drop(answer);
    // The slot is held by what resolves the name, too, which may end a moment later.
    let free = async {
        while client.slots.available_permits() < MAX_IN_FLIGHT {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), free).await.unwrap();
}
