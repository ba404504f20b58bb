//! Many things that another server is asked about beside each other: each is passed on when it is done, and
//! all of them are the answer. A [`Batch`] is a value without I/O; the executor makes its calls.

use serde::Serialize;

use super::calls::Calls;
use super::output::{Output, ResourceRef};
use super::request::Principal;
use crate::base::{Error, Result};
use crate::store::View;

/// How far a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEnd {
    /// All was asked about that it had begin.
    Whole,
    /// The time was up: something was not begun, or a call was cut off.
    Late,
    /// The server had too much to do.
    Refused,
}

/// Things that are asked about beside each other. None of it is written. It is shared by those who ask: what
/// it notes is locked while it is noted, and never while something is asked about.
pub trait Batch: Send + Sync + 'static {
    /// What is passed on of a thing.
    type Item: Serialize;
    /// The answer at the end.
    type Answer: Output;

    /// Returns the next thing to begin with; `None` if there is none left, or no further one may be begun.
    fn next(&self) -> Option<usize>;

    /// Asks about a thing with the rights that the caller has now, keeps what came of it, and returns what is
    /// passed on; `None` while results are missing. It is asked again once they are there, and may be so with
    /// all of them.
    ///
    /// # Errors
    /// Why nothing at all can be asked; 503 if nothing further can.
    fn run(
        &self,
        view: &View,
        who: &Principal,
        item: usize,
        calls: &mut Calls,
    ) -> Result<Option<Self::Item>>;

    /// Returns the answer. It may be asked more than once.
    ///
    /// # Errors
    /// Why there is no answer.
    fn conclude(&self, end: BatchEnd) -> Result<Self::Answer>;

    /// Returns how the audit log names what was done, whatever came of it.
    fn audited(&self) -> ResourceRef;
}

/// A [`Batch`] whose answers are encoded.
pub trait AnyBatch: Send + Sync {
    /// See [`Batch::next`].
    fn next(&self) -> Option<usize>;
    /// See [`Batch::run`]; the thing is JSON.
    fn run(
        &self,
        view: &View,
        who: &Principal,
        item: usize,
        calls: &mut Calls,
    ) -> Result<Option<Vec<u8>>>;
    /// See [`Batch::conclude`]; the answer is JSON.
    fn conclude(&self, end: BatchEnd) -> Result<Vec<u8>>;
    /// See [`Batch::audited`].
    fn audited(&self) -> ResourceRef;
}

impl<B: Batch> AnyBatch for B {
    fn next(&self) -> Option<usize> {
        Batch::next(self)
    }
    fn run(
        &self,
        view: &View,
        who: &Principal,
        item: usize,
        calls: &mut Calls,
    ) -> Result<Option<Vec<u8>>> {
        let done = Batch::run(self, view, who, item, calls)?;
        done.map(|done| encoded(&done)).transpose()
    }
    fn conclude(&self, end: BatchEnd) -> Result<Vec<u8>> {
        encoded(&Batch::conclude(self, end)?)
    }
    fn audited(&self) -> ResourceRef {
        Batch::audited(self)
    }
}

/// Encodes what is answered.
pub(super) fn encoded(answer: &impl Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(answer);
    json.map_err(|error| Error::internal(format!("an answer cannot be written: {error}")))
}
