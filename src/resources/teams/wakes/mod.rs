//! Wakes: notices that an agent has something to do
//! (reference: teams-and-wakes, "Wakes", "Joining and dropping").
//!
//! A wake is written in the transaction that causes it and stays until it is acknowledged or its
//! reason no longer holds. Delivery leases it; an unacknowledged wake is delivered again after the
//! lease. So delivery is at least once, and a repetition has the same id.

mod delivery;
mod webhooks;

use bincode::{Decode, Encode};
use schemars::{JsonSchema, json_schema};
use serde::Serialize;

use super::member::Member;
use super::message::Message;
use super::task::Task;
use super::team::{Peer, Team};
use crate::api::{Metric, Output, Resource, ResourceRef, Route, Webhook, op};
use crate::auth::MEMBER;
use crate::base::{Id, Result, Time};
use crate::outbox::{EventType, LogEntry};
use crate::store::{AnyIndex, AnyReference, Index, Key, Record, Reference, TableInfo, Tx, View};

#[cfg(test)]
pub use delivery::take;
pub use webhooks::enqueue_pending_posts;

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Wake>(), TableInfo::of::<DroppedWakes>()],
    jobs: webhooks::JOBS,
    metrics: &[Metric {
        name: "wakes_dropped",
        help: "Wakes dropped because their reason no longer held",
        read: dropped_wakes,
    }],
    events: &[EventType::TeamRunFailed],
    webhooks: &[WAKE_WEBHOOK],
    ..Resource::EMPTY
};

const WAKE_WEBHOOK: Webhook = Webhook {
    name: "wake",
    about: "Wake an agent at its `wakeUrl`",
    description: "Posted to the `wakeUrl` of a team agent, signed with its `wakeSecret`, as soon as \
                  there is a wake. A 2xx acknowledges the wake. After any other answer, or none \
                  within 10 seconds, the wake is posted again with growing delays for 24 hours; \
                  then `team.run_failed` is published. A 410 removes the `wakeUrl`. A wake that is \
                  not acknowledged can be fetched.",
    group: "teams",
    kind: |_| json_schema!({"const": "wake", "description": "What the message is."}),
    data: |generator| generator.subschema_for::<Wake>(),
};

// ── Records ──────────────────────────────────────────────────────────────────

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
}
crate::store::stored_enum!(WakeReason {
    TaskAssigned = 0,
    DirectMessage = 1,
    TaskNote = 2,
    ExternalRequest = 3,
    Notification = 4,
});

/// A notice that an agent has something to do.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wake {
    /// The same in every delivery.
    pub id: Id<Wake>,
    /// Why the agent is woken.
    pub reason: WakeReason,
    /// The task that it, or its message, refers to.
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
    team: Id<Team>,
    /// The agent.
    #[serde(skip)]
    agent: Id<Member>,
    /// The end of its lease.
    #[serde(skip)]
    leased_until: Option<Time>,
    /// Whether its task was already closed when its latest cause occurred.
    #[serde(skip)]
    while_closed: bool,
    /// Whether a job is going to post it.
    #[serde(skip)]
    posting: bool,
}

impl Output for Wake {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Wakes by reason and subject, a task or a peer. A message is sent once and has one wake, so direct
/// messages are not indexed.
static BY_SUBJECT: Index<Wake, WakeSubject> = Index::non_unique("wakes.by_subject", Wake::subject);

type WakeSubject = (WakeReason, Id<()>);

static AGENT: Reference<Wake, Member> = Reference::cascade(
    &["team", "agent"],
    |member: &Member| member.id.to_bytes(),
    |wake: &Wake, _| vec![(wake.team, wake.agent).to_bytes()],
)
.deferred();

impl Record for Wake {
    const TABLE: &'static str = "wakes";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SUBJECT];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&AGENT];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("task_id", "a wake whose task is deleted has no reason any more and is dropped"),
        ("message_id", "a wake whose message is deleted has no reason any more and is dropped"),
        ("peer_id", "history: the peer may be gone"),
        ("log_id", "history: the log entry may be gone"),
    ];
    type Key = (Id<Member>, Id<Wake>); // So that an agent's wakes are together, oldest first.
    fn key(&self) -> Self::Key {
        (self.agent, self.id)
    }
}

impl Wake {
    fn subject(&self) -> Option<WakeSubject> {
        let id = match self.reason {
            WakeReason::TaskAssigned | WakeReason::TaskNote => self.task_id?.cast(),
            WakeReason::ExternalRequest => self.peer_id?.cast(),
            WakeReason::DirectMessage | WakeReason::Notification => return None,
        };
        Some((self.reason, id))
    }

    fn is_leased(&self, now: Time) -> bool {
        self.leased_until.is_some_and(|end| end > now)
    }
}

/// The number of wakes of an organization dropped because their reason no longer held.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub struct DroppedWakes {
    count: u64,
}

impl Record for DroppedWakes {
    const TABLE: &'static str = "wakes.dropped";
    type Key = ();
    fn key(&self) -> Self::Key {}
}

/// Returns the number of dropped wakes of the view's organization, for the metrics.
pub fn dropped_wakes(view: &View) -> Result<u64> {
    Ok(view.get::<DroppedWakes>(&())?.map_or(0, |dropped| dropped.count))
}

// ── Causes ───────────────────────────────────────────────────────────────────

/// The cause of a wake.
#[allow(dead_code)] // The exchange and the channels of notifications use the last two.
pub enum WakeCause<'a> {
    /// This task was assigned to it.
    TaskAssigned(&'a Task),
    /// This message is to it.
    DirectMessage(&'a Message),
    /// This message is a note on this task, which it is responsible for.
    TaskNote(&'a Task, Id<Message>),
    /// This peer was admitted.
    ExternalRequest(Id<Peer>),
    /// This log entry came to a channel that wakes it.
    Notification(Id<LogEntry>),
}

/// Wakes `agent`, merging with a pending wake of the same subject. The caller excludes causes by the
/// agent itself: its own action never wakes it.
pub fn wake(tx: &mut Tx, agent: &Member, cause: &WakeCause) -> Result<()> {
    let wake = new(tx, agent, cause);
    // A wake delivered before is not merged, even if its lease is over: a late acknowledgement would
    // delete a cause it does not know. The two merge when they are delivered.
    let newest = same_subject(&tx.view(), &wake)?.pop();
    if let Some(old) = newest.filter(|newest| newest.attempts == 0) {
        return tx.replace(&old, &merge(&old, &wake));
    }
    tx.signal(agent.id.uuid());
    match agent.wake_url {
        Some(_) => webhooks::insert_and_enqueue(tx, wake),
        None => tx.insert(&wake),
    }
}

fn new(tx: &Tx, agent: &Member, cause: &WakeCause) -> Wake {
    let mut wake = Wake {
        id: tx.new_id(),
        reason: WakeReason::TaskAssigned,
        task_id: None,
        message_id: None,
        peer_id: None,
        log_id: None,
        created_at: tx.now(),
        attempts: 0,
        team: agent.team,
        agent: agent.id,
        leased_until: None,
        while_closed: false,
        posting: false,
    };
    match *cause {
        WakeCause::TaskAssigned(task) => {
            wake.task_id = Some(task.id);
            wake.while_closed = task.is_closed();
        }
        WakeCause::DirectMessage(message) => {
            wake.reason = WakeReason::DirectMessage;
            wake.message_id = Some(message.id);
            wake.task_id = message.task_id;
        }
        WakeCause::TaskNote(task, message) => {
            wake.reason = WakeReason::TaskNote;
            wake.task_id = Some(task.id);
            wake.message_id = Some(message);
            wake.while_closed = task.is_closed();
        }
        WakeCause::ExternalRequest(peer) => {
            wake.reason = WakeReason::ExternalRequest;
            wake.peer_id = Some(peer);
        }
        WakeCause::Notification(entry) => {
            wake.reason = WakeReason::Notification;
            wake.log_id = Some(entry);
        }
    }
    wake
}

/// Returns the older of two wakes of one subject, with the cause of the newer.
fn merge(older: &Wake, newer: &Wake) -> Wake {
    let Wake { message_id, while_closed, .. } = *newer;
    Wake { message_id, while_closed, ..older.clone() }
}

/// Returns the wakes of the same agent, reason and subject, oldest first; none without a subject.
fn same_subject(view: &View, wake: &Wake) -> Result<Vec<Wake>> {
    match wake.subject() {
        Some(subject) => view.all(&BY_SUBJECT, &(subject, wake.agent)),
        None => Ok(vec![]),
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

/// The routes of wakes.
pub fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/teams/{teamId}/agents/{agentId}/wakes",
            MEMBER,
            "wake.take",
            op::take("wake", delivery::look, delivery::take),
        )
        .about("Lease an agent's wakes, oldest first"),
        Route::post(
            "/teams/{teamId}/agents/{agentId}/wakes/ack",
            MEMBER,
            "wake.acknowledge",
            op::write(delivery::acknowledge),
        )
        .about("Acknowledge wakes"),
    ]
}

#[cfg(test)]
mod tests;
