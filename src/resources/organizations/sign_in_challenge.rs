//! The challenge of a person with a second factor, whose password was right: what is left of signing in
//! is a code (reference: identity-and-rights, "Second factor").

use bincode::{Decode, Encode};

use super::tokens::{TokenHash, hash_of, new_token};
use crate::auth::User;
use crate::base::{Error, Id, Kind, Result, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, PageRequest, Record, Reference, Tx, View,
};

/// A challenge is valid for five minutes: long enough to find a phone.
const VALID_SECS: i64 = 5 * 60;

/// A challenge ends with its fifth wrong code.
const MAX_WRONG: u8 = 5;

/// A person has at most ten challenges; another one ends the oldest. Only who has the password makes
/// them.
const MAX_OF_USER: usize = 10;

/// A sign-in that waits for a code.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct SignInChallenge {
    pub hash: TokenHash,
    pub user: Id<User>,
    /// The user's [`session_generation`](User::session_generation) for which it is valid, so that
    /// every change of the password voids it.
    generation: u32,
    wrong: u8,
    pub expires_at: Time,
}

/// Challenges by user, oldest first.
static BY_USER: Index<SignInChallenge, (Id<User>, Time)> =
    Index::non_unique("sign_in_challenges.by_user", |challenge| {
        Some((challenge.user, challenge.expires_at))
    });

/// Challenges by expiry.
pub(super) static BY_END: Index<SignInChallenge, Time> =
    Index::non_unique("sign_in_challenges.by_end", |challenge| Some(challenge.expires_at));

static USER: Reference<SignInChallenge, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |challenge: &SignInChallenge, _| vec![challenge.user.to_bytes()],
)
.by(&BY_USER);

impl Record for SignInChallenge {
    const TABLE: &'static str = "sign_in_challenges";
    const EXPORT: Export<Self> = Export::LeftOut("for minutes, of who signs in here");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&USER];
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_USER, &BY_END];
    type Key = TokenHash;
    fn key(&self) -> Self::Key {
        self.hash
    }
}

/// Makes a challenge of a person whose password was right; returns the refusal that has it.
pub(super) fn challenged(tx: &mut Tx, user: &User) -> Result<Error> {
    let stored = tx.count(&BY_USER, &user.id, MAX_OF_USER)?;
    let excess = (stored + 1).saturating_sub(MAX_OF_USER);
    if excess > 0 {
        let part = PageRequest { limit: excess, after: None };
        let oldest = tx.page(&BY_USER, &user.id, Order::Ascending, &part, |_| true)?;
        oldest.items.iter().try_for_each(|challenge| tx.remove(challenge))?;
    }
    let token = new_token(tx);
    tx.insert(&SignInChallenge {
        hash: hash_of(&token),
        user: user.id,
        generation: user.session_generation,
        wrong: 0,
        expires_at: tx.now().plus_secs(VALID_SECS),
    })?;
    let asked = Error::new(
        Kind::Unauthenticated,
        "code_required",
        "the password is right, and the account has a second factor: send a code of its app or a \
         recovery code, as code with the password, or with the challenge to POST /auth/sign-in/code \
         within five minutes",
    );
    Ok(asked.continued_with(token))
}

/// Returns the valid challenge with this token, and its user.
pub(super) fn find(view: &View, token: &str) -> Result<Option<(SignInChallenge, User)>> {
    let challenge = view.get::<SignInChallenge>(&hash_of(token))?;
    let Some(challenge) = challenge.filter(|challenge| challenge.expires_at > view.now()) else {
        return Ok(None);
    };
    let user: User = view.fetch(&challenge.user)?;
    let is_valid = challenge.generation == user.session_generation;
    Ok(is_valid.then_some((challenge, user)))
}

impl SignInChallenge {
    /// Notes a wrong code.
    pub(super) fn note_wrong(&self, tx: &mut Tx) -> Result<()> {
        let wrong = self.wrong + 1;
        if wrong >= MAX_WRONG {
            return tx.remove(self);
        }
        tx.replace(self, &SignInChallenge { wrong, ..self.clone() })
    }
}
