//! Finding the organization of a registry that a request names, before anybody is admitted to it.

use bincode::{Decode, Encode};

use super::{Registry, find};
use crate::api::{OrgHint, OrgResolver, ResolvedOrg};
use crate::auth::{Restricted, organization_named};
use crate::base::{Error, Id, Result};
use crate::store::{AnyReference, Key, Org, Record, Reference, View};

/// Which organization a registry belongs to: its id alone names it in requests.
#[derive(Clone, Debug, Encode, Decode)]
pub struct RegistryLocation {
    /// The registry.
    pub id: Id<Registry>,
    /// Its organization.
    pub org: Id<Org>,
}

static REGISTRY: Reference<RegistryLocation, Restricted<Registry>> = Reference::cascade(
    &["id", "org"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |place: &RegistryLocation, _| vec![place.id.to_bytes()],
)
.in_org(|place| place.org);

impl Record for RegistryLocation {
    const TABLE: &'static str = "registries.places";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const OWNED: bool = false;
    type Key = Id<Registry>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// By `registryRef` (reference: registries-and-templates, "Registries"): `<org>/<slug>`, an id, or
/// a slug in the organization of `orgSlug` or of the caller's key. 404 if there is none, or another
/// than `orgSlug` says; 400 for a slug alone where nothing says in which organization.
pub static BY_REFERENCE: OrgResolver = OrgResolver {
    argument: Some("registryRef"),
    resolve: |view, hint, key| resolve(view, reference(hint), hint, key),
    is_public: |view, hint| is_public(view, reference(hint)),
};

/// By the first parameter of the path, in the organization of `orgSlug`.
pub static BY_PATH: OrgResolver = OrgResolver {
    argument: None,
    resolve: |view, hint, key| resolve(view, in_path(hint), hint, key),
    is_public: |view, hint| is_public(view, in_path(hint)),
};

fn reference(hint: &OrgHint) -> &str {
    hint.reference.as_deref().unwrap_or_default()
}

fn in_path(hint: &OrgHint) -> &str {
    hint.params.first().map_or("", String::as_str)
}

fn is_public(view: &View, reference: &str) -> Result<bool> {
    Ok(find(view, reference)?.is_some_and(|registry| registry.is_public()))
}

fn resolve(
    view: &View,
    reference: &str,
    hint: &OrgHint,
    key: Option<Id<Org>>,
) -> Result<ResolvedOrg> {
    let said = match hint.org_slug.as_deref() {
        None => None,
        Some(slug) => {
            Some(organization_named(view, slug)?.ok_or_else(Error::organization_not_found)?)
        }
    };
    let agrees = |org: Id<Org>| said.is_none_or(|said| said == org);
    // A foreign one that may not be read and one that never was get the same answer.
    let unknown = Error::organization_not_found;

    let id = Id::parse(reference);
    if !id.is_nil() {
        if let Some(org) = said {
            return Ok(ResolvedOrg { org, unknown });
        }
        let found = view.get::<RegistryLocation>(&id)?.ok_or_else(Error::not_found)?;
        return Ok(ResolvedOrg { org: found.org, unknown: Error::not_found });
    }
    let org = match reference.split_once('/') {
        Some((org, _)) => organization_named(view, org)?
            .filter(|org| agrees(*org))
            .ok_or_else(Error::organization_not_found)?,
        None => said.or(key).ok_or_else(|| {
            Error::invalid_at(
                "registryRef",
                "must be <orgSlug>/<registrySlug> or a registry's id; a slug alone is enough only \
                 under an API key",
            )
        })?,
    };
    Ok(ResolvedOrg { org, unknown })
}
