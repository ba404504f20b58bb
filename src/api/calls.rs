//! Answers from outside, as an operation gets them without leaving its transaction.
//!
//! It asks for what it needs. What is not known yet is noted, the operation goes on with anything
//! and what it wrote is dropped; then the calls are made and it runs again, with their answers.
//! So an operation that calls stays a function of the state and of what it heard, and its last run
//! sees both as they are when it is committed.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::outside::{Call, Heard};

/// What tells one call from another: a hash of everything in it.
type Tag = [u8; 32];

/// What was heard so far, for all runs of one operation.
pub type Known = Arc<HashMap<Tag, Heard>>;

/// The calls of one run of an operation.
#[derive(Default)]
pub struct Calls {
    known: Known,
    asked: Vec<(Tag, Call)>,
}

impl Calls {
    /// For a run that knows this.
    pub fn new(known: Known) -> Self {
        Calls { known, asked: Vec::new() }
    }

    /// What came of this call, if it was made. Otherwise it will be: go on with anything, for
    /// nothing of this run is kept.
    pub fn send(&mut self, call: Call) -> Option<Heard> {
        let tag = tag(&call);
        let heard = self.known.get(&tag).cloned();
        if heard.is_none() && self.asked.iter().all(|(asked, _)| *asked != tag) {
            self.asked.push((tag, call));
        }
        heard
    }

    /// Takes an answer as heard.
    #[cfg(test)]
    pub fn hear(&mut self, call: &Call, heard: Heard) {
        Arc::make_mut(&mut self.known).insert(tag(call), heard);
    }

    /// The calls asked for so far.
    #[cfg(test)]
    pub fn asked(&self) -> Vec<&Call> {
        self.asked.iter().map(|(_, call)| call).collect()
    }

    /// The calls that have to be made before this run counts.
    pub fn into_asked(self) -> Vec<(Tag, Call)> {
        self.asked
    }
}

fn tag(call: &Call) -> Tag {
    let mut hash = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_be_bytes()).update(bytes);
    };
    part(&[call.method as u8]);
    part(call.url.as_bytes());
    for (name, value) in &call.headers {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    part(&call.body);
    *hash.finalize().as_bytes()
}

/// What came of an operation that may be refused and yet leave something.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It was done.
    Done(T),
    /// It was refused, and what the transaction wrote stays: that it was refused.
    Refused(Error),
}

impl<T> Outcome<T> {
    /// The same with what was done turned into something else.
    ///
    /// # Errors
    /// What turning it gives.
    pub fn try_map<U>(self, f: impl FnOnce(T) -> Result<U>) -> Result<Outcome<U>> {
        Ok(match self {
            Outcome::Done(value) => Outcome::Done(f(value)?),
            Outcome::Refused(error) => Outcome::Refused(error),
        })
    }

    /// What was done, where what a refusal leaves is not to stay.
    ///
    /// # Errors
    /// The refusal.
    pub fn done(self) -> Result<T> {
        match self {
            Outcome::Done(value) => Ok(value),
            Outcome::Refused(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outside::{Answer, AnswerBody, Limits, Method};

    fn call(url: &str) -> Call {
        let limits = Limits {
            total: Duration::from_secs(1),
            answer: AnswerBody::UpTo(1),
            https_only: false,
        };
        Call { method: Method::Get, url: url.into(), headers: vec![], body: vec![], limits }
    }

    #[test]
    fn what_was_heard_is_given_and_what_was_not_is_asked_once() {
        let mut calls = Calls::default();
        assert!(calls.send(call("http://a.test/")).is_none());
        assert!(calls.send(call("http://b.test/")).is_none());
        assert!(calls.send(call("http://a.test/")).is_none());
        let asked = calls.into_asked();
        assert_eq!(asked.len(), 2);
        let answer = Answer { status: 200, headers: vec![], body: vec![] };
        let mut calls = Calls::default();
        calls.hear(&asked[0].1, Heard { answer: Ok(answer), took: Duration::ZERO });
        assert!(calls.send(call("http://a.test/")).is_some());
        assert!(calls.into_asked().is_empty());
    }
}
