//! Effects: what a job does beyond its own rows, as data that the runner executes.

use std::time::Duration;

use super::deliveries::DeliveryAttempt;
use crate::base::Result;
use crate::outside::mail::Mail;
use crate::outside::{Call, CallResult, Response};
use crate::store::Tx;

/// An action executed at least once, after the transaction that prepared it is durable.
pub enum Effect {
    /// An HTTP call. Its limits end well before a lease does (60 s).
    Call(Box<Call>),
    /// Several HTTP calls, a few at a time.
    Calls(Calls),
    Mail(Mail),
    /// Rows of the product, such as a task or a wake, written in one transaction with the result of
    /// the job: exactly once.
    Rows(WriteRows),
    /// Work that takes processor time, outside of transactions and of threads that must not block:
    /// well below a lease. It returns what writes its result.
    Work(Work),
}

/// Several HTTP calls.
pub struct Calls {
    /// The calls, in the order in which they are started.
    pub calls: Vec<Call>,
    /// The time for all of them: at most half of a lease.
    pub total: Duration,
    /// Whether further ones are started after this result of the call with this index. Those that are
    /// not have no result.
    pub goes_on: GoesOn,
}

/// Whether further calls are started after a result; see [`Calls::goes_on`].
pub type GoesOn = Box<dyn Fn(usize, &CallResult) -> bool + Send + Sync>;

/// Costly work of a job; see [`Effect::Work`].
pub type Work = Box<dyn FnOnce() -> WriteRows + Send>;

/// Writes rows in a transaction of the job's organization. It is idempotent: it may run again.
pub type WriteRows = Box<dyn Fn(&mut Tx) -> Result<()> + Send>;

/// The result of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectResult {
    /// The response to a call, whatever its status.
    Response(Response),
    /// The results of the calls that were started of several, each with its URL.
    Answers(Vec<(String, CallResult)>),
    /// The mail was accepted, or the rows were written.
    Done,
    /// There is no response, the mail was not accepted, or the rows were refused: the reason, as
    /// one actionable sentence.
    Failed(String),
    /// What the rows are about does not exist any more: the reason, as one actionable sentence.
    Gone(String),
}

impl EffectResult {
    /// Returns why the effect failed, or none if it did not. `receiver` is the called party, as a
    /// phrase that begins a sentence.
    pub fn failure(&self, receiver: &str) -> Option<String> {
        match self {
            EffectResult::Response(answer) if !answer.is_success() => {
                Some(format!("{receiver} answered with status {}", answer.status))
            }
            EffectResult::Response(_) | EffectResult::Answers(_) | EffectResult::Done => None,
            EffectResult::Failed(why) | EffectResult::Gone(why) => Some(why.clone()),
        }
    }

    /// Whether the receiver is permanently gone, so that nothing more should be sent to it.
    pub fn is_gone(&self) -> bool {
        /// The status of such a receiver (RFC 9110).
        const GONE: u16 = 410;
        match self {
            EffectResult::Response(answer) => answer.status == GONE,
            EffectResult::Gone(_) => true,
            EffectResult::Answers(_) | EffectResult::Done | EffectResult::Failed(_) => false,
        }
    }
}

/// A kind of channel and how it delivers events.
///
/// ```text
/// pub const WEBHOOK: Workflow = Workflow { key: "webhook", effect: post_event };
/// ```
pub struct Workflow {
    /// Its name in the rows of channels. Stored: it never changes.
    pub key: &'static str,
    /// Returns the effect that delivers an event. It runs in a transaction of the channel's
    /// organization, once for each attempt. An error is a failed attempt: its message is in the
    /// log, and the delivery is retried.
    pub effect: fn(&mut Tx, &DeliveryAttempt) -> Result<Effect>,
}
