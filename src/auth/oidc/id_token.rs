//! The check of an ID token (OpenID Connect Core 1.0, 3.1.3.7).

use jsonwebtoken::{Validation, decode, decode_header};
use serde::Deserialize;

use super::jwks::KeySet;
use crate::base::{Email, Time};

/// How far the clock of a provider may be off.
const LEEWAY_SECS: i64 = 60;

/// The longest token that is read.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// What a token must say.
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    pub now: Time,
}

/// What a provider says of a person.
#[derive(Debug, PartialEq, Eq)]
pub struct IdClaims {
    /// Identifies the person at the provider, whatever their address is.
    pub subject: String,
    pub email: Option<Email>,
    /// Whether the provider says that the person reads the mail of the address.
    pub email_verified: bool,
    pub name: Option<String>,
}

/// Why a token is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenProblem {
    /// It is signed with a key that is not known.
    UnknownKey,
    /// A phrase that says what is wrong.
    Wrong(&'static str),
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: OneOrMany,
    azp: Option<String>,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    nonce: Option<String>,
    email: Option<String>,
    email_verified: Option<Flag>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Some providers write it as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Flag {
    Bool(bool),
    Text(String),
}

/// The id of the key that a token names, before anything of it is believed.
pub fn key_id(token: &str) -> Option<String> {
    let token = Some(token).filter(|token| token.len() <= MAX_TOKEN_BYTES)?;
    decode_header(token).ok()?.kid
}

/// Returns what a token says, if it is signed with one of these keys, and of this sign-in.
///
/// # Errors
/// If anything about it is wrong.
pub fn check_id_token(
    token: &str,
    keys: &KeySet,
    expected: &Expected,
) -> Result<IdClaims, TokenProblem> {
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
    // What it says is checked below, against the clock of the store.
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_aud) = (false, false);
    let decoded = decode::<Claims>(token, &key.key, &validation);
    let claims = decoded.map_err(|_| wrong("its signature or its form is wrong"))?.claims;
    check(&claims, expected).map_err(wrong)?;
    let email_verified = match &claims.email_verified {
        Some(Flag::Bool(is_verified)) => *is_verified,
        Some(Flag::Text(text)) => text == "true",
        None => false,
    };
    let email = claims.email.and_then(|email| Email::parse(email).ok());
    Ok(IdClaims { subject: claims.sub, email, email_verified, name: claims.name })
}

fn check(claims: &Claims, expected: &Expected) -> Result<(), &'static str> {
    if claims.iss != expected.issuer {
        return Err("it is of another issuer");
    }
    let (is_for_us, is_for_others) = match &claims.aud {
        OneOrMany::One(aud) => (aud == expected.client_id, false),
        OneOrMany::Many(all) => (all.iter().any(|aud| aud == expected.client_id), all.len() > 1),
    };
    let presented_by_us = match &claims.azp {
        Some(azp) => azp == expected.client_id,
        None => !is_for_others,
    };
    if !is_for_us || !presented_by_us {
        return Err("it is for another client");
    }
    if claims.nonce.as_deref() != Some(expected.nonce) {
        return Err("it is of another sign-in");
    }
    let now = expected.now.secs();
    let latest = (now + LEEWAY_SECS) as f64;
    let is_past = claims.exp <= (now - LEEWAY_SECS) as f64;
    let is_of_future = claims.iat > latest || claims.nbf.is_some_and(|nbf| nbf > latest);
    if is_past || is_of_future {
        return Err("it has expired, or is of the future; compare the clocks");
    }
    // The longest that the specification allows.
    if claims.sub.is_empty() || claims.sub.len() > 255 {
        return Err("its subject is empty or too long");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
