//! Signals that ask a process to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT and SIGHUP, from its creation on.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    is_asked: bool,
}

impl Stop {
    /// Begins to listen; within a runtime.
    pub fn new() -> io::Result<Self> {
        Ok(Stop {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            is_asked: false,
        })
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
        }
        self.is_asked = true;
    }
}
