//! What a client of HTTP/2 may try: each ends its stream or its connection, and holds nobody else up.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::frame_client::*;
use super::tls::{PATIENCE, Tls};
use super::*;

async fn start(max_connections: usize) -> Tls {
    Tls::start(Duration::from_secs(60), max_connections).await.with_http2()
}

fn events() -> Vec<u8> {
    head("GET", "/api/flood", &[("accept", "text/event-stream")])
}

/// A body that never comes.
fn unfinished(number: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, number, &head("POST", "/api/nothing", &[]))
}

#[tokio::test]
async fn streams_that_are_reset_as_soon_as_they_are_opened_end_the_connection() {
    let tls = start(1000).await;
    let mut client = FrameClient::open(&tls, &[]).await;
    let mut all = Vec::new();
    for _ in 0..5000 {
        let number = client.next();
        let block = head("GET", "/api/parts", &[]);
        all.extend(frame(HEADERS, END_HEADERS | END_STREAM, number, &block));
        all.extend(frame(RST_STREAM, 0, number, &CANCEL.to_be_bytes()));
    }
    let sending = async { client.send(&all).await };
    let ((), ()) = tokio::join!(sending, other_is_answered(&tls));
    assert_eq!(client.ended().await, Some(ENHANCE_YOUR_CALM));
    other_is_answered(&tls).await;
}

#[tokio::test]
async fn who_takes_back_what_the_server_works_on_is_closed() {
    let tls = start(1000).await;
    let mut client = FrameClient::open(&tls, &[]).await;
    let since = Instant::now();
    // Each is begun before it is taken back: the answer to the look says so.
    let mut taken_back = 0;
    loop {
        let number = client.next();
        client.send(&unfinished(number)).await;
        client.send(&frame(PING, 0, 0, &[0; 8])).await;
        client.send(&frame(RST_STREAM, 0, number, &CANCEL.to_be_bytes())).await;
        taken_back += 1;
        let closed = timeout(Duration::from_millis(20), client.next_of(&[GOAWAY])).await;
        if matches!(closed, Ok(None)) {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "it goes on");
    }
    assert!((100..300).contains(&taken_back), "{taken_back}");
    other_is_answered(&tls).await;
}

#[tokio::test]
async fn long_polls_and_event_streams_may_be_taken_back() {
    let tls = start(1000).await;
    let mut client = FrameClient::open(&tls, &[(4, 1 << 30)]).await;
    client.send(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes())).await;
    for _ in 0..150 {
        let number = client.ask(&head("GET", "/api/flood?wait=60", &[])).await;
        client.send(&frame(RST_STREAM, 0, number, &CANCEL.to_be_bytes())).await;
        let number = client.get("/healthz").await;
        assert_eq!(client.status(number).await, "200");
    }
}

#[tokio::test]
async fn frames_of_no_request_without_end_end_the_connection() {
    let tls = start(1000).await;
    for of_none in [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[]), frame(99, 0, 0, &[])] {
        let mut client = FrameClient::open(&tls, &[]).await;
        let number = client.get("/healthz").await;
        client.send(&of_none.repeat(500)).await;
        assert_eq!(client.status(number).await, "200", "some may be");
        let since = Instant::now();
        let flood = of_none.repeat(100);
        while client.stream.write_all(&flood).await.is_ok() && client.stream.flush().await.is_ok() {
            assert!(since.elapsed() < PATIENCE, "it goes on");
        }
        other_is_answered(&tls).await;
    }
}

#[tokio::test]
async fn a_head_that_is_continued_without_end_ends_the_connection() {
    for part in [&b""[..], &[0x82; 1000]] {
        let tls = start(1000).await;
        let mut client = FrameClient::open(&tls, &[]).await;
        let number = client.next();
        client.send(&frame(HEADERS, END_STREAM, number, &head("GET", "/", &[]))).await;
        for _ in 0..1000 {
            client.send(&frame(CONTINUATION, 0, number, part)).await;
        }
        other_is_answered(&tls).await;
        let since = Instant::now();
        client.ended().await;
        assert!(since.elapsed() < Duration::from_secs(5), "it is not the time of a head");
    }
}

#[tokio::test]
async fn a_head_of_a_few_bytes_that_stand_for_many_ends_the_connection() {
    let tls = start(1000).await;
    let mut client = FrameClient::open(&tls, &[]).await;
    let number = client.next();
    // A field of 4,000 bytes that is remembered, as number 62, and then meant 12,000 times.
    let value = "v".repeat(4000);
    let mut block = head("GET", "/healthz", &[("x", &value)]);
    let literal = block.iter().rposition(|byte| *byte == 0).unwrap();
    block[literal] = 0x40;
    block.extend([0xBE; 12_000]);
    let flags = END_HEADERS | END_STREAM;
    client.send(&frame(HEADERS, flags, number, &block)).await;
    other_is_answered(&tls).await;
    assert_eq!(client.ended().await, Some(ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused_and_the_others_go_on() {
    let tls = start(1000).await;
    let mut client = FrameClient::open(&tls, &[]).await;
    for _ in 0..110 {
        let number = client.next();
        client.send(&unfinished(number)).await;
    }
    for _ in 0..10 {
        let came = client.next_of(&[HEADERS, RST_STREAM, GOAWAY]).await.unwrap();
        assert_eq!((came.kind, came.reason()), (RST_STREAM, REFUSED_STREAM), "{came:?}");
        assert!(came.stream > 200, "{came:?}");
    }
    other_is_answered(&tls).await;
    client.send(&frame(DATA, END_STREAM, 199, b"{}")).await;
    assert_eq!(client.status(199).await, "200");
    let number = client.get("/healthz").await;
    assert_eq!(client.status(number).await, "200");
}

#[tokio::test]
async fn streams_count_as_connections_do() {
    // An address gets three quarters of 40.
    let tls = start(40).await;
    let mut client = FrameClient::open(&tls, &[]).await;
    let mut held = Vec::new();
    for _ in 0..30 {
        let number = client.next();
        client.send(&unfinished(number)).await;
        held.push(number);
    }
    let refused = client.get("/healthz").await;
    assert_eq!(client.status(refused).await, "503");
    let body = client.next_of(&[DATA]).await.unwrap();
    assert!(String::from_utf8_lossy(&body.payload).contains("too_many_streams"), "{body:?}");
    // Nor is there room for another connection of this address.
    let mut other = tls.plain().await;
    assert_eq!(super::tls::to_its_end(&mut other).await.0, b"");
    for number in held.drain(..) {
        client.send(&frame(DATA, END_STREAM, number, b"{}")).await;
        assert_eq!(client.status(number).await, "200");
    }
    let free = async { while !tls.accepts().await {} };
    timeout(PATIENCE, free).await.expect("places are free again");
}

#[tokio::test]
async fn a_stream_whose_client_does_not_read_ends_and_others_of_its_connection_do_not() {
    let tls = start(1000).await;
    // Nothing of any stream is accepted, unless it is said of one.
    let mut client = FrameClient::open(&tls, &[(4, 0)]).await;
    let since = Instant::now();
    let events = client.ask(&events()).await;
    let large = client.get(&format!("/api/parts?kind={}", "k".repeat(16_000))).await;
    let small = client.get("/healthz").await;
    for number in [events, large, small] {
        assert_eq!(client.status(number).await, "200");
    }
    let mut unread = vec![events, large, small];
    while !unread.is_empty() {
        let came = client.next_of(&[RST_STREAM, GOAWAY]).await.unwrap();
        assert_eq!(came.kind, RST_STREAM, "{came:?}");
        unread.retain(|number| *number != came.stream);
        assert!(since.elapsed() > Duration::from_secs(20), "it was given time");
    }
    let number = client.get("/healthz").await;
    assert_eq!(client.status(number).await, "200");
    client.send(&frame(WINDOW_UPDATE, 0, number, &1000_u32.to_be_bytes())).await;
    let came = client.next_of(&[DATA, RST_STREAM, GOAWAY]).await.unwrap();
    assert_eq!((came.kind, came.stream), (DATA, number));
}

#[tokio::test]
async fn a_small_answer_of_which_a_part_is_not_accepted_ends_the_connection() {
    let tls = start(1000).await;
    let mut client = FrameClient::open(&tls, &[(4, 1)]).await;
    let since = Instant::now();
    let number = client.get("/healthz").await;
    assert_eq!(client.status(number).await, "200");
    client.ended().await;
    assert!(since.elapsed() > Duration::from_secs(20), "it was given time");
    other_is_answered(&tls).await;
}

#[tokio::test]
async fn a_connection_that_is_not_read_is_closed() {
    let tls = start(1000).await;
    let mut client = FrameClient::open(&tls, &[(4, 1 << 30)]).await;
    client.send(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes())).await;
    for _ in 0..10 {
        client.ask(&events()).await;
    }
    let (since, mut tick) = (Instant::now(), tokio::time::interval(Duration::from_millis(100)));
    let ping = frame(PING, 1, 0, &[0; 8]);
    while client.stream.write_all(&ping).await.is_ok() && client.stream.flush().await.is_ok() {
        assert!(since.elapsed() < 3 * PATIENCE, "it is still open");
        tick.tick().await;
    }
    assert!(since.elapsed() > Duration::from_secs(20), "it was given time");
}

#[tokio::test]
async fn what_is_not_completed_ends_the_connection_in_time() {
    let tls = start(1000).await;
    let block = head("GET", "/healthz", &[]);
    let whole = frame(HEADERS, END_HEADERS | END_STREAM, 3, &block);
    let open_head = frame(HEADERS, END_STREAM, 3, &block);
    let half_frame = frame(DATA, 0, 1, &[0; 1000]);
    let table: [(&[u8], bool, u64); 5] = [
        (b"", false, 5),                // Not one request: the time of a head.
        (&whole[..5], true, 5),         // A part of a frame may be one of a head.
        (&whole[..12], true, 5),        // One of a head is.
        (&open_head, true, 5),          // It is whole, but the head is not.
        (&half_frame[..500], true, 20), // The time of a body.
    ];
    let cases = table.map(|(sent, has_asked, at_least)| {
        let (tls, sent) = (&tls, sent.to_vec());
        async move {
            let mut client = FrameClient::open(tls, &[]).await;
            if has_asked {
                let number = client.get("/healthz").await;
                assert_eq!(client.status(number).await, "200");
            }
            let since = Instant::now();
            client.send(&sent).await;
            client.ended().await;
            let took = since.elapsed().as_secs();
            assert!((at_least..at_least + 35).contains(&took), "{sent:?}: {took} s");
        }
    });
    let [a, b, c, d, e] = cases;
    tokio::join!(a, b, c, d, e, other_is_answered(&tls));
}
