//! Who calls, and in which organization with which role.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use super::records::{
    ApiKey, BY_SLUG, GRANT_BY_TARGET, Grant, Granted, KeyHash, Membership, Organization,
    ResourceType, Role, Session, User,
};
use super::tokens::{KEY_PREFIX, Tokens, key_hash};
use crate::base::{Error, Id, Result, Slug, Time};
use crate::store::{Key, Order, Org, Source, Tx, View};

/// The credential of a request, not yet verified; of several that were sent, `X-API-Key` wins. There
/// is no `Debug`: a session token stays out of logs.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum RawCredential {
    /// None.
    Absent,
    /// Something that is none of ours.
    Malformed,
    /// A key, as its hash.
    Key(KeyHash),
    /// A session token, not yet read.
    Token(String),
}

impl RawCredential {
    /// From the values of all headers `X-API-Key` and of all headers `Authorization`. One that is
    /// there twice is none of ours: whoever stands before us may have looked at the other.
    pub fn from_headers<'a>(
        mut keys: impl Iterator<Item = &'a [u8]>,
        mut authorizations: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let as_key =
            |text: &str| key_hash(text).map_or(RawCredential::Malformed, RawCredential::Key);
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
                if token.starts_with(KEY_PREFIX) {
                    as_key(token)
                } else {
                    RawCredential::Token(token.into())
                }
            }
            _ => RawCredential::Malformed,
        }
    }

    /// What tells this credential from others in memory, without being it.
    pub fn fingerprint(&self) -> [u8; 32] {
        match self {
            RawCredential::Absent | RawCredential::Malformed => [0; 32],
            RawCredential::Key(hash) => *hash,
            RawCredential::Token(token) => *blake3::hash(token.as_bytes()).as_bytes(),
        }
    }
}

/// A verified credential.
#[derive(Clone, Debug, PartialEq)]
pub enum Credential {
    /// An API key.
    Key {
        /// Its id.
        id: Id<ApiKey>,
        /// Its name.
        name: String,
        /// The organization it is for.
        org: Id<Org>,
        /// Whether it was given `deployment:approve-as`.
        approve_as: bool,
    },
    /// A session.
    Session(Id<Session>),
}

/// Somebody with a good credential, not yet in any organization.
#[derive(Clone, Debug)]
pub struct Identity {
    /// On whose behalf.
    pub user: Id<User>,
    /// Their name.
    pub name: String,
    /// The credential they sent.
    pub credential: Credential,
    /// When that ends.
    pub expires_at: Option<Time>,
}

impl Identity {
    /// 401 when it has ended.
    fn require_unexpired(&self, view: &View) -> Result<()> {
        match self.expires_at {
            Some(end) if end <= view.now() => Err(invalid_credential()),
            _ => Ok(()),
        }
    }
}

/// Somebody in an organization.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who.
    pub identity: Identity,
    /// Where.
    pub org: Id<Org>,
    /// Its slug.
    pub org_slug: Slug,
    /// As what.
    pub role: Role,
}

impl Caller {
    /// The user on whose behalf this is done.
    pub fn user(&self) -> Id<User> {
        self.identity.user
    }

    /// Whether they are an organization admin: owner or admin.
    pub fn is_admin(&self) -> bool {
        self.role >= Role::Admin
    }

    /// Whether the credential is a session.
    pub fn is_session(&self) -> bool {
        matches!(self.identity.credential, Credential::Session(_))
    }

    /// Whether they may use a resource: everybody may unless it is restricted; then admins, and
    /// users with a grant (reference: identity-and-rights, "Restricted resources").
    pub(super) fn may_use(
        &self,
        view: &View,
        kind: ResourceType,
        id: Id<Granted>,
        access: Access,
    ) -> Result<bool> {
        if access == Access::Organization || self.is_admin() {
            return Ok(true);
        }
        Ok(view.find(&GRANT_BY_TARGET, &(self.user(), kind, id))?.is_some())
    }

    /// The same, as a 403.
    pub(super) fn require_access(
        &self,
        view: &View,
        kind: ResourceType,
        id: Id<Granted>,
        access: Access,
    ) -> Result<()> {
        match self.may_use(view, kind, id, access)? {
            true => Ok(()),
            false => Err(Error::forbidden(
                "grant_required",
                "this is restricted; ask an organization admin for an access grant",
            )),
        }
    }

    /// The things of a kind that they have a grant for: for lists, which leave out what they may
    /// not use.
    pub(super) fn granted(&self, view: &View, kind: ResourceType) -> Result<BTreeSet<Id<Granted>>> {
        let mut granted = BTreeSet::new();
        view.each(&GRANT_BY_TARGET, &(self.user(), kind), Order::Ascending, |grant: Grant| {
            granted.insert(grant.resource_id);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(granted)
    }
}

/// Who may use a fleet, registry or environment.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Every member.
    #[default]
    Organization,
    /// Admins, and users with a grant.
    Restricted,
}
crate::store::stored_enum!(Access { Organization = 0, Restricted = 1 });

/// At most 4,096 credentials are remembered; then all are forgotten and looked up anew.
const MAX_CACHED_CREDENTIALS: usize = 4096;

/// Works out who calls, remembering what it concluded for as long as no record that decides access
/// has changed. A conclusion is kept under the stamp of the state it was drawn from and is worth
/// nothing under any other, so it cannot outlive a demotion or a revocation.
pub struct Authenticator {
    /// Makes and reads session tokens.
    pub tokens: Tokens,
    cache: Mutex<CredentialCache>,
}

/// What was concluded under one stamp, by the fingerprints of credentials.
#[derive(Default)]
struct CredentialCache {
    stamp: u64,
    known: HashMap<[u8; 32], CachedCredential>,
}

/// What is known of a credential.
struct CachedCredential {
    identity: Arc<Identity>,
    /// Who it is in each organization it was used for: in one, if it is a key.
    callers: Vec<Arc<Caller>>,
}

impl Authenticator {
    /// A gatekeeper that reads `tokens`.
    pub fn new(tokens: Tokens) -> Self {
        Authenticator { tokens, cache: Mutex::default() }
    }

    fn cached<T>(
        &self,
        view: &View,
        raw: &RawCredential,
        what: impl FnOnce(&CachedCredential) -> Option<T>,
    ) -> Option<T> {
        let cache = self.cache.lock().expect("nobody panics holding it");
        if view.access_version() != Some(cache.stamp) {
            return None;
        }
        cache.known.get(&raw.fingerprint()).and_then(what)
    }

    fn cache(
        &self,
        view: &View,
        raw: &RawCredential,
        identity: &Arc<Identity>,
        caller: Option<&Arc<Caller>>,
    ) {
        let mut cache = self.cache.lock().expect("nobody panics holding it");
        let Some(stamp) = view.access_version().filter(|stamp| *stamp >= cache.stamp) else {
            return;
        };
        if stamp > cache.stamp || cache.known.len() >= MAX_CACHED_CREDENTIALS {
            *cache = CredentialCache { stamp, known: HashMap::new() };
        }
        let new = || CachedCredential { identity: identity.clone(), callers: Vec::new() };
        let known = cache.known.entry(raw.fingerprint()).or_insert_with(new);
        known.callers.extend(caller.cloned());
    }

    /// Whose credential this is.
    ///
    /// # Errors
    /// 401 if it is none, unknown, revoked or expired.
    pub fn identify(&self, view: &View, raw: &RawCredential) -> Result<Arc<Identity>> {
        let known = self.cached(view, raw, |known| Some(known.identity.clone()));
        let identity = match known {
            Some(identity) => identity,
            None => {
                let identity = Arc::new(self.look_up(view, raw)?);
                self.cache(view, raw, &identity, None);
                identity
            }
        };
        identity.require_unexpired(view)?;
        Ok(identity)
    }

    fn look_up(&self, view: &View, raw: &RawCredential) -> Result<Identity> {
        let (user, credential, expires_at) = match raw {
            RawCredential::Absent => {
                return Err(Error::unauthenticated(
                    "send an API key in X-API-Key, or a key or session token as a bearer token",
                ));
            }
            RawCredential::Malformed => return Err(invalid_credential()),
            RawCredential::Key(hash) => {
                let key: ApiKey = view.get(hash)?.ok_or_else(invalid_credential)?;
                // A key ends with its user's membership
                // (reference: identity-and-rights, "API keys").
                if view.get::<Membership>(&(key.user, key.org))?.is_none() {
                    return Err(invalid_credential());
                }
                let credential = Credential::Key {
                    id: key.id,
                    name: key.name.into_string(),
                    org: key.org,
                    approve_as: key.approve_as,
                };
                (key.user, credential, key.expires_at)
            }
            RawCredential::Token(token) => {
                let (id, user) =
                    self.tokens.read(token, view.now()).ok_or_else(invalid_credential)?;
                let session = view
                    .get::<Session>(&id)?
                    .filter(|session| session.user == user)
                    .ok_or_else(invalid_credential)?;
                (user, Credential::Session(id), Some(session.expires_at))
            }
        };
        let name = view.get::<User>(&user)?.ok_or_else(invalid_credential)?.name.into_string();
        Ok(Identity { user, name, credential, expires_at })
    }

    /// Who this credential is in the organization with this slug.
    ///
    /// # Errors
    /// 401 as [`Authenticator::identify`]; the same 404 for an organization that does not exist, one
    /// the user is not in and one the key is not for.
    pub fn authorize(&self, view: &View, raw: &RawCredential, slug: &str) -> Result<Arc<Caller>> {
        let is_there = |caller: &&Arc<Caller>| &*caller.org_slug == slug;
        let known = self.cached(view, raw, |known| known.callers.iter().find(is_there).cloned());
        if let Some(caller) = known {
            caller.identity.require_unexpired(view)?;
            return Ok(caller);
        }
        let identity = self.identify(view, raw)?;
        let organization = match Slug::parse(slug) {
            Ok(slug) => view.find(&BY_SLUG, &slug)?,
            Err(_) => None,
        };
        let caller = Arc::new(self.enter(view, &identity, organization)?);
        self.cache(view, raw, &identity, Some(&caller));
        Ok(caller)
    }

    /// The same, for a route that finds out the organization otherwise.
    pub fn authorize_in(
        &self,
        view: &View,
        raw: &RawCredential,
        org: Id<Org>,
    ) -> Result<Arc<Caller>> {
        let is_there = |caller: &&Arc<Caller>| caller.org == org;
        let known = self.cached(view, raw, |known| known.callers.iter().find(is_there).cloned());
        if let Some(caller) = known {
            caller.identity.require_unexpired(view)?;
            return Ok(caller);
        }
        let identity = self.identify(view, raw)?;
        let organization = view.get::<Organization>(&org)?;
        let caller = Arc::new(self.enter(view, &identity, organization)?);
        self.cache(view, raw, &identity, Some(&caller));
        Ok(caller)
    }

    fn enter(
        &self,
        view: &View,
        identity: &Identity,
        organization: Option<Organization>,
    ) -> Result<Caller> {
        let id = organization.as_ref().map_or(Id::NIL, |organization| organization.id);
        // Looked up even for no organization: both roads take the same work.
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
            _ => Err(Error::organization_not_found()),
        }
    }
}

fn invalid_credential() -> Error {
    Error::unauthenticated("the credential is not valid; it may have expired or been revoked")
}

/// The organization that a request without `orgSlug` and without anything else that names one
/// would be about: the one a key is for.
pub fn key_organization(identity: &Identity) -> Option<Id<Org>> {
    match identity.credential {
        Credential::Key { org, .. } => Some(org),
        Credential::Session(_) => None,
    }
}

/// The bytes of a credential's id, as idempotency keeps them apart.
pub fn credential_bytes(credential: &Credential) -> Vec<u8> {
    match credential {
        Credential::Key { id, .. } => id.to_bytes(),
        Credential::Session(id) => id.to_bytes(),
    }
}

/// The organization with this slug.
pub fn organization_named(view: &View, slug: &str) -> Result<Option<Id<Org>>> {
    let Ok(slug) = Slug::parse(slug) else { return Ok(None) };
    view.find_key(&BY_SLUG, &slug)
}

/// The organizations a user is in.
pub fn user_organizations(view: &View, user: Id<User>) -> Result<Vec<Id<Org>>> {
    let memberships = view.all::<Membership>(Source::TABLE, &user)?;
    Ok(memberships.into_iter().map(|membership| membership.org).collect())
}

/// A user as whoever has just signed in: who the audit log says did it.
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
    fn the_credential_that_counts_is_the_key_and_none_that_is_there_twice() {
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
            (raw(&[], &[&one]), RawCredential::Malformed),
        ];
        for (n, (raw, expected)) in table.into_iter().enumerate() {
            assert!(raw == expected, "row {n}");
        }
    }
}
