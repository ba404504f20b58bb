//! Outgoing calls and slow searches, as an operation requests them. Made inside a transaction, they
//! would block every other writer.
//!
//! The operation requests what it needs. A result that is not known yet is noted as pending; the
//! operation continues with any value, and its writes are discarded. The pending calls and searches
//! are then made, and the operation runs again with their results. So it remains a function of the
//! state and of the results, and its last run, which is committed, sees the current state.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::output::ResourceRef;
use crate::base::{Error, Result};
use crate::outside::mail::{Mail, MailFailure};
use crate::outside::{Call, CallResult, Children, Failure};
use crate::store::Lane;

/// Limit of the bodies of all calls of one operation together: they are held at once and built
/// again in each run. A hundred judges with a long text each stay below it; five hundred texts with
/// each of them would be gigabytes.
const MAX_SENT_BYTES: usize = 64 * 1024 * 1024;

/// Identifies a call or a search: a hash of everything that its result depends on.
pub type Tag = [u8; 32];

/// A slow search: whether there is a match. Its result depends on its tag alone.
pub type Search = Box<dyn FnOnce() -> Result<bool> + Send>;

/// Costly work without side effects, which may use child processes. Its result depends on its tag
/// alone.
pub type Work = Box<dyn FnOnce(&Children) -> Result<WorkResult> + Send>;

/// A computation that takes too long for a transaction, and no more than a second. Its result depends
/// on its tag alone.
pub type Computation = Box<dyn FnOnce() -> Computed + Send>;

/// The result of a computation.
#[derive(Clone)]
pub struct Computed {
    /// What was computed, of a type that its operation knows.
    pub result: WorkResult,
    /// How many bytes it takes.
    pub bytes: usize,
}

/// The result of costly work, of a type that its operation knows.
pub type WorkResult = Arc<dyn Any + Send + Sync>;

/// What operations made of the results of calls, by call and type.
type ParsedResults = HashMap<(Tag, TypeId), Arc<dyn Any + Send + Sync>>;

/// The results so far, for all runs of one operation.
#[derive(Clone, Default)]
pub struct KnownResults {
    /// The results of the calls.
    pub heard: HashMap<Tag, CallResult>,
    /// The results of the searches.
    pub found: HashMap<Tag, bool>,
    /// Whether the mails were accepted.
    pub mailed: HashMap<Tag, Result<(), MailFailure>>,
    /// The results of costly work.
    pub worked: HashMap<Tag, Result<WorkResult>>,
    /// The results of computations.
    pub computed: HashMap<Tag, Computed>,
    /// Whether the time for calls was up before all were answered.
    pub is_late: bool,
    /// Shared by all runs.
    parsed: Arc<Mutex<ParsedResults>>,
}

impl KnownResults {
    /// The bytes of all answers, and of what was computed.
    pub fn bytes(&self) -> usize {
        let answers = self.heard.values().filter_map(|result| result.answer.as_ref().ok());
        let computed = self.computed.values().map(|computed| computed.bytes);
        answers.map(|answer| answer.body.len()).chain(computed).sum()
    }
}

/// The calls and searches that a run requested and whose results are missing; the run is discarded.
#[derive(Default)]
pub struct PendingCalls {
    /// The calls to make.
    pub calls: Vec<(Tag, Call)>,
    /// The searches to make.
    pub searches: Vec<(Tag, Search)>,
    /// The mails to send.
    pub mails: Vec<(Tag, Mail)>,
    /// The work to do.
    pub works: Vec<(Tag, Work)>,
    /// The computations to make.
    pub computations: Vec<(Tag, Computation)>,
    /// Whether look-ups are for the organization that the domain has confirmed.
    pub for_holder: bool,
    /// The time for all calls, if that is less than the operation may take.
    pub within: Option<Duration>,
    /// Whose turn the calls take.
    pub turn: Option<Lane>,
}

impl PendingCalls {
    /// Whether the run knew all results.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
            && self.searches.is_empty()
            && self.mails.is_empty()
            && self.works.is_empty()
            && self.computations.is_empty()
    }
}

/// The calls and searches of one run of an operation. Free to create: most operations make none.
#[derive(Default)]
pub struct Calls {
    position: Option<String>,
    known: Option<Arc<KnownResults>>,
    asked: PendingCalls,
    sent_bytes: usize,
    is_closed: bool,
    /// Whether one was not asked for since it was closed.
    is_cut: bool,
}

impl Calls {
    /// Creates the calls of a run that knows these results.
    pub fn new(known: Arc<KnownResults>) -> Self {
        Calls { known: Some(known), ..Calls::default() }
    }

    /// The calls of a run that continues at this position.
    pub fn at(self, position: Option<String>) -> Self {
        Calls { position, ..self }
    }

    /// The position of [`Outcome::Partial`] where the operation continues; `None` at its beginning.
    pub fn position(&self) -> Option<&str> {
        self.position.as_deref()
    }

    /// Counts the look-ups of this run as those of the organization that the domain has confirmed
    /// ([`Outside::for_holder`](crate::outside::Outside::for_holder)).
    pub fn take_for_holder(&mut self) {
        self.asked.for_holder = true;
    }

    /// Bounds the time for all calls, from the first one on, to less than the operation may take. Without
    /// effect once one was made.
    pub fn within(&mut self, time: Duration) {
        self.asked.within = Some(time);
    }

    /// Makes the calls of this run in a turn that one request has at a time. When its turn comes the
    /// operation runs again before any call is made: another may have learned what this one asks for.
    pub fn take_turn(&mut self, turn: Lane) {
        self.asked.turn = Some(turn);
    }

    /// The result of this call, if it was made; it is not asked for.
    pub fn heard(&self, call: &Call) -> Option<CallResult> {
        self.known.as_ref().and_then(|known| known.heard.get(&tag(call)).cloned())
    }

    /// Asks for no further call until [`Calls::reopen`]: only those have a result that were made before.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Ends that.
    pub fn reopen(&mut self) {
        self.is_closed = false;
    }

    /// Whether a result is missing that was not asked for, since no further call was.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The bytes of all calls that were asked for in this run, and of all answers that are known.
    pub fn bytes(&self) -> usize {
        self.sent_bytes + self.known.as_ref().map_or(0, |known| known.bytes())
    }

    /// Whether the bodies of all calls together exceed the limit, so that some of them have failed that may
    /// have succeeded in an earlier run.
    pub fn is_too_much(&self) -> bool {
        self.sent_bytes > MAX_SENT_BYTES
    }

    /// Whether results are missing, so that the run is discarded.
    pub fn has_pending(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether the time for all calls was up before they were answered: those that were not have failed.
    pub fn is_late(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.is_late)
    }

    /// Returns the result of this call. `None` if it has not been made yet: continue with any
    /// value, since this run is discarded. If the bodies of all calls together exceed the limit, it
    /// fails and none of them is made.
    pub fn send(&mut self, call: Call) -> Option<CallResult> {
        let tag = tag(&call);
        self.send_as(tag, call)
    }

    /// The same for a call that differs in every run, as a signature with the time does: it is made
    /// once for a tag.
    pub fn send_as(&mut self, tag: Tag, call: Call) -> Option<CallResult> {
        match self.register(tag, call) {
            Ok(tag) => self.known.as_ref().and_then(|known| known.heard.get(&tag).cloned()),
            Err(refused) => Some(refused),
        }
    }

    /// Returns what `parse` makes of the result of this call; `None` as with [`Calls::send`]. The
    /// result is parsed once, however often the operation asks for it and runs.
    pub fn send_parsed<T: Send + Sync + 'static>(
        &mut self,
        call: Call,
        parse: impl FnOnce(&CallResult) -> T,
    ) -> Option<Arc<T>> {
        let tag = match self.register(tag(&call), call) {
            Ok(tag) => tag,
            Err(refused) => return Some(Arc::new(parse(&refused))),
        };
        let known = self.known.as_ref()?;
        let result = known.heard.get(&tag)?;
        let mut parsed = known.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = parsed.entry((tag, TypeId::of::<T>()));
        let parsed = entry.or_insert_with(|| Arc::new(parse(result))).clone();
        parsed.downcast().ok()
    }

    /// Notes a call as pending if its result is not known; returns its tag.
    ///
    /// # Errors
    /// The result of every call, once their bodies exceed the limit.
    fn register(&mut self, tag: Tag, call: Call) -> Result<Tag, CallResult> {
        let is_known = self.known.as_ref().is_some_and(|known| known.heard.contains_key(&tag));
        if self.is_closed {
            self.is_cut |= !is_known;
            return Ok(tag);
        }
        self.sent_bytes += call.body.len();
        if self.is_too_much() {
            self.asked = PendingCalls::default();
            return Err(CallResult { answer: Err(Failure::TooMuch), took: Duration::ZERO });
        }
        if !is_known && self.asked.calls.iter().all(|(asked, _)| *asked != tag) {
            self.asked.calls.push((tag, call));
        }
        Ok(tag)
    }

    /// Returns the result of this search; `None` if it has not been made yet, as with
    /// [`Calls::send`].
    pub fn search_result(&mut self, tag: Tag, search: impl FnOnce() -> Search) -> Option<bool> {
        let found = self.known.as_ref().and_then(|known| known.found.get(&tag).copied());
        if found.is_none() && self.asked.searches.iter().all(|(asked, _)| *asked != tag) {
            self.asked.searches.push((tag, search()));
        }
        found
    }

    /// Returns the result of this work; `None` if it has not been done yet, as with
    /// [`Calls::send`].
    pub fn work_result<T: Send + Sync + 'static>(
        &mut self,
        tag: Tag,
        work: impl FnOnce(&Children) -> Result<T> + Send + 'static,
    ) -> Option<Result<Arc<T>>> {
        let known = self.known.as_ref().and_then(|known| known.worked.get(&tag).cloned());
        if known.is_none() && self.asked.works.iter().all(|(asked, _)| *asked != tag) {
            let work: Work = Box::new(|children| Ok(Arc::new(work(children)?)));
            self.asked.works.push((tag, work));
        }
        let of_type = |result: WorkResult| {
            result.downcast().map_err(|_| Error::internal("two kinds of work have one tag"))
        };
        known.map(|result| result.and_then(of_type))
    }

    /// Returns the result of this computation; `None` if it has not been made yet, as with
    /// [`Calls::send`]. One tag is of one type. `bytes` says how many bytes a result takes.
    pub fn computed<T: Send + Sync + 'static>(
        &mut self,
        tag: Tag,
        compute: impl FnOnce() -> T + Send + 'static,
        bytes: fn(&T) -> usize,
    ) -> Option<Arc<T>> {
        let known = self.known.as_ref().and_then(|known| known.computed.get(&tag).cloned());
        if known.is_none() && self.asked.computations.iter().all(|(asked, _)| *asked != tag) {
            let compute = move || {
                let result = compute();
                Computed { bytes: bytes(&result), result: Arc::new(result) }
            };
            self.asked.computations.push((tag, Box::new(compute)));
        }
        known.and_then(|known| known.result.downcast().ok())
    }

    /// Returns whether the mail of this tag was accepted; `None` as with [`Calls::send`].
    pub fn mail_as(&mut self, tag: Tag, mail: Mail) -> Option<Result<(), MailFailure>> {
        let mailed = self.known.as_ref().and_then(|known| known.mailed.get(&tag).cloned());
        if mailed.is_none() && self.asked.mails.iter().all(|(asked, _)| *asked != tag) {
            self.asked.mails.push((tag, mail));
        }
        mailed
    }

    #[cfg(test)]
    fn results_mut(&mut self) -> &mut KnownResults {
        Arc::make_mut(self.known.get_or_insert_default())
    }

    /// Provides the result of a call.
    #[cfg(test)]
    pub fn hear(&mut self, call: &Call, heard: CallResult) {
        self.hear_as(tag(call), heard);
    }

    /// Provides the result of the call of this tag.
    #[cfg(test)]
    pub fn hear_as(&mut self, tag: Tag, heard: CallResult) {
        self.results_mut().heard.insert(tag, heard);
    }

    /// Makes the requested searches; returns whether there were any.
    #[cfg(test)]
    pub fn search(&mut self) -> bool {
        let searches = std::mem::take(&mut self.asked.searches);
        let were_any = !searches.is_empty();
        let found = searches.into_iter().map(|(tag, search)| (tag, search().unwrap()));
        self.results_mut().found.extend(found);
        were_any
    }

    /// Does the requested work; returns whether there was any.
    #[cfg(test)]
    pub fn work(&mut self) -> bool {
        let works = std::mem::take(&mut self.asked.works);
        let were_any = !works.is_empty();
        let done = works.into_iter().map(|(tag, work)| (tag, work(&Children::default())));
        self.results_mut().worked.extend(done);
        were_any
    }

    /// The calls requested so far.
    #[cfg(test)]
    pub fn asked(&self) -> Vec<&Call> {
        self.asked.calls.iter().map(|(_, call)| call).collect()
    }

    /// Returns the calls and searches whose results are missing.
    pub fn into_pending(self) -> PendingCalls {
        self.asked
    }
}

fn tag(call: &Call) -> Tag {
    let mut hash = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_be_bytes()).update(bytes);
    };
    part(call.method.as_str().as_bytes());
    part(call.url.as_bytes());
    for (name, value) in &call.headers {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    part(&call.body);
    *hash.finalize().as_bytes()
}

/// The result of a write whose refusal may be recorded.
#[derive(Debug)]
pub enum Outcome<T> {
    Done(T),
    /// It was refused, and the transaction is still committed: it recorded the refusal.
    Refused(Error),
    /// A part of it is done, which is committed. It continues in another transaction.
    Partial(Position),
}

/// How far an operation is that is too large for one transaction. Its parts must make sense without
/// the rest: the process may end between them, and a repeated request begins at the start.
#[derive(Debug)]
pub struct Position {
    /// What [`Calls::position`] is in the next transaction.
    pub next: String,
    /// What the audit entry is about; it is written with the first part that writes something.
    pub resource: Option<ResourceRef>,
}

impl<T> Outcome<T> {
    /// Maps the value.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn try_map<U>(self, f: impl FnOnce(T) -> Result<U>) -> Result<Outcome<U>> {
        Ok(match self {
            Outcome::Done(value) => Outcome::Done(f(value)?),
            Outcome::Refused(error) => Outcome::Refused(error),
            Outcome::Partial(position) => Outcome::Partial(position),
        })
    }

    /// Returns the value, for a caller that discards what a refusal wrote.
    ///
    /// # Errors
    /// The refusal; 500 for a part, which such a caller cannot continue.
    pub fn done(self) -> Result<T> {
        match self {
            Outcome::Done(value) => Ok(value),
            Outcome::Refused(error) => Err(error),
            Outcome::Partial(_) => Err(Error::internal("an operation is done only in part")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::{BodyLimit, Limits, Method, Response};

    fn call(url: &str) -> Call {
        let limits =
            Limits { total: Duration::from_secs(1), answer: BodyLimit::UpTo(1), https_only: false };
        Call { method: Method::GET, url: url.into(), headers: vec![], body: vec![], limits }
    }

    #[test]
    fn known_results_are_returned_and_missing_ones_requested_once() {
        let mut calls = Calls::default();
        assert!(calls.send(call("http://a.test/")).is_none());
        assert!(calls.send(call("http://b.test/")).is_none());
        assert!(calls.send(call("http://a.test/")).is_none());
        let asked = calls.into_pending();
        assert_eq!(asked.calls.len(), 2);
        let answer = Response { status: 200, headers: vec![], body: vec![] };
        let mut calls = Calls::default();
        calls.hear(&asked.calls[0].1, CallResult { answer: Ok(answer), took: Duration::ZERO });
        assert!(calls.send(call("http://a.test/")).is_some());
        assert!(calls.into_pending().is_empty());
    }

    #[test]
    fn a_result_is_parsed_once_for_all_runs() {
        let mut known = KnownResults::default();
        let answer = Response { status: 200, headers: vec![], body: b"7".to_vec() };
        let result = CallResult { answer: Ok(answer), took: Duration::ZERO };
        known.heard.insert(tag(&call("http://a.test/")), result);
        let (known, mut times) = (Arc::new(known), 0);
        for _run in 0..2 {
            let mut calls = Calls::new(known.clone());
            for _ in 0..2 {
                let parsed = calls.send_parsed(call("http://a.test/"), |result| {
                    times += 1;
                    result.answer.as_ref().map_or(0, |answer| answer.body[0])
                });
                assert_eq!(parsed.as_deref(), Some(&b'7'));
            }
            // Another type of the same result.
            let text = |result: &CallResult| format!("{}", result.answer.is_ok());
            assert_eq!(*calls.send_parsed(call("http://a.test/"), text).unwrap(), "true");
            let never = |_: &CallResult| panic!("it is not known");
            assert!(calls.send_parsed::<()>(call("http://b.test/"), never).is_none());
        }
        assert_eq!(times, 1);
    }

    #[test]
    fn calls_over_the_size_limit_are_not_made() {
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
    fn calls_that_are_closed_have_only_the_results_that_are_known() {
        let answer = Response { status: 200, headers: vec![], body: vec![] };
        let mut calls = Calls::default();
        let known = CallResult { answer: Ok(answer), took: Duration::ZERO };
        calls.hear(&call("http://a.test/"), known);
        calls.close();
        assert!(calls.send(call("http://a.test/")).is_some());
        assert!(!calls.is_cut(), "nothing is missing");
        assert!(calls.send(call("http://b.test/")).is_none());
        assert!(calls.is_cut() && !calls.has_pending());
        calls.reopen();
        assert!(calls.send(call("http://b.test/")).is_none());
        assert!(calls.has_pending());
    }

    #[test]
    fn a_search_is_made_once_and_its_result_returned() {
        let mut calls = Calls::default();
        let yes = || -> Search { Box::new(|| Ok(true)) };
        assert_eq!(calls.search_result([1; 32], yes), None);
        assert_eq!(calls.search_result([1; 32], || panic!("it is pending already")), None);
        assert_eq!(calls.asked.searches.len(), 1);
        assert!(calls.search());
        assert_eq!(calls.search_result([1; 32], || panic!("it is known")), Some(true));
        assert!(calls.into_pending().is_empty());
    }

    #[test]
    fn work_is_done_once_and_its_result_or_error_returned() {
        let mut calls = Calls::default();
        assert!(calls.work_result([1; 32], |_| Ok(7_u8)).is_none());
        assert!(calls.work_result::<u8>([1; 32], |_| panic!("it is pending already")).is_none());
        assert!(calls.work_result::<u8>([2; 32], |_| Err(Error::internal("a"))).is_none());
        assert!(calls.work());
        let never = |_: &Children| panic!("it is done");
        assert_eq!(*calls.work_result::<u8>([1; 32], never).unwrap().unwrap(), 7);
        assert!(calls.work_result::<u8>([2; 32], never).unwrap().is_err());
        assert!(calls.work_result::<u16>([1; 32], |_| Ok(7)).unwrap().is_err());
        assert!(!calls.work() && calls.into_pending().is_empty());
    }
}
