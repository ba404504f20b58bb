//! Environments: deployment targets of agents (reference: agents, "Environments"). An environment
//! has an approval policy for deployments ([`approvals`](super::approvals)), variables that fill prompts
//! ([`variables`]), secrets ([`secrets`]), credentials for providers ([`credentials`]) and the versions
//! of the tools used in it ([`references`]).
//!
//! A restricted environment is absent from the lists of callers without access, and 403 for them
//! (reference: identity-and-rights, "Restricted resources"). No response contains a secret.

mod credentials;
mod environment;
mod placeholders;
mod references;
mod scope_target;
mod secrets;
mod variables;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, Access, MEMBER, Restricted, ScopeName, User, visible_page_map};
use crate::base::{
    Description, Error, Id, Int, Issue, Name, Nullable, Result, Slug, StringMap, Time,
};
use crate::resources::approvals::{ApprovalPolicy, NewApprovalPolicy};
use crate::store::{ACCESS_CHANGED, ListSource, Page, TableInfo, Tx, View};

use environment::fetch;

#[cfg(test)]
pub use credentials::tests as credential_tests;
pub use credentials::{
    ProviderCredential, PushTarget, audit_push, push_failed, push_succeeded, push_target,
};
pub use environment::{Environment, find};
pub use placeholders::{PlaceholderFiller, PlaceholderSource, dollar, placeholder_source};
pub use references::{BY_TOOL, ToolReference, add_tool_reference, references_to, tool_version};
use scope_target::ENVIRONMENT_IN_PATH;
pub use scope_target::{NAMED_ENVIRONMENT, in_scope, open_to_deploy, target as scope_target};
pub use secrets::Secret;
#[cfg(test)]
pub use secrets::tests as secret_tests;
#[cfg(test)]
pub use variables::tests as variable_tests;
pub use variables::variables;

/// Environments, their variables, secrets and credentials, and their references to tools.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Restricted<Environment>>(), TableInfo::of::<ToolReference>()],
    children: &[&variables::RESOURCE, &secrets::RESOURCE, &credentials::RESOURCE],
    ..Resource::EMPTY
};

/// An organization has at most 1,000 environments: deleting a tool or removing a member updates all
/// of them in one transaction.
pub const MAX_ENVIRONMENTS: usize = 1000;

/// How long an approval may be pending by default, in hours: a weekend and a day.
const DEFAULT_APPROVAL_TIMEOUT_HOURS: u32 = 72;

// ── What callers send and see ────────────────────────────────────────────────

/// An approval may be pending for an hour up to a year.
type ApprovalTimeoutHours = Int<1, 8760>;

/// An environment to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"slug": "production", "name": "Production", "access": "restricted",
        "approvals": {"approverIds": ["01890a5d-ac96-774b-bcce-b302099a8057"],
        "preventSelfApproval": true}}],
))]
pub struct NewEnvironment {
    slug: Slug,
    name: Name,
    description: Option<Description>,
    access: Option<Access>,
    approvals: Option<NewApprovalPolicy>,
    approval_timeout_hours: Option<ApprovalTimeoutHours>,
}

impl Input for NewEnvironment {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        if let Some(approvals) = &self.approvals {
            approvals.check(issues);
        }
    }
}

/// Changes to an environment; absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"description": "What customers use.", "approvalTimeoutHours": 24}],
))]
pub struct EnvironmentPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    access: Option<Access>,
    #[serde(default)]
    approvals: Nullable<NewApprovalPolicy>,
    approval_timeout_hours: Option<ApprovalTimeoutHours>,
}

impl Input for EnvironmentPatch {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        if let Some(approvals) = self.approvals.value() {
            approvals.check(issues);
        }
    }
}

/// An environment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Environment")]
pub struct EnvironmentInfo {
    /// Identifier of the environment.
    pub id: Id<Environment>,
    slug: Slug,
    name: Name,
    description: Option<Description>,
    access: Access,
    /// Who approves deployments; null if nobody has to.
    approvals: Option<ApprovalPolicy>,
    /// Hours after which a deployment that waits for approval times out.
    approval_timeout_hours: u32,
    /// Values of the variables, by name.
    variables: StringMap,
    /// Names of the secrets.
    secret_names: Vec<String>,
    /// Providers with a credential in the environment.
    providers: Vec<String>,
    /// Versions of the tools used in the environment, by tool id.
    tool_versions: StringMap,
    created_at: Time,
    updated_at: Time,
    updated_by: Option<Id<User>>,
}

impl Output for EnvironmentInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn to_info(view: &View, environment: Environment) -> Result<EnvironmentInfo> {
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
        secret_names: secrets::secret_names(view, id)?,
        providers: credentials::provider_names(view, id)?,
        tool_versions: references::tool_versions(view, id)?,
        created_at: environment.created_at,
        updated_at: environment.updated_at,
        updated_by: environment.updated_by,
    })
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<EnvironmentInfo>> {
    let caller = req.caller();
    let wanted = |environment: &Environment| {
        caller.covers(ScopeName::EnvironmentRead, Some(&scope_target::target(environment)))
    };
    visible_page_map(view, caller, &req.page, wanted, to_info)
}

fn get(view: &View, req: &Req<Id<Environment>>) -> Result<EnvironmentInfo> {
    let environment = fetch(view, req.caller(), req.params)?;
    to_info(view, environment)
}

fn create(tx: &mut Tx, req: &Req<(), NewEnvironment>) -> Result<EnvironmentInfo> {
    let new = &req.input;
    let approvals = match &new.approvals {
        Some(approvals) => Some(approvals.resolve(&tx.view())?),
        None => None,
    };
    if tx.count(ListSource::<Restricted<Environment>>::TABLE, &(), MAX_ENVIRONMENTS)?
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
        updated_by: Some(req.caller().user()),
    };
    tx.insert(&Restricted::new(environment.clone()))?;
    to_info(&tx.view(), environment)
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
        Nullable::Absent => {}
        Nullable::Clear => new.approvals = None,
        Nullable::Set(approvals) => new.approvals = Some(approvals.resolve(&tx.view())?),
    }
    new.approval_timeout_hours =
        hours(patch.approval_timeout_hours).unwrap_or(new.approval_timeout_hours);
    if new != old {
        (new.updated_at, new.updated_by) = (tx.now(), Some(req.caller().user()));
        tx.replace(&Restricted::new(old), &Restricted::new(new.clone()))?;
        // Requests that wait for a deployment to it may no longer be allowed to read it.
        tx.signal(ACCESS_CHANGED);
    }
    to_info(&tx.view(), new)
}

/// Variables, secrets, credentials, references to tools and grants are deleted by cascade.
fn delete(tx: &mut Tx, req: &Req<Id<Environment>>) -> Result<Deleted> {
    let environment: Restricted<Environment> = tx.fetch(&req.params)?;
    tx.remove(&environment)?;
    Ok(Deleted::new(environment.id()))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/environments", MEMBER, "environment.list", op::walk(list))
            .needs_listed(ScopeName::EnvironmentRead)
            .about("List accessible environments, newest first"),
        Route::post("/environments", ADMIN, "environment.create", op::write(create))
            .needs(ScopeName::EnvironmentWrite)
            .about("Create an environment"),
        Route::get("/environments/{environmentId}", MEMBER, "environment.get", op::read(get))
            .needs_for(ScopeName::EnvironmentRead, &ENVIRONMENT_IN_PATH)
            .about("Get an environment"),
        Route::patch(
            "/environments/{environmentId}",
            ADMIN,
            "environment.update",
            op::write(update),
        )
        .needs_for(ScopeName::EnvironmentWrite, &ENVIRONMENT_IN_PATH)
        .about("Update an environment"),
        Route::delete(
            "/environments/{environmentId}",
            ADMIN,
            "environment.delete",
            op::write(delete),
        )
        .needs_for(ScopeName::EnvironmentWrite, &ENVIRONMENT_IN_PATH)
        .about("Delete an environment with everything in it"),
    ]
}

#[cfg(test)]
pub mod tests;
