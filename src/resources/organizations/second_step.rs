//! The second step of signing in: a code, after the password was right
//! (reference: identity-and-rights, "Second factor").

use schemars::JsonSchema;
use serde::Deserialize;

use super::sessions::{SessionInfo, attempt, create_session};
use super::sign_in_challenge::{self, SignInChallenge};
use crate::api::{Attempt, HashPlan, Input, Outcome, Req, Resource, Route, op};
use crate::auth::passwords::{HashRequest, HashResult};
use crate::auth::{ANYONE, User, second_factor_of};
use crate::base::{Error, Id, Kind, Result};
use crate::store::{TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<SignInChallenge>()], ..Resource::EMPTY };

/// A code for a sign-in whose password was right.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"challenge": "the-challenge-of-the-sign-in", "code": "755224"}],
))]
struct SignInCode {
    /// What the error `code_required` of POST /auth/sign-in has.
    challenge: String,
    /// The code that the app shows, or a recovery code.
    code: String,
}
impl Input for SignInCode {}

fn prepare(view: &View, req: &Req<(), SignInCode>) -> Result<HashPlan> {
    let attempt = match sign_in_challenge::find(view, &req.input.challenge)? {
        Some((_, user)) => attempt(view, user.email, req.origin.address)?,
        None => Attempt::Address,
    };
    Ok(HashPlan { hashing: HashRequest::default(), attempt: Some(attempt) })
}

/// Creates the session; the challenge is used up. A wrong code is counted, and ends the challenge if it
/// is the fifth.
fn sign_in(
    tx: &mut Tx,
    req: &Req<(), SignInCode>,
    _: &HashResult,
) -> Result<Outcome<(SessionInfo, Id<User>)>> {
    let found = sign_in_challenge::find(&tx.view(), &req.input.challenge)?;
    let Some((challenge, user)) = found else { return Err(no_challenge()) };
    let Some(factor) = second_factor_of(&tx.view(), user.id)? else { return Err(no_challenge()) };
    if let Some(refusal) = factor.use_code(tx, &req.input.code)? {
        challenge.note_wrong(tx)?;
        return Ok(Outcome::Refused(refusal.error()));
    }
    tx.remove(&challenge)?;
    Ok(Outcome::Done((create_session(tx, &user, req.origin.address)?, user.id)))
}

fn no_challenge() -> Error {
    Error::new(
        Kind::Unauthenticated,
        "challenge_ended",
        "this sign-in has ended: it took more than five minutes, or there were five wrong codes; \
         begin again with the password",
    )
}

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/auth/sign-in/code",
            ANYONE,
            "session.sign_in_code",
            op::hash_counting(prepare, sign_in),
        )
        .no_replay()
        .about("Complete a sign-in with a code"),
    ]
}

#[cfg(test)]
mod tests;
