//! Messages: to an agent, on a task, and to the humans
//! (reference: teams-and-wakes, "Messages").

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::changes;
use super::claim::WorkerName;
use super::claims::check_worker;
use super::lease::renew;
use super::lists::merged;
use super::member::{self, Member};
use super::message::{Audience, BY_INBOX, BY_TASK, Message, Sender, SenderType};
use super::task::{self, Task, fetch_task};
use super::team::{TEAM_IN_PATH, Team, fetch_team, require_team};
use super::usable::{AgentRef, UsableMember, UsableMembers, open_optional};
use super::wakes::{self, WakeCause};
use super::words::Words;
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{Caller, MEMBER, ScopeName};
use crate::base::{Body, Id, Issue, Result, Title};
use crate::outbox::{About, EventType, publish};
use crate::store::{ListSource, Order, Page, Record, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Message>()],
    events: &[EventType::TeamMessageReceived],
    ..Resource::EMPTY
};

// ── What callers send ────────────────────────────────────────────────────────

/// A message to an agent, or a note on a task; one of `toAgentId` and `taskId` is required.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"toAgentId": "01890a5d-ac96-774b-bcce-b302099a8057",
        "subject": "Release notes", "body": "Please begin with version 1.4."}],
    "if" = {"not": {"required": ["toAgentId"], "properties": {"toAgentId": {"type": "string"}}}},
    "then" = {"required": ["taskId"], "properties": {"taskId": {"type": "string"}}},
))]
pub struct NewMessage {
    body: Body,
    to_agent_id: Option<AgentRef>,
    subject: Option<Title>,
    task_id: Option<Id<Task>>,
    /// The agent of the team that sends it; absent, the user does.
    from_agent_id: Option<AgentRef>,
    /// The process of the agent that sends it, whose leases it renews.
    worker: Option<WorkerName>,
}
impl Input for NewMessage {
    fn check(&self, issues: &mut Vec<Issue>) {
        check_worker(self.worker.as_ref(), self.from_agent_id.as_ref(), issues);
        if self.to_agent_id.is_none() && self.task_id.is_none() {
            issues.push(Issue::new("taskId", "is required when toAgentId is absent"));
        }
    }
}

/// A message from an agent to the humans.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"fromAgentId": "01890a5d-ac96-774b-bcce-b302099a8057", "subject": "Done",
        "body": "The release notes are ready."}],
))]
pub struct NewInboxMessage {
    from_agent_id: AgentRef,
    subject: Option<Title>,
    body: Body,
    task_id: Option<Id<Task>>,
    /// The process of the agent that sends it, whose leases it renews.
    worker: Option<WorkerName>,
}
impl Input for NewInboxMessage {}

/// The agent that reads the message.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"agentId": "01890a5d-ac96-774b-bcce-b302099a8057"}],
))]
pub struct ConsumeMessage {
    /// An agent of the team.
    agent_id: AgentRef,
}
impl Input for ConsumeMessage {}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MessageFilter {
    /// Only messages to these recipients.
    audience: Option<Audience>,
    agent_id: Option<Id<Member>>,
    task_id: Option<Id<Task>>,
    /// True: only messages that were not read; false: only those that were.
    unread: Option<bool>,
    /// At most 32 words or parts of words that must all occur in the subject or the text; "in quotes" they
    /// must follow each other in one of the two; `begin*` must be where a word begins. Case does not matter,
    /// and an accent only where it is given. Other forms of a word are not found.
    q: Option<String>,
}
impl Input for MessageFilter {
    fn check(&self, issues: &mut Vec<Issue>) {
        Words::check(self.q.as_deref(), issues);
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<Team>, MessageFilter>) -> Result<Page<Message>> {
    let team = require_team(view, req.params)?;
    let MessageFilter { audience, agent_id, task_id, unread, q } = &req.input;
    let words = Words::of(q.as_deref());
    let usable = UsableMembers::of(view, req.caller());
    let keep = |message: &Message| {
        let is_shown = message.to_agent_id.is_none_or(|agent| usable.has(team, agent));
        is_shown
            && audience.is_none_or(|audience| message.audience == audience)
            && agent_id.is_none_or(|id| message.to_agent_id == Some(id))
            && task_id.is_none_or(|id| message.task_id == Some(id))
            && unread.is_none_or(|unread| message.read_at.is_none() == unread)
            && words.match_all(&texts_of(message))
    };
    let inbox = match (agent_id, audience) {
        (Some(_), Some(Audience::Human)) => return Ok(Page::single(vec![])),
        (Some(agent), _) if !usable.has(team, *agent) => return Ok(Page::single(vec![])),
        (Some(agent), _) => Some(Some(*agent)),
        (None, Some(Audience::Human)) => Some(None),
        (None, _) => None,
    };
    if let Some(inbox) = inbox {
        let read = [false, true].into_iter().filter(|read| *unread != Some(*read));
        let keys: Vec<_> = read.map(|read| (inbox, read)).collect();
        return merged(view, &BY_INBOX, &keys, team, &req.page, keep);
    }
    match task_id {
        Some(task) => merged(view, &BY_TASK, &[*task], team, &req.page, keep),
        None => view.page(ListSource::TABLE, &team, Order::Descending, &req.page, keep),
    }
}

/// The texts in which a message is looked for: no phrase goes on from one into the other.
fn texts_of(message: &Message) -> [&str; 2] {
    let subject = message.subject.as_ref().map_or("", |subject| subject.as_str());
    [subject, message.body.as_str()]
}

/// Sends a message to an agent, or a note to the agent responsible for a task.
pub fn send(tx: &mut Tx, req: &Req<Id<Team>, NewMessage>) -> Result<Message> {
    let new = &req.input;
    let view = tx.view();
    let team = require_team(&view, req.params)?;
    let to = open_optional(&view, req.caller(), team, new.to_agent_id.as_ref())?;
    let task = new.task_id.map(|id| fetch_task(&view, team, id)).transpose()?;
    let acting = open_optional(&view, req.caller(), team, new.from_agent_id.as_ref())?;
    let from = match &acting {
        Some(acting) => as_agent(&view, acting)?,
        None => as_user(req.caller()),
    };
    if let Some(acting) = &acting {
        renew(tx, acting, new.worker.as_ref())?;
    }
    let message = Message {
        to_agent_id: to.as_ref().map(|agent| agent.id),
        task_id: new.task_id,
        ..Message::new(tx, team, from, (&new.subject, &new.body))
    };
    tx.insert(&message)?;
    changes::tell(tx, message.team_id);
    match (to, task) {
        (Some(to), _) => wake_unless_own(tx, &to, &message, &WakeCause::DirectMessage(&message))?,
        (None, Some(task)) => {
            if let Some(agent) = task::assignee_or_scrum_master(&tx.view(), &task)? {
                wake_unless_own(tx, &agent, &message, &WakeCause::TaskNote(&task, message.id))?;
            }
        }
        (None, None) => {}
    }
    Ok(message)
}

pub(super) fn send_to_humans(tx: &mut Tx, req: &Req<Id<Team>, NewInboxMessage>) -> Result<Message> {
    let new = &req.input;
    let view = tx.view();
    let team = fetch_team(&view, req.params)?;
    let agent = new.from_agent_id.open(&view, req.caller(), team.id)?;
    let from = as_agent(&view, &agent)?;
    if let Some(task) = new.task_id {
        fetch_task(&view, team.id, task)?;
    }
    renew(tx, &agent, new.worker.as_ref())?;
    let message = Message {
        task_id: new.task_id,
        audience: Audience::Human,
        ..Message::new(tx, team.id, from, (&new.subject, &new.body))
    };
    tx.insert(&message)?;
    changes::tell(tx, message.team_id);
    let payload = json!({
        "teamId": team.id,
        "teamName": team.name,
        "messageId": message.id,
        "agentId": agent.id,
        "agentName": message.from.name,
        "taskId": message.task_id,
        "subject": message.subject,
    });
    let about = About::resource("message", message.id);
    publish(tx, EventType::TeamMessageReceived, about, payload)?;
    Ok(message)
}

fn get(view: &View, req: &Req<(Id<Team>, Id<Message>)>) -> Result<Message> {
    fetch_readable(view, req.caller(), req.params)
}

/// Returns a message that the caller may read: mail to an agent is its own.
///
/// # Errors
/// 404; 403 for mail to an agent that the caller may not use.
fn fetch_readable(
    view: &View,
    caller: &Caller,
    (team, id): (Id<Team>, Id<Message>),
) -> Result<Message> {
    require_team(view, team)?;
    let message: Message = view.fetch(&(team, id))?;
    if let Some(agent) = message.to_agent_id {
        UsableMembers::of(view, caller).require(team, agent)?;
    }
    Ok(message)
}

/// Marks a message to the humans read; agents read theirs by [`consume`]
/// (reference: teams-and-wakes, "Reading messages").
pub(super) fn open(tx: &mut Tx, req: &Req<(Id<Team>, Id<Message>)>) -> Result<Message> {
    let message = fetch_readable(&tx.view(), req.caller(), req.params)?;
    match message.audience {
        Audience::Human => mark_read(tx, message),
        Audience::Agent => Ok(message),
    }
}

/// Marks a message read by the agent it is addressed to, or a note by the agent responsible for its
/// task; mail of a peer that has no recipient, by the Scrum Master; 404 for any other agent.
pub fn consume(tx: &mut Tx, req: &Req<(Id<Team>, Id<Message>), ConsumeMessage>) -> Result<Message> {
    let view = tx.view();
    let team = require_team(&view, req.params.0)?;
    let agent = req.input.agent_id.open(&view, req.caller(), team)?.id;
    let message: Message = view.fetch(&req.params)?;
    let reader = match (message.audience, message.to_agent_id, message.task_id) {
        (Audience::Agent, Some(to), _) => Some(to),
        (Audience::Agent, None, Some(task)) => {
            task::assignee_or_scrum_master(&view, &fetch_task(&view, team, task)?)?
                .map(|member| member.id)
        }
        // Of a peer that wrote when there was no Scrum Master.
        (Audience::Agent, None, None) if message.from.kind == SenderType::Peer => {
            member::scrum_master(&view, team)?.map(|member| member.id)
        }
        _ => None,
    };
    if reader == Some(agent) { mark_read(tx, message) } else { Err(Message::missing(&req.params)) }
}

fn mark_read(tx: &mut Tx, old: Message) -> Result<Message> {
    if old.read_at.is_some() {
        return Ok(old);
    }
    let message = Message { read_at: Some(tx.now()), ..old.clone() };
    tx.replace(&old, &message)?;
    Ok(message)
}

/// Returns the sender of a message: this agent of the team, or else the caller.
pub fn sender(
    view: &View,
    team: Id<Team>,
    caller: &Caller,
    from_agent_id: Option<&AgentRef>,
) -> Result<Sender> {
    match from_agent_id {
        Some(named) => as_agent(view, &named.open(view, caller, team)?),
        None => Ok(as_user(caller)),
    }
}

fn as_user(caller: &Caller) -> Sender {
    let (id, name) = (caller.user().cast(), caller.identity.name.clone());
    Sender { kind: SenderType::User, id, name }
}

fn as_agent(view: &View, member: &UsableMember) -> Result<Sender> {
    let name = member::name(view, member)?.into_string();
    Ok(Sender { kind: SenderType::Agent, id: member.id.cast(), name })
}

/// Wakes an agent for a message, unless the agent sent it.
fn wake_unless_own(
    tx: &mut Tx,
    agent: &Member,
    message: &Message,
    cause: &WakeCause,
) -> Result<()> {
    if message.from.id == agent.id.cast() { Ok(()) } else { wakes::wake(tx, agent, cause) }
}

// ── Routes ───────────────────────────────────────────────────────────────────

/// The routes of messages.
pub fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/messages";
    const ONE: &str = "/teams/{teamId}/messages/{messageId}";
    vec![
        Route::get(ALL, MEMBER, "message.list", op::walk(list))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .costly_with("q")
            .about("List a team's messages, newest first"),
        Route::post(ALL, MEMBER, "message.create", op::write(send))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Send a message or a note on a task"),
        Route::get(ONE, MEMBER, "message.get", op::read(get))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("Get a message"),
        Route::patch(ONE, MEMBER, "message.update", op::write(open))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Mark a message to the humans read"),
        Route::post(
            "/teams/{teamId}/messages/{messageId}/consume",
            MEMBER,
            "message.consume",
            op::write(consume),
        )
        .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
        .about("Mark a message read by an agent"),
        Route::post(
            "/teams/{teamId}/inbox",
            MEMBER,
            "inbox_message.create",
            op::write(send_to_humans),
        )
        .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
        .about("Send a message to the humans"),
    ]
}

#[cfg(test)]
mod tests;
