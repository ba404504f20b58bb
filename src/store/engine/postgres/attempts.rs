//! Running attempts: over a transaction of the database server, again after a conflict, until their
//! outcome is certain.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::super::group_commit::{complete, outcome_unknown, over_budget, run};
use super::super::optimistic::Reads;
use super::super::{Attempt, WriteBatch, WriteOp};
use super::access;
use super::connection::{Commit, Connection, Rows};
use super::failure::{Failure, too_long, too_many_wait};
use super::membership::Member;
use super::queue::{Run, Waiting};
use super::reader::{Assumed, Kind, TransactionReader};
use super::settings::Control;
use super::shared::Shared;
use super::slot::{RECONNECT_PAUSE, Resolved, Slot, SlotValue, fresh};
use crate::base::{Error, Result};
use crate::store::Clock;

/// How long an attempt may take from when it was submitted, with all its runs: clients of HTTP
/// rarely wait longer. A standby is promoted within this time where failover is set up well.
pub const MAX_TIME: Duration = Duration::from_secs(25);

/// How long the outcome of a commit is sought that was not answered, beyond [`MAX_TIME`] if it must
/// be.
const RESOLVE_TIME: Duration = Duration::from_secs(15);

/// After 3 conflicts an attempt runs while no other of its lane begins.
const MAX_CONFLICTS: usize = 3;

/// After 6 conflicts it runs while no other of this server does: those of the same organization may
/// be of another lane (what the server does by itself), and while a store is small what has nothing to
/// do with each other conflicts too. An attempt that others overlap again and again would never end.
const MAX_CONFLICTS_IN_LANE: usize = 6;

/// After 40 conflicts its caller gets a 503: the database server always lets one of two go on, so
/// that takes many others that change the same.
const MAX_RUNS: usize = 40;

/// An attempt that holds its lane conflicts with those of other lanes and servers, which run again as it
/// does. It pauses before each run for a random time: up to 2 ms, then twice as long each time up to
/// 256 ms, so that one of them gets through. All pauses together take 4 s on average.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const MAX_DOUBLINGS: usize = 7;

/// How a run ended.
enum End {
    /// For good.
    Completed(Result<()>),
    OverBudget,
    /// Nothing is stored; it may run again.
    Failed(Failure),
}

impl Shared {
    /// Runs the attempts of the queue, until it is closed and empty.
    pub(super) fn serve_queue(self: &Arc<Self>) {
        while let Some((waiting, run)) = self.queue.next() {
            self.process(waiting, Some(run));
        }
    }

    /// Runs an attempt until it is completed or given back. Blocks. One of the queue, of which a run
    /// has begun, is put back there where it must wait for others of its lane.
    pub(super) fn process(self: &Arc<Self>, mut waiting: Waiting, first: Option<Run<'_>>) {
        let deadline = waiting.submitted + MAX_TIME;
        // One of the queue does not wait here.
        let until = if first.is_some() { waiting.submitted } else { deadline };
        let is_queued = first.is_some();
        let mut next_run = first;
        let lane = waiting.attempt.lane();
        // Kept until it is over: it may still conflict with those that began before.
        let mut hold = None;
        while Instant::now() < deadline && waiting.conflicts < MAX_RUNS {
            if self.commits_hang.load(Ordering::Relaxed) {
                waiting.last = Some(Failure::Blocked);
                break;
            }
            if waiting.conflicts >= MAX_CONFLICTS && hold.is_none() {
                drop(next_run.take());
                hold = self.queue.hold(lane, until);
                if hold.is_none() && is_queued {
                    return self.queue.put_back(waiting);
                }
            }
            if waiting.conflicts > MAX_CONFLICTS {
                thread::sleep(pause(waiting.conflicts - MAX_CONFLICTS - 1));
            }
            let run = next_run.take().or_else(|| match &hold {
                None => self.queue.run(lane, until),
                Some(_) if waiting.conflicts < MAX_CONFLICTS_IN_LANE => {
                    self.queue.run_held(deadline)
                }
                Some(_) => self.queue.run_alone(deadline),
            });
            let Some(run) = run else {
                if is_queued && hold.is_none() {
                    return self.queue.put_back(waiting);
                }
                break;
            };
            let end = self.run_once(&mut waiting, deadline);
            drop(run);
            let failure = match end {
                End::Completed(end) => return complete(waiting.attempt, end),
                End::OverBudget => return over_budget(waiting.attempt, waiting.terms),
                End::Failed(failure) => failure,
            };
            waiting.last = Some(failure.clone());
            if self.is_final(failure, &mut waiting) {
                break;
            }
        }
        self.meters.failed_commits.add_one();
        let error = match waiting.last {
            // What it conflicts with is stored, but waits.
            None | Some(Failure::Conflict) if self.unanswered.are_some_open() => {
                Failure::Blocked.error()
            }
            Some(last) => last.error(),
            None => too_many_wait(),
        };
        complete(waiting.attempt, Err(error));
    }

    /// Returns whether an attempt that failed so is not to run again.
    fn is_final(self: &Arc<Self>, failure: Failure, waiting: &mut Waiting) -> bool {
        match failure {
            // A second time somebody else has just inserted it.
            Failure::Duplicate if !waiting.looks_before_insert => {
                waiting.looks_before_insert = true;
            }
            Failure::Blocked | Failure::Unavailable(_) | Failure::Crowded(_)
                if self.queue.is_closed() =>
            {
                return true;
            }
            // It has waited for four seconds already.
            Failure::Stale | Failure::Blocked => {}
            Failure::Conflict | Failure::Duplicate => {
                waiting.conflicts += 1;
                self.meters.conflicts.add_one();
            }
            Failure::Unavailable(why) => {
                tracing::debug!(%why, "an attempt runs again on another connection");
                self.pool.clear();
                thread::sleep(RECONNECT_PAUSE);
            }
            Failure::Crowded(_) => thread::sleep(RECONNECT_PAUSE),
            Failure::Removed => {
                self.removed();
                return true;
            }
            Failure::Fenced => {
                waiting.lease.iter().for_each(|lease| self.lost_lease(lease));
                return true;
            }
            Failure::Refused(_) => return true,
        }
        false
    }

    fn run_once(self: &Arc<Self>, waiting: &mut Waiting, deadline: Instant) -> End {
        let Waiting { attempt, terms, lease, looks_before_insert, .. } = waiting;
        let looks_before_insert = *looks_before_insert;
        let kind = Kind { begin: self.begin_write(), writes: true, looks_before_insert };
        let reader = TransactionReader::new(self.clone(), kind, deadline, None);
        let (end, reads) = run(&mut **attempt, &reader, terms.budget);
        let (connection, assumed) = match reader.finish() {
            Ok(read) => read,
            Err(failure) => return End::Failed(failure),
        };
        let refused = match reads {
            Reads::Whole(_) => None,
            Reads::OverBudget => Some(End::OverBudget),
            // A row that was read and makes no sense: the transaction itself did not fail.
            Reads::Failed(error) => Some(End::Completed(Err(error))),
        };
        if let Some(refused) = refused {
            self.abandon(connection);
            return refused;
        }
        let writes = match end {
            // Refused perhaps because it went on where it should have found a key.
            Err(_) if !assumed.is_empty() => Err(Failure::Duplicate),
            Ok(writes) if !are_inserted(&assumed, &writes) => Err(Failure::Duplicate),
            Ok(writes) if !writes.is_empty() => Ok(writes),
            ended => {
                self.abandon(connection);
                return End::Completed(ended.map(drop));
            }
        };
        match writes {
            Ok(_) if Instant::now() > deadline => {
                self.abandon(connection);
                End::Completed(Err(too_long()))
            }
            Ok(writes) => self.write(connection, writes, (deadline, lease.as_deref())),
            Err(failure) => {
                self.abandon(connection);
                End::Failed(failure)
            }
        }
    }

    /// Ends a transaction that writes nothing.
    fn abandon(&self, connection: Option<Connection>) {
        if let Some(connection) = connection {
            connection.roll_back();
            self.pool.put(connection);
        }
    }

    /// Writes and commits what an attempt returned.
    fn write(
        &self,
        connection: Option<Connection>,
        writes: WriteBatch,
        (deadline, lease): (Instant, Option<&Member>),
    ) -> End {
        let begun = Instant::now();
        let end = match self.ready_to_write(connection, deadline) {
            Ok((connection, slot)) => {
                self.send_and_commit((connection, slot), &writes, (deadline, lease))
            }
            Err(failure) => End::Failed(failure),
        };
        if let End::Completed(end) = &end {
            self.meters.commit_begins(1, &writes);
            self.meters.committed(begun, end.is_ok());
            // After an unknown outcome, too: a signal is a hint.
            self.signals.notify(&writes.topics);
        }
        end
    }

    /// Returns a connection in its transaction, with a slot.
    fn ready_to_write(
        &self,
        connection: Option<Connection>,
        deadline: Instant,
    ) -> Result<(Connection, Slot), Failure> {
        if let Some(connection) = connection {
            let slot = connection.slot.clone();
            let slot = slot.ok_or_else(|| Failure::Refused(Error::internal("no slot")))?;
            return Ok((connection, slot));
        }
        let mut connection = self.pool.take(true, deadline)?;
        let slot = self.require_slot(&mut connection)?.clone();
        // Apart from the writes: were it to fail, they would be committed one by one.
        self.meters.round_trips.add_one();
        connection.execute(self.begin_write())?;
        Ok((connection, slot))
    }

    fn send_and_commit(
        &self,
        (mut connection, slot): (Connection, Slot),
        writes: &WriteBatch,
        (deadline, lease): (Instant, Option<&Member>),
    ) -> End {
        let next = self.slots().next_value();
        self.meters.round_trips.add_one();
        // A control goes on without it.
        let lease = lease.filter(|_| self.control != Some(Control::Unfenced));
        if let Err(failure) = self.send(&connection, writes, (&slot, &next, lease)) {
            if matches!(failure, Failure::Stale | Failure::Fenced) {
                connection.slot = None;
            }
            if !matches!(failure, Failure::Unavailable(_)) {
                connection.roll_back();
                self.pool.put(connection);
            }
            return End::Failed(failure);
        }
        let moved = Slot { value: next, ..slot.clone() };
        // Nobody may use it before its value is certain.
        connection.slot = None;
        self.meters.round_trips.add_one();
        let end = match connection.commit(deadline) {
            Commit::Done => {
                connection.slot = Some(moved.clone());
                self.pool.put(connection);
                End::Completed(Ok(()))
            }
            Commit::Failed(failure) => {
                connection.slot = Some(slot);
                connection.roll_back();
                self.pool.put(connection);
                End::Failed(failure)
            }
            Commit::Doubtful => {
                tracing::error!("a commit is stored, but perhaps not on a standby");
                self.slots().give_back(moved.clone());
                End::Completed(Err(outcome_unknown()))
            }
            Commit::Unanswered => {
                drop(connection);
                self.after_unanswered(slot, next, deadline)
            }
        };
        if self.notifies_nodes && matches!(end, End::Completed(_)) {
            self.notifications.add(&moved, &writes.topics);
        }
        end
    }

    fn after_unanswered(&self, mut slot: Slot, next: SlotValue, deadline: Instant) -> End {
        if self.control == Some(Control::RepeatUnanswered) {
            return End::Failed(Failure::Conflict);
        }
        self.pool.clear();
        let deadline = deadline.max(Instant::now() + RESOLVE_TIME);
        let resolved = self.unanswered.count(|| self.resolve(&mut slot, next, deadline));
        if resolved != Resolved::Unknown {
            self.slots().give_back(slot);
        }
        match resolved {
            Resolved::Committed => End::Completed(Ok(())),
            Resolved::NotCommitted => {
                End::Failed(Failure::Unavailable("a commit was not answered".into()))
            }
            Resolved::Unknown => {
                tracing::error!("a commit was not answered; its outcome is unknown");
                End::Completed(Err(outcome_unknown()))
            }
        }
    }

    /// Sends all changes, in one round trip. The transaction can be committed if it succeeds.
    fn send(
        &self,
        connection: &Connection,
        writes: &WriteBatch,
        slot: (&Slot, &SlotValue, Option<&Member>),
    ) -> Result<(), Failure> {
        let (mut puts, mut inserts, mut deletes) =
            (Rows::default(), Rows::default(), Rows::default());
        let version = fresh();
        if writes.changes_access {
            puts.0.push(access::TABLE);
            puts.1.push(access::KEY);
            puts.2.push(&version);
        }
        for (table, changes) in &writes.tables {
            let number = self.tables.number(table).map_err(Failure::Refused)?;
            for (key, op) in changes {
                let (numbers, keys, values) = match op {
                    WriteOp::Put(_) => &mut puts,
                    WriteOp::Insert(_) => &mut inserts,
                    WriteOp::Delete => &mut deletes,
                };
                numbers.push(number);
                keys.push(key.as_slice());
                values.extend(op.value());
            }
        }
        connection.change(&puts, &inserts, &deletes, slot)
    }
}

/// Returns a random pause after a conflict alone, of which there were `before` others.
fn pause(before: usize) -> Duration {
    let longest = FIRST_PAUSE * (1 << before.min(MAX_DOUBLINGS));
    let part = u32::from(u16::from_be_bytes(Clock::system().random()));
    longest * part / u32::from(u16::MAX)
}

/// Returns whether every key that was taken to be absent is inserted, which fails if it is not.
fn are_inserted(assumed: &Assumed, writes: &WriteBatch) -> bool {
    assumed.iter().all(|(table, key)| {
        let op = writes.tables.get(table).and_then(|changes| changes.get(key));
        matches!(op, Some(WriteOp::Insert(_)))
    })
}

/// A batch that is written as it is.
pub struct Batch {
    pub writes: WriteBatch,
    pub end: std::sync::mpsc::Sender<Result<()>>,
}

impl Attempt for Batch {
    fn run(&mut self, _: &dyn super::super::Reader) -> Result<WriteBatch> {
        Ok(self.writes.clone())
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        let _ = self.end.send(end);
    }

    fn give_back(self: Box<Self>, _: super::super::GivenBack) {
        let _ = self.end.send(Err(Error::internal("a batch was given back")));
    }
}
