//! The scopes that an API key needs for a route (reference: identity-and-rights, "Scopes of keys").
//!
//! A route that takes keys declares them beside its access policy. They are checked after the role,
//! in the state that the operation sees, so that a scope for one resource holds for what bears its
//! name at that moment.

use super::org_source::OrgHint;
use crate::auth::{KeyAccess, ScopeName, ScopeTarget};
use crate::base::Result;
use crate::store::View;

/// A scope that an API key needs for a route.
#[derive(Clone, Copy)]
pub struct RequiredScope {
    pub name: ScopeName,
    pub reach: ScopeReach,
}

/// What of its kind a request is about.
#[derive(Clone, Copy)]
pub enum ScopeReach {
    /// All of it, or something that does not exist yet: a scope for one resource does not suffice.
    All,
    /// What the request names.
    One(&'static TargetFinder),
    /// A list, from which the operation leaves out what the key has no scope for
    /// ([`Caller::covers`](crate::auth::Caller::covers)).
    Listed,
}

/// Finds the resource that a request names.
pub struct TargetFinder {
    /// The arguments that it reads, in the query or the body; `to.a` is the field `a` of `to`.
    pub arguments: &'static [&'static str],
    /// Finds it in the view's organization; `None` if there is none.
    pub find: fn(&View, &OrgHint) -> Result<Option<ScopeTarget>>,
}

impl RequiredScope {
    /// Requires the scope of a key, in a view of the organization of the request.
    ///
    /// # Errors
    /// 403 that names the scope.
    pub fn check(&self, view: &View, access: &KeyAccess, hint: &OrgHint) -> Result<()> {
        match self.reach {
            ScopeReach::All => access.require(self.name, None),
            ScopeReach::Listed => access.require_some(self.name),
            // The resource is looked up only if that matters.
            ScopeReach::One(_) if access.covers(self.name, None) => Ok(()),
            ScopeReach::One(finder) => {
                access.require_some(self.name)?;
                access.require(self.name, (finder.find)(view, hint)?.as_ref())
            }
        }
    }
}
