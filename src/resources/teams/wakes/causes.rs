//! Causes of wakes: what is written for each.

use super::wake::{Wake, WakeReason, same_subject};
use super::webhooks;
use crate::base::{Id, Result};
use crate::outbox::LogEntry;
use crate::resources::teams::member::Member;
use crate::resources::teams::message::Message;
use crate::resources::teams::peer::Peer;
use crate::resources::teams::schedule::{Schedule, WakeText};
use crate::resources::teams::task::Task;
use crate::store::Tx;

/// The cause of a wake.
pub enum WakeCause<'a> {
    TaskAssigned(&'a Task),
    DirectMessage(&'a Message),
    /// This message is a note on this task, which it is responsible for.
    TaskNote(&'a Task, Id<Message>),
    /// This peer was admitted.
    ExternalRequest(Id<Peer>),
    /// This log entry came to a channel that wakes it.
    Notification(Id<LogEntry>),
    /// This task of its own is not blocked any more.
    TaskUnblocked(&'a Task),
    TaskReopened(&'a Task),
    /// The worker that had this task has given no sign of life.
    ClaimExpired(&'a Task),
    /// The last task for which this one waited is done.
    DependencyDone(&'a Task),
    /// This task was cancelled, and others wait for it.
    DependencyCancelled(&'a Task),
    /// The time of this task has passed.
    TaskOverdue(Id<Task>),
    /// This agent of its team does not acknowledge its wakes.
    WakeFailed(Id<Member>),
    /// An approval that it asked for, about this task if there is one, was decided.
    ApprovalDecided(Option<Id<Task>>),
    /// This schedule that wakes it is due, and tells it this.
    Schedule(Id<Schedule>, &'a WakeText),
    /// The budget of this agent of its team, or of the team, is low or used up, as this says.
    BudgetLow(Option<Id<Member>>, &'a WakeText),
}

/// Wakes `agent`, merging with a pending wake of the same subject. The caller excludes causes by the
/// agent itself: its own action never wakes it.
pub fn wake(tx: &mut Tx, agent: &Member, cause: &WakeCause) -> Result<()> {
    let wake = new(tx, agent, cause);
    tx.signal(agent.id.uuid());
    // One that was delivered stays as it is while its holder works; the two merge when it is
    // delivered again. One that was not keeps its position and its post.
    let newest = same_subject(&tx.view(), &wake)?.pop();
    if let Some(old) = newest.filter(|newest| newest.attempts == 0) {
        let Wake { id, message_id, while_closed, text, .. } = wake;
        return tx.replace(&old, &Wake { id, message_id, while_closed, text, ..old.clone() });
    }
    match agent.wake_url {
        Some(_) => webhooks::insert_and_enqueue(tx, wake),
        None => tx.insert(&wake),
    }
}

fn new(tx: &Tx, agent: &Member, cause: &WakeCause) -> Wake {
    let mut wake = Wake::blank(tx.new_id(), (agent.team, agent.id), tx.now());
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
        WakeCause::TaskUnblocked(task) => wake.set_task(WakeReason::TaskUnblocked, task.id),
        WakeCause::TaskReopened(task) => wake.set_task(WakeReason::TaskReopened, task.id),
        WakeCause::ClaimExpired(task) => wake.set_task(WakeReason::ClaimExpired, task.id),
        WakeCause::DependencyDone(task) => wake.set_task(WakeReason::DependencyDone, task.id),
        WakeCause::DependencyCancelled(task) => {
            wake.set_task(WakeReason::DependencyCancelled, task.id);
        }
        WakeCause::TaskOverdue(task) => wake.set_task(WakeReason::TaskOverdue, task),
        WakeCause::WakeFailed(agent) => {
            wake.reason = WakeReason::WakeFailed;
            wake.failed_agent = Some(agent);
        }
        WakeCause::ApprovalDecided(task) => {
            wake.reason = WakeReason::ApprovalDecided;
            wake.task_id = task;
        }
        WakeCause::Schedule(schedule, text) => {
            wake.reason = WakeReason::Schedule;
            wake.schedule_id = Some(schedule);
            wake.text = Some(text.clone());
        }
        WakeCause::BudgetLow(agent, text) => {
            wake.reason = WakeReason::BudgetLow;
            wake.budget_agent = agent;
            wake.text = Some(text.clone());
        }
    }
    wake
}

impl Wake {
    /// Makes it one about a task and nothing else.
    fn set_task(&mut self, reason: WakeReason, task: Id<Task>) {
        (self.reason, self.task_id) = (reason, Some(task));
    }
}
