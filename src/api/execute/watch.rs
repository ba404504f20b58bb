//! Conditional waits: long polls for a change of one thing, by its entity tag.

use std::time::Duration;

use tokio::time::Instant;

use super::context::RequestContext;
use super::response::{Body, Response};
use super::waiter::Waiter;
use crate::api::action::{ContentVersion, WatchAction};
use crate::base::Result;

/// Polls at least this often. A signal is lost only with a commit whose outcome is unknown, so this
/// can be rare, which keeps waiting requests cheap.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Answers at once or, while the client has the current version, as soon as it changes; 304 at the
/// end of the wait. Each poll authorizes the caller again.
///
/// A poll does not read the thing if its tag is known, and nothing of it is held in memory during
/// the wait: thousands of clients may wait for a long text.
pub async fn watch(context: &RequestContext, operation: &WatchAction) -> Result<Response> {
    let (executor, preconditions) = (&context.executor, &context.request.preconditions);
    let poll = || {
        context.read(context.work, |view, who| {
            let ContentVersion { topic, version } = (operation.version)(view, who)?;
            let make = || (operation.read)(view, who).map(|answer| answer.body);
            let (tag, other) =
                executor.contents.answer(version, |tag| preconditions.has(tag), make)?;
            Ok((topic, tag, other))
        })
    };
    let until = Instant::now() + Duration::from_secs(operation.wait_secs);
    let mut waiter = Waiter::new(executor, POLL_INTERVAL);
    let mut known = None;
    loop {
        let (topic, tag, other) = match known.take() {
            Some((topic, tag)) if !waiter.wait(until).await => (topic, tag, None),
            _ => poll().await?,
        };
        if other.is_some() || waiter.is_over(until) {
            return Ok(Response::tagged(tag, other.map(Body::Json)));
        }
        waiter.found_nothing(topic, None);
        known = Some((topic, tag));
    }
}
