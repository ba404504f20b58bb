//! The record of a command line that waits for a person in a browser to let it in
//! (reference: identity-and-rights, "Signing in on the command line").

use std::net::IpAddr;

use bincode::{Decode, Encode};

use super::tokens::{TokenHash, hash_of};
use crate::auth::{Credential, Session, User, ends_with_session};
use crate::base::{Error, Id, Kind, Name, Result, Time, address_block};
use crate::outbox::delete_due;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Record, Reference, Tx, View,
};

/// A request is open for ten minutes: long enough to sign in with a provider and a second factor.
pub(super) const VALID_SECS: i64 = 600;

/// The seconds between two questions of the same command line (RFC 8628).
pub(super) const INTERVAL_SECS: u32 = 5;

/// Open requests of one address: those of a team behind one. They are of anybody, so there is a bound.
pub(super) const MAX_OF_ADDRESS: usize = 50;

/// Open requests in all: 3 MB, and 200 addresses that fill them. A code is guessed with 10,000 in 20^8, ten
/// times a minute from an address.
const MAX_OPEN: usize = 10_000;

/// No vowels, so that no words come up, and nothing that looks like something else.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

/// The letters of a code.
const CODE_LETTERS: usize = 8;

/// A command line that waits to be let in.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct DeviceRequest {
    /// The hash of what only the command line knows.
    pub hash: TokenHash,
    /// What the person reads there and enters here.
    pub user_code: String,
    /// What the command line calls itself.
    pub client: Name,
    /// The IP address that it asked from.
    pub address: String,
    /// The block of the address, which is counted.
    pub block: String,
    pub created_at: Time,
    pub expires_at: Time,
    pub polled_at: Option<Time>,
    pub denied: bool,
    /// Who has let it in.
    pub user: Option<Id<User>>,
    /// Their [`session_generation`](User::session_generation) then, for which that counts.
    pub generation: u32,
    /// The provider with which they had signed in.
    pub provider: Option<String>,
    /// The session with this provider, without which the command line is not let in any more.
    pub session: Option<Id<Session>>,
    /// Who it was at the provider, by which that ends the session.
    pub subject: Option<[u8; 32]>,
    /// The session at the provider.
    pub sid: Option<[u8; 32]>,
    /// The end of the session that has let it in, which its own does not outlast.
    pub until: Option<Time>,
}

/// Requests by their code.
pub(super) static BY_CODE: Index<DeviceRequest, String> = Index::unique(
    "device_requests.by_code",
    "device_request_exists",
    "this code is in use",
    |request| Some(request.user_code.clone()),
);

/// Requests by the block of their address, and their end.
static BY_ADDRESS: Index<DeviceRequest, (String, Time)> =
    Index::non_unique("device_requests.by_address", |request| {
        Some((request.block.clone(), request.expires_at))
    });

/// Requests by their end.
pub(super) static BY_END: Index<DeviceRequest, Time> =
    Index::non_unique("device_requests.by_end", |request| Some(request.expires_at));

/// Requests by who has let them in.
static BY_USER: Index<DeviceRequest, Id<User>> =
    Index::non_unique("device_requests.by_user", |request| request.user);

static USER: Reference<DeviceRequest, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |request: &DeviceRequest, _| request.user.iter().map(|user| user.to_bytes()).collect(),
)
.by(&BY_USER);

impl Record for DeviceRequest {
    const TABLE: &'static str = "device_requests";
    const EXPORT: Export<Self> = Export::LeftOut("for minutes, of who signs in here");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&USER];
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_CODE, &BY_ADDRESS, &BY_END, &BY_USER];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("session", "one that has ended lets nothing in")];
    type Key = TokenHash;
    fn key(&self) -> Self::Key {
        self.hash
    }
}

/// Opens a request of a command line at this address, which alone knows `token`.
///
/// # Errors
/// 429 if too many are open.
pub(super) fn open(tx: &mut Tx, token: &str, client: &Name, from: IpAddr) -> Result<DeviceRequest> {
    let (now, block) = (tx.now(), address_block(from).to_string());
    delete_due(tx, &BY_END, |request: &DeviceRequest| request.expires_at <= now)?;
    // The bound of an address first: who has filled it makes nobody count them all.
    if tx.count(&BY_ADDRESS, &block, MAX_OF_ADDRESS)? >= MAX_OF_ADDRESS
        || tx.count::<DeviceRequest>(ListSource::TABLE, &(), MAX_OPEN)? >= MAX_OPEN
    {
        return Err(too_many());
    }
    let request = DeviceRequest {
        hash: hash_of(token),
        user_code: new_code(tx)?,
        client: client.clone(),
        address: from.to_canonical().to_string(),
        block,
        created_at: now,
        expires_at: now.plus_secs(VALID_SECS),
        polled_at: None,
        denied: false,
        user: None,
        generation: 0,
        provider: None,
        session: None,
        subject: None,
        sid: None,
        until: None,
    };
    tx.insert(&request)?;
    Ok(request)
}

fn too_many() -> Error {
    let message = "too many command lines wait to be let in; finish one of them, or try again in some \
                   minutes";
    Error::new(Kind::Limited, "rate_limited", message).retry_after(60)
}

/// A code that no request has.
fn new_code(tx: &Tx) -> Result<String> {
    loop {
        let code = code_of(&tx.random());
        if tx.view().find_key(&BY_CODE, &code)?.is_none() {
            return Ok(code);
        }
    }
}

/// The code of random bytes. Those that would make some letters likelier are left out.
fn code_of(random: &[u8; 64]) -> String {
    let even = random.iter().filter(|byte| **byte < 240);
    even.take(CODE_LETTERS).map(|byte| char::from(LETTERS[usize::from(byte % 20)])).collect()
}

/// A code as people read it: `WDJB-MJHT`.
pub(super) fn shown(code: &str) -> String {
    let (first, second) = code.split_at(code.len() / 2);
    format!("{first}-{second}")
}

/// The code that somebody has typed, whatever it is separated with.
pub(super) fn typed(code: &str) -> String {
    let letters = code.chars().filter(char::is_ascii_alphabetic).take(CODE_LETTERS + 1);
    letters.map(|letter| letter.to_ascii_uppercase()).collect()
}

/// Returns the request with this code that nobody has decided yet.
///
/// # Errors
/// 404 without one.
pub(super) fn fetch_open(view: &View, code: &str) -> Result<DeviceRequest> {
    let found: Option<DeviceRequest> = view.find(&BY_CODE, &typed(code))?;
    found.filter(|request| request.is_open(view.now())).ok_or_else(|| {
        Error::new(
            Kind::NotFound,
            "not_found",
            "there is no such code: it may be mistyped, used already, or older than ten minutes",
        )
        .at("userCode")
    })
}

impl DeviceRequest {
    fn is_open(&self, now: Time) -> bool {
        self.expires_at > now && !self.denied && self.user.is_none()
    }

    /// Notes that the command line has asked; returns what it is told, which is to be committed.
    ///
    /// # Errors
    /// `slow_down` if it asks too early: that writes nothing.
    pub(super) fn note_poll(&self, tx: &mut Tx) -> Result<Error> {
        let now = tx.now();
        let next_at = self.polled_at.map(|at| at.plus_secs(i64::from(INTERVAL_SECS)));
        if next_at.is_some_and(|at| at > now && !at.is_beyond(now, VALID_SECS)) {
            let message = "this asks too often: wait five seconds more between two requests";
            return Err(Error::new(Kind::Invalid, "slow_down", message));
        }
        tx.replace(self, &DeviceRequest { polled_at: Some(now), ..self.clone() })?;
        Ok(Error::new(
            Kind::Invalid,
            "authorization_pending",
            "nobody has let it in yet; ask again",
        ))
    }
}

/// Removes what a person has let in with a provider, and what has not begun yet. `is_of` is told the name of
/// the provider, and who they are there.
pub(super) fn remove_of_provider(
    tx: &mut Tx,
    user: Id<User>,
    is_of: impl Fn(&str, Option<[u8; 32]>) -> bool,
) -> Result<()> {
    let requests: Vec<DeviceRequest> = tx.view().all(&BY_USER, &user)?;
    let is_of_it = |request: &&DeviceRequest| {
        request.provider.as_ref().is_some_and(|provider| is_of(provider, request.subject))
    };
    requests.iter().filter(is_of_it).try_for_each(|request| tx.remove(request))
}

// ── The session that it gets ─────────────────────────────────────────────────

/// That a session is of a command line.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct DeviceSession {
    pub session: Id<Session>,
    /// What the command line calls itself.
    pub client: Name,
    /// The IP address that it asked from.
    pub address: String,
}

static OF_SESSION: Reference<DeviceSession, Session> = ends_with_session();

impl Record for DeviceSession {
    const TABLE: &'static str = "sessions.device";
    const EXPORT: Export<Self> = Export::LeftOut("people sign in to each installation");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&OF_SESSION];
    const ORG_SCOPED: bool = false;
    type Key = Id<Session>;
    fn key(&self) -> Self::Key {
        self.session
    }
}

/// Whether a credential is the session of a command line.
pub(super) fn is_of_device(view: &View, credential: &Credential) -> Result<bool> {
    match credential {
        Credential::Session(id) => Ok(view.get::<DeviceSession>(id)?.is_some()),
        Credential::Key { .. } => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_however_it_is_typed() {
        let code = code_of(&std::array::from_fn(|n| 250 - u8::try_from(n).unwrap()));
        assert_eq!(code.len(), CODE_LETTERS);
        assert!(code.bytes().all(|letter| LETTERS.contains(&letter)), "{code}");
        assert_eq!(shown("WDJBMJHT"), "WDJB-MJHT");
        for text in ["WDJB-MJHT", "wdjbmjht", " wdjb mjht\n"] {
            assert_eq!(typed(text), "WDJBMJHT");
        }
    }
}
