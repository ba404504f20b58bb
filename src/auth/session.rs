//! The records of signing in: sessions, and the addresses from which users have signed in.

use std::net::IpAddr;
use std::sync::Arc;

use bincode::{Decode, Encode};

use super::records::User;
use crate::base::{Email, Id, Time};
use crate::store::{AnyIndex, AnyReference, Export, Index, Key, Record, Reference};

/// A session of a signed-in user.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Session {
    /// Its id, the token's `sid`.
    pub id: Id<Session>,
    pub user: Id<User>,
    /// The user's [`session_generation`](User::session_generation) for which it is valid.
    pub generation: u32,
    pub created_at: Time,
    pub expires_at: Time,
}

impl Session {
    /// Whether it is one of `user`, a person, that no change of the password has ended. Its expiry is
    /// checked separately.
    pub fn is_of(&self, user: &User) -> bool {
        let is_current = self.generation == user.session_generation;
        self.user == user.id && is_current && !user.is_service()
    }
}

/// Where a session was used from.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedFrom {
    pub address: IpAddr,
    /// What the client calls itself.
    pub user_agent: Option<Arc<str>>,
}

/// Sessions by user and generation, oldest first.
pub static SESSIONS_BY_USER: Index<Session, (Id<User>, u32)> =
    Index::non_unique("sessions.by_user", |session| Some((session.user, session.generation)));

/// Sessions by expiry.
pub static SESSIONS_BY_EXPIRY: Index<Session, Time> =
    Index::non_unique("sessions.by_end", |session| Some(session.expires_at));

static SESSION_USER: Reference<Session, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |session: &Session, _| vec![session.user.to_bytes()],
)
.by(&SESSIONS_BY_USER);

impl Record for Session {
    const TABLE: &'static str = "sessions";
    const EXPORT: Export<Self> = Export::LeftOut("people sign in to each installation");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&SESSION_USER];
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    // Every sign-in with a password alone would wake everybody who waits. It is a change of access all the
    // same: a database that is set back, such as a standby that lacks the last commits, has another version
    // than with the session.
    const NEW_REVOKES_NOTHING: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&SESSIONS_BY_USER, &SESSIONS_BY_EXPIRY];
    type Key = Id<Session>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The reference of what is kept of a session in a record of its own, under the session's id, so that the
/// layout of sessions stays as it is. It ends with the session.
pub const fn ends_with_session<R: Record<Key = Id<Session>>>() -> Reference<R, Session> {
    Reference::cascade(
        &["session"],
        |session: &Session| session.id.to_bytes(),
        |kept: &R, _| vec![kept.key().to_bytes()],
    )
}

/// An IP address from which a user has signed in. Its sign-in attempts are counted separately, so
/// that anonymous clients cannot lock the user out (reference: conventions, "Rate limits").
#[derive(Clone, Debug, Encode, Decode)]
pub struct KnownSignInAddress {
    /// The e-mail address of the user.
    pub email: Email,
    /// The [block](crate::base::address_block) of the IP address.
    pub address: String,
    /// The last sign-in.
    pub at: Time,
}

/// How long an address remains known after a sign-in.
pub const KNOWN_ADDRESS_SECS: i64 = 30 * 24 * 3600;

/// Known addresses by time, for their retention.
pub static KNOWN_ADDRESSES_BY_TIME: Index<KnownSignInAddress, Time> =
    Index::non_unique("known_addresses.by_time", |known| Some(known.at));

impl Record for KnownSignInAddress {
    const TABLE: &'static str = "known_addresses";
    const EXPORT: Export<Self> = Export::LeftOut("where people signed in to this installation");
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&KNOWN_ADDRESSES_BY_TIME];
    type Key = (Email, String);
    fn key(&self) -> Self::Key {
        (self.email.clone(), self.address.clone())
    }
}
