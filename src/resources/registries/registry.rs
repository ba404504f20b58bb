//! The record of registries, and how other resources find one.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::{
    Access, Caller, Grant, ResourceType, Restrictable, Restricted, User, grants_for,
};
use crate::base::{Description, Error, Id, Name, Result, Slug, Time};
use crate::store::{
    ACCESS_CHANGED, AnyIndex, AnyReference, Export, Index, Key, Record, Reference, Tx, View,
    upgrade_shorter,
};

// ── Record ───────────────────────────────────────────────────────────────────

/// A collection of published prompts and promptlets.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Registry {
    pub id: Id<Registry>,
    /// The slug, unique in the organization. It never changes.
    pub slug: Slug,
    /// `<orgSlug>/<registrySlug>`: the name of the registry in requests and answers. It never changes.
    pub reference: String,
    /// The name shown to people.
    pub name: Name,
    /// What the registry is for.
    pub description: Option<Description>,
    /// Who may read it.
    pub visibility: RegistryVisibility,
    /// Which members may use it.
    pub access: Access,
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// Who last changed it; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<User>>,
}
crate::base::portable!(Registry {
    id, slug, name, description, visibility, access, created_at, updated_at, updated_by,
} refs { reference });

/// Who may read a registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegistryVisibility {
    /// Anonymous clients, too.
    Public,
    /// Members of the organization.
    #[default]
    Private,
}
crate::store::stored_enum!(RegistryVisibility { Public = 0, Private = 1 });

static BY_SLUG: Index<Restricted<Registry>, Slug> = Index::unique(
    "registries.by_slug",
    "registry_slug_taken",
    "a registry with this slug exists already; choose another slug",
    |registry| Some(registry.without_caller().slug.clone()),
);

static GRANTS: Reference<Grant, Restricted<Registry>> = grants_for();

impl Record for Restricted<Registry> {
    const TABLE: &'static str = "registries";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SLUG];
    const REFERRED_BY: &'static [&'static dyn AnyReference] = &[&GRANTS];
    const VERSION: u8 = 2;
    type Key = Id<Registry>;
    fn key(&self) -> Self::Key {
        self.id()
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        self.remember_deleted(tx)?;
        tx.signal(ACCESS_CHANGED); // Requests that wait for something in it find out that it is gone.
        Ok(())
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

impl Restrictable for Registry {
    const KIND: ResourceType = ResourceType::Registry;
    fn id(&self) -> Id<Self> {
        self.id
    }
    fn access(&self, _: &View) -> Result<Access> {
        Ok(self.access)
    }
    fn is_public(&self) -> bool {
        self.visibility == RegistryVisibility::Public
    }
}

// ── For other resources ──────────────────────────────────────────────────────

/// Returns the registry that a `registryRef` names in the view's organization, if it exists.
pub fn find(view: &View, reference: &str) -> Result<Option<Restricted<Registry>>> {
    let id = Id::parse(reference);
    if !id.is_nil() {
        return find_by_id(view, id);
    }
    let slug = reference.split_once('/').map_or(reference, |(_, slug)| slug);
    let Ok(slug) = Slug::parse(slug) else { return Ok(None) };
    let found = view.find(&BY_SLUG, &slug)?;
    // A slug alone is one of the view's organization; `<orgSlug>/` must name that organization.
    let is_named = |found: &Restricted<Registry>| {
        !reference.contains('/') || found.without_caller().reference == reference
    };
    Ok(found.filter(is_named))
}

/// The 404 of a registry that this caller's request names by this reference: of its organization, if
/// that is another one.
pub fn no_such(caller: Option<&Caller>, reference: &str) -> Error {
    let organization = reference.split_once('/').map(|(organization, _)| organization);
    match (organization, caller) {
        (Some(organization), Some(caller)) if organization != &*caller.org_slug => {
            Error::no_such_organization().missing(reference.to_string().to_bytes())
        }
        _ => <Restricted<Registry>>::missing(&reference.to_string()),
    }
}

/// Returns the registry that a `registryRef` names, for use by a member.
///
/// # Errors
/// 404 if it does not exist, 403 if it is restricted and the caller has no grant.
pub fn require_usable(view: &View, caller: &Caller, reference: &str) -> Result<Registry> {
    find(view, reference)?.ok_or_else(|| no_such(Some(caller), reference))?.open(view, caller)
}

/// Returns the registry that a `registryRef` names, for reading: a public one by any client.
///
/// # Errors
/// As [`require_usable`]; 404 for a private registry if the caller is no member of its organization.
pub fn require_readable(view: &View, caller: Option<&Caller>, reference: &str) -> Result<Registry> {
    find(view, reference)?.ok_or_else(|| no_such(caller, reference))?.open_to_read(view, caller)
}

/// Returns the registry with this id, if it exists.
pub fn find_by_id(view: &View, id: Id<Registry>) -> Result<Option<Restricted<Registry>>> {
    view.get(&id)
}
