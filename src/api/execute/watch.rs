//! Waiting for one thing to become another, by its tag.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::context::RequestContext;
use super::response::Response;
use crate::api::action::{ConditionalWaitAction, ContentVersion};
use crate::api::scope::OrgHint;
use crate::base::Result;
use crate::store::ACCESS;

/// A signal is lost only with a commit whose outcome is unknown, so this is rare: whoever waits
/// costs next to nothing.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Answers a route that watches: at once, or, while the thing is what the caller says they have,
/// as soon as it is another; not modified at the end. Nobody is let on who lost the right to read it.
///
/// A look does not read the thing if its tag is known, and nothing of it is held while somebody
/// waits: thousands may wait for a long text.
pub async fn watch(
    context: &RequestContext<'_>,
    operation: &dyn ConditionalWaitAction,
    hint: &OrgHint,
) -> Result<Response> {
    let (executor, preconditions) = (context.executor, &context.request.preconditions);
    let poll = || {
        context.read(hint, |view, who| {
            let ContentVersion { topic, version } = operation.version(view, who)?;
            let make = || operation.read(view, who).map(|answer| answer.body);
            let (tag, other) =
                executor.contents.answer(version, |tag| preconditions.has(tag), make)?;
            Ok((topic, tag, other))
        })
    };
    let until = Instant::now() + Duration::from_secs(operation.wait_secs());
    let mut stopping = executor.stopping.clone();
    let mut subscribed = None;
    loop {
        let (topic, tag, other) = poll().await?;
        let now = Instant::now();
        if other.is_some() || now >= until || *stopping.borrow() {
            return Ok(Response::tagged(tag, other));
        }
        let (subscription, access) = match &mut subscribed {
            Some((to, subscription, access)) if *to == topic => (subscription, access),
            // Looked again after listening began, so that nothing is missed between the two.
            _ => {
                let subscribe = |topic| executor.coordination.subscribe(topic);
                subscribed = Some((topic, subscribe(topic), subscribe(ACCESS)));
                continue;
            }
        };
        tokio::select! {
            () = subscription.heard() => {}
            () = access.heard() => {}
            () = sleep_until(until.min(now + POLL_INTERVAL)) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }
}
