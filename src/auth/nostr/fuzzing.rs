//! Events of signed requests.

use std::str::from_utf8;

use super::*;

/// A time that events of scripts can have.
const NOW: Time = Time::from_millis(1_768_478_400_000);

/// Any bytes are an event or none; one that is accepted has the id of its content and the key that it
/// names.
///
/// # Panics
/// If that is not so.
pub fn event(input: &[u8]) {
    if let Ok(token) = from_utf8(input) {
        read(token, NOW);
    }
    let Some(event) = Event::parse(input) else { return };
    assert!(from_hex::<32>(&event.pubkey).is_some());
    for name in ["u", "method", "payload"] {
        let is_named = |tag: &&Vec<String>| tag.first().is_some_and(|first| first == name);
        let values: Vec<_> = event.tags.iter().filter(is_named).collect();
        match event.tag(name) {
            Ok(value) => {
                assert!(values.len() <= 1);
                assert_eq!(value, values.first().and_then(|tag| tag.get(1)).map(String::as_str));
            }
            Err(error) => assert!(error.kind() == Kind::Unauthenticated && values.len() > 1),
        }
    }
    let token = BASE64.encode(input);
    read(&token, NOW);
    // Of the time that it names, so that what follows is tried as well.
    if event.created_at.unsigned_abs() < 1 << 40 {
        read(&token, Time::from_millis(event.created_at * 1000));
    }
}

fn read(token: &str, now: Time) {
    let base = "https://roadstead.test";
    let claim = Claim::read(token, now, SignedTarget { base, target: "/api/a", method: "GET" });
    match claim {
        Ok(claim) => {
            assert!(claim.event.kind == KIND && claim.event.has_own_id());
            assert!((claim.event.created_at - now.secs()).abs() <= WINDOW_SECS);
            assert_eq!(claim.pubkey().to_string(), claim.event.pubkey);
            if let Ok(signer) = claim.verify() {
                // Of a body that the event does not have.
                assert_eq!(signer.require_payload(b"").is_ok(), signer.payload.is_none());
            }
        }
        Err(error) => assert_eq!(error.kind(), Kind::Unauthenticated),
    }
}
