//! Who calls: a verified credential, its identity, and what that is in an organization.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::basis::{Access, AccessBasis, grant_required};
use super::policy::member_required;
use super::records::{
    ApiKey, GRANT_BY_TARGET, Grant, Granted, Membership, ResourceType, Role, User,
};
use super::scopes::{KeyAccess, ScopeName, ScopeTarget};
use super::second_factor::second_factor_missing;
use super::session::Session;
use crate::base::{Error, Id, Result, Slug, Time};
use crate::store::{Key, Order, Org, View};

/// A verified credential.
#[derive(Clone, Debug, PartialEq)]
pub enum Credential {
    /// An API key.
    Key {
        id: Id<ApiKey>,
        name: String,
        /// The organization it is for.
        org: Id<Org>,
        /// Whether it was given `deployment:approve-as`.
        approve_as: bool,
        /// How much of its user's rights it has.
        access: Arc<KeyAccess>,
    },
    Session(Id<Session>),
}

impl Credential {
    /// The credential that a key is.
    pub(super) fn of_key(key: &ApiKey) -> Self {
        Credential::Key {
            id: key.id,
            name: key.name.to_string(),
            org: key.org,
            approve_as: key.approve_as,
            access: Arc::new(key.access.clone()),
        }
    }
}

/// The person who answers for the key of a service account, as a member of the key's organization at
/// present. The key has no more rights than they have.
#[derive(Clone, Debug, PartialEq)]
pub struct Sponsor {
    pub user: Id<User>,
    pub name: String,
    pub role: Role,
}

impl Sponsor {
    /// Returns the sponsor of a key; `None` for a key that acts as who created it.
    ///
    /// # Errors
    /// 401 if they are no member of the key's organization.
    pub fn of(view: &View, key: &ApiKey) -> Result<Option<Self>> {
        if !key.has_sponsor() {
            return Ok(None);
        }
        let membership = view.get::<Membership>(&(key.created_by, key.org))?;
        let Membership { user, role, .. } = membership.ok_or_else(|| {
            Error::unauthenticated(
                "who is responsible for this key of a service account is no member of the \
                 organization; one of its admins must take the key over",
            )
        })?;
        let person = view.fetch::<User>(&user)?;
        if !person.accepts_made(key.answered_for_since()) {
            return Err(made_before_proof());
        }
        Ok(Some(Sponsor { user, name: person.name.into_string(), role }))
    }
}

/// An authenticated user, not yet in an organization.
#[derive(Clone, Debug)]
pub struct Identity {
    pub user: Id<User>,
    pub name: String,
    pub credential: Credential,
    /// The person who answers for the credential, if the user is a service account.
    pub sponsor: Option<Sponsor>,
    /// When the credential expires.
    pub expires_at: Option<Time>,
    /// When the person in a session last proved who they are; `None` if that is not asked for.
    pub proved_at: Option<Time>,
}

/// Writes the ids, for the log.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.credential {
            Credential::Key { id, .. } => write!(f, "user:{}/key:{id}", self.user),
            Credential::Session(id) => write!(f, "user:{}/session:{id}", self.user),
        }
    }
}

impl Identity {
    /// The person who answers for the request: the user, or the sponsor of a service account's key.
    pub fn person(&self) -> Id<User> {
        self.sponsor.as_ref().map_or(self.user, |sponsor| sponsor.user)
    }

    /// The role in an organization of which the user is a member: that of the user, and no higher than
    /// that of the sponsor. Nothing else decides what role a caller has.
    pub fn role_in(&self, membership: &Membership) -> Role {
        let sponsor = self.sponsor.as_ref().map(|sponsor| sponsor.role);
        sponsor.map_or(membership.role, |role| role.min(membership.role))
    }

    /// How much of the user's rights the credential has; `None` in a session, which has all.
    pub fn key_access(&self) -> Option<&KeyAccess> {
        match &self.credential {
            Credential::Key { access, .. } => Some(access),
            Credential::Session(_) => None,
        }
    }

    /// Refuses an expired credential with 401.
    pub(super) fn require_unexpired(&self, view: &View) -> Result<()> {
        match self.expires_at {
            Some(end) if end <= view.now() => Err(invalid_credential()),
            _ => Ok(()),
        }
    }
}

/// An authenticated member of an organization.
#[derive(Clone, Debug)]
pub struct Caller {
    pub identity: Identity,
    pub org: Id<Org>,
    pub org_slug: Slug,
    pub role: Role,
    /// Whether it is the session of a person without the second factor that the organization requires.
    pub lacks_second_factor: bool,
}

impl Caller {
    /// The user.
    pub fn user(&self) -> Id<User> {
        self.identity.user
    }

    /// Whether this is the user, or the one who answers for the key that is used: who knows the key of
    /// a service account can act through it.
    pub fn may_be(&self, user: Id<User>) -> bool {
        user == self.user() || user == self.identity.person()
    }

    /// Those who must each have a right that is given to users by name, as a grant for what is restricted:
    /// the user, and the sponsor of a service account's key unless they are an admin, who needs none.
    pub fn grantees(&self) -> impl Iterator<Item = Id<User>> {
        let sponsor = self.identity.sponsor.as_ref().filter(|sponsor| sponsor.role < Role::Admin);
        std::iter::once(self.user()).chain(sponsor.map(|sponsor| sponsor.user))
    }

    /// Whether the role lets the caller change what is the organization's: a viewer only reads it.
    pub fn may_write(&self) -> bool {
        self.role >= Role::Member
    }

    /// Whether the role is admin or owner.
    pub fn is_admin(&self) -> bool {
        self.role >= Role::Admin
    }

    /// Whether the credential is a session.
    pub fn is_session(&self) -> bool {
        matches!(self.identity.credential, Credential::Session(_))
    }

    /// Requires the second factor that the organization requires of sessions.
    ///
    /// # Errors
    /// 403 without one.
    pub fn require_second_factor(&self) -> Result<()> {
        if self.lacks_second_factor { Err(second_factor_missing()) } else { Ok(()) }
    }

    /// Whether the role permits what a scope is for, with whatever credential.
    fn role_covers(&self, name: ScopeName) -> bool {
        self.may_write() || name.is_read()
    }

    /// Whether the role and the credential's scopes cover `name` on this target; without one, on
    /// everything. Lists are filtered by it.
    pub fn covers(&self, name: ScopeName, target: Option<&ScopeTarget>) -> bool {
        let access = self.identity.key_access();
        self.role_covers(name) && access.is_none_or(|access| access.covers(name, target))
    }

    /// Requires a scope beside those that the route declares.
    ///
    /// # Errors
    /// 403 that names the scope; 403 for a viewer unless it changes nothing.
    pub fn require_scope(&self, name: ScopeName, target: Option<&ScopeTarget>) -> Result<()> {
        if !self.role_covers(name) {
            return Err(member_required());
        }
        self.identity.key_access().map_or(Ok(()), |access| access.require(name, target))
    }

    /// Whether the caller may use a resource: every member if it is not restricted, otherwise
    /// admins and users with a grant (reference: identity-and-rights, "Restricted resources").
    /// Other layers ask [`Restricted`](super::Restricted).
    pub(super) fn is_allowed(
        &self,
        view: &View,
        kind: ResourceType,
        id: Id<Granted>,
        access: Access,
    ) -> Result<bool> {
        Ok(self.basis(view, kind, id, access)?.is_some())
    }

    /// Why the caller may use a resource; `None` if they may not.
    pub(super) fn basis(
        &self,
        view: &View,
        kind: ResourceType,
        id: Id<Granted>,
        access: Access,
    ) -> Result<Option<AccessBasis>> {
        if access == Access::Organization {
            return Ok(Some(AccessBasis::Open));
        }
        if self.is_admin() {
            return Ok(Some(AccessBasis::Admin));
        }
        let mut basis = None;
        for user in self.grantees() {
            let grant: Option<Grant> = view.find(&GRANT_BY_TARGET, &(user, kind, id))?;
            let Some(grant) = grant else { return Ok(None) };
            basis = basis.or(Some(AccessBasis::Grant(grant.id)));
        }
        Ok(basis)
    }

    /// Refuses a caller who may not use a resource with 403.
    pub(super) fn require_access(
        &self,
        view: &View,
        kind: ResourceType,
        id: Id<Granted>,
        access: Access,
    ) -> Result<()> {
        if self.is_allowed(view, kind, id, access)? { Ok(()) } else { Err(grant_required()) }
    }

    /// The resources of a type for which the caller has the grants; lists are filtered by them.
    pub(super) fn granted(&self, view: &View, kind: ResourceType) -> Result<BTreeSet<Id<Granted>>> {
        let mut granted: Option<BTreeSet<Id<Granted>>> = None;
        for user in self.grantees() {
            let mut own = BTreeSet::new();
            view.for_each(&GRANT_BY_TARGET, &(user, kind), Order::Ascending, |grant: Grant| {
                own.insert(grant.resource_id);
                Ok(ControlFlow::Continue(()))
            })?;
            granted = Some(match granted {
                None => own,
                Some(all) => &all & &own,
            });
        }
        Ok(granted.unwrap_or_default())
    }
}

/// The error of a key that its owner may wonder about, who has proved the address since.
pub(super) fn made_before_proof() -> Error {
    Error::unauthenticated(
        "this key was made before the e-mail address of the account behind it was proved, and is \
         refused since; create another or, if it is a service account's, have an admin take it \
         over",
    )
}

/// The error of a credential that is not valid, or not any more.
pub(super) fn invalid_credential() -> Error {
    Error::unauthenticated(
        "the credential is not valid: send X-API-Key: <key>, or Authorization: Bearer <key or \
         session token>; it may also have expired or been revoked",
    )
}

/// The organization of an API key; `None` for a session.
pub fn key_organization(identity: &Identity) -> Option<Id<Org>> {
    match identity.credential {
        Credential::Key { org, .. } => Some(org),
        Credential::Session(_) => None,
    }
}

/// The bytes of a credential's id, which scope its idempotency keys.
pub fn credential_bytes(credential: &Credential) -> Vec<u8> {
    match credential {
        Credential::Key { id, .. } => id.to_bytes(),
        Credential::Session(id) => id.to_bytes(),
    }
}
