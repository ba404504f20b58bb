//! Group commit: attempts run on their callers' threads; one writer thread takes the queued ones,
//! round-robin between organizations, checks that what each has read is still current, makes their
//! changes durable in one commit, and then completes all of them.
//!
//! Light attempts of an organization whose other attempts wait or are being committed would likely
//! conflict with those. They are queued without having run, and the writer runs them once, on top
//! of the others.
//!
//! An attempt refused over a durable snapshot is completed at once. One that ran again on top of
//! others' changes is completed after the commit, refused or not: the reason may be a change that
//! was not stored. After a commit with an unknown outcome the storage is reopened before any attempt
//! is completed, so that a caller who then reads sees the actual state.

mod current;
mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::metrics::{Pace, SizeProbe};
use super::optimistic::{History, Reads, Recorder};
use super::{
    Attempt, Budget, CommitOutcome, Engine, GivenBack, LocalStorage, NextReader, OnConflict,
    Overlay, Reader, StoreMeters, Terms, WriteBatch, too_large,
};
use crate::base::{Error, Kind, LogLimit, Result};
use crate::store::signals::Signals;
use current::{CurrentSnapshot, State};
#[cfg(feature = "postgres")]
pub(super) use queue::WAITING;
use queue::{LaneHold, Next, Prepared, Queue, Ran};

/// A group accepts no further attempts once it has 1 MiB to write: a MiB takes some 5 to 10 ms to
/// commit, and the commit itself, without its bytes, about one. Only a single attempt makes more.
const MAX_GROUP_BYTES: usize = 1024 * 1024;

/// A group accepts no further attempts once the writer has run or validated attempts for 10 ms: with
/// the commit before it and its own, a small write waits less than 50 ms. That is time for some 400
/// ordinary ones that run here, or thousands that ran elsewhere. Validating one that read as much as
/// any may, over the whole history, takes some 10 ms.
const MAX_GROUP_TIME: Duration = Duration::from_millis(10);

/// A [`LocalStorage`] with its queue and its writer thread.
pub struct GroupCommit {
    current: CurrentSnapshot,
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl GroupCommit {
    /// Starts the writer thread. `signals` notifies the topics of every commit.
    ///
    /// # Errors
    /// If the storage cannot be read or the thread cannot be started.
    pub fn start(mut storage: impl LocalStorage, signals: Arc<Signals>) -> Result<Self> {
        let current = CurrentSnapshot::new(storage.snapshot()?);
        let meters = Arc::<StoreMeters>::default();
        storage.count_in(&meters);
        let renewed = current.clone();
        storage.renew_with(Box::new(move |reader| renewed.replace(reader)));
        let queue = Arc::new(Queue::new(meters.clone()));
        let mut writer = Writer {
            storage,
            current: current.clone(),
            signals,
            meters: meters.clone(),
            size: SizeProbe::new(meters.clone()),
            outcome_known: true,
            history: History::default(),
        };
        let waiting = queue.clone();
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || writer.run(&waiting))
            .map_err(|e| Error::internal(format!("the writer thread cannot be started: {e}")))?;
        Ok(GroupCommit { current, queue, thread: Mutex::new(Some(thread)) })
    }
}

impl Engine for GroupCommit {
    fn snapshot(&self) -> Arc<dyn Reader> {
        self.current.get().reader
    }

    fn snapshot_after(&self, reader: Arc<dyn Reader>) -> NextReader {
        Box::pin(self.current.clone().after(reader))
    }

    fn submit(&self, mut attempt: Box<dyn Attempt>, terms: Terms) -> Result<()> {
        if terms.budget == Budget::LIGHT && self.queue.has_ahead(attempt.lane()) {
            return self.queue.push(Prepared::new(attempt, None, terms, None));
        }
        let holds_lane = terms.on_conflict == OnConflict::HoldLane;
        let lane_hold = holds_lane.then(|| self.queue.hold(attempt.lane()));
        let State { reader, number } = self.current.get();
        let ran = match run(&mut *attempt, &*reader, terms.budget) {
            (_, Reads::OverBudget) => {
                over_budget(attempt, terms);
                return Ok(());
            }
            // The writer reopens the database first and runs the attempt then.
            (_, Reads::Failed(_)) => None,
            // The reason is in a durable snapshot: no commit is needed to confirm it.
            (Err(error), _) => {
                complete(attempt, Err(error));
                return Ok(());
            }
            (Ok(writes), _) if writes.is_empty() => {
                complete(attempt, Ok(()));
                return Ok(());
            }
            (Ok(writes), Reads::Whole(reads)) => {
                Some(Ran { writes, reads: reads.sort(), read_at: number })
            }
        };
        self.queue.push(Prepared::new(attempt, ran, terms, lane_hold))
    }

    fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        // An attempt that holds the last handle drops this on the writer thread, which cannot join
        // itself.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }

    fn meters(&self) -> Arc<StoreMeters> {
        self.queue.meters.clone()
    }
}

impl Drop for GroupCommit {
    /// Returns when all queued attempts have been completed.
    fn drop(&mut self) {
        self.close();
    }
}

struct Writer<S> {
    storage: S,
    current: CurrentSnapshot,
    signals: Arc<Signals>,
    meters: Arc<StoreMeters>,
    size: SizeProbe,
    /// Whether the outcome of the last commit is known. If not, the storage is reopened first.
    outcome_known: bool,
    history: History,
}

/// The attempts that share a commit.
struct Group {
    /// The error of writes for which there is no space on the disk.
    space: Result<()>,
    members: Vec<GroupMember>,
    writes: WriteBatch,
    /// The bytes of the writes.
    bytes: usize,
    /// How long the writer has run and validated attempts of the group.
    run_time: Duration,
}

impl Group {
    fn new(space: Result<()>) -> Self {
        let writes = WriteBatch::default();
        Group { space, members: Vec::new(), writes, bytes: 0, run_time: Duration::ZERO }
    }

    /// Adds an attempt with the outcome of its run.
    fn add(
        &mut self,
        (attempt, terms): (Box<dyn Attempt>, Terms),
        lane_hold: Option<LaneHold>,
        end: Result<WriteBatch>,
    ) {
        let own = end.and_then(|own| {
            if !own.is_empty() && !own.may_use_reserve() {
                self.space.clone()?;
            }
            self.bytes += own.bytes();
            self.writes.append(own);
            Ok(())
        });
        self.members.push(GroupMember { attempt, own, terms, lane_hold });
    }
}

/// An attempt of a group, with its own result: whether it is part of the commit.
struct GroupMember {
    attempt: Box<dyn Attempt>,
    own: Result<()>,
    terms: Terms,
    lane_hold: Option<LaneHold>,
}

impl<S: LocalStorage> Writer<S> {
    fn run(&mut self, queue: &Queue) {
        loop {
            match queue.wait(self.storage.idle_interval()) {
                Next::Prepared(first) => {
                    let commit = AssertUnwindSafe(|| self.commit_group(*first, queue));
                    if catch_unwind(commit).is_err() {
                        // Its callers have lost their attempts, and hear that the outcome is unknown.
                        tracing::error!("a group of writes panicked; the database is reopened");
                        self.outcome_known = false;
                        queue.end_group();
                    }
                    let pace = Pace::of(self.storage.is_full());
                    if pace == Pace::Full {
                        // Attempts that are refused meanwhile leave no time in which nothing waits.
                        self.idle();
                    }
                    if self.size.is_overdue(pace) {
                        self.size.probe(pace, || self.storage.size());
                    }
                }
                Next::TimedOut => {
                    if let Err(error) = self.recover() {
                        tracing::warn!(%error, "the database cannot be reopened yet");
                    }
                    self.idle();
                    let pace = Pace::of(self.storage.is_full());
                    self.size.probe(pace, || self.storage.size());
                }
                Next::Closed => return,
            }
        }
    }

    /// Runs `first` and other waiting attempts as one group.
    fn commit_group(&mut self, first: Prepared, queue: &Queue) {
        if let Err(error) = self.recover() {
            // Each of the others would try the broken storage again; attempts submitted later may.
            for prepared in std::iter::once(first).chain(queue.drain()) {
                complete(prepared.attempt, Err(error.clone()));
            }
            return queue.end_group();
        }
        let base = self.current.get().reader;
        let mut group = Group::new(self.storage.check_space());
        let mut next = Some(first);
        while let Some(prepared) = next {
            self.admit(prepared, &*base, &mut group);
            let full = group.members.len() >= self.storage.max_group()
                || group.bytes >= MAX_GROUP_BYTES
                || group.run_time >= MAX_GROUP_TIME;
            next = if full { None } else { queue.pop() };
        }
        // The commit may need the space that is held for it.
        drop(base);
        let Group { members: group, writes, .. } = group;
        let end = self.commit(group.len(), &writes);
        // Before its callers hear of it: the next attempt of one of them has nothing ahead of it.
        queue.end_group();
        // The storage refused the writes of one of them: each is committed alone. Where it accepts
        // none at all (busy), trying again for each would only take time.
        if group.len() > 1 && end.as_ref().is_err_and(|error| error.kind() == Kind::Internal) {
            for member in group {
                self.commit_alone(member);
            }
            return;
        }
        self.complete_group(group, writes, &end);
    }

    /// Adds the writes of a queued attempt to those of its group: as they are or, if it has not run
    /// or what it read has changed, after running it.
    fn admit(&mut self, prepared: Prepared, base: &dyn Reader, group: &mut Group) {
        let Prepared { mut attempt, ran, terms, lane_hold, .. } = prepared;
        let unrun = ran.is_none();
        let begin = Instant::now();
        let ran = ran.filter(|ran| self.is_current(ran, base, &group.writes));
        if let Some(ran) = ran {
            group.run_time += begin.elapsed();
            return group.add((attempt, terms), lane_hold, Ok(ran.writes));
        }
        self.meters.conflicts.add(u64::from(!unrun));
        // Running a light attempt again is faster than giving it back.
        let is_light = terms.budget == Budget::LIGHT;
        let may_rerun = is_light || terms.on_conflict == OnConflict::RunOnWriter;
        if !may_rerun && !unrun {
            return give_back(attempt, GivenBack::Conflict);
        }
        let overlay = Overlay { base, writes: &group.writes };
        let (end, reads) = run(&mut *attempt, &overlay, terms.budget);
        group.run_time += begin.elapsed();
        match reads {
            Reads::OverBudget => over_budget(attempt, terms),
            Reads::Failed(error) => group.add((attempt, terms), lane_hold, Err(error)),
            Reads::Whole(_) => group.add((attempt, terms), lane_hold, end),
        }
    }

    /// Returns whether what an attempt read is unchanged, by later commits and by its group.
    fn is_current(&self, ran: &Ran, base: &dyn Reader, writes: &WriteBatch) -> bool {
        let access = if writes.changes_access { None } else { base.access_version() };
        self.history.is_current(ran.read_at, &ran.reads)
            && ran.reads.access_is(access)
            && !ran.reads.conflicts_with(writes)
    }

    /// Runs an attempt again and commits it without others.
    fn commit_alone(&mut self, mut member: GroupMember) {
        let mut writes = WriteBatch::default();
        if let Err(error) = self.recover() {
            return complete(member.attempt, Err(error));
        }
        let base = self.current.get().reader;
        rerun(&mut member, &*base, &mut writes);
        drop(base);
        let end = self.commit(1, &writes);
        self.complete_group(vec![member], writes, &end);
    }

    /// Completes the attempts of a group and notifies the topics of their writes.
    fn complete_group(
        &mut self,
        group: Vec<GroupMember>,
        mut writes: WriteBatch,
        end: &Result<()>,
    ) {
        let topics = std::mem::take(&mut writes.topics);
        if end.is_ok() && !writes.is_empty() {
            self.history.add(self.current.get().number, writes);
        }
        for GroupMember { attempt, own, lane_hold, .. } in group {
            // First: who hears of the end may go on with the lane.
            drop(lane_hold);
            complete(attempt, end.clone().and(own));
        }
        // Last: who follows what is committed goes no further than the ids of attempts that are not
        // completed. After an unknown outcome, too: a signal is a hint.
        if end.as_ref().map_or_else(is_outcome_unknown, |()| true) {
            self.signals.notify(&topics);
        }
    }

    /// Commits what a group of so many attempts wrote.
    fn commit(&mut self, attempts: usize, writes: &WriteBatch) -> Result<()> {
        /// Every write fails so while the disk does.
        static FAILED: LogLimit = LogLimit::new();
        if writes.is_empty() {
            return Ok(());
        }
        self.meters.commit_begins(attempts, writes);
        let begun = Instant::now();
        let end = catch_unwind(AssertUnwindSafe(|| self.storage.commit(writes)))
            .unwrap_or_else(|_| CommitOutcome::Unknown(Error::internal("the commit panicked")));
        self.meters.committed(begun, matches!(end, CommitOutcome::Done(_)));
        match end {
            CommitOutcome::Done(reader) => {
                self.current.set(reader);
                Ok(())
            }
            CommitOutcome::Refused(error) => Err(error),
            CommitOutcome::Unknown(error) => {
                if let Some(suppressed) = FAILED.admit(Instant::now()) {
                    tracing::error!(%error, suppressed, "a commit failed; its outcome is unknown");
                }
                self.outcome_known = false;
                let _ = self.recover();
                Err(outcome_unknown().detail(error))
            }
        }
    }

    /// Lets the storage do what it does while nothing is to be written.
    fn idle(&mut self) {
        if !self.outcome_known {
            return;
        }
        // A broken file can make redb panic, which must not end the writer.
        let _ = catch_unwind(AssertUnwindSafe(|| self.storage.idle()));
    }

    /// Reopens the storage, if it must be.
    ///
    /// # Errors
    /// 503 if that is not possible yet.
    fn recover(&mut self) -> Result<()> {
        if self.outcome_known && !self.storage.failed() {
            return Ok(());
        }
        self.outcome_known = false;
        let reopened = catch_unwind(AssertUnwindSafe(|| self.storage.reopen()))
            .unwrap_or_else(|_| Err(Error::internal("reopening the database panicked")));
        match reopened {
            Ok(reader) => {
                // What was committed since the last known state is not known.
                self.history.reset(self.current.set(reader));
                self.outcome_known = true;
                tracing::info!("the database was reopened; writes continue");
                Ok(())
            }
            Err(error) => {
                self.current.give_up();
                Err(Error::busy("read_only", "writes are not possible now", 1).detail(error))
            }
        }
    }
}

/// Returns the error of a write whose outcome is unknown: 503.
pub fn outcome_unknown() -> Error {
    Error::busy(
        "outcome_unknown",
        "the write may or may not have been kept; look before you repeat it",
        1,
    )
}

/// Whether an error says that.
pub fn is_outcome_unknown(error: &Error) -> bool {
    error.code() == "outcome_unknown"
}

/// Runs an attempt within a budget. A panic is a 500 of this attempt alone.
pub(super) fn run(
    attempt: &mut dyn Attempt,
    reader: &dyn Reader,
    budget: Budget,
) -> (Result<WriteBatch>, Reads) {
    let recorder = Recorder::new(reader, budget);
    let end = catch_unwind(AssertUnwindSafe(|| attempt.run(&recorder)))
        .unwrap_or_else(|_| Err(Error::internal("the operation panicked")));
    (end, recorder.into_reads())
}

/// Runs a group's attempt again, on top of the writes of those before it.
fn rerun(member: &mut GroupMember, base: &dyn Reader, writes: &mut WriteBatch) {
    member.own = match run(&mut *member.attempt, &Overlay { base, writes }, member.terms.budget) {
        (_, Reads::OverBudget) => Err(too_large()),
        (_, Reads::Failed(error)) => Err(error),
        (end, Reads::Whole(_)) => end.map(|own| writes.append(own)),
    };
}

/// Ends or gives back an attempt that exceeds its budget.
pub(super) fn over_budget(attempt: Box<dyn Attempt>, terms: Terms) {
    if terms.budget == Budget::FULL {
        complete(attempt, Err(too_large()));
    } else {
        give_back(attempt, GivenBack::OverBudget);
    }
}

fn give_back(attempt: Box<dyn Attempt>, why: GivenBack) {
    let _ = catch_unwind(AssertUnwindSafe(|| attempt.give_back(why)));
}

/// Completes an attempt. A panic in it (its values are dropped here) must not end the writer thread.
pub(super) fn complete(attempt: Box<dyn Attempt>, end: Result<()>) {
    let _ = catch_unwind(AssertUnwindSafe(|| attempt.complete(end)));
}

#[cfg(test)]
mod tests;
