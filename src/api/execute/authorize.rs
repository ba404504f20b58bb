//! Authorization: the one place where a credential and a route become a principal in an
//! organization.

use std::sync::Arc;

use super::request::Request;
use crate::api::org_source::{OrgHint, OrgResolver, OrgSource};
use crate::api::request::{Principal, path_names};
use crate::api::required_scope::{TargetFinder, require_scopes};
use crate::api::route::{AsksAgain, Route};
use crate::auth::nostr::Signer;
use crate::auth::{
    Authenticator, Identity, RawCredential, key_organization, organization_named,
    require_installation_admin, user_organizations,
};
use crate::base::{Error, Id, Kind, Result};
use crate::store::{Org, View};

/// What a request is authorized by: who the caller is, and in which organization.
#[derive(Clone, Copy)]
pub struct Auth<'a> {
    pub authenticator: &'a Authenticator,
    pub request: &'a Request,
    /// Who signed the request, if its route is for outside agents.
    pub signer: Option<&'a Arc<Signer>>,
}

impl Auth<'_> {
    /// Authenticates the credential as the route requires; `None` for an anonymous client.
    ///
    /// # Errors
    /// 401. On a session-only route every API key, valid or not, gets the same one.
    pub fn identify(&self, view: &View) -> Result<Option<Arc<Identity>>> {
        let is_absent = self.request.credential == RawCredential::Absent;
        if is_absent && !self.route().policy.needs_credential() {
            return Ok(None);
        }
        self.require_identity(view).map(Some)
    }

    fn require_identity(&self, view: &View) -> Result<Arc<Identity>> {
        self.require_kind()?;
        self.authenticator.identify(view, &self.request.credential)
    }

    fn route(&self) -> &Route {
        &self.request.route
    }

    /// Refuses API keys where a session is required.
    fn require_kind(&self) -> Result<()> {
        match self.request.credential {
            RawCredential::Key(_) | RawCredential::Malformed => self.route().policy.require_keys(),
            _ => Ok(()),
        }
    }

    /// Returns the principal and a view scoped to the organization of the request.
    ///
    /// # Errors
    /// 401; 404 for the organization; 403 for a missing second factor, for the role, for the scopes of the
    /// key, and for who does not administer the installation; 401 for who has to prove again who they are.
    pub fn authorize<'v>(&self, view: &View<'v>, hint: &OrgHint) -> Result<(Principal, View<'v>)> {
        let (who, view) = self.resolve(view, hint)?;
        let who = match self.check_caller(&view, &who, hint) {
            Ok(()) => who,
            Err(refusal) => self.as_outsider(&view, &who, hint)?.ok_or(refusal)?,
        };
        if self.route().policy.installation {
            let Principal::Caller(caller) = &who else {
                return Err(Error::internal("a route of the installation is for callers"));
            };
            require_installation_admin(&view, &caller.identity)?;
        }
        self.require_recent_proof(&view, &who)?;
        Ok((who, view))
    }

    /// Requires of a person in a session what the route asks again; some ask in their operation.
    ///
    /// # Errors
    /// 401 if they proved too long ago who they are.
    pub fn require_recent_proof(&self, view: &View, who: &Principal) -> Result<()> {
        let identity = match who {
            Principal::Caller(caller) => &caller.identity,
            Principal::Identity(identity) => identity,
            _ => return Ok(()),
        };
        match self.route().asks_again {
            AsksAgain::Always => identity.require_recent_proof(view.now()),
            AsksAgain::To(_) | AsksAgain::Never => Ok(()),
        }
    }

    /// Requires the second factor, the role and the scopes.
    fn check_caller(&self, view: &View, who: &Principal, hint: &OrgHint) -> Result<()> {
        if let Principal::Caller(caller) = who {
            caller.require_second_factor()?;
            let route = self.route();
            route.policy.require_role(caller.role, route.is_for_viewers())?;
        }
        self.check_scopes(view, who, hint)
    }

    /// Requires the scopes that the route declares, if the credential is an API key and the route
    /// needs one.
    fn check_scopes(&self, view: &View, who: &Principal, hint: &OrgHint) -> Result<()> {
        let identity = match who {
            Principal::Caller(caller) => &caller.identity,
            // A user of another organization reads what is public.
            Principal::Identity(identity) if !self.route().policy.public_read => identity,
            _ => return Ok(()),
        };
        let Some(access) = identity.key_access() else { return Ok(()) };
        if !self.route().policy.needs_credential() || self.route().needs_no_scope {
            return Ok(());
        }
        let find = |finder: &TargetFinder| (finder.find)(view, hint);
        require_scopes(&self.route().required_scopes, access, find)
    }

    /// A member whose key lacks a scope, or whose session a second factor, reads what is public, as every
    /// client does.
    fn as_outsider(
        &self,
        view: &View,
        who: &Principal,
        hint: &OrgHint,
    ) -> Result<Option<Principal>> {
        let (Principal::Caller(caller), OrgSource::Named(resolver)) =
            (who, self.route().org_source)
        else {
            return Ok(None);
        };
        let is_open = self.route().policy.public_read && (resolver.is_public)(view, hint)?;
        Ok(is_open.then(|| Principal::Identity(Arc::new(caller.identity.clone()))))
    }

    /// Returns the principal and a view scoped to the organization, without checking role or scopes.
    ///
    /// # Errors
    /// 401; 404 for the organization.
    pub fn resolve<'v>(&self, view: &View<'v>, hint: &OrgHint) -> Result<(Principal, View<'v>)> {
        let Auth { authenticator, request: Request { route, credential, .. }, signer } = *self;
        let caller = match route.org_source {
            OrgSource::Installation => {
                let identity = self.identify(view)?;
                return Ok((identity.map_or(Principal::Anonymous, Principal::Identity), *view));
            }
            OrgSource::Named(resolver) => return self.resolve_named(view, hint, resolver),
            OrgSource::InPath(access) => {
                let signer = signer.ok_or_else(|| Error::internal("the request is not signed"))?;
                let slug = hint.params.first().map_or("", String::as_str);
                let org = organization_named(view, slug)?.ok_or_else(access.unknown)?;
                return Ok((Principal::Signer(signer.clone()), view.in_org(org)));
            }
            OrgSource::InferFromPath(contains) if hint.org_slug.is_none() => {
                let identity = self.require_identity(view)?;
                let org = org_with(view, &identity, contains, &hint.params)?;
                let org = org.ok_or_else(|| no_such_in_path(route))?;
                authenticator.authorize_in(view, credential, org)?
            }
            OrgSource::Organization | OrgSource::InferFromPath(_) => {
                self.require_kind()?;
                let slug = hint.org_slug.as_deref().unwrap_or_default();
                authenticator.authorize(view, credential, slug)?
            }
        };
        let view = view.in_org(caller.org);
        Ok((Principal::Caller(caller), view))
    }

    /// As [`Auth::resolve`], for an organization found by a resource that the request names. A
    /// public resource is open to every client; a client without access to another one gets the
    /// error that it would get if the resource did not exist.
    fn resolve_named<'v>(
        &self,
        view: &View<'v>,
        hint: &OrgHint,
        resolver: &OrgResolver,
    ) -> Result<(Principal, View<'v>)> {
        let is_open = |org| {
            let is_read = self.route().policy.public_read;
            Ok(is_read && (resolver.is_public)(&view.in_org(org), hint)?)
        };
        if self.request.credential == RawCredential::Absent {
            // For a resource that is not public the missing credential comes before any other error.
            return match (resolver.resolve)(view, hint, None) {
                Ok(found) if is_open(found.org)? => {
                    Ok((Principal::Anonymous, view.in_org(found.org)))
                }
                _ => self.require_identity(view).map(|who| (Principal::Identity(who), *view)),
            };
        }
        let identity = self.require_identity(view)?;
        let found = (resolver.resolve)(view, hint, key_organization(&identity))?;
        match self.authenticator.authorize_in(view, &self.request.credential, found.org) {
            Ok(caller) => {
                let view = view.in_org(caller.org);
                Ok((Principal::Caller(caller), view))
            }
            // A member whose session was not begun with the required provider reads what is public, too.
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Forbidden) => {
                if is_open(found.org)? {
                    Ok((Principal::Identity(identity), view.in_org(found.org)))
                } else if error.kind() == Kind::NotFound {
                    Err((found.unknown)())
                } else {
                    Err(error)
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// The 404 of the resource that the last parameter of the path names.
fn no_such_in_path(route: &Route) -> Error {
    let noun = route.name.split('.').next().unwrap_or_default().replace('_', " ");
    Error::no_such(&noun).at(path_names(route.path).last().unwrap_or_default())
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
