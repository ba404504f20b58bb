//! The check of who has signed a token, before anything that it says is looked at.

use jsonwebtoken::{Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::jwks::KeySet;

/// How far the clock of a provider may be off.
pub(super) const LEEWAY_SECS: i64 = 60;

/// The longest token that is read.
pub(super) const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// The longest subject that the specification allows.
const MAX_SUBJECT_BYTES: usize = 255;

/// Why a token is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenProblem {
    /// It is signed with a key that is not known.
    UnknownKey,
    /// A phrase that says what is wrong.
    Wrong(&'static str),
}

/// For whom a token is.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    /// Whether it is for this client.
    pub(super) fn has(&self, client_id: &str) -> bool {
        match self {
            OneOrMany::One(aud) => aud == client_id,
            OneOrMany::Many(all) => all.iter().any(|aud| aud == client_id),
        }
    }

    /// Whether it is for more than one.
    pub(super) fn is_several(&self) -> bool {
        matches!(self, OneOrMany::Many(all) if all.len() > 1)
    }
}

/// The id of the key that a token names, before anything of it is believed.
pub fn key_id(token: &str) -> Option<String> {
    let token = Some(token).filter(|token| token.len() <= MAX_TOKEN_BYTES)?;
    decode_header(token).ok()?.kid
}

/// Returns what a token says, if it is signed with one of these keys.
///
/// # Errors
/// If it is not, or is no token.
pub(super) fn read_signed(token: &str, keys: &KeySet) -> Result<Map<String, Value>, TokenProblem> {
    let wrong = TokenProblem::Wrong;
    if token.len() > MAX_TOKEN_BYTES {
        return Err(wrong("it is too long"));
    }
    // `none` and unknown algorithms are no headers.
    let header = decode_header(token).map_err(|_| wrong("it is not signed as it must be"))?;
    if header.crit.is_some() {
        return Err(wrong("it has an extension that is not known"));
    }
    let kid = header.kid.as_deref();
    let Some(key) = keys.find(kid, header.alg) else {
        return Err(if keys.has(kid) {
            wrong("it is signed with an algorithm that its key is not for")
        } else {
            TokenProblem::UnknownKey
        });
    };
    let mut validation = Validation::new(key.algorithm);
    // What it says is checked by the caller, against the clock of the store.
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_aud) = (false, false);
    let decoded = decode::<Map<String, Value>>(token, &key.key, &validation);
    decoded.map(|decoded| decoded.claims).map_err(|_| wrong(MALFORMED))
}

/// What is said of a token whose signature does not fit, or that lacks what it must say.
pub(super) const MALFORMED: &str = "its signature or its form is wrong";

/// Whether a text can be a subject.
pub(super) fn is_subject(subject: &str) -> bool {
    !subject.is_empty() && subject.len() <= MAX_SUBJECT_BYTES
}
