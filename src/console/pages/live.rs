//! `/o/{org}/live`: tells a script that something in the organization has changed. It says no more
//! than that: the script asks for its page again, whose rights are looked at then. It ends when the
//! session or the membership does.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::base::{Error, Id, Result};
use crate::console::api::{Api, SESSION};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::visit::{CurrentSession, Visit};

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/live").get(|visit| Box::pin(open(visit)))];

/// The interval of comments, which keep proxies from closing the stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Changes are told at most so often.
const PAUSE: Duration = Duration::from_millis(250);
/// A stream ends after this long; the browser opens another.
const MAX_TIME: Duration = Duration::from_secs(600);

const RETRY: Bytes = Bytes::from_static(b"retry: 2000\n\n");
const CHANGED: Bytes = Bytes::from_static(b"event: changed\ndata: {}\n\n");
const ALIVE: Bytes = Bytes::from_static(b": alive\n\n");

#[derive(Deserialize)]
struct Organization {
    id: String,
    slug: String,
}

async fn open(visit: &Visit) -> Result<Reply> {
    let mine: List<Organization> = visit.api.get("/organizations", &[("limit", "100")]).await?;
    let own = mine.items.into_iter().find(|one| one.slug == visit.member().org_slug);
    let own = own.ok_or_else(|| Error::no_such("organization"))?;
    let calls = &visit.api.calls;
    let identity = calls.identity().ok_or_else(|| Error::internal("a stream without a session"))?;
    let slot = calls.executor.stream_slot(&calls.credential, &identity).await?;
    let (api, executor) = (visit.api.reading_newest(), calls.executor.clone());
    let mut changes = executor.subscribe_to(Id::parse(&own.id));
    let mut access = executor.subscribe_to_access();
    let (events, body) = mpsc::channel(1);
    tokio::spawn(async move {
        let _slot = slot;
        let end = Instant::now() + MAX_TIME;
        let (mut next, mut looked_at) = (Some(RETRY), None::<Instant>);
        let mut told_at = Instant::now();
        loop {
            // After subscribing, so that no commit in between is missed; whenever rights may have changed;
            // and from time to time, since a session ends by itself, too.
            if looked_at.is_none_or(|at| at.elapsed() >= HEARTBEAT) {
                access.forget();
                if !is_member(&api, &own.slug).await {
                    return;
                }
                looked_at = Some(Instant::now());
            }
            if let Some(event) = next.take() {
                if events.send(Ok(event)).await.is_err() {
                    return;
                }
                told_at = Instant::now();
            }
            sleep(PAUSE).await;
            next = tokio::select! {
                // Rights change all the time, of whatever organization: they come last.
                biased;
                () = sleep_until(end) => return,
                () = executor.stopped() => return,
                () = events.closed() => return,
                () = sleep_until(told_at + HEARTBEAT) => Some(ALIVE),
                _ = changes.notified() => {
                    // One commit may change both.
                    looked_at = None;
                    Some(CHANGED)
                }
                _ = access.notified() => {
                    looked_at = None;
                    None
                }
            };
        }
    });
    Ok(Reply::events(body))
}

/// Whether the session still holds, and whoever it is of is a member.
async fn is_member(api: &Api, slug: &str) -> bool {
    let session: Result<CurrentSession> = api.get(SESSION, &[]).await;
    session.is_ok_and(|session| session.memberships.iter().any(|one| one.org_slug == slug))
}
