//! Several calls for one purpose: so many at once, all of them within one time.

use std::panic::resume_unwind;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connect::Target;
use super::{Answer, Call, Failure, Outside};

/// All answers are held until the last has come. 200 prompts of the longest text there may be have
/// about as much together; an honest list is far below.
const ALL_BYTES: usize = 64 * 1024 * 1024;

/// What came of one call among several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The answer, or why there is none.
    pub answer: Result<Answer, Failure>,
    /// From its beginning to its end; nothing for a call that was not begun.
    pub took: Duration,
}

impl Outside {
    /// Makes these calls, `at_once` of them at a time (at least one), and gives what came of each,
    /// in their order. One that is not done by `deadline` is [`Failure::TimedOut`], and one that
    /// was not begun by then is never sent; each keeps to its own limits besides. Once all answers
    /// together have more than 64 MiB, the rest is [`Failure::TooLarge`]. Dropping the future closes
    /// all connections.
    pub async fn send_all(
        &self,
        calls: Vec<Call>,
        at_once: usize,
        deadline: Instant,
    ) -> Vec<Heard> {
        let whole = deadline.saturating_duration_since(Instant::now());
        let mut heard: Vec<Heard> = calls.iter().map(|call| not_begun(call, whole)).collect();
        let mut waiting = calls.into_iter().enumerate();
        let mut begun = JoinSet::new();
        let mut bytes = 0;
        loop {
            while begun.len() < at_once.max(1)
                && Instant::now() < deadline
                && let Some((place, call)) = waiting.next()
            {
                let client = self.clone();
                begun.spawn(async move { (place, client.hear(call, deadline, whole).await) });
            }
            match begun.join_next().await {
                None => return heard,
                Some(Ok((place, one))) => {
                    bytes += one.answer.as_ref().map_or(0, |answer| answer.body.len());
                    if bytes <= ALL_BYTES {
                        heard[place] = one;
                        continue;
                    }
                    // Neither this one is kept, nor are the others begun.
                    for place in std::iter::once(place).chain(waiting.by_ref().map(|(n, _)| n)) {
                        too_much(&mut heard[place]);
                    }
                }
                Some(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The process is stopping, and nobody waits for what comes of this.
                    Err(_) => return heard,
                },
            }
        }
    }

    /// Makes one call, in no more than what is left of the `whole` time.
    async fn hear(&self, mut call: Call, deadline: Instant, whole: Duration) -> Heard {
        let begin = Instant::now();
        let own = call.limits.total;
        call.limits.total = own.min(deadline.saturating_duration_since(begin));
        let cut_short = call.limits.total < own;
        let answer = match self.send(call).await {
            // What was left for it says nothing to whoever asked for all of them.
            Err(Failure::TimedOut { host, .. }) if cut_short => {
                Err(Failure::TimedOut { host, after: whole })
            }
            answer => answer,
        };
        Heard { answer, took: begin.elapsed() }
    }
}

/// Of a call that was not begun, or whose answer is not kept.
fn too_much(heard: &mut Heard) {
    if let Err(Failure::TimedOut { host, .. }) = &heard.answer {
        let host = host.clone();
        heard.answer = Err(Failure::TooLarge { host, bytes: ALL_BYTES });
    }
}

fn not_begun(call: &Call, whole: Duration) -> Heard {
    let failure = match Target::parse(&call.url, call.limits.https_only) {
        Ok(target) => Failure::TimedOut { host: target.host, after: whole },
        Err(failure) => failure,
    };
    Heard { answer: Err(failure), took: Duration::ZERO }
}
