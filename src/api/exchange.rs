//! Answers of other servers that are passed on as they come: what is called, what is made of each piece,
//! and what is answered at the end. An [`Exchange`] is a value without I/O; the executor makes its calls.

use std::sync::Arc;
use std::time::Duration;

use super::batch::{AnyBatch, encoded};
use super::output::{Output, ResourceRef};
use super::request::Principal;
use crate::base::Result;
use crate::outside::{Call, Failure, Pauses, Response};
use crate::store::{Lane, View};

/// What was heard of a call.
pub enum Heard<'a> {
    /// Status and headers of its answer, without the body.
    Head(&'a Response),
    /// The next piece of the body.
    Piece(&'a [u8]),
    /// The end of the body.
    End,
    /// The call failed, before or within its answer.
    Failed(&'a Failure),
}

/// Calls whose answers are read as they come.
pub trait Exchange: Send + 'static {
    /// The answer at the end.
    type Answer: Output;

    /// Returns the next call; `None` if there is none left to make.
    fn next_call(&mut self) -> Option<Call>;

    /// Takes what was heard of the call; appends the text to pass on. Returns whether more of its answer
    /// is read.
    fn hear(&mut self, heard: Heard, text: &mut String) -> bool;

    /// Returns the answer, once there is no call left; for the audit log as well, what it is about. It may
    /// be asked more than once. An exchange that was cut off has heard no end.
    ///
    /// # Errors
    /// Why there is no answer.
    fn conclude(&self, view: &View, took: Duration) -> Result<Self::Answer>;

    /// Returns how the audit log names what was done, whatever came of it.
    fn audited(&self) -> ResourceRef;
}

/// An [`Exchange`] whose answer is encoded.
pub trait AnyExchange: Send {
    /// See [`Exchange::next_call`].
    fn next_call(&mut self) -> Option<Call>;
    /// See [`Exchange::hear`].
    fn hear(&mut self, heard: Heard, text: &mut String) -> bool;
    /// See [`Exchange::conclude`]; the answer is JSON.
    fn conclude(&self, view: &View, took: Duration) -> Result<Vec<u8>>;
    /// See [`Exchange::audited`].
    fn audited(&self) -> ResourceRef;
}

impl<E: Exchange> AnyExchange for E {
    fn next_call(&mut self) -> Option<Call> {
        Exchange::next_call(self)
    }
    fn hear(&mut self, heard: Heard, text: &mut String) -> bool {
        Exchange::hear(self, heard, text)
    }
    fn conclude(&self, view: &View, took: Duration) -> Result<Vec<u8>> {
        let answer = Exchange::conclude(self, view, took)?;
        encoded(&answer)
    }
    fn audited(&self) -> ResourceRef {
        Exchange::audited(self)
    }
}

/// An exchange, as an operation prepares it.
pub struct Prepared<E> {
    pub exchange: E,
    /// What stands for the server that is called: only so many call it at a time.
    pub server: Lane,
    /// How long nothing may come.
    pub pauses: Pauses,
}

/// A batch, as an operation prepares it.
pub struct PreparedBatch<B> {
    pub batch: B,
    /// What stands for the server that is called, as of an exchange.
    pub server: Lane,
    /// The time for all calls.
    pub time: Duration,
}

/// What an operation has called.
pub enum StreamWork {
    /// Calls whose answers are passed on piece by piece; for so long nothing may come.
    Exchange(Box<dyn AnyExchange>, Pauses),
    Batch {
        batch: Arc<dyn AnyBatch>,
        /// The time for all calls.
        time: Duration,
        /// The name of the event of a thing.
        event: &'static str,
    },
}

impl StreamWork {
    /// See [`Exchange::audited`].
    pub fn audited(&self) -> ResourceRef {
        match self {
            StreamWork::Exchange(exchange, _) => exchange.audited(),
            StreamWork::Batch { batch, .. } => batch.audited(),
        }
    }
}

/// An operation that passes on answers as they come.
pub struct StreamAction {
    /// Reads what is to be done, with the rights of the caller.
    pub prepare: BoundPrepare,
}

/// What prepares it, and says what stands for the server that is called.
pub type BoundPrepare = Box<dyn Fn(&View, &Principal) -> Result<(StreamWork, Lane)> + Send + Sync>;
