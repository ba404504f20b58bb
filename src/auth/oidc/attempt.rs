//! What a browser carries between the beginning and the end of a sign-in: a signed text. The secrets of the
//! attempt (`state`, `nonce`, the verifier of PKCE) are not in it: they are derived from it with the
//! installation's key.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::{Email, Keys, Time};

/// An attempt lasts ten minutes: for a provider that asks for a second factor.
pub const ATTEMPT_SECS: i64 = 600;

/// The longest text that is read: what fits into a cookie.
const MAX_BYTES: usize = 4000;

/// An attempt to sign in with a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignInAttempt {
    /// Random, of this attempt.
    id: String,
    /// The name of the provider.
    pub provider: String,
    /// Where the provider leads back to.
    pub redirect_uri: String,
    /// Whether the person wants to link an account of theirs, not to sign in.
    pub link: bool,
    /// Whether the provider must not let the person through who does not sign in again.
    #[serde(default)]
    pub again: bool,
    /// The path to go to then.
    pub return_to: String,
    expires_at_secs: i64,
}

impl SignInAttempt {
    /// An attempt with random bytes of its own, which begins now.
    pub fn new(random: [u8; 32], provider: &str, now: Time) -> Self {
        SignInAttempt {
            id: BASE64.encode(random),
            provider: provider.into(),
            redirect_uri: String::new(),
            link: false,
            again: false,
            return_to: String::new(),
            expires_at_secs: now.plus_secs(ATTEMPT_SECS).secs(),
        }
    }

    /// When it was begun.
    pub fn begun_at(&self) -> Time {
        self.expires_at().minus_secs(ATTEMPT_SECS)
    }

    /// When it is over.
    pub fn expires_at(&self) -> Time {
        Time::from_millis(self.expires_at_secs * 1000)
    }

    /// Its text.
    pub fn sign(&self, keys: &Keys) -> String {
        sign(keys, ATTEMPT, self)
    }

    /// Reads the text of one that lasts still.
    pub fn read(text: &str, keys: &Keys, now: Time) -> Option<Self> {
        let attempt: Self = read(keys, ATTEMPT, text)?;
        (now.secs() < attempt.expires_at_secs).then_some(attempt)
    }

    /// Identifies it.
    pub fn hash(&self) -> [u8; 32] {
        *blake3::hash(self.id.as_bytes()).as_bytes()
    }

    /// The `state`, by which an answer of the provider is of this browser.
    pub fn state(&self, keys: &Keys) -> String {
        BASE64.encode(keys.hash("roadstead 2026 OpenID Connect state", self.id.as_bytes()))
    }

    /// The `nonce`, by which a token is of this attempt.
    pub fn nonce(&self, keys: &Keys) -> String {
        BASE64.encode(keys.hash("roadstead 2026 OpenID Connect nonce", self.id.as_bytes()))
    }

    /// The verifier of PKCE, by which a code is of no use to others (RFC 7636).
    pub fn verifier(&self, keys: &Keys) -> String {
        BASE64.encode(keys.hash("roadstead 2026 OpenID Connect verifier", self.id.as_bytes()))
    }

    /// The challenge of PKCE, as S256.
    pub fn challenge(&self, keys: &Keys) -> String {
        BASE64.encode(digest(&SHA256, self.verifier(keys).as_bytes()))
    }
}

/// What a provider has said of a person who is to confirm that an account here is theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Random, of this confirmation.
    id: String,
    pub provider: String,
    pub issuer: String,
    pub subject: String,
    pub email: Option<Email>,
    expires_at_secs: i64,
}

impl Confirmation {
    /// One with random bytes of its own that lasts as long as an attempt.
    pub fn new(random: [u8; 32], provider: String, issuer: String, now: Time) -> Self {
        let (id, subject) = (BASE64.encode(random), String::new());
        let expires_at_secs = now.plus_secs(ATTEMPT_SECS).secs();
        Confirmation { id, provider, issuer, subject, email: None, expires_at_secs }
    }

    /// Identifies it.
    pub fn hash(&self) -> [u8; 32] {
        *blake3::hash(self.id.as_bytes()).as_bytes()
    }

    /// Its text.
    pub fn sign(&self, keys: &Keys) -> String {
        sign(keys, CONFIRMATION, self)
    }

    /// Reads the text of one that lasts still.
    pub fn read(text: &str, keys: &Keys, now: Time) -> Option<Self> {
        let confirmation: Self = read(keys, CONFIRMATION, text)?;
        (now.secs() < confirmation.expires_at_secs).then_some(confirmation)
    }
}

const ATTEMPT: &str = "roadstead 2026 OpenID Connect attempt";
const CONFIRMATION: &str = "roadstead 2026 OpenID Connect confirmation";

fn sign(keys: &Keys, purpose: &'static str, content: &impl Serialize) -> String {
    let json = serde_json::to_vec(content).expect("it has strings and numbers");
    let proof = keys.hash(purpose, &json);
    format!("{}.{}", BASE64.encode(json), BASE64.encode(proof))
}

fn read<T: DeserializeOwned>(keys: &Keys, purpose: &'static str, text: &str) -> Option<T> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let (json, proof) = text.split_once('.')?;
    let (json, proof) = (BASE64.decode(json).ok()?, BASE64.decode(proof).ok()?);
    let proof = <[u8; 32]>::try_from(proof).ok()?;
    // Hashes are compared in constant time.
    if blake3::Hash::from(proof) != keys.hash(purpose, &json) {
        return None;
    }
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_of_its_installation_and_lasts_ten_minutes() {
        let (keys, now) = (Keys::new([1; 32]), Time::from_millis(1_800_000_000_000));
        let mut attempt = SignInAttempt::new([7; 32], "kc", now);
        attempt.return_to = "/o/acme".into();
        let text = attempt.sign(&keys);
        let at = |secs| SignInAttempt::read(&text, &keys, now.plus_secs(secs));
        assert_eq!((at(599), at(600)), (Some(attempt.clone()), None));
        assert_eq!(SignInAttempt::read(&text, &Keys::new([2; 32]), now), None);
        // A confirmation is none, nor is one of which a byte was changed.
        assert_eq!(Confirmation::read(&text, &keys, now), None);
        for at in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
            let wrong = String::from_utf8(wrong).unwrap();
            let read = SignInAttempt::read(&wrong, &keys, now);
            assert!(wrong == text || read.is_none_or(|read| read == attempt), "at {at}");
        }
    }

    #[test]
    fn the_secrets_of_an_attempt_differ_and_are_not_in_its_text() {
        let (keys, now) = (Keys::new([1; 32]), Time::from_millis(0));
        let attempt = SignInAttempt::new([7; 32], "kc", now);
        let secrets = [attempt.state(&keys), attempt.nonce(&keys), attempt.verifier(&keys)];
        let text = attempt.sign(&keys);
        let json = BASE64.decode(text.split_once('.').unwrap().0).unwrap();
        for secret in &secrets {
            assert_eq!(secret.len(), 43);
            assert!(!String::from_utf8_lossy(&json).contains(secret.as_str()));
        }
        assert!(secrets[0] != secrets[1] && secrets[1] != secrets[2]);
        assert_ne!(SignInAttempt::new([8; 32], "kc", now).state(&keys), secrets[0]);
    }
}
