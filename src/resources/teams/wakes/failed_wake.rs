//! The record of a wake that failed. They are rows of their own, so that those that wait are looked through
//! without them.

use bincode::{Decode, Encode};

use super::wake::Wake;
use crate::base::{Id, Result, Time};
use crate::resources::teams::member::Member;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Record, Reference, Tx, View,
};

/// Failed wakes of an agent are counted up to this.
const MAX_COUNTED: usize = 1_000;

crate::base::portable! {
/// A wake that is not handed out any more until somebody says so.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct FailedWake {
    pub failed_at: Time,
    /// As it was handed out last. It is the end of the layout: with each version of wakes that has further
    /// fields, this record has another version, too.
    pub wake: Wake,
}
}

/// Failed wakes by when they failed.
pub static BY_TIME: Index<FailedWake, (Time, Id<Wake>)> =
    Index::non_unique("wakes.failed.by_time", |failed| Some((failed.failed_at, failed.wake.id)));

static AGENT: Reference<FailedWake, Member> = Reference::cascade(
    &["wake.team", "wake.agent"],
    |member: &Member| member.id.to_bytes(),
    |failed: &FailedWake, _| vec![(failed.wake.team, failed.wake.agent).to_bytes()],
)
.deferred();

impl Record for FailedWake {
    const TABLE: &'static str = "wakes.failed";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TIME];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&AGENT];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("wake.id", "its own, by which it may be acknowledged late"),
        ("wake.position", "its own, where it waits if it is handed out again"),
        ("wake.task_id", "one whose task is deleted has no reason any more and is dropped"),
        ("wake.message_id", "one whose message is deleted has no reason any more and is dropped"),
        ("wake.peer_id", "history: the peer may be gone"),
        ("wake.log_id", "history: the log entry may be gone"),
        ("wake.schedule_id", "history: the schedule may be gone"),
        ("wake.failed_agent", "history: the agent may have left"),
        ("wake.budget_agent", "history: the agent may have left"),
    ];
    type Key = (Id<Member>, Id<Wake>);
    fn key(&self) -> Self::Key {
        (self.wake.agent, self.wake.id)
    }
}

/// Returns how many wakes of an agent failed, at most [`MAX_COUNTED`].
pub fn failed_of(view: &View, agent: Id<Member>) -> Result<usize> {
    view.count::<FailedWake>(ListSource::TABLE, &agent, MAX_COUNTED)
}

/// Whether a wake of an agent failed.
pub fn has_failed(view: &View, agent: Id<Member>) -> Result<bool> {
    Ok(view.count::<FailedWake>(ListSource::TABLE, &agent, 1)? > 0)
}

/// Removes a failed wake that is acknowledged after all. Returns whether there was one.
pub fn acknowledge(tx: &mut Tx, key: &(Id<Member>, Id<Wake>)) -> Result<bool> {
    let failed: Option<FailedWake> = tx.get(key)?;
    failed.as_ref().map_or(Ok(()), |failed| tx.remove(failed))?;
    Ok(failed.is_some())
}
