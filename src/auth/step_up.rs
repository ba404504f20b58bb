//! When the person in a session last proved who they are, and what asks for that again
//! (reference: identity-and-rights, "Asking again").
//!
//! The refusal is that of step-up authentication (RFC 9470). API keys are not asked: nobody sits there.

use bincode::{Decode, Encode};

use super::caller::Identity;
use super::session::{Session, ends_with_session};
use crate::base::{Error, Id, Kind, Result, Time};
use crate::store::{AnyReference, Export, Record, Reference, Tx, View};

/// A proof counts for 15 minutes: long enough for a piece of work, and too short for who finds an open
/// browser.
pub const PROOF_SECS: i64 = 15 * 60;

/// What is noted of a session in which nobody has proved who they are.
pub const NEVER: Time = Time::from_millis(0);

/// The code of the error (RFC 9470).
pub const PROOF_REQUIRED: &str = "insufficient_user_authentication";

/// Its challenge, which the realm ends.
const CHALLENGE: &str = "Bearer error=\"insufficient_user_authentication\", max_age=\"900\",";

/// When the person in a session proved who they are, where that is not its beginning.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct SessionProof {
    pub session: Id<Session>,
    pub proved_at: Time,
}

static SESSION: Reference<SessionProof, Session> = ends_with_session();

impl Record for SessionProof {
    const TABLE: &'static str = "sessions.proof";
    const EXPORT: Export<Self> = Export::LeftOut("people sign in to each installation");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&SESSION];
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    type Key = Id<Session>;
    fn key(&self) -> Self::Key {
        self.session
    }
}

/// Returns when the person in a session last proved who they are.
pub fn proved_at(view: &View, session: &Session) -> Result<Time> {
    let proof = view.get::<SessionProof>(&session.id)?;
    Ok(proof.map_or(session.created_at, |proof| proof.proved_at))
}

/// Notes that the person in a session has proved who they are at this time.
pub fn note_proof(tx: &mut Tx, session: Id<Session>, proved_at: Time) -> Result<()> {
    tx.put(&SessionProof { session, proved_at })
}

/// Whether a proof of then still counts. One of the future does not: the clock was ahead.
pub fn is_recent(at: Time, now: Time) -> bool {
    at.plus_secs(PROOF_SECS) > now && !at.is_beyond(now, 0)
}

impl Identity {
    /// Requires that a person in a session has proved who they are within the last 15 minutes.
    ///
    /// # Errors
    /// 401 `insufficient_user_authentication` otherwise.
    pub fn require_recent_proof(&self, now: Time) -> Result<()> {
        if self.proved_at.is_none_or(|at| is_recent(at, now)) {
            return Ok(());
        }
        let asked = Error::new(
            Kind::Unauthenticated,
            "insufficient_user_authentication",
            "this takes a proof of who you are that is at most 15 minutes old: send your password, and a \
             code of your second factor if you have one, to POST /auth/session/confirm, or sign in again, \
             and repeat the request",
        );
        Err(asked.with_challenge(CHALLENGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Credential;

    #[test]
    fn a_proof_counts_for_fifteen_minutes_and_keys_are_not_asked() {
        let at = Time::from_millis(1_800_000_000_000);
        let identity = |proved_at| Identity {
            user: Id::NIL,
            name: "Ada".into(),
            credential: Credential::Session(Id::NIL),
            sponsor: None,
            expires_at: None,
            proved_at,
        };
        let asks = |proved_at, secs| {
            let asked = identity(proved_at).require_recent_proof(at.plus_secs(secs)).err();
            asked.map(|error| (error.kind(), error.code()))
        };
        assert_eq!(asks(Some(at), PROOF_SECS - 1), None);
        assert_eq!(asks(Some(at), PROOF_SECS), Some((Kind::Unauthenticated, PROOF_REQUIRED)));
        assert_eq!(asks(None, PROOF_SECS), None);
        let ahead = at.plus_secs(Time::CLOCK_DIFFERENCE_SECS + 1);
        assert!(!is_recent(ahead, at) && is_recent(at, at));
        assert!(!is_recent(NEVER, at));
    }
}
