//! Flags: records of versions published in spite of a violated rule. An admin clears them.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::registries::{self, ArtifactType, Registry};
use super::policy::Policy;
use super::rules::PolicyRuleType;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER, Restricted, ScopeName, User, usable_ids};
use crate::base::{ArtifactName, Error, Id, Result, Time, Version};
use crate::outbox::{About, EventType, publish};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, Page, Record, Reference, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<PolicyFlag>()],
    events: &[EventType::GovernanceFlagCleared],
    ..Resource::EMPTY
};

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A record that a version was published although it violates a rule.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFlag {
    /// The id of the flag.
    pub id: Id<PolicyFlag>,
    /// The id of the policy, which may have been deleted since.
    pub policy_id: Id<Policy>,
    /// The id of the registry.
    #[serde(skip)]
    pub registry: Id<Registry>,
    /// The registry: `<orgSlug>/<registrySlug>`.
    pub registry_ref: String,
    /// The type of the artifact.
    pub artifact_type: ArtifactType,
    /// The name of the artifact.
    pub name: ArtifactName,
    /// The published version.
    pub version: Version,
    /// The type of the violated rule.
    pub rule: PolicyRuleType,
    /// The violation, as a phrase: "must not match …".
    pub message: String,
    /// When the version was published.
    pub created_at: Time,
    /// When it was cleared; null while it is open.
    pub cleared_at: Option<Time>,
    /// The user who cleared it.
    pub cleared_by: Option<Id<User>>,
}
}

impl Output for PolicyFlag {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl PolicyFlag {
    fn is_cleared(&self) -> bool {
        self.cleared_at.is_some()
    }
}

static BY_STATE: Index<PolicyFlag, bool> =
    Index::non_unique("flags.by_state", |flag| Some(flag.is_cleared()));

static BY_REGISTRY: Index<PolicyFlag, (Id<Registry>, bool)> =
    Index::non_unique("flags.by_registry", |flag| Some((flag.registry, flag.is_cleared())));

static REGISTRY: Reference<PolicyFlag, Restricted<Registry>> = Reference::cascade(
    &["registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |flag: &PolicyFlag, _| vec![flag.registry.to_bytes()],
)
.by(&BY_REGISTRY)
.deferred();

impl Record for PolicyFlag {
    const TABLE: &'static str = "flags";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_STATE, &BY_REGISTRY];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("policy_id", "history: the policy may be deleted; the version is still published"),
        ("cleared_by", "history: the user who cleared it may have left"),
    ];
    type Key = Id<PolicyFlag>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// Filters a list of flags.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlagFilter {
    /// Whether to list cleared flags instead of open ones.
    cleared: Option<bool>,
    /// Only flags of this registry: `<orgSlug>/<registrySlug>`, its slug or its id.
    registry_ref: Option<String>,
}

impl Input for FlagFilter {}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<(), FlagFilter>) -> Result<Page<PolicyFlag>> {
    let cleared = req.input.cleared.unwrap_or(false);
    // Not restricted registries without a grant (reference: identity-and-rights, "Restricted
    // resources"), nor deleted ones whose flags remain. There are at most 1,000 in all.
    let visible = usable_ids(view, req.caller())?;
    let is_visible = |flag: &PolicyFlag| visible.contains(&flag.registry);
    let Some(reference) = &req.input.registry_ref else {
        return view.page(&BY_STATE, &cleared, Order::Descending, &req.page, is_visible);
    };
    match registries::find(view, reference)? {
        None => Ok(Page::single(Vec::new())),
        Some(registry) => {
            let prefix = (registry.id(), cleared);
            view.page(&BY_REGISTRY, &prefix, Order::Descending, &req.page, is_visible)
        }
    }
}

pub(super) fn clear(tx: &mut Tx, req: &Req<Id<PolicyFlag>>) -> Result<PolicyFlag> {
    let old: PolicyFlag = tx.fetch(&req.params)?;
    if old.is_cleared() {
        return Err(Error::conflict("flag_cleared", "this flag was cleared already"));
    }
    let new = PolicyFlag {
        cleared_at: Some(tx.now()),
        cleared_by: Some(req.caller().user()),
        ..old.clone()
    };
    tx.replace(&old, &new)?;
    let payload = json!({
        "flagId": new.id,
        "policyId": new.policy_id,
        "registryRef": new.registry_ref,
        "artifactType": new.artifact_type,
        "name": new.name,
        "version": new.version,
        "rule": new.rule,
        "clearedBy": new.cleared_by,
    });
    let about = About::resource("flag", new.id).guarded_by("registry", new.registry);
    publish(tx, EventType::GovernanceFlagCleared, about, payload)?;
    Ok(new)
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/governance/flags", MEMBER, "flag.list", op::walk(list))
            .needs(ScopeName::FlagRead)
            .about("List open or cleared flags"),
        Route::post("/governance/flags/{flagId}/clear", ADMIN, "flag.clear", op::write(clear))
            .needs(ScopeName::FlagClear)
            .about("Clear a flag"),
    ]
}
