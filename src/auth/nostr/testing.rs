//! Signing of requests, for tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k256::schnorr::SigningKey;
use serde_json::{Value, json};

use super::Signer;
use super::event::Event;
use crate::base::{PublicKey, Time};

/// A key that signs.
pub struct NostrKey(SigningKey);

impl NostrKey {
    /// The key with this number.
    pub fn new(number: u64) -> Self {
        let mut bytes = [7; 32];
        bytes[24..].copy_from_slice(&number.to_be_bytes());
        NostrKey(SigningKey::from_slice(&bytes).unwrap())
    }

    /// The public key.
    pub fn pubkey(&self) -> PublicKey {
        PublicKey::parse(hex(&self.0.verifying_key().to_bytes())).unwrap()
    }

    /// A signed event with these fields.
    pub fn sign(&self, created_at: i64, kind: u64, tags: Value) -> Value {
        let mut event = json!({
            "id": "0".repeat(64), "pubkey": self.pubkey(), "created_at": created_at, "kind": kind,
            "tags": tags, "content": "", "sig": "0".repeat(128),
        });
        let id = Event::parse(event.to_string().as_bytes()).unwrap().content_id();
        let signature = self.0.sign_raw(&id, &[0; 32]).unwrap();
        event["id"] = hex(&id).into();
        event["sig"] = hex(&signature.to_bytes()).into();
        event
    }
}

/// The token of an event.
pub fn token(event: &Value) -> String {
    STANDARD.encode(event.to_string())
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A signer whose event nobody has to check.
pub fn signer(key: &NostrKey) -> Signer {
    Signer { pubkey: key.pubkey(), event: [0; 32], signed_at: Time::from_millis(0), payload: None }
}
