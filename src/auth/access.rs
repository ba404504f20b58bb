//! Authentication: from a credential to an identity and to a caller in an organization.

use std::sync::Arc;

use super::caller::{
    Caller, Credential, Identity, Sponsor, invalid_credential, key_organization, made_before_proof,
};
use super::credential_cache::{CredentialCache, Validity};
use super::raw_credential::RawCredential;
use super::records::{ApiKey, BY_SLUG, Membership, Organization, User};
use super::required_provider::{is_of_accepted_provider, require_provider};
use super::second_factor::lacks_second_factor;
use super::session::Session;
use super::step_up;
use super::tokens::Tokens;
use crate::base::{Error, Id, Result, Slug, Time};
use crate::store::{Lane, ListSource, Org, Tx, View, WorkHints};

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
        match &proof {
            Proof::Key(made_at) if !person.accepts_made(*made_at) => {
                return Err(made_before_proof());
            }
            Proof::Session(session) if !session.is_of(&person) => return Err(invalid_credential()),
            Proof::Key(_) | Proof::Session(_) => {}
        }
        let proved_at = match &proof {
            Proof::Session(session) => Some(step_up::proved_at(view, session)?),
            Proof::Key(_) => None,
        };
        let name = person.name.into_string();
        Ok(Identity { user, name, credential, sponsor, expires_at, proved_at })
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
    let (sponsor, expires_at, proved_at) = (None, None, None);
    Ok(Arc::new(Identity { user, name, credential, sponsor, expires_at, proved_at }))
}
