//! The names of all scopes, and what each can be narrowed to.

/// What a scope can be narrowed to with `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// Nothing: it is about all of its kind.
    Nothing,
    /// A registry: `main` or `acme/main`.
    Registry,
    /// A registry, or a label in it: `main#staging`.
    Label,
    /// A team, by its slug.
    Team,
    /// An environment, by its slug.
    Environment,
}

impl TargetForm {
    /// What follows the `@`, for people; empty if nothing may.
    pub fn placeholder(self) -> &'static str {
        match self {
            TargetForm::Nothing => "",
            TargetForm::Registry => "registry",
            TargetForm::Label => "registry#label",
            TargetForm::Team => "team",
            TargetForm::Environment => "environment",
        }
    }
}

/// A resource that the target of a scope may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeTarget {
    /// Its slug, or that of the registry that it is in.
    pub slug: String,
    /// The label, if it is one.
    pub label: Option<String>,
}

impl ScopeTarget {
    /// The resource with this slug.
    pub fn named(slug: &str) -> Self {
        ScopeTarget { slug: slug.into(), label: None }
    }
}

/// The name of a scope: a verb on a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeName {
    RegistryRead,
    ArtifactRead,
    ArtifactPublish,
    ArtifactDelete,
    LabelMove,
    LabelDecide,
    DraftRead,
    DraftWrite,
    AgentRead,
    AgentWrite,
    ToolRead,
    ToolWrite,
    EnvironmentRead,
    EnvironmentWrite,
    VariableRead,
    VariableWrite,
    SecretRead,
    SecretWrite,
    CredentialRead,
    CredentialWrite,
    DeploymentRead,
    DeploymentPreview,
    DeploymentCreate,
    DeploymentCancel,
    DeploymentDecide,
    DeploymentReport,
    TeamRead,
    TeamWork,
    TeamWrite,
    ExchangeRead,
    ExchangeWrite,
    PolicyRead,
    PolicyCheck,
    PolicyWrite,
    FlagRead,
    FlagClear,
    LlmProviderRead,
    LlmProviderWrite,
    LlmProviderTest,
    PromptProviderRead,
    PromptProviderWrite,
    ListingRead,
    ListingWrite,
    DomainRead,
    DomainWrite,
    MemberRead,
    GrantRead,
    GrantWrite,
    ChannelRead,
    ChannelWrite,
    ChannelTest,
    NotificationRead,
    NotificationRedeliver,
    MetricsRead,
}

use ScopeName as N;
use TargetForm::{Environment, Label, Nothing, Registry, Team};

/// Each name with its text and what it can be narrowed to, in the order of the enum.
const ROWS: [(ScopeName, &str, TargetForm); 54] = [
    (N::RegistryRead, "registry:read", Registry),
    (N::ArtifactRead, "artifact:read", Registry),
    (N::ArtifactPublish, "artifact:publish", Registry),
    (N::ArtifactDelete, "artifact:delete", Registry),
    (N::LabelMove, "label:move", Label),
    (N::LabelDecide, "label:decide", Label),
    (N::DraftRead, "draft:read", Registry),
    (N::DraftWrite, "draft:write", Registry),
    (N::AgentRead, "agent:read", Nothing),
    (N::AgentWrite, "agent:write", Nothing),
    (N::ToolRead, "tool:read", Nothing),
    (N::ToolWrite, "tool:write", Nothing),
    (N::EnvironmentRead, "environment:read", Environment),
    (N::EnvironmentWrite, "environment:write", Environment),
    (N::VariableRead, "variable:read", Environment),
    (N::VariableWrite, "variable:write", Environment),
    (N::SecretRead, "secret:read", Environment),
    (N::SecretWrite, "secret:write", Environment),
    (N::CredentialRead, "credential:read", Environment),
    (N::CredentialWrite, "credential:write", Environment),
    (N::DeploymentRead, "deployment:read", Environment),
    (N::DeploymentPreview, "deployment:preview", Environment),
    (N::DeploymentCreate, "deployment:create", Environment),
    (N::DeploymentCancel, "deployment:cancel", Environment),
    (N::DeploymentDecide, "deployment:decide", Environment),
    (N::DeploymentReport, "deployment:report", Environment),
    (N::TeamRead, "team:read", Team),
    (N::TeamWork, "team:work", Team),
    (N::TeamWrite, "team:write", Team),
    (N::ExchangeRead, "exchange:read", Team),
    (N::ExchangeWrite, "exchange:write", Team),
    (N::PolicyRead, "policy:read", Nothing),
    (N::PolicyCheck, "policy:check", Nothing),
    (N::PolicyWrite, "policy:write", Nothing),
    (N::FlagRead, "flag:read", Nothing),
    (N::FlagClear, "flag:clear", Nothing),
    (N::LlmProviderRead, "llm-provider:read", Nothing),
    (N::LlmProviderWrite, "llm-provider:write", Nothing),
    (N::LlmProviderTest, "llm-provider:test", Nothing),
    (N::PromptProviderRead, "prompt-provider:read", Nothing),
    (N::PromptProviderWrite, "prompt-provider:write", Nothing),
    (N::ListingRead, "listing:read", Nothing),
    (N::ListingWrite, "listing:write", Nothing),
    (N::DomainRead, "domain:read", Nothing),
    (N::DomainWrite, "domain:write", Nothing),
    (N::MemberRead, "member:read", Nothing),
    (N::GrantRead, "grant:read", Nothing),
    (N::GrantWrite, "grant:write", Nothing),
    (N::ChannelRead, "channel:read", Nothing),
    (N::ChannelWrite, "channel:write", Nothing),
    (N::ChannelTest, "channel:test", Nothing),
    (N::NotificationRead, "notification:read", Nothing),
    (N::NotificationRedeliver, "notification:redeliver", Nothing),
    (N::MetricsRead, "metrics:read", Nothing),
];

impl ScopeName {
    /// All names, by kind.
    pub fn all() -> impl Iterator<Item = ScopeName> {
        ROWS.iter().map(|(name, ..)| *name)
    }

    /// Returns the name with this text.
    pub fn parse(text: &str) -> Option<ScopeName> {
        ScopeName::all().find(|name| name.text() == text)
    }

    /// Its text: `artifact:read`.
    pub fn text(self) -> &'static str {
        ROWS[self as usize].1
    }

    /// Its kind: `artifact`.
    pub fn kind(self) -> &'static str {
        self.text().split(':').next().unwrap_or_default()
    }

    /// Its verb: `read`.
    pub fn verb(self) -> &'static str {
        self.text().split(':').next_back().unwrap_or_default()
    }

    /// What it can be narrowed to.
    pub fn target(self) -> TargetForm {
        ROWS[self as usize].2
    }

    /// Whether the access `read` includes it: what it permits changes nothing. (`preview` and
    /// `check` are apart from `read` since they take more: a preview any prompt that its user may
    /// use, a check perhaps a paid call of a language model.)
    pub fn is_read(self) -> bool {
        matches!(self.verb(), "read" | "preview" | "check")
    }
}

impl std::fmt::Display for ScopeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_has_its_own_row() {
        for (index, (name, text, _)) in ROWS.iter().enumerate() {
            assert_eq!(*name as usize, index, "{text}");
            assert_eq!(ScopeName::parse(text), Some(*name));
            assert_eq!(format!("{}:{}", name.kind(), name.verb()), *text);
        }
        let texts: BTreeSet<_> = ROWS.iter().map(|(_, text, _)| text).collect();
        assert_eq!(texts.len(), ROWS.len());
        assert_eq!(ScopeName::MetricsRead as usize + 1, ROWS.len());
    }
}
