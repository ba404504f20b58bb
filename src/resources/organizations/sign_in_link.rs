//! The record of an account of a provider with which a person signs in
//! (reference: identity-and-rights, "OpenID Connect").

use bincode::{Decode, Encode};

use super::oidc::records::JoiningDomain;
use super::rule_rights::SignInRules;
use crate::auth::oidc::{Confirmation, Oidc, OidcProvider};
use crate::auth::{RequiredProvider, User};
use crate::base::{Email, Error, Id, Result, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Record, Reference, Tx, View,
};

/// A person links at most 20 accounts: more than there are providers.
const MAX_LINKS: usize = 20;

/// That a person signs in with an account of a provider.
#[derive(Clone, Debug, Encode, Decode)]
pub struct SignInLink {
    pub id: Id<SignInLink>,
    pub user: Id<User>,
    /// The name of the provider when it was linked.
    pub provider: String,
    pub issuer: String,
    /// Identifies the person at the issuer, whatever their address is.
    pub subject: String,
    /// The address that the provider had of them then.
    pub email: Option<Email>,
    pub linked_at: Time,
}

/// The link of an issuer and a subject.
pub static BY_SUBJECT: Index<SignInLink, [u8; 32]> = Index::unique(
    "sign_in_links.by_subject",
    "already_linked",
    "this account of the provider is linked to an account here already",
    |link| Some(subject_hash(&link.issuer, &link.subject)),
);

/// Identifies a person at a provider.
pub fn subject_hash(issuer: &str, subject: &str) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    for part in [issuer, subject] {
        hash.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
    }
    *hash.finalize().as_bytes()
}

/// What the audit log says of an account of a provider.
pub fn subject_detail(provider: &str, subject: &str) -> String {
    format!("{provider}: {subject}")
}

static USER: Reference<SignInLink, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |link: &SignInLink, _| vec![link.user.to_bytes()],
);

impl Record for SignInLink {
    const TABLE: &'static str = "sign_in_links";
    const NOUN: &'static str = "sign-in link";
    const EXPORT: Export<Self> = Export::LeftOut("people sign in to each installation");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&USER];
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SUBJECT];
    type Key = (Id<User>, Id<SignInLink>);
    fn key(&self) -> Self::Key {
        (self.user, self.id)
    }
}

/// Links the account of a provider to a user.
///
/// # Errors
/// 409 if it is linked already, or the user has too many.
pub fn link(tx: &mut Tx, user: Id<User>, confirmed: &Confirmation) -> Result<SignInLink> {
    if tx.count(ListSource::<SignInLink>::TABLE, &user, MAX_LINKS)? == MAX_LINKS {
        return Err(Error::conflict(
            "too_many_links",
            format!("you have linked {MAX_LINKS} accounts; remove one first"),
        ));
    }
    let link = SignInLink {
        id: tx.new_id(),
        user,
        provider: confirmed.provider.clone(),
        issuer: confirmed.issuer.clone(),
        subject: confirmed.subject.clone(),
        email: confirmed.email.clone(),
        linked_at: tx.now(),
    };
    tx.insert(&link)?;
    Ok(link)
}

/// Whether a user has linked anything.
pub fn has_any(view: &View, user: Id<User>) -> Result<bool> {
    Ok(view.count(ListSource::<SignInLink>::TABLE, &user, 1)? > 0)
}

/// What a person signs in with at one issuer: it tells which sessions were begun there, whatever name the
/// operator has given the provider since.
pub struct AccountsAt {
    /// Who they are there.
    subjects: Vec<[u8; 32]>,
    /// The names that it had when they were linked, and has now: of older sessions only the name is known.
    names: Vec<String>,
}

impl AccountsAt {
    /// Those of the person of a link at its issuer.
    pub fn of(view: &View, oidc: &Oidc, of: &SignInLink) -> Result<Self> {
        let mut links: Vec<SignInLink> = view.all(ListSource::TABLE, &of.user)?;
        links.retain(|link| link.issuer == of.issuer && link.id != of.id);
        links.push(of.clone());
        let subject = |link: &SignInLink| subject_hash(&link.issuer, &link.subject);
        let former = links.iter().map(|link| &*link.provider);
        let names = oidc.names_at(&of.issuer, former).into_iter().map(String::from).collect();
        Ok(AccountsAt { subjects: links.iter().map(subject).collect(), names })
    }

    /// Whether what was begun with a provider of this name by this person there was begun with one of them.
    pub fn has(&self, provider: &str, subject: Option<[u8; 32]>) -> bool {
        match subject {
            Some(subject) => self.subjects.contains(&subject),
            None => self.names.iter().any(|name| name == provider),
        }
    }
}

/// The names of the providers of which an organization asks something: those that it requires, and those that
/// it has a domain or a rule with.
pub fn asked_providers(view: &View) -> Result<Vec<String>> {
    let org = view.org();
    let required = view.get::<RequiredProvider>(&org)?;
    let domains: Vec<JoiningDomain> = view.all(ListSource::TABLE, &org)?;
    let rules = view.get::<SignInRules>(&org)?.map(|all| all.rules).unwrap_or_default();
    let mut names = required.map(|required| required.providers).unwrap_or_default();
    names.extend(domains.into_iter().map(|domain| domain.provider));
    names.extend(rules.into_iter().map(|rule| rule.provider));
    Ok(names)
}

/// The names of the providers of this server with which a user can sign in, in the order of the
/// configuration.
pub fn provider_names(view: &View, user: Id<User>, oidc: &Oidc) -> Result<Vec<String>> {
    let links: Vec<SignInLink> = view.all(ListSource::TABLE, &user)?;
    let is_linked =
        |provider: &&OidcProvider| links.iter().any(|link| link.issuer == provider.issuer);
    let linked = oidc.providers().iter().filter(is_linked);
    Ok(linked.map(|provider| provider.name.clone()).collect())
}
