//! Tokens of a hostile provider, and of others who would be one.

use aws_lc_rs::hmac;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{Ed25519KeyPair, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use super::*;
use crate::auth::oidc::signed_token::MAX_TOKEN_BYTES;
use crate::auth::oidc::testing::{Key, token, unsigned};

const NOW: i64 = 1_800_000_000;

fn claims() -> Value {
    json!({"iss": "https://id.test", "sub": "s-1", "aud": "roadstead", "nonce": "n",
        "iat": NOW, "exp": NOW + 300, "email": "Ada@Acme.test", "email_verified": true})
}

fn set(keys: &[Value]) -> KeySet {
    KeySet::parse(json!({"keys": keys}).to_string().as_bytes()).unwrap()
}

fn checked(token: &str, keys: &KeySet) -> Result<IdClaims, TokenProblem> {
    let now = Time::from_millis(NOW * 1000);
    let (issuer, client_id, nonce) = ("https://id.test", "roadstead", "n");
    check_id_token(token, keys, &Expected { issuer, client_id, nonce, now })
}

#[test]
fn tokens_of_the_three_algorithms_are_accepted() {
    let seed = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let keys = [Key::Rs(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()), Key::es(), Key::Ed(seed)];
    for key in &keys {
        let known = set(&[Key::es().jwk("other"), key.jwk("k")]);
        let token = token(key, json!({"alg": key.alg(), "kid": "k"}), &claims());
        let said = checked(&token, &known).unwrap();
        assert_eq!(said.subject, "s-1");
        assert_eq!((said.email.unwrap().as_str(), said.email_verified), ("ada@acme.test", true));
    }
}

#[test]
fn a_token_that_is_not_of_this_sign_in_is_refused() {
    let key = Key::es();
    let known = set(&[key.jwk("k")]);
    let changed = |change: Value| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        checked(&token(&key, json!({"alg": "ES256", "kid": "k"}), &claims), &known)
    };
    assert!(changed(json!({})).is_ok());
    for change in [
        json!({"iss": "https://id.test/"}),
        json!({"iss": "https://evil.test"}),
        json!({"aud": "another"}),
        json!({"aud": []}),
        json!({"aud": ["roadstead", "another"]}),
        json!({"aud": ["roadstead", "another"], "azp": "another"}),
        json!({"azp": "another"}),
        json!({"nonce": "of an earlier sign-in"}),
        json!({"nonce": null}),
        json!({"exp": NOW - 61}),
        json!({"exp": null}),
        json!({"exp": "tomorrow"}),
        json!({"iat": NOW + 61}),
        json!({"nbf": NOW + 61}),
        json!({"sub": ""}),
        json!({"sub": "s".repeat(256)}),
        json!({"sub": null}),
    ] {
        let refused = changed(change.clone());
        assert!(matches!(refused, Err(TokenProblem::Wrong(_))), "{change}: {refused:?}");
    }
    for change in [
        json!({"aud": ["roadstead"]}),
        json!({"aud": ["roadstead", "another"], "azp": "roadstead"}),
        json!({"exp": NOW - 59, "iat": NOW + 59}),
        json!({"exp": (NOW + 1) as f64 + 0.5}),
    ] {
        assert!(changed(change.clone()).is_ok(), "{change}");
    }
}

#[test]
fn an_address_is_verified_only_if_the_provider_says_so() {
    let key = Key::es();
    let known = set(&[key.jwk("k")]);
    for (flag, is_verified) in [
        (json!(true), true),
        (json!("true"), true),
        (json!(false), false),
        (json!("yes"), false),
        (Value::Null, false),
    ] {
        let mut claims = claims();
        claims["email_verified"] = flag;
        let token = token(&key, json!({"alg": "ES256", "kid": "k"}), &claims);
        assert_eq!(checked(&token, &known).unwrap().email_verified, is_verified);
    }
}

#[test]
fn a_signature_of_nobody_of_another_or_of_another_algorithm_is_refused() {
    let (key, rsa) = (Key::es(), Key::Rs(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()));
    let known = set(&[key.jwk("k"), rsa.jwk("r")]);
    let good = token(&key, json!({"alg": "ES256", "kid": "k"}), &claims());
    assert!(checked(&good, &known).is_ok());
    // Without a signature.
    for alg in ["none", "None", "NONE", ""] {
        let message = unsigned(&json!({"alg": alg, "kid": "k"}), &claims());
        for token in [format!("{message}."), message] {
            assert!(checked(&token, &known).is_err(), "{alg}");
        }
    }
    // The public key as a secret that everybody knows.
    let public = rsa.jwk("r")["n"].as_str().unwrap().to_string();
    for secret in [public.clone().into_bytes(), BASE64.decode(public).unwrap()] {
        for kid in [json!("r"), json!("k"), Value::Null] {
            let message = unsigned(&json!({"alg": "HS256", "kid": kid}), &claims());
            let secret = hmac::Key::new(hmac::HMAC_SHA256, &secret);
            let tag = hmac::sign(&secret, message.as_bytes());
            let token = format!("{message}.{}", BASE64.encode(tag));
            assert!(matches!(
                checked(&token, &known),
                Err(TokenProblem::Wrong(_) | TokenProblem::UnknownKey)
            ));
        }
    }
    // Another key under the same id, a known key under another id, and an algorithm of another family.
    let other = token(&Key::es(), json!({"alg": "ES256", "kid": "k"}), &claims());
    assert!(matches!(checked(&other, &known), Err(TokenProblem::Wrong(_))));
    let unknown = token(&key, json!({"alg": "ES256", "kid": "new"}), &claims());
    assert_eq!(checked(&unknown, &known), Err(TokenProblem::UnknownKey));
    for header in [json!({"alg": "RS256", "kid": "k"}), json!({"alg": "PS256", "kid": "r"})] {
        assert!(matches!(
            checked(&token(&key, header, &claims()), &known),
            Err(TokenProblem::Wrong(_))
        ));
    }
    // A critical extension, a changed claim, too many parts, and too long a token.
    let critical = token(&key, json!({"alg": "ES256", "kid": "k", "crit": ["x"]}), &claims());
    let mut parts: Vec<String> = good.split('.').map(String::from).collect();
    parts[1] = BASE64.encode(json!({"iss": "https://id.test", "sub": "admin"}).to_string());
    let long = format!("{good}{}", "A".repeat(MAX_TOKEN_BYTES));
    for token in [critical, parts.join("."), format!("{good}.x"), String::new(), long] {
        assert!(matches!(checked(&token, &known), Err(TokenProblem::Wrong(_))));
    }
}

#[test]
fn without_a_key_id_the_only_key_of_the_algorithm_is_meant() {
    let (key, other) = (Key::es(), Key::es());
    let token = token(&key, json!({"alg": "ES256"}), &claims());
    assert!(checked(&token, &set(&[key.jwk("a")])).is_ok());
    assert!(checked(&token, &set(&[key.jwk("a"), other.jwk("b")])).is_err());
    assert_eq!(checked(&token, &set(&[])), Err(TokenProblem::UnknownKey));
}

#[test]
fn keys_for_encryption_of_other_algorithms_and_too_small_ones_are_left_out() {
    let key = Key::es();
    let with = |name: &str, value: &str| {
        let mut jwk = key.jwk("k");
        jwk[name] = json!(value);
        set(&[jwk]).has(Some("k"))
    };
    assert!(with("use", "sig") && with("alg", "ES256"));
    assert!(!with("use", "enc") && !with("alg", "ES384") && !with("crv", "P-384"));
    let small = json!({"kty": "RSA", "kid": "k", "n": BASE64.encode([255; 128]), "e": "AQAB"});
    let secret = json!({"kty": "oct", "kid": "k", "k": "c2VjcmV0"});
    assert!(!set(&[small, secret, json!(7)]).has(None));
    assert!(KeySet::parse(b"[]").is_err());
}
