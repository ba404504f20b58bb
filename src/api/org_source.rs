//! How a route finds the organization it is about.

use std::sync::Arc;

use serde_json::Value;

use crate::base::{Error, Id, PublicKey, Result};
use crate::store::{Org, View};

/// How a route finds the organization it is about.
#[derive(Clone, Copy)]
pub enum OrgSource {
    /// By `orgSlug`.
    Organization,
    /// It has none.
    Installation,
    /// By `orgSlug` or, if it is absent, by the path: the first of the caller's organizations that
    /// contains the resource. The function returns whether the view's organization does.
    InferFromPath(fn(&View, &[String]) -> Result<bool>),
    /// By a resource that the request names and that may be public.
    Named(&'static OrgResolver),
    /// By its slug, the first parameter of the path. For callers outside of every organization.
    InPath(&'static OutsideAccess),
}

/// What a route for outside agents says about the organization in its path.
pub struct OutsideAccess {
    /// The error for a slug that no organization has.
    pub unknown: fn() -> Error,
    /// Whether the organization, which the view is scoped to, has accepted this key for what the
    /// parameters of the path name.
    pub has_accepted: fn(&View, &[String], &PublicKey) -> Result<bool>,
}

/// The parts of a request that determine its organization.
#[derive(Clone, Debug, Default)]
pub struct OrgHint {
    /// `orgSlug`, if it was sent.
    pub org_slug: Option<String>,
    /// The argument named by [`OrgResolver::argument`], if it was sent.
    pub reference: Option<String>,
    /// The parameters of the path.
    pub params: Arc<[String]>,
    /// The arguments that scopes of keys are narrowed by
    /// ([`TargetFinder::arguments`](super::TargetFinder::arguments)), if they were sent.
    pub targets: Vec<(&'static str, String)>,
}

/// Finds the organization by a resource that the request names.
pub struct OrgResolver {
    /// The argument that names the resource; `None` if the path does.
    pub argument: Option<&'static str>,
    /// Finds it; the last argument is the organization of the caller's API key, if the credential
    /// is one. 404 if there is no such resource, 400 if the reference is ambiguous.
    pub resolve: fn(&View, &OrgHint, Option<Id<Org>>) -> Result<ResolvedOrg>,
    /// Whether the resource is public
    /// ([`AuthPolicy::public_read`](crate::auth::AuthPolicy::public_read)). The view is scoped to
    /// the organization found.
    pub is_public: fn(&View, &OrgHint) -> Result<bool>,
}

/// The organization found by a resource that a request names.
pub struct ResolvedOrg {
    pub org: Id<Org>,
    /// The error for callers outside of that organization, unless the resource is public: the same
    /// as if the resource had never existed.
    pub unknown: fn() -> Error,
}

/// How a route treats `orgSlug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrgSlugMode {
    Required,
    Optional,
    /// Ignored, even if it is sent.
    Ignored,
}

impl OrgSource {
    /// How `orgSlug` is treated.
    pub fn org_slug(self) -> OrgSlugMode {
        match self {
            OrgSource::Organization => OrgSlugMode::Required,
            OrgSource::InferFromPath(_) | OrgSource::Named(_) => OrgSlugMode::Optional,
            OrgSource::Installation | OrgSource::InPath(_) => OrgSlugMode::Ignored,
        }
    }

    /// The argument other than `orgSlug` that determines the organization.
    pub fn argument(self) -> Option<&'static str> {
        match self {
            OrgSource::Named(locate) => locate.argument,
            _ => None,
        }
    }
}

impl OrgHint {
    /// Reads arguments that were not validated: of several values the first counts, and a value
    /// that is not a text counts as absent.
    pub fn unchecked(source: OrgSource, arguments: &Value, params: &Arc<[String]>) -> Self {
        let text = |name: &str| match arguments.get(name)? {
            Value::Array(values) => values.first()?.as_str().map(String::from),
            value => value.as_str().map(String::from),
        };
        OrgHint {
            org_slug: text("orgSlug"),
            reference: source.argument().and_then(text),
            params: params.clone(),
            targets: Vec::new(),
        }
    }

    /// One of the arguments that scopes of keys are narrowed by.
    pub fn target(&self, name: &str) -> Option<&str> {
        let found = self.targets.iter().find(|(argument, _)| *argument == name);
        found.map(|(_, value)| value.as_str())
    }
}
