//! Several calls of one request: bounded in number at once, with one deadline for all.

use std::panic::resume_unwind;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::call::{Call, Failure, Response};
use super::client::Outside;
use super::connect::Target;

/// Limit of the bodies of all answers together, which are held until the last one is complete.
/// About 200 prompts of the maximum size; real lists are far smaller.
const MAX_TOTAL_BYTES: usize = 64 * 1024 * 1024;

/// The result of one call among several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    pub answer: Result<Response, Failure>,
    /// From start to end; zero for a call that was not started.
    pub took: Duration,
}

impl Outside {
    /// Sends these calls as [`Outside::send_while`] does, all of them.
    pub async fn send_all(
        &self,
        calls: Vec<Call>,
        concurrency: usize,
        deadline: Instant,
    ) -> Vec<CallResult> {
        self.send_while(calls, concurrency, deadline, |_, _| true).await
    }

    /// Sends these calls, `concurrency` of them at a time (at least one), and returns their results
    /// in the same order. After a result, told with its index, for which `goes_on` is false, no further
    /// call is started, and those that were not started have no result. A call that is not complete by
    /// `deadline` is [`Failure::TimedOut`], and one not started by then is never sent; each call's own
    /// limits apply as well. Once all
    /// answers together exceed 64 MiB, the rest is [`Failure::TooLarge`]. Dropping the future
    /// closes all connections.
    pub async fn send_while(
        &self,
        calls: Vec<Call>,
        concurrency: usize,
        deadline: Instant,
        goes_on: impl Fn(usize, &CallResult) -> bool,
    ) -> Vec<CallResult> {
        let whole = deadline.saturating_duration_since(Instant::now());
        let mut results: Vec<CallResult> =
            calls.iter().map(|call| not_started(call, whole)).collect();
        let mut waiting = calls.into_iter().enumerate();
        let mut running = JoinSet::new();
        let mut bytes = 0;
        let (mut started, mut goes_further) = (0, true);
        loop {
            while goes_further
                && running.len() < concurrency.max(1)
                && Instant::now() < deadline
                && let Some((index, call)) = waiting.next()
            {
                started = index + 1;
                let client = self.clone();
                running
                    .spawn(async move { (index, client.send_timed(call, deadline, whole).await) });
            }
            match running.join_next().await {
                None => {
                    if !goes_further {
                        results.truncate(started);
                    }
                    return results;
                }
                Some(Ok((index, result))) => {
                    goes_further &= goes_on(index, &result);
                    bytes += result.answer.as_ref().map_or(0, |answer| answer.body.len());
                    if bytes <= MAX_TOTAL_BYTES {
                        results[index] = result;
                        continue;
                    }
                    // This one is dropped, and the others are not started.
                    for index in std::iter::once(index).chain(waiting.by_ref().map(|(n, _)| n)) {
                        mark_too_large(&mut results[index]);
                    }
                }
                Some(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime is shutting down, and nobody reads the results.
                    Err(_) => return results,
                },
            }
        }
    }

    /// Sends one call within the rest of the time `whole`.
    async fn send_timed(&self, mut call: Call, deadline: Instant, whole: Duration) -> CallResult {
        let begin = Instant::now();
        let own = call.limits.total;
        call.limits.total = own.min(deadline.saturating_duration_since(begin));
        let cut_short = call.limits.total < own;
        let answer = match self.send(call).await {
            // The caller knows the time for all calls, not what was left for this one.
            Err(Failure::TimedOut { host, .. }) if cut_short => {
                Err(Failure::TimedOut { host, after: whole })
            }
            answer => answer,
        };
        CallResult { answer, took: begin.elapsed() }
    }
}

/// Marks a call that was not started, or whose answer is dropped.
fn mark_too_large(heard: &mut CallResult) {
    if let Err(Failure::TimedOut { host, .. }) = &heard.answer {
        let host = host.clone();
        heard.answer = Err(Failure::TooLarge { host, bytes: MAX_TOTAL_BYTES });
    }
}

fn not_started(call: &Call, whole: Duration) -> CallResult {
    let failure = match Target::parse(&call.url, call.limits.https_only) {
        Ok(target) => Failure::TimedOut { host: target.host, after: whole },
        Err(failure) => failure,
    };
    CallResult { answer: Err(failure), took: Duration::ZERO }
}
