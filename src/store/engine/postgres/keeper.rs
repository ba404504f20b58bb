//! The thread that keeps a process at a store: it changes its beat, looks who else is there, takes
//! the lease when nobody has it, and notices commits of other nodes that it did not hear of.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::attendance;
use super::connection::Connection;
use super::entering::MAX_SILENCE;
use super::failure::Failure;
use super::fenced::Fenced;
use super::presence::{LEASE, Presence};
use super::settings::Control;
use super::shared::Shared;
use super::silence::Watch;
use super::sql::BEGIN_WRITE;
use crate::base::{Error, Result};
use crate::store::engine::WorkLease;

/// How often a beat is changed.
const BEAT_INTERVAL: Duration = Duration::from_secs(2);

/// How often a node looks at the store: a waiter whose notification is lost waits for two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What a server leaves when it is killed is taken over within ten seconds.
const _: () = assert!(MAX_SILENCE.as_secs() + LOOK_INTERVAL.as_secs() < 10);

/// Pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The rows of a node that has been silent for ten minutes are removed. Commits whose outcome it
/// still seeks are long given up.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// The thread.
pub struct Keeper {
    is_stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeper {
    /// Starts the thread for somebody who has come to the store.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(shared: &Arc<Shared>, own: Presence) -> Result<Self> {
        let is_stopped = Arc::<AtomicBool>::default();
        let (stopped, shared) = (is_stopped.clone(), Arc::downgrade(shared));
        let mut keeping = Keeping {
            own,
            watch: Watch::default(),
            beat_at: Instant::now() + BEAT_INTERVAL,
            look_at: Instant::now(),
            is_away: false,
        };
        let thread = thread::Builder::new()
            .name("keeper".into())
            .spawn(move || keeping.run(&shared, &stopped))
            .map_err(|e| Error::internal(format!("a thread cannot be started: {e}")))?;
        Ok(Keeper { is_stopped, thread: Mutex::new(Some(thread)) })
    }

    /// Leaves the store and ends the thread.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Keeping {
    own: Presence,
    watch: Watch,
    beat_at: Instant,
    look_at: Instant,
    /// Whether the last time failed.
    is_away: bool,
}

impl Keeping {
    fn run(&mut self, shared: &Weak<Shared>, is_stopped: &AtomicBool) {
        loop {
            let next = self.beat_at.min(self.look_at);
            thread::park_timeout(next.saturating_duration_since(Instant::now()));
            let Some(shared) = shared.upgrade() else { return };
            if is_stopped.load(Ordering::SeqCst) {
                let held = shared.give_up_lease();
                if let Err(failure) = shared.leave(&self.own, held.as_ref()) {
                    tracing::debug!(?failure, "the store could not be left");
                }
                return;
            }
            if Instant::now() < next {
                continue;
            }
            let connection = shared.pool.take(false, Instant::now() + BEAT_INTERVAL);
            let kept = connection.and_then(|mut connection| {
                self.keep(&shared, &mut connection)?;
                shared.pool.put(connection);
                Ok(())
            });
            match kept {
                Ok(()) => self.is_away = false,
                Err(Failure::Removed) => {
                    shared.removed();
                    return;
                }
                Err(failure) => {
                    // The others could not change their beats either.
                    self.watch.forget();
                    self.look_at = Instant::now() + RETRY_PAUSE;
                    self.beat_at = self.look_at;
                    match failure {
                        Failure::Unavailable(_) => shared.pool.clear(),
                        // Its own row is locked, by the beat before: that is not finished.
                        Failure::Blocked => shared.note_blocked(),
                        _ => {}
                    }
                    if !std::mem::replace(&mut self.is_away, true) {
                        tracing::warn!(?failure, "the store cannot be kept at the moment");
                    }
                }
            }
        }
    }

    fn keep(&mut self, shared: &Arc<Shared>, connection: &mut Connection) -> Result<(), Failure> {
        let now = Instant::now();
        if now >= self.beat_at {
            self.beat_at = now + BEAT_INTERVAL;
            if !matches!(shared.control, Some(Control::Silent | Control::Unfenced)) {
                self.beat(shared, connection)?;
            }
        }
        if now >= self.look_at {
            self.look_at = now + LOOK_INTERVAL;
            shared.pool.close_unused(now);
            if self.own.is_node() {
                self.look(shared, connection)?;
            }
        }
        Ok(())
    }

    fn beat(&self, shared: &Shared, connection: &mut Connection) -> Result<(), Failure> {
        let held = shared.held_lease();
        let (is_there, has_lease) =
            shared.own_transaction(connection, BEGIN_WRITE, |connection| {
                let is_there = self.own.beat(connection)?;
                let has_lease = held.as_ref().map(|lease| lease.beat(connection)).transpose()?;
                Ok((is_there, has_lease.unwrap_or(true)))
            })?;
        shared.note_committed();
        if let (false, Some(lease)) = (has_lease, &held) {
            shared.lost_lease(lease);
        }
        if is_there { Ok(()) } else { Err(Failure::Removed) }
    }

    fn look(&mut self, shared: &Arc<Shared>, connection: &mut Connection) -> Result<(), Failure> {
        let there = attendance::look(connection)?;
        if !there.iter().any(|one| one.presence == self.own) {
            return Err(Failure::Removed);
        }
        self.watch.look(there.clone(), Instant::now());
        shared.nodes.send_replace(self.watch.nodes(Some(&self.own)));
        let slots = attendance::look_at_slots(connection)?;
        if shared.hearing.look(slots, shared.token) {
            shared.signals.notify_all();
        }
        for forgotten in self.watch.silent(FORGOTTEN) {
            if forgotten.presence.is_node() && forgotten.presence != self.own {
                let who = forgotten.presence.description();
                tracing::warn!("{who} has been silent for ten minutes; its rows are removed");
                shared.own_transaction(connection, BEGIN_WRITE, |connection| {
                    forgotten.presence.remove(connection)
                })?;
            }
        }
        if shared.held_lease().is_some() || !shared.may_lead {
            return Ok(());
        }
        let silent = self.watch.silent(MAX_SILENCE);
        let silent = silent.iter().find(|one| one.presence.key == LEASE);
        if silent.is_some() || !there.iter().any(|one| one.presence.key == LEASE) {
            if let Some(lease) = shared.try_lease(connection, &self.own, silent)? {
                tracing::info!("this server does the background work from now on");
                let engine = Arc::new(Fenced::new(shared.clone(), lease.clone()));
                shared.have_lease(lease, WorkLease { engine });
            }
        } else if let Some(at) = self.watch.silent_at(LEASE, MAX_SILENCE) {
            // Not a whole interval later.
            self.look_at = self.look_at.min(at.max(Instant::now()));
        }
        Ok(())
    }
}
