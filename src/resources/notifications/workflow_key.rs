//! The kinds of channels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::{Error, Result};
use crate::outbox::Channel;

/// The key of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowKey {
    /// Shows events in the log.
    InApp,
    /// Posts signed events to a URL.
    Webhook,
    /// Sends events by mail.
    Email,
    /// Posts events to Slack.
    Slack,
    /// Creates a task of a team for each event.
    TeamTask,
    /// Wakes an agent for each event.
    AgentWake,
}

impl WorkflowKey {
    /// All of them, in the order in which they are listed.
    pub const ALL: [WorkflowKey; 6] = [
        WorkflowKey::InApp,
        WorkflowKey::Webhook,
        WorkflowKey::Email,
        WorkflowKey::Slack,
        WorkflowKey::TeamTask,
        WorkflowKey::AgentWake,
    ];

    /// Returns the key as text, as channels store it.
    pub const fn name(self) -> &'static str {
        match self {
            WorkflowKey::InApp => "in_app",
            WorkflowKey::Webhook => "webhook",
            WorkflowKey::Email => "email",
            WorkflowKey::Slack => "slack",
            WorkflowKey::TeamTask => "team_task",
            WorkflowKey::AgentWake => "agent_wake",
        }
    }

    /// Returns the key of a channel's workflow.
    ///
    /// # Errors
    /// 500 if there is no such workflow.
    pub fn of(channel: &Channel) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|key| key.name() == channel.workflow);
        found.ok_or_else(|| Error::internal(format!("there is no workflow {:?}", channel.workflow)))
    }
}
