//! Answers that take long, as an operation gets them without leaving its transaction: those from
//! outside, and those that the processor is long about. In a transaction they would keep all who
//! write waiting.
//!
//! It asks for what it needs. What is not known yet is noted, the operation goes on with anything
//! and what it wrote is dropped; then the calls are made, the searches done, and it runs again, with
//! the answers. So such an operation stays a function of the state and of what it heard, and its
//! last run sees both as they are when it is committed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Error, Result};
use crate::outside::{Call, Failure, Heard};

/// The bodies of all calls of one operation have at most so many bytes: they are held at once, and
/// made anew in each run. A hundred judges with a long text each stay below it; five hundred texts
/// with each of them would be gigabytes.
const MAX_SENT_BYTES: usize = 64 * 1024 * 1024;

/// What tells one call, or one search, from another: a hash of all that its answer follows from.
pub type Tag = [u8; 32];

/// A search that takes long: whether something is there, the same for the same tag at any time.
pub type Search = Box<dyn FnOnce() -> Result<bool> + Send>;

/// What was heard and found out so far, for all runs of one operation.
#[derive(Clone, Default)]
pub struct Known {
    /// What came of the calls.
    pub heard: HashMap<Tag, Heard>,
    /// What came of the searches.
    pub found: HashMap<Tag, bool>,
}

/// What has to be known before a run counts.
#[derive(Default)]
pub struct Asked {
    /// The calls to make.
    pub calls: Vec<(Tag, Call)>,
    /// The searches to make.
    pub searches: Vec<(Tag, Search)>,
}

impl Asked {
    /// Whether everything was known.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.searches.is_empty()
    }
}

/// The calls and searches of one run of an operation. Making one costs nothing: most operations
/// call nobody.
#[derive(Default)]
pub struct Calls {
    known: Option<Arc<Known>>,
    asked: Asked,
    sent_bytes: usize,
}

impl Calls {
    /// For a run that knows this.
    pub fn new(known: Arc<Known>) -> Self {
        Calls { known: Some(known), ..Calls::default() }
    }

    /// What came of this call, if it was made. Otherwise it will be: go on with anything, for
    /// nothing of this run is kept. With too many others it fails, and none of them is made.
    pub fn send(&mut self, call: Call) -> Option<Heard> {
        self.sent_bytes += call.body.len();
        if self.sent_bytes > MAX_SENT_BYTES {
            self.asked = Asked::default();
            return Some(Heard { answer: Err(Failure::TooMuch), took: Duration::ZERO });
        }
        let tag = tag(&call);
        let heard = self.known.as_ref().and_then(|known| known.heard.get(&tag).cloned());
        if heard.is_none() && self.asked.calls.iter().all(|(asked, _)| *asked != tag) {
            self.asked.calls.push((tag, call));
        }
        heard
    }

    /// What came of this search, if it was made. Otherwise it will be, as with [`Calls::send`].
    pub fn search_result(&mut self, tag: Tag, search: impl FnOnce() -> Search) -> Option<bool> {
        let found = self.known.as_ref().and_then(|known| known.found.get(&tag).copied());
        if found.is_none() && self.asked.searches.iter().all(|(asked, _)| *asked != tag) {
            self.asked.searches.push((tag, search()));
        }
        found
    }

    #[cfg(test)]
    fn known_mut(&mut self) -> &mut Known {
        Arc::make_mut(self.known.get_or_insert_default())
    }

    /// Takes an answer as heard.
    #[cfg(test)]
    pub fn hear(&mut self, call: &Call, heard: Heard) {
        self.known_mut().heard.insert(tag(call), heard);
    }

    /// Makes the searches that were asked for; says whether there were any.
    #[cfg(test)]
    pub fn search(&mut self) -> bool {
        let searches = std::mem::take(&mut self.asked.searches);
        let were_any = !searches.is_empty();
        let found = searches.into_iter().map(|(tag, search)| (tag, search().unwrap()));
        self.known_mut().found.extend(found);
        were_any
    }

    /// The calls asked for so far.
    #[cfg(test)]
    pub fn asked(&self) -> Vec<&Call> {
        self.asked.calls.iter().map(|(_, call)| call).collect()
    }

    /// What has to be known before this run counts.
    pub fn into_pending(self) -> Asked {
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
    fn known_results_are_returned_and_missing_ones_requested_once() {
        let mut calls = Calls::default();
        assert!(calls.send(call("http://a.test/")).is_none());
        assert!(calls.send(call("http://b.test/")).is_none());
        assert!(calls.send(call("http://a.test/")).is_none());
        let asked = calls.into_pending();
        assert_eq!(asked.calls.len(), 2);
        let answer = Answer { status: 200, headers: vec![], body: vec![] };
        let mut calls = Calls::default();
        calls.hear(&asked.calls[0].1, Heard { answer: Ok(answer), took: Duration::ZERO });
        assert!(calls.send(call("http://a.test/")).is_some());
        assert!(calls.into_pending().is_empty());
    }

    #[test]
    fn more_than_may_be_sent_is_refused_before_anything_is() {
        let large = |url: &str| Call { body: vec![0; MAX_SENT_BYTES / 2], ..call(url) };
        let mut calls = Calls::default();
        assert!(calls.send(large("http://a.test/")).is_none());
        assert!(calls.send(large("http://b.test/")).is_none());
        for url in ["http://c.test/", "http://a.test/"] {
            assert_eq!(calls.send(large(url)).unwrap().answer, Err(Failure::TooMuch));
        }
        assert!(calls.into_pending().is_empty());
    }

    #[test]
    fn a_search_is_made_once_and_its_finding_is_given() {
        let mut calls = Calls::default();
        let yes = || -> Search { Box::new(|| Ok(true)) };
        assert_eq!(calls.search_result([1; 32], yes), None);
        assert_eq!(calls.search_result([1; 32], || panic!("it is asked for already")), None);
        assert_eq!(calls.asked.searches.len(), 1);
        assert!(calls.search());
        assert_eq!(calls.search_result([1; 32], || panic!("it is known")), Some(true));
        assert!(calls.into_pending().is_empty());
    }
}
