//! Who calls, in which organization, and whether they may: the one place where a credential and a
//! route become a caller.

use std::sync::Arc;

use super::executor::Executor;
use crate::api::request::Principal;
use crate::api::route::Route;
use crate::api::scope::{OrgHint, OrgResolver, Scope};
use crate::auth::{
    Authenticator, Identity, RawCredential, RequiredCredential, key_organization,
    user_organizations,
};
use crate::base::{Error, Id, Kind, Result};
use crate::store::{Org, Tx, View};

/// The part of the request that decides who calls, owned: what a transaction or somebody who waits
/// is admitted by, at each state anew.
#[derive(Clone)]
pub struct AuthContext {
    pub executor: Arc<Executor>,
    pub route: Arc<Route>,
    pub credential: RawCredential,
    pub hint: OrgHint,
}

impl AuthContext {
    /// As [`authorize`].
    pub fn authorize<'v>(&self, view: &View<'v>) -> Result<(Principal, View<'v>)> {
        authorize(&self.executor.authenticator, &self.route, &self.credential, view, &self.hint)
    }

    /// The same, and the transaction is of the organization from now on.
    pub fn enter(&self, tx: &mut Tx) -> Result<Principal> {
        let (who, org) = {
            let (who, view) = self.authorize(&tx.view())?;
            (who, view.org())
        };
        tx.enter(org);
        Ok(who)
    }
}

/// Who calls, as far as the route wants to know: 401. On a route for sessions alone every other
/// credential, valid or not, gets the same answer.
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

/// Who calls, in the organization that the request is about, and what they may see of it: 401, 404
/// of the organization, 403 of the role.
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

/// Turns a credential and a route into a caller and an organization: 401, 404 of the organization.
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
            let is_anyone =
                *credential == RawCredential::Absent && !route.policy.needs_credential();
            let who =
                if is_anyone { Principal::Anonymous } else { Principal::Identity(identify()?) };
            return Ok((who, *view));
        }
        Scope::Named(locate) => {
            return resolve_named(authenticator, route, locate, credential, view, hint);
        }
        Scope::InferFromPath(is_there) if hint.org_slug.is_none() => {
            let org = org_with(view, &*identify()?, is_there, &hint.params)?;
            authenticator.authorize_in(view, credential, org.ok_or_else(Error::not_found)?)?
        }
        Scope::Organization | Scope::InferFromPath(_) => authenticator.authorize(
            view,
            credential,
            hint.org_slug.as_deref().unwrap_or_default(),
        )?,
    };
    let view = view.of(caller.org);
    Ok((Principal::Caller(caller), view))
}

/// The same where something that the request names leads to the organization. What is public there
/// is open to anybody; everybody else hears what they would hear if there were no such thing.
fn resolve_named<'v>(
    authenticator: &Authenticator,
    route: &Route,
    locate: &OrgResolver,
    credential: &RawCredential,
    view: &View<'v>,
    hint: &OrgHint,
) -> Result<(Principal, View<'v>)> {
    let identify = || authenticator.identify(view, credential);
    let is_open = |org| Ok(route.policy.public_read && (locate.is_public)(&view.of(org), hint)?);
    if *credential == RawCredential::Absent {
        // Whatever else would be told of what is not open: there is no credential.
        return match (locate.resolve)(view, hint, None) {
            Ok(found) if is_open(found.org)? => Ok((Principal::Anonymous, view.of(found.org))),
            _ => identify().map(|who| (Principal::Identity(who), *view)),
        };
    }
    let found = (locate.resolve)(view, hint, key_organization(&*identify()?))?;
    match authenticator.authorize_in(view, credential, found.org) {
        Ok(caller) => {
            let view = view.of(caller.org);
            Ok((Principal::Caller(caller), view))
        }
        Err(error) if error.kind() == Kind::NotFound => {
            if is_open(found.org)? {
                Ok((Principal::Identity(identify()?), view.of(found.org)))
            } else {
                Err((found.unknown)())
            }
        }
        Err(error) => Err(error),
    }
}

/// The organization of the caller's in which the thing named by the path is.
fn org_with(
    view: &View,
    identity: &Identity,
    is_there: fn(&View, &[String]) -> Result<bool>,
    params: &[String],
) -> Result<Option<Id<Org>>> {
    let organizations = match key_organization(identity) {
        Some(org) => vec![org],
        None => user_organizations(view, identity.user)?,
    };
    for org in organizations {
        if is_there(&view.of(org), params)? {
            return Ok(Some(org));
        }
    }
    Ok(None)
}
