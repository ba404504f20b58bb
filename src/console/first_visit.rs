//! A link that signs somebody in once: the demo prints it, and opens it in a browser.
//!
//! What it needs is in the memory of the process that has made it. No other server has such a link.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::base::Time;

/// A session that waits for the browser of who has begun the program.
#[derive(Default)]
pub struct FirstVisit(Mutex<Option<Offer>>);

struct Offer {
    token: blake3::Hash,
    session: String,
    until: Time,
}

impl FirstVisit {
    /// Offers a session for a token, in place of an earlier one.
    pub fn offer(&self, token: &str, session: String, until: Time) {
        let token = blake3::hash(token.as_bytes());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Offer { token, session, until });
    }

    /// Takes the session of a token, once.
    pub(super) fn take(&self, token: &str, now: Time) -> Option<String> {
        let mut offer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let token = blake3::hash(token.as_bytes());
        offer.take_if(|one| one.token == token && now < one.until).map(|one| one.session)
    }
}

impl fmt::Debug for FirstVisit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstVisit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_taken_once_by_its_token_and_in_time() {
        let at = Time::from_millis;
        let visit = FirstVisit::default();
        assert_eq!(visit.take("", at(0)), None);
        visit.offer("token", "session".into(), at(100));
        assert_eq!(visit.take("other", at(0)), None);
        assert_eq!(visit.take("token", at(100)), None);
        assert_eq!(visit.take("token", at(99)).as_deref(), Some("session"));
        assert_eq!(visit.take("token", at(99)), None);
    }
}
