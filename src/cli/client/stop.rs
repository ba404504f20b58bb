//! What asks a process to stop: signals, and a reader of stdout that has gone.

use std::io;
use std::os::fd::AsFd as _;

use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT and SIGHUP, from its creation on, and the end of what reads stdout.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// Stdout, if it is a pipe whose reader is waited for.
    stdout: Option<Sender>,
    is_asked: bool,
}

impl Stop {
    /// Begins to listen; within a runtime.
    pub fn new() -> io::Result<Self> {
        Ok(Stop {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            stdout: None,
            is_asked: false,
        })
    }

    /// Counts it as asked, too, once nobody reads stdout any more, as after `| head`: what only prints
    /// has nothing to do then, and would notice with its next line at the earliest.
    #[must_use]
    pub fn or_without_reader(mut self) -> Self {
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        // A file has no reader: it cannot be waited for.
        self.stdout = stdout.and_then(Sender::from_owned_fd_unchecked).ok();
        self
    }

    /// Whether a signal has come.
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Returns once a signal has come, at once if one has.
    pub async fn asked(&mut self) {
        if !self.is_asked {
            self.next().await;
        }
    }

    /// Returns when a second signal comes; notes the first.
    pub async fn asked_again(&mut self) {
        self.asked().await;
        self.next().await;
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
            () = reader_gone(self.stdout.as_ref()) => {}
        }
        self.is_asked = true;
    }
}

/// Returns once a pipe has no reader; never without a pipe.
async fn reader_gone(stdout: Option<&Sender>) {
    match stdout {
        Some(stdout) if stdout.ready(Interest::ERROR).await.is_ok() => {}
        _ => std::future::pending().await,
    }
}
