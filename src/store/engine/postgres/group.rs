//! Group commit: attempts of a lane that share a transaction. Each runs on top of those before it, over what
//! the transaction has read; what they write together is sent once, and committed once.
//!
//! One attempt is a group, too: a heavy one, or who waits alone. What holds for each attempt of a group:
//!
//! - **All or nothing.** `Ok` is answered after the commit of the transaction in which its last run was, and
//!   of no other: a run whose group failed counts for nothing, and the attempt runs again. Its rows are added
//!   to the group's when its run has succeeded as a whole: one that is refused, panics or leaves adds none.
//! - **Serializable.** To the database server the group is one transaction, which it validates with all that
//!   any of its attempts has read; one that left or was refused only adds to that. Within it they are as one
//!   after the other: each sees the rows of those before it in front of what the transaction reads
//!   ([`Overlay`]). What is kept of reads is of the same snapshot, and is read once, so it is validated.
//! - **Nothing older than its request.** All attempts of a group were submitted before its first read, which
//!   takes the snapshot: what anybody was told before, at any server, is in it. Nobody joins later: that a
//!   transaction has not read what was stored before is, by itself, no conflict.
//! - **A refusal is as certain as what it saw.** Before anything is to be written that is the snapshot, and
//!   it is answered at once. Later the reason may be a row of the group: it is answered after the commit, and
//!   if that has failed the attempt runs again. So is the answer to a repeated `Idempotency-Key`, whose first
//!   request may be in the same group.
//! - **A commit without an answer** is [resolved](super::slot) once for all. If its outcome stays unknown
//!   all are told so, those that were refused too; none runs again.
//! - **Fencing.** A group is of one lease, or of none: if it is fenced, all of it needs the lease that was
//!   lost.
//! - **The fault of one** is not that of the others. Who is over its budget leaves at once. If the server
//!   refuses the writes, each runs in a group of its own, and is told only what it is refused there. After
//!   several conflicts groups are halved, so that who conflicts with others again and again is soon alone.
//! - **Time.** After the first attempt the others together take as long as it did, within bounds: who is not
//!   done then leaves, and is the first of the next group. No read begins after the deadline of the one that
//!   was submitted first, and its time for the commit is that of all: if it is over the others run again,
//!   with their own. Who has less than a second left begins none.
//! - **Who waits is not forgotten.** Those that a group does not get to are in the queue again before it is
//!   committed. There all are told if the database server is away, so that they say so who never ran; and
//!   while the outcome of a commit is sought, those are given up whose time is over.
//! - **The first has no bound in time** but its budget and its deadline, and no other group of its lane runs
//!   meanwhile. What the server does by itself is one lane, and so is all that comes without a credential:
//!   of each there is one group at a time, for all organizations.
//! - **Nobody else's business.** An attempt whose caller has gone runs as any other. Ids stay marked as not
//!   committed until their attempt is completed, and only then others hear of the commit: of all its topics,
//!   with one slot.
//!
//! Groups of other lanes, heavy attempts that hold nothing and other servers run beside it: what they do to
//! each other the database server finds out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::group_commit::{complete, over_budget, run};
use super::super::optimistic::Reads;
use super::super::{Overlay, WriteBatch};
use super::queue::Waiting;
use super::reader::TransactionReader;
use crate::base::Result;

/// What attempts after the first may take together is as much as it took, but not less than this, as many of
/// them read nothing more, and not more than that: the first waits for them.
const MIN_TIME: Duration = Duration::from_millis(20);
const MAX_TIME: Duration = Duration::from_millis(100);

/// A group takes no more attempts once it has so much to write, for which the database server takes some
/// 10 ms. Only a single attempt makes more.
const MAX_BYTES: usize = 256 * 1024;

/// Attempts that run in one transaction.
#[derive(Default)]
pub struct Group {
    /// Those that are part of it, which are completed with it or run again.
    pub members: Vec<GroupMember>,
    /// What they write.
    pub writes: WriteBatch,
    bytes: usize,
    /// Those that are to run in another transaction.
    pub rest: Vec<Waiting>,
}

/// An attempt of a group, with its own result.
pub struct GroupMember {
    pub waiting: Waiting,
    own: Result<()>,
}

impl GroupMember {
    /// Completes it, after the commit ended so.
    pub fn complete(self, end: &Result<()>) {
        complete(self.waiting.attempt, end.clone().and(self.own));
    }
}

impl Group {
    /// Runs attempts over a transaction, one on top of the other. Those that are part of no commit are
    /// completed, or given back.
    pub fn run(waiting: Vec<Waiting>, reader: &TransactionReader) -> Self {
        let (mut group, begun) = (Group::default(), Instant::now());
        let mut waiting = VecDeque::from(waiting);
        let mut until = None;
        while group.bytes < MAX_BYTES
            && !reader.has_failed()
            && until.is_none_or(|until| Instant::now() < until)
            && let Some(next) = waiting.pop_front()
        {
            reader.limit(until);
            if let Some(left) = group.add(next, reader) {
                waiting.push_front(left);
                break;
            }
            until.get_or_insert_with(|| Instant::now() + begun.elapsed().clamp(MIN_TIME, MAX_TIME));
        }
        group.rest = waiting.into();
        group
    }

    /// Runs an attempt, and adds it unless it is over. Returns it if it left.
    fn add(&mut self, mut waiting: Waiting, reader: &TransactionReader) -> Option<Waiting> {
        let overlay = Overlay { base: reader, writes: &self.writes };
        let (end, reads) = run(&mut *waiting.attempt, &overlay, waiting.terms.budget);
        if reader.is_over_limit() {
            return Some(waiting);
        }
        let end = match reads {
            // What it made of a read that failed means nothing; it fails with the others.
            _ if reader.has_failed() => Ok(WriteBatch::default()),
            Reads::OverBudget => {
                over_budget(waiting.attempt, waiting.terms);
                return None;
            }
            // A row that was read and makes no sense: the transaction itself did not fail.
            Reads::Failed(error) => Err(error),
            Reads::Whole(_) => end,
        };
        let writes_nothing = end.as_ref().map_or(true, WriteBatch::is_empty);
        if writes_nothing && self.members.is_empty() && !reader.has_failed() {
            complete(waiting.attempt, end.map(drop));
            return None;
        }
        let own = end.map(|writes| {
            self.bytes += writes.bytes();
            self.writes.append(writes);
        });
        self.members.push(GroupMember { waiting, own });
        None
    }
}
