//! The thread by which a process stays a member of a store: it changes its heartbeat, observes the other
//! members, takes the lease when nobody has it, and finds commits of other nodes whose notifications were
//! missed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::elsewhere::Elsewhere;
use super::failure::Failure;
use super::failure_detector::FailureDetector;
use super::fencing::FencedEngine;
use super::joining::FAILURE_TIMEOUT;
use super::member_rows::{read_members, read_slots};
use super::membership::{LEASE, Member};
use super::opening::ANSWERS_TIME;
use super::settings::Control;
use super::shared::Shared;
use super::sql::BEGIN_WRITE;
use crate::base::{Error, Result};
use crate::store::engine::WorkLease;

/// How often a heartbeat is changed.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// How often a node observes the others: a waiter whose notification is lost waits for two observations.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);

/// What a server leaves when it is killed is taken over within ten seconds.
const _: () = assert!(FAILURE_TIMEOUT.as_secs() + OBSERVE_INTERVAL.as_secs() < 10);

/// A heartbeat that fails only after so long hangs. Locks are waited for as long.
const HANG_TIME: Duration = Duration::from_secs(4);

/// How often it is logged at most that another server has no row of this process.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The rows of a node without a heartbeat for ten minutes are removed. Commits whose outcome it still
/// seeks are long given up.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(600);

/// The thread.
pub struct Heartbeat {
    is_stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Heartbeat {
    /// Starts the thread for a member that has joined the store.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(shared: &Arc<Shared>, own: Member) -> Result<Self> {
        let is_stopped = Arc::<AtomicBool>::default();
        let (stopped, shared) = (is_stopped.clone(), Arc::downgrade(shared));
        let mut heartbeats = HeartbeatLoop {
            own,
            detector: FailureDetector::default(),
            heartbeat_at: Instant::now() + HEARTBEAT_INTERVAL,
            observe_at: Instant::now(),
            is_away: false,
            committed_at: Instant::now(),
            warned_at: None,
        };
        let thread = thread::Builder::new()
            .name("heartbeat".into())
            .spawn(move || heartbeats.run(&shared, &stopped))
            .map_err(|e| Error::internal(format!("a thread cannot be started: {e}")))?;
        Ok(Heartbeat { is_stopped, thread: Mutex::new(Some(thread)) })
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

struct HeartbeatLoop {
    own: Member,
    detector: FailureDetector,
    heartbeat_at: Instant,
    observe_at: Instant,
    /// Whether the last time failed.
    is_away: bool,
    /// When the last heartbeat was committed.
    committed_at: Instant,
    /// When it was logged last that another server has no row of this process.
    warned_at: Option<Instant>,
}

impl HeartbeatLoop {
    fn look_elsewhere(&mut self, shared: &Arc<Shared>, epoch: u64) {
        let found = shared.look_elsewhere(&self.own, epoch);
        if found == Elsewhere::Chosen {
            // By a heartbeat that was committed there.
            self.committed_at = Instant::now();
        }
        if found == Elsewhere::Unknown
            && self.warned_at.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL)
        {
            self.warned_at = Some(Instant::now());
            tracing::warn!(
                "another database server of the URL has no row of this server: it was removed there, or that \
                 is another store; it goes on where it is"
            );
        }
    }

    fn run(&mut self, shared: &Weak<Shared>, is_stopped: &AtomicBool) {
        loop {
            let next = self.heartbeat_at.min(self.observe_at);
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
            let (begun, epoch) = (Instant::now(), shared.pool.in_force().epoch);
            let connection = shared.pool.take(false, begun + HEARTBEAT_INTERVAL);
            let ran = connection.and_then(|mut connection| {
                self.run_due(&shared, &mut connection)?;
                shared.pool.put(connection);
                Ok(())
            });
            match ran {
                Ok(()) => {
                    self.is_away = false;
                    shared.pool.set_away(false);
                }
                Err(Failure::Removed) => {
                    shared.removed();
                    return;
                }
                Err(failure) => {
                    // The others could not change their heartbeats either.
                    self.detector.reset();
                    self.observe_at = Instant::now() + RETRY_PAUSE;
                    self.heartbeat_at = self.observe_at;
                    match failure {
                        Failure::Unavailable(_) => shared.pool.clear(),
                        // Its own row is locked, by the heartbeat before: that is not finished.
                        Failure::Blocked => shared.note_blocked(),
                        _ => {}
                    }
                    let (took, lost) = (begun.elapsed(), self.committed_at.elapsed());
                    let silent = shared.pool.connector.url.in_force.answer_age();
                    let is_chosen = shared.pool.in_force().is_chosen;
                    if is_elsewhere(&failure, (took, lost, silent), is_chosen) {
                        self.look_elsewhere(&shared, epoch);
                    }
                    if !std::mem::replace(&mut self.is_away, true) {
                        tracing::warn!(
                            ?failure,
                            "no heartbeat can be stored or observed at the moment"
                        );
                    }
                }
            }
        }
    }

    fn run_due(
        &mut self,
        shared: &Arc<Shared>,
        connection: &mut Connection,
    ) -> Result<(), Failure> {
        let now = Instant::now();
        if now >= self.heartbeat_at {
            self.heartbeat_at = now + HEARTBEAT_INTERVAL;
            if !matches!(shared.control, Some(Control::Silent | Control::Unfenced)) {
                self.send(shared, connection)?;
            }
        }
        if now >= self.observe_at {
            self.observe_at = now + OBSERVE_INTERVAL;
            shared.pool.close_unused(now);
            if self.own.is_node() {
                self.observe(shared, connection)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, shared: &Shared, connection: &mut Connection) -> Result<(), Failure> {
        let held = shared.held_lease();
        let (is_there, has_lease) =
            shared.own_transaction(connection, BEGIN_WRITE, |connection| {
                let is_there = self.own.renew(connection)?;
                let has_lease = held.as_ref().map(|lease| lease.renew(connection)).transpose()?;
                Ok((is_there, has_lease.unwrap_or(true)))
            })?;
        shared.note_committed();
        self.committed_at = Instant::now();
        if let (false, Some(lease)) = (has_lease, &held) {
            shared.lost_lease(lease);
        }
        if is_there { Ok(()) } else { Err(Failure::Removed) }
    }

    fn observe(
        &mut self,
        shared: &Arc<Shared>,
        connection: &mut Connection,
    ) -> Result<(), Failure> {
        let members = connection.in_force(|| read_members(&connection.client))?;
        if !members.iter().any(|one| one.member == self.own) {
            return Err(Failure::Removed);
        }
        self.detector.observe(members.clone(), Instant::now());
        shared.nodes.send_replace(self.detector.nodes(Some(&self.own)));
        let nodes = members.iter().map(|one| &one.member).filter(|member| member.is_node());
        let nodes = nodes.map(Member::token).collect();
        shared.note_others(nodes, read_slots(connection)?);
        for gone in self.detector.suspected(REMOVAL_TIMEOUT) {
            if gone.member.is_node() && gone.member != self.own {
                let who = gone.member.description();
                tracing::warn!("{who} has been silent for ten minutes; its rows are removed");
                shared.own_transaction(connection, BEGIN_WRITE, |connection| {
                    gone.member.remove(connection)
                })?;
            }
        }
        if shared.held_lease().is_some() || !shared.may_lead {
            return Ok(());
        }
        let suspected = self.detector.suspected(FAILURE_TIMEOUT);
        let suspected = suspected.iter().find(|one| one.member.key == LEASE);
        if suspected.is_some() || !members.iter().any(|one| one.member.key == LEASE) {
            if let Some(lease) = shared.try_acquire_lease(connection, &self.own, suspected)? {
                tracing::info!("this server does the background work from now on");
                let engine = Arc::new(FencedEngine::new(shared.clone(), lease.clone()));
                shared.have_lease(lease, WorkLease { engine });
            }
        } else if let Some(at) = self.detector.suspected_at(LEASE, FAILURE_TIMEOUT) {
            // Not a whole interval later.
            self.observe_at = self.observe_at.min(at.max(Instant::now()));
        }
        Ok(())
    }
}

/// Whether the store may be at another server, after a heartbeat that took so long has failed, so long after
/// the last that was committed, and so long after the server's last answer.
fn is_elsewhere(
    failure: &Failure,
    (took, lost, silent): (Duration, Duration, Duration),
    is_chosen: bool,
) -> bool {
    // An old primary can be reached, but waits for the standby that was promoted: a heartbeat hangs, or fails
    // at once, always, since it conflicts with a commit that waits. What cannot be reached is looked for by
    // connecting; but once one was chosen, nobody else does.
    let is_stuck = match failure {
        // Its connections are full. While it answers over one, nothing is elsewhere; one that was chosen is
        // left by nobody else.
        Failure::Crowded(_) => {
            return is_chosen && lost >= HANG_TIME && silent >= ANSWERS_TIME;
        }
        // Its disk is: it answers.
        Failure::Refused(_) => return false,
        Failure::Conflict | Failure::Blocked => true,
        Failure::Unavailable(_) => is_chosen,
        _ => false,
    };
    took >= HANG_TIME || lost >= HANG_TIME && is_stuck
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_is_looked_for_where_one_hangs_and_not_where_it_is_full() {
        let (soon, late) = (Duration::from_millis(10), HANG_TIME);
        let unavailable = || Failure::Unavailable("away".into());
        let full = Failure::Refused(Error::busy("disk_full", "full", 30));
        let crowded = Failure::Crowded("too many clients".into());
        for (failure, times, is_chosen, expected) in [
            (unavailable(), (late, late), false, true),
            (Failure::Blocked, (late, soon), false, true),
            (Failure::Blocked, (soon, late), false, true),
            (Failure::Conflict, (soon, late), false, true),
            (Failure::Conflict, (soon, soon), false, false),
            // Whoever opens a connection looks at all of them.
            (unavailable(), (soon, late), false, false),
            (unavailable(), (soon, late), true, true),
            (unavailable(), (soon, soon), true, false),
            (Failure::Replaced, (soon, late), true, false),
            (crowded.clone(), (soon, late), false, false),
            (crowded.clone(), (late, late), true, false),
            (full.clone(), (soon, late), true, false),
            (full, (late, late), false, false),
        ] {
            let is_looked = is_elsewhere(&failure, (times.0, times.1, soon), is_chosen);
            assert_eq!(is_looked, expected, "{failure:?} {times:?} {is_chosen}");
        }
        let silent = |is_chosen| is_elsewhere(&crowded, (soon, late, ANSWERS_TIME), is_chosen);
        assert_eq!([silent(false), silent(true)], [false, true]);
    }
}
