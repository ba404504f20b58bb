//! Many things that another server is asked about beside each other: each is passed on when it is done, and
//! all of them are the answer. A [`Batch`] is a value without I/O; the executor makes its calls.

use std::sync::Mutex;

use serde::Serialize;

use super::calls::Calls;
use super::output::{Output, ResourceRef};
use crate::base::{Error, Result};
use crate::store::View;

/// Things that are asked about beside each other. None of it is written.
pub trait Batch: Send + 'static {
    /// What is passed on of a thing.
    type Item: Serialize;
    /// The answer at the end.
    type Answer: Output;

    /// Returns the next thing to begin with; `None` if there is none left, or no further one may be begun.
    fn next(&mut self) -> Option<usize>;

    /// Asks about a thing, keeps what came of it, and returns what is passed on; `None` while results are
    /// missing. It is asked again once they are there, and may be so with all of them.
    ///
    /// # Errors
    /// Why nothing at all can be asked.
    fn run(&mut self, view: &View, item: usize, calls: &mut Calls) -> Result<Option<Self::Item>>;

    /// Returns the answer; `is_late` if the time was up before all were done. It may be asked more than once.
    ///
    /// # Errors
    /// Why there is no answer.
    fn conclude(&self, is_late: bool) -> Result<Self::Answer>;

    /// Returns how the audit log names what was done, whatever came of it.
    fn audited(&self) -> ResourceRef;
}

/// A [`Batch`] whose answers are encoded, shared by those who ask about its things.
pub trait AnyBatch: Send + Sync {
    /// See [`Batch::next`].
    fn next(&self) -> Result<Option<usize>>;
    /// See [`Batch::run`]; the thing is JSON.
    fn run(&self, view: &View, item: usize, calls: &mut Calls) -> Result<Option<Vec<u8>>>;
    /// See [`Batch::conclude`]; the answer is JSON.
    fn conclude(&self, is_late: bool) -> Result<Vec<u8>>;
    /// See [`Batch::audited`].
    fn audited(&self) -> Result<ResourceRef>;
}

impl<B: Batch> AnyBatch for Mutex<B> {
    fn next(&self) -> Result<Option<usize>> {
        Ok(self.lock().map_err(panicked)?.next())
    }
    fn run(&self, view: &View, item: usize, calls: &mut Calls) -> Result<Option<Vec<u8>>> {
        let done = self.lock().map_err(panicked)?.run(view, item, calls)?;
        done.map(|done| encoded(&done)).transpose()
    }
    fn conclude(&self, is_late: bool) -> Result<Vec<u8>> {
        encoded(&self.lock().map_err(panicked)?.conclude(is_late)?)
    }
    fn audited(&self) -> Result<ResourceRef> {
        Ok(self.lock().map_err(panicked)?.audited())
    }
}

fn panicked<T>(_: T) -> Error {
    Error::internal("what was asked about many things has panicked")
}

/// Encodes what is answered.
pub(super) fn encoded(answer: &impl Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(answer);
    json.map_err(|error| Error::internal(format!("an answer cannot be written: {error}")))
}
