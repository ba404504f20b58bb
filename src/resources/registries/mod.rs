//! Registries: collections of published prompts and promptlets
//! (reference: registries-and-templates, "Registries").
//!
//! Any client can read a public registry. A private one is readable by the members of its
//! organization or, if it is restricted, by admins and members with a grant; other clients cannot
//! find out whether it exists. The contents of a registry are in `artifacts`.

mod kind;
mod locate;
mod protected_labels;
mod registry;
mod scope_target;
#[cfg(test)]
pub mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{
    Deleted, Input, OrgRequired, OrgSource, Output, Req, Resource, ResourceRef, Route, op,
};
use crate::auth::{
    Access, MEMBER, MEMBER_OR_PUBLIC, Restricted, SESSION_ADMIN, ScopeName, User, visible_page,
};
use crate::base::{Description, Error, Id, Issue, Name, Nullable, Result, Slug, Time};
use crate::outbox::{About, EventType, publish};
use crate::store::{ACCESS_CHANGED, ListSource, Page, TableInfo, Tx, View};

pub use kind::ArtifactType;
use locate::RegistryLocation;
pub use locate::{BY_PATH, BY_REFERENCE};
#[cfg(test)]
pub use protected_labels::tests as protected_label_tests;
pub use protected_labels::{ProtectedLabel, protected_labels, protection, require_movable};
pub use registry::{
    Registry, RegistryVisibility, find, find_by_id, no_such, require_readable, require_usable,
};
use scope_target::REGISTRY_IN_PATH;
pub use scope_target::{NAMED_REGISTRY, registry_target, target as scope_target};

/// Registries, and the organization of each.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Restricted<Registry>>(), TableInfo::of::<RegistryLocation>()],
    events: &[EventType::RegistryDeleted],
    children: &[&protected_labels::RESOURCE],
    ..Resource::EMPTY
};

/// An organization has at most 1,000 registries: far more than it has teams, and few enough to read
/// all of them in one request.
const MAX_REGISTRIES: usize = 1000;

/// `/registries/artifacts` and `/registries/artifact-versions` are routes of their own.
const RESERVED: [&str; 2] = ["artifacts", "artifact-versions"];

// ── What callers send and see ────────────────────────────────────────────────

/// A registry to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"slug": "main", "name": "Main", "visibility": "private"}],
))]
pub struct NewRegistry {
    #[schemars(extend("not" = {"enum": RESERVED}))]
    slug: Slug,
    name: Name,
    description: Option<Description>,
    /// Who may read it; `private` if absent.
    visibility: Option<RegistryVisibility>,
    /// Which members may use it; `organization` if absent.
    access: Option<Access>,
}

impl Input for NewRegistry {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        if RESERVED.contains(&self.slug.as_str()) {
            issues.push(Issue::new("slug", "is a reserved word; choose another"));
        }
    }
}

/// Changes to a registry. Absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"description": "The prompts of all agents."}],
))]
pub struct RegistryPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    visibility: Option<RegistryVisibility>,
    access: Option<Access>,
}

impl Input for RegistryPatch {}

/// Filters a list of registries.
#[derive(Deserialize, JsonSchema)]
pub struct RegistryFilter {
    /// Only public, or only private registries.
    visibility: Option<RegistryVisibility>,
}

impl Input for RegistryFilter {}

/// A registry, as callers see it: a collection of published prompts and promptlets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Registry")]
pub struct RegistryInfo {
    /// The id of the registry.
    pub id: Id<Registry>,
    /// The name of the registry in requests: `<orgSlug>/<registrySlug>`.
    #[serde(rename = "ref")]
    reference: String,
    slug: Slug,
    name: Name,
    description: Option<Description>,
    visibility: RegistryVisibility,
    access: Access,
    created_at: Time,
    updated_at: Time,
    /// The user who last changed it, also through a key; null if an earlier release did, and for those who
    /// are no members of its organization.
    updated_by: Option<Id<User>>,
}

impl Output for RegistryInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn info(registry: Registry) -> RegistryInfo {
    RegistryInfo {
        id: registry.id,
        reference: registry.reference,
        slug: registry.slug,
        name: registry.name,
        description: registry.description,
        visibility: registry.visibility,
        access: registry.access,
        created_at: registry.created_at,
        updated_at: registry.updated_at,
        updated_by: registry.updated_by,
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), RegistryFilter>) -> Result<Page<RegistryInfo>> {
    let wanted = |registry: &Registry| {
        req.input.visibility.is_none_or(|visibility| registry.visibility == visibility)
            && req.caller().covers(ScopeName::RegistryRead, Some(&scope_target::target(registry)))
    };
    Ok(visible_page(view, req.caller(), &req.page, wanted)?.map(info))
}

fn get(view: &View, req: &Req<String, OrgRequired>) -> Result<RegistryInfo> {
    let caller = req.caller_if_any();
    let shown = info(require_readable(view, caller, &req.params)?);
    Ok(RegistryInfo { updated_by: shown.updated_by.filter(|_| caller.is_some()), ..shown })
}

fn create(tx: &mut Tx, req: &Req<(), NewRegistry>) -> Result<RegistryInfo> {
    let new = &req.input;
    if tx.count(ListSource::<Restricted<Registry>>::TABLE, &(), MAX_REGISTRIES)? == MAX_REGISTRIES {
        return Err(Error::conflict(
            "registries_full",
            "an organization has at most 1,000 registries; delete one that is not needed",
        ));
    }
    let registry = Registry {
        id: tx.new_id(),
        slug: new.slug.clone(),
        reference: format!("{}/{}", req.caller().org_slug, new.slug),
        name: new.name.clone(),
        description: new.description.clone(),
        visibility: new.visibility.unwrap_or_default(),
        access: new.access.unwrap_or_default(),
        created_at: tx.now(),
        updated_at: tx.now(),
        updated_by: Some(req.caller().user()),
    };
    tx.insert(&Restricted::new(registry.clone()))?;
    tx.insert(&RegistryLocation { id: registry.id, org: tx.org() })?;
    Ok(info(registry))
}

fn update(tx: &mut Tx, req: &Req<String, RegistryPatch>) -> Result<RegistryInfo> {
    let patch = &req.input;
    let old = require_usable(&tx.view(), req.caller(), &req.params)?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.description.clone().apply(&mut new.description);
    new.visibility = patch.visibility.unwrap_or(new.visibility);
    new.access = patch.access.unwrap_or(new.access);
    if new != old {
        (new.updated_at, new.updated_by) = (tx.now(), Some(req.caller().user()));
        tx.replace(&Restricted::new(old), &Restricted::new(new.clone()))?;
        // Requests that wait for something in it may no longer be allowed to read it.
        tx.signal(ACCESS_CHANGED);
    }
    Ok(info(new))
}

/// Deletes a registry with its contents.
///
/// # Errors
/// 404 if it does not exist, 403 if the caller may not use it.
pub fn delete(tx: &mut Tx, req: &Req<String>) -> Result<Deleted> {
    let registry = require_usable(&tx.view(), req.caller(), &req.params)?;
    let payload = json!({
        "registryId": registry.id, "registryRef": registry.reference,
        "name": registry.name,
    });
    let id = registry.id;
    let about = About::resource("registry", id).guarded_by("registry", id);
    tx.remove(&Restricted::new(registry))?;
    publish(tx, EventType::RegistryDeleted, about, payload)?;
    Ok(Deleted::new(id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/registries", MEMBER, "registry.list", op::walk(list))
            .needs_listed(ScopeName::RegistryRead)
            .about("List the caller's usable registries"),
        Route::post("/registries", SESSION_ADMIN, "registry.create", op::write(create))
            .about("Create a registry"),
        Route::get("/registries/{registrySlug}", MEMBER_OR_PUBLIC, "registry.get", op::read(get))
            .org_source(OrgSource::Named(&BY_PATH))
            .needs_for(ScopeName::RegistryRead, &REGISTRY_IN_PATH)
            .about("Get a registry"),
        Route::patch(
            "/registries/{registrySlug}",
            SESSION_ADMIN,
            "registry.update",
            op::write(update),
        )
        .about("Update a registry"),
        Route::delete(
            "/registries/{registrySlug}",
            SESSION_ADMIN,
            "registry.delete",
            op::write(delete),
        )
        .about("Delete a registry with its contents"),
    ]
}
