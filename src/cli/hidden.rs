//! Questions at a terminal, and a terminal that does not show what is typed, whatever ends or stops
//! the process meanwhile.
//!
//! Ctrl-C and its like end the line that is read, and the process ends itself afterwards: a handler
//! would be there for good. SIGTERM, SIGHUP and SIGTSTP have one from the first hidden question on, on
//! a thread of its own, which does what they do elsewhere once the terminal shows again what is typed.

use std::io::{self, Read as _, Write as _};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex as Code, Termios};
use tokio::runtime;
use tokio::signal::unix::{self, SignalKind};

use crate::base::visible;

/// How long a process that stops itself takes at most to be stopped. One that nobody could continue is
/// not stopped at all.
const STOPS: Duration = Duration::from_millis(100);

/// The code of a key that does not exist.
const NO_KEY: u8 = 0;

static STATE: Mutex<State> = Mutex::new(State { is_watched: false, asked: None });

struct State {
    is_watched: bool,
    asked: Option<Asked>,
}

/// A question whose answer is not shown.
struct Asked {
    prompt: String,
    before: Termios,
    hidden: Termios,
}

impl Asked {
    fn hide(&self) -> io::Result<()> {
        // What was typed before the prompt stays: the other line may be there already.
        termios::tcsetattr(io::stdin(), OptionalActions::Drain, &self.hidden)?;
        ask(&self.prompt)
    }

    fn show(&self) -> io::Result<()> {
        // Without waiting for a terminal that shows nothing any more.
        Ok(termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before)?)
    }
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a question.
///
/// # Errors
/// If stderr cannot be written to.
pub fn ask(prompt: &str) -> io::Result<()> {
    let mut stderr = io::stderr();
    stderr.write_all(visible::line(prompt).as_bytes())?;
    stderr.flush()
}

/// Asks a terminal that shows nothing of what is typed but the end of the line; `None` if it was
/// interrupted.
///
/// # Errors
/// If stdin is no terminal, or ends.
pub fn unseen(prompt: &str) -> io::Result<Option<String>> {
    let hidden = Hidden::new(prompt)?;
    let line = hidden.line();
    drop(hidden);
    if matches!(line, Ok(None)) {
        let _ = io::stderr().write_all(b"\n");
    }
    line
}

/// A terminal that shows nothing of what is typed but the ends of lines, until this is dropped.
struct Hidden {
    interrupts: [u8; 2],
    stop: u8,
}

impl Hidden {
    fn new(prompt: &str) -> io::Result<Self> {
        let mut state = state();
        let before = termios::tcgetattr(io::stdin())?;
        if !state.is_watched {
            watch()?;
            state.is_watched = true;
        }
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        for (end, key) in [(Code::VEOL, Code::VINTR), (Code::VEOL2, Code::VQUIT)] {
            hidden.special_codes[end] = before.special_codes[key];
            hidden.special_codes[key] = NO_KEY;
        }
        let interrupts = [Code::VINTR, Code::VQUIT].map(|key| before.special_codes[key]);
        let stop = before.special_codes[Code::VSUSP];
        let asked = state.asked.insert(Asked { prompt: prompt.to_string(), before, hidden });
        let begun = Hidden { interrupts, stop };
        let done = asked.hide();
        drop(state); // Which `begun` takes when it is dropped.
        done.map(|()| begun)
    }

    /// Returns the line that is typed, without its end; `None` if it was interrupted.
    fn line(&self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        for byte in io::stdin().lock().bytes() {
            match byte? {
                b'\n' => break,
                byte if byte != NO_KEY && self.interrupts.contains(&byte) => return Ok(None),
                // Where it stops nothing. Nothing of a line, as elsewhere.
                byte if byte != NO_KEY && byte == self.stop => {}
                byte => line.push(byte),
            }
        }
        let line =
            String::from_utf8(line).map_err(|_| io::Error::other("what was typed is not UTF-8"))?;
        Ok(Some(line.trim_end_matches('\r').to_string()))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(asked) = state().asked.take() {
            let _ = asked.show();
        }
    }
}

// ── Signals ──────────────────────────────────────────────────────────────────

struct Signals {
    terminate: unix::Signal,
    hang_up: unix::Signal,
    stop: unix::Signal,
    resume: unix::Signal,
}

/// Begins to wait for signals, for as long as the process lives.
fn watch() -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _inside = runtime.enter();
        let of = |signal: Signal| unix::signal(SignalKind::from_raw(signal.as_raw()));
        Signals {
            terminate: of(Signal::TERM)?,
            hang_up: of(Signal::HUP)?,
            stop: of(Signal::TSTP)?,
            resume: of(Signal::CONT)?,
        }
    };
    let handle = move || runtime.block_on(signals.handle());
    thread::Builder::new().name("terminal".into()).spawn(handle)?;
    Ok(())
}

impl Signals {
    async fn handle(mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => end(Signal::TERM),
                _ = self.hang_up.recv() => end(Signal::HUP),
                _ = self.stop.recv() => {
                    stop();
                    self.resumed().await;
                    ask_again();
                }
                // Of somebody who stopped it otherwise.
                _ = self.resume.recv() => ask_again(),
            }
        }
    }

    /// Returns once the process goes on, or was not stopped.
    async fn resumed(&mut self) {
        // The time to be stopped is over when it goes on; that to hear of it is not.
        for _ in 0..2 {
            if tokio::time::timeout(STOPS, self.resume.recv()).await.is_ok() {
                return;
            }
        }
    }
}

/// Ends the process with the code that a shell gives to one that a signal has ended.
fn end(signal: Signal) -> ! {
    let state = state(); // Until the end: nothing is hidden any more.
    if let Some(asked) = &state.asked {
        let _ = asked.show();
        let _ = io::stderr().write_all(b"\n");
    }
    process::exit(128 + signal.as_raw())
}

/// Stops the process as SIGTSTP does, which has a handler now: not where no shell could continue it.
fn stop() {
    if let Some(asked) = &state().asked {
        let _ = asked.show();
    }
    let _ = kill_process(getpid(), Signal::TTIN);
}

fn ask_again() {
    if let Some(asked) = &state().asked {
        let _ = asked.hide();
    }
}
