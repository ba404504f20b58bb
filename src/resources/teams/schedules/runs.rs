//! What schedules caused: one row for each time that was handled, the newest of each schedule.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Output, ResourceRef};
use crate::base::{Description, Id, Result, Time};
use crate::resources::teams::changes;
use crate::resources::teams::schedule::Schedule;
use crate::resources::teams::task::Task;
use crate::resources::teams::team::Team;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, PageRequest, Record, Reference,
    Tx,
};

/// So many rows of each schedule are kept.
const MAX_RUNS: usize = 100;

/// What became of a time at which a schedule was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleOutcome {
    /// A task was created.
    TaskCreated,
    /// The agent was woken.
    AgentWoken,
    /// Nothing: the task of the time before is open.
    Overlapped,
    /// Nothing: it was missed.
    Missed,
    /// It failed.
    Failed,
}
crate::store::stored_enum!(ScheduleOutcome {
    TaskCreated = 0,
    AgentWoken = 1,
    Overlapped = 2,
    Missed = 3,
    Failed = 4,
});

crate::base::portable! {
/// A time at which a schedule was due, and what it caused.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleRun {
    pub id: Id<ScheduleRun>,
    #[serde(skip)]
    pub team: Id<Team>,
    #[serde(skip)]
    pub schedule: Id<Schedule>,
    /// When it was due.
    pub due_at: Time,
    /// What became of it.
    pub outcome: ScheduleOutcome,
    /// How many earlier times were missed, up to 1,000.
    pub missed: u32,
    /// The task that was created, or the open one.
    pub task_id: Option<Id<Task>>,
    /// Why it failed.
    pub error: Option<Description>,
    /// When it was handled.
    pub created_at: Time,
}
}

impl Output for ScheduleRun {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

static SCHEDULE: Reference<ScheduleRun, Schedule> = Reference::cascade(
    &["team", "schedule"],
    |schedule: &Schedule| schedule.id.to_bytes(),
    |run: &ScheduleRun, _| vec![(run.team, run.schedule).to_bytes()],
)
.deferred();

/// The rows of a team, in the order in which they were added.
pub static BY_TEAM: Index<ScheduleRun, (Id<Team>, Id<ScheduleRun>)> =
    Index::non_unique("schedules.runs.by_team", |run| Some((run.team, run.id)));

impl Record for ScheduleRun {
    const TABLE: &'static str = "schedules.runs";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TEAM];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&SCHEDULE];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("task_id", "a task is removed with its team alone, and this with it")];
    type Key = (Id<Schedule>, Id<ScheduleRun>);
    fn key(&self) -> Self::Key {
        (self.schedule, self.id)
    }
}

/// Adds a row, in place of the oldest if there are enough.
pub fn note(tx: &mut Tx, run: &ScheduleRun) -> Result<()> {
    let part = PageRequest { limit: MAX_RUNS, after: None };
    let all = |_: &ScheduleRun| true;
    let old = tx.page(ListSource::TABLE, &run.schedule, Order::Ascending, &part, all)?;
    if let Some(oldest) = old.items.first().filter(|_| old.items.len() == MAX_RUNS) {
        tx.remove(oldest)?;
    }
    changes::tell(tx, run.team);
    tx.insert(run)
}
