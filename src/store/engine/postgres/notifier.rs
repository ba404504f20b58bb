//! The connection by which nodes notify each other of their commits, with LISTEN and NOTIFY.
//!
//! At most one NOTIFY is under way, and never within a transaction that writes: a commit that
//! notifies holds up all others of the database until it is on the disk.

use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::connection::STATEMENT_TIME;
use super::failure::Failure;
use super::notifications::ReceivedNotification;
use super::opening::{OnNotification, RawConnection, require_in_force};
use super::settings::Control;
use super::shared::Shared;
use crate::base::{Error, Result};

/// How often the connection is checked when there is nothing to notify of.
const IDLE: Duration = Duration::from_secs(1);

/// Pause before another connection is tried.
const RETRY: Duration = Duration::from_millis(500);

/// Pause where the database refuses to listen: it may not be able to.
const REFUSED_RETRY: Duration = Duration::from_secs(60);

/// The thread that notifies other nodes of commits.
pub struct Notifier(Mutex<Option<JoinHandle<()>>>);

impl Notifier {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(shared: &Arc<Shared>) -> Result<Self> {
        let shared = Arc::downgrade(shared);
        let thread = thread::Builder::new()
            .name("notifier".into())
            .spawn(move || run(&shared))
            .map_err(|e| Error::internal(format!("a thread cannot be started: {e}")))?;
        Ok(Notifier(Mutex::new(Some(thread))))
    }

    /// Ends the thread, when the notifications are closed.
    pub fn stop(&self) {
        if let Some(thread) = self.0.lock().ok().and_then(|mut thread| thread.take()) {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Weak<Shared>) {
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let ended = listen_and_notify(&shared);
        shared.missed_notifications.set_listening(false);
        // What was under way may be lost.
        shared.notifications.add_everything();
        let pause = match ended {
            Ok(()) => return,
            Err(Failure::Refused(error)) => {
                tracing::warn!(%error, "the database cannot notify: changes are seen later");
                REFUSED_RETRY
            }
            Err(failure) => {
                tracing::debug!(?failure, "the connection for notifications ended");
                RETRY
            }
        };
        shared.notifications.wait_closed(pause);
        if shared.notifications.is_closed() {
            return;
        }
    }
}

/// Listens and notifies until the notifications are closed.
fn listen_and_notify(shared: &Arc<Shared>) -> Result<(), Failure> {
    let channel = shared.pool.connector.channel();
    let receiver = Arc::downgrade(shared);
    let on_notification: OnNotification = Arc::new(move |text: &str| {
        if let Some(shared) = receiver.upgrade() {
            shared.receive(text);
        }
    });
    let deadline = Instant::now() + STATEMENT_TIME;
    let raw = shared.pool.connector.connect_listening(deadline, Some(on_notification))?;
    raw.run(raw.client.batch_execute(&format!("LISTEN \"{channel}\"")), STATEMENT_TIME)?;
    let notify = raw.run(raw.client.prepare("SELECT pg_notify($1, $2)"), STATEMENT_TIME)?;
    shared.missed_notifications.set_listening(true);
    // Whatever was notified before is lost.
    shared.signals.notify_all();
    loop {
        if let Some(next) = shared.notifications.next(IDLE) {
            let text = next.text(shared.token);
            raw.run(raw.client.query(&notify, &[&channel, &text]), STATEMENT_TIME)?;
        } else if shared.notifications.is_closed() {
            return Ok(());
        } else {
            require_open(&raw)?;
        }
    }
}

fn require_open(raw: &RawConnection) -> Result<(), Failure> {
    if raw.client.is_closed() {
        return Err(Failure::Unavailable("the connection was closed".into()));
    }
    require_in_force(raw.epoch.as_ref())
}

impl Shared {
    /// Wakes those that wait for what another node notifies of.
    fn receive(&self, text: &str) {
        let Some(received) = ReceivedNotification::read(text, self.token) else { return };
        if self.control == Some(Control::Deaf) {
            return;
        }
        match &received.topics {
            Some(topics) => self.signals.notify(topics),
            None => self.signals.notify_all(),
        }
        self.missed_notifications.receive(received.slots);
    }
}
