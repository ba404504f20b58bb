//! The keys with which a provider signs (RFC 7517): RS256, ES256 and EdDSA. Of a key follows its algorithm,
//! never of a token: so none is verified with `none`, or with a public key as the secret of HS256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// A provider has a few keys; more than 64 are not read.
const MAX_KEYS: usize = 64;

/// A smaller modulus of RSA is not secure.
const MIN_RSA_BYTES: usize = 256;

/// The keys of a provider that can be used.
pub struct KeySet {
    keys: Vec<SigningKey>,
}

/// A key with which tokens are verified.
pub(super) struct SigningKey {
    kid: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads the keys of a document; others than those that can be used are left out.
    ///
    /// # Errors
    /// A phrase that says why it cannot be used.
    pub fn parse(body: &[u8]) -> Result<Self, &'static str> {
        let document: Document =
            serde_json::from_slice(body).map_err(|_| "its keys cannot be read")?;
        let keys = document.keys.into_iter().take(MAX_KEYS);
        let keys = keys.filter_map(|key| signing_key(serde_json::from_value(key).ok()?)).collect();
        Ok(KeySet { keys })
    }

    /// Whether a token that names this key, or none, can be verified.
    pub fn has(&self, kid: Option<&str>) -> bool {
        self.keys.iter().any(|key| kid.is_none() || key.kid.as_deref() == kid)
    }

    /// The key of a token. One that names none is of the only key with its algorithm.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&SigningKey> {
        let mut fitting = self.keys.iter().filter(|key| {
            key.algorithm == algorithm && (kid.is_none() || key.kid.as_deref() == kid)
        });
        let first = fitting.next()?;
        fitting.next().is_none().then_some(first)
    }
}

fn signing_key(jwk: Jwk) -> Option<SigningKey> {
    if jwk.used_for.is_some_and(|used_for| used_for != "sig") {
        return None;
    }
    let (algorithm, name, key) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", None) => {
            let (n, e) = (bytes(jwk.n.as_deref()?)?, bytes(jwk.e.as_deref()?)?);
            let significant = n.iter().skip_while(|byte| **byte == 0).count();
            if significant < MIN_RSA_BYTES {
                return None;
            }
            (Algorithm::RS256, "RS256", DecodingKey::from_rsa_raw_components(&n, &e))
        }
        ("EC", Some("P-256")) => {
            let key = DecodingKey::from_ec_components(jwk.x.as_deref()?, jwk.y.as_deref()?);
            (Algorithm::ES256, "ES256", key.ok()?)
        }
        ("OKP", Some("Ed25519")) => {
            let key = DecodingKey::from_ed_components(jwk.x.as_deref()?);
            (Algorithm::EdDSA, "EdDSA", key.ok()?)
        }
        _ => return None,
    };
    let is_for_it = |alg: &str| alg == name || (name == "EdDSA" && alg == "Ed25519");
    let fits = jwk.alg.as_deref().is_none_or(is_for_it);
    fits.then_some(SigningKey { kid: jwk.kid, algorithm, key })
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
