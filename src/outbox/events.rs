//! Events: what happened in an organization, written once in the transaction that causes it.
//!
//! An event's row is also its delivery through the built-in channel, which is subscribed to all
//! events and delivers at once. The common case therefore costs two keys: the row, whose key sorts
//! by time, and its entry by type. Other channels get separate [deliveries](super::Delivery),
//! created after the commit.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::guards::Guards;
use crate::base::{Id, Json, Result, Time, TraceParent};
use crate::store::{AnyIndex, Export, Index, Order, Record, View, upgrade_shorter};

/// The type of an event (reference: events, "Events").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EventType {
    #[serde(rename = "agent.stale")]
    AgentStale,
    #[serde(rename = "agent.drifted")]
    AgentDrifted,
    #[serde(rename = "agent.error")]
    AgentError,
    #[serde(rename = "agent.import.complete")]
    AgentImportComplete,
    #[serde(rename = "agent.import.partial")]
    AgentImportPartial,
    #[serde(rename = "agent.import.error")]
    AgentImportError,
    #[serde(rename = "deployment.complete")]
    DeploymentComplete,
    #[serde(rename = "deployment.error")]
    DeploymentError,
    #[serde(rename = "deployment.partial")]
    DeploymentPartial,
    #[serde(rename = "deployment.timeout")]
    DeploymentTimeout,
    #[serde(rename = "deployment.pending_approval")]
    DeploymentPendingApproval,
    #[serde(rename = "deployment.approved")]
    DeploymentApproved,
    #[serde(rename = "environment.inaccessible")]
    EnvironmentInaccessible,
    #[serde(rename = "governance.passed")]
    GovernancePassed,
    #[serde(rename = "governance.violation")]
    GovernanceViolation,
    #[serde(rename = "governance.flag_cleared")]
    GovernanceFlagCleared,
    #[serde(rename = "api_key.expiring")]
    ApiKeyExpiring,
    #[serde(rename = "api_key.expired")]
    ApiKeyExpired,
    #[serde(rename = "registry.artifact_published")]
    RegistryArtifactPublished,
    #[serde(rename = "registry.artifact_deleted")]
    RegistryArtifactDeleted,
    #[serde(rename = "registry.deleted")]
    RegistryDeleted,
    #[serde(rename = "label_change.requested")]
    LabelChangeRequested,
    #[serde(rename = "label_change.approved")]
    LabelChangeApproved,
    #[serde(rename = "label_change.denied")]
    LabelChangeDenied,
    #[serde(rename = "label_change.expired")]
    LabelChangeExpired,
    #[serde(rename = "team.approval_requested")]
    TeamApprovalRequested,
    #[serde(rename = "team.approval_decided")]
    TeamApprovalDecided,
    #[serde(rename = "team.budget_exhausted")]
    TeamBudgetExhausted,
    #[serde(rename = "team.run_failed")]
    TeamRunFailed,
    #[serde(rename = "team.message_received")]
    TeamMessageReceived,
    #[serde(rename = "team.task_assigned")]
    TeamTaskAssigned,
    #[serde(rename = "team.agent_hired")]
    TeamAgentHired,
    #[serde(rename = "team.agent_terminated")]
    TeamAgentTerminated,
    #[serde(rename = "team.agent_skills_granted")]
    TeamAgentSkillsGranted,
    #[serde(rename = "team.external_request_received")]
    TeamExternalRequestReceived,
    #[serde(rename = "team.timeline_milestone")]
    TeamTimelineMilestone,
    #[serde(rename = "team.timeline_progress_update")]
    TeamTimelineProgressUpdate,
    #[serde(rename = "team.timeline_goal_update")]
    TeamTimelineGoalUpdate,
    #[serde(rename = "team.timeline_blocker_digest")]
    TeamTimelineBlockerDigest,
    #[serde(rename = "team.timeline_summary")]
    TeamTimelineSummary,
}
crate::store::stored_enum!(EventType {
    AgentStale = 0,
    AgentDrifted = 1,
    AgentError = 2,
    AgentImportComplete = 3,
    AgentImportPartial = 4,
    AgentImportError = 5,
    DeploymentComplete = 6,
    DeploymentError = 7,
    DeploymentPartial = 8,
    DeploymentTimeout = 9,
    DeploymentPendingApproval = 10,
    DeploymentApproved = 11,
    EnvironmentInaccessible = 12,
    GovernancePassed = 13,
    GovernanceViolation = 14,
    GovernanceFlagCleared = 15,
    ApiKeyExpiring = 16,
    ApiKeyExpired = 17,
    RegistryArtifactPublished = 18,
    RegistryArtifactDeleted = 19,
    RegistryDeleted = 20,
    TeamApprovalRequested = 21,
    TeamApprovalDecided = 22,
    TeamBudgetExhausted = 23,
    TeamRunFailed = 24,
    TeamMessageReceived = 25,
    TeamAgentHired = 26,
    TeamAgentTerminated = 27,
    TeamAgentSkillsGranted = 28,
    TeamExternalRequestReceived = 29,
    TeamTimelineMilestone = 30,
    TeamTimelineProgressUpdate = 31,
    TeamTimelineGoalUpdate = 32,
    TeamTimelineBlockerDigest = 33,
    TeamTimelineSummary = 34,
    LabelChangeRequested = 35,
    LabelChangeApproved = 36,
    LabelChangeDenied = 37,
    LabelChangeExpired = 38,
    TeamTaskAssigned = 39,
});

impl EventType {
    /// All types, in the order of the reference.
    pub const ALL: [EventType; 40] = [
        EventType::AgentStale,
        EventType::AgentDrifted,
        EventType::AgentError,
        EventType::AgentImportComplete,
        EventType::AgentImportPartial,
        EventType::AgentImportError,
        EventType::DeploymentComplete,
        EventType::DeploymentError,
        EventType::DeploymentPartial,
        EventType::DeploymentTimeout,
        EventType::DeploymentPendingApproval,
        EventType::DeploymentApproved,
        EventType::EnvironmentInaccessible,
        EventType::GovernancePassed,
        EventType::GovernanceViolation,
        EventType::GovernanceFlagCleared,
        EventType::ApiKeyExpiring,
        EventType::ApiKeyExpired,
        EventType::RegistryArtifactPublished,
        EventType::RegistryArtifactDeleted,
        EventType::RegistryDeleted,
        EventType::LabelChangeRequested,
        EventType::LabelChangeApproved,
        EventType::LabelChangeDenied,
        EventType::LabelChangeExpired,
        EventType::TeamApprovalRequested,
        EventType::TeamApprovalDecided,
        EventType::TeamBudgetExhausted,
        EventType::TeamRunFailed,
        EventType::TeamMessageReceived,
        EventType::TeamTaskAssigned,
        EventType::TeamAgentHired,
        EventType::TeamAgentTerminated,
        EventType::TeamAgentSkillsGranted,
        EventType::TeamExternalRequestReceived,
        EventType::TeamTimelineMilestone,
        EventType::TeamTimelineProgressUpdate,
        EventType::TeamTimelineGoalUpdate,
        EventType::TeamTimelineBlockerDigest,
        EventType::TeamTimelineSummary,
    ];
}

crate::base::portable! {
/// The kind and id of a resource that an event refers to.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ResourceId {
    /// The kind, as in the audit log: `team`, `registry`.
    pub kind: String,
    /// The record's id.
    pub id: Id<()>,
}
}

impl ResourceId {
    fn new<T: ?Sized>(kind: &'static str, id: Id<T>) -> Self {
        ResourceId { kind: kind.into(), id: id.cast() }
    }
}

crate::base::portable! {
/// The resource that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct About {
    /// The resource itself.
    pub resource: ResourceId,
    /// What it belongs to: members who may not use all of it do not see the event, and what belongs to
    /// a user is for that user and for admins. Empty where every member may see it.
    pub guarded_by: Vec<ResourceId>,
}
}

impl About {
    /// An event about a resource that every member may see.
    pub fn resource<T: ?Sized>(kind: &'static str, id: Id<T>) -> Self {
        About { resource: ResourceId::new(kind, id), guarded_by: Vec::new() }
    }

    /// Names a restrictable resource, an agent or a user that the event belongs to, beside those named
    /// before.
    pub fn guarded_by<T: ?Sized>(mut self, kind: &'static str, id: Id<T>) -> Self {
        let guard = ResourceId::new(kind, id);
        if !self.guarded_by.contains(&guard) {
            self.guarded_by.push(guard);
        }
        self
    }
}

crate::base::portable! {
/// An event.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Event {
    /// Its id, and that of its delivery through the built-in channel in the log.
    pub id: Id<Event>,
    pub event_type: EventType,
    /// The resource that it is about.
    pub about: About,
    /// Ids and names of the resources that it is about, as sent through channels.
    pub payload: Json,
    /// When it happened.
    pub created_at: Time,
    /// The number of deliveries through the built-in channel.
    pub attempts: u32,
    /// The time of the last of them.
    pub sent_at: Time,
    /// The trace of the request that caused it.
    pub trace: Option<TraceParent>,
}
}

impl Event {
    /// The ids of what the event belongs to. Earlier versions did not say that an event about an agent
    /// belongs to that agent, and one about an API key to the user of the key.
    pub fn guards(&self) -> Vec<Id<()>> {
        let mut guards: Vec<_> = self.about.guarded_by.iter().map(|guard| guard.id).collect();
        let unsaid = match self.event_type {
            EventType::AgentStale | EventType::AgentDrifted | EventType::AgentError => {
                Some(self.about.resource.id)
            }
            EventType::ApiKeyExpiring | EventType::ApiKeyExpired => {
                self.payload.0["userId"].as_str().map(Id::parse)
            }
            _ => None,
        };
        guards.extend(unsaid.filter(|guard| !guards.contains(guard)));
        guards
    }
}

/// Events by type and time. Every entry ends with the record's key, so that a page is found and
/// counted without reading a record.
pub static EVENTS_BY_TYPE: Index<Event, EventType> =
    Index::non_unique("events.by_type", |event| Some(event.event_type));

/// Guarded events by type and time, with their guards: the log leaves out those that a member may not
/// see without reading them.
pub(super) static GUARDED_EVENTS: Index<Event, GuardedKey> =
    Index::non_unique("events.guarded", |event: &Event| {
        let guards = event.guards();
        let key = || (event.event_type, event.created_at, event.id, Guards::of(&guards));
        (!guards.is_empty()).then(key)
    })
    .version(2);

type GuardedKey = (EventType, Time, Id<Event>, Guards);

/// What happened in a team and left no other row, by the team.
pub static EVENTS_BY_TEAM: Index<Event, (Id<()>, Id<Event>)> =
    Index::non_unique("events.by_team", |event| Some((of_team(event, "teamId")?, event.id)));

type TaskOfTeam = (Id<()>, Id<()>);

/// The same by team and task, if it is about a task.
pub static EVENTS_BY_TASK: Index<Event, (TaskOfTeam, Id<Event>)> =
    Index::non_unique("events.by_task", |event| {
        Some(((of_team(event, "teamId")?, of_team(event, "taskId")?), event.id))
    });

/// The id in a field of the payload, of an event of a team that no other row tells of. That a run has
/// failed is in the run; this type says of wakes, too, that they could not be posted.
fn of_team(event: &Event, field: &str) -> Option<Id<()>> {
    let payload = &event.payload.0;
    let is_alone = match event.event_type {
        EventType::TeamApprovalDecided
        | EventType::TeamBudgetExhausted
        | EventType::TeamAgentHired
        | EventType::TeamAgentTerminated
        | EventType::TeamAgentSkillsGranted
        | EventType::TeamExternalRequestReceived => true,
        EventType::TeamRunFailed => payload.get("wakeId").is_some(),
        _ => false,
    };
    payload[field].as_str().filter(|_| is_alone).map(Id::parse)
}

/// The few events whose key does not follow from their id: those written while ids ran ahead of
/// the clock (after a restart, or when the clock was set back), or across a millisecond.
static BY_ID: Index<Event, Id<Event>> = Index::non_unique("events.by_id", |event| {
    (event.id.time() != event.created_at).then_some(event.id)
});

impl Record for Event {
    const TABLE: &'static str = "events";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&EVENTS_BY_TYPE, &GUARDED_EVENTS, &EVENTS_BY_TEAM, &EVENTS_BY_TASK, &BY_ID];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("about.resource.id", "history: the resource may have been deleted since"),
        ("about.guarded_by.id", "history: the resource may have been deleted since"),
    ];
    const VERSION: u8 = 2;
    type Key = (Time, Id<Event>);
    fn key(&self) -> Self::Key {
        (self.created_at, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// Returns the event with this id.
pub fn find_event(view: &View, id: Id<Event>) -> Result<Option<Event>> {
    match view.get(&(id.time(), id))? {
        Some(event) => Ok(Some(event)),
        None => view.first(&BY_ID, &id, Order::Ascending),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::outbox::publish;
    use crate::store::{Clock, ListSource, Org, Store, Tx};

    #[test]
    fn the_list_of_event_types_is_complete() {
        let schema = schemars::schema_for!(EventType).to_value();
        let listed = serde_json::to_value(EventType::ALL.to_vec()).unwrap();
        assert_eq!(listed, schema["enum"]);
    }

    #[test]
    fn an_event_is_found_by_its_id_though_the_clock_was_set_back() {
        let store = Store::in_memory(Clock::at(Time::from_millis(1_800_000_000_000)), &[]);
        let org: Id<Org> = Id::new(Uuid::from_u128(1));
        let publish = |tx: &mut Tx| {
            publish(tx, EventType::AgentError, About::resource("agent", tx.org()), json!({}))
        };
        for secs in [0, 5, -3600, 1, 7200] {
            store.clock().advance_secs(secs);
            store.write_blocking(org, publish).unwrap();
        }
        let read = |view: &View| {
            let events: Vec<Event> = view.all(ListSource::TABLE, &())?;
            for event in &events {
                assert_eq!(find_event(view, event.id)?.unwrap().key(), event.key());
            }
            let late = view.count(ListSource::from(&BY_ID), &(), 9)?;
            assert!(find_event(view, Id::new(Uuid::from_u128(7)))?.is_none());
            Ok((events.len(), late))
        };
        assert_eq!(store.read_now(org, read).unwrap(), (5, 2));
        assert_eq!(store.check(crate::outbox::TABLES).unwrap().messages, Vec::<String>::new());
    }
}
