//! Locates the organization of the registry that a request names, before the caller is authorized.

use bincode::{Decode, Encode};

use super::registry::{Registry, find};
use crate::api::{OrgHint, OrgResolver, ResolvedOrg};
use crate::auth::{Restricted, organization_named};
use crate::base::{Error, Id, Result};
use crate::store::{AnyReference, Export, Key, Org, Record, Reference, View};

crate::base::portable! {
/// The organization of a registry, for requests that name the registry by its id alone.
#[derive(Clone, Debug, Encode, Decode)]
pub struct RegistryLocation {
    pub id: Id<Registry>,
    /// Its organization.
    pub org: Id<Org>,
}
}

static REGISTRY: Reference<RegistryLocation, Restricted<Registry>> = Reference::cascade(
    &["id", "org"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |location: &RegistryLocation, _| vec![location.id.to_bytes()],
)
.target_org(|location| location.org);

impl Record for RegistryLocation {
    const TABLE: &'static str = "registries.places";
    const EXPORT: Export<Self> = Export::of(|location: &Self| location.org);
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const ORG_SCOPED: bool = false;
    type Key = Id<Registry>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// Locates by `registryRef` (reference: registries-and-templates, "Registries"): `<org>/<slug>`, an
/// id, or a slug in the organization of `orgSlug` or of the caller's key. 404 if there is no such
/// organization or it is not the one of `orgSlug`; 400 for a slug without any organization.
pub static BY_REFERENCE: OrgResolver = OrgResolver {
    argument: Some("registryRef"),
    resolve: |view, hint, key| {
        let unknown = Unknown {
            organization: || Error::organization_not_found("registryRef"),
            registry: || Error::no_such("registry").at("registryRef"),
        };
        resolve(view, reference(hint), hint, key, unknown)
    },
    is_public: |view, hint| is_public(view, reference(hint)),
};

/// Locates by the first parameter of the path, in the organization of `orgSlug`.
pub static BY_PATH: OrgResolver = OrgResolver {
    argument: None,
    resolve: |view, hint, key| {
        let unknown = Unknown {
            organization: || Error::organization_not_found("orgSlug"),
            registry: || Error::no_such("registry").at("registrySlug"),
        };
        resolve(view, in_path(hint), hint, key, unknown)
    },
    is_public: |view, hint| is_public(view, in_path(hint)),
};

/// The errors of a route whose registry or organization is unknown. A foreign registry that the caller
/// may not read and one that never existed get the same one, and so do organizations: which of two
/// parameters named the organization must not depend on which of them exist.
struct Unknown {
    organization: fn() -> Error,
    registry: fn() -> Error,
}

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
    unknown: Unknown,
) -> Result<ResolvedOrg> {
    let requested = match hint.org_slug.as_deref() {
        None => None,
        Some(slug) => Some(organization_named(view, slug)?.ok_or_else(unknown.organization)?),
    };
    let agrees = |org: Id<Org>| requested.is_none_or(|requested| requested == org);
    let id = Id::parse(reference);
    if !id.is_nil() {
        if let Some(org) = requested {
            return Ok(ResolvedOrg { org, unknown: unknown.organization });
        }
        let found = view.get::<RegistryLocation>(&id)?.ok_or_else(unknown.registry)?;
        return Ok(ResolvedOrg { org: found.org, unknown: unknown.registry });
    }
    let org = match reference.split_once('/') {
        Some((org, _)) => organization_named(view, org)?
            .filter(|org| agrees(*org))
            .ok_or_else(unknown.organization)?,
        None => requested.or(key).ok_or_else(|| {
            Error::invalid_at(
                "registryRef",
                "must be <orgSlug>/<registrySlug> or a registry's id; a slug alone is enough only \
                 with an API key",
            )
        })?,
    };
    Ok(ResolvedOrg { org, unknown: unknown.organization })
}
