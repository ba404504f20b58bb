//! The second factor of people: an app's codes, recovery codes, and what organizations require
//! (reference: identity-and-rights, "Second factor").

use bincode::{Decode, Encode};

use super::records::{Organization, User};
use super::totp;
use crate::base::{Error, Id, Keys, Kind, ReachedLimit, Result, Sealed, Time};
use crate::store::{AnyReference, Export, Key, Org, Record, Reference, SealedField, Tx, View};

/// A person gets ten recovery codes.
pub const RECOVERY_CODES: usize = 10;

/// A recovery code has 80 random bits: nobody guesses one, so a fast hash of it is stored.
const RECOVERY_BYTES: usize = 10;

/// After 20 wrong codes of the app within an hour no more are read until it has passed; recovery codes
/// are. With the password alone, it takes more than a year to guess one of three valid codes with even
/// odds.
const MAX_WRONG: u32 = 20;
const WRONG_SECS: i64 = 3600;

/// A secret that was not confirmed within this time is not any more.
const BEGUN_SECS: i64 = 15 * 60;

/// The second factor of a person, from its beginning on. It has no `Debug`, as [`User`] has none.
#[derive(Clone, Encode, Decode)]
pub struct SecondFactor {
    pub user: Id<User>,
    /// The secret of the app; `None` if an admin has reset it.
    secret: Option<Sealed>,
    begun_at: Time,
    /// When it was confirmed by a code; until then it is off.
    pub on_since: Option<Time>,
    /// The step of the last code that was accepted.
    last_step: u64,
    /// The keyed hashes of the recovery codes that are left.
    recovery: Vec<[u8; 32]>,
    /// The wrong codes since `wrong_since`.
    wrong: u32,
    wrong_since: Time,
    /// When somebody else has reset it, until another begins.
    pub reset_at: Option<Time>,
}

static SECRET: SealedField<SecondFactor> =
    SealedField::new("secret", "second factors of people", |factor| factor.secret.as_mut());

static FACTOR_USER: Reference<SecondFactor, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |factor: &SecondFactor, _| vec![factor.user.to_bytes()],
);

impl Record for SecondFactor {
    const TABLE: &'static str = "second_factors";
    const EXPORT: Export<Self> = Export::LeftOut("people sign in to each installation");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&FACTOR_USER];
    const SEALED: &'static [&'static SealedField<Self>] = &[&SECRET];
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    type Key = Id<User>;
    fn key(&self) -> Self::Key {
        self.user
    }
}

/// Says that an organization is for sessions of people with a second factor.
#[derive(Clone, Debug, Encode, Decode)]
pub struct SecondFactorRule {
    pub org: Id<Org>,
    /// Since when.
    pub since: Time,
}

static RULE_ORG: Reference<SecondFactorRule, Organization> = Reference::cascade(
    &["org"],
    |organization: &Organization| organization.id.to_bytes(),
    |rule: &SecondFactorRule, _| vec![rule.org.to_bytes()],
);

impl Record for SecondFactorRule {
    const TABLE: &'static str = "second_factor_rules";
    const EXPORT: Export<Self> = Export::LeftOut(
        "members sign in to each installation, and have a second factor there or not",
    );
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&RULE_ORG];
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    type Key = Id<Org>;
    fn key(&self) -> Self::Key {
        self.org
    }
}

/// Whether an organization requires a second factor of its members.
pub fn requires_second_factor(view: &View, org: Id<Org>) -> Result<bool> {
    Ok(view.get::<SecondFactorRule>(&org)?.is_some())
}

/// Whether a person has a second factor.
pub fn has_second_factor(view: &View, user: Id<User>) -> Result<bool> {
    Ok(second_factor_of(view, user)?.is_some())
}

/// Whether a person lacks the second factor that an organization requires of its members.
pub(super) fn lacks_second_factor(view: &View, org: Id<Org>, user: Id<User>) -> Result<bool> {
    Ok(requires_second_factor(view, org)? && !has_second_factor(view, user)?)
}

/// Returns the second factor of a person, if it is on.
pub fn second_factor_of(view: &View, user: Id<User>) -> Result<Option<SecondFactor>> {
    Ok(view.get::<SecondFactor>(&user)?.filter(SecondFactor::is_on))
}

/// The error of a session in an organization that requires a second factor of its members.
pub(super) fn second_factor_missing() -> Error {
    Error::forbidden(
        "second_factor_required",
        "this organization requires a second factor of its members; turn yours on at \
         /account/second-factor, or with POST /auth/second-factor",
    )
}

/// Why a code is refused. The refusal is committed: it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeRefusal {
    /// It is wrong, or was used.
    Wrong,
    /// It is wrong, and the second factor is not on yet: there is no recovery code.
    WrongFirst,
    /// There were too many wrong ones; codes of the app are read again after so many seconds.
    TooMany(u32),
}

impl CodeRefusal {
    /// The error.
    pub fn error(self) -> Error {
        match self {
            CodeRefusal::Wrong => Error::forbidden(
                "wrong_code",
                "the code is wrong, or was used before; take the one that the app shows now, or a \
                 recovery code that is left",
            ),
            CodeRefusal::WrongFirst => Error::forbidden(
                "wrong_code",
                "the code is wrong, or was used before; take the one that the app shows now, and see that \
                 the clock of your phone is right",
            ),
            CodeRefusal::TooMany(secs) => {
                let (name, quota) = ("second-factor", MAX_WRONG);
                let limit = ReachedLimit { name, quota, window_secs: WRONG_SECS as u32 };
                Error::new(
                    Kind::Limited,
                    "rate_limited",
                    "too many wrong codes; wait as Retry-After says, or use a recovery code",
                )
                .retry_after(secs)
                .limit(limit)
            }
        }
    }
}

/// A second factor that was begun.
pub struct BegunFactor {
    /// The secret of the app.
    pub secret: [u8; totp::SECRET_BYTES],
    /// Until when it can be confirmed.
    pub expires_at: Time,
}

/// Begins a second factor of a person, who has none that is on; it replaces one that was begun.
pub fn begin_second_factor(tx: &mut Tx, user: Id<User>) -> Result<BegunFactor> {
    let secret: [u8; totp::SECRET_BYTES] = tx.random();
    let begun_at = tx.now();
    let before = tx.get::<SecondFactor>(&user)?;
    // Wrong codes count on: otherwise one could begin again after each.
    let (wrong, wrong_since) =
        before.map_or((0, begun_at), |before| (before.wrong, before.wrong_since));
    tx.put(&SecondFactor {
        user,
        secret: Some(tx.seal(&SECRET, &user, &totp::base32(&secret))?),
        begun_at,
        on_since: None,
        last_step: 0,
        recovery: Vec::new(),
        wrong,
        wrong_since,
        reset_at: None,
    })?;
    Ok(BegunFactor { secret, expires_at: begun_at.plus_secs(BEGUN_SECS) })
}

/// Ends the second factor of a person by somebody else's hand, which the person is shown. Returns
/// whether there was one.
pub fn reset_second_factor(tx: &mut Tx, user: Id<User>) -> Result<bool> {
    let Some(factor) = second_factor_of(&tx.view(), user)? else { return Ok(false) };
    let reset_at = Some(tx.now());
    let reset = SecondFactor {
        secret: None,
        on_since: None,
        recovery: Vec::new(),
        reset_at,
        ..factor.clone()
    };
    tx.replace(&factor, &reset)?;
    Ok(true)
}

/// Forgets all of a person's second factor: it was of whoever had the account before.
pub fn forget_second_factor(tx: &mut Tx, user: Id<User>) -> Result<()> {
    match tx.get::<SecondFactor>(&user)? {
        Some(factor) => tx.remove(&factor),
        None => Ok(()),
    }
}

impl SecondFactor {
    /// Whether it is asked for.
    pub fn is_on(&self) -> bool {
        self.on_since.is_some()
    }

    /// Whether it was begun, and can still be confirmed.
    pub fn is_begun(&self, now: Time) -> bool {
        !self.is_on() && self.secret.is_some() && self.begun_at.plus_secs(BEGUN_SECS) > now
    }

    /// The number of recovery codes that are left.
    pub fn recovery_codes_left(&self) -> usize {
        self.recovery.len()
    }

    /// Verifies a code and uses it up: one of the app or, if it is on, a recovery code. Returns why it
    /// is refused, which is to be committed.
    pub fn use_code(&self, tx: &mut Tx, code: &str) -> Result<Option<CodeRefusal>> {
        let Some(digits) = totp::parse_code(code) else { return self.use_recovery_code(tx, code) };
        let now = tx.now();
        let is_recent = self.wrong > 0
            && self.wrong_since.plus_secs(WRONG_SECS) > now
            && !self.wrong_since.is_beyond(now, 0);
        let (wrong, wrong_since) =
            if is_recent { (self.wrong, self.wrong_since) } else { (0, now) };
        if wrong >= MAX_WRONG {
            let wait = (wrong_since.plus_secs(WRONG_SECS).millis() - now.millis()) / 1000 + 1;
            return Ok(Some(CodeRefusal::TooMany(u32::try_from(wait).unwrap_or(1))));
        }
        let secret =
            self.secret.as_ref().map(|secret| tx.view().unseal(&SECRET, &self.user, secret));
        let secret = secret.transpose()?.and_then(|secret| totp::from_base32(&secret));
        let step =
            secret.and_then(|secret| totp::accepted_step(&secret, digits, now, self.last_step));
        let Some(last_step) = step else {
            tx.replace(self, &SecondFactor { wrong: wrong + 1, wrong_since, ..self.clone() })?;
            return Ok(Some(self.wrong()));
        };
        tx.replace(self, &SecondFactor { last_step, ..self.clone() })?;
        Ok(None)
    }

    fn wrong(&self) -> CodeRefusal {
        if self.is_on() { CodeRefusal::Wrong } else { CodeRefusal::WrongFirst }
    }

    fn use_recovery_code(&self, tx: &mut Tx, code: &str) -> Result<Option<CodeRefusal>> {
        let hash = blake3::Hash::from(hash_of(tx.keys(), self.user, code));
        // Hashes are compared in constant time.
        let used = self.recovery.iter().position(|left| hash == *left);
        let Some(used) = used else { return Ok(Some(self.wrong())) };
        let mut recovery = self.recovery.clone();
        recovery.remove(used);
        tx.replace(self, &SecondFactor { recovery, ..self.clone() })?;
        Ok(None)
    }

    /// Turns it on. Returns the recovery codes, which are not stored.
    pub fn turn_on(&self, tx: &mut Tx) -> Result<Vec<String>> {
        let codes: Vec<String> = (0..RECOVERY_CODES).map(|_| new_recovery_code(tx)).collect();
        let recovery = codes.iter().map(|code| hash_of(tx.keys(), self.user, code)).collect();
        let on = SecondFactor { on_since: Some(tx.now()), recovery, ..self.clone() };
        tx.replace(self, &on)?;
        Ok(codes)
    }
}

/// Four groups of four letters and digits.
fn new_recovery_code(tx: &Tx) -> String {
    let bits: [u8; RECOVERY_BYTES] = tx.random();
    let text = totp::base32(&bits).to_ascii_lowercase();
    let groups: Vec<&str> = (0..4).filter_map(|group| text.get(4 * group..4 * group + 4)).collect();
    groups.join("-")
}

/// Returns the hash of a recovery code under the installation's key, however it is typed.
fn hash_of(keys: &Keys, user: Id<User>, code: &str) -> [u8; 32] {
    let letters = code.chars().filter(char::is_ascii_alphanumeric);
    let code: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    keys.hash("roadstead 2026 recovery codes", &[user.bytes().as_slice(), code.as_bytes()].concat())
}
