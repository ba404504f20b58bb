//! The rule of an organization that its people sign in with a provider, and which sessions were begun so
//! (reference: identity-and-rights, "OpenID Connect").

use bincode::{Decode, Encode};

use super::records::{Membership, Organization, User};
use super::session::{Session, ends_with_session};
use crate::base::{Error, Id, Result, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Org, Record, Reference, View, upgrade_shorter,
};

/// That sessions of a password are refused in an organization, but those of one owner: with a provider that
/// does not answer, nobody else could get in.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct RequiredProvider {
    pub org: Id<Org>,
    /// The owner who is let in with a password.
    pub break_glass: Id<User>,
    /// The names of the providers, one of which must have let a person in. Others of the installation are
    /// not enough: they may be of other organizations.
    pub providers: Vec<String>,
    pub required_at: Time,
}

static ORGANIZATION: Reference<RequiredProvider, Organization> = Reference::cascade(
    &["org"],
    |organization: &Organization| organization.id.to_bytes(),
    |required: &RequiredProvider, _| vec![required.org.to_bytes()],
);

static BREAK_GLASS: Reference<RequiredProvider, Membership> = Reference::restrict(
    &["break_glass"],
    "is_break_glass_owner",
    "this owner is let in when the provider of sign-ins does not answer; name another one in the \
     organization's sign-in settings first",
    |member: &Membership| member.org.to_bytes(),
    |required: &RequiredProvider, _| vec![(required.break_glass, required.org).to_bytes()],
);

/// Rules by the owner who is let in with a password.
pub static BY_BREAK_GLASS: Index<RequiredProvider, Id<User>> =
    Index::non_unique("required_providers.by_break_glass", |required| Some(required.break_glass));

static USER: Reference<RequiredProvider, User> = Reference::restrict(
    &["break_glass"],
    "is_break_glass_owner",
    "this person is let in when the provider of sign-ins does not answer",
    |user: &User| user.id.to_bytes(),
    |required: &RequiredProvider, _| vec![required.break_glass.to_bytes()],
)
.by(&BY_BREAK_GLASS);

impl Record for RequiredProvider {
    const TABLE: &'static str = "required_providers";
    const EXPORT: Export<Self> = Export::LeftOut("the providers of each installation are its own");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ORGANIZATION, &BREAK_GLASS, &USER];
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_BREAK_GLASS];
    type Key = Id<Org>;
    fn key(&self) -> Self::Key {
        self.org
    }
}

/// That a session was begun with a provider.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ProviderSession {
    pub session: Id<Session>,
    /// The name of the provider.
    pub provider: String,
    /// The hash of issuer and subject, by which the provider ends the sessions of a person.
    pub subject: Option<[u8; 32]>,
    /// The hash of issuer and of its own session there, by which it ends that alone.
    pub sid: Option<[u8; 32]>,
}

/// Sessions by who was let in.
pub static PROVIDER_SESSIONS_BY_SUBJECT: Index<ProviderSession, [u8; 32]> =
    Index::non_unique("sessions.provider.by_subject", |begun| begun.subject);

/// Sessions by the session at the provider.
pub static PROVIDER_SESSIONS_BY_SID: Index<ProviderSession, [u8; 32]> =
    Index::non_unique("sessions.provider.by_sid", |begun| begun.sid);

static SESSION: Reference<ProviderSession, Session> = ends_with_session();

impl Record for ProviderSession {
    const TABLE: &'static str = "sessions.provider";
    const EXPORT: Export<Self> = Export::LeftOut("people sign in to each installation");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&SESSION];
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&PROVIDER_SESSIONS_BY_SUBJECT, &PROVIDER_SESSIONS_BY_SID];
    const VERSION: u8 = 2;
    type Key = Id<Session>;
    fn key(&self) -> Self::Key {
        self.session
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// Whether a session was begun with a provider.
pub fn is_of_provider(view: &View, session: Id<Session>) -> Result<bool> {
    view.has::<ProviderSession>(&session)
}

/// Whether a session was begun with a provider that an organization accepts: one of those that it requires
/// or, where it requires none, any.
pub fn is_of_accepted_provider(view: &View, org: Id<Org>, session: Id<Session>) -> Result<bool> {
    let Some(begun) = view.get::<ProviderSession>(&session)? else { return Ok(false) };
    let required = view.get::<RequiredProvider>(&org)?;
    Ok(required.is_none_or(|required| required.providers.contains(&begun.provider)))
}

/// Requires what an organization asks of a session.
///
/// # Errors
/// 403 in a session of another provider and, but of the one owner, of a password, where a provider is
/// required.
pub(super) fn require_provider(
    view: &View,
    org: Id<Org>,
    user: Id<User>,
    session: Id<Session>,
) -> Result<()> {
    let Some(required) = view.get::<RequiredProvider>(&org)? else { return Ok(()) };
    // Who is only supposed to be in a session has none.
    if session == Id::NIL || required.lets_in(view, user, session)? {
        return Ok(());
    }
    Err(required.missing(user))
}

impl RequiredProvider {
    /// Whether it lets the session of a user in: one of its providers or, of the one owner, of a password.
    pub fn lets_in(&self, view: &View, user: Id<User>, session: Id<Session>) -> Result<bool> {
        Ok(match view.get::<ProviderSession>(&session)? {
            Some(begun) => self.providers.contains(&begun.provider),
            // With a password alone: whoever administers another provider is not to enter as an owner.
            None => self.break_glass == user,
        })
    }

    /// The error of a session of a user that was not begun with one of its providers.
    pub fn missing(&self, user: Id<User>) -> Error {
        let names = self.providers.join(" or ");
        if self.break_glass == user {
            return Error::forbidden(
                "provider_required",
                format!(
                    "this organization lets you in with its provider ({names}) or with your password, and \
                     not with another provider; sign out, and sign in again with one of these"
                ),
            );
        }
        Error::forbidden(
            "provider_required",
            format!(
                "this organization requires that you sign in with its provider ({names}), not with a \
                 password or another provider; sign out, and choose it on the page to sign in"
            ),
        )
    }
}
