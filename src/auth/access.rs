//! Authentication: from a credential to an identity and to a caller in an organization.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::basis::{Access, AccessBasis, grant_required};
use super::credential_cache::{CredentialCache, Validity};
use super::records::{
    ApiKey, BY_SLUG, GRANT_BY_TARGET, Grant, Granted, KeyHash, Membership, Organization,
    ResourceType, Role, Session, User,
};
use super::scopes::{KeyAccess, ScopeName, ScopeTarget};
use super::tokens::{KEY_PREFIX, Tokens, key_hash};
use crate::base::{Error, Id, Result, Slug, Time};
use crate::store::{Key, Lane, ListSource, Order, Org, Tx, View, WorkHints};

/// The credential of a request, not yet verified; of several, `X-API-Key` takes precedence. It has
/// no `Debug`: session tokens must not be logged.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum RawCredential {
    /// None.
    Absent,
    /// Not in the form of a credential.
    Malformed,
    /// A key or token in quotation marks, as variables of a shell or an `.env` file may hold.
    Quoted,
    /// A key, as its hash.
    Key(KeyHash),
    /// A session token, not yet parsed.
    Token(String),
    /// A signed Nostr event (NIP-98), not yet read. It is valid for one request of a route for
    /// outside agents.
    Nostr(String),
}

impl RawCredential {
    /// Reads the values of all `X-API-Key` and all `Authorization` headers. A repeated header is
    /// malformed: a proxy in front of the server may have checked the other value.
    pub fn from_headers<'a>(
        mut keys: impl Iterator<Item = &'a [u8]>,
        mut authorizations: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let as_key = |text: &str| match key_hash(text) {
            Some(hash) => RawCredential::Key(hash),
            None if is_quoted(text) => RawCredential::Quoted,
            None => RawCredential::Malformed,
        };
        let (value, another, is_key) = match (keys.next(), authorizations.next()) {
            (Some(key), _) => (key, keys.next(), true),
            (None, Some(authorization)) => (authorization, authorizations.next(), false),
            (None, None) => return RawCredential::Absent,
        };
        if another.is_some() {
            return RawCredential::Malformed;
        }
        let Ok(text) = std::str::from_utf8(value) else { return RawCredential::Malformed };
        if is_key {
            return as_key(text);
        }
        match text.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                if is_quoted(token) {
                    RawCredential::Quoted
                } else if token.starts_with(KEY_PREFIX) {
                    as_key(token)
                } else {
                    RawCredential::Token(token.into())
                }
            }
            Some((scheme, event)) if scheme.eq_ignore_ascii_case("nostr") => {
                RawCredential::Nostr(event.trim_start().into())
            }
            _ => RawCredential::Malformed,
        }
    }

    /// Identifies this credential in memory without revealing it.
    pub fn fingerprint(&self) -> [u8; 32] {
        match self {
            RawCredential::Absent | RawCredential::Malformed | RawCredential::Quoted => [0; 32],
            RawCredential::Key(hash) => *hash,
            RawCredential::Token(text) | RawCredential::Nostr(text) => {
                *blake3::hash(text.as_bytes()).as_bytes()
            }
        }
    }
}

/// A verified credential.
#[derive(Clone, Debug, PartialEq)]
pub enum Credential {
    /// An API key.
    Key {
        id: Id<ApiKey>,
        name: String,
        /// The organization it is for.
        org: Id<Org>,
        /// The user who created it: an admin, if its user is a service account.
        created_by: Id<User>,
        /// Whether it was given `deployment:approve-as`.
        approve_as: bool,
        /// How much of its user's rights it has.
        access: Arc<KeyAccess>,
    },
    /// A session.
    Session(Id<Session>),
}

impl Credential {
    /// The credential that a key is.
    fn of_key(key: &ApiKey) -> Self {
        Credential::Key {
            id: key.id,
            name: key.name.to_string(),
            org: key.org,
            created_by: key.created_by,
            approve_as: key.approve_as,
            access: Arc::new(key.access.clone()),
        }
    }
}

/// An authenticated user, not yet in an organization.
#[derive(Clone, Debug)]
pub struct Identity {
    pub user: Id<User>,
    pub name: String,
    pub credential: Credential,
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
    /// The person who answers for the request: the user, or who created the key of a service account.
    pub fn person(&self) -> Id<User> {
        match &self.credential {
            Credential::Key { created_by, .. } => *created_by,
            Credential::Session(_) => self.user,
        }
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
}

impl Caller {
    /// The user.
    pub fn user(&self) -> Id<User> {
        self.identity.user
    }

    /// Whether this is the user, or the one who created the key that is used: who knows the key of a
    /// service account can act through it.
    pub fn may_be(&self, user: Id<User>) -> bool {
        matches!(&self.identity.credential, Credential::Key { created_by: by, .. } if *by == user)
            || user == self.user()
    }

    /// Whether the role is admin or owner.
    pub fn is_admin(&self) -> bool {
        self.role >= Role::Admin
    }

    /// Whether the credential is a session.
    pub fn is_session(&self) -> bool {
        matches!(self.identity.credential, Credential::Session(_))
    }

    /// Whether the credential's scopes cover `name` on this target; without one, on everything. Lists
    /// are filtered by it.
    pub fn covers(&self, name: ScopeName, target: Option<&ScopeTarget>) -> bool {
        self.identity.key_access().is_none_or(|access| access.covers(name, target))
    }

    /// Requires a scope beside those that the route declares.
    ///
    /// # Errors
    /// 403 that names the scope.
    pub fn require_scope(&self, name: ScopeName, target: Option<&ScopeTarget>) -> Result<()> {
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
        let grant: Option<Grant> = view.find(&GRANT_BY_TARGET, &(self.user(), kind, id))?;
        Ok(grant.map(|grant| AccessBasis::Grant(grant.id)))
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

    /// The resources of a type for which the user has a grant; lists are filtered by them.
    pub(super) fn granted(&self, view: &View, kind: ResourceType) -> Result<BTreeSet<Id<Granted>>> {
        let mut granted = BTreeSet::new();
        view.for_each(&GRANT_BY_TARGET, &(self.user(), kind), Order::Ascending, |grant: Grant| {
            granted.insert(grant.resource_id);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(granted)
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

    /// Returns what a result is valid for that is looked up from now on; `None` if it must not be
    /// cached.
    fn validity(&self, view: &View) -> Option<Validity> {
        let access = view.access_version()?;
        Some(Validity { keys: self.tokens.generation(), access })
    }

    fn cached<T>(
        &self,
        validity: Option<Validity>,
        raw: &RawCredential,
        read: impl FnOnce(&CachedCredential) -> Option<T>,
    ) -> Option<T> {
        self.cache.get(validity, raw.fingerprint(), read)
    }

    fn cache(
        &self,
        validity: Option<Validity>,
        raw: &RawCredential,
        identity: &Arc<Identity>,
        caller: Option<&Arc<Caller>>,
    ) {
        let new = || CachedCredential { identity: identity.clone(), callers: Vec::new() };
        let add = |known: &mut CachedCredential| known.callers.extend(caller.cloned());
        self.cache.update(validity, raw.fingerprint(), new, add);
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
        let validity = self.validity(view);
        let known = self.cached(validity, raw, |known| Some(known.identity.clone()));
        let identity = match known {
            Some(identity) => identity,
            None => {
                let identity = Arc::new(self.look_up(view, raw)?);
                self.cache(validity, raw, &identity, None);
                identity
            }
        };
        identity.require_unexpired(view)?;
        Ok(identity)
    }

    fn look_up(&self, view: &View, raw: &RawCredential) -> Result<Identity> {
        let (user, session, credential, expires_at) = match raw {
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
                (key.user, None, Credential::of_key(&key), key.expires_at)
            }
            RawCredential::Token(token) => {
                let (id, user) =
                    self.tokens.read(token, view.now()).ok_or_else(invalid_credential)?;
                let session: Session = view.get(&id)?.ok_or_else(invalid_credential)?;
                let expires_at = Some(session.expires_at);
                (user, Some(session), Credential::Session(id), expires_at)
            }
        };
        let person: User = view.get(&user)?.ok_or_else(invalid_credential)?;
        if session.is_some_and(|session| !session.is_of(&person)) {
            return Err(invalid_credential());
        }
        Ok(Identity { user, name: person.name.into_string(), credential, expires_at })
    }

    /// Returns the caller in the organization with this slug.
    ///
    /// # Errors
    /// 401 as [`Authenticator::identify`]; the same 404 for an organization that does not exist,
    /// one the user is not a member of, and one the key does not belong to.
    pub fn authorize(&self, view: &View, raw: &RawCredential, slug: &str) -> Result<Arc<Caller>> {
        let is_in_org = |caller: &&Arc<Caller>| &*caller.org_slug == slug;
        let validity = self.validity(view);
        let known =
            self.cached(validity, raw, |known| known.callers.iter().find(is_in_org).cloned());
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
        self.cache(validity, raw, &identity, Some(&caller));
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
        let validity = self.validity(view);
        let known =
            self.cached(validity, raw, |known| known.callers.iter().find(is_in_org).cloned());
        if let Some(caller) = known {
            caller.identity.require_unexpired(view)?;
            return Ok(caller);
        }
        let identity = self.identify(view, raw)?;
        let organization = view.get::<Organization>(&org)?;
        let caller = Arc::new(enter(view, &identity, organization)?);
        self.cache(validity, raw, &identity, Some(&caller));
        Ok(caller)
    }
}

/// Returns the caller that an identity is in an organization.
///
/// # Errors
/// The same 404 for an organization that does not exist, one the user is not a member of, and one the
/// key does not belong to.
fn enter(view: &View, identity: &Identity, organization: Option<Organization>) -> Result<Caller> {
    let id = organization.as_ref().map_or(Id::NIL, |organization| organization.id);
    // Looked up even without an organization, so that both cases take the same time.
    let membership = view.get::<Membership>(&(identity.user, id))?;
    let for_it = match &identity.credential {
        Credential::Key { org, .. } => *org == id,
        Credential::Session(_) => true,
    };
    match (organization, membership) {
        (Some(organization), Some(membership)) if for_it => Ok(Caller {
            identity: identity.clone(),
            org: id,
            org_slug: organization.slug,
            role: membership.role,
        }),
        _ => Err(Error::organization_not_found("orgSlug")),
    }
}

/// Returns the caller that a member of the view's organization is in a session or, if one is given,
/// with this key of theirs: for explaining what they may do, without a credential of theirs.
///
/// # Errors
/// 404 for a user who is no member.
pub fn supposed_caller(view: &View, user: &User, key: Option<&ApiKey>) -> Result<Caller> {
    let identity = Identity {
        user: user.id,
        name: user.name.to_string(),
        credential: key.map_or(Credential::Session(Id::NIL), Credential::of_key),
        expires_at: key.and_then(|key| key.expires_at),
    };
    enter(view, &identity, view.get::<Organization>(&view.org())?)
}

/// Whether a credential begins with a quotation mark, which no valid one does.
fn is_quoted(text: &str) -> bool {
    text.starts_with(['"', '\'', '“', '‘'])
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
    Ok(Arc::new(Identity { user, name, credential, expires_at: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::key_text;

    #[test]
    fn a_key_takes_precedence_and_a_repeated_header_is_malformed() {
        let (one, other) = (key_text([1; 32]), key_text([2; 32]));
        let raw = |keys: &[&str], authorizations: &[&str]| {
            let bytes = |text: &&str| text.as_bytes().to_vec();
            let keys: Vec<_> = keys.iter().map(bytes).collect();
            let authorizations: Vec<_> = authorizations.iter().map(bytes).collect();
            RawCredential::from_headers(
                keys.iter().map(Vec::as_slice),
                authorizations.iter().map(Vec::as_slice),
            )
        };
        let key = |text: &str| RawCredential::Key(key_hash(text).unwrap());
        let bearer = format!("bearer {other}");
        let table = [
            (raw(&[], &[]), RawCredential::Absent),
            (raw(&[&one], &[]), key(&one)),
            (raw(&[], &[&bearer]), key(&other)),
            (raw(&[], &["Bearer x.y.z"]), RawCredential::Token("x.y.z".into())),
            (raw(&[&one], &[&bearer, "Basic x"]), key(&one)),
            (raw(&[""], &[&bearer]), RawCredential::Malformed),
            (raw(&[&one, &one], &[]), RawCredential::Malformed),
            (raw(&[&one, "x"], &[&bearer]), RawCredential::Malformed),
            (raw(&[], &[&bearer, &bearer]), RawCredential::Malformed),
            (raw(&[], &["Basic x"]), RawCredential::Malformed),
            (raw(&[], &["nostr e30="]), RawCredential::Nostr("e30=".into())),
            (raw(&[&one], &["Nostr e30="]), key(&one)),
            (raw(&[], &["Nostr e30=", "Nostr e30="]), RawCredential::Malformed),
            (raw(&[], &[&one]), RawCredential::Malformed),
            (raw(&[&format!("\"{one}\"")], &[]), RawCredential::Quoted),
            (raw(&[], &[&format!("Bearer '{one}'")]), RawCredential::Quoted),
        ];
        for (n, (raw, expected)) in table.into_iter().enumerate() {
            assert!(raw == expected, "row {n}");
        }
    }
}
