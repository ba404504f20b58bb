//! The check of a logout token (OpenID Connect Back-Channel Logout 1.0, 2.6).

use serde::Deserialize;
use serde_json::{Map, Value};

use super::jwks::KeySet;
use super::signed_token::{
    LEEWAY_SECS, MALFORMED, OneOrMany, TokenProblem, is_subject, read_signed,
};
use crate::base::Time;

/// What `events` must have.
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// A token is of use for five minutes after it was made: as long its id is remembered, and longer.
pub(super) const MAX_AGE_SECS: i64 = 300;

/// The longest id of a session or of a token.
const MAX_ID_BYTES: usize = 1024;

/// The claims that it must have.
const REQUIRED: [&str; 6] = ["iss", "aud", "iat", "exp", "jti", "events"];

/// Who has signed out at a provider.
#[derive(Debug, PartialEq, Eq)]
pub struct LogoutClaims {
    /// Identifies the token, which is of use once.
    pub jti: String,
    /// Whose sessions end; at least one of both is there.
    pub subject: Option<String>,
    /// The session at the provider, if not all of the person's have ended.
    pub sid: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: OneOrMany,
    iat: f64,
    exp: f64,
    jti: String,
    events: Map<String, Value>,
    sub: Option<String>,
    sid: Option<String>,
}

/// Returns whom a logout token is about, if it is signed with one of these keys, and of now.
///
/// # Errors
/// If anything about it is wrong.
pub fn check_logout_token(
    token: &str,
    keys: &KeySet,
    (issuer, client_id): (&str, &str),
    now: Time,
) -> Result<LogoutClaims, TokenProblem> {
    let said = read_signed(token, keys)?;
    // An ID token has one, and must not be taken for it.
    if said.contains_key("nonce") {
        return Err(TokenProblem::Wrong("it has a nonce, which an ID token has"));
    }
    let lacks = |claim: &&str| said.get(*claim).is_none_or(Value::is_null);
    if REQUIRED.iter().any(lacks) {
        return Err(TokenProblem::Wrong("it lacks a claim that it must have"));
    }
    let claims: Claims =
        serde_json::from_value(Value::Object(said)).map_err(|_| TokenProblem::Wrong(MALFORMED))?;
    check(&claims, (issuer, client_id), now.secs()).map_err(TokenProblem::Wrong)?;
    Ok(LogoutClaims { jti: claims.jti, subject: claims.sub, sid: claims.sid })
}

fn check(claims: &Claims, of: (&str, &str), now: i64) -> Result<(), &'static str> {
    if claims.iss != of.0 {
        return Err("it is of another issuer");
    }
    if !claims.aud.has(of.1) {
        return Err("it is for another client");
    }
    if !claims.events.get(EVENT).is_some_and(Value::is_object) {
        return Err("it does not say that somebody has signed out");
    }
    let is_past =
        claims.exp <= (now - LEEWAY_SECS) as f64 || claims.iat <= (now - MAX_AGE_SECS) as f64;
    if is_past || claims.iat > (now + LEEWAY_SECS) as f64 {
        return Err("it has expired, or is of the future; compare the clocks");
    }
    let is_id = |id: &str| !id.is_empty() && id.len() <= MAX_ID_BYTES;
    if !is_id(&claims.jti) || claims.sid.as_deref().is_some_and(|sid| !is_id(sid)) {
        return Err("its jti or its sid is empty or too long");
    }
    if claims.sub.as_deref().is_some_and(|subject| !is_subject(subject)) {
        return Err("its subject is empty or too long");
    }
    if claims.sub.is_none() && claims.sid.is_none() {
        return Err("it names neither a subject nor a session");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::oidc::testing::{Key, token, unsigned};
    use serde_json::json;

    const NOW: i64 = 1_800_000_000;

    fn claims(change: &Value) -> Value {
        let mut claims = json!({"iss": "https://id.test", "aud": "roadstead", "iat": NOW,
            "exp": NOW + 120, "jti": "j", "sub": "s-1", "sid": "d-1", "events": {EVENT: {}}});
        claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        claims
    }

    fn checked(token: &str, key: &Key) -> Result<LogoutClaims, TokenProblem> {
        let keys = json!({"keys": [key.jwk("k")]}).to_string();
        let keys = KeySet::parse(keys.as_bytes()).unwrap();
        let now = Time::from_millis(NOW * 1000);
        check_logout_token(token, &keys, ("https://id.test", "roadstead"), now)
    }

    #[test]
    fn a_logout_token_says_who_has_signed_out() {
        let key = Key::es();
        let said = |change: Value| {
            let header = json!({"alg": "ES256", "kid": "k", "typ": "logout+jwt"});
            checked(&token(&key, header, &claims(&change)), &key)
        };
        let whole = said(json!({})).unwrap();
        assert_eq!((whole.jti.as_str(), whole.subject.as_deref()), ("j", Some("s-1")));
        assert_eq!(whole.sid.as_deref(), Some("d-1"));
        assert_eq!(said(json!({"sub": null})).unwrap().subject, None);
        assert_eq!(said(json!({"sid": null, "aud": ["a", "roadstead"]})).unwrap().sid, None);
        for change in [
            json!({"iss": "https://evil.test"}),
            json!({"aud": "another"}),
            json!({"aud": []}),
            json!({"exp": NOW - 61}),
            json!({"exp": null}),
            json!({"iat": NOW + 61}),
            json!({"iat": NOW - 300}),
            json!({"iat": null}),
            json!({"jti": null}),
            json!({"jti": ""}),
            json!({"jti": "j".repeat(1025)}),
            json!({"events": null}),
            json!({"events": {}}),
            json!({"events": {EVENT: true}}),
            json!({"events": [EVENT]}),
            json!({"nonce": "n"}),
            json!({"nonce": null}),
            json!({"sub": null, "sid": null}),
            json!({"sub": ""}),
            json!({"sid": ""}),
        ] {
            let refused = said(change.clone());
            assert!(matches!(refused, Err(TokenProblem::Wrong(_))), "{change}: {refused:?}");
        }
        for claim in REQUIRED {
            let lacks = Err(TokenProblem::Wrong("it lacks a claim that it must have"));
            assert_eq!(said(json!({claim: null})), lacks, "{claim}");
        }
    }

    #[test]
    fn a_logout_token_is_signed_by_the_provider() {
        let (key, other) = (Key::es(), Key::es());
        let header = || json!({"alg": "ES256", "kid": "k"});
        let forged = token(&other, header(), &claims(&json!({})));
        assert!(matches!(checked(&forged, &key), Err(TokenProblem::Wrong(_))));
        let plain = format!("{}.", unsigned(&json!({"alg": "none"}), &claims(&json!({}))));
        assert!(matches!(checked(&plain, &key), Err(TokenProblem::Wrong(_))));
        let unknown = token(&key, json!({"alg": "ES256", "kid": "x"}), &claims(&json!({})));
        assert_eq!(checked(&unknown, &key), Err(TokenProblem::UnknownKey));
    }
}
