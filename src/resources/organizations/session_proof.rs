//! Proving again who one is, in a session (reference: identity-and-rights, "Asking again").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::second_factor::{plan, require_password};
use super::sessions::require_session;
use crate::api::{HashPlan, Input, Outcome, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::passwords::HashResult;
use crate::auth::{PROOF_SECS, SESSION, User, note_proof, second_factor_of};
use crate::base::{Error, Id, Result, Time};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// What proves who one is.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"password": "seven green bottles", "code": "755224"}]))]
struct ConfirmSession {
    /// The person's password; required if they have one.
    password: Option<String>,
    /// A code of the second factor, or a recovery code; required if they have one.
    code: Option<String>,
}
impl Input for ConfirmSession {}

/// A proof that counts for a while.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionConfirmed")]
struct SessionConfirmed {
    /// When the person proved who they are: now.
    proved_at: Time,
    /// When some acts ask again.
    expires_at: Time,
}

impl Output for SessionConfirmed {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

fn prepare(view: &View, req: &Req<(), ConfirmSession>) -> Result<HashPlan> {
    plan(view, req, req.input.password.as_ref())
}

/// Everything that the account has is asked for: without the password somebody at an open browser could
/// do with a phone that lies beside it.
fn confirm(
    tx: &mut Tx,
    req: &Req<(), ConfirmSession>,
    hashed: &HashResult,
) -> Result<Outcome<(SessionConfirmed, Id<User>)>> {
    let (user, input): (User, _) = (tx.fetch(&req.identity().user)?, &req.input);
    let factor = second_factor_of(&tx.view(), user.id)?;
    if user.password.is_none() && factor.is_none() {
        return Err(Error::conflict(
            "nothing_to_confirm_with",
            "your account has neither a password nor a second factor: sign in again with your provider, \
             which begins a new session, or set a password by a mailed link, and a second factor then",
        ));
    }
    if user.password.is_some() {
        if input.password.is_none() {
            return Err(Error::invalid_at("password", "is required: your account has one"));
        }
        require_password(&user, hashed)?;
    }
    if let Some(factor) = factor {
        let Some(code) = &input.code else {
            return Err(Error::invalid_at("code", "is required: you have a second factor"));
        };
        if let Some(refusal) = factor.use_code(tx, code)? {
            return Ok(Outcome::Refused(refusal.error()));
        }
    }
    let proved_at = tx.now();
    note_proof(tx, require_session(req.identity()), proved_at)?;
    let confirmed = SessionConfirmed { proved_at, expires_at: proved_at.plus_secs(PROOF_SECS) };
    Ok(Outcome::Done((confirmed, user.id)))
}

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/auth/session/confirm",
            SESSION,
            "session.confirm",
            op::hash_counting(prepare, confirm),
        )
        .no_replay()
        .about("Prove again who you are"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::second_factor::tests::guarded;
    use super::super::tests::{PASSWORD, counting, identity_of, session, signed_in, with_password};
    use super::*;
    use crate::api::Principal;
    use crate::auth::PROOF_REQUIRED;
    use crate::resources::testing::Fixture;

    fn confirmed(
        fixture: &Fixture,
        who: &Principal,
        password: Option<&str>,
        code: Option<String>,
    ) -> std::result::Result<SessionConfirmed, &'static str> {
        let input = ConfirmSession { password: password.map(String::from), code };
        let done = counting(&fixture.store, who, prepare, confirm, input);
        done.map_err(|error| error.code())
    }

    /// What is said to a sensitive request of this session.
    fn asked(fixture: &Fixture, token: &str) -> Option<&'static str> {
        let identity = identity_of(&fixture.store, token).unwrap();
        identity.require_recent_proof(fixture.store.clock().now()).err().map(|error| error.code())
    }

    #[test]
    fn a_session_asks_again_after_fifteen_minutes_until_the_password_is_right() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let (token, other) = (session(&fixture.store, &ada), session(&fixture.store, &ada));
        let who = signed_in(&fixture.store, &token);
        fixture.pass_secs(PROOF_SECS - 1);
        assert_eq!(asked(&fixture, &token), None);
        fixture.pass_secs(1);
        assert_eq!(asked(&fixture, &token), Some(PROOF_REQUIRED));
        assert_eq!(confirmed(&fixture, &who, Some("wrong"), None).err(), Some("wrong_password"));
        assert_eq!(confirmed(&fixture, &who, None, None).err(), Some("invalid_request"));
        assert_eq!(asked(&fixture, &token), Some(PROOF_REQUIRED));
        let done = confirmed(&fixture, &who, Some(PASSWORD), None).unwrap();
        assert_eq!(done.expires_at, done.proved_at.plus_secs(PROOF_SECS));
        assert_eq!(asked(&fixture, &token), None);
        assert_eq!(asked(&fixture, &other), Some(PROOF_REQUIRED), "each session by itself");
        fixture.pass_secs(PROOF_SECS);
        assert_eq!(asked(&fixture, &token), Some(PROOF_REQUIRED));
        fixture.assert_sound();
    }

    #[test]
    fn a_second_factor_is_asked_for_too_and_a_code_counts_once() {
        let fixture = Fixture::new();
        let ada = guarded(&fixture, &fixture.owner);
        let token = ada.token.clone();
        let who = signed_in(&fixture.store, &token);
        fixture.pass_secs(PROOF_SECS);
        let code = || Some(ada.code(&fixture, 0));
        let ask = |password, code| confirmed(&fixture, &who, password, code).err();
        assert_eq!(ask(Some(PASSWORD), None), Some("invalid_request"));
        assert_eq!(ask(None, code()), Some("invalid_request"));
        assert_eq!(ask(Some("wrong"), code()), Some("wrong_password"));
        assert_eq!(ask(Some(PASSWORD), Some("000000".into())), Some("wrong_code"));
        assert_eq!(ask(Some(PASSWORD), code()), None);
        assert_eq!(asked(&fixture, &token), None);
        assert_eq!(ask(Some(PASSWORD), code()), Some("wrong_code"));
    }

    #[test]
    fn who_has_neither_password_nor_second_factor_is_told_to_sign_in_again() {
        let fixture = Fixture::new();
        let Principal::Caller(owner) = &fixture.owner else { panic!("no caller") };
        let id = owner.user();
        let ada: User = fixture.store.read_now(Id::NIL, |view| view.fetch(&id)).unwrap();
        let token = session(&fixture.store, &ada);
        let who = signed_in(&fixture.store, &token);
        fixture.pass_secs(PROOF_SECS);
        let refused = confirmed(&fixture, &who, None, None).err();
        assert_eq!(refused, Some("nothing_to_confirm_with"));
        assert_eq!(asked(&fixture, &session(&fixture.store, &ada)), None);
    }
}
