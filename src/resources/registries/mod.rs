//! Registries: where prompts and promptlets are published
//! (reference: registries-and-templates, "Registries").
//!
//! A public one is read by anybody; a private one by the members of its organization, or, where it
//! is restricted, by admins and whoever has a grant. That a private one exists is not told to a
//! stranger. What lies in a registry is the business of `artifacts`.

mod kind;
mod locate;
#[cfg(test)]
pub mod tests;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{
    Deleted, Input, OrgRequired, Output, Req, Resource, ResourceRef, Route, Scope, op,
};
use crate::auth::{
    Access, Caller, Grant, MEMBER, MEMBER_OR_PUBLIC, ResourceType, Restrictable, Restricted,
    SESSION_ADMIN, grants_for, visible_page,
};
use crate::base::{Description, Error, Field, Id, Issue, Name, Result, Slug, Time};
use crate::outbox::{About, EventType, publish};
use crate::store::{
    ACCESS, AnyIndex, AnyReference, Index, Page, Record, Reference, Source, TableInfo, Tx, View,
};

pub use kind::ArtifactType;
use locate::RegistryLocation;
pub use locate::{BY_PATH, BY_REFERENCE};

/// Registries, and which organization one belongs to.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Restricted<Registry>>(), TableInfo::of::<RegistryLocation>()],
    events: &[EventType::RegistryDeleted],
    ..Resource::EMPTY
};

/// An organization has at most 1,000 registries: far more than teams, and few enough that whatever
/// looks at all of them does so in one request.
const MAX_REGISTRIES: usize = 1000;

/// `/registries/artifacts` and `/registries/artifact-versions` are routes of their own.
const RESERVED: [&str; 2] = ["artifacts", "artifact-versions"];

// ── Record ───────────────────────────────────────────────────────────────────

/// A place where prompts and promptlets are published.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Registry {
    /// Its id.
    pub id: Id<Registry>,
    /// Its slug, unique in the organization. It never changes.
    pub slug: Slug,
    /// `<orgSlug>/<registrySlug>`, neither of which changes: how requests and answers name it.
    pub reference: String,
    /// Its name.
    pub name: Name,
    /// What it is for.
    pub description: Option<Description>,
    /// Who may read it.
    pub visibility: Visibility,
    /// Which members may use it.
    pub access: Access,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

/// Who may read a registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Anybody, without a credential.
    Public,
    /// Members of the organization.
    #[default]
    Private,
}
crate::store::stored_enum!(Visibility { Public = 0, Private = 1 });

static BY_SLUG: Index<Restricted<Registry>, Slug> = Index::unique(
    "registries.by_slug",
    "registry_slug_taken",
    "a registry with this slug exists already; choose another slug",
    |registry| Some(registry.without_caller().slug.clone()),
);

static GRANTS: Reference<Grant, Restricted<Registry>> = grants_for();

impl Record for Restricted<Registry> {
    const TABLE: &'static str = "registries";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SLUG];
    const REFERRED_BY: &'static [&'static dyn AnyReference] = &[&GRANTS];
    type Key = Id<Registry>;
    fn key(&self) -> Self::Key {
        self.id()
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        tx.signal(ACCESS); // Whoever waits for something in it is told that it is gone.
        Ok(())
    }
}

impl Restrictable for Registry {
    const KIND: ResourceType = ResourceType::Registry;
    fn id(&self) -> Id<Self> {
        self.id
    }
    fn access(&self) -> Access {
        self.access
    }
    fn is_public(&self) -> bool {
        self.visibility == Visibility::Public
    }
}

// ── What callers send and see ────────────────────────────────────────────────

/// A registry to make.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewRegistry {
    slug: Slug,
    name: Name,
    description: Option<Description>,
    /// `private` where it is absent.
    visibility: Option<Visibility>,
    /// `organization` where it is absent.
    access: Option<Access>,
}

impl Input for NewRegistry {
    fn check(&self, issues: &mut Vec<Issue>) {
        if RESERVED.contains(&self.slug.as_str()) {
            issues.push(Issue::new("slug", "is a reserved word; choose another"));
        }
    }
}

/// What to change of a registry.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Field<Description>,
    visibility: Option<Visibility>,
    access: Option<Access>,
}

impl Input for RegistryPatch {}

/// Which registries to list.
#[derive(Deserialize, JsonSchema)]
pub struct RegistryFilter {
    /// Those that are public, or those that are private.
    visibility: Option<Visibility>,
}

impl Input for RegistryFilter {}

/// A registry, as callers see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Registry")]
pub struct RegistryInfo {
    /// Its id.
    pub id: Id<Registry>,
    /// `<orgSlug>/<registrySlug>`: how requests name it.
    #[serde(rename = "ref")]
    reference: String,
    slug: Slug,
    name: Name,
    description: Option<Description>,
    visibility: Visibility,
    access: Access,
    created_at: Time,
    updated_at: Time,
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
    }
}

// ── For other resources ──────────────────────────────────────────────────────

/// The registry that a `registryRef` names in the view's organization, if it is there.
///
/// # Errors
/// If the store fails.
pub fn find(view: &View, reference: &str) -> Result<Option<Restricted<Registry>>> {
    let id = Id::parse(reference);
    if !id.is_nil() {
        return find_by_id(view, id);
    }
    let slug = reference.split_once('/').map_or(reference, |(_, slug)| slug);
    let Ok(slug) = Slug::parse(slug) else { return Ok(None) };
    let found = view.find(&BY_SLUG, &slug)?;
    // A slug alone is one of the view's organization; in front of it, no other may stand.
    let is_meant = |found: &Restricted<Registry>| {
        !reference.contains('/') || found.without_caller().reference == reference
    };
    Ok(found.filter(is_meant))
}

/// The registry that a `registryRef` names, for a member's use.
///
/// # Errors
/// 404 if it is not there, 403 if it is restricted and the caller has no grant.
pub fn named(view: &View, caller: &Caller, reference: &str) -> Result<Registry> {
    find(view, reference)?.ok_or_else(Error::not_found)?.open(view, caller)
}

/// The registry that a `registryRef` names, to be read: a public one by anybody.
///
/// # Errors
/// As [`named`]; 404 for whoever is not of its organization.
pub fn require_readable(view: &View, caller: Option<&Caller>, reference: &str) -> Result<Registry> {
    find(view, reference)?.ok_or_else(Error::not_found)?.open_to_read(view, caller)
}

/// The registry with this id, if it is there.
///
/// # Errors
/// If the store fails.
pub fn find_by_id(view: &View, id: Id<Registry>) -> Result<Option<Restricted<Registry>>> {
    view.get(&id)
}

/// Whether there is a registry with this id.
///
/// # Errors
/// If the store fails.
pub fn exists(view: &View, id: Id<Registry>) -> Result<bool> {
    view.has::<Restricted<Registry>>(&id)
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), RegistryFilter>) -> Result<Page<RegistryInfo>> {
    let wanted = |registry: &Registry| {
        req.input.visibility.is_none_or(|visibility| registry.visibility == visibility)
    };
    Ok(visible_page(view, req.caller(), &req.page, wanted)?.map(info))
}

fn get(view: &View, req: &Req<String, OrgRequired>) -> Result<RegistryInfo> {
    require_readable(view, req.caller_if_any(), &req.params).map(info)
}

fn create(tx: &mut Tx, req: &Req<(), NewRegistry>) -> Result<RegistryInfo> {
    let new = &req.input;
    if tx.count(Source::<Restricted<Registry>>::TABLE, &(), MAX_REGISTRIES)? == MAX_REGISTRIES {
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
    };
    tx.insert(&Restricted::new(registry.clone()))?;
    tx.insert(&RegistryLocation { id: registry.id, org: tx.org() })?;
    Ok(info(registry))
}

fn update(tx: &mut Tx, req: &Req<String, RegistryPatch>) -> Result<RegistryInfo> {
    let patch = &req.input;
    let old = named(&tx.view(), req.caller(), &req.params)?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.description.clone().apply(&mut new.description);
    new.visibility = patch.visibility.unwrap_or(new.visibility);
    new.access = patch.access.unwrap_or(new.access);
    if new != old {
        new.updated_at = tx.now();
        tx.replace(&Restricted::new(old), &Restricted::new(new.clone()))?;
        // Whoever waits for something in it may no longer read it.
        tx.signal(ACCESS);
    }
    Ok(info(new))
}

/// Deletes a registry with everything in it.
pub fn delete(tx: &mut Tx, req: &Req<String>) -> Result<Deleted> {
    let registry = named(&tx.view(), req.caller(), &req.params)?;
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
        Route::get("/registries", MEMBER, "registry.list", op::list(list))
            .about("List the registries that the caller may use"),
        Route::post("/registries", SESSION_ADMIN, "registry.create", op::write(create))
            .about("Make a registry"),
        Route::get("/registries/{registrySlug}", MEMBER_OR_PUBLIC, "registry.show", op::read(get))
            .scope(Scope::Named(&BY_PATH))
            .about("Show a registry"),
        Route::patch(
            "/registries/{registrySlug}",
            SESSION_ADMIN,
            "registry.update",
            op::write(update),
        )
        .about("Change a registry"),
        Route::delete(
            "/registries/{registrySlug}",
            SESSION_ADMIN,
            "registry.delete",
            op::write(delete),
        )
        .about("Delete a registry with everything in it"),
    ]
}
