//! Rows as entries of the activity, before what they refer to is looked up.

use serde_json::Value;

use super::entry::{ActivityEntry, ActivityKind};
use crate::auth::User;
use crate::base::{Id, Time, word};
use crate::outbox::Event;
use crate::resources::teams::approvals::TeamApproval;
use crate::resources::teams::changes::TaskChange;
use crate::resources::teams::member::Member;
use crate::resources::teams::memories::Memory;
use crate::resources::teams::message::{Message, SenderType};
use crate::resources::teams::runs::Run;
use crate::resources::teams::schedule::Schedule;
use crate::resources::teams::schedules::ScheduleRun;
use crate::resources::teams::task::Task;
use crate::resources::teams::team_changes::{TeamChange, TeamChangeKind};
use crate::resources::teams::timeline::TimelineEntry;

/// A text in an entry has at most 200 characters.
const MAX_TEXT: usize = 200;

/// Who may see an entry, of those who may read the team.
#[derive(Clone, Copy, Debug)]
pub enum Guard {
    Everybody,
    /// Those who may use the agent.
    Agent(Id<Member>),
    /// Those who may see the schedule.
    Schedule(Id<Schedule>),
    /// Those who may read of outside agents.
    Exchange,
}

/// A row as an entry.
#[derive(Clone, Debug)]
pub struct Draft {
    pub id: Id<ActivityEntry>,
    pub kind: ActivityKind,
    pub guard: Guard,
    pub agent: Option<Id<Member>>,
    pub user: Option<Id<User>>,
    pub name: Option<String>,
    pub task: Option<Id<Task>>,
    pub text: Option<String>,
    pub status: Option<String>,
    pub old_status: Option<String>,
    pub assignee: Option<Id<Member>>,
    pub resource: Id<()>,
    pub created_at: Time,
}

impl Draft {
    /// An entry of a row that is about itself.
    fn new<T: ?Sized>(kind: ActivityKind, id: Id<T>, created_at: Time) -> Self {
        Draft {
            id: id.cast(),
            kind,
            guard: Guard::Everybody,
            agent: None,
            user: None,
            name: None,
            task: None,
            text: None,
            status: None,
            old_status: None,
            assignee: None,
            resource: id.cast(),
            created_at,
        }
    }
}

/// Returns the beginning of a text, in one line.
fn begun(text: &str) -> Option<String> {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let text: String = line.chars().take(MAX_TEXT).collect();
    Some(text).filter(|text| !text.is_empty())
}

/// That a task was created.
pub fn created(task: Task) -> Draft {
    let draft = Draft::new(ActivityKind::TaskCreated, task.id, task.created_at);
    Draft { user: task.created_by, task: Some(task.id), ..draft }
}

/// A change of a task.
pub fn changed(change: TaskChange) -> Draft {
    let is_moved = change.old_status != change.new_status;
    let is_assigned = change.old_assignee != change.new_assignee;
    Draft {
        agent: change.agent,
        user: change.by,
        task: Some(change.task),
        status: Some(word(change.new_status)),
        old_status: is_moved.then(|| word(change.old_status)),
        assignee: change.new_assignee.filter(|_| is_assigned),
        resource: change.task.cast(),
        ..Draft::new(ActivityKind::TaskChanged, change.id, change.created_at)
    }
}

/// That a message was sent.
pub fn sent(message: Message) -> Draft {
    let from = &message.from;
    let text = message.subject.as_ref().map_or(message.body.as_str(), |subject| subject.as_str());
    Draft {
        guard: message.to_agent_id.map_or(Guard::Everybody, Guard::Agent),
        agent: (from.kind == SenderType::Agent).then(|| from.id.cast()),
        user: (from.kind == SenderType::User).then(|| from.id.cast()),
        name: Some(from.name.clone()),
        task: message.task_id,
        text: begun(text),
        ..Draft::new(ActivityKind::MessageSent, message.id, message.created_at)
    }
}

/// A run that an agent reported.
pub fn reported(run: Run) -> Draft {
    Draft {
        guard: Guard::Agent(run.agent_id),
        agent: Some(run.agent_id),
        task: run.task_id,
        text: run.error.as_ref().and_then(|error| begun(error.as_str())),
        status: Some(word(run.status)),
        ..Draft::new(ActivityKind::RunReported, run.id, run.created_at)
    }
}

/// That an agent asked for a decision.
pub fn requested(approval: TeamApproval) -> Draft {
    Draft {
        guard: Guard::Agent(approval.agent_id),
        agent: Some(approval.agent_id),
        task: approval.task_id,
        text: begun(approval.title.as_str()),
        ..Draft::new(ActivityKind::ApprovalRequested, approval.id, approval.created_at)
    }
}

/// An entry of the timeline.
pub fn told(entry: TimelineEntry) -> Draft {
    Draft {
        agent: entry.agent_id,
        user: Some(entry.created_by),
        text: begun(entry.title.as_str()),
        status: Some(word(entry.kind)),
        ..Draft::new(ActivityKind::TimelineEntry, entry.id, entry.created_at)
    }
}

/// That an agent stored a memory: not what it says.
pub fn stored(memory: Memory) -> Draft {
    Draft {
        guard: Guard::Agent(memory.agent_id),
        agent: Some(memory.agent_id),
        ..Draft::new(ActivityKind::MemoryStored, memory.id, memory.created_at)
    }
}

/// What became of a time of a schedule.
pub fn ran(run: ScheduleRun) -> Draft {
    Draft {
        guard: Guard::Schedule(run.schedule),
        task: run.task_id,
        status: Some(word(run.outcome)),
        resource: run.schedule.cast(),
        ..Draft::new(ActivityKind::ScheduleRan, run.id, run.created_at)
    }
}

/// A change of the team, of an agent in it, or of a schedule.
pub fn team_changed(change: TeamChange) -> Draft {
    let kind = match change.kind {
        TeamChangeKind::Paused => ActivityKind::Paused,
        TeamChangeKind::Resumed => ActivityKind::Resumed,
        TeamChangeKind::BudgetChanged => ActivityKind::BudgetChanged,
        TeamChangeKind::BudgetExhausted => ActivityKind::BudgetExhausted,
        TeamChangeKind::BudgetRenewed => ActivityKind::BudgetRenewed,
        TeamChangeKind::ScheduleCreated => ActivityKind::ScheduleCreated,
        TeamChangeKind::ScheduleChanged => ActivityKind::ScheduleChanged,
        TeamChangeKind::ScheduleDeleted => ActivityKind::ScheduleDeleted,
    };
    let draft = Draft::new(kind, change.id, change.created_at);
    let of_team = change.team.map_or(draft.resource, Id::cast);
    let of_agent = change.agent.map_or(of_team, Id::cast);
    let text = match (&change.name, change.budget) {
        (Some(name), _) => begun(name.as_str()),
        (None, Some(budget)) => Some(format!("{} USD a month", budget.monthly_usd)),
        (None, None) => change.reason.as_ref().and_then(|reason| begun(reason.as_str())),
    };
    Draft {
        guard: change.agent.map_or(Guard::Everybody, Guard::Agent),
        // Nothing happened to the agent that a schedule names.
        agent: change.agent.filter(|_| change.schedule.is_none()),
        user: change.by,
        text,
        status: change.scope.map(word).or(change.budget.map(|one| word(one.on_exhausted))),
        resource: change.schedule.map_or(of_agent, Id::cast),
        ..draft
    }
}

/// An event that no other row tells of.
pub fn happened(event: Event) -> Draft {
    let payload = &event.payload.0;
    let text = |name: &str| payload[name].as_str().map(String::from);
    let id = |name: &str| payload[name].as_str().map(Id::<()>::parse);
    let agent: Option<Id<Member>> = id("agentId").map(Id::cast);
    let kind = match &*word(event.event_type) {
        "team.approval_decided" => ActivityKind::ApprovalDecided,
        "team.agent_hired" => ActivityKind::AgentHired,
        "team.agent_terminated" => ActivityKind::AgentLeft,
        "team.agent_skills_granted" => ActivityKind::SkillsGranted,
        "team.budget_exhausted" => ActivityKind::BudgetExhausted,
        "team.external_request_received" => ActivityKind::ExternalRequest,
        _ => ActivityKind::WakeFailed,
    };
    let (guard, shown) = match kind {
        ActivityKind::ApprovalDecided => (agent.map(Guard::Agent), "title"),
        ActivityKind::WakeFailed => (agent.map(Guard::Agent), "error"),
        ActivityKind::ExternalRequest => (Some(Guard::Exchange), "handle"),
        // Of the agent whose budget it is; that of the team is for all.
        ActivityKind::BudgetExhausted => (agent.map(Guard::Agent), ""),
        _ => (None, ""),
    };
    let skills = payload["skills"].as_array().filter(|_| kind == ActivityKind::SkillsGranted);
    let skills = skills.map(|skills| {
        let skills: Vec<_> = skills.iter().filter_map(Value::as_str).collect();
        skills.join(", ")
    });
    Draft {
        guard: guard.unwrap_or(Guard::Everybody),
        agent,
        user: id("decidedBy").map(Id::cast),
        name: text("agentName"),
        task: id("taskId").map(Id::cast),
        text: skills.or_else(|| text(shown)).and_then(|text| begun(&text)),
        status: text("decision"),
        resource: event.about.resource.id,
        ..Draft::new(kind, event.id, event.created_at)
    }
}
