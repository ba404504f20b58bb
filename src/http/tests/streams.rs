//! Event streams.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::api::{Output, Readiness, ResourceRef, op};

/// How many events were taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

fn poll(_: &View, _: &Req) -> Result<Readiness> {
    Ok(Readiness { topic: uuid::Uuid::from_u128(9), ready: true, again_at: None })
}

#[derive(serde::Serialize, JsonSchema)]
#[serde(transparent)]
struct Large(String);

impl Output for Large {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A large event, without end another one.
fn take(_: &mut Tx, _: &Req) -> Result<Page<Large>> {
    let n = TAKEN.fetch_add(1, Ordering::SeqCst);
    Ok(Page { items: vec![Large(format!("{n} {}", "x".repeat(64 * 1024)))], next: None })
}

pub(super) fn route() -> Route {
    Route::get("/flood", ANYONE, "flood.take", op::take("flood", poll, take)).about("Take it")
}

#[tokio::test]
async fn an_event_stream_whose_client_does_not_read_ends() {
    let address = serving(false).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "GET /api/flood HTTP/1.1\r\nAccept: text/event-stream\r\nHost: a\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // Nothing is read. What is written fails once the server has closed the connection.
    let (since, mut tick) = (Instant::now(), tokio::time::interval(Duration::from_millis(100)));
    while stream.write_all(b"\r\n").await.is_ok() {
        assert!(since.elapsed() < Duration::from_secs(60), "it is still open");
        tick.tick().await;
    }
    assert!(since.elapsed() > Duration::from_secs(20), "it was given time");
    let taken = TAKEN.load(Ordering::SeqCst);
    assert!((1..1000).contains(&taken), "{taken} events of 64 KiB");
}
