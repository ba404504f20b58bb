//! Conditional waits.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::api::{ContentVersion, Output, ResourceRef, op};
use crate::auth::KnownSignInAddress;
use crate::base::{Email, Id, Time};

/// How often the thing was read, and looked at.
static READ: AtomicUsize = AtomicUsize::new(0);
static LOOKED: AtomicUsize = AtomicUsize::new(0);

/// What is signalled when the thing may have changed.
const TOPIC: uuid::Uuid = uuid::Uuid::from_u128(8);

/// A number, kept in a record that decides nobody's access.
fn place() -> (Email, String) {
    (Email::parse("watched@example.com").unwrap(), "here".into())
}

#[derive(serde::Serialize, JsonSchema)]
#[serde(transparent)]
struct Number(i64);

impl Output for Number {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

fn read(view: &View, _: &Req) -> Result<Number> {
    READ.fetch_add(1, Ordering::SeqCst);
    view.fetch::<KnownSignInAddress>(&place()).map(|thing| Number(thing.at.millis()))
}

fn look(view: &View, _: &Req) -> Result<ContentVersion> {
    LOOKED.fetch_add(1, Ordering::SeqCst);
    let mark = view.fetch::<KnownSignInAddress>(&place())?.at.millis();
    Ok(ContentVersion { topic: TOPIC, version: uuid::Uuid::from_u128(mark as u128) })
}

pub(super) fn route() -> Route {
    Route::get("/watched", ANYONE, "thing.get", op::watch(read, look))
}

/// Makes the thing this, and says that it may have changed.
async fn put(store: &Store, thing: i64) {
    let put = store.write(Id::NIL, move |tx| {
        let (email, address) = place();
        tx.signal(TOPIC);
        tx.put(&KnownSignInAddress { email, address, at: Time::from_millis(thing) })
    });
    put.await.unwrap();
}

/// Waits for another thing than the one with this tag; it waits when this returns.
async fn wait(address: SocketAddr, tag: &str) -> JoinHandle<String> {
    let looked = LOOKED.load(Ordering::SeqCst);
    let head = format!("If-None-Match: {tag}\r\nConnection: close\r\n\r\n");
    let waiting = tokio::spawn(async move {
        raw(address, &format!("GET /api/watched?wait=60 HTTP/1.1\r\nHost: a\r\n{head}")).await
    });
    // What comes after that is not missed.
    while LOOKED.load(Ordering::SeqCst) == looked {
        yield_now().await;
    }
    waiting
}

#[tokio::test]
async fn a_watched_thing_is_read_once_per_version_for_all_clients() {
    let Server { address, store, stop } = start(false).await;
    put(&store, 1).await;
    let first =
        raw(address, "GET /api/watched HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    let tag = first.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let before = READ.load(Ordering::SeqCst);
    let waiting = [wait(address, tag).await, wait(address, tag).await, wait(address, tag).await];
    for _ in 0..20 {
        put(&store, 1).await;
    }
    assert_eq!(READ.load(Ordering::SeqCst), before);
    put(&store, 2).await;
    for waiting in waiting {
        let came = waiting.await.unwrap();
        assert!(came.starts_with("HTTP/1.1 200") && came.ends_with("\r\n\r\n2"), "{came}");
    }
    assert_eq!(READ.load(Ordering::SeqCst), before + 1);

    // When the server stops, a waiting client gets 304.
    put(&store, 1).await;
    let waiting = wait(address, tag).await;
    stop.send_replace(true);
    let came = waiting.await.unwrap();
    assert!(came.starts_with("HTTP/1.1 304") && came.contains(tag), "{came}");
}
