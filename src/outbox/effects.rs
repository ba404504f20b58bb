//! Effects: what a job does beyond its own rows, as data that the runner carries out.

use super::deliveries::DeliveryAttempt;
use crate::base::Result;
use crate::outside::mail::Mail;
use crate::outside::{Answer, Call};
use crate::store::{Tx, View};

/// Something to be done once the transaction that prepared it is durable; at least once.
pub enum Effect {
    /// An HTTP call. Its limits end well before a lease does (60 s).
    Call(Box<Call>),
    /// A mail.
    Mail(Mail),
    /// Rows of the product, such as a task or a wake, written in one transaction with what comes
    /// of the job: exactly once.
    Rows(WriteRows),
}

/// Writes rows in a transaction of the job's organization. It may be run again.
pub type WriteRows = Box<dyn Fn(&mut Tx) -> Result<()> + Send>;

/// What came of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectResult {
    /// The answer to a call, whatever its status.
    Answer(Answer),
    /// The mail was accepted, or the rows were written.
    Done,
    /// There is no answer, the mail was not accepted, or the rows were refused: why, as one
    /// sentence that a person can act on.
    Failed(String),
}

impl EffectResult {
    /// Why the effect failed; none if it did not. `receiver` is what was called, as a phrase that
    /// begins a sentence.
    pub fn failure(&self, receiver: &str) -> Option<String> {
        match self {
            EffectResult::Answer(answer) if !answer.is_success() => {
                Some(format!("{receiver} answered with status {}", answer.status))
            }
            EffectResult::Answer(_) | EffectResult::Done => None,
            EffectResult::Failed(why) => Some(why.clone()),
        }
    }
}

/// How a kind of channel delivers events.
///
/// ```text
/// pub const WEBHOOK: Workflow = Workflow { key: "webhook", effect: post_event };
/// ```
pub struct Workflow {
    /// Its name in the rows of channels; it never changes.
    pub key: &'static str,
    /// Turns an event into the effect that delivers it. It runs in a transaction of the channel's
    /// organization, at every attempt anew. An error is a failed attempt: its message is shown in
    /// the log, and it is tried again.
    pub effect: fn(&View, &DeliveryAttempt) -> Result<Effect>,
}
