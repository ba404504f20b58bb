//! Nostr events (NIP-01): their id and their signature (BIP-340).

use aws_lc_rs::digest::{SHA256, digest};
use k256::schnorr::{Signature, VerifyingKey};
use serde::Deserialize;
use serde_json::json;

use crate::base::{Error, Result, from_hex};

/// The id of an event: the SHA-256 of its content.
pub type EventId = [u8; 32];

/// An event as it was sent.
#[derive(Debug)]
pub struct Event {
    pub id: EventId,
    /// 64 lower-case hexadecimal digits.
    pub pubkey: String,
    /// In seconds since 1970.
    pub created_at: i64,
    pub kind: u64,
    pub tags: Vec<Vec<String>>,
    pub content: String,
    pub signature: [u8; 64],
}

/// The JSON of an event. A field that is there twice is refused: another reader might see the other
/// one.
#[derive(Deserialize)]
struct Sent {
    id: String,
    pubkey: String,
    created_at: i64,
    kind: u64,
    tags: Vec<Vec<String>>,
    content: String,
    sig: String,
}

impl Event {
    /// Reads an event; None if it is not one.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let Sent { id, pubkey, created_at, kind, tags, content, sig } =
            serde_json::from_slice(json).ok()?;
        from_hex::<32>(&pubkey)?;
        let (id, signature) = (from_hex(&id)?, from_hex(&sig)?);
        Some(Event { id, pubkey, created_at, kind, tags, content, signature })
    }

    /// Returns the value of a tag; None if there is none.
    ///
    /// # Errors
    /// 401 if there are two: another reader might take the other one.
    pub fn tag(&self, name: &str) -> Result<Option<&str>> {
        let mut values = self.tags.iter().filter(|tag| tag.first().is_some_and(|tag| tag == name));
        let first = values.next();
        if values.next().is_some() {
            return Err(Error::unauthenticated("the event has a tag twice that it may have once"));
        }
        Ok(first.and_then(|tag| tag.get(1)).map(String::as_str))
    }

    /// Returns the id that its content has.
    pub fn content_id(&self) -> EventId {
        let Event { pubkey, created_at, kind, tags, content, .. } = self;
        let signed = json!([0, pubkey, created_at, kind, tags, content]).to_string();
        digest(&SHA256, signed.as_bytes()).as_ref().try_into().expect("a SHA-256 has 32 bytes")
    }

    /// Whether its id is the one of its content.
    pub fn has_own_id(&self) -> bool {
        self.id == self.content_id()
    }

    /// Whether the signature is one of its id by its key.
    pub fn is_signed(&self) -> bool {
        from_hex(&self.pubkey).is_some_and(|key| is_signature(&key, &self.id, &self.signature))
    }
}

/// Whether this is a signature of `message` by `key` (BIP-340).
pub fn is_signature(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    let Ok(key) = VerifyingKey::from_slice(key) else { return false };
    let Ok(signature) = Signature::from_bytes(signature) else { return false };
    key.verify_raw(message, &signature).is_ok()
}
