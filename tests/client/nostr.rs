//! An outside agent: a Nostr key that signs requests (NIP-98).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k256::schnorr::SigningKey;
use serde_json::{Value, json};

/// A key that signs requests.
#[derive(Clone)]
pub struct NostrKey(SigningKey);

/// What an event says of a request.
#[derive(Clone, Copy)]
pub struct Signed<'a> {
    pub url: &'a str,
    pub method: &'a str,
    pub body: Option<&'a [u8]>,
    /// Seconds since 1970.
    pub at: i64,
}

impl NostrKey {
    /// A key that no other test has.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self::numbered(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The key with this number.
    pub fn numbered(number: u64) -> Self {
        let mut bytes = [3; 32];
        bytes[24..].copy_from_slice(&number.to_be_bytes());
        NostrKey(SigningKey::from_slice(&bytes).unwrap())
    }

    /// The secret key, in hexadecimal.
    pub fn secret(&self) -> String {
        hex(&self.0.to_bytes())
    }

    /// The public key, in hexadecimal.
    pub fn pubkey(&self) -> String {
        hex(&self.0.verifying_key().to_bytes())
    }

    /// The value of `Authorization` for a request.
    pub fn authorization(&self, signed: Signed) -> String {
        let Signed { url, method, body, at } = signed;
        let mut tags = vec![json!(["u", url]), json!(["method", method])];
        tags.extend(body.map(|body| json!(["payload", sha256(body)])));
        self.event(at, 27235, json!(tags))
    }

    /// The value of `Authorization` with an event of these fields.
    pub fn event(&self, at: i64, kind: u32, tags: Value) -> String {
        // So that two events of one second differ.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let content = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let id =
            sha256_bytes(json!([0, self.pubkey(), at, kind, tags, content]).to_string().as_bytes());
        let signature = self.0.sign_raw(&id, &[0; 32]).unwrap();
        let event = json!({
            "id": hex(&id), "pubkey": self.pubkey(), "created_at": at, "kind": kind,
            "tags": tags, "content": content, "sig": hex(&signature.to_bytes()),
        });
        format!("Nostr {}", STANDARD.encode(event.to_string()))
    }
}

/// The time, in seconds since 1970.
pub fn now_secs() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// An address that no request had before, for `X-Forwarded-For`: signed requests are counted by
/// address.
pub fn fresh_address() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("198.{}.{}.{}", 18 + (n >> 16 & 1), n >> 8 & 255, n & 255)
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&sha256_bytes(bytes))
}

fn sha256_bytes(bytes: &[u8]) -> Vec<u8> {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
