//! Finding the organization of a registry that a request names, before anybody is admitted to it.

use bincode::{Decode, Encode};

use super::{BY_SLUG, Registry};
use crate::api::{Named, Place};
use crate::auth::{organization_named, own_slug};
use crate::base::{Error, Id, Result, Slug};
use crate::store::{Org, Record, View};

/// Which organization a registry belongs to: its id alone names it in requests.
#[derive(Clone, Debug, Encode, Decode)]
pub struct RegistryPlace {
    /// The registry.
    pub id: Id<Registry>,
    /// Its organization.
    pub org: Id<Org>,
}

impl Record for RegistryPlace {
    const TABLE: &'static str = "registries.places";
    const OWNED: bool = false;
    type Key = Id<Registry>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// Finds the organization of a request by its `registryRef` (contract §3): `<org>/<slug>`, an id,
/// or a slug in the organization of `orgSlug` or of the caller's key.
///
/// # Errors
/// 404 if there is none, or another than `orgSlug` says; 400 for a slug alone where nothing says in
/// which organization.
pub fn by_reference(view: &View, named: &Named, key: Option<Id<Org>>) -> Result<Place> {
    locate(view, named.registry_ref.as_deref().unwrap_or_default(), named, key)
}

/// The same by the first parameter of the path, in the organization of `orgSlug`.
///
/// # Errors
/// As [`by_reference`].
pub fn by_path(view: &View, named: &Named, key: Option<Id<Org>>) -> Result<Place> {
    locate(view, named.params.first().map_or("", String::as_str), named, key)
}

fn locate(view: &View, reference: &str, named: &Named, key: Option<Id<Org>>) -> Result<Place> {
    let said = match named.org_slug.as_deref() {
        None => None,
        Some(slug) => {
            Some(organization_named(view, slug)?.ok_or_else(Error::organization_not_found)?)
        }
    };
    let agrees = |org: Id<Org>| said.is_none_or(|said| said == org);

    let id = Id::parse(reference);
    if !id.is_nothing() {
        // A foreign one that may not be read and one that never was get the same answer: where
        // `orgSlug` was sent, that of the organization.
        let unknown = if said.is_some() { Error::organization_not_found } else { Error::not_found };
        let Some(place) = view.get::<RegistryPlace>(&id)?.filter(|place| agrees(place.org)) else {
            return match said {
                Some(org) => Ok(Place { org, open: false, unknown }),
                None => Err(Error::not_found()),
            };
        };
        let registry = view.of(place.org).get::<Registry>(&id)?;
        let open = registry.is_some_and(|registry| registry.is_public());
        return Ok(Place { org: place.org, open, unknown });
    }

    let (org, slug) = match reference.split_once('/') {
        Some((org, slug)) => {
            let org = organization_named(view, org)?.filter(|org| agrees(*org));
            (org.ok_or_else(Error::organization_not_found)?, slug)
        }
        None => {
            let org = said.or(key).ok_or_else(|| {
                Error::invalid_at(
                    "registryRef",
                    "must be <orgSlug>/<registrySlug> or a registry's id; a slug alone is enough \
                     only under an API key",
                )
            })?;
            (org, reference)
        }
    };
    let registry = match Slug::parse(slug) {
        Ok(slug) => view.of(org).find(&BY_SLUG, &slug)?,
        Err(_) => None,
    };
    let open = registry.is_some_and(|registry| registry.is_public());
    Ok(Place { org, open, unknown: Error::organization_not_found })
}

/// The slug in a reference that is no id, if it is one of the view's organization.
pub fn slug_part<'a>(view: &View, reference: &'a str) -> Result<Option<&'a str>> {
    match reference.split_once('/') {
        None => Ok(Some(reference)),
        Some((org, slug)) => Ok((own_slug(view)?.as_str() == org).then_some(slug)),
    }
}
