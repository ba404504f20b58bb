//! Child processes: commands of this program that read what others wrote.
//!
//! Libraries for formats as large as PDF panic, exhaust memory or never return on some files, and
//! none of that can be stopped within a process. A child has its own memory and is killed at its
//! deadline; its command limits itself further ([`Children::run`] has no say in that).

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::base::{Error, Result};

/// Starts child processes.
#[derive(Clone, Debug, Default)]
pub struct Children {
    /// This program; without it no child can be started.
    program: Option<PathBuf>,
}

/// What a child may take.
#[derive(Clone, Copy, Debug)]
pub struct ChildLimits {
    /// From its start to its end, in real time.
    pub time: Duration,
    /// The bytes that it may write to its output.
    pub output_bytes: usize,
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// It exited with success and wrote this.
    Done(Vec<u8>),
    /// It failed, or was ended by a signal: of its own limits, too.
    Failed,
    /// It was killed at its deadline.
    TimedOut,
    /// It was killed because it wrote more than it may.
    TooMuch,
}

impl Children {
    /// Creates the starter of commands of this program.
    pub fn new(program: Option<PathBuf>) -> Self {
        Children { program }
    }

    /// Runs a command with these bytes as its input. Blocks until it ended.
    ///
    /// # Errors
    /// 500 if it cannot be started.
    pub fn run(&self, arguments: &[&str], input: &[u8], limits: ChildLimits) -> Result<ChildEnd> {
        let cannot = |e: &dyn std::fmt::Display| {
            Error::internal(format!("the command {arguments:?} cannot be started: {e}"))
        };
        let program = self.program.as_ref().ok_or_else(|| cannot(&"the program is not known"))?;
        let deadline = Instant::now() + limits.time;
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            // The allocator commits a gigabyte at once otherwise, which a limit of memory counts.
            .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Nobody reads it. An empty root directory has no null device.
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| cannot(&e))?;
        let end = exchange(&mut child, input, limits.output_bytes, deadline);
        // It has ended, or is to end now; without waiting it would stay as a zombie.
        let _ = child.kill();
        let _ = child.wait();
        end
    }
}

/// Writes the input and reads the output, both at once, until the child ends or its time is up.
fn exchange(
    child: &mut Child,
    input: &[u8],
    output_bytes: usize,
    deadline: Instant,
) -> Result<ChildEnd> {
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(mut stderr)) = pipes else {
        return Err(Error::internal("a child process has no pipes"));
    };
    let (sender, output) = sync_channel(1);
    // A child that ends early closes the pipe; why it ended is in its status.
    let write = move || drop(stdin.write_all(input));
    let ignore = move || drop(io::copy(&mut stderr, &mut io::sink()));
    let read = move || {
        let mut bytes = Vec::new();
        let read = stdout.take(output_bytes as u64 + 1).read_to_end(&mut bytes);
        drop(sender.send(read.map(|_| bytes)));
    };
    std::thread::scope(|scope| {
        // A machine may have no threads left, which is no reason to panic.
        let started = Builder::new().spawn_scoped(scope, write).map(drop);
        let started = started.and_then(|()| Builder::new().spawn_scoped(scope, ignore).map(drop));
        let started = started.and_then(|()| Builder::new().spawn_scoped(scope, read).map(drop));
        let end = match started {
            Ok(()) => wait(child, &output, output_bytes, deadline),
            Err(e) => Err(Error::internal(format!("a thread for a child cannot be started: {e}"))),
        };
        // The threads end with the child's pipes.
        let _ = child.kill();
        end
    })
}

/// Waits for the end of the output and then of the child.
fn wait(
    child: &mut Child,
    output: &Receiver<std::io::Result<Vec<u8>>>,
    output_bytes: usize,
    deadline: Instant,
) -> Result<ChildEnd> {
    /// A child ends within microseconds of closing its output.
    const PAUSE: Duration = Duration::from_millis(1);
    let bytes = match output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(bytes)) if bytes.len() > output_bytes => return Ok(ChildEnd::TooMuch),
        Ok(Ok(bytes)) => bytes,
        Err(RecvTimeoutError::Timeout) => return Ok(ChildEnd::TimedOut),
        Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Ok(ChildEnd::Failed),
    };
    loop {
        let status = child.try_wait();
        match status.map_err(|e| Error::internal(format!("a child process is lost: {e}")))? {
            Some(status) if status.success() => return Ok(ChildEnd::Done(bytes)),
            Some(_) => return Ok(ChildEnd::Failed),
            None if Instant::now() >= deadline => return Ok(ChildEnd::TimedOut),
            None => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ChildLimits =
        ChildLimits { time: Duration::from_secs(20), output_bytes: 1024 * 1024 };

    /// Runs a script of the shell.
    fn shell(script: &str, input: &[u8], limits: ChildLimits) -> ChildEnd {
        let children = Children::new(Some("/bin/sh".into()));
        children.run(&["-c", script], input, limits).unwrap()
    }

    #[test]
    fn the_output_is_returned_and_a_large_input_blocks_nobody() {
        let input = vec![b'x'; LIMITS.output_bytes];
        assert_eq!(shell("cat", &input, LIMITS), ChildEnd::Done(input.clone()));
        // One that does not read its input.
        assert_eq!(shell("echo a", &input, LIMITS), ChildEnd::Done(b"a\n".to_vec()));
        assert_eq!(shell("echo a; exit 1", b"", LIMITS), ChildEnd::Failed);
        assert_eq!(shell("kill -9 $$", b"", LIMITS), ChildEnd::Failed);
    }

    #[test]
    fn a_child_without_end_is_killed_at_its_deadline() {
        let short = ChildLimits { time: Duration::from_millis(100), ..LIMITS };
        for script in ["while :; do :; done", "exec sleep 60", "exec >&-; exec sleep 60"] {
            let begin = Instant::now();
            assert_eq!(shell(script, &[b'x'; 200_000], short), ChildEnd::TimedOut, "{script}");
            assert!(begin.elapsed() < Duration::from_secs(10));
        }
    }

    #[test]
    fn a_child_that_writes_without_end_is_killed_at_its_limit() {
        let little = ChildLimits { output_bytes: 10, ..LIMITS };
        assert_eq!(shell("exec yes", b"", little), ChildEnd::TooMuch);
        assert_eq!(shell("printf 0123456789", b"", little), ChildEnd::Done(b"0123456789".into()));
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_of_the_server() {
        for program in [None, Some("/nowhere/roadstead".into())] {
            let failed = Children::new(program).run(&[], b"", LIMITS).unwrap_err();
            assert_eq!(failed.kind(), crate::base::Kind::Internal);
        }
    }
}
