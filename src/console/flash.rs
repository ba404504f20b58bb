//! Texts that the page after a form shows once. A cookie holds the name of one, never a text.

/// A text for the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flash {
    /// An account was changed.
    AccountSaved,
    /// A password was changed.
    PasswordChanged,
    /// The visitor signed out.
    SignedOut,
    /// A session was ended.
    SessionEnded,
    /// All other sessions were ended.
    SessionsEnded,
    /// An invitation was accepted.
    Joined,
    /// An organization was created.
    OrganizationCreated,
    /// A registry was created.
    RegistryCreated,
    /// A version was published.
    Published,
    /// A draft was saved.
    DraftSaved,
    /// A draft was deleted.
    DraftDeleted,
    /// A label was moved.
    LabelMoved,
    /// A label was removed.
    LabelRemoved,
    /// A version was deleted.
    VersionDeleted,
    /// A deployment was approved.
    Approved,
    /// A deployment was denied.
    Denied,
    /// A job was cancelled.
    Cancelled,
    /// The job of a rollback was created.
    RollbackBegun,
    /// An invitation was revoked.
    InvitationRevoked,
    /// A member was changed.
    MemberSaved,
    /// A member was removed.
    MemberRemoved,
    /// The visitor left an organization.
    Left,
    /// A service account was created.
    ServiceAccountCreated,
    /// An API key was revoked.
    KeyRevoked,
    /// A service account's key was taken over.
    KeyTakenOver,
    /// A grant was created.
    GrantCreated,
    /// A grant was removed.
    GrantRemoved,
    /// A provider was created.
    ProviderCreated,
    /// A provider was changed.
    ProviderSaved,
    /// A provider was deleted.
    ProviderDeleted,
    /// An entry of the log is delivered again.
    Redelivered,
    /// Entries of a channel are delivered again.
    RedeliveryBegun,
    /// A channel was created.
    ChannelCreated,
    /// A channel was changed.
    ChannelSaved,
    /// A channel was deleted.
    ChannelDeleted,
    /// A channel delivers another type of events.
    Subscribed,
    /// A channel delivers one type of events less.
    Unsubscribed,
    /// An environment was created.
    EnvironmentCreated,
    /// An environment was changed.
    EnvironmentSaved,
    /// An environment was deleted.
    EnvironmentDeleted,
    /// A variable was set.
    VariableSet,
    /// A variable was removed.
    VariableRemoved,
    /// A secret was set.
    SecretSet,
    /// A secret was removed.
    SecretRemoved,
    /// A credential was set.
    CredentialSet,
    /// A credential was removed.
    CredentialRemoved,
    /// A tool was created.
    ToolCreated,
    /// A tool was changed.
    ToolSaved,
    /// A tool was deleted.
    ToolDeleted,
    /// A policy was created.
    PolicyCreated,
    /// A policy was changed.
    PolicySaved,
    /// A policy was deleted.
    PolicyDeleted,
    /// A policy was assigned to a registry.
    PolicyAssigned,
    /// A policy was removed from a registry.
    PolicyUnassigned,
    /// A flag was cleared.
    FlagCleared,
    /// A listing was created.
    ListingCreated,
    /// A listing was changed.
    ListingSaved,
    /// A listing is public.
    ListingPublished,
    /// A listing is private.
    ListingHidden,
    /// A listing was deleted.
    ListingDeleted,
    /// A rule for a domain was made.
    RuleSet,
    /// A rule for a domain was deleted.
    RuleDeleted,
    /// Wakes of an agent are posted.
    WakeUrlSet,
    /// Wakes of an agent are not posted.
    WakeUrlCleared,
    /// A domain was added.
    DomainAdded,
    /// A domain was released.
    DomainReleased,
    /// A knowledge base was created.
    KnowledgeBaseCreated,
    /// A knowledge base was deleted.
    KnowledgeBaseDeleted,
    /// A document was added.
    DocumentAdded,
    /// A document was replaced.
    DocumentSaved,
    /// A document was deleted.
    DocumentDeleted,
    /// A task was moved.
    TaskOpen,
    /// A task was moved.
    TaskInProgress,
    /// A task was moved.
    TaskBlocked,
    /// A task was moved.
    TaskDone,
    /// A task was moved.
    TaskCancelled,
    /// A task was created.
    TaskCreated,
    /// A task was changed.
    TaskSaved,
    /// A note was written.
    NoteAdded,
    /// A message was marked as read.
    MessageRead,
    /// A message was answered.
    Answered,
    /// A team was created.
    TeamCreated,
    /// A team was changed.
    TeamSaved,
    /// A team was deleted.
    TeamDeleted,
    /// A question of an agent was answered with yes.
    TeamApproved,
    /// A question of an agent was answered with no.
    TeamDenied,
    /// An agent was added to a team.
    AgentHired,
    /// An agent was removed from a team.
    AgentRemoved,
    /// The role of an agent was changed.
    TeamAgentSaved,
    /// A memory was deleted.
    MemoryForgotten,
    /// An entry was added to a timeline.
    TimelineAdded,
    /// An outside agent was accepted.
    PeerAccepted,
    /// An outside agent was refused.
    PeerRefused,
    /// An outside agent was blocked.
    PeerBlocked,
    /// An outside agent was forgotten.
    PeerForgotten,
    /// An outside agent was written to.
    PeerWritten,
    /// An agent was created.
    AgentCreated,
    /// The draft of an agent was changed.
    AgentSaved,
    /// An agent was deleted.
    AgentDeleted,
    /// A version of an agent was made.
    AgentVersioned,
    /// A version of an agent was restored.
    AgentRestored,
    /// A fleet was created.
    FleetCreated,
    /// A fleet was changed.
    FleetSaved,
    /// A fleet was deleted.
    FleetDeleted,
    /// A deployment was created.
    Deployed,
}

/// All of them: the name in the cookie, and the text.
const ALL: &[(Flash, &str, &str)] = &[
    (Flash::AccountSaved, "account-saved", "Your account was saved."),
    (
        Flash::PasswordChanged,
        "password-changed",
        "Your password was changed, and all other sessions were signed out.",
    ),
    (Flash::SignedOut, "signed-out", "You are signed out."),
    (Flash::SessionEnded, "session-ended", "The session was signed out."),
    (Flash::SessionsEnded, "sessions-ended", "All other sessions were signed out."),
    (Flash::Joined, "joined", "Welcome. You are a member now."),
    (Flash::OrganizationCreated, "organization-created", "The organization was created."),
    (Flash::RegistryCreated, "registry-created", "The registry was created."),
    (Flash::Published, "published", "The version was published."),
    (Flash::DraftSaved, "draft-saved", "The draft was saved."),
    (Flash::DraftDeleted, "draft-deleted", "The draft was deleted."),
    (Flash::LabelMoved, "label-moved", "The label was moved. It takes effect at once."),
    (Flash::LabelRemoved, "label-removed", "The label was removed."),
    (Flash::VersionDeleted, "version-deleted", "The version was deleted."),
    (Flash::Approved, "approved", "Your approval is recorded."),
    (Flash::Denied, "denied", "The deployment was denied."),
    (Flash::Cancelled, "cancelled", "The job was cancelled."),
    (Flash::RollbackBegun, "rollback", "This job brings the targets back to what was live before."),
    (Flash::InvitationRevoked, "invitation-revoked", "The invitation was revoked."),
    (Flash::MemberSaved, "member-saved", "The member was saved."),
    (Flash::MemberRemoved, "member-removed", "The member was removed."),
    (Flash::Left, "left", "You have left the organization."),
    (Flash::ServiceAccountCreated, "account-created", "The service account was created."),
    (Flash::KeyRevoked, "key-revoked", "The key was revoked."),
    (Flash::KeyTakenOver, "key-taken-over", "You answer for the key now."),
    (Flash::GrantCreated, "grant-created", "Access was granted."),
    (Flash::GrantRemoved, "grant-removed", "The grant was removed."),
    (Flash::ProviderCreated, "provider-created", "The provider was created."),
    (Flash::ProviderSaved, "provider-saved", "The provider was saved."),
    (Flash::ProviderDeleted, "provider-deleted", "The provider was deleted."),
    (Flash::Redelivered, "redelivered", "The entry is delivered again."),
    (Flash::RedeliveryBegun, "redelivery", "The entries are delivered again, a few at a time."),
    (Flash::ChannelCreated, "channel-created", "The channel was created. Choose what it delivers."),
    (Flash::ChannelSaved, "channel-saved", "The channel was saved."),
    (Flash::ChannelDeleted, "channel-deleted", "The channel was deleted."),
    (Flash::Subscribed, "subscribed", "The channel delivers these events from now on."),
    (Flash::Unsubscribed, "unsubscribed", "The channel does not deliver these events any more."),
    (Flash::EnvironmentCreated, "environment-created", "The environment was created."),
    (Flash::EnvironmentSaved, "environment-saved", "The environment was saved."),
    (Flash::EnvironmentDeleted, "environment-deleted", "The environment was deleted."),
    (Flash::VariableSet, "variable-set", "The variable was set."),
    (Flash::VariableRemoved, "variable-removed", "The variable was removed."),
    (Flash::SecretSet, "secret-set", "The secret was set."),
    (Flash::SecretRemoved, "secret-removed", "The secret was removed."),
    (Flash::CredentialSet, "credential-set", "The credential was set."),
    (Flash::CredentialRemoved, "credential-removed", "The credential was removed."),
    (Flash::ToolCreated, "tool-created", "The tool was created."),
    (Flash::ToolSaved, "tool-saved", "The tool was saved."),
    (Flash::ToolDeleted, "tool-deleted", "The tool was deleted."),
    (Flash::PolicyCreated, "policy-created", "The policy was created. Assign it to a registry."),
    (Flash::PolicySaved, "policy-saved", "The policy was saved."),
    (Flash::PolicyDeleted, "policy-deleted", "The policy was deleted."),
    (Flash::PolicyAssigned, "policy-assigned", "The policy was assigned."),
    (
        Flash::PolicyUnassigned,
        "policy-unassigned",
        "The policy does not examine that registry any more.",
    ),
    (Flash::FlagCleared, "flag-cleared", "The flag was cleared."),
    (Flash::ListingCreated, "listing-created", "The agent is listed. Verify its domain next."),
    (Flash::ListingSaved, "listing-saved", "The listing was saved."),
    (Flash::ListingPublished, "listing-published", "Anyone can find the listing now."),
    (Flash::ListingHidden, "listing-hidden", "Only your organization sees the listing now."),
    (Flash::ListingDeleted, "listing-deleted", "The listing was deleted."),
    (Flash::RuleSet, "rule-set", "The rule applies from the next request on."),
    (Flash::RuleDeleted, "rule-deleted", "The rule was deleted."),
    (Flash::WakeUrlSet, "wake-url-set", "Its wakes are posted there from now on."),
    (Flash::WakeUrlCleared, "wake-url-cleared", "Its wakes are not posted any more."),
    (Flash::DomainAdded, "domain-added", "The domain was added."),
    (Flash::DomainReleased, "domain-released", "The domain was released."),
    (Flash::KnowledgeBaseCreated, "base-created", "The knowledge base was created."),
    (Flash::KnowledgeBaseDeleted, "base-deleted", "The knowledge base was deleted."),
    (Flash::DocumentAdded, "document-added", "The document was added."),
    (Flash::DocumentSaved, "document-saved", "The document was replaced."),
    (Flash::DocumentDeleted, "document-deleted", "The document was deleted."),
    (Flash::TaskOpen, "task-open", "The task is open."),
    (Flash::TaskInProgress, "task-in-progress", "The task is in progress."),
    (Flash::TaskBlocked, "task-blocked", "The task is blocked."),
    (Flash::TaskDone, "task-done", "The task is done."),
    (Flash::TaskCancelled, "task-cancelled", "The task is cancelled."),
    (Flash::TaskCreated, "task-created", "The task was created."),
    (Flash::TaskSaved, "task-saved", "The task was saved."),
    (Flash::NoteAdded, "note-added", "The note was added."),
    (Flash::MessageRead, "message-read", "The message is marked as read."),
    (Flash::Answered, "answered", "Your answer was sent."),
    (Flash::TeamCreated, "team-created", "The team was created. Add its agents next."),
    (Flash::TeamSaved, "team-saved", "The team was saved."),
    (Flash::TeamDeleted, "team-deleted", "The team was deleted."),
    (Flash::TeamApproved, "team-approved", "You approved. The agent reads it when it looks."),
    (Flash::TeamDenied, "team-denied", "You denied. The agent reads it when it looks."),
    (Flash::AgentHired, "agent-hired", "The agent is in the team now."),
    (Flash::AgentRemoved, "agent-removed", "The agent has left the team."),
    (Flash::TeamAgentSaved, "team-agent-saved", "Role and skills were saved."),
    (Flash::MemoryForgotten, "memory-forgotten", "The memory is forgotten."),
    (Flash::TimelineAdded, "timeline-added", "The entry was added."),
    (Flash::PeerAccepted, "peer-accepted", "The outside agent may write to the team now."),
    (Flash::PeerRefused, "peer-refused", "The outside agent was refused, and reads why."),
    (Flash::PeerBlocked, "peer-blocked", "The outside agent is blocked."),
    (Flash::PeerForgotten, "peer-forgotten", "The outside agent is forgotten."),
    (Flash::PeerWritten, "peer-written", "Your message was sent."),
    (Flash::AgentCreated, "agent-created", "The agent was created."),
    (Flash::AgentSaved, "agent-saved", "The draft was saved. Nothing that runs has changed."),
    (Flash::AgentDeleted, "agent-deleted", "The agent was deleted."),
    (Flash::AgentVersioned, "agent-versioned", "The draft is a version now."),
    (
        Flash::AgentRestored,
        "agent-restored",
        "The draft is as that version was. Deploy it to make it live.",
    ),
    (Flash::FleetCreated, "fleet-created", "The fleet was created."),
    (Flash::FleetSaved, "fleet-saved", "The fleet was saved."),
    (Flash::FleetDeleted, "fleet-deleted", "The fleet was deleted. Its agents stay."),
    (Flash::Deployed, "deployed", "The deployment is under way."),
];

impl Flash {
    /// Its name in the cookie.
    pub fn name(self) -> &'static str {
        let found = ALL.iter().find(|(flash, ..)| *flash == self);
        found.map_or("", |(_, name, _)| name)
    }

    /// Whether a text says that what was typed in the editor is on the server now.
    pub fn accepts_draft(text: &'static str) -> bool {
        let accepts = [Flash::Published, Flash::DraftSaved];
        accepts.iter().any(|flash| Flash::text(flash.name()) == Some(text))
    }

    /// The text of a name.
    pub fn text(name: &str) -> Option<&'static str> {
        ALL.iter().find(|(_, known, _)| *known == name).map(|(_, _, text)| *text)
    }
}
