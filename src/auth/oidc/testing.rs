//! A provider of the tests: keys, and what is signed with them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

/// A key of a provider.
pub enum Key {
    Rs(RsaKeyPair),
    Es(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Key {
    /// A new key of ES256.
    pub fn es() -> Self {
        Key::Es(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    /// Its algorithm.
    pub fn alg(&self) -> &'static str {
        match self {
            Key::Rs(_) => "RS256",
            Key::Es(_) => "ES256",
            Key::Ed(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Key::Rs(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let random = SystemRandom::new();
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Key::Es(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Key::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// Its public part under an id.
    pub fn jwk(&self, kid: &str) -> Value {
        let b64 = |bytes: &[u8]| BASE64.encode(bytes);
        let mut jwk = match self {
            Key::Rs(pair) => {
                let (n, e) = rsa_parts(pair.public_key().as_ref());
                json!({"kty": "RSA", "n": b64(n), "e": b64(e)})
            }
            Key::Es(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..])})
            }
            Key::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key().as_ref())})
            }
        };
        jwk["kid"] = json!(kid);
        jwk
    }
}

/// Header and claims of a token.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// A token.
pub fn token(key: &Key, header: Value, claims: &Value) -> String {
    let message = unsigned(&header, claims);
    format!("{message}.{}", BASE64.encode(key.sign(message.as_bytes())))
}

/// Modulus and exponent of a key of 2,048 bits, as RFC 8017 encodes it.
fn rsa_parts(der: &[u8]) -> (&[u8], &[u8]) {
    // Heads of a sequence and of a number, which begins with a zero; the head of another number.
    (&der[9..265], &der[267..])
}
