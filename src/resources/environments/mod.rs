//! Environments: where agents are deployed to (reference: agents, "Environments"). An environment
//! says who approves a deployment to it ([`approvals`]), holds the variables that fill a prompt
//! ([`variables`]) and which version of a tool is used there ([`references`]).
//!
//! Lists leave a restricted one out for whoever may not use it, and naming it is 403 for them
//! (reference: identity-and-rights, "Restricted resources"). No secret is in any answer.

pub mod approvals;
mod references;
mod variables;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    ADMIN, Access, Caller, Grant, MEMBER, ResourceType, Restrictable, Restricted, grants_for,
    visible_page,
};
use crate::base::{Description, Error, Field, Id, Int, Issue, Name, Result, Slug, StringMap, Time};
use crate::store::{
    AnyIndex, AnyReference, Index, Page, Record, Reference, Source, TableInfo, Tx, View,
};

use approvals::{Approvals, NewApprovals};

pub use references::{BY_TOOL, ToolReference, add_tool_reference};
#[cfg(test)]
pub use variables::tests as variable_tests;
pub use variables::variables;

/// Environments, their variables and their references to tools.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Restricted<Environment>>(), TableInfo::of::<ToolReference>()],
    children: &[&variables::RESOURCE],
    ..Resource::EMPTY
};

/// An organization has at most 1,000 environments: a tool that is removed is taken out of all of
/// them in one transaction, as is a member who leaves.
pub const MAX_ENVIRONMENTS: usize = 1000;

/// How long an approval may be pending where nobody says otherwise: a weekend and a day.
const DEFAULT_APPROVAL_TIMEOUT_HOURS: u32 = 72;

// ── Record ───────────────────────────────────────────────────────────────────

/// A place that agents are deployed to.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Environment {
    /// Its id.
    pub id: Id<Environment>,
    /// Its slug, unique in the organization. It never changes.
    pub slug: Slug,
    /// Its name.
    pub name: Name,
    /// What it is for.
    pub description: Option<Description>,
    /// Who may use it.
    pub access: Access,
    /// Who must approve a deployment to it; none means nobody.
    pub approvals: Option<Approvals>,
    /// A pending approval ends after so many hours.
    pub approval_timeout_hours: u32,
    /// When it was made.
    pub created_at: Time,
    /// When anything that its answer shows was last changed.
    pub updated_at: Time,
}

static BY_SLUG: Index<Restricted<Environment>, Slug> = Index::unique(
    "environments.by_slug",
    "environment_slug_taken",
    "an environment with this slug exists already; choose another slug",
    |environment| Some(environment.without_caller().slug.clone()),
);

static GRANTS: Reference<Grant, Restricted<Environment>> = grants_for();

impl Record for Restricted<Environment> {
    const TABLE: &'static str = "environments";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SLUG];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&approvals::APPROVERS];
    const REFERRED_BY: &'static [&'static dyn AnyReference] = &[&GRANTS];
    type Key = Id<Environment>;
    fn key(&self) -> Self::Key {
        self.id()
    }
}

impl Restrictable for Environment {
    const KIND: ResourceType = ResourceType::Environment;
    fn id(&self) -> Id<Self> {
        self.id
    }
    fn access(&self) -> Access {
        self.access
    }
}

// ── What callers send and see ────────────────────────────────────────────────

/// An approval may be pending for an hour up to a year.
type ApprovalTimeoutHours = Int<1, 8760>;

/// An environment to make.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewEnvironment {
    slug: Slug,
    name: Name,
    description: Option<Description>,
    access: Option<Access>,
    approvals: Option<NewApprovals>,
    approval_timeout_hours: Option<ApprovalTimeoutHours>,
}

impl Input for NewEnvironment {
    fn check(&self, issues: &mut Vec<Issue>) {
        if let Some(approvals) = &self.approvals {
            approvals.check(issues);
        }
    }
}

/// What to change of an environment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Field<Description>,
    access: Option<Access>,
    #[serde(default)]
    approvals: Field<NewApprovals>,
    approval_timeout_hours: Option<ApprovalTimeoutHours>,
}

impl Input for EnvironmentPatch {
    fn check(&self, issues: &mut Vec<Issue>) {
        if let Some(approvals) = self.approvals.value() {
            approvals.check(issues);
        }
    }
}

/// An environment, as callers see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Environment")]
pub struct EnvironmentInfo {
    /// Its id.
    pub id: Id<Environment>,
    slug: Slug,
    name: Name,
    description: Option<Description>,
    access: Access,
    approvals: Option<Approvals>,
    approval_timeout_hours: u32,
    /// Its variables, by name.
    variables: StringMap,
    /// The names of its secrets.
    secret_names: Vec<String>,
    /// The providers that it has a credential for.
    providers: Vec<String>,
    /// The version of each tool that is used in it, by the tool's id.
    tool_versions: StringMap,
    created_at: Time,
    updated_at: Time,
}

impl Output for EnvironmentInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn info(view: &View, environment: Environment) -> Result<EnvironmentInfo> {
    let id = environment.id;
    Ok(EnvironmentInfo {
        id,
        slug: environment.slug,
        name: environment.name,
        description: environment.description,
        access: environment.access,
        approvals: environment.approvals,
        approval_timeout_hours: environment.approval_timeout_hours,
        variables: variables(view, id)?,
        secret_names: Vec::new(),
        providers: Vec::new(),
        tool_versions: references::tool_versions(view, id)?,
        created_at: environment.created_at,
        updated_at: environment.updated_at,
    })
}

// ── For other resources ──────────────────────────────────────────────────────

/// The environment with this id or slug.
pub fn find(view: &View, reference: &str) -> Result<Option<Restricted<Environment>>> {
    match (Id::parse(reference), Slug::parse(reference)) {
        (id, _) if !id.is_nil() => view.get(&id),
        (_, Ok(slug)) => view.find(&BY_SLUG, &slug),
        (_, Err(_)) => Ok(None),
    }
}

/// Whether there is an environment with this id.
pub fn exists(view: &View, id: Id<Environment>) -> Result<bool> {
    view.has::<Restricted<Environment>>(&id)
}

/// Notes that something which its answer shows has changed.
fn touch(tx: &mut Tx, id: Id<Environment>) -> Result<()> {
    let old: Restricted<Environment> = tx.fetch(&id)?;
    let new = Environment { updated_at: tx.now(), ..old.without_caller().clone() };
    tx.replace(&old, &Restricted::new(new))
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<EnvironmentInfo>> {
    visible_page(view, req.caller(), &req.page, |_| true)?
        .try_map(|environment| info(view, environment))
}

fn get(view: &View, req: &Req<Id<Environment>>) -> Result<EnvironmentInfo> {
    let environment = fetch(view, req.caller(), req.params)?;
    info(view, environment)
}

/// The environment that a path names: 404, then 403.
fn fetch(view: &View, caller: &Caller, id: Id<Environment>) -> Result<Environment> {
    view.fetch::<Restricted<Environment>>(&id)?.open(view, caller)
}

fn create(tx: &mut Tx, req: &Req<(), NewEnvironment>) -> Result<EnvironmentInfo> {
    let new = &req.input;
    let approvals = match &new.approvals {
        Some(approvals) => Some(approvals.settle(&tx.view())?),
        None => None,
    };
    if tx.count(Source::<Restricted<Environment>>::TABLE, &(), MAX_ENVIRONMENTS)?
        == MAX_ENVIRONMENTS
    {
        return Err(Error::conflict(
            "environments_full",
            "an organization has at most 1,000 environments; delete one that is not needed",
        ));
    }
    let environment = Environment {
        id: tx.new_id(),
        slug: new.slug.clone(),
        name: new.name.clone(),
        description: new.description.clone(),
        access: new.access.unwrap_or_default(),
        approvals,
        approval_timeout_hours: hours(new.approval_timeout_hours)
            .unwrap_or(DEFAULT_APPROVAL_TIMEOUT_HOURS),
        created_at: tx.now(),
        updated_at: tx.now(),
    };
    tx.insert(&Restricted::new(environment.clone()))?;
    info(&tx.view(), environment)
}

fn hours(hours: Option<ApprovalTimeoutHours>) -> Option<u32> {
    hours.map(|hours| hours.get() as u32)
}

fn update(tx: &mut Tx, req: &Req<Id<Environment>, EnvironmentPatch>) -> Result<EnvironmentInfo> {
    let patch = &req.input;
    let old = fetch(&tx.view(), req.caller(), req.params)?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.description.clone().apply(&mut new.description);
    new.access = patch.access.unwrap_or(new.access);
    match &patch.approvals {
        Field::Absent => {}
        Field::Clear => new.approvals = None,
        Field::Set(approvals) => new.approvals = Some(approvals.settle(&tx.view())?),
    }
    new.approval_timeout_hours =
        hours(patch.approval_timeout_hours).unwrap_or(new.approval_timeout_hours);
    if new != old {
        new.updated_at = tx.now();
        tx.replace(&Restricted::new(old), &Restricted::new(new.clone()))?;
    }
    info(&tx.view(), new)
}

/// Its variables, its references to tools and the grants for it go with it.
fn delete(tx: &mut Tx, req: &Req<Id<Environment>>) -> Result<Deleted> {
    let environment: Restricted<Environment> = tx.fetch(&req.params)?;
    tx.remove(&environment)?;
    Ok(Deleted::new(environment.id()))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/environments", MEMBER, "environment.list", op::list(list))
            .about("List the environments that the caller may use"),
        Route::post("/environments", ADMIN, "environment.create", op::write(create))
            .about("Make an environment"),
        Route::get("/environments/{environmentId}", MEMBER, "environment.show", op::read(get))
            .about("Show an environment"),
        Route::patch(
            "/environments/{environmentId}",
            ADMIN,
            "environment.update",
            op::write(update),
        )
        .about("Change an environment"),
        Route::delete(
            "/environments/{environmentId}",
            ADMIN,
            "environment.delete",
            op::write(delete),
        )
        .about("Delete an environment with its variables and the grants for it"),
    ]
}

#[cfg(test)]
pub mod tests;
