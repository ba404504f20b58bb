//! How a command that serves ends.

use std::convert::Infallible;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(feature = "postgres")]
use tokio::task::JoinHandle;

use super::failure::Failure;
use crate::app::Server;

/// Signals within half a second of each other are one: `timeout` signals a process, and then its
/// group.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// How often it is looked whether stopping is given up.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The signals that stop a server. They are registered before the server announces itself: until
/// then a signal kills the process, or ends it ([`Shutdown::at_once`]).
pub(super) struct Shutdown {
    terminate: Signal,
    interrupt: Signal,
    /// None where it asks for something else than to stop.
    hangup: Option<Signal>,
    limit: Option<StopLimit>,
}

/// How long stopping may take where it waits for another process.
#[derive(Clone)]
#[cfg_attr(not(feature = "postgres"), allow(dead_code))] // Nothing else waits for one.
pub(super) struct StopLimit {
    /// While that does not answer.
    pub hanging: Duration,
    /// While it does.
    pub most: Duration,
    /// Whether it has answered a moment ago.
    pub is_answering: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl StopLimit {
    /// Returns why stopping is given up after this time, if it is.
    fn end(&self, elapsed: Duration) -> Option<&'static str> {
        if elapsed < self.hanging {
            None
        } else if !(self.is_answering)() {
            Some(
                "stopped without waiting any longer for what hangs: the database does not answer, or does \
                 not finish commits",
            )
        } else if elapsed >= self.most {
            Some("stopped before all had ended, which was too slow: the database does answer")
        } else {
            None
        }
    }
}

impl Shutdown {
    pub(super) fn listen() -> Result<Self, Failure> {
        let of = |kind| signal(kind).map_err(Failure::io("signals"));
        Ok(Shutdown {
            terminate: of(SignalKind::terminate())?,
            interrupt: of(SignalKind::interrupt())?,
            hangup: Some(of(SignalKind::hangup())?),
            limit: None,
        })
    }

    /// Has the process end so long after the first signal at the latest, with exit code 1: whatever waits for
    /// another process that hangs. Nothing that was acknowledged is lost by that, as when it is killed.
    #[cfg(feature = "postgres")]
    pub(super) fn within(self, limit: StopLimit) -> Self {
        Shutdown { limit: Some(limit), ..self }
    }

    /// Has SIGTERM, Ctrl-C and, if asked, SIGHUP end the process at once, with this exit code and line in the
    /// log, until the task is aborted: where what is waited for may hang.
    #[cfg(feature = "postgres")]
    pub(super) fn at_once(
        code: i32,
        said: &'static str,
        by_hangup: bool,
    ) -> Result<JoinHandle<()>, Failure> {
        let mut signals = Shutdown::listen()?;
        signals.hangup.take_if(|_| !by_hangup);
        Ok(tokio::spawn(async move {
            signals.recv().await;
            tracing::info!("{said}");
            process::exit(code);
        }))
    }

    /// The SIGHUPs, which do not stop the server any more.
    pub(super) fn hangups(&mut self) -> Result<Signal, Failure> {
        match self.hangup.take() {
            Some(hangup) => Ok(hangup),
            None => signal(SignalKind::hangup()).map_err(Failure::io("signals")),
        }
    }

    /// Serves, and polls `meanwhile`, until SIGTERM, Ctrl-C or, unless it is taken, SIGHUP. A second
    /// signal stops without waiting for requests in flight.
    pub(super) async fn serve(
        mut self,
        server: Server,
        data: &Path,
        meanwhile: impl Future<Output = Infallible>,
    ) -> Result<(), Failure> {
        tokio::select! {
            () = self.recv() => {}
            never = meanwhile => match never {},
        }
        let data = data.display();
        tracing::info!(%data, "stopping: answering requests in flight");
        if let Some(limit) = &self.limit {
            end_after(limit.clone())?;
        }
        let stop = async {
            server.stop().await;
            tracing::info!(%data, "stopped");
            Ok(())
        };
        let again = async {
            tokio::time::sleep(SAME_SIGNAL).await;
            self.recv().await;
            if self.limit.is_some() {
                // Closing the store would wait for what hangs.
                tracing::warn!("stopped before requests in flight were answered");
                process::exit(1);
            }
            Err(Failure::Failed("stopped before requests in flight were answered".into()))
        };
        tokio::select! {
            stopped = stop => stopped,
            aborted = again => aborted,
        }
    }

    async fn recv(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Ends the process when its time is over, from a thread: those of the runtime may be what hangs.
pub(super) fn end_after(limit: StopLimit) -> Result<(), Failure> {
    let begun = Instant::now();
    let end = move || {
        let why = loop {
            if let Some(why) = limit.end(begun.elapsed()) {
                break why;
            }
            thread::sleep(LOOK_INTERVAL);
        };
        tracing::warn!("{why}; the outcome of writes in flight is unknown");
        process::exit(1);
    };
    let started = thread::Builder::new().name("stop".into()).spawn(end);
    started.map(drop).map_err(Failure::io("a thread cannot be started"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_stop_that_goes_on_has_longer_than_one_that_hangs() {
        let answers = Arc::new(AtomicBool::new(true));
        let seen = answers.clone();
        let limit = StopLimit {
            hanging: Duration::from_secs(12),
            most: Duration::from_secs(14),
            is_answering: Arc::new(move || seen.load(Ordering::SeqCst)),
        };
        let end = |seconds| limit.end(Duration::from_secs(seconds));
        assert!(end(13).is_none() && end(14).is_some_and(|why| why.contains("too slow")));
        answers.store(false, Ordering::SeqCst);
        assert!(end(11).is_none() && end(12).is_some_and(|why| why.contains("what hangs")));
        assert!(end(13).is_some(), "one that begins to hang has no longer");
    }
}
