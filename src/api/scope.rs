//! How a route finds the organization it is about.

use serde_json::Value;

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
    InferFromPath(fn(&View, &[String]) -> Result<bool>),
    /// What the request names says: a thing whose reads may be open to anybody.
    Named(&'static Locate),
}

/// What a request says about where its organization is to be found.
#[derive(Clone, Debug, Default)]
pub struct OrgHint {
    /// `orgSlug`, if it was sent.
    pub org_slug: Option<String>,
    /// The argument that [`Locate::argument`] names, if it was sent.
    pub reference: Option<String>,
    /// The parameters of the path.
    pub params: Vec<String>,
}

/// How what a request names leads to its organization.
pub struct Locate {
    /// The argument that names the thing; `None` if the path does.
    pub argument: Option<&'static str>,
    /// Finds it; the last argument is the organization that the caller's key is for, if it is a
    /// key. 404 for what is not there, 400 for what cannot be found without saying more.
    pub place: fn(&View, &OrgHint, Option<Id<Org>>) -> Result<Place>,
    /// Whether anybody may read what is named
    /// ([`AuthPolicy::public_read`](crate::auth::AuthPolicy::public_read)). The view is of the
    /// organization found.
    pub is_public: fn(&View, &OrgHint) -> Result<bool>,
}

/// Where something that a request names was found.
pub struct Place {
    /// In which organization.
    pub org: Id<Org>,
    /// What whoever is not of that organization hears, unless it is public: the same as if what
    /// they name had never been.
    pub unknown: fn() -> Error,
}

/// What a route does with `orgSlug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrgSlugMode {
    /// It must be there.
    Required,
    /// It may be there.
    Optional,
    /// It is passed over.
    Ignored,
}

impl Scope {
    /// What becomes of `orgSlug`.
    pub fn org_slug(self) -> OrgSlugMode {
        match self {
            Scope::Organization => OrgSlugMode::Required,
            Scope::InferFromPath(_) | Scope::Named(_) => OrgSlugMode::Optional,
            Scope::Installation => OrgSlugMode::Ignored,
        }
    }

    /// The argument that leads to the organization, beside `orgSlug`.
    pub fn argument(self) -> Option<&'static str> {
        match self {
            Scope::Named(locate) => locate.argument,
            _ => None,
        }
    }
}

impl OrgHint {
    /// Reads arguments that nobody has checked yet: of several values the first counts, and what
    /// is no text is absent.
    pub fn unchecked(scope: Scope, arguments: &Value, params: &[String]) -> Self {
        let text = |name: &str| match arguments.get(name)? {
            Value::Array(values) => values.first()?.as_str().map(String::from),
            value => value.as_str().map(String::from),
        };
        OrgHint {
            org_slug: text("orgSlug"),
            reference: scope.argument().and_then(text),
            params: params.to_vec(),
        }
    }
}
