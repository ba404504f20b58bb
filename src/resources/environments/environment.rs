//! The record of an environment, and its references: grants and approvers.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use crate::auth::{
    Access, Caller, Grant, Membership, ResourceType, Restrictable, Restricted, User, grants_for,
};
use crate::base::{Description, Error, Id, Name, Result, Slug, Time, Validated};
use crate::resources::approvals::ApprovalPolicy;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, Org, Record, Reference, Tx, View,
    upgrade_shorter,
};

crate::base::portable! {
/// A deployment target of agents.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Environment {
    pub id: Id<Environment>,
    /// Its slug, unique in the organization; it never changes.
    pub slug: Slug,
    pub name: Name,
    /// Its purpose.
    pub description: Option<Description>,
    /// Whether every member may use it or only those with a grant.
    pub access: Access,
    /// The policy for approvals of deployments; none if they need no approval.
    pub approvals: Option<ApprovalPolicy>,
    /// How long an approval may be pending, in hours.
    pub approval_timeout_hours: u32,
    pub created_at: Time,
    /// When anything in its representation was last changed.
    pub updated_at: Time,
    /// Who last changed that; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<User>>,
}
}

static BY_SLUG: Index<Restricted<Environment>, Slug> = Index::unique(
    "environments.by_slug",
    "environment_slug_taken",
    "an environment with this slug already exists; choose another slug",
    |environment| Some(environment.without_caller().slug.clone()),
);

static GRANTS: Reference<Grant, Restricted<Environment>> = grants_for();

impl Record for Restricted<Environment> {
    const TABLE: &'static str = "environments";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SLUG];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&APPROVERS];
    const REFERRED_BY: &'static [&'static dyn AnyReference] = &[&GRANTS];
    const VERSION: u8 = 2;
    type Key = Id<Environment>;
    fn key(&self) -> Self::Key {
        self.id()
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        self.remember_deleted(tx)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

impl Restrictable for Environment {
    const KIND: ResourceType = ResourceType::Environment;
    fn id(&self) -> Id<Self> {
        self.id
    }
    fn access(&self, _: &View) -> Result<Access> {
        Ok(self.access)
    }
}

// ── Approvers ────────────────────────────────────────────────────────────────

/// The environments of which a member is an approver. All environments of the organization are
/// scanned, at most 1,000.
static APPROVERS: Reference<Restricted<Environment>, Membership> = Reference::clear(
    &["approvals.approver_ids"],
    without_approver,
    |_: &Membership| Vec::new(),
    |environment: &Restricted<Environment>, org| {
        let approvals = environment.without_caller().approvals.iter();
        let approvers = approvals.flat_map(|approvals| &approvals.approver_ids);
        approvers.map(|approver| (*approver, org).to_bytes()).collect()
    },
);

/// Removes a former member from an environment's approval policy; `minApprovals` is lowered to the
/// number of approvers left.
///
/// # Errors
/// 409 for the last approver: without one, deployments could never be approved.
fn without_approver(
    tx: &Tx,
    old: &Restricted<Environment>,
    (user, _): &(Id<User>, Id<Org>),
) -> Result<Restricted<Environment>> {
    let (updated_at, updated_by) = (tx.now(), None);
    let mut new = Environment { updated_at, updated_by, ..old.without_caller().clone() };
    let Some(policy) = &old.without_caller().approvals else { return Ok(old.clone()) };
    new.approvals = Some(policy.without(*user).ok_or_else(|| {
        Error::conflict(
            "last_approver",
            format!(
                "this member is the only approver of the environment \"{}\"; \
                 name another approver there first",
                new.name
            ),
        )
    })?);
    Ok(Restricted::new(new))
}

// ── Finding and updating ─────────────────────────────────────────────────────

/// Returns the environment with this id or slug.
pub fn find(view: &View, reference: &str) -> Result<Option<Restricted<Environment>>> {
    match (Id::parse(reference), Slug::parse(reference)) {
        (id, _) if !id.is_nil() => view.get(&id),
        (_, Ok(slug)) => view.find(&BY_SLUG, &slug),
        (_, Err(_)) => Ok(None),
    }
}

/// Returns the names in an index of what belongs to an environment, in order. Reads no record.
pub(super) fn names<R: Record, N>(
    view: &View,
    by_name: &'static Index<R, (Id<Environment>, Validated<N>)>,
    environment: Id<Environment>,
) -> Result<Vec<String>> {
    let (mut names, end) = (Vec::new(), environment.successor());
    view.entries(by_name, &environment, &end, Order::Ascending, |(_, name), _| {
        names.push(name.into_string());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(names)
}

/// Updates `updatedAt` and `updatedBy`, after a change of a record that is part of the representation.
pub(super) fn mark_updated(
    tx: &mut Tx,
    id: Id<Environment>,
    updated_by: Option<Id<User>>,
) -> Result<()> {
    let old: Restricted<Environment> = tx.fetch(&id)?;
    let updated_at = tx.now();
    let new = Environment { updated_at, updated_by, ..old.without_caller().clone() };
    tx.replace(&old, &Restricted::new(new))
}

/// Returns an environment if the caller may use it: 404, then 403.
pub(super) fn fetch(view: &View, caller: &Caller, id: Id<Environment>) -> Result<Environment> {
    view.fetch::<Restricted<Environment>>(&id)?.open(view, caller)
}
