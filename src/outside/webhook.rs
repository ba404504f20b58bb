//! Standard Webhooks: signed messages to external receivers
//! (<https://www.standardwebhooks.com>; reference: events, "Webhook signature").
//!
//! Used for channels, wakes, `replyUrl` and provider endpoints. Randomness and the clock are
//! arguments: a job prepares the call inside its transaction.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD_INDIFFERENT, STANDARD};
use serde_json::{Value, json};

use super::{BodyLimit, Call, Limits, Method};
use crate::base::Time;

/// Prefix of the text form of a signing secret.
const PREFIX: &str = "whsec_";

/// Padding is optional: secrets are copied by hand, and some tools omit it.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PAD_INDIFFERENT);

/// A receiver has 10 s (reference: events, "Webhook signature") and only its status counts.
const LIMITS: Limits =
    Limits { total: Duration::from_secs(10), answer: BodyLimit::Ignored, https_only: false };

/// A message, the same at every attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Identifies the message, so that a receiver can drop duplicates. Without full stops, which
    /// separate the signed parts.
    pub id: String,
    /// `wake`, `deployment`, `exchange.request_decided`, `exchange.message`, or the event's type.
    pub kind: String,
    /// When the event happened, not when it is sent.
    pub at: Time,
    /// The payload.
    pub data: Value,
}

/// Returns the call that posts `message` to `url` as `{type, timestamp, data}`, signed with `key`
/// at `now`. Receivers refuse old signatures, so every attempt needs a new one.
pub fn post(url: &str, key: &[u8], message: &Message, now: Time) -> Call {
    post_with_keys(url, &[key], message, now)
}

/// The same, signed with several keys: while a secret is replaced, a receiver that knows either of
/// them accepts the message.
pub fn post_with_keys(url: &str, keys: &[&[u8]], message: &Message, now: Time) -> Call {
    let body = json!({
        "type": message.kind,
        "timestamp": message.at,
        "data": message.data,
    });
    let body = body.to_string().into_bytes();
    let mut headers = signed_with_keys(keys, &message.id, now.secs(), &body).to_vec();
    headers.push(("content-type".into(), "application/json".into()));
    Call { method: Method::POST, url: url.to_string(), headers, body, limits: LIMITS }
}

/// Returns the three headers of Standard Webhooks: an HMAC-SHA256 over id, seconds since 1970, and
/// body.
pub fn signed(key: &[u8], id: &str, timestamp_secs: i64, body: &[u8]) -> [(String, String); 3] {
    signed_with_keys(&[key], id, timestamp_secs, body)
}

fn signed_with_keys(
    keys: &[&[u8]],
    id: &str,
    timestamp_secs: i64,
    body: &[u8],
) -> [(String, String); 3] {
    let signatures = keys.iter().map(|key| {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
        context.update(format!("{id}.{timestamp_secs}.").as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    });
    [
        ("webhook-id".into(), id.to_string()),
        ("webhook-timestamp".into(), timestamp_secs.to_string()),
        ("webhook-signature".into(), signatures.collect::<Vec<_>>().join(" ")),
    ]
}

/// Returns the text form of a new signing secret.
pub fn secret_text(random: &[u8; 32]) -> String {
    format!("{PREFIX}{}", STANDARD.encode(random))
}

/// The shortest key that the specification of Standard Webhooks allows.
const MIN_KEY_BYTES: usize = 24;

/// The longest text of a secret. The longest that the specification allows has 92 characters.
pub const MAX_SECRET_LEN: usize = 256;

/// What a signing secret is, as a regular expression of JSON Schema.
pub const SECRET_PATTERN: &str = "^whsec_[A-Za-z0-9+/]{32,}={0,2}$";

/// Parses the text form of a signing secret (`whsec_…`) into its key; None if it is invalid. Of any
/// length: earlier versions took shorter ones.
pub fn secret_key(text: &str) -> Option<Vec<u8>> {
    let key = LENIENT.decode(text.strip_prefix(PREFIX)?).ok()?;
    (!key.is_empty()).then_some(key)
}

/// Whether a text means to be a signing secret: it begins as one.
pub fn is_like_secret(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// Checks a signing secret that somebody sends. The error is a phrase that says what it must be,
/// without repeating it.
pub fn check_secret(text: &str) -> Result<(), &'static str> {
    match secret_key(text) {
        Some(key) if text.len() <= MAX_SECRET_LEN && key.len() >= MIN_KEY_BYTES => Ok(()),
        _ => Err("must be whsec_ followed by the base64 of at least 24 bytes, at most 256 \
                  characters"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
        &headers.iter().find(|(n, _)| n == name).unwrap().1
    }

    #[test]
    fn the_signature_is_that_of_the_published_example() {
        let key = secret_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let headers = signed(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(header(&headers, "webhook-id"), "msg_p5jXN8AQM9LWM0D4loKWxJek");
        assert_eq!(header(&headers, "webhook-timestamp"), "1614265330");
        assert_eq!(
            header(&headers, "webhook-signature"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn a_call_posts_type_timestamp_and_data_signed_as_of_now() {
        let message = Message {
            id: "m1".into(),
            kind: "agent.error".into(),
            at: Time::parse("2026-01-31T12:00:00Z").unwrap(),
            data: json!({"stableKey": "a"}),
        };
        let now = message.at.plus_secs(60);
        let call = post("https://a.test/hook", b"key", &message, now);

        assert_eq!(
            String::from_utf8(call.body.clone()).unwrap(),
            r#"{"type":"agent.error","timestamp":"2026-01-31T12:00:00.000Z","data":{"stableKey":"a"}}"#
        );
        assert_eq!(call.method, Method::POST);
        assert_eq!(call.url, "https://a.test/hook");
        assert_eq!(header(&call.headers, "content-type"), "application/json");
        assert_eq!(call.headers[..3], signed(b"key", "m1", now.secs(), &call.body));
    }

    #[test]
    fn a_secret_is_read_as_it_was_written() {
        let random = std::array::from_fn(|n| n as u8 * 7);
        let text = secret_text(&random);
        assert!(text.starts_with("whsec_"));
        assert_eq!(secret_key(&text).unwrap(), random);
        assert_eq!(secret_key(text.trim_end_matches('=')).unwrap(), random);
    }

    #[test]
    fn any_bytes_can_sign() {
        for key in [&b""[..], &[7; 200]] {
            assert_eq!(signed(key, "m1", 0, b"{}"), signed(key, "m1", 0, b"{}"));
        }
    }

    #[test]
    fn a_secret_that_is_sent_has_at_least_24_bytes() {
        let secret = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for bytes in [1, 16, 23, 200] {
            assert!(check_secret(&secret(bytes)).is_err(), "{bytes}");
        }
        for bytes in [24, 32, 64, 180] {
            assert_eq!(check_secret(&secret(bytes)), Ok(()), "{bytes}");
            assert_eq!(check_secret(secret(bytes).trim_end_matches('=')), Ok(()), "{bytes}");
        }
        // Shorter ones that were taken before still sign.
        assert!(secret_key(&secret(16)).is_some());
        assert!(is_like_secret("whsec_?") && !is_like_secret("sesame"));
    }

    #[test]
    fn an_invalid_secret_is_refused() {
        for text in ["", "whsec_", "whsec_%%%%", "WHSEC_AAAA", "AAAA", " whsec_AAAA"] {
            assert_eq!(secret_key(text), None, "{text:?}");
        }
    }
}
