//! Registries: where prompts and promptlets are published (contract §3).
//!
//! A public one is read by anybody; a private one by the members of its organization, or, where it
//! is restricted, by admins and whoever has a grant. That a private one exists is not told to a
//! stranger. What lies in a registry is the business of `artifacts`, which also removes one.

mod kind;
mod locate;
#[cfg(test)]
pub mod tests;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Input, OrgRequired, Req, Resource, Route, Scope};
use crate::auth::{Access, Caller, ResourceType, Rule};
use crate::base::{Description, Error, Field, Id, Issue, Name, Result, Slug, Time};
use crate::store::{ACCESS, AnyIndex, Index, Order, Page, Record, Source, TableInfo, Tx, View};

pub use kind::ArtifactType;
use locate::RegistryPlace;
pub use locate::{BY_PATH, BY_REFERENCE};

/// Registries, and which organization one belongs to.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Registry>(), TableInfo::of::<RegistryPlace>()],
    jobs: &[],
    sweeps: &[],
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

static BY_SLUG: Index<Registry, Slug> = Index::unique(
    "registries.by_slug",
    "registry_slug_taken",
    "a registry with this slug exists already; choose another slug",
    |registry| Some(registry.slug.clone()),
);

impl Record for Registry {
    const TABLE: &'static str = "registries";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SLUG];
    type Key = Id<Registry>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

impl Registry {
    /// Whether anybody may read it.
    pub fn is_public(&self) -> bool {
        self.visibility == Visibility::Public
    }

    /// Whether this caller may use it beyond what is open to anybody.
    ///
    /// # Errors
    /// If the store fails.
    pub fn may_be_used(&self, view: &View, caller: &Caller) -> Result<bool> {
        caller.may_use(view, ResourceType::Registry, self.id.cast(), self.access)
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
pub fn find(view: &View, reference: &str) -> Result<Option<Registry>> {
    let id = Id::parse(reference);
    if !id.is_nothing() {
        return view.get(&id);
    }
    let slug = reference.split_once('/').map_or(reference, |(_, slug)| slug);
    let Ok(slug) = Slug::parse(slug) else { return Ok(None) };
    let found = view.find(&BY_SLUG, &slug)?;
    // A slug alone is one of the view's organization; in front of it, no other may stand.
    Ok(found.filter(|registry| !reference.contains('/') || registry.reference == reference))
}

/// The registry that a `registryRef` names, for a member's use.
///
/// # Errors
/// 404 if it is not there, 403 if it is restricted and the caller has no grant.
pub fn named(view: &View, caller: &Caller, reference: &str) -> Result<Registry> {
    let registry = find(view, reference)?.ok_or_else(Error::not_found)?;
    caller.must_use(view, ResourceType::Registry, registry.id.cast(), registry.access)?;
    Ok(registry)
}

/// The registry that a `registryRef` names, to be read: a public one by anybody.
///
/// # Errors
/// As [`named`]; 404 for whoever is not of its organization.
pub fn readable(view: &View, caller: Option<&Caller>, reference: &str) -> Result<Registry> {
    let registry = find(view, reference)?.ok_or_else(Error::not_found)?;
    match caller {
        _ if registry.is_public() => Ok(registry),
        None => Err(Error::not_found()),
        Some(caller) => {
            caller.must_use(view, ResourceType::Registry, registry.id.cast(), registry.access)?;
            Ok(registry)
        }
    }
}

/// The registry with this id, if it is there.
///
/// # Errors
/// If the store fails.
pub fn get(view: &View, id: Id<Registry>) -> Result<Option<Registry>> {
    view.get(&id)
}

/// Whether there is a registry with this id.
///
/// # Errors
/// If the store fails.
pub fn exists(view: &View, id: Id<Registry>) -> Result<bool> {
    view.has::<Registry>(&id)
}

/// Removes the record of a registry, once nothing is left that has to be asked first.
///
/// # Errors
/// 500 if it is not what was read in this transaction.
pub fn forget(tx: &mut Tx, registry: &Registry) -> Result<()> {
    if let Some(place) = tx.get::<RegistryPlace>(&registry.id)? {
        tx.remove(&place)?;
    }
    tx.signal(ACCESS);
    tx.remove(registry)
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), RegistryFilter>) -> Result<Page<RegistryInfo>> {
    let caller = req.caller();
    let granted = caller.granted(view, ResourceType::Registry)?;
    // A public one is read by everybody, and so listed to them.
    let may_see = |registry: &Registry| {
        registry.access == Access::Organization
            || registry.is_public()
            || caller.is_admin()
            || granted.contains(&registry.id.cast())
    };
    let wanted = |registry: &Registry| {
        req.input.visibility.is_none_or(|visibility| registry.visibility == visibility)
            && may_see(registry)
    };
    Ok(view.page(Source::TABLE, &(), Order::Descending, &req.part, wanted)?.map(info))
}

fn show(view: &View, req: &Req<String, OrgRequired>) -> Result<RegistryInfo> {
    readable(view, req.caller_if_any(), &req.at).map(info)
}

fn create(tx: &mut Tx, req: &Req<(), NewRegistry>) -> Result<RegistryInfo> {
    let new = &req.input;
    if tx.count(Source::<Registry>::TABLE, &(), MAX_REGISTRIES)? == MAX_REGISTRIES {
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
    tx.insert(&registry)?;
    tx.insert(&RegistryPlace { id: registry.id, org: tx.org() })?;
    Ok(info(registry))
}

fn change(tx: &mut Tx, req: &Req<String, RegistryPatch>) -> Result<RegistryInfo> {
    let patch = &req.input;
    let old = named(&tx.view(), req.caller(), &req.at)?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.description.clone().apply(&mut new.description);
    new.visibility = patch.visibility.unwrap_or(new.visibility);
    new.access = patch.access.unwrap_or(new.access);
    if new != old {
        new.updated_at = tx.now();
        tx.replace(&old, &new)?;
        // Whoever waits for something in it may no longer read it.
        tx.signal(ACCESS);
    }
    Ok(info(new))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::list("/registries", Rule::Member, "registry.list", list)
            .about("List the registries that the caller may use"),
        Route::post("/registries", Rule::SessionAdmin, "registry.create", create)
            .about("Make a registry"),
        Route::get("/registries/{registrySlug}", Rule::Reader, "registry.show", show)
            .scope(Scope::Named(&BY_PATH))
            .about("Show a registry"),
        Route::patch("/registries/{registrySlug}", Rule::SessionAdmin, "registry.update", change)
            .about("Change a registry"),
    ]
}
