//! Things to do after a commit: a row with a due time for each.
//!
//! A row is leased by moving its due time to the end of the lease and counting the attempt; if the
//! process dies, it becomes due again. An attempt that comes back late finds another count and
//! changes nothing. One that cannot be carried out at all (its job fails, or is not known) is tried
//! again with growing delays and, after a day of that, is dead: kept to be looked at, never due.

use bincode::{Decode, Encode};
use uuid::Uuid;

use crate::base::{Id, Result, Time};
use crate::outside::{Answer, Call, Failure};
use crate::store::{AnyIndex, Index, Org, Record, Tx};

/// Something to be done at or after its due time, at least once.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Task {
    /// Its id.
    pub id: Id<Task>,
    /// For which organization.
    pub org: Id<Org>,
    /// Which job does it.
    pub kind: String,
    /// What it is about: the id of a record of that job's resource.
    pub subject: Id<Subject>,
    /// What the subject lies in (an agent, a channel): the job needs it to find the subject, and
    /// what lies in the same takes turns, so that others are not held up.
    pub within: Option<Id<Subject>>,
    /// When it is due; while it is being done, when its lease ends.
    pub due_at: Time,
    /// How often it was begun.
    pub attempts: u32,
    /// When it was written.
    pub created_at: Time,
    /// Since when it cannot be carried out; none while it can.
    pub failing_since: Option<Time>,
    /// How often that was tried since then.
    pub failures: u32,
    /// Whether it was given up.
    pub dead: bool,
}

/// What a task is about: a record of its job's resource.
pub enum Subject {}

/// Tasks by due time; dead ones are never due. What they lie in stands beside it, so that some can
/// be passed over unread.
pub static BY_DUE: Index<Task, (Time, Option<Id<Subject>>)> =
    Index::many("outbox.by_due", |task| (!task.dead).then_some((task.due_at, task.within)));

impl Record for Task {
    const TABLE: &'static str = "outbox";
    const OWNED: bool = false;
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("org", "a task outlives what it is about, and then does nothing"),
        ("subject", "a task outlives what it is about, and then does nothing"),
        ("within", "a task outlives what it is about, and then does nothing"),
    ];
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_DUE];
    type Key = Id<Task>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The signal that a task was written.
pub const WRITTEN: Uuid = Uuid::from_u128(0x0b0a_2026_0000_7000_8000_0000_0000_0001);

/// Writes down that `job` is to be done about `subject` (within `within`), at `due_at`.
pub fn enqueue(
    tx: &mut Tx,
    job: &Job,
    subject: Id<Subject>,
    within: Option<Id<Subject>>,
    due_at: Time,
) -> Result<()> {
    let task = Task {
        id: tx.new_id(),
        org: tx.org(),
        kind: job.kind.into(),
        subject,
        within,
        due_at,
        attempts: 0,
        created_at: tx.now(),
        failing_since: None,
        failures: 0,
        dead: false,
    };
    tx.signal(WRITTEN);
    tx.insert(&task)
}

/// What is done about a task. Both functions run in a transaction of the task's organization and
/// bear being run twice; the call between them is made by the runner.
pub struct Job {
    /// Its name in the rows; it never changes.
    pub kind: &'static str,
    /// Looks at the state and says what to do.
    pub prepare: fn(&mut Tx, &Task) -> Result<Step>,
    /// Writes down what came of the call.
    pub settle: fn(&mut Tx, &Task, &Result<Answer, Failure>) -> Result<Next>,
}

/// What a task needs.
pub enum Step {
    /// Nothing more.
    Done,
    /// Nothing before this time.
    Later(Time),
    /// A call outside.
    Call(Box<Call>),
}

/// What becomes of a task after its call.
pub enum Next {
    /// It is done, or given up.
    Done,
    /// It is tried again at this time.
    Again(Time),
}

/// The delays after a failed delivery: about 28 hours in all, as webhooks' users know them.
const DELAYS_SECS: [i64; 8] = [5, 300, 1800, 7200, 18_000, 18_000, 18_000, 18_000];

/// When to try again after the `attempts`-th attempt failed at `now`; `None` to give up what was
/// begun at `since` more than 24 hours ago.
pub fn retry_at(now: Time, since: Time, attempts: u32) -> Option<Time> {
    const GIVE_UP_SECS: i64 = 24 * 3600;
    let index = (attempts.max(1) as usize - 1).min(DELAYS_SECS.len() - 1);
    let next = now.plus_secs(DELAYS_SECS[index]);
    (next <= since.plus_secs(GIVE_UP_SECS)).then_some(next)
}
