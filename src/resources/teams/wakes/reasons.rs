//! Whether the reason of a wake still holds (reference: teams-and-wakes, "Joining and dropping").

use super::failed_wake::has_failed;
use super::wake::{DroppedWakes, Wake, WakeReason};
use crate::base::Result;
use crate::resources::teams::accounts;
use crate::resources::teams::dependency;
use crate::resources::teams::member::scrum_master;
use crate::resources::teams::message;
use crate::resources::teams::peer;
use crate::resources::teams::task::{self, Task, TaskStatus};
use crate::store::{Tx, View};

/// Whether the reason of a wake still holds.
pub fn has_reason(view: &View, wake: &Wake) -> Result<bool> {
    let task = match wake.task_id {
        Some(id) => view.get::<Task>(&(wake.team, id))?,
        None => None,
    };
    match (wake.reason, task) {
        (WakeReason::DirectMessage, _) => match wake.message_id {
            Some(message) => message::is_unread(view, wake.team, message),
            None => Ok(false),
        },
        (WakeReason::TaskAssigned, Some(task)) => {
            // One that waits for others wakes when it may be begun.
            let is_agents = task.assignee_agent_id == Some(wake.agent);
            Ok(!closed_since(wake, &task) && !task.is_waiting && is_agents)
        }
        (WakeReason::TaskNote, Some(task)) => {
            let agent = task::assignee_or_scrum_master(view, &task)?.map(|member| member.id);
            Ok(!closed_since(wake, &task)
                && agent == Some(wake.agent)
                && message::has_unread_note(view, &task, wake.agent, wake.created_at)?)
        }
        (WakeReason::TaskUnblocked | WakeReason::TaskReopened, Some(task)) => {
            Ok(task.is_workable() && task.assignee_agent_id == Some(wake.agent))
        }
        // Of a free task the Scrum Master is told, or who had it. A blocked one wakes its agent later.
        (WakeReason::ClaimExpired, Some(task)) => Ok(match task::current_assignee(view, &task)? {
            Some(agent) => agent == wake.agent && task.status == TaskStatus::Open,
            None => {
                let master = scrum_master(view, task.team_id)?;
                !task.is_closed() && master.is_none_or(|master| master.id == wake.agent)
            }
        }),
        (WakeReason::DependencyDone, Some(task)) => {
            let agent = task::assignee_or_scrum_master(view, &task)?.map(|member| member.id);
            Ok(task.is_workable() && agent == Some(wake.agent))
        }
        (WakeReason::DependencyCancelled, Some(task)) => Ok(task.status == TaskStatus::Cancelled
            && dependency::is_awaited(view, (wake.team, task.id))?),
        (WakeReason::TaskOverdue, Some(task)) => {
            // By the clock of the server that told it.
            Ok(!task.is_closed() && task.due_at.is_some_and(|due| !due.is_beyond(view.now(), 0)))
        }
        (
            WakeReason::TaskAssigned
            | WakeReason::TaskNote
            | WakeReason::TaskUnblocked
            | WakeReason::TaskReopened
            | WakeReason::ClaimExpired
            | WakeReason::DependencyDone
            | WakeReason::DependencyCancelled
            | WakeReason::TaskOverdue,
            None,
        ) => Ok(false),
        (WakeReason::ExternalRequest, _) => match wake.peer_id {
            Some(peer) => peer::is_accepted(view, wake.team, peer),
            None => Ok(false),
        },
        (WakeReason::WakeFailed, _) => match wake.failed_agent {
            Some(agent) => has_failed(view, agent),
            None => Ok(false),
        },
        (WakeReason::BudgetLow, _) => {
            Ok(accounts::notice(view, wake.team, wake.budget_agent)?.is_some())
        }
        (WakeReason::Notification | WakeReason::ApprovalDecided | WakeReason::Schedule, _) => {
            Ok(true)
        }
    }
}

/// Returns a wake as it is to be handed out; `None` if its reason no longer holds. What one says of a budget
/// is how that stands now.
pub fn as_it_stands(view: &View, wake: Wake) -> Result<Option<Wake>> {
    if wake.reason == WakeReason::BudgetLow {
        let text = accounts::notice(view, wake.team, wake.budget_agent)?;
        return Ok(text.map(|text| Wake { text: Some(text), ..wake }));
    }
    Ok(has_reason(view, &wake)?.then_some(wake))
}

/// Whether the task was closed after the wake's latest cause. A note on a task that was already
/// closed still wakes.
fn closed_since(wake: &Wake, task: &Task) -> bool {
    task.is_closed() && !wake.while_closed
}

/// Counts a wake that was dropped.
pub fn count_dropped(tx: &mut Tx) -> Result<()> {
    let DroppedWakes { count } = tx.get(&())?.unwrap_or_default();
    tx.put(&DroppedWakes { count: count + 1 })
}
