//! Organizations and their users: setup, sessions, members and roles, invitations, API keys, access
//! grants (reference: identity-and-rights, "Roles").
//!
//! Besides `auth`, only this module reads and writes records that no organization owns.

mod accounts;
mod break_glass;
mod device_request;
mod device_sign_in;
mod explained;
mod grants;
mod invitation;
mod invitation_mails;
mod invitations;
mod invited_accounts;
mod key_expiry;
mod key_rotation;
mod key_sponsors;
mod keys;
mod managing;
mod members;
pub mod moving;
mod oidc;
mod organization;
mod own_sessions;
mod password_reset;
mod password_resets;
mod reset_mails;
mod rule_rights;
mod second_factor;
mod second_factor_reset;
mod second_step;
mod service_accounts;
mod session_proof;
mod session_use;
mod sessions;
mod setup;
mod sign_in_challenge;
mod sign_in_link;
mod tokens;
mod users;
mod whoami;

pub use explained::route as explain_route;
pub use grants::{hidden_from, is_open_to_members};
pub use keys::record_key_usage;
pub use organization::{all, recreate};
pub use password_reset::{NewPasswordReset, issue_password_reset};
pub use reset_mails::request_reset_mail;
pub use session_use::record_session_usage;
pub use sessions::end_sessions_before;
pub use setup::{
    Bootstrapped, NewFoundation, bootstrap, has_any_user, issue_setup_token, shared_setup_token,
};

use crate::api::Resource;
use crate::auth::{
    KNOWN_ADDRESS_SECS, KNOWN_ADDRESSES_BY_TIME, KnownSignInAddress, SESSIONS_BY_EXPIRY, Session,
};
use crate::base::Result;
use crate::outbox::{RetentionSettings, Sweep, SweepProgress, delete_due};
use crate::store::Tx;

use device_request::DeviceRequest;
use invitation::Invitation;
use password_reset::PasswordReset;
use reset_mails::ResetMails;
use sign_in_challenge::SignInChallenge;

/// Organizations and their users.
pub const RESOURCE: Resource = Resource {
    sweeps: &[DELETE_EXPIRED],
    children: &[
        &setup::RESOURCE,
        &sessions::RESOURCE,
        &session_proof::RESOURCE,
        &device_sign_in::RESOURCE,
        &oidc::RESOURCE,
        &second_step::RESOURCE,
        &second_factor::RESOURCE,
        &own_sessions::RESOURCE,
        &whoami::RESOURCE,
        &users::RESOURCE,
        &password_resets::RESOURCE,
        &reset_mails::RESOURCE,
        &organization::RESOURCE,
        &members::RESOURCE,
        &second_factor_reset::RESOURCE,
        &moving::RESOURCE,
        &service_accounts::RESOURCE,
        &invitations::RESOURCE,
        &invitation_mails::RESOURCE,
        &keys::RESOURCE,
        &key_rotation::RESOURCE,
        &key_expiry::RESOURCE,
        &key_sponsors::RESOURCE,
        &grants::RESOURCE,
    ],
    ..Resource::EMPTY
};

// ── Retention ────────────────────────────────────────────────────────────────

/// Deletes expired sessions, challenges, requests of command lines, invitations and reset links, attempts to
/// sign in that are over, and sign-in addresses not used recently.
const DELETE_EXPIRED: Sweep = Sweep {
    name: "delete expired sessions, invitations, reset links and sign-in addresses",
    every_secs: 600,
    run: delete_expired,
    installation: true,
};

fn delete_expired(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let now = tx.now();
    let unknown = now.minus_secs(KNOWN_ADDRESS_SECS);
    let swept = [
        delete_due(tx, &SESSIONS_BY_EXPIRY, |s: &Session| s.expires_at <= now)?,
        delete_due(tx, &sign_in_challenge::BY_END, |c: &SignInChallenge| c.expires_at <= now)?,
        delete_due(tx, &device_request::BY_END, |d: &DeviceRequest| d.expires_at <= now)?,
        delete_due(tx, &invitation::BY_END, |i: &Invitation| i.expires_at <= now)?,
        delete_due(tx, &password_reset::BY_END, |r: &PasswordReset| r.expires_at <= now)?,
        delete_due(tx, &oidc::BY_USE, |used: &oidc::UsedAttempt| used.is_past(now))?,
        delete_due(tx, &reset_mails::BY_LAST, |mails: &ResetMails| mails.is_past(now))?,
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
    //! Fixtures of the tests: real passwords, sessions and tokens.

    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use super::sessions;
    use crate::api::{HashPlan, Outcome, Principal, Req};
    use crate::auth::passwords::{self, HashRequest, HashResult};
    use crate::auth::{Authenticator, Identity, RawCredential, Tokens, User};
    use crate::base::{Id, Result};
    use crate::resources::testing::{Fixture, args};
    use crate::store::{Store, Tx, View};

    /// The password that [`with_password`] gives.
    pub const PASSWORD: &str = "correct horse";

    /// Sets the password of a user.
    pub fn with_password(fixture: &Fixture, who: &Principal) -> User {
        let Principal::Caller(caller) = who else { panic!("no caller of an organization") };
        let hashing = HashRequest { verify: None, make: Some(PASSWORD.into()) };
        let (id, made) = (caller.user(), passwords::run(&hashing).unwrap().made);
        let give = move |tx: &mut Tx| {
            let old: User = tx.fetch(&id)?;
            let user = User { password: made.clone(), ..old.clone() };
            tx.replace(&old, &user)?;
            Ok(user)
        };
        fixture.store.write_blocking(Id::NIL, give).unwrap()
    }

    type Settle<I, O, U> = fn(&mut Tx, &Req<(), I>, &HashResult) -> Result<(O, U)>;

    /// Runs an operation with a password as the pipeline does.
    pub fn hashing<I: Send + 'static, O: Send + 'static, U: Send + 'static>(
        store: &Store,
        who: &Principal,
        prepare: fn(&View, &Req<(), I>) -> Result<HashPlan>,
        settle: Settle<I, O, U>,
        input: I,
    ) -> Result<O> {
        let (parts, who) = (args((), input), who.clone());
        let work = store.read_now(Id::NIL, |view| prepare(view, &Req::new(&parts, &who)))?;
        let hashed = passwords::run(&work.hashing)?;
        store.write_blocking(Id::NIL, move |tx| {
            settle(tx, &Req::new(&parts, &who), &hashed).map(|(out, _)| out)
        })
    }

    type Counting<I, O> = fn(&mut Tx, &Req<(), I>, &HashResult) -> Result<Outcome<(O, Id<User>)>>;

    /// Does the same with an operation whose refusals are committed.
    pub fn counting<I: Send + 'static, O: Send + 'static>(
        store: &Store,
        who: &Principal,
        prepare: fn(&View, &Req<(), I>) -> Result<HashPlan>,
        settle: Counting<I, O>,
        input: I,
    ) -> Result<O> {
        let (parts, who) = (args((), input), who.clone());
        let work = store.read_now(Id::NIL, |view| prepare(view, &Req::new(&parts, &who)))?;
        let hashed = passwords::run(&work.hashing)?;
        let settle = move |tx: &mut Tx| settle(tx, &Req::new(&parts, &who), &hashed);
        store.write_blocking(Id::NIL, settle)?.done().map(|(out, _)| out)
    }

    /// Creates a session of a user; returns its token.
    pub fn session(store: &Store, user: &User) -> String {
        let (user, address) = (user.clone(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let create = move |tx: &mut Tx| sessions::create_session(tx, &user, address);
        store.write_blocking(Id::NIL, create).unwrap().token
    }

    /// Authenticates a token as the pipeline does.
    pub fn identity_of(store: &Store, token: &str) -> Result<Arc<Identity>> {
        let authenticator = Authenticator::new(Tokens::new(store.keys()));
        let credential = RawCredential::Token(token.into());
        store.read_now(Id::NIL, |view| authenticator.identify(view, &credential))
    }

    /// The user in the session of a token, without an organization.
    pub fn signed_in(store: &Store, token: &str) -> Principal {
        Principal::Identity(identity_of(store, token).unwrap())
    }
}
