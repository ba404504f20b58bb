//! Name resolution, and hosts whose addresses change.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;

use super::*;

/// A client that may call 127.0.0.1 and resolves every name to the next of these lists; after the
/// last one, resolution fails.
fn resolving_to(answers: &[&[SocketAddr]]) -> Outside {
    let answers: VecDeque<_> = answers.iter().map(|answer| answer.to_vec()).collect();
    let answers = Mutex::new(answers);
    let allow_private = vec!["127.0.0.1/32".parse().unwrap()];
    let mut client = Outside::new(ClientConfig { allow_private, extra_roots_pem: None }).unwrap();
    let lookup = move |_: &str, _| {
        let next = answers.lock().unwrap().pop_front();
        next.ok_or_else(|| std::io::Error::other("asked once too often"))
    };
    client.lookup = Arc::new(lookup);
    client
}

/// A listener at a loopback address that is not allowed.
fn forbidden_listener() -> (SocketAddr, std::net::TcpListener) {
    let listener = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    (listener.local_addr().unwrap(), listener)
}

fn allowed(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_checked() {
    let (port, seen) = answering(OK).await;
    let (elsewhere, listener) = forbidden_listener();
    let client = resolving_to(&[&[allowed(port)], &[elsewhere]]);

    let answer = client.send(get("http://turncoat.test/")).await;
    assert_eq!(answer.unwrap().body, b"ok");
    assert!(seen.await.unwrap().contains("host: turncoat.test\r\n"));
    // The name was resolved once. The next call resolves it again and is refused.
    let failure = client.send(get("http://turncoat.test/")).await.unwrap_err();
    assert_eq!(failure, Failure::Address { host: "turncoat.test".into(), address: elsewhere.ip() });
    let failure = client.send(get("http://turncoat.test/")).await.unwrap_err();
    assert!(matches!(failure, Failure::Name { reason, .. } if reason == "asked once too often"));
    assert!(no_connection(&listener));
}

#[tokio::test]
async fn a_name_with_a_public_and_a_forbidden_address_is_not_called_at_all() {
    let (elsewhere, listener) = forbidden_listener();
    let public = SocketAddr::from(([8, 8, 8, 8], 80));
    for addresses in [[public, elsewhere], [elsewhere, public]] {
        let client = resolving_to(&[&addresses]);
        let failure = client.send(get("http://two-faced.test/")).await.unwrap_err();
        assert!(matches!(failure, Failure::Address { .. }), "{failure:?}");
    }
    assert!(no_connection(&listener));
}

#[tokio::test]
async fn of_several_addresses_the_first_that_answers_is_called() {
    let (closed, listener) = unused_listener();
    drop(listener);
    let (port, _) = answering(OK).await;
    let client = resolving_to(&[&[allowed(closed), allowed(port)]]);
    assert_eq!(client.send(get("http://two.test/")).await.unwrap().body, b"ok");
}

#[tokio::test]
async fn a_name_without_addresses_is_a_failure() {
    let failure = resolving_to(&[&[]]).send(get("http://none.test/")).await.unwrap_err();
    assert!(matches!(failure, Failure::Connect { .. }), "{failure:?}");
}

#[tokio::test]
async fn the_time_limit_covers_name_resolution() {
    let (go_on, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let lookup = move |_: &str, _| {
        let _ = held.lock().unwrap().recv();
        Ok(Vec::new())
    };
    let mut client = strict();
    client.lookup = Arc::new(lookup);
    let mut call = get("http://silent.test/");
    call.limits.total = Duration::from_millis(100);
    let failure = client.send(call).await.unwrap_err();
    assert!(matches!(failure, Failure::TimedOut { .. }), "{failure:?}");
    // It counts as a call in flight until it ends.
    assert_eq!(client.slots.available_permits(), MAX_IN_FLIGHT - 1);
    drop(go_on);
    let free = client.slots.acquire_many(MAX_IN_FLIGHT as u32);
    drop(timeout(Duration::from_secs(10), free).await.unwrap());
}
