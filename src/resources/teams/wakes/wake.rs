//! The record of a wake, and the wakes that merge with it.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Output, ResourceRef};
use crate::base::{Id, Result, Time};
use crate::outbox::LogEntry;
use crate::resources::teams::member::Member;
use crate::resources::teams::message::Message;
use crate::resources::teams::peer::Peer;
use crate::resources::teams::schedule::{Schedule, WakeText};
use crate::resources::teams::task::Task;
use crate::resources::teams::team::Team;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, View, codec, no_upgrade,
};

/// How long a delivered wake is leased
/// (reference: teams-and-wakes, "Fetching wakes").
pub const LEASE_SECS: i64 = 60;

/// The pauses before a wake is handed out once more that was fetched so often, in seconds, from its lease's end;
/// the last one for all others. A crash or two cost nothing; what goes on for hours waits for people.
const PAUSES_SECS: [i64; 9] = [0, 0, 0, 60, 240, 600, 1_200, 3_600, MAX_PAUSE_SECS];
const MAX_PAUSE_SECS: i64 = 7_200;

/// Returns the pause after it was fetched this often, from 1.
pub fn pause_after(fetches: u32) -> i64 {
    let at = (fetches.saturating_sub(1) as usize).min(PAUSES_SECS.len() - 1);
    PAUSES_SECS[at]
}

/// Why an agent is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WakeReason {
    /// A task was assigned to it.
    TaskAssigned,
    /// A message was sent to it.
    DirectMessage,
    /// There is a note on a task it is responsible for.
    TaskNote,
    /// An outside agent was admitted.
    ExternalRequest,
    /// An event for which a channel wakes it.
    Notification,
    /// A task of its own is not blocked any more.
    TaskUnblocked,
    /// A task of its own that was closed is to be worked on again.
    TaskReopened,
    /// An approval that it asked for was decided.
    ApprovalDecided,
    /// A schedule that wakes it is due.
    Schedule,
    /// The worker that had a task has given no sign of life; the task is open again.
    ClaimExpired,
    /// The last task for which one waited is done.
    DependencyDone,
    /// A task for which others wait was cancelled.
    DependencyCancelled,
    /// The time of a task has passed.
    TaskOverdue,
    /// An agent of its team was handed a wake as often as it is to be, and never acknowledged it.
    WakeFailed,
    /// A budget of its team, or of an agent in it, is low or used up.
    BudgetLow,
}
crate::store::stored_enum!(WakeReason {
    TaskAssigned = 0,
    DirectMessage = 1,
    TaskNote = 2,
    ExternalRequest = 3,
    Notification = 4,
    TaskUnblocked = 5,
    TaskReopened = 6,
    ApprovalDecided = 7,
    Schedule = 8,
    ClaimExpired = 9,
    DependencyDone = 10,
    DependencyCancelled = 11,
    TaskOverdue = 12,
    WakeFailed = 13,
    BudgetLow = 14,
});

crate::base::portable! {
/// A notice that an agent has something to do.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wake {
    /// The same in every delivery, unless a later cause has joined the wake since.
    pub id: Id<Wake>,
    /// Its position among the agent's wakes: its first `id`, which it keeps when causes join it.
    #[serde(skip)]
    pub position: Id<Wake>,
    /// Why the agent is woken.
    pub reason: WakeReason,
    /// The task that it, its message, or the approval refers to.
    pub task_id: Option<Id<Task>>,
    /// The newest message that caused it.
    pub message_id: Option<Id<Message>>,
    /// The peer it refers to.
    pub peer_id: Option<Id<Peer>>,
    /// The log entry of the notification.
    pub log_id: Option<Id<LogEntry>>,
    /// When its first cause occurred.
    pub created_at: Time,
    /// The number of deliveries so far; a peek is none.
    pub attempts: u32,
    /// The team of the agent.
    #[serde(skip)]
    pub team: Id<Team>,
    /// The agent.
    #[serde(skip)]
    pub agent: Id<Member>,
    /// The end of its lease.
    #[serde(skip)]
    pub leased_until: Option<Time>,
    /// Whether its task was already closed when its latest cause occurred.
    #[serde(skip)]
    pub while_closed: bool,
    /// Since when a job is posting it.
    #[serde(skip)]
    pub posting_since: Option<Time>,
    /// Not to be posted before; set by a failed post.
    #[serde(skip)]
    pub post_again_at: Option<Time>,
    /// The schedule that was due.
    pub schedule_id: Option<Id<Schedule>>,
    /// What the schedule tells it, or how the budget stands.
    pub text: Option<WakeText>,
    /// When its posts were given up, to the `wakeUrl` of that time.
    #[serde(skip)]
    pub given_up_at: Option<Time>,
    /// When it is handed out again; null if at once, or when its lease ends.
    #[serde(rename = "nextAttemptAt")]
    pub again_at: Option<Time>,
    /// The agent of the team that does not acknowledge its wakes.
    #[serde(rename = "failedAgentId")]
    pub failed_agent: Option<Id<Member>>,
    /// The number of deliveries to who fetched it, since its newest cause; posts are none.
    #[serde(skip)]
    pub fetches: u32,
    /// The agent whose budget is low; `None` also for that of the team.
    #[serde(skip)]
    pub budget_agent: Option<Id<Member>>,
}
}

impl Output for Wake {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Wakes by reason and subject, such as a task, a peer, the approvals or a budget. A message is sent once and has one
/// wake, so direct messages are not indexed.
static BY_SUBJECT: Index<Wake, WakeSubject> = Index::non_unique("wakes.by_subject", Wake::subject);

/// Wakes by the id under which they are delivered and acknowledged.
pub static BY_ID: Index<Wake, (Id<Member>, Id<Wake>)> =
    Index::unique("wakes.by_id", "wake_exists", "this wake already exists", |wake| {
        Some((wake.agent, wake.id))
    });

/// What wakes of one reason are about.
pub type WakeSubject = (WakeReason, Id<()>);

static AGENT: Reference<Wake, Member> = Reference::cascade(
    &["team", "agent"],
    |member: &Member| member.id.to_bytes(),
    |wake: &Wake, _| vec![(wake.team, wake.agent).to_bytes()],
)
.deferred();

impl Record for Wake {
    const TABLE: &'static str = "wakes";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SUBJECT, &BY_ID];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&AGENT];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("position", "its own first id, which it keeps when causes join it"),
        ("task_id", "a wake whose task is deleted has no reason any more and is dropped"),
        ("message_id", "a wake whose message is deleted has no reason any more and is dropped"),
        ("peer_id", "history: the peer may be gone"),
        ("log_id", "history: the log entry may be gone"),
        ("schedule_id", "history: the schedule may be gone"),
        ("failed_agent", "one whose agent has left has no reason any more and is dropped"),
        ("budget_agent", "one whose agent has left has no reason any more and is dropped"),
    ];
    const VERSION: u8 = 5;
    type Key = (Id<Member>, Id<Wake>); // So that an agent's wakes are together, oldest first.
    fn key(&self) -> Self::Key {
        (self.agent, self.position)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<WakeV1>(body)?.into()),
            2..=4 => codec::decode_shorter(body),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// A wake as stored in version 1, whose id was its position. Its fields never change.
#[derive(Encode, Decode)]
struct WakeV1 {
    id: Id<Wake>,
    reason: WakeReason,
    task_id: Option<Id<Task>>,
    message_id: Option<Id<Message>>,
    peer_id: Option<Id<Peer>>,
    log_id: Option<Id<LogEntry>>,
    created_at: Time,
    attempts: u32,
    team: Id<Team>,
    agent: Id<Member>,
    leased_until: Option<Time>,
    while_closed: bool,
    posting_since: Option<Time>,
    post_again_at: Option<Time>,
}

impl From<WakeV1> for Wake {
    fn from(old: WakeV1) -> Self {
        Wake {
            reason: old.reason,
            task_id: old.task_id,
            message_id: old.message_id,
            peer_id: old.peer_id,
            log_id: old.log_id,
            attempts: old.attempts,
            leased_until: old.leased_until,
            while_closed: old.while_closed,
            posting_since: old.posting_since,
            post_again_at: old.post_again_at,
            ..Wake::blank(old.id, (old.team, old.agent), old.created_at)
        }
    }
}

impl Wake {
    /// Returns one that is about nothing yet.
    pub fn blank(id: Id<Wake>, (team, agent): (Id<Team>, Id<Member>), created_at: Time) -> Self {
        Wake {
            id,
            position: id,
            reason: WakeReason::TaskAssigned,
            task_id: None,
            message_id: None,
            peer_id: None,
            log_id: None,
            created_at,
            attempts: 0,
            team,
            agent,
            leased_until: None,
            while_closed: false,
            posting_since: None,
            post_again_at: None,
            schedule_id: None,
            text: None,
            given_up_at: None,
            again_at: None,
            failed_agent: None,
            fetches: 0,
            budget_agent: None,
        }
    }

    /// Returns the subject by which it is found; `None` without one.
    pub fn subject(&self) -> Option<WakeSubject> {
        let id = match self.reason {
            WakeReason::TaskAssigned
            | WakeReason::TaskNote
            | WakeReason::TaskUnblocked
            | WakeReason::TaskReopened
            | WakeReason::ClaimExpired
            | WakeReason::DependencyDone
            | WakeReason::DependencyCancelled
            | WakeReason::TaskOverdue => self.task_id?.cast(),
            // Those about no task are about one thing, too: the agent reads what was decided.
            WakeReason::ApprovalDecided => self.task_id.map_or(Id::NIL, Id::cast),
            WakeReason::ExternalRequest => self.peer_id?.cast(),
            WakeReason::Schedule => self.schedule_id?.cast(),
            WakeReason::WakeFailed => self.failed_agent?.cast(),
            WakeReason::BudgetLow => self.budget_agent.map_or(Id::NIL, Id::cast),
            WakeReason::DirectMessage | WakeReason::Notification => return None,
        };
        Some((self.reason, id))
    }

    /// Returns whether a delivery has leased it. A lease that ends later than it can was given while
    /// the clock was ahead, and is over.
    pub fn is_leased(&self, now: Time) -> bool {
        self.leased_until.is_some_and(|end| end > now && !end.is_beyond(now, LEASE_SECS))
    }

    /// Returns until when it is not handed out; `None` if it is now.
    pub fn held_until(&self, now: Time) -> Option<Time> {
        let leased_until = self.leased_until.filter(|_| self.is_leased(now));
        let is_later = |at: &Time| *at > now && !at.is_beyond(now, LEASE_SECS + MAX_PAUSE_SECS);
        leased_until.max(self.again_at.filter(is_later))
    }
}

crate::base::portable! {
/// The number of wakes of an organization dropped because their reason no longer held.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub struct DroppedWakes {
    /// Since the organization was created.
    pub count: u64,
}
}

impl Record for DroppedWakes {
    const TABLE: &'static str = "wakes.dropped";
    const EXPORT: Export<Self> = Export::WHOLE;
    type Key = ();
    fn key(&self) -> Self::Key {}
}

/// Returns the newer of two wakes of one subject with the past of the older. Only the newer one's job goes
/// on: if it has none, nothing is posting it.
pub fn merge(older: &Wake, newer: &Wake) -> Wake {
    Wake {
        created_at: older.created_at,
        attempts: older.attempts.max(newer.attempts),
        posting_since: newer.posting_since.map(|since| older.posting_since.unwrap_or(since)),
        post_again_at: older.post_again_at.max(newer.post_again_at),
        // The newer cause is news, and an older one that people had handed out again is to be tried anew.
        fetches: older.fetches.min(newer.fetches),
        ..newer.clone()
    }
}

/// Returns the wakes of the same agent, reason and subject, oldest first; none without a subject.
pub fn same_subject(view: &View, wake: &Wake) -> Result<Vec<Wake>> {
    match wake.subject() {
        Some(subject) => view.all(&BY_SUBJECT, &(subject, wake.agent)),
        None => Ok(vec![]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_of_version_1_keeps_its_place() {
        let [id, team, agent] = [7, 8, 9].map(uuid::Uuid::from_u128);
        let old = WakeV1 {
            id: Id::new(id),
            reason: WakeReason::Notification,
            task_id: None,
            message_id: None,
            peer_id: None,
            log_id: None,
            created_at: Time::from_millis(0),
            attempts: 3,
            team: Id::new(team),
            agent: Id::new(agent),
            leased_until: None,
            while_closed: false,
            posting_since: None,
            post_again_at: None,
        };
        let new = Wake::from(old);
        assert_eq!(
            (new.key(), new.id, new.attempts),
            ((Id::new(agent), Id::new(id)), Id::new(id), 3)
        );
    }
}
