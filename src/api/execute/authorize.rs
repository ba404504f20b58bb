//! Authorization: the one place where a credential and a route become a principal in an
//! organization.

use std::sync::Arc;

use super::executor::Executor;
use crate::api::request::{Principal, path_names};
use crate::api::route::Route;
use crate::api::scope::{OrgHint, OrgResolver, Scope};
use crate::auth::{
    Authenticator, Identity, RawCredential, RequiredCredential, key_organization,
    user_organizations,
};
use crate::base::{Error, Id, Kind, Result};
use crate::store::{Org, Tx, View};

/// The owned parts of a request by which its caller is authorized, again at each snapshot or
/// transaction.
#[derive(Clone)]
pub struct AuthContext {
    pub executor: Arc<Executor>,
    pub route: Arc<Route>,
    pub credential: RawCredential,
    pub hint: OrgHint,
}

impl AuthContext {
    /// See [`authorize`].
    pub fn authorize<'v>(&self, view: &View<'v>) -> Result<(Principal, View<'v>)> {
        authorize(&self.executor.authenticator, &self.route, &self.credential, view, &self.hint)
    }

    /// Authorizes the caller and scopes the transaction to the organization.
    pub fn enter(&self, tx: &mut Tx) -> Result<Principal> {
        let (who, org) = {
            let (who, view) = self.authorize(&tx.view())?;
            (who, view.org())
        };
        tx.set_org(org);
        Ok(who)
    }
}

/// Authenticates the credential as the route requires; `None` for an anonymous client.
///
/// # Errors
/// 401. On a session-only route every API key, valid or not, gets the same one.
pub fn identify(
    authenticator: &Authenticator,
    route: &Route,
    view: &View,
    credential: &RawCredential,
) -> Result<Option<Arc<Identity>>> {
    let is_absent = *credential == RawCredential::Absent;
    match route.policy.credential {
        RequiredCredential::None if is_absent => return Ok(None),
        RequiredCredential::Session
            if matches!(credential, RawCredential::Key(_) | RawCredential::Malformed) =>
        {
            return Err(Error::new(
                Kind::Unauthenticated,
                "session_required",
                "this takes the session of a signed-in person; API keys are not accepted here",
            ));
        }
        _ => {}
    }
    authenticator.identify(view, credential).map(Some)
}

/// Returns the principal and a view scoped to the organization of the request.
///
/// # Errors
/// 401; 404 for the organization; 403 for the role.
pub fn authorize<'v>(
    authenticator: &Authenticator,
    route: &Route,
    credential: &RawCredential,
    view: &View<'v>,
    hint: &OrgHint,
) -> Result<(Principal, View<'v>)> {
    let (who, view) = resolve(authenticator, route, credential, view, hint)?;
    if let Principal::Caller(caller) = &who
        && route.policy.needs_admin()
        && !caller.is_admin()
    {
        return Err(Error::forbidden(
            "admin_required",
            "only an owner or admin of the organization may do this",
        ));
    }
    Ok((who, view))
}

/// Returns the principal and a view scoped to the organization, without checking the role.
///
/// # Errors
/// 401; 404 for the organization.
pub fn resolve<'v>(
    authenticator: &Authenticator,
    route: &Route,
    credential: &RawCredential,
    view: &View<'v>,
    hint: &OrgHint,
) -> Result<(Principal, View<'v>)> {
    let identify = || authenticator.identify(view, credential);
    let caller = match route.scope {
        Scope::Installation => {
            let is_anonymous =
                *credential == RawCredential::Absent && !route.policy.needs_credential();
            let who =
                if is_anonymous { Principal::Anonymous } else { Principal::Identity(identify()?) };
            return Ok((who, *view));
        }
        Scope::Named(locate) => {
            return resolve_named(authenticator, route, locate, credential, view, hint);
        }
        Scope::InferFromPath(contains) if hint.org_slug.is_none() => {
            let org = org_with(view, &*identify()?, contains, &hint.params)?;
            let org = org.ok_or_else(|| no_such_in_path(route))?;
            authenticator.authorize_in(view, credential, org)?
        }
        Scope::Organization | Scope::InferFromPath(_) => authenticator.authorize(
            view,
            credential,
            hint.org_slug.as_deref().unwrap_or_default(),
        )?,
    };
    let view = view.in_org(caller.org);
    Ok((Principal::Caller(caller), view))
}

/// The 404 of the resource that the last parameter of the path names.
fn no_such_in_path(route: &Route) -> Error {
    let noun = route.name.split('.').next().unwrap_or_default().replace('_', " ");
    Error::no_such(&noun).at(path_names(route.path).last().unwrap_or_default())
}

/// As [`resolve`], for an organization found by a resource that the request names. A public
/// resource is open to every client; a client without access to another one gets the error that it
/// would get if the resource did not exist.
fn resolve_named<'v>(
    authenticator: &Authenticator,
    route: &Route,
    locate: &OrgResolver,
    credential: &RawCredential,
    view: &View<'v>,
    hint: &OrgHint,
) -> Result<(Principal, View<'v>)> {
    let identify = || authenticator.identify(view, credential);
    let is_open =
        |org| Ok(route.policy.public_read && (locate.is_public)(&view.in_org(org), hint)?);
    if *credential == RawCredential::Absent {
        // For a resource that is not public the missing credential comes before any other error.
        return match (locate.resolve)(view, hint, None) {
            Ok(found) if is_open(found.org)? => Ok((Principal::Anonymous, view.in_org(found.org))),
            _ => identify().map(|who| (Principal::Identity(who), *view)),
        };
    }
    let found = (locate.resolve)(view, hint, key_organization(&*identify()?))?;
    match authenticator.authorize_in(view, credential, found.org) {
        Ok(caller) => {
            let view = view.in_org(caller.org);
            Ok((Principal::Caller(caller), view))
        }
        Err(error) if error.kind() == Kind::NotFound => {
            if is_open(found.org)? {
                Ok((Principal::Identity(identify()?), view.in_org(found.org)))
            } else {
                Err((found.unknown)())
            }
        }
        Err(error) => Err(error),
    }
}

/// Returns the first of the caller's organizations that contains the resource in the path.
fn org_with(
    view: &View,
    identity: &Identity,
    contains: fn(&View, &[String]) -> Result<bool>,
    params: &[String],
) -> Result<Option<Id<Org>>> {
    let organizations = match key_organization(identity) {
        Some(org) => vec![org],
        None => user_organizations(view, identity.user)?,
    };
    for org in organizations {
        if contains(&view.in_org(org), params)? {
            return Ok(Some(org));
        }
    }
    Ok(None)
}
