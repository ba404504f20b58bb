//! The logs of servers under test: an error or a panic that the test did not ask for is a failure.
//!
//! A test asks for the error of a request by asserting its refusal with a status of 500 or more
//! (`Reply::refused`), and for another one by a part of its line. A server in a process of its own is
//! judged by its log ([`assert_clean`]), one in this process by what is captured ([`Watch`]).

use std::collections::BTreeSet;
use std::io;
use std::panic;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use roadstead::app::panics;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::calls;

/// How long an error waits for the test to ask for it: it is logged before the request is answered.
const TIME_TO_ASK: Duration = Duration::from_secs(5);

/// Parts of the lines of a server whose database server is away for a while.
pub const DATABASE_AWAY: &[&str] = &[
    "store_unavailable",
    "outcome_unknown",
    "its outcome is unknown",
    "a commit is stored, but perhaps not on a standby",
    "the database server does not finish commits",
    "due jobs cannot be",
    "a failed job cannot be postponed",
    "entries could not be appended to the audit log",
    "a sweep failed",
];

/// What is known in this process.
struct State {
    /// The ids of requests whose failure a test asserted.
    asked: BTreeSet<String>,
    /// Parts of lines that tests expect of servers in this process.
    expected: Vec<&'static str>,
    /// What servers in this process have logged, and nobody expected yet.
    captured: Vec<String>,
}

static STATE: Mutex<State> =
    Mutex::new(State { asked: BTreeSet::new(), expected: Vec::new(), captured: Vec::new() });
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Whether a line is an error that no test asked for.
    fn is_unexpected(&self, line: &str, expected: &[&str]) -> bool {
        is_fault(line)
            && !expected.iter().any(|part| line.contains(part))
            && !(line.contains("a request failed") && self.asked.iter().any(|id| line.contains(id)))
    }

    fn forget_expected(&mut self) {
        let lines = std::mem::take(&mut self.captured);
        let is_unexpected = |line: &String| self.is_unexpected(line, &self.expected);
        self.captured = lines.into_iter().filter(is_unexpected).collect();
    }
}

/// Whether a line of a log, in either format, is an error or of a panic.
fn is_fault(line: &str) -> bool {
    line.split_whitespace().nth(1) == Some("ERROR")
        || line.contains("\"level\":\"ERROR\"")
        || line.contains(" panicked at ")
        || line.contains("has overflowed its stack")
}

/// Notes that a test asserted that the request with this id failed.
pub fn asked_for(request_id: &str) {
    state().asked.insert(request_id.into());
    CHANGED.notify_all();
}

/// Returns the lines of a log that are errors or of panics which nobody asked for: they have none of
/// the `expected` parts.
pub fn unexpected(log: &str, expected: &[&str]) -> Vec<String> {
    let state = state();
    let lines = log.lines().filter(|line| state.is_unexpected(line, expected));
    lines.map(String::from).collect()
}

/// Fails if a log has an error or a panic that nobody asked for, unless this thread fails already.
#[track_caller]
pub fn assert_clean(log: &str, expected: &[&str]) {
    let found = unexpected(log, expected);
    if !found.is_empty() && !thread::panicking() {
        panic!("the server's log has what no test asked for:\n{}", found.join("\n"));
    }
}

// ── Servers in this process ──────────────────────────────────────────────────

/// Captures errors of servers in this process from now on, and panics of the threads that are theirs.
pub fn capture(is_of_server: fn(&Thread) -> bool) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Captured);
        let lines = lines.with_filter(LevelFilter::ERROR);
        tracing_subscriber::registry().with(lines).with(calls::layer()).init();
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if is_of_server(&thread::current()) {
                panics::record(panic);
            }
            previous(panic);
        }));
    });
}

/// Adds the log of a server in another process to what is captured.
pub fn add(log: &str) {
    state().captured.extend(log.lines().filter(|line| is_fault(line)).map(String::from));
}

/// Takes what was captured and nobody asked for, having waited for who still may.
pub fn take_unexpected() -> Vec<String> {
    let until = Instant::now() + TIME_TO_ASK;
    let mut state = state();
    loop {
        state.forget_expected();
        let left = until.saturating_duration_since(Instant::now());
        if state.captured.is_empty() || left.is_zero() {
            return std::mem::take(&mut state.captured);
        }
        let waited = CHANGED.wait_timeout(state, left);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Where events go; each comes as a whole.
struct Captured;

impl io::Write for Captured {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut state = state();
        state.captured.push(String::from_utf8_lossy(event).trim_end().into());
        state.forget_expected();
        Ok(event.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A test that has a server in this process, its own or one that it shares. When it is dropped, the
/// test fails if there was an error that no test asked for: on a shared server by whichever test.
pub struct Watch(());

impl Watch {
    pub fn new() -> Self {
        capture(|thread| thread.name().is_some_and(|name| !is_of_tests(name)));
        Watch(())
    }
}

/// Whether a thread runs tests: those have the names of tests, or there is only the first one.
fn is_of_tests(name: &str) -> bool {
    name == "main" || name.contains("::")
}

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let found = take_unexpected();
        if !found.is_empty() {
            panic!("a server has logged what no test asked for:\n{}", found.join("\n"));
        }
    }
}

/// Errors that a test expects of servers in this process, until this is dropped.
pub struct ExpectedErrors(Vec<&'static str>);

/// Expects errors whose lines have one of these parts.
pub fn expect_errors(parts: &[&'static str]) -> ExpectedErrors {
    state().expected.extend(parts);
    ExpectedErrors(parts.into())
}

impl Drop for ExpectedErrors {
    fn drop(&mut self) {
        let mut state = state();
        state.forget_expected();
        for part in &self.0 {
            if let Some(at) = state.expected.iter().position(|one| one == part) {
                state.expected.swap_remove(at);
            }
        }
    }
}

/// A panic on a thread of a server in this process, which is asked for. [`Watch`] has begun.
pub fn plant_panic() {
    let _expected = expect_errors(&["panicked: planted"]);
    let panicking = thread::Builder::new().name("planted".into()).spawn(|| panic!("planted"));
    assert!(panicking.expect("the system gives a thread").join().is_err());
}
