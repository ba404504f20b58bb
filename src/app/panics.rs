//! Panics of this process: each is a fault of the program, so it is counted and logged as an error.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::thread;

use crate::base::metrics::{Counter, Family};

/// Of the process, as the panic hook is.
static PANICS: Counter = Counter::new();

/// Counts and logs every panic from now on, in place of the message that Rust prints to stderr: a log
/// in JSON has no other lines.
pub fn record_all() {
    panic::set_hook(Box::new(record));
}

/// Counts a panic, and logs it with its thread and place; with a backtrace where `RUST_BACKTRACE` asks
/// for one.
pub fn record(panic: &PanicHookInfo<'_>) {
    PANICS.add_one();
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace);
    tracing::error!(
        thread = thread::current().name().unwrap_or("unnamed"),
        location = panic.location().map(tracing::field::display),
        backtrace = backtrace.map(tracing::field::display),
        "panicked: {}",
        message(panic.payload()),
    );
}

fn message(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref().map(String::as_str)).unwrap_or("no message")
}

/// Returns how many panics have been recorded.
pub fn count() -> u64 {
    PANICS.value()
}

/// Returns the metric.
pub fn family() -> Family {
    let help = "Panics, each a fault of the program: the log says where";
    Family::counter("roadstead_panics", help, &PANICS)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what is logged.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_is_counted_and_logged_once_with_its_thread_and_place() {
        const THREAD: &str = "one that panics";
        // Panics of other tests are none of this one's.
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| match thread::current().name() {
            Some(THREAD) => record(panic),
            _ => previous(panic),
        }));
        let (kept, before) = (Kept::default(), count());
        let written = kept.clone();
        let panicking = thread::Builder::new().name(THREAD.into()).spawn(move || {
            let writer = move || written.clone();
            let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
            tracing::subscriber::with_default(lines, || panic!("on {}", "purpose"));
        });
        panicking.unwrap().join().unwrap_err();
        assert_eq!(count(), before + 1);
        let log = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        // Lines of a backtrace may follow.
        assert_eq!(log.matches("ERROR").count(), 1, "{log}");
        for part in ["ERROR", "panicked: on purpose", "thread=\"one that panics\"", file!()] {
            assert!(log.contains(part), "{part}: {log}");
        }
    }
}
