//! The scopes that an API key needs for a route (reference: identity-and-rights, "Scopes of keys").
//!
//! A route that takes keys declares them beside its access policy. They are checked after the role,
//! in the state that the operation sees, so that a scope for one resource holds for what bears its
//! name at that moment.

use super::org_source::OrgHint;
use crate::auth::{AuthPolicy, KeyAccess, ScopeName, ScopeTarget};
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

/// Requires the scopes that a route declares of a key: full access if it declares none. `find` finds
/// the resource that the request names.
///
/// # Errors
/// 403 that names the scope; those of `find`.
pub fn require_scopes(
    required: &[RequiredScope],
    access: &KeyAccess,
    find: impl Fn(&TargetFinder) -> Result<Option<ScopeTarget>>,
) -> Result<()> {
    if required.is_empty() {
        return access.require_full();
    }
    required.iter().try_for_each(|scope| scope.check(access, &find))
}

impl RequiredScope {
    fn check(
        &self,
        access: &KeyAccess,
        find: impl Fn(&TargetFinder) -> Result<Option<ScopeTarget>>,
    ) -> Result<()> {
        match self.reach {
            ScopeReach::All => access.require(self.name, None),
            ScopeReach::Listed => access.require_some(self.name),
            // The resource is looked up only if that matters.
            ScopeReach::One(_) if access.covers(self.name, None) => Ok(()),
            ScopeReach::One(finder) => {
                access.require_some(self.name)?;
                access.require(self.name, find(finder)?.as_ref())
            }
        }
    }
}

/// What a route requires of its callers, by which their rights are explained.
pub struct RouteRule {
    pub policy: AuthPolicy,
    pub required_scopes: Vec<RequiredScope>,
    /// As [`Route::is_for_viewers`](super::Route::is_for_viewers) says.
    pub is_for_viewers: bool,
}
