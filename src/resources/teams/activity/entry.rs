//! Entries of a team's activity, as the API returns them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Output, ResourceRef};
use crate::auth::User;
use crate::base::{Id, Time};
use crate::resources::teams::member::Member;
use crate::resources::teams::task::Task;
use crate::resources::teams::team::Team;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActivityKind {
    /// A task was created.
    TaskCreated,
    /// A task was claimed, assigned, moved or otherwise changed.
    TaskChanged,
    /// A message was sent: to an agent, on a task, to the humans, or from or to an outside agent.
    MessageSent,
    /// An agent reported a run.
    RunReported,
    /// An agent asked the humans for a decision.
    ApprovalRequested,
    /// The humans decided.
    ApprovalDecided,
    /// An entry was added to the timeline.
    TimelineEntry,
    /// An agent stored a memory.
    MemoryStored,
    /// A schedule was due.
    ScheduleRan,
    /// An agent was added.
    AgentHired,
    /// An agent was removed.
    AgentLeft,
    /// An agent was given skills.
    SkillsGranted,
    /// The wake of an agent could not be posted.
    WakeFailed,
    /// The month's budget was exceeded.
    BudgetExhausted,
    /// An outside agent asks for access.
    ExternalRequest,
    /// All teams, the team, an agent in it or a schedule were paused.
    Paused,
    /// What was paused goes on.
    Resumed,
    /// The budget of the team or of an agent in it was set, changed or removed after its creation.
    BudgetChanged,
    /// The month of a budget that was used up has ended.
    BudgetRenewed,
    /// A schedule was created.
    ScheduleCreated,
    /// A schedule was changed.
    ScheduleChanged,
    /// A schedule was deleted.
    ScheduleDeleted,
}

/// The task that an entry is about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ActivityTask {
    pub id: Id<Task>,
    /// Its number in the team.
    pub number: u32,
    /// Its title now.
    pub title: String,
}

/// Something that happened in a team.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityEntry {
    /// Grows with time; what `after` and `Last-Event-ID` go on after.
    pub id: Id<ActivityEntry>,
    /// The team in which it happened.
    pub team_id: Id<Team>,
    /// What happened.
    pub kind: ActivityKind,
    /// The agent that did it, or to which it happened.
    pub agent_id: Option<Id<Member>>,
    /// The user who did it, also through a key.
    pub user_id: Option<Id<User>>,
    /// The name of the agent, else of the user; of a message, that of the sender. Null if it is not known, and
    /// of a user who is no member any more.
    pub name: Option<String>,
    /// The task that it is about.
    pub task: Option<ActivityTask>,
    /// The subject or the beginning of a message, the title of an approval or a timeline entry, the error
    /// of a run, the name of a schedule, the reason of a pause, the budget: at most 200 characters.
    pub text: Option<String>,
    /// What came of it: the status of a changed task or a run, a decision, the kind of a timeline entry, the
    /// outcome of a schedule, the scope of a pause, what happens when the budget is used up.
    pub status: Option<String>,
    /// The status of the task before, if the change is one of status.
    pub old_status: Option<String>,
    /// The agent that has the task since the change, if it had another one, or none, before.
    pub assignee_agent_id: Option<Id<Member>>,
    /// The id of what was created or changed: the task, message, run, approval, timeline entry, memory,
    /// schedule, agent, outside agent or team; of what is about all teams, the id of the entry.
    pub resource_id: Id<()>,
    /// Whether no entry that is not there yet can come before it: follow the list after one that is settled.
    pub settled: bool,
    pub created_at: Time,
}

impl Output for ActivityEntry {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}
