//! What events mean, in a few words for people: the subjects of mails, the titles of tasks.

use super::events::EventType;

impl EventType {
    /// Returns what happened, in a few words for people.
    pub fn headline(self) -> &'static str {
        match self {
            EventType::AgentStale => "An agent is silent",
            EventType::AgentDrifted => "An agent runs another deployment than the live one",
            EventType::AgentError => "An agent has an error",
            EventType::AgentImportComplete => "Prompts were imported",
            EventType::AgentImportPartial => "Some prompts could not be imported",
            EventType::AgentImportError => "No prompt could be imported",
            EventType::DeploymentComplete => "A deployment is complete",
            EventType::DeploymentError => "A deployment failed",
            EventType::DeploymentPartial => "A deployment failed in part",
            EventType::DeploymentTimeout => "A deployment was not approved in time",
            EventType::DeploymentPendingApproval => "A deployment waits for approval",
            EventType::DeploymentApproved => "A deployment was approved",
            EventType::EnvironmentInaccessible => "An environment cannot be reached",
            EventType::GovernancePassed => "An artifact passed its policies",
            EventType::GovernanceViolation => "An artifact violates a policy",
            EventType::GovernanceFlagCleared => "A flag was cleared",
            EventType::ApiKeyExpiring => "An API key expires soon",
            EventType::ApiKeyExpired => "An API key has expired",
            EventType::RegistryArtifactPublished => "A version was published",
            EventType::RegistryArtifactDeleted => "A version was deleted",
            EventType::RegistryDeleted => "A registry was deleted",
            EventType::LabelChangeRequested => "A label waits for approval to be moved",
            EventType::LabelChangeApproved => "A label was moved after approval",
            EventType::LabelChangeDenied => "The move of a label was denied",
            EventType::LabelChangeExpired => "The move of a label was not approved in time",
            EventType::TeamApprovalRequested => "An agent asks for a decision",
            EventType::TeamApprovalDecided => "A question was decided",
            EventType::TeamBudgetExhausted => "A budget is used up",
            EventType::TeamRunFailed => "A run failed",
            EventType::TeamMessageReceived => "An agent sent a message",
            EventType::TeamTaskAssigned => "A person was given a task",
            EventType::TeamAgentHired => "An agent joined a team",
            EventType::TeamAgentTerminated => "An agent left a team",
            EventType::TeamAgentSkillsGranted => "An agent has new skills",
            EventType::TeamExternalRequestReceived => "An outside agent asks to be admitted",
            EventType::TeamTimelineMilestone => "A milestone was reached",
            EventType::TeamTimelineProgressUpdate => "Progress was reported",
            EventType::TeamTimelineGoalUpdate => "A goal was updated",
            EventType::TeamTimelineBlockerDigest => "Blockers were reported",
            EventType::TeamTimelineSummary => "A summary was written",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_event_has_a_headline_of_its_own() {
        let headlines: BTreeSet<_> = EventType::ALL.into_iter().map(EventType::headline).collect();
        assert_eq!(headlines.len(), EventType::ALL.len());
    }
}
