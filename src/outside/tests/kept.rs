//! Calls over connections that are kept.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A server that answers this many requests on each connection and then closes it: its port, and how
/// many connections it has had.
async fn serving(answers: usize, answer: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        loop {
            let mut stream = listener.accept().await.unwrap().0;
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                for _ in 0..answers {
                    read_request(&mut stream).await;
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (port, connections)
}

#[tokio::test]
async fn a_connection_is_used_again_for_the_same_server_alone() {
    let (port, connections) = serving(10, OK).await;
    let (other, others) = serving(10, OK).await;
    let client = KeptConnections::new(open_to_loopback());
    for port in [port, other, port, other, port] {
        let answer = client.send(get(format!("http://127.0.0.1:{port}/"))).await.unwrap();
        assert_eq!(answer.body, b"ok");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    assert_eq!(others.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_a_closed_connection_did_not_take_is_sent_by_another() {
    const LAST: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    for (answers, answer) in [(1, OK), (10, LAST)] {
        let (port, connections) = serving(answers, answer).await;
        let client = KeptConnections::new(open_to_loopback());
        for _ in 0..3 {
            let mut call = get(format!("http://127.0.0.1:{port}/"));
            call.method = Method::POST;
            call.body = b"once".to_vec();
            assert_eq!(client.send(call).await.unwrap().status, 200);
        }
        assert_eq!(connections.load(Ordering::Relaxed), 3);
    }
}

#[tokio::test]
async fn a_call_that_failed_leaves_no_connection_behind() {
    let too_long = "HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n";
    let (port, connections) = serving(10, too_long).await;
    let client = KeptConnections::new(open_to_loopback());
    for _ in 0..2 {
        let refused = client.send(get(format!("http://127.0.0.1:{port}/"))).await;
        assert!(matches!(refused, Err(Failure::TooLarge { .. })), "{refused:?}");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}
