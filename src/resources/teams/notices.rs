//! What channels of notifications do in a team: create tasks, and wake agents.

use super::member::{Member, fetch_member};
use super::task::TaskDescription;
use super::tasks::{self, NewTask};
use super::team::{Team, require_team};
use super::wakes::{self, WakeCause};
use crate::base::{Error, Id, Result, Title};
use crate::outbox::LogEntry;
use crate::store::{Tx, View};

/// Checks that a team, and an agent in it, exist.
///
/// # Errors
/// 404 if one of them does not.
pub fn require_target(view: &View, team: Id<Team>, agent: Option<Id<Member>>) -> Result<()> {
    require_team(view, team)?;
    agent.map_or(Ok(()), |agent| fetch_member(view, team, agent).map(drop))
}

/// Creates a task for a notice. It is for the whole team if the agent has left.
///
/// # Errors
/// 404 if the team does not exist.
pub fn create_task(
    tx: &mut Tx,
    team: Id<Team>,
    assignee: Option<Id<Member>>,
    title: &str,
    description: String,
) -> Result<()> {
    require_team(&tx.view(), team)?;
    let assignee: Option<Member> = match assignee {
        Some(agent) => tx.get(&(team, agent))?,
        None => None,
    };
    let invalid = |why| Error::internal(format!("a notice cannot be a task: {why}"));
    let task = NewTask {
        title: Title::parse(title).map_err(invalid)?,
        description: Some(TaskDescription::parse(description).map_err(invalid)?),
        project_id: None,
        assignee_agent_id: None,
        assignee_user_id: None,
        priority: None,
        from_agent_id: None,
        worker: None,
        parent_task_id: None,
        depends_on: None,
        due_at: None,
        labels: None,
    };
    tasks::make(tx, team, &task, (assignee.as_ref(), None), None).map(drop)
}

/// Wakes an agent for the log entry of a notice.
///
/// # Errors
/// 404 if the team or the agent does not exist.
pub fn wake_agent(
    tx: &mut Tx,
    team: Id<Team>,
    agent: Id<Member>,
    entry: Id<LogEntry>,
) -> Result<()> {
    require_team(&tx.view(), team)?;
    let agent = fetch_member(&tx.view(), team, agent)?;
    wakes::wake(tx, &agent, &WakeCause::Notification(entry))
}
