//! How a route finds the organization it is about.

use crate::base::{Error, Id, Result};
use crate::store::{Org, View};

/// How a route finds the organization it is about.
#[derive(Clone, Copy)]
pub enum Scope {
    /// `orgSlug` says.
    Organization,
    /// It is about none.
    Installation,
    /// `orgSlug` says, or, where it is absent, the organization of the caller's in which the thing
    /// named by the path is: the function says whether it is in the view's.
    Wherever(fn(&View, &[String]) -> Result<bool>),
    /// What the request names says: a registry, whose reads may be open to anybody.
    Named(&'static Locate),
}

/// What a request says about where its organization is to be found.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// `orgSlug`, if it was sent.
    pub org_slug: Option<String>,
    /// `registryRef`, if it was sent.
    pub registry_ref: Option<String>,
    /// The parameters of the path.
    pub params: Vec<String>,
}

/// How what a request names leads to its organization.
pub struct Locate {
    /// Finds it; the last argument is the organization that the caller's key is for, if it is a
    /// key. 404 for what is not there, 400 for what cannot be found without saying more.
    pub place: fn(&View, &Named, Option<Id<Org>>) -> Result<Place>,
    /// Whether anybody may read what is named ([`Rule::Reader`](crate::auth::Rule::Reader)). The
    /// view is of the organization found.
    pub is_open: fn(&View, &Named) -> Result<bool>,
}

/// Where something that a request names was found.
pub struct Place {
    /// In which organization.
    pub org: Id<Org>,
    /// What whoever is not of that organization hears, unless it is open: the same as if what they
    /// name had never been.
    pub unknown: fn() -> Error,
}
