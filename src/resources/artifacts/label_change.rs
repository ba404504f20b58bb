//! The record of a change of a protected label that takes approvals, with the approvals of its
//! approvers, and how callers see it (reference: registries-and-templates, "Label changes").

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::ArtifactId;
use super::label_history;
use crate::api::{OldestRow, Output, Resource, ResourceRef};
use crate::auth::{Restricted, User};
use crate::base::{ArtifactName, Email, Id, Label, Result, Time, Version};
use crate::outbox::{RetentionSettings, Sweep, delete_due};
use crate::resources::approvals::{Approval, ApprovalPolicy, Vote};
use crate::resources::registries::{ArtifactType, Registry};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Record, Reference, TableInfo,
    Tx, View,
};

pub(super) const RESOURCE: Resource = Resource {
    tables: &[TableInfo::of::<LabelChange>(), TableInfo::of::<LabelChangeApproval>()],
    sweeps: &[DELETE_FINISHED],
    oldest: &[OLDEST],
    ..Resource::EMPTY
};

// ── Records ──────────────────────────────────────────────────────────────────

/// The state of a label change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LabelChangeState {
    /// It waits for approvals.
    Pending,
    /// It was approved, and the label moved with the last approval.
    Approved,
    /// An approver denied it.
    Denied,
    /// It was cancelled.
    Cancelled,
    /// The label was moved otherwise, or another change of it was asked for.
    Superseded,
    /// It was not approved in time.
    Expired,
}
crate::store::stored_enum!(LabelChangeState {
    Pending = 0,
    Approved = 1,
    Denied = 2,
    Cancelled = 3,
    Superseded = 4,
    Expired = 5,
});

/// A change of a protected label. All that is approved is frozen in it.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct LabelChange {
    pub id: Id<LabelChange>,
    /// The artifact, which may have been deleted since.
    pub of: ArtifactId,
    /// `<orgSlug>/<registrySlug>` of the registry.
    pub registry_ref: String,
    pub label: Label,
    /// The version that it is to be moved from; none if it is new.
    pub from: Option<Version>,
    /// The version that it is to be moved to; none if it is to be removed.
    pub to: Option<Version>,
    /// The hash of what that version says, for all models; none if the label is to be removed.
    pub content_hash: Option<String>,
    /// Who must approve it.
    pub approvals: ApprovalPolicy,
    pub state: LabelChangeState,
    /// The user who asked for it, also through a key.
    pub asked_by: Id<User>,
    /// Who answered for the key that asked for it, if it is one of a service account.
    pub sponsor: Option<Id<User>>,
    /// The name of the key that asked for it.
    pub via: Option<String>,
    pub created_at: Time,
    pub finished_at: Option<Time>,
    /// Until when it waits.
    pub expires_at: Time,
}
crate::base::portable!(LabelChange {
    id, of, label, from, to, content_hash, approvals, state, asked_by, sponsor, via, created_at,
    finished_at, expires_at,
} refs { registry_ref });

/// The pending change of a label.
pub static PENDING: Index<LabelChange, (ArtifactId, Label)> = Index::unique(
    "label_changes.pending",
    "label_change_pending",
    "a change of this label waits already",
    |change| change.is_pending().then(|| (change.of.clone(), change.label.clone())),
);

/// Label changes by registry.
pub static BY_REGISTRY: Index<LabelChange, Id<Registry>> =
    Index::non_unique("label_changes.by_registry", |change| Some(change.of.registry));

/// Label changes by artifact.
pub static BY_ARTIFACT: Index<LabelChange, ArtifactId> =
    Index::non_unique("label_changes.by_artifact", |change| Some(change.of.clone()));

/// Label changes by state.
pub static BY_STATE: Index<LabelChange, LabelChangeState> =
    Index::non_unique("label_changes.by_state", |change| Some(change.state));

/// Pending label changes, by when they expire.
pub static BY_EXPIRY: Index<LabelChange, Time> =
    Index::non_unique("label_changes.by_expiry", |change| {
        change.is_pending().then_some(change.expires_at)
    });

static BY_END: Index<LabelChange, Time> =
    Index::non_unique("label_changes.by_end", |change| change.finished_at);

/// Lists leave out those whose registry is gone: nobody may use it.
static REGISTRY: Reference<LabelChange, Restricted<Registry>> = Reference::cascade(
    &["of.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |change: &LabelChange, _| vec![change.of.registry.to_bytes()],
)
.by(&BY_REGISTRY)
.deferred();

impl Record for LabelChange {
    const TABLE: &'static str = "label_changes";
    const NOUN: &'static str = "label change";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&PENDING, &BY_REGISTRY, &BY_ARTIFACT, &BY_STATE, &BY_EXPIRY, &BY_END];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("approvals.approver_ids", "frozen: who has left can no longer decide"),
        ("asked_by", "history: who asked for it may have left"),
        ("sponsor", "history: who answered for its key may have left"),
    ];
    type Key = Id<LabelChange>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

impl LabelChange {
    /// Whether it waits for approvals.
    pub fn is_pending(&self) -> bool {
        self.state == LabelChangeState::Pending
    }

    /// Returns how the audit log names it.
    pub fn audited(&self) -> String {
        let artifact = label_history::audited_name(&self.registry_ref, self.of.kind, &self.of.name);
        format!("{artifact} {}", self.step())
    }

    /// The label with its versions.
    pub fn step(&self) -> String {
        label_history::step(&self.label, [self.from.as_ref(), self.to.as_ref()])
    }
}

crate::base::portable! {
/// The approval of a change by one of its approvers.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct LabelChangeApproval {
    pub id: Id<LabelChangeApproval>,
    pub change: Id<LabelChange>,
    pub vote: Vote,
}
}

/// Approvals that wait for a user, by change.
pub static WAITING_FOR: Index<LabelChangeApproval, (Id<User>, Id<LabelChange>)> = Index::unique(
    "label_change_approvals.open",
    "approval_exists",
    "the user is an approver of this label change already",
    |approval| approval.vote.open.then_some((approval.vote.user, approval.change)),
);

static CHANGE: Reference<LabelChangeApproval, LabelChange> = Reference::cascade(
    &["change"],
    |change: &LabelChange| change.id.to_bytes(),
    |approval: &LabelChangeApproval, _| vec![approval.change.to_bytes()],
);

impl Record for LabelChangeApproval {
    const TABLE: &'static str = "label_change_approvals";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&WAITING_FOR];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&CHANGE];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("vote.user", "frozen: an approver who has left can no longer decide")];
    type Key = (Id<LabelChange>, Id<User>);
    fn key(&self) -> Self::Key {
        (self.change, self.vote.user)
    }
}

impl Approval for LabelChangeApproval {
    fn vote(&self) -> Vote {
        self.vote.clone()
    }
    fn with(&self, vote: Vote) -> Self {
        LabelChangeApproval { vote, ..self.clone() }
    }
}

/// Returns the approvals of a change.
pub fn approvals(view: &View, change: Id<LabelChange>) -> Result<Vec<LabelChangeApproval>> {
    view.all(ListSource::TABLE, &change)
}

// ── What callers see ─────────────────────────────────────────────────────────

/// A change of a protected label, which waits for approvals or has ended.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LabelChange")]
pub struct LabelChangeInfo {
    /// Identifier of the change.
    pub id: Id<LabelChange>,
    /// `<orgSlug>/<registrySlug>` of the registry.
    registry_ref: String,
    artifact_type: ArtifactType,
    /// The artifact's name.
    name: ArtifactName,
    /// The label that is moved.
    label: Label,
    /// The version that the label is moved from; null if it is new.
    from: Option<Version>,
    /// The version that the label is moved to; null if it is removed.
    to: Option<Version>,
    /// Hash of what that version says, which an approval may name; null if the label is removed.
    content_hash: Option<String>,
    pub state: LabelChangeState,
    /// Who must approve it.
    approvals: ApprovalPolicy,
    /// The user who asked for it, also through a key.
    asked_by: Id<User>,
    /// The name of the API key that asked for it.
    via: Option<String>,
    created_at: Time,
    /// When it was decided or ended otherwise.
    finished_at: Option<Time>,
    /// Until when it waits for approvals.
    expires_at: Time,
    /// Why it cannot be approved any more, though it waits; null otherwise.
    obstacle: Option<String>,
    /// How the audit log names it.
    #[serde(skip)]
    audited: String,
}

impl Output for LabelChangeInfo {
    fn resource(&self) -> Option<ResourceRef> {
        Some(ResourceRef::of("label_change", self.id)?.with_detail(&self.audited))
    }
}

impl LabelChangeInfo {
    /// The representation of a change that this keeps from being approved.
    pub fn new(change: LabelChange, obstacle: Option<String>) -> Self {
        LabelChangeInfo {
            audited: change.audited(),
            id: change.id,
            registry_ref: change.registry_ref,
            artifact_type: change.of.kind,
            name: change.of.name,
            label: change.label,
            from: change.from,
            to: change.to,
            content_hash: change.content_hash,
            state: change.state,
            approvals: change.approvals,
            asked_by: change.asked_by,
            via: change.via,
            created_at: change.created_at,
            finished_at: change.finished_at,
            expires_at: change.expires_at,
            obstacle,
        }
    }

    /// The same, decided by a key for an approver, if one is named.
    pub fn decided_for(mut self, approver: Option<&Email>) -> Self {
        if let Some(approver) = approver {
            self.audited.push_str(&format!(" for {approver}"));
        }
        self
    }
}

// ── Retention ────────────────────────────────────────────────────────────────

/// Deletes changes that ended longer ago than the operator's `--log-retention`.
const DELETE_FINISHED: Sweep = Sweep {
    name: "delete ended label changes",
    every_secs: 600,
    run: |tx: &mut Tx, settings: &RetentionSettings| {
        let end = tx.now().minus_secs(settings.log_retention_secs);
        delete_due(tx, &BY_END, |change: &LabelChange| {
            change.finished_at.is_some_and(|at| at <= end)
        })
    },
    installation: false,
};

/// The oldest change that ended, for the metrics.
const OLDEST: OldestRow = OldestRow {
    table: LabelChange::TABLE,
    read: |view| {
        Ok(view.first(&BY_END, &(), Order::Ascending)?.and_then(|change| change.finished_at))
    },
};
