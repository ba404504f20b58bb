//! The history of labels: who moved which label of an artifact, when, from which version to which.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::ArtifactId;
use crate::api::{Input, OldestRow, OrgSource, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Caller, Credential, MEMBER, Restricted, ScopeName, User};
use crate::base::{Id, Label, Result, Time, Version, word};
use crate::outbox::{RetentionSettings, Sweep, delete_due};
use crate::resources::registries::{self, ArtifactType, Registry};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<LabelMove>()],
    sweeps: &[DELETE_EXPIRED],
    oldest: &[OLDEST],
    ..Resource::EMPTY
};

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A move of a label.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct LabelMove {
    pub id: Id<LabelMove>,
    /// The artifact, which may have been deleted since.
    pub of: ArtifactId,
    pub label: Label,
    /// The version that it was moved from; none if it was new.
    pub from: Option<Version>,
    /// The version that it was moved to; none if it was removed.
    pub to: Option<Version>,
    pub moved_by: Id<User>,
    /// The name of the API key that it was moved with.
    pub via: Option<String>,
    pub moved_at: Time,
}
}

static BY_LABEL: Index<LabelMove, (ArtifactId, Label)> =
    Index::non_unique("label_moves.by_label", |of| Some((of.of.clone(), of.label.clone())));

static BY_TIME: Index<LabelMove, Time> =
    Index::non_unique("label_moves.by_time", |of| Some(of.moved_at));

static REGISTRY: Reference<LabelMove, Restricted<Registry>> = Reference::cascade(
    &["of.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |of: &LabelMove, _| vec![of.of.registry.to_bytes()],
)
.deferred();

impl Record for LabelMove {
    const TABLE: &'static str = "label_moves";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_LABEL, &BY_TIME];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("moved_by", "history: the user who moved it may have left")];
    type Key = (ArtifactId, Id<LabelMove>);
    fn key(&self) -> Self::Key {
        (self.of.clone(), self.id)
    }
}

/// Who moves a label.
pub struct Mover {
    pub user: Id<User>,
    /// The name of the API key that is used.
    pub via: Option<String>,
}

impl Mover {
    /// The caller, with the key that is used.
    pub fn of(caller: &Caller) -> Self {
        let via = match &caller.identity.credential {
            Credential::Key { name, .. } => Some(name.clone()),
            Credential::Session(_) => None,
        };
        Mover { user: caller.user(), via }
    }
}

/// Records that somebody moves a label, or removes it.
pub fn record(
    tx: &mut Tx,
    of: &ArtifactId,
    label: &Label,
    [from, to]: [Option<&Version>; 2],
    by: Mover,
) -> Result<()> {
    tx.insert(&LabelMove {
        id: tx.new_id(),
        of: of.clone(),
        label: label.clone(),
        from: from.cloned(),
        to: to.cloned(),
        moved_by: by.user,
        via: by.via,
        moved_at: tx.now(),
    })
}

/// Returns how the audit log names a move: the artifact, and the label with its versions.
pub fn audited(
    registry: &Registry,
    of: &ArtifactId,
    label: &Label,
    versions: [Option<&Version>; 2],
) -> ResourceRef {
    audited_artifact(registry, of).with_detail(step(label, versions))
}

/// Returns a label with the versions that it is moved from and to.
pub fn step(label: &Label, versions: [Option<&Version>; 2]) -> String {
    let [from, to] = versions.map(|version| version.map_or("none", |version| version.as_str()));
    format!("{label}: {from} -> {to}")
}

/// Returns how the audit log names an artifact: by registry, type and name.
pub fn audited_artifact(registry: &Registry, of: &ArtifactId) -> ResourceRef {
    let id = audited_name(&registry.reference, of.kind, &of.name);
    ResourceRef { kind: Some("artifact"), id, detail: None }
}

/// Returns the name of an artifact in the audit log.
pub fn audited_name(registry_ref: &str, kind: ArtifactType, name: &str) -> String {
    format!("{registry_ref}/{}/{name}", word(kind))
}

// ── What callers send and see ────────────────────────────────────────────────

/// Selects the moves of an artifact's labels.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelHistoryQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// Only moves of this label.
    label: Option<String>,
}

impl Input for LabelHistoryQuery {}

/// A move of a label, as callers see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LabelMove")]
pub struct LabelMoveInfo {
    id: Id<LabelMove>,
    /// The label that was moved.
    label: Label,
    /// The version that it pointed to before; null if it was new.
    from: Option<Version>,
    /// The version that it points to since; null if it was removed.
    to: Option<Version>,
    /// The user who moved it, also with an API key.
    moved_by: Id<User>,
    /// The name of the API key that it was moved with.
    via: Option<String>,
    /// When it was moved.
    moved_at: Time,
}

impl Output for LabelMoveInfo {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

impl From<LabelMove> for LabelMoveInfo {
    fn from(of: LabelMove) -> Self {
        let LabelMove { id, label, from, to, moved_by, via, moved_at, .. } = of;
        LabelMoveInfo { id, label, from, to, moved_by, via, moved_at }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists moves, newest first. The history outlives the artifact, so an artifact that does not exist
/// has an empty one.
pub(super) fn list(view: &View, req: &Req<(), LabelHistoryQuery>) -> Result<Page<LabelMoveInfo>> {
    let LabelHistoryQuery { registry_ref, prompt_name, artifact_type, label } = &req.input;
    let registry = registries::require_usable(view, req.caller(), registry_ref)?;
    let id = ArtifactId::parse(&registry, *artifact_type, prompt_name)?;
    let page = match label.as_deref().map(Label::parse) {
        None => view.page(ListSource::TABLE, &id, Order::Descending, &req.page, |_| true),
        Some(Ok(label)) => {
            view.page(&BY_LABEL, &(id, label), Order::Descending, &req.page, |_| true)
        }
        Some(Err(_)) => return Ok(Page::single(Vec::new())),
    };
    Ok(page?.map(LabelMoveInfo::from))
}

// ── Retention ────────────────────────────────────────────────────────────────

/// Deletes moves that are older than the operator's `--log-retention`.
pub(super) const DELETE_EXPIRED: Sweep = Sweep {
    name: "delete expired label history",
    every_secs: 600,
    run: |tx: &mut Tx, settings: &RetentionSettings| {
        let end = tx.now().minus_secs(settings.log_retention_secs);
        delete_due(tx, &BY_TIME, |of: &LabelMove| of.moved_at <= end)
    },
    installation: false,
};

/// The oldest move, for the metrics.
const OLDEST: OldestRow = OldestRow {
    table: LabelMove::TABLE,
    read: |view| Ok(view.first(&BY_TIME, &(), Order::Ascending)?.map(|of| of.moved_at)),
};

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/registries/artifacts/labels/history",
            MEMBER,
            "artifact_label.history",
            op::list(list),
        )
        .org_source(OrgSource::Named(&registries::BY_REFERENCE))
        .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
        .about("List label moves, newest first"),
    ]
}
