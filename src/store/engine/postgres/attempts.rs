//! Running attempts: in [groups](super::group) over transactions of the database server, again after a
//! conflict, until their outcome is certain.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::super::group_commit::{complete, outcome_unknown};
use super::super::{Attempt, WriteBatch, WriteOp};
use super::access;
use super::connection::{Changes, Commit, Connection};
use super::failure::{Failure, too_many_wait};
use super::group::Group;
use super::membership::Member;
use super::queue::Waiting;
use super::reader::{Kind, TransactionReader};
use super::settings::Control;
use super::shared::Shared;
use super::slot::{RECONNECT_PAUSE, Resolved, Slot, SlotValue, fresh};
use super::sql::MOVE_SLOT;
use crate::base::{Error, Result};
use crate::store::{Clock, Topic};

/// How long an attempt may take from when it was submitted, with all its runs: clients of HTTP
/// rarely wait longer. A standby is promoted within this time where failover is set up well.
pub const MAX_TIME: Duration = Duration::from_secs(25);

/// With less left an attempt does not begin another run: it would end the transaction of its group in the
/// middle, and those of it that have time would do their work again.
const MIN_TIME: Duration = Duration::from_secs(1);

/// How long the outcome of a commit is sought that was not answered, beyond [`MAX_TIME`] if it must
/// be.
const RESOLVE_TIME: Duration = Duration::from_secs(15);

/// After 3 conflicts a heavy attempt runs while nothing else of its lane does.
const MAX_CONFLICTS: usize = 3;

/// After 6 conflicts it runs while nothing else of this server does: those of the same organization may
/// be of another lane (what the server does by itself), and while a store is small what has nothing to
/// do with each other conflicts too. An attempt that others overlap again and again would never end.
const MAX_CONFLICTS_IN_LANE: usize = 6;

/// After 40 conflicts its caller gets a 503: the database server always lets one of two go on, so
/// that takes many others that change the same.
const MAX_RUNS: usize = 40;

/// Those that conflict do so with other lanes and servers, which run again as they do. After
/// [`MAX_CONFLICTS`] they pause before each run for a random time: up to 2 ms, then twice as long each
/// time up to 256 ms, so that one of them gets through. All pauses together take 4 s on average.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const MAX_DOUBLINGS: usize = 7;

/// How a transaction ended.
enum End {
    /// For good.
    Completed(Result<()>),
    /// Nothing is stored; its attempts may run again.
    Failed(Failure),
}

/// What others are told of a commit.
struct Told {
    topics: Vec<Topic>,
    /// The slot that it moved, unless nodes are not notified of it.
    slot: Option<Slot>,
}

impl Shared {
    /// Runs the groups of the queue, until it is closed and empty.
    pub(super) fn serve_queue(self: &Arc<Self>) {
        while let Some((group, running)) = self.queue.next_group() {
            pause(&group);
            self.queue.put_back(self.run_group(group));
            drop(running);
        }
    }

    /// Runs an attempt until it is completed or given back. Blocks.
    pub(super) fn process(self: &Arc<Self>, waiting: Waiting) {
        let (lane, deadline) = (waiting.attempt.lane(), waiting.submitted + MAX_TIME);
        // Kept until it is over: it may still conflict with those that began before.
        let mut hold = None;
        let mut next = Some(waiting);
        // Before it holds up others.
        while let Some(waiting) = next.and_then(|one| self.if_may_run(one)) {
            let conflicts = waiting.conflicts;
            if conflicts >= MAX_CONFLICTS && hold.is_none() {
                hold = self.queue.hold(lane, deadline);
            }
            let group = vec![waiting];
            pause(&group);
            let is_alone = conflicts >= MAX_CONFLICTS_IN_LANE;
            let run = self.queue.run_heavy(lane, hold.is_some(), is_alone, deadline);
            next = self.run_group(group).pop();
            drop(run);
        }
    }

    /// Runs attempts in one transaction, which were submitted before. Those of several that it does not get
    /// to are put back at once; returns those of it that are to run in another, in their order, which come
    /// before them. All others are completed or given back.
    fn run_group(self: &Arc<Self>, waiting: Vec<Waiting>) -> Vec<Waiting> {
        let waiting: Vec<_> = waiting.into_iter().filter_map(|one| self.if_may_run(one)).collect();
        let Some(first) = waiting.iter().map(|one| one.submitted).min() else {
            return Vec::new();
        };
        // Of the first of them: it may be too early for the others, which run again then.
        let deadline = first + MAX_TIME;
        let kind = Kind { begin: self.begin_write(), writes: true };
        let reader = TransactionReader::new(self.clone(), kind, deadline, None);
        let Group { members, writes, rest, .. } = Group::run(waiting, &reader);
        // Before the commit: if that hangs, what has no time left is given up in the queue.
        self.queue.put_back(rest);
        let mut told = Told { topics: Vec::new(), slot: None };
        let end = match reader.finish() {
            Err(failure) => End::Failed(failure),
            Ok(connection) if writes.is_empty() => {
                self.abandon(connection);
                End::Completed(Ok(()))
            }
            Ok(connection) if Instant::now() > deadline => {
                self.abandon(connection);
                End::Failed(Failure::TooLong)
            }
            Ok(connection) => {
                let lease = members.first().and_then(|one| one.waiting.lease.clone());
                let terms = (members.len(), deadline, lease.as_deref());
                self.write(connection, writes, terms, &mut told)
            }
        };
        let again = match end {
            End::Completed(end) => {
                members.into_iter().for_each(|one| one.complete(&end));
                Vec::new()
            }
            End::Failed(failure) => {
                self.after_failure(failure, members.into_iter().map(|one| one.waiting).collect())
            }
        };
        // Last: who follows what is committed goes no further than the ids of attempts that are not
        // completed.
        self.signals.notify(&told.topics);
        if let Some(slot) = &told.slot {
            self.notifications.add(slot, &told.topics);
        }
        again
    }

    /// Returns the attempt if another run of it may begin; gives it up otherwise.
    fn if_may_run(&self, mut waiting: Waiting) -> Option<Waiting> {
        // Asked once: commits may be finished again before it is told.
        if self.commits_hang.is_so() {
            waiting.note_blocked();
        } else if has_time(&waiting) && waiting.conflicts < MAX_RUNS {
            return Some(waiting);
        }
        self.give_up(vec![waiting]);
        None
    }

    /// Completes attempts that cannot run any more, with why they did not succeed.
    pub(super) fn give_up(&self, attempts: Vec<Waiting>) {
        for mut waiting in attempts {
            self.meters.failed_commits.add_one();
            if self.unanswered.are_some_open() {
                waiting.note_blocked();
            }
            let error = waiting.last.map_or_else(too_many_wait, |last| last.error());
            complete(waiting.attempt, Err(error));
        }
    }

    /// Returns those of the attempts whose transaction failed so that are to run again; completes the
    /// others.
    fn after_failure(&self, failure: Failure, mut group: Vec<Waiting>) -> Vec<Waiting> {
        let is_single = group.len() == 1;
        for waiting in &mut group {
            let is_told = match failure {
                Failure::TooLong => !has_time(waiting),
                // It may be for the writes of another.
                Failure::Refused(_) => is_single,
                _ => true,
            };
            if is_told {
                waiting.last = Some(failure.clone());
            }
        }
        // A lock, on the other hand, is in the way of those alone that need it.
        if matches!(failure, Failure::Unavailable(_) | Failure::Crowded(_)) {
            self.queue.tell(&failure);
        }
        let is_final = match failure {
            Failure::Blocked
            | Failure::Unavailable(_)
            | Failure::Replaced
            | Failure::Crowded(_)
                if self.queue.is_closed() =>
            {
                true
            }
            // The time of the oldest is over. Others have some left, and may have been alone in this.
            Failure::TooLong => false,
            // It has waited for four seconds already.
            Failure::Stale | Failure::Blocked => false,
            // A duplicate has just been inserted by somebody else.
            Failure::Conflict | Failure::Duplicate => {
                group.iter_mut().for_each(|waiting| waiting.conflicts += 1);
                self.meters.conflicts.add(group.len() as u64);
                false
            }
            Failure::Unavailable(why) => {
                tracing::debug!(%why, "attempts run again on another connection");
                self.pool.clear();
                thread::sleep(RECONNECT_PAUSE);
                false
            }
            Failure::Replaced | Failure::Crowded(_) => {
                thread::sleep(RECONNECT_PAUSE);
                false
            }
            Failure::Removed => {
                // One that stops has left by itself.
                if !self.queue.is_closed() {
                    self.removed();
                }
                true
            }
            Failure::Fenced => {
                let lease = group.first().and_then(|waiting| waiting.lease.clone());
                lease.iter().for_each(|lease| self.lost_lease(lease));
                true
            }
            // It is the fault of one of them.
            Failure::Refused(_) if group.len() > 1 => {
                group.iter_mut().for_each(|waiting| waiting.must_be_single = true);
                false
            }
            Failure::Refused(_) => true,
        };
        if is_final {
            self.give_up(std::mem::take(&mut group));
        }
        group
    }

    /// Ends a transaction of which nothing is written.
    fn abandon(&self, connection: Option<Connection>) {
        if let Some(connection) = connection {
            connection.roll_back();
            self.pool.put(connection);
        }
    }

    /// Writes and commits what so many attempts returned, and notes what is to be told of it.
    fn write(
        &self,
        connection: Option<Connection>,
        writes: WriteBatch,
        (attempts, deadline, lease): (usize, Instant, Option<&Member>),
        told: &mut Told,
    ) -> End {
        let begun = Instant::now();
        let end = match self.ready_to_write(connection, deadline) {
            // Opening one may have taken long.
            Ok((connection, _)) if Instant::now() > deadline => {
                self.abandon(Some(connection));
                End::Failed(Failure::TooLong)
            }
            Ok(ready) => self.send_and_commit(ready, &writes, (deadline, lease), told),
            Err(failure) => End::Failed(failure),
        };
        if let End::Completed(end) = &end {
            self.meters.commit_begins(attempts, &writes);
            self.meters.committed(begun, end.is_ok());
            // After an unknown outcome, too: a signal is a hint.
            told.topics = writes.topics;
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
        told: &mut Told,
    ) -> End {
        let version = fresh();
        let changes = match self.changes(writes, &version) {
            Ok(changes) => changes,
            Err(failure) => {
                self.abandon(Some(connection));
                return End::Failed(failure);
            }
        };
        let next = self.slots().next_value();
        let mut moved = Slot { value: next, ..slot.clone() };
        // A control goes on without it.
        let lease = lease.filter(|_| self.control != Some(Control::Unfenced));
        // Nobody may use it before its value is certain.
        connection.slot = None;
        self.meters.round_trips.add_one();
        let end = match connection.change_and_commit(&changes, (&slot, &next, lease), deadline) {
            Commit::Done => {
                connection.slot = Some(moved.clone());
                self.pool.put(connection);
                End::Completed(Ok(()))
            }
            Commit::Failed(failure) => {
                if !matches!(failure, Failure::Stale | Failure::Fenced) {
                    connection.slot = Some(slot);
                }
                if !matches!(failure, Failure::Unavailable(_)) {
                    self.pool.put(connection);
                }
                End::Failed(failure)
            }
            Commit::Doubtful if self.is_followed(&connection, &mut moved, deadline) => {
                connection.slot = Some(moved.clone());
                self.pool.put(connection);
                End::Completed(Ok(()))
            }
            Commit::Doubtful => {
                tracing::error!("a commit is stored, but perhaps not on a standby");
                End::Completed(Err(outcome_unknown()))
            }
            Commit::Unanswered => {
                let why = connection.not_answered();
                drop(connection);
                if !matches!(why, Failure::Replaced) {
                    self.pool.clear();
                }
                self.find_out(why, slot, (next, deadline))
            }
        };
        // Not of an unknown outcome: it may become visible later than a notification, and then the others
        // find its slot moved without one.
        if self.notifies_nodes && matches!(end, End::Completed(Ok(()))) {
            told.slot = Some(moved);
        }
        end
    }

    /// Moves the slot once more. If that is on the standby, so is what the same server committed before.
    fn is_followed(&self, connection: &Connection, slot: &mut Slot, deadline: Instant) -> bool {
        let deadline = resolve_deadline(deadline);
        if Instant::now() >= deadline {
            return false;
        }
        let next = self.slots().next_value();
        let (id, from, to): (&[u8], &[u8], &[u8]) = (&slot.id, &slot.value, &next);
        let moved = connection
            .execute(self.begin_write())
            .and_then(|()| connection.change_once(MOVE_SLOT, &[&id, &from, &to]));
        // A warning that comes with the write is not one of this commit.
        let is_followed =
            matches!(moved, Ok(1)) && matches!(connection.commit(deadline), Commit::Done);
        slot.value = next;
        is_followed
    }

    /// Finds out how a commit ended that was not answered.
    fn find_out(
        &self,
        why: Failure,
        mut slot: Slot,
        (next, deadline): (SlotValue, Instant),
    ) -> End {
        if self.control == Some(Control::RepeatUnanswered) {
            return End::Failed(Failure::Conflict);
        }
        let deadline = resolve_deadline(deadline);
        let resolved = self.unanswered.count(|| self.resolve(&mut slot, next, deadline));
        if resolved != Resolved::Unknown {
            self.slots().give_back(slot.clone());
        }
        match resolved {
            Resolved::Committed => End::Completed(Ok(())),
            Resolved::NotCommitted => End::Failed(why),
            Resolved::Unknown => {
                tracing::error!("a commit was not answered; its outcome is unknown");
                // Others find its slot moved by themselves.
                if self.notifies_nodes {
                    self.unknown_outcomes.add(slot);
                }
                End::Completed(Err(outcome_unknown()))
            }
        }
    }

    /// What is to be written, and the version of the rights if they change.
    fn changes<'a>(
        &self,
        writes: &'a WriteBatch,
        version: &'a SlotValue,
    ) -> Result<Changes<'a>, Failure> {
        let mut changes = Changes::default();
        if writes.changes_access {
            let (numbers, keys, values) = &mut changes.puts;
            numbers.push(access::TABLE);
            keys.push(access::KEY);
            values.push(version);
        }
        for (table, rows) in &writes.tables {
            let number = self.tables.number(table).map_err(Failure::Refused)?;
            for (key, op) in rows {
                let (numbers, keys, values) = match op {
                    WriteOp::Put(_) => &mut changes.puts,
                    WriteOp::Insert(_) => &mut changes.inserts,
                    WriteOp::Delete => &mut changes.deletes,
                };
                numbers.push(number);
                keys.push(key.as_slice());
                values.extend(op.value());
            }
        }
        Ok(changes)
    }
}

/// Until when the outcome of a commit is sought whose attempts had time until `deadline`.
fn resolve_deadline(deadline: Instant) -> Instant {
    deadline.max(deadline.min(Instant::now()) + RESOLVE_TIME)
}

/// Whether another run of it may begin.
fn has_time(waiting: &Waiting) -> bool {
    Instant::now() + MIN_TIME < waiting.submitted + MAX_TIME
}

/// Pauses before attempts run that have conflicted often, for a random time.
fn pause(group: &[Waiting]) {
    let conflicts = group.iter().map(|one| one.conflicts).max().unwrap_or_default();
    let Some(before) = conflicts.checked_sub(MAX_CONFLICTS + 1) else { return };
    let longest = FIRST_PAUSE * (1 << before.min(MAX_DOUBLINGS));
    let part = u32::from(u16::from_be_bytes(Clock::system().random()));
    thread::sleep(longest * part / u32::from(u16::MAX));
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

#[cfg(test)]
mod tests;
