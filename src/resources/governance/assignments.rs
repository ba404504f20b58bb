//! Assignments of policies to registries.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::registries::{self, Registry};
use super::policy::Policy;
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, Caller, MEMBER, Restricted, ScopeName, User, usable_ids};
use crate::base::{Error, Id, Issue, Result, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<PolicyAssignment>()], ..Resource::EMPTY };

/// A registry has at most 20 policies: all of them are evaluated for every publication in it.
const MAX_POLICIES_OF_A_REGISTRY: usize = 20;

// ── Record ───────────────────────────────────────────────────────────────────

/// The assignment of a policy to a registry: versions published there must satisfy the policy.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAssignment {
    /// The id of the assignment.
    pub id: Id<PolicyAssignment>,
    /// The id of the policy.
    pub policy_id: Id<Policy>,
    /// The id of the registry.
    pub registry_id: Id<Registry>,
    /// The registry: `<orgSlug>/<registrySlug>`.
    pub registry_ref: String,
    /// The user who assigned it.
    pub created_by: Id<User>,
    /// When it was assigned.
    pub created_at: Time,
}
crate::base::portable!(PolicyAssignment {
    id, policy_id, registry_id, created_by, created_at,
} refs { registry_ref });

impl Output for PolicyAssignment {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Also lists the policies of a registry, in the order of their creation.
static BY_REGISTRY: Index<PolicyAssignment, (Id<Registry>, Id<Policy>)> = Index::unique(
    "policy_assignments.by_registry",
    "policy_assigned",
    "the policy is assigned to this registry already",
    |assignment| Some((assignment.registry_id, assignment.policy_id)),
);

static POLICY: Reference<PolicyAssignment, Policy> = Reference::cascade(
    &["policy_id"],
    |policy: &Policy| policy.id.to_bytes(),
    |assignment: &PolicyAssignment, _| vec![assignment.policy_id.to_bytes()],
);

static REGISTRY: Reference<PolicyAssignment, Restricted<Registry>> = Reference::cascade(
    &["registry_id"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |assignment: &PolicyAssignment, _| vec![assignment.registry_id.to_bytes()],
)
.by(&BY_REGISTRY);

impl Record for PolicyAssignment {
    const TABLE: &'static str = "policy_assignments";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_REGISTRY];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&POLICY, &REGISTRY];
    type Key = (Id<Policy>, Id<PolicyAssignment>);
    fn key(&self) -> Self::Key {
        (self.policy_id, self.id)
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// A registry to assign a policy to.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main"}],
    "if" = {"not": {"required": ["registryRef"],
        "properties": {"registryRef": {"type": "string"}}}},
    "then" = {"required": ["registryId"], "properties": {"registryId": {"type": "string"}}},
))]
pub struct NewPolicyAssignment {
    /// `<orgSlug>/<registrySlug>`, the registry's slug or its id.
    registry_ref: Option<String>,
    /// The id of the registry. At least one of `registryId` and `registryRef` is required; both must name
    /// the same registry.
    registry_id: Option<Id<Registry>>,
}

impl Input for NewPolicyAssignment {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.registry_ref.is_none() && self.registry_id.is_none() {
            issues.push(Issue::new("registryRef", "is required if registryId is absent"));
        }
    }
}

impl NewPolicyAssignment {
    /// Returns the registry.
    ///
    /// # Errors
    /// 404 if it does not exist, or if the fields name two different ones.
    fn registry(&self, view: &View, caller: &Caller) -> Result<Restricted<Registry>> {
        let named = match &self.registry_ref {
            Some(reference) => registries::find(view, reference)?,
            None => None,
        };
        let by_id = match self.registry_id {
            Some(id) => registries::find_by_id(view, id)?,
            None => None,
        };
        let found = match (&self.registry_ref, self.registry_id) {
            (Some(_), Some(_)) if named != by_id => None,
            (Some(_), _) => named,
            (None, _) => by_id,
        };
        found.ok_or_else(|| match &self.registry_ref {
            Some(reference) => registries::no_such(Some(caller), reference),
            None => Error::no_such("registry").at("registryId"),
        })
    }
}

// ── For the rest of governance ───────────────────────────────────────────────

/// Returns the policies assigned to a registry.
pub(super) fn policies_of(view: &View, registry: Id<Registry>) -> Result<Vec<Policy>> {
    let assignments = view.all(&BY_REGISTRY, &registry)?;
    assignments.iter().map(|assignment| view.fetch(&assignment.policy_id)).collect()
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<Id<Policy>>) -> Result<Page<PolicyAssignment>> {
    let policy: Policy = view.fetch(&req.params)?;
    // Not restricted registries without a grant (reference: identity-and-rights, "Restricted
    // resources"), nor deleted ones whose rows remain. There are at most 1,000 in all.
    let visible = usable_ids(view, req.caller())?;
    let is_visible = |assignment: &PolicyAssignment| visible.contains(&assignment.registry_id);
    view.page(ListSource::TABLE, &policy.id, Order::Descending, &req.page, is_visible)
}

pub(super) fn create(
    tx: &mut Tx,
    req: &Req<Id<Policy>, NewPolicyAssignment>,
) -> Result<PolicyAssignment> {
    let policy: Policy = tx.fetch(&req.params)?;
    let registry = req.input.registry(&tx.view(), req.caller())?.open(&tx.view(), req.caller())?;
    let assignment = PolicyAssignment {
        id: tx.new_id(),
        policy_id: policy.id,
        registry_id: registry.id,
        registry_ref: registry.reference.clone(),
        created_by: req.caller().user(),
        created_at: tx.now(),
    };
    tx.insert(&assignment)?;
    let most = MAX_POLICIES_OF_A_REGISTRY;
    if tx.count(&BY_REGISTRY, &registry.id, most + 1)? > most {
        return Err(Error::conflict(
            "policies_full",
            "a registry has at most 20 policies; put more rules into one",
        ));
    }
    Ok(assignment)
}

pub(super) fn delete(
    tx: &mut Tx,
    req: &Req<(Id<Policy>, Id<PolicyAssignment>)>,
) -> Result<Deleted> {
    let assignment: PolicyAssignment = tx.fetch(&req.params)?;
    tx.remove(&assignment)?;
    Ok(Deleted::new(assignment.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    const ALL: &str = "/governance/policies/{policyId}/assignments";
    const ONE: &str = "/governance/policies/{policyId}/assignments/{assignmentId}";
    vec![
        Route::get(ALL, MEMBER, "policy_assignment.list", op::list(list))
            .needs(ScopeName::PolicyRead)
            .about("List registries a policy is assigned to"),
        Route::post(ALL, ADMIN, "policy_assignment.create", op::write(create))
            .needs(ScopeName::PolicyWrite)
            .about("Assign a policy to a registry"),
        Route::delete(ONE, ADMIN, "policy_assignment.delete", op::write(delete))
            .needs(ScopeName::PolicyWrite)
            .about("Remove a policy from a registry"),
    ]
}
