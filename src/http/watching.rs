//! Waiting for one thing to become another: a long poll by its `ETag`.

use std::time::Duration;

use hyper::Response;
use tokio::time::{Instant, sleep_until};

use super::Reply;
use super::gate::{Passing, etag};
use super::wait::LOOK_EVERY;
use crate::api::{Named, WatchAction};
use crate::base::Result;
use crate::store::ACCESS;

/// Answers a route that watches: at once, or, while the thing is what the caller says they have,
/// as soon as it is another; 304 at the end. Nobody is let on who lost the right to read it.
pub(super) async fn watch(
    passing: &Passing<'_>,
    operation: &dyn WatchAction,
    named: &Named,
) -> Result<Response<Reply>> {
    let until = Instant::now() + Duration::from_secs(operation.wait_secs());
    let read = || passing.read(named, |view, who| operation.read(view, who));
    let mut answer = read()?;
    if operation.wait_secs() == 0 || !passing.has(&etag(&answer.body)) {
        return Ok(passing.conditional(answer.body));
    }
    let signals = passing.context.store.signals();
    let mut stopping = passing.context.stopping.clone();
    let mut access = signals.listen(ACCESS);
    let topic = passing.read(named, |view, who| operation.topic(view, who))?;
    let mut listener = signals.listen(topic);
    loop {
        // Read again after listening began, so that nothing is missed between the two.
        answer = read()?;
        let now = Instant::now();
        if now >= until || *stopping.borrow() || !passing.has(&etag(&answer.body)) {
            return Ok(passing.conditional(answer.body));
        }
        tokio::select! {
            () = listener.heard() => {}
            () = access.heard() => {}
            () = sleep_until(until.min(now + LOOK_EVERY)) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }
}
