//! Wakes: that an agent has something to do
//! (reference: teams-and-wakes, "Wakes", "Joining and dropping").
//!
//! A wake is written in the transaction that causes it and stays until it is acknowledged or its
//! reason has gone away. Handing it out leases it; what is not acknowledged comes back. So an agent
//! hears of everything at least once, a repetition having the same id.

mod hand_out;
mod posts;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use super::member::Member;
use super::message::Message;
use super::task::Task;
use super::team::{Peer, Team};
use crate::api::{Metric, Output, Resource, ResourceRef, Route, op};
use crate::auth::MEMBER;
use crate::base::{Id, Result, Time};
use crate::outbox::{EventType, LogEntry};
use crate::store::{AnyIndex, AnyReference, Index, Key, Record, Reference, TableInfo, Tx, View};

#[cfg(test)]
pub use hand_out::take;
pub use posts::enqueue_pending_posts;

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Wake>(), TableInfo::of::<Dropped>()],
    jobs: posts::JOBS,
    metrics: &[Metric {
        name: "wakes_dropped",
        help: "Wakes dropped because their reason had gone away",
        read: dropped_wakes,
    }],
    events: &[EventType::TeamRunFailed],
    ..Resource::EMPTY
};

// ── Records ──────────────────────────────────────────────────────────────────

/// Why an agent is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WakeReason {
    /// A task was assigned to it.
    TaskAssigned,
    /// It has mail.
    DirectMessage,
    /// There is a note on a task that is its business.
    TaskNote,
    /// An outside agent was let in.
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

/// That an agent has something to do.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wake {
    /// Its id.
    pub id: Id<Wake>,
    /// Why.
    pub reason: WakeReason,
    /// The task it is about, or that the mail is about.
    pub task_id: Option<Id<Task>>,
    /// The message that caused it; the newest where several did.
    pub message_id: Option<Id<Message>>,
    /// The peer it is about.
    pub peer_id: Option<Id<Peer>>,
    /// The log entry of the notification it is about.
    pub log_id: Option<Id<LogEntry>>,
    /// When its first cause came.
    pub created_at: Time,
    /// How often it was handed out.
    pub attempts: u32,
    /// The team of the agent.
    #[serde(skip)]
    team: Id<Team>,
    /// The agent.
    #[serde(skip)]
    agent: Id<Member>,
    /// Until when it is in somebody's hands.
    #[serde(skip)]
    leased_until: Option<Time>,
    /// Whether its task was closed already when its latest cause came.
    #[serde(skip)]
    while_closed: bool,
    /// Whether there is a job that posts it.
    #[serde(skip)]
    posting: bool,
}

impl Output for Wake {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// The wakes of an agent that are about the same: those of a task, or a peer, for one reason. A
/// message is written once and so has one wake; looking for another would only cost.
static BY_SUBJECT: Index<Wake, Subject> = Index::many("wakes.by_subject", Wake::subject);

type Subject = (WakeReason, Id<()>);

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
        ("task_id", "a wake whose task is gone has no reason any more and is dropped"),
        ("message_id", "a wake whose message is gone has no reason any more and is dropped"),
        ("peer_id", "history: the peer may be gone"),
        ("log_id", "history: the log entry may be gone"),
    ];
    type Key = (Id<Member>, Id<Wake>); // So that an agent's stand together, oldest first.
    fn key(&self) -> Self::Key {
        (self.agent, self.id)
    }
}

impl Wake {
    fn subject(&self) -> Option<Subject> {
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

/// How many wakes of an organization were dropped because their reason had gone away.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub struct Dropped {
    count: u64,
}

impl Record for Dropped {
    const TABLE: &'static str = "wakes.dropped";
    type Key = ();
    fn key(&self) -> Self::Key {}
}

/// How many wakes of the view's organization were dropped, for the metrics.
pub fn dropped_wakes(view: &View) -> Result<u64> {
    Ok(view.get::<Dropped>(&())?.map_or(0, |dropped| dropped.count))
}

// ── Causes ───────────────────────────────────────────────────────────────────

/// What wakes an agent.
#[allow(dead_code)] // The exchange and the channels of notifications use the last two.
pub enum Cause<'a> {
    /// This task was assigned to it.
    TaskAssigned(&'a Task),
    /// This message is to it.
    DirectMessage(&'a Message),
    /// This message is a note on this task, which is its business.
    TaskNote(&'a Task, Id<Message>),
    /// This peer was let in.
    ExternalRequest(Id<Peer>),
    /// This log entry came to a channel that wakes it.
    Notification(Id<LogEntry>),
}

/// Wakes `agent`. Whoever caused it must be somebody else: an agent's own act never wakes it.
pub fn wake(tx: &mut Tx, agent: &Member, cause: &Cause) -> Result<()> {
    let wake = new(tx, agent, cause);
    // One that was handed out is not joined, though its lease may be over: an acknowledgement that
    // comes late would take away what it does not know of. The two join when they are handed out.
    let newest = same_subject(&tx.view(), &wake)?.pop();
    if let Some(old) = newest.filter(|newest| newest.attempts == 0) {
        return tx.replace(&old, &join(&old, &wake));
    }
    tx.signal(agent.id.uuid());
    match agent.wake_url {
        Some(_) => posts::insert_and_enqueue(tx, wake),
        None => tx.insert(&wake),
    }
}

fn new(tx: &Tx, agent: &Member, cause: &Cause) -> Wake {
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
        Cause::TaskAssigned(task) => {
            wake.task_id = Some(task.id);
            wake.while_closed = task.is_closed();
        }
        Cause::DirectMessage(message) => {
            wake.reason = WakeReason::DirectMessage;
            wake.message_id = Some(message.id);
            wake.task_id = message.task_id;
        }
        Cause::TaskNote(task, message) => {
            wake.reason = WakeReason::TaskNote;
            wake.task_id = Some(task.id);
            wake.message_id = Some(message);
            wake.while_closed = task.is_closed();
        }
        Cause::ExternalRequest(peer) => {
            wake.reason = WakeReason::ExternalRequest;
            wake.peer_id = Some(peer);
        }
        Cause::Notification(entry) => {
            wake.reason = WakeReason::Notification;
            wake.log_id = Some(entry);
        }
    }
    wake
}

/// The older of two wakes about the same, with the cause of the newer.
fn join(older: &Wake, newer: &Wake) -> Wake {
    let Wake { message_id, while_closed, .. } = *newer;
    Wake { message_id, while_closed, ..older.clone() }
}

/// The wakes of the same agent, reason and subject, oldest first; none for what has no subject.
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
            op::take("wake", hand_out::look, hand_out::take),
        )
        .about("Hand out an agent's wakes, oldest first, each for 60 seconds"),
        Route::post(
            "/teams/{teamId}/agents/{agentId}/wakes/ack",
            MEMBER,
            "wake.acknowledge",
            op::write(hand_out::acknowledge),
        )
        .about("Acknowledge wakes, so that they do not come back"),
    ]
}

#[cfg(test)]
mod tests;
