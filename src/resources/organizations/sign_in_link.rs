//! The record of an account of a provider with which a person signs in
//! (reference: identity-and-rights, "OpenID Connect").

use bincode::{Decode, Encode};

use super::oidc::rules::withdraw_all;
use crate::auth::User;
use crate::auth::oidc::Confirmation;
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

/// Removes all links of a user who takes the account over, or back, with what rules have given by them:
/// somebody else may have made them.
pub fn remove_all(tx: &mut Tx, user: Id<User>) -> Result<()> {
    let links: Vec<SignInLink> = tx.all(ListSource::TABLE, &user)?;
    links.iter().try_for_each(|link| tx.remove(link))?;
    withdraw_all(tx, user)
}
