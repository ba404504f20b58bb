//! Authentication: from a credential to an identity and to a caller in an organization.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::basis::{Access, AccessBasis, grant_required};
use super::credential_cache::{CredentialCache, Validity};
use super::policy::member_required;
use super::raw_credential::RawCredential;
use super::records::{
    ApiKey, BY_SLUG, GRANT_BY_TARGET, Grant, Granted, Membership, Organization, ResourceType, Role,
    User,
};
use super::required_provider::{is_of_accepted_provider, require_provider};
use super::scopes::{KeyAccess, ScopeName, ScopeTarget};
use super::second_factor::{lacks_second_factor, second_factor_missing};
use super::session::Session;
use super::tokens::Tokens;
use crate::base::{Error, Id, Result, Slug, Time};
use crate::store::{Key, Lane, ListSource, Order, Org, Tx, View, WorkHints};

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
    fn require_unexpired(&self, view: &View) -> Result<()> {
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

/// Authenticates callers. Results are cached with the access version of the snapshot they were read
/// from and the generation of the keys, and are valid for these only, so none outlives a demotion, a
/// revocation or the key that a token was signed with.
pub struct Authenticator {
    /// Issues and verifies session tokens.
    pub tokens: Tokens,
    cache: CredentialCache<CachedCredential>,
}

/// A cached credential.
struct CachedCredential {
    identity: Arc<Identity>,
    /// Its callers, one for each organization it was used in; a key has one organization.
    callers: Vec<Arc<Caller>>,
}

impl Authenticator {
    /// The installation's id ([`Tokens::installation`]).
    pub fn installation(&self) -> &str {
        self.tokens.installation()
    }

    /// Creates an authenticator.
    pub fn new(tokens: Tokens) -> Self {
        Authenticator { tokens, cache: CredentialCache::new() }
    }

    /// Returns what a result is valid for whose lookup began with this generation of the keys; `None` if it
    /// must not be cached.
    fn validity(view: &View, keys: u64) -> Option<Validity> {
        view.access_version().map(|access| Validity { keys, access })
    }

    /// Returns what is known of a credential with these keys. Nothing is read for one that was not seen
    /// lately: the store may be far away, and what can be no credential costs it nothing.
    fn cached<T>(
        &self,
        view: &View,
        keys: u64,
        raw: &RawCredential,
        read: impl FnOnce(&CachedCredential) -> Option<T>,
    ) -> Option<T> {
        let fingerprint = raw.fingerprint();
        self.cache.last_known(fingerprint, |_| Some(()))?;
        self.cache.get(Self::validity(view, keys), fingerprint, read)
    }

    fn cache(
        &self,
        view: &View,
        keys: u64,
        raw: &RawCredential,
        (identity, caller): (&Arc<Identity>, Option<&Arc<Caller>>),
    ) {
        let new = || CachedCredential { identity: identity.clone(), callers: Vec::new() };
        let add = |known: &mut CachedCredential| known.callers.extend(caller.cloned());
        self.cache.update(Self::validity(view, keys), raw.fingerprint(), new, add);
    }

    /// Returns whose turn the work of a request takes: that of the organization, if the credential
    /// is for one or was last used in one, otherwise of the user. A hint; it authorizes nothing.
    pub fn lane(&self, raw: &RawCredential, identity: Option<&Identity>) -> Lane {
        let Some(identity) = identity else { return WorkHints::ANONYMOUS };
        if let Some(org) = key_organization(identity) {
            return *org.bytes();
        }
        let org = |known: &CachedCredential| Some(*known.callers.last()?.org.bytes());
        self.cache.last_known(raw.fingerprint(), org).unwrap_or(*identity.user.bytes())
    }

    /// Authenticates a credential.
    ///
    /// # Errors
    /// 401 if it is absent, malformed, unknown, revoked or expired.
    pub fn identify(&self, view: &View, raw: &RawCredential) -> Result<Arc<Identity>> {
        let keys = self.tokens.generation();
        let known = self.cached(view, keys, raw, |known| Some(known.identity.clone()));
        let identity = match known {
            Some(identity) => identity,
            None => {
                let identity = Arc::new(self.look_up(view, raw)?);
                self.cache(view, keys, raw, (&identity, None));
                identity
            }
        };
        identity.require_unexpired(view)?;
        Ok(identity)
    }

    fn look_up(&self, view: &View, raw: &RawCredential) -> Result<Identity> {
        /// What must still hold of the user.
        enum Proof {
            /// A key made at this time.
            Key(Time),
            Session(Session),
        }
        let (user, proof, credential, sponsor, expires_at) = match raw {
            RawCredential::Absent => {
                return Err(Error::unauthenticated(
                    "send an API key in X-API-Key, or a key or session token as a bearer token",
                ));
            }
            RawCredential::Malformed | RawCredential::Nostr(_) => return Err(invalid_credential()),
            RawCredential::Quoted => {
                return Err(Error::unauthenticated(
                    "the credential is in quotation marks; send it without them",
                ));
            }
            RawCredential::Key(hash) => {
                let key: ApiKey = view.get(hash)?.ok_or_else(invalid_credential)?;
                // A key is valid only while its user is a member
                // (reference: identity-and-rights, "API keys").
                if view.get::<Membership>(&(key.user, key.org))?.is_none() {
                    return Err(invalid_credential());
                }
                let sponsor = Sponsor::of(view, &key)?;
                (
                    key.user,
                    Proof::Key(key.answered_for_since()),
                    Credential::of_key(&key),
                    sponsor,
                    key.expires_at,
                )
            }
            RawCredential::Token(token) => {
                let (id, user) =
                    self.tokens.read(token, view.now()).ok_or_else(invalid_credential)?;
                let session: Session = view.get(&id)?.ok_or_else(invalid_credential)?;
                let expires_at = Some(session.expires_at);
                (user, Proof::Session(session), Credential::Session(id), None, expires_at)
            }
        };
        let person: User = view.get(&user)?.ok_or_else(invalid_credential)?;
        match proof {
            Proof::Key(made_at) if !person.accepts_made(made_at) => return Err(made_before_proof()),
            Proof::Session(session) if !session.is_of(&person) => return Err(invalid_credential()),
            Proof::Key(_) | Proof::Session(_) => {}
        }
        Ok(Identity { user, name: person.name.into_string(), credential, sponsor, expires_at })
    }

    /// Returns the caller in the organization with this slug.
    ///
    /// # Errors
    /// 401 as [`Authenticator::identify`]; the same 404 for an organization that does not exist,
    /// one the user is not a member of, and one the key does not belong to.
    pub fn authorize(&self, view: &View, raw: &RawCredential, slug: &str) -> Result<Arc<Caller>> {
        let is_in_org = |caller: &&Arc<Caller>| &*caller.org_slug == slug;
        let keys = self.tokens.generation();
        let known =
            self.cached(view, keys, raw, |known| known.callers.iter().find(is_in_org).cloned());
        if let Some(caller) = known {
            caller.identity.require_unexpired(view)?;
            return Ok(caller);
        }
        let identity = self.identify(view, raw)?;
        let organization = match Slug::parse(slug) {
            Ok(slug) => view.find(&BY_SLUG, &slug)?,
            Err(_) => None,
        };
        let caller = Arc::new(enter(view, &identity, organization)?);
        self.cache(view, keys, raw, (&identity, Some(&caller)));
        Ok(caller)
    }

    /// Returns the caller in the organization with this id.
    ///
    /// # Errors
    /// As [`Authenticator::authorize`].
    pub fn authorize_in(
        &self,
        view: &View,
        raw: &RawCredential,
        org: Id<Org>,
    ) -> Result<Arc<Caller>> {
        let is_in_org = |caller: &&Arc<Caller>| caller.org == org;
        let keys = self.tokens.generation();
        let known =
            self.cached(view, keys, raw, |known| known.callers.iter().find(is_in_org).cloned());
        if let Some(caller) = known {
            caller.identity.require_unexpired(view)?;
            return Ok(caller);
        }
        let identity = self.identify(view, raw)?;
        let organization = view.get::<Organization>(&org)?;
        let caller = Arc::new(enter(view, &identity, organization)?);
        self.cache(view, keys, raw, (&identity, Some(&caller)));
        Ok(caller)
    }
}

/// Returns the caller that an identity is in an organization.
///
/// # Errors
/// The same 404 for an organization that does not exist, one the user is not a member of, and one the
/// key does not belong to; 403 in a session that was not begun with the provider that the organization
/// requires.
pub(super) fn enter(
    view: &View,
    identity: &Identity,
    organization: Option<Organization>,
) -> Result<Caller> {
    let id = organization.as_ref().map_or(Id::NIL, |organization| organization.id);
    // Looked up even without an organization, so that both cases take the same time.
    let membership = view.get::<Membership>(&(identity.user, id))?;
    let for_it = match &identity.credential {
        Credential::Key { org, .. } => *org == id,
        Credential::Session(_) => true,
    };
    match (organization, membership) {
        (Some(organization), Some(membership)) if for_it => {
            // Keys need no second factor: they are no person's at a keyboard.
            let mut lacks = false;
            if let Credential::Session(session) = identity.credential {
                require_provider(view, id, identity.user, session)?;
                lacks = lacks_second_factor(view, id, identity.user)?
                    && !is_of_accepted_provider(view, id, session)?;
            }
            Ok(Caller {
                identity: identity.clone(),
                org: id,
                org_slug: organization.slug,
                role: identity.role_in(&membership),
                lacks_second_factor: lacks,
            })
        }
        _ => Err(Error::organization_not_found("orgSlug")),
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

fn invalid_credential() -> Error {
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

/// Returns the organization with this slug.
pub fn organization_named(view: &View, slug: &str) -> Result<Option<Id<Org>>> {
    let Ok(slug) = Slug::parse(slug) else { return Ok(None) };
    view.find_key(&BY_SLUG, &slug)
}

/// Returns the organizations of which a user is a member.
pub fn user_organizations(view: &View, user: Id<User>) -> Result<Vec<Id<Org>>> {
    let memberships = view.all::<Membership>(ListSource::TABLE, &user)?;
    Ok(memberships.into_iter().map(|membership| membership.org).collect())
}

/// The identity of a user who has just signed in, for the audit log.
pub fn in_session(tx: &Tx, user: Id<User>) -> Result<Arc<Identity>> {
    let name = tx.fetch::<User>(&user)?.name.into_string();
    let credential = Credential::Session(Id::NIL);
    Ok(Arc::new(Identity { user, name, credential, sponsor: None, expires_at: None }))
}
