//! Events: what happened, for people and for channels (interface §6, contract §9).

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::base::{Id, Json, JsonMap, Result, Time};
use crate::store::{Index, Org, Record, Tx};

/// Every event there is (interface §6).
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
});

impl EventType {
    /// All of them.
    pub const ALL: [EventType; 35] = [
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
        EventType::TeamApprovalRequested,
        EventType::TeamApprovalDecided,
        EventType::TeamBudgetExhausted,
        EventType::TeamRunFailed,
        EventType::TeamMessageReceived,
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

/// A way by which events reach somebody; what `notifications` calls a channel.
pub enum Channel {}

/// How far a log entry has come (interface §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Delivered.
    Sent,
    /// Not yet delivered, or the last attempt failed.
    Failed,
    /// Given up.
    Dead,
}
crate::store::stored_enum!(Delivery { Sent = 0, Failed = 1, Dead = 2 });

/// One event on its way through one channel.
#[derive(Clone, Debug, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// Its id.
    pub id: Id<LogEntry>,
    /// What happened.
    pub event_type: EventType,
    /// The channel it goes through.
    pub channel_id: Id<Channel>,
    /// How far it has come.
    pub status: Delivery,
    /// How often delivery was tried.
    pub attempts: u32,
    /// Ids and names of what it is about.
    #[schemars(with = "JsonMap")]
    pub payload: Json,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// When it happened.
    pub created_at: Time,
    /// When it was delivered.
    pub sent_at: Option<Time>,
    /// When delivery is tried next.
    pub next_attempt_at: Option<Time>,
}

/// What the log is ordered by, when and id, and what it is filtered by: its [`EventType`], the
/// channel and the [`Delivery`] so far. Every index of the log holds them, so that entries are
/// filtered and counted without being read (interface §4, GET /notifications/logs).
pub type Facts = (Time, Id<LogEntry>, (EventType, Id<Channel>, Delivery));

fn facts(entry: &LogEntry) -> Facts {
    let filtered = (entry.event_type, entry.channel_id, entry.status);
    (entry.created_at, entry.id, filtered)
}

/// The log by time.
pub static BY_TIME: Index<LogEntry, ((), Facts)> =
    Index::many("notifications.by_time", |entry| Some(((), facts(entry))));

/// The log by the type of the event.
pub static BY_TYPE: Index<LogEntry, (EventType, Facts)> =
    Index::many("notifications.by_type", |entry| Some((entry.event_type, facts(entry))));

/// The log by channel.
pub static BY_CHANNEL: Index<LogEntry, (Id<Channel>, Facts)> =
    Index::many("notifications.by_channel", |entry| Some((entry.channel_id, facts(entry))));

/// What was not delivered, by how far it came. What was is most of the log.
pub static UNSENT: Index<LogEntry, (Delivery, Facts)> =
    Index::many("notifications.unsent", |entry| match entry.status {
        Delivery::Sent => None,
        Delivery::Failed | Delivery::Dead => Some((entry.status, facts(entry))),
    });

impl Record for LogEntry {
    const TABLE: &'static str = "notifications";
    const INDEXES: &'static [&'static dyn crate::store::AnyIndex<Self>] =
        &[&BY_TIME, &BY_TYPE, &BY_CHANNEL, &UNSENT];
    type Key = Id<LogEntry>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The channel that every organization has from the start and that keeps everything: its id
/// follows from the organization's.
pub fn in_app(org: Id<Org>) -> Id<Channel> {
    let made = blake3::derive_key("roadstead 2026 built-in channel", org.bytes());
    let mut bytes = *org.bytes();
    // Time, version and variant stay the organization's, so that it is a UUIDv7 as all ids are.
    bytes[9..].copy_from_slice(&made[..7]);
    Id::new(Uuid::from_bytes(bytes))
}

/// Writes down that something happened, in the transaction that makes it happen. `payload` holds
/// ids and names of what it is about; it becomes part of the log that every member may read.
pub fn publish(tx: &mut Tx, event_type: EventType, payload: Value) -> Result<()> {
    let entry = LogEntry {
        id: tx.new_id(),
        event_type,
        channel_id: in_app(tx.org()),
        status: Delivery::Sent,
        attempts: 1,
        payload: Json(payload),
        error: None,
        created_at: tx.now(),
        sent_at: Some(tx.now()),
        next_attempt_at: None,
    };
    tx.insert(&entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_event_types_is_whole() {
        let schema = schemars::schema_for!(EventType).to_value();
        let listed = serde_json::to_value(EventType::ALL.to_vec()).unwrap();
        assert_eq!(listed, schema["enum"]);
    }
}
