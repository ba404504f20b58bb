//! The check of an ID token (OpenID Connect Core 1.0, 3.1.3.7).

use serde::Deserialize;
use serde_json::{Map, Value};

use super::jwks::KeySet;
use super::signed_token::{
    LEEWAY_SECS, MALFORMED, OneOrMany, TokenProblem, is_subject, read_signed,
};
use crate::base::{Email, Time};

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
    /// The session at the provider, if it says so.
    pub sid: Option<String>,
    /// When the person proved to the provider who they are, if it says so, by the clock here: no later than
    /// now.
    pub auth_time: Option<Time>,
    /// All that it says, for the rules of organizations.
    pub said: Map<String, Value>,
}

impl IdClaims {
    /// Whether the provider says that the person last proved who they are before a time here, with a
    /// minute of leeway.
    pub fn is_proved_before(&self, time: Time) -> bool {
        self.auth_time.is_some_and(|at| at.plus_secs(LEEWAY_SECS) < time)
    }
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

/// Some providers write it as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Flag {
    Bool(bool),
    Text(String),
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
    let said = read_signed(token, keys)?;
    let read = serde_json::from_value(Value::Object(said.clone()));
    let claims: Claims = read.map_err(|_| TokenProblem::Wrong(MALFORMED))?;
    check(&claims, expected).map_err(TokenProblem::Wrong)?;
    let email_verified = match &claims.email_verified {
        Some(Flag::Bool(is_verified)) => *is_verified,
        Some(Flag::Text(text)) => text == "true",
        None => false,
    };
    let email = claims.email.and_then(|email| Email::parse(email).ok());
    let sid = said.get("sid").and_then(Value::as_str).filter(|sid| !sid.is_empty());
    let sid = sid.map(String::from);
    let auth_time = said.get("auth_time").filter(|said| !said.is_null());
    let auth_time = auth_time.map(|said| proved_at(said, claims.iat, expected.now));
    let Claims { sub: subject, name, .. } = claims;
    Ok(IdClaims { subject, email, email_verified, name, sid, auth_time, said })
}

/// When the person proved who they are: the earlier of what the provider's clock and ours make of it, since
/// one may be ahead, and some write an `iat` of minutes before. Neither later than now nor before 1970,
/// whatever it says; what cannot be read, and what is of the future, as milliseconds are, proves nothing.
fn proved_at(auth_time: &Value, iat: f64, now: Time) -> Time {
    let latest = (now.secs() + LEEWAY_SECS) as f64;
    let now = now.secs() as f64;
    let said = seconds(auth_time).filter(|at| *at <= latest);
    let age = said.map_or(now, |at| (iat - at).max(now - at).clamp(0.0, now));
    Time::from_millis((now - age) as i64 * 1000)
}

/// A number of seconds. Some providers write it as a string.
fn seconds(said: &Value) -> Option<f64> {
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    match said {
        Value::String(text) => Some(&**text).filter(is_number)?.parse().ok(),
        said => said.as_f64(),
    }
}

fn check(claims: &Claims, expected: &Expected) -> Result<(), &'static str> {
    if claims.iss != expected.issuer {
        return Err("it is of another issuer");
    }
    let presented_by_us = match &claims.azp {
        Some(azp) => azp == expected.client_id,
        None => !claims.aud.is_several(),
    };
    if !claims.aud.has(expected.client_id) || !presented_by_us {
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
    if !is_subject(&claims.sub) {
        return Err("its subject is empty or too long");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
