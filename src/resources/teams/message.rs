//! A team's mail as it is stored.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::member::Member;
use super::task::Task;
use super::team::{Peer, Team};
use crate::api::{Output, ResourceRef};
use crate::base::{Body, Id, Result, Time, Title};
use crate::store::{AnyIndex, AnyReference, Index, Key, Order, Record, Reference, View};

/// What kind of sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SenderType {
    /// A person, or a key that acts as one.
    User,
    /// An agent of the team.
    Agent,
    /// An outside agent.
    Peer,
}
crate::store::stored_enum!(SenderType { User = 0, Agent = 1, Peer = 2 });

/// A user, an agent of the team, or a peer.
pub enum Anyone {}

/// Who wrote a message.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sender {
    /// What kind of sender.
    #[serde(rename = "type")]
    pub kind: SenderType,
    /// Their id.
    pub id: Id<Anyone>,
    /// Their name when they wrote it.
    pub name: String,
}

/// For whom a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// Agents, which consume it.
    Agent,
    /// The humans, one of whom opens it.
    Human,
}
crate::store::stored_enum!(Audience { Agent = 0, Human = 1 });

/// A message.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its id.
    pub id: Id<Message>,
    /// The team it is in.
    pub team_id: Id<Team>,
    /// Who wrote it.
    pub from: Sender,
    /// The agent it is to.
    pub to_agent_id: Option<Id<Member>>,
    /// The peer it is to.
    pub to_peer_id: Option<Id<Peer>>,
    /// The task it is about.
    pub task_id: Option<Id<Task>>,
    /// Its subject.
    pub subject: Option<Title>,
    /// Its text.
    pub body: Body,
    /// For whom it is.
    pub audience: Audience,
    /// When it was read; none if it was not.
    pub read_at: Option<Time>,
    /// When it was written.
    pub created_at: Time,
}

impl Output for Message {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Messages by box: an agent's (its mail), or the humans' (none); the read ones apart, so that the
/// unread are found among any number of them. Notes on tasks lie in no box.
pub static BY_BOX: Index<Message, (Option<Id<Member>>, bool)> =
    Index::many("messages.by_box", |message| match (message.audience, message.to_agent_id) {
        (Audience::Human, _) => Some((None, message.read_at.is_some())),
        (Audience::Agent, Some(agent)) => Some((Some(agent), message.read_at.is_some())),
        (Audience::Agent, None) => None,
    });

/// Messages by the task that they are about.
pub static BY_TASK: Index<Message, Id<Task>> = Index::many("messages.by_task", |m| m.task_id);

static TEAM: Reference<Message, Team> = Reference::cascade(
    &["team_id"],
    |team: &Team| team.id.to_bytes(),
    |message: &Message, _| vec![message.team_id.to_bytes()],
)
.deferred();

impl Record for Message {
    const TABLE: &'static str = "messages";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_BOX, &BY_TASK];
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

/// Whether a message has not been read. One that is not there has nobody to read it.
pub fn is_unread(view: &View, team: Id<Team>, id: Id<Message>) -> Result<bool> {
    Ok(view.get::<Message>(&(team, id))?.is_some_and(|message| message.read_at.is_none()))
}

/// Whether somebody else than `reader` left an unread note on a task at `since` or later.
pub fn has_unread_note(view: &View, task: &Task, reader: Id<Member>, since: Time) -> Result<bool> {
    let mut found = false;
    view.each(&BY_TASK, &(task.id, task.team_id), Order::Descending, |message: Message| {
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
