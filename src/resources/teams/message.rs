//! The record of a message, its indexes, and whether messages are unread.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::member::Member;
use super::peer::Peer;
use super::task::Task;
use super::team::Team;
use crate::api::{Output, ResourceRef};
use crate::base::{Body, Id, Result, Time, Title};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, Record, Reference, Tx, View,
};

/// The kind of a message's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "MessageSenderType")]
pub enum SenderType {
    /// A person, or a key that acts as one.
    User,
    /// An agent of the team.
    Agent,
    /// An outside agent.
    Peer,
}
crate::store::stored_enum!(SenderType { User = 0, Agent = 1, Peer = 2 });

/// A user, an agent of the team, or a peer. Only a marker for ids.
pub enum Participant {}

crate::base::portable! {
/// The sender of a message.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MessageSender")]
pub struct Sender {
    /// The kind of sender.
    #[serde(rename = "type")]
    pub kind: SenderType,
    /// The id of the user, agent or peer.
    pub id: Id<Participant>,
    /// The sender's name when the message was sent.
    pub name: String,
}
}

/// The kind of recipient of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "MessageAudience")]
pub enum Audience {
    /// Agents, which read it by consuming it.
    Agent,
    /// The organization's members; read once one of them marks it read.
    Human,
}
crate::store::stored_enum!(Audience { Agent = 0, Human = 1 });

crate::base::portable! {
/// A message.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub id: Id<Message>,
    /// The team it belongs to.
    pub team_id: Id<Team>,
    /// The sender.
    pub from: Sender,
    /// The agent it is addressed to; null for notes on tasks and mail to the humans.
    pub to_agent_id: Option<Id<Member>>,
    /// The peer it is addressed to.
    pub to_peer_id: Option<Id<Peer>>,
    /// The task it refers to.
    pub task_id: Option<Id<Task>>,
    pub subject: Option<Title>,
    pub body: Body,
    /// The kind of recipient.
    pub audience: Audience,
    /// When it was read; null if unread.
    pub read_at: Option<Time>,
    pub created_at: Time,
}
}

impl Message {
    /// Returns a message of this sender with this subject and text, to no one yet.
    pub fn new(
        tx: &Tx,
        team_id: Id<Team>,
        from: Sender,
        (subject, body): (&Option<Title>, &Body),
    ) -> Self {
        Message {
            id: tx.new_id(),
            team_id,
            from,
            to_agent_id: None,
            to_peer_id: None,
            task_id: None,
            subject: subject.clone(),
            body: body.clone(),
            audience: Audience::Agent,
            read_at: None,
            created_at: tx.now(),
        }
    }
}

impl Output for Message {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Messages by inbox: an agent's, or the humans' (`None`), read and unread apart, so that unread ones
/// are found among any number of read ones. Notes on tasks are in no inbox.
pub static BY_INBOX: Index<Message, (Option<Id<Member>>, bool)> =
    Index::non_unique("messages.by_box", |message| match (message.audience, message.to_agent_id) {
        (Audience::Human, _) => Some((None, message.read_at.is_some())),
        (Audience::Agent, Some(agent)) => Some((Some(agent), message.read_at.is_some())),
        (Audience::Agent, None) => None,
    });

/// Messages by the task they refer to.
pub static BY_TASK: Index<Message, Id<Task>> = Index::non_unique("messages.by_task", |m| m.task_id);

/// Messages by the peer that sent or gets them; those that it sent and nobody has read apart, so that
/// they are counted among any number of others.
pub static BY_PEER: Index<Message, (Id<Peer>, bool)> =
    Index::non_unique("messages.by_peer", |message| match message.from.kind {
        SenderType::Peer => Some((message.from.id.cast(), message.read_at.is_none())),
        SenderType::User | SenderType::Agent => message.to_peer_id.map(|peer| (peer, false)),
    });

static TEAM: Reference<Message, Team> = Reference::cascade(
    &["team_id"],
    |team: &Team| team.id.to_bytes(),
    |message: &Message, _| vec![message.team_id.to_bytes()],
)
.deferred();

impl Record for Message {
    const TABLE: &'static str = "messages";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_INBOX, &BY_TASK, &BY_PEER];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("from.id", "history: who wrote it may have left"),
        ("to_agent_id", "history: the agent may have left; its mail stays"),
        ("to_peer_id", "history: the peer may be gone"),
        ("task_id", "a task is removed with its team alone, and this with it"),
    ];
    type Key = (Id<Team>, Id<Message>);
    fn key(&self) -> Self::Key {
        (self.team_id, self.id)
    }
}

/// Whether a message is unread. False for one that does not exist.
pub fn is_unread(view: &View, team: Id<Team>, id: Id<Message>) -> Result<bool> {
    Ok(view.get::<Message>(&(team, id))?.is_some_and(|message| message.read_at.is_none()))
}

/// Whether there is an unread note on a task, from `since` or later and not written by `reader`.
pub fn has_unread_note(view: &View, task: &Task, reader: Id<Member>, since: Time) -> Result<bool> {
    let mut found = false;
    view.for_each(&BY_TASK, &(task.id, task.team_id), Order::Descending, |message: Message| {
        let is_note = message.audience == Audience::Agent && message.to_agent_id.is_none();
        found = message.created_at >= since
            && is_note
            && message.read_at.is_none()
            && message.from.id != reader.cast();
        let enough = found || message.created_at < since;
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}
