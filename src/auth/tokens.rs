//! API keys and session tokens: their formats, issuing and verification
//! (reference: identity-and-rights, "API keys", "Sessions").

use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use super::records::{KeyHash, User};
use super::session::Session;
use crate::base::{Error, Id, Keys, MasterKey, Result, Time};

// ── API keys ─────────────────────────────────────────────────────────────────

/// The prefix of every API key, which distinguishes it from a session token
/// (reference: identity-and-rights, "API keys").
pub const KEY_PREFIX: &str = "rsk_";
const SECRET_DIGITS: usize = 43; // 62^43 > 2^256
const SUM_DIGITS: usize = 6; // 62^6 > 2^32
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Formats an API key of 256 random bits: `rsk_`, 43 digits, 6 digits of checksum.
pub fn key_text(secret: [u8; 32]) -> String {
    let mut text = String::from(KEY_PREFIX);
    text.push_str(&base62(&secret, SECRET_DIGITS));
    let sum = crc32fast::hash(text.as_bytes());
    text.push_str(&base62(&sum.to_be_bytes(), SUM_DIGITS));
    text
}

/// Returns the hash of an API key; `None` if the format or the checksum is wrong, so that a typing
/// error costs no lookup.
pub fn key_hash(text: &str) -> Option<KeyHash> {
    let (body, sum) = text.split_at_checked(KEY_PREFIX.len() + SECRET_DIGITS)?;
    let expected = base62(&crc32fast::hash(body.as_bytes()).to_be_bytes(), SUM_DIGITS);
    (body.starts_with(KEY_PREFIX) && sum == expected)
        .then(|| *blake3::hash(text.as_bytes()).as_bytes())
}

/// A big-endian number in base 62, most significant digit first.
fn base62(number: &[u8], digits: usize) -> String {
    let mut number = number.to_vec();
    let mut text = vec![b'0'; digits];
    for place in text.iter_mut().rev() {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            rest = value % 62;
        }
        *place = DIGITS[rest as usize];
    }
    String::from_utf8(text).expect("digits are ASCII")
}

// ── Session tokens ───────────────────────────────────────────────────────────

/// A session lasts 12 hours.
pub const SESSION_SECS: i64 = 12 * 3600;
const AUDIENCE: &str = "roadstead";

#[derive(Serialize, Deserialize)]
struct Claims {
    sub: String,
    sid: String,
    iss: String,
    aud: String,
    iat: i64,
    exp: i64,
}

/// Issues and verifies session tokens: JWTs signed with EdDSA by this installation.
///
/// The key that they are signed with is derived from the installation's master key. During a rotation
/// of that, tokens of both are accepted; afterwards those of the new one alone.
pub struct Tokens {
    keys: Keys,
    issuer: String,
    validation: Validation,
    signers: RwLock<Vec<Arc<Signer>>>,
}

/// The signing key derived from a master key.
struct Signer {
    master: MasterKey,
    signing: EncodingKey,
    verifying: DecodingKey,
}

impl Signer {
    fn new(master: MasterKey) -> Self {
        /// The prefix of the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410).
        const PKCS8: [u8; 16] = [
            0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22,
            0x04, 0x20,
        ];
        let seed = master.derive("roadstead 2026 session tokens");
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed has 32 bytes");
        Signer {
            master,
            signing: EncodingKey::from_ed_der(&[PKCS8.as_slice(), &seed].concat()),
            verifying: DecodingKey::from_ed_der(pair.public_key().as_ref()),
        }
    }
}

/// Returns the id of the installation with these keys. It stays the same when the key is replaced.
pub fn installation_id(keys: &Keys) -> String {
    uuid_of(&keys.hash("roadstead 2026 installation id", b""))
}

impl Tokens {
    /// Creates the tokens of an installation.
    pub fn new(keys: &Keys) -> Self {
        let issuer = installation_id(keys);
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[&issuer]);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        // Expiry is checked against the store's clock, like all other times.
        validation.validate_exp = false;
        Tokens { keys: keys.clone(), issuer, validation, signers: RwLock::default() }
    }

    /// Returns the signer of a master key. Deriving one takes longer than verifying a token, so that
    /// of the current and of the previous key are kept.
    fn signer(&self, master: &MasterKey) -> Arc<Signer> {
        /// Signers of two keys are in use.
        const KEPT: usize = 2;
        let known = self.signers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(signer) = known.iter().find(|signer| signer.master == *master) {
            return signer.clone();
        }
        drop(known);
        let signer = Arc::new(Signer::new(master.clone()));
        let mut known = self.signers.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(0, signer.clone());
        known.truncate(KEPT);
        signer
    }

    /// The installation's id, which does not reveal its address.
    pub fn installation(&self) -> &str {
        &self.issuer
    }

    /// The generation of the keys that tokens are verified with ([`Keys::generation`]).
    pub fn generation(&self) -> u64 {
        self.keys.generation()
    }

    /// Issues the token of a session.
    pub fn issue(&self, session: &Session) -> Result<String> {
        let claims = Claims {
            sub: session.user.to_string(),
            sid: session.id.to_string(),
            iss: self.issuer.clone(),
            aud: AUDIENCE.into(),
            iat: session.created_at.secs(),
            exp: session.expires_at.secs(),
        };
        let signer = self.signer(&self.keys.current());
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, &signer.signing)
            .map_err(|e| Error::internal(format!("a token cannot be signed: {e}")))
    }

    /// Verifies a token and returns its session and user, if it is from this installation and has
    /// not expired. The caller checks that the session still exists.
    pub fn read(&self, token: &str, now: Time) -> Option<(Id<Session>, Id<User>)> {
        let claims = self.verify(token, &self.keys.current()).or_else(|| {
            let previous = self.keys.previous()?;
            self.verify(token, &previous)
        })?;
        (now.secs() < claims.exp).then(|| (Id::parse(&claims.sid), Id::parse(&claims.sub)))
    }

    fn verify(&self, token: &str, master: &MasterKey) -> Option<Claims> {
        let signer = self.signer(master);
        Some(jsonwebtoken::decode(token, &signer.verifying, &self.validation).ok()?.claims)
    }
}

fn uuid_of(bytes: &[u8; 32]) -> String {
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    uuid::Builder::from_custom_bytes(half).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_form_and_its_checksum() {
        let text = key_text([0xAB; 32]);
        assert_eq!(text.len(), 4 + 43 + 6);
        assert!(key_hash(&text).is_some());
        let zero = key_text([0; 32]);
        assert!(zero.starts_with(&format!("rsk_{}", "0".repeat(43))));
        for i in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[i] = if wrong[i] == b'x' { b'y' } else { b'x' };
            assert!(key_hash(std::str::from_utf8(&wrong).unwrap()).is_none(), "at {i}");
        }
        assert!(key_hash("").is_none());
        assert!(key_hash(&format!("{text}0")).is_none());
    }

    #[test]
    fn the_largest_secret_still_fits_its_digits() {
        // 2^256 - 1 in base 62, computed elsewhere.
        assert_eq!(base62(&[0xFF; 4], 6), "4gfFC3");
    }

    #[test]
    fn a_token_is_accepted_by_its_installation_until_it_expires() {
        let tokens = Tokens::new(&Keys::new([1; 32]));
        let now = Time::from_millis(1_800_000_000_000);
        let session = Session {
            id: Id::parse("01890a5d-ac96-774b-bcce-b302099a8057"),
            user: Id::parse("01890a5d-ac96-774b-bcce-b302099a8058"),
            generation: 0,
            created_at: now,
            expires_at: now.plus_secs(SESSION_SECS),
        };
        let token = tokens.issue(&session).unwrap();
        assert_eq!(tokens.read(&token, now), Some((session.id, session.user)));
        assert_eq!(tokens.read(&token, now.plus_secs(SESSION_SECS)), None);
        assert_eq!(Tokens::new(&Keys::new([2; 32])).read(&token, now), None);
        assert_eq!(tokens.read(&token[..token.len() - 2], now), None);
    }
}
