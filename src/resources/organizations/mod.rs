//! Organizations and the people in them: how both come to be, how people sign in, who is a member
//! and as what, with which keys they act, what they were granted, and which domains an
//! organization claims (reference: identity-and-rights, "Roles").
//!
//! Here alone, beside `auth`, are records read and written that no organization owns.

mod accounts;
mod domains;
mod founding;
mod grants;
mod invitations;
mod keys;
mod members;
mod own;
mod sessions;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

pub use domains::{BY_DOMAIN, Domain, DomainState};
pub use founding::{Bootstrapped, NewFoundation, found, has_any_user, issue_setup_token};
pub use keys::note_uses;
pub use own::all;

use crate::api::Resource;
use crate::auth::{
    KNOWN_ADDRESS_SECS, KNOWN_ADDRESSES_BY_TIME, KnownSignInAddress, SESSIONS_BY_EXPIRY, Session,
};
use crate::base::Result;
use crate::outbox::{Settings, Sweep, SweepProgress, delete_due};
use crate::store::Tx;

use invitations::Invitation;

/// Organizations and the people in them.
pub const RESOURCE: Resource = Resource {
    sweeps: &[FORGET_ENDED],
    children: &[
        &founding::RESOURCE,
        &sessions::RESOURCE,
        &accounts::RESOURCE,
        &own::RESOURCE,
        &members::RESOURCE,
        &invitations::RESOURCE,
        &keys::RESOURCE,
        &grants::RESOURCE,
        &domains::RESOURCE,
    ],
    ..Resource::EMPTY
};

// ── Secrets ──────────────────────────────────────────────────────────────────

/// The BLAKE3 hash of a token, which is all that is kept of it. Comparing two takes the same time
/// wherever they differ.
type TokenHash = [u8; 32];

/// A token that nobody can guess, in characters that a URL's fragment takes as they are.
fn new_token(tx: &Tx) -> String {
    BASE64.encode(tx.random::<32>())
}

fn hash_of(token: &str) -> TokenHash {
    *blake3::hash(token.as_bytes()).as_bytes()
}

// ── Forgetting ───────────────────────────────────────────────────────────────

/// Removes what has ended and is looked at by nobody any more.
const FORGET_ENDED: Sweep = Sweep {
    name: "forget ended sessions and invitations, and addresses not signed in from",
    every_secs: 600,
    run: delete_expired,
    installation: true,
};

fn delete_expired(tx: &mut Tx, _: &Settings) -> Result<SweepProgress> {
    let now = tx.now();
    let unknown = now.minus_secs(KNOWN_ADDRESS_SECS);
    let swept = [
        delete_due(tx, &SESSIONS_BY_EXPIRY, |s: &Session| s.expires_at <= now)?,
        delete_due(tx, &invitations::BY_END, |i: &Invitation| i.expires_at <= now)?,
        delete_due(tx, &KNOWN_ADDRESSES_BY_TIME, |k: &KnownSignInAddress| k.at <= unknown)?,
    ];
    Ok(if swept.contains(&SweepProgress::More) {
        SweepProgress::More
    } else {
        SweepProgress::Clean
    })
}

#[cfg(test)]
mod tests {
    //! What several of the tests here need: real passwords, sessions and tokens.

    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use super::sessions;
    use crate::api::{HashPlan, Principal, Req};
    use crate::auth::passwords::{self, HashRequest, HashResult};
    use crate::auth::{Authenticator, Identity, RawCredential, Tokens, User};
    use crate::base::{Id, Result};
    use crate::resources::testing::{World, args};
    use crate::store::{Store, Tx, View};

    /// The password that [`with_password`] gives.
    pub const PASSWORD: &str = "correct horse";

    /// Gives somebody of the world a password.
    pub fn with_password(world: &World, who: &Principal) -> User {
        let Principal::Caller(caller) = who else { panic!("somebody in an organization") };
        let hashing = HashRequest { verify: None, make: Some(PASSWORD.into()) };
        let (id, made) = (caller.user(), passwords::run(&hashing).unwrap().made);
        let give = move |tx: &mut Tx| {
            let old: User = tx.fetch(&id)?;
            let user = User { password: made.clone(), ..old.clone() };
            tx.replace(&old, &user)?;
            Ok(user)
        };
        world.store.write_now(Id::NIL, give).unwrap()
    }

    type Settle<I, O> = fn(&mut Tx, &Req<(), I>, &HashResult) -> Result<(O, Id<User>)>;

    /// Does an operation with a password as the pipeline does it.
    pub fn hashing<I: Send + 'static, O: Send + 'static>(
        store: &Store,
        who: &Principal,
        look: fn(&View, &Req<(), I>) -> Result<HashPlan>,
        settle: Settle<I, O>,
        input: I,
    ) -> Result<O> {
        let (parts, who) = (args((), input), who.clone());
        let work = store.read_now(Id::NIL, |view| look(view, &Req::new(&parts, &who)))?;
        let hashed = passwords::run(&work.hashing)?;
        store.write_now(Id::NIL, move |tx| {
            settle(tx, &Req::new(&parts, &who), &hashed).map(|(out, _)| out)
        })
    }

    /// Begins a session of somebody; its token.
    pub fn session(store: &Store, user: &User) -> String {
        let (user, address) = (user.clone(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let begin = move |tx: &mut Tx| sessions::begin(tx, &user, address);
        store.write_now(Id::NIL, begin).unwrap().token
    }

    /// Whose token this is, as the pipeline finds out.
    pub fn identity_of(store: &Store, token: &str) -> Result<Arc<Identity>> {
        let authenticator = Authenticator::new(Tokens::new(store.keys()));
        let presented = RawCredential::Token(token.into());
        store.read_now(Id::NIL, |view| authenticator.identify(view, &presented))
    }

    /// Somebody in the session of a token, in no particular organization.
    pub fn signed_in(store: &Store, token: &str) -> Principal {
        Principal::Identity(identity_of(store, token).unwrap())
    }
}
