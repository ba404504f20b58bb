//! The record of a schedule: when it is due, what it does then, and what is known of its next time.

mod cron;
mod timing;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::member::Member;
use super::task::{ProjectId, Task, TaskDescription};
use super::team::Team;
use super::zone::{ZoneName, zone};
use crate::auth::User;
use crate::base::{Id, Result, Text, TextRule, Time, Title, Validated};
use crate::outbox::Job;
use crate::resources::pauses::Paused;
use crate::store::{AnyReference, Export, Key, Record, Reference, View};
use cron::{Cron, MAX_CRON};
pub use timing::Timing;

/// A cron expression of five fields.
pub type CronText = Validated<CronRule>;
/// What an agent is told when it is woken: read with each wake, so it is short.
pub type WakeText = Text<1, 2000>;

/// The rule of [`CronText`].
pub struct CronRule;
impl TextRule for CronRule {
    fn check(text: String) -> Result<String, String> {
        Cron::parse(&text).map(|_| text)
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "minLength": 9, "maxLength": MAX_CRON})
    }
}

/// What happens with a time that passed while nothing could be begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMissed {
    /// Nothing.
    #[default]
    Skip,
    /// It is done once, however many were missed.
    Once,
}
crate::store::stored_enum!(OnMissed { Skip = 0, Once = 1 });

/// What happens while the task that was created last is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// No further one is created.
    #[default]
    Skip,
    /// A further one is created.
    Queue,
}
crate::store::stored_enum!(Overlap { Skip = 0, Queue = 1 });

crate::base::portable! {
/// A task that a schedule creates.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskTemplate {
    /// A short summary.
    pub title: Title,
    /// What to do, at length.
    pub description: Option<TaskDescription>,
    /// Opaque identifier chosen by the client; not interpreted.
    pub project_id: Option<ProjectId>,
    /// The agent to assign it to; null if any agent may claim it.
    pub assignee_agent_id: Option<Id<Member>>,
    /// From 0 to 4; not interpreted.
    pub priority: u8,
}
}

crate::base::portable! {
/// A wake that a schedule causes.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WakeTemplate {
    /// The agent to wake.
    pub agent_id: Id<Member>,
    /// What it is told.
    pub text: WakeText,
}
}

crate::base::portable! {
/// What a team does at certain times.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Schedule {
    pub id: Id<Schedule>,
    pub team: Id<Team>,
    pub name: Title,
    /// When it is due: this or the next.
    pub cron: Option<CronText>,
    pub every_secs: Option<u32>,
    pub time_zone: ZoneName,
    /// What it does: this or the next.
    pub task: Option<TaskTemplate>,
    pub wake: Option<WakeTemplate>,
    pub on_missed: OnMissed,
    pub overlap: Overlap,
    /// The first time of `every_secs`.
    pub first_at: Time,
    /// The first time that was not handled yet; `None` if there is none.
    pub next_at: Option<Time>,
    /// The last time that was handled.
    pub last_due_at: Option<Time>,
    /// The last task that it created.
    pub last_task: Option<Id<Task>>,
    /// The job that waits for its next time.
    pub job: Option<Id<Job>>,
    /// Whether it has no job because its team was paused when it was due.
    pub held: bool,
    pub paused: Option<Paused>,
    /// Who set it last, on whose account it acts.
    pub set_by: Id<User>,
    /// The person who answered then for the key that set it, as a service account's has one.
    pub set_by_sponsor: Option<Id<User>>,
    pub set_at: Time,
    pub created_at: Time,
    pub updated_at: Time,
}
}

static TEAM: Reference<Schedule, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |schedule: &Schedule, _| vec![schedule.team.to_bytes()],
)
.deferred();

impl Record for Schedule {
    const TABLE: &'static str = "schedules";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("task.assignee_agent_id", "a task for an agent that has left is for the whole team"),
        ("wake.agent_id", "its history says that the agent has left"),
        ("last_task", "a task is removed with its team alone, and this with it"),
        ("job", "a job that finds another one in its place, or no schedule, ends"),
        ("set_by", "history: who set it may have left"),
        ("set_by_sponsor", "history: who answered for its key may have left"),
    ];
    type Key = (Id<Team>, Id<Schedule>);
    fn key(&self) -> Self::Key {
        (self.team, self.id)
    }
}

/// Less than this is what a clock is set right by, and more is a clock that was wrong.
const CLOCK_SET_BACK_SECS: i64 = 3600;

/// Times are shown up to this many.
const SHOWN: usize = 5;

impl Schedule {
    /// The agent that it names.
    pub fn agent(&self) -> Option<Id<Member>> {
        let assignee = self.task.as_ref().and_then(|task| task.assignee_agent_id);
        self.wake.as_ref().map(|wake| wake.agent_id).or(assignee)
    }

    /// Returns when it is due; `None` if its zone is not in the table of this program.
    pub fn timing(&self) -> Option<Timing> {
        match (&self.cron, self.every_secs) {
            (Some(cron), _) => Some(Timing::Cron(Cron::parse(cron).ok()?, zone(&self.time_zone)?)),
            (None, Some(secs)) => Some(Timing::Every(self.first_at, i64::from(secs) * 1000)),
            (None, None) => None,
        }
    }

    /// Sets its next time anew, if that has not come: the rules of its zone may have changed, or the clock
    /// may have been ahead. What was done already is not due again, unless the clock was wrong by more
    /// than an hour, or than the seconds between two times. Returns when it is due then.
    pub fn correct(&mut self, now: Time) -> Option<Timing> {
        let mut most = CLOCK_SET_BACK_SECS;
        if let (None, Some(secs)) = (&self.cron, self.every_secs.map(i64::from)) {
            self.first_at = within_one(self.first_at, secs, now);
            most = most.min(secs);
        }
        let timing = self.timing()?;
        if self.next_at.is_some_and(|next| next > now) {
            self.last_due_at = self.last_due_at.filter(|at| !at.is_beyond(now, most));
            let after = self.last_due_at.map_or(now, |at| at.max(now));
            self.next_at = timing.next(after);
        }
        Some(timing)
    }

    /// Returns its next times.
    pub fn next_times(&self, now: Time) -> Vec<Time> {
        let mut next = self.clone();
        let Some(timing) = next.correct(now) else { return Vec::new() };
        let first = next.next_at.into_iter();
        let later = |at: &Time| timing.next((*at).max(now));
        first.flat_map(|first| std::iter::successors(Some(first), later)).take(SHOWN).collect()
    }
}

/// Moves a first time that is later than one may be, as the clock was ahead then or is behind now, back by
/// whole multiples of what lies between two: the times are the same ones once the clock is right.
fn within_one(first: Time, secs: i64, now: Time) -> Time {
    let millis = secs * 1000;
    let beyond = first.millis() - now.millis() - millis;
    // Rounded up.
    let times = (beyond.max(0) + millis - 1) / millis;
    first.plus_millis(-times * millis)
}

/// Returns the schedule of this team with this id, or 404. The caller checks that the team exists.
pub fn fetch_schedule(view: &View, team: Id<Team>, id: Id<Schedule>) -> Result<Schedule> {
    view.fetch(&(team, id))
}

#[cfg(test)]
mod tests;
