//! Mail: to an agent, to whoever works on a task, to the humans (interface §1.2, §1.3, §1.8,
//! contract §6).

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Peer;
use super::leftovers;
use super::lists::merged;
use super::members::{self, Member, fetch_member};
use super::tasks::{self, Claim, Task, fetch_if_named, fetch_task};
use super::team::{Team, fetch_team, must_exist};
use super::wakes::{self, Cause};
use crate::api::{Input, Req, Route};
use crate::auth::Rule;
use crate::base::{Body, Error, Id, Issue, Result, Time, Title};
use crate::outbox::{EventType, publish};
use crate::store::{AnyIndex, Index, Order, Page, Record, Source, Step, Tx, View};

// ── Record ───────────────────────────────────────────────────────────────────

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

/// Messages by box: an agent's (its mail), or the humans' (none); the read ones apart, so that the
/// unread are found among any number of them. Notes on tasks lie in no box.
static BY_BOX: Index<Message, (Option<Id<Member>>, bool)> =
    Index::many("messages.by_box", |message| match (message.audience, message.to_agent_id) {
        (Audience::Human, _) => Some((None, message.read_at.is_some())),
        (Audience::Agent, Some(agent)) => Some((Some(agent), message.read_at.is_some())),
        (Audience::Agent, None) => None,
    });

static BY_TASK: Index<Message, Id<Task>> = Index::many("messages.by_task", |m| m.task_id);

impl Record for Message {
    const TABLE: &'static str = "messages";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_BOX, &BY_TASK];
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
        Ok(if enough { Step::Enough } else { Step::More })
    })?;
    Ok(found)
}

/// Removes the messages of a team that was deleted, at most so many; says how many.
pub fn clear(tx: &mut Tx, team: Id<Team>, at_most: usize) -> Result<usize> {
    leftovers::remove_first::<Message>(tx, &team, at_most)
}

// ── What callers send ────────────────────────────────────────────────────────

/// Mail to an agent, or a note on a task.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewMessage {
    body: Body,
    to_agent_id: Option<Id<Member>>,
    subject: Option<Title>,
    task_id: Option<Id<Task>>,
    from_agent_id: Option<Id<Member>>,
}
impl Input for NewMessage {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.to_agent_id.is_none() && self.task_id.is_none() {
            issues.push(Issue::new("taskId", "is required when toAgentId is absent"));
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewInboxMessage {
    from_agent_id: Id<Member>,
    subject: Option<Title>,
    body: Body,
    task_id: Option<Id<Task>>,
}
impl Input for NewInboxMessage {}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MessageFilter {
    audience: Option<Audience>,
    agent_id: Option<Id<Member>>,
    task_id: Option<Id<Task>>,
    unread: Option<bool>,
}
impl Input for MessageFilter {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<Team>, MessageFilter>) -> Result<Page<Message>> {
    let team = must_exist(view, req.at)?;
    let MessageFilter { audience, agent_id, task_id, unread } = &req.input;
    let keep = |message: &Message| {
        audience.is_none_or(|audience| message.audience == audience)
            && agent_id.is_none_or(|id| message.to_agent_id == Some(id))
            && task_id.is_none_or(|id| message.task_id == Some(id))
            && unread.is_none_or(|unread| message.read_at.is_none() == unread)
    };
    let owner = match (agent_id, audience) {
        (Some(_), Some(Audience::Human)) => return Ok(Page::whole(vec![])),
        (Some(agent), _) => Some(Some(*agent)),
        (None, Some(Audience::Human)) => Some(None),
        (None, _) => None,
    };
    if let Some(owner) = owner {
        let read = [false, true].into_iter().filter(|read| *unread != Some(*read));
        let boxes: Vec<_> = read.map(|read| (owner, read)).collect();
        return merged(view, &BY_BOX, &boxes, team, &req.part, keep);
    }
    match task_id {
        Some(task) => merged(view, &BY_TASK, &[*task], team, &req.part, keep),
        None => view.page(Source::TABLE, &team, Order::Descending, &req.part, keep),
    }
}

/// Writes to an agent, or to whoever works on a task.
pub fn send(tx: &mut Tx, req: &Req<Id<Team>, NewMessage>) -> Result<Message> {
    let new = &req.input;
    let view = tx.view();
    let team = must_exist(&view, req.at)?;
    let to = fetch_if_named(&view, team, new.to_agent_id)?;
    let task = new.task_id.map(|id| fetch_task(&view, team, id)).transpose()?;
    let from = match new.from_agent_id {
        Some(id) => agent(&view, &fetch_member(&view, team, id)?)?,
        None => {
            let caller = req.caller();
            let (id, name) = (caller.user().cast(), caller.identity.name.clone());
            Sender { kind: SenderType::User, id, name }
        }
    };
    let message = Message {
        id: tx.new_id(),
        team_id: team,
        from,
        to_agent_id: new.to_agent_id,
        to_peer_id: None,
        task_id: new.task_id,
        subject: new.subject.clone(),
        body: new.body.clone(),
        audience: Audience::Agent,
        read_at: None,
        created_at: tx.now(),
    };
    tx.insert(&message)?;
    match (to, task) {
        (Some(to), _) => wake_unless_own(tx, &to, &message, &Cause::DirectMessage(&message))?,
        (None, Some(task)) => {
            if let Some(agent) = tasks::responsible(&tx.view(), &task)? {
                wake_unless_own(tx, &agent, &message, &Cause::TaskNote(&task, message.id))?;
            }
        }
        (None, None) => {}
    }
    Ok(message)
}

fn send_to_humans(tx: &mut Tx, req: &Req<Id<Team>, NewInboxMessage>) -> Result<Message> {
    let new = &req.input;
    let view = tx.view();
    let team = fetch_team(&view, req.at)?;
    let from = agent(&view, &fetch_member(&view, team.id, new.from_agent_id)?)?;
    if let Some(task) = new.task_id {
        fetch_task(&view, team.id, task)?;
    }
    let message = Message {
        id: tx.new_id(),
        team_id: team.id,
        from,
        to_agent_id: None,
        to_peer_id: None,
        task_id: new.task_id,
        subject: new.subject.clone(),
        body: new.body.clone(),
        audience: Audience::Human,
        read_at: None,
        created_at: tx.now(),
    };
    tx.insert(&message)?;
    let payload = json!({
        "teamId": team.id,
        "teamName": team.name,
        "messageId": message.id,
        "agentId": new.from_agent_id,
        "agentName": message.from.name,
        "taskId": message.task_id,
        "subject": message.subject,
    });
    publish(tx, EventType::TeamMessageReceived, payload)?;
    Ok(message)
}

fn show(view: &View, req: &Req<(Id<Team>, Id<Message>)>) -> Result<Message> {
    must_exist(view, req.at.0)?;
    view.fetch(&req.at)
}

/// Marks human mail read, when a human opens it; agents read theirs by [`consume`] (interface
/// §1.8).
fn open(tx: &mut Tx, req: &Req<(Id<Team>, Id<Message>)>) -> Result<Message> {
    must_exist(&tx.view(), req.at.0)?;
    let message: Message = tx.fetch(&req.at)?;
    match message.audience {
        Audience::Human => mark_read(tx, message),
        Audience::Agent => Ok(message),
    }
}

/// An agent's own reading of its mail and of the notes that are its business.
pub fn consume(tx: &mut Tx, req: &Req<(Id<Team>, Id<Message>), Claim>) -> Result<Message> {
    let view = tx.view();
    let team = must_exist(&view, req.at.0)?;
    let agent = fetch_member(&view, team, req.input.agent_id)?.id;
    let message: Message = view.fetch(&req.at)?;
    let reader = match (message.audience, message.to_agent_id, message.task_id) {
        (Audience::Agent, Some(to), _) => Some(to),
        (Audience::Agent, None, Some(task)) => {
            tasks::responsible(&view, &fetch_task(&view, team, task)?)?.map(|member| member.id)
        }
        _ => None,
    };
    match reader == Some(agent) {
        true => mark_read(tx, message),
        false => Err(Error::not_found()),
    }
}

fn mark_read(tx: &mut Tx, old: Message) -> Result<Message> {
    if old.read_at.is_some() {
        return Ok(old);
    }
    let message = Message { read_at: Some(tx.now()), ..old.clone() };
    tx.replace(&old, &message)?;
    Ok(message)
}

fn agent(view: &View, member: &Member) -> Result<Sender> {
    let name = members::name(view, member)?.into_string();
    Ok(Sender { kind: SenderType::Agent, id: member.id.cast(), name })
}

/// Wakes an agent for a message, unless it wrote it itself.
fn wake_unless_own(tx: &mut Tx, agent: &Member, message: &Message, cause: &Cause) -> Result<()> {
    match message.from.id == agent.id.cast() {
        true => Ok(()),
        false => wakes::wake(tx, agent, cause),
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

/// The routes of messages.
pub fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/messages";
    const ONE: &str = "/teams/{teamId}/messages/{messageId}";
    vec![
        Route::list(ALL, Rule::Member, "message.list", list).about("List a team's messages"),
        Route::post(ALL, Rule::Member, "message.create", send)
            .about("Write to an agent, or leave a note on a task"),
        Route::get(ONE, Rule::Member, "message.show", show).about("Show a message"),
        Route::patch(ONE, Rule::Member, "message.update", open)
            .about("Mark a message to the humans read; mail to agents stays as it is"),
        Route::post(
            "/teams/{teamId}/messages/{messageId}/consume",
            Rule::Member,
            "message.consume",
            consume,
        )
        .about("Mark an agent's mail, or a note on its task, read by that agent"),
        Route::post("/teams/{teamId}/inbox", Rule::Member, "inbox_message.create", send_to_humans)
            .about("Write to the humans"),
    ]
}

#[cfg(test)]
mod tests;
