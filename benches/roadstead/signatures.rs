//! Requests that agents outside sign: how many can be checked a second, beside the signature alone.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k256::schnorr::{Signature, SigningKey, VerifyingKey};
use roadstead::auth::nostr::{Claim, SignedTarget};
use roadstead::base::Time;
use serde_json::{Value, json};

use crate::client::Outcome;
use crate::rounds::{self, Side, TIME};
use crate::table::{Row, Target};

/// 2026-01-15T12:00:00Z.
const NOW: Time = Time::from_millis(1_768_478_400_000);
const TARGET: SignedTarget = SignedTarget {
    base: "https://roadstead.test",
    target: "/api/exchange/acme/crew/requests",
    method: "POST",
};

/// Checks between two looks at the clock.
const BATCH: usize = 64;

/// A key that signs the requests of an agent outside.
pub struct Signer(SigningKey);

impl Signer {
    /// The key with this number.
    pub fn new(number: u64) -> Self {
        let mut bytes = [5; 32];
        bytes[24..].copy_from_slice(&number.to_be_bytes());
        Signer(SigningKey::from_slice(&bytes).expect("it is below the order of the curve"))
    }

    /// An event that signs a request to `url`, made at `at_secs`; `nonce` makes it another one.
    pub fn event(&self, method: &str, url: &str, body: &str, at_secs: i64, nonce: usize) -> Value {
        let pubkey = hex(&self.0.verifying_key().to_bytes());
        let payload = hex(&sha256(body.as_bytes()));
        let tags = json!([["u", url], ["method", method], ["payload", payload]]);
        let content = nonce.to_string();
        let id = sha256(json!([0, pubkey, at_secs, 27235, tags, content]).to_string().as_bytes());
        let signature = self.0.sign_raw(&id, &[0; 32]).expect("it has 32 bytes");
        json!({
            "id": hex(&id), "pubkey": pubkey, "created_at": at_secs, "kind": 27235, "tags": tags,
            "content": content, "sig": hex(&signature.to_bytes()),
        })
    }
}

/// The token of an event, for `Authorization: Nostr`.
pub fn token(event: &Value) -> String {
    STANDARD.encode(event.to_string())
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Measures the whole check of a request against that of its signature.
pub fn rows() -> Vec<Row> {
    let signer = Signer::new(1);
    let url = format!("{}{}", TARGET.base, TARGET.target);
    let event = signer.event(TARGET.method, &url, "{}", NOW.secs(), 1);
    let text = token(&event);
    let key: VerifyingKey = *signer.0.verifying_key();
    let id = sha256(signed_text(&event).as_bytes());
    let signature = signer.0.sign_raw(&id, &[0; 32]).expect("it has 32 bytes");
    let mut ours = || {
        let mut check = || {
            let claim = Claim::read(&text, NOW, TARGET).expect("it is for this request");
            let signer = claim.verify().expect("it is signed");
            signer.require_payload(b"{}").expect("it is for this body");
        };
        repeat(&mut check)
    };
    let mut bare = || repeat(&mut || verify(&key, &id, &signature));
    let outcomes = rounds::run(&mut [&mut ours as Side, &mut bare]);
    vec![Row {
        name: "checks of signed requests (NIP-98)".into(),
        ours: rounds::figure(&outcomes[0]),
        baseline: format!("{} (the signature)", rounds::figure(&outcomes[1])),
        ratio: rounds::ratio(&outcomes[0], &outcomes[1]),
        target: Target::AtLeast(0.75),
    }]
}

/// The text whose hash is the id of an event.
fn signed_text(event: &Value) -> String {
    let field = |name: &str| event[name].clone();
    let fields = ["pubkey", "created_at", "kind", "tags", "content"].map(field);
    json!([0, fields[0], fields[1], fields[2], fields[3], fields[4]]).to_string()
}

/// Checks a signature as one that comes with a request: its key has to be read, too.
fn verify(key: &VerifyingKey, id: &[u8; 32], signature: &Signature) {
    let key = VerifyingKey::from_bytes(&key.to_bytes()).expect("it is a key");
    key.verify_raw(id, signature).expect("it is signed");
}

/// Calls a function for [`TIME`].
fn repeat(call: &mut dyn FnMut()) -> Outcome {
    let start = Instant::now();
    let mut count = 0u32;
    while start.elapsed() < TIME {
        (0..BATCH).for_each(|_| call());
        count += BATCH as u32;
    }
    let took = start.elapsed();
    Outcome { rate: f64::from(count) / took.as_secs_f64(), processor: took / count }
}
