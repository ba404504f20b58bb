//! Published vectors, and what signed requests are refused for.

use serde_json::{Value, json};

use super::event::is_signature;
use super::testing::{NostrKey, token};
use super::*;

/// The published vectors of BIP-340 for messages of 32 bytes, which ids are: the file
/// `bip-0340/test-vectors.csv` of the repository `bitcoin/bips` (2-clause BSD licence).
const BIP_340: &str = include_str!("bip-0340.csv");

#[test]
fn signatures_are_judged_as_the_vectors_of_bip_340_say() {
    let mut counts = [0, 0];
    for line in BIP_340.lines().skip(1) {
        let fields: Vec<_> = line.split(',').map(str::to_ascii_lowercase).collect();
        let [number, _, key, _, message, signature, expected, ..] = &fields[..] else {
            panic!("{line}")
        };
        let message: [u8; 32] = from_hex(message).unwrap();
        let (key, signature) = (from_hex(key).unwrap(), from_hex(signature).unwrap());
        let expected = expected == "true";
        assert_eq!(is_signature(&key, &message, &signature), expected, "vector {number}");
        counts[usize::from(expected)] += 1;
    }
    assert_eq!(counts, [10, 5]); // No others are in the file.
}

/// The header that NIP-98 gives as an example. Its URL has the tag `url`, of an early draft.
const NIP_98: &str = "eyJpZCI6ImZlOTY0ZTc1ODkwMzM2MGYyOGQ4NDI0ZDA5MmRhODQ5NGVkMjA3Y2JhODIzMTEwYmUz\
    YTU3ZGZlNGI1Nzg3MzQiLCJwdWJrZXkiOiI2M2ZlNjMxOGRjNTg1ODNjZmUxNjgxMGY4NmRkMDllMThiZmQ3NmFhYmMy\
    NGEwMDgxY2UyODU2ZjMzMDUwNGVkIiwiY29udGVudCI6IiIsImtpbmQiOjI3MjM1LCJjcmVhdGVkX2F0IjoxNjgyMzI3\
    ODUyLCJ0YWdzIjpbWyJ1cmwiLCJodHRwczovL2FwaS5zbm9ydC5zb2NpYWwvYXBpL3YxL241c3AvbGlzdCJdLFsibWV0\
    aG9kIiwiR0VUIl1dLCJzaWciOiI1ZWQ5ZDhlYzk1OGJjODU0Zjk5N2JkYzI0YWMzMzdkMDA1YWYzNzIzMjQ3NDdlZmU0\
    YTAwZTI0ZjRjMzA0MzdmZjRkZDgzMDg2ODRiZWQ0NjdkOWQ2YmUzZTVhNTE3YmI0M2IxNzMyY2M3ZDMzOTQ5YTNhYWY4\
    NjcwNWMyMjE4NCJ9";

#[test]
fn the_example_of_nip_98_has_the_id_and_the_signature_of_its_content() {
    let json = BASE64.decode(NIP_98).unwrap();
    let event = Event::parse(&json).unwrap();
    assert!(event.has_own_id() && event.is_signed());
    assert_eq!(event.tag("url").unwrap(), Some("https://api.snort.social/api/v1/n5sp/list"));
    // As the text beside it shows it, with the tag of today, it has another id.
    let text = String::from_utf8(json).unwrap().replace("\"url\"", "\"u\"");
    let event = Event::parse(text.as_bytes()).unwrap();
    assert!(!event.has_own_id() && event.is_signed());
    let target = SignedTarget {
        base: "https://api.snort.social",
        target: "/api/v1/n5sp/list",
        method: "GET",
    };
    let now = Time::from_millis(1_682_327_852_000);
    let refused = Claim::read(&BASE64.encode(text), now, target).unwrap_err();
    assert_eq!(refused.message(), "the id of the event is not the hash of its content");
    let refused = Claim::read(NIP_98, now, target).unwrap_err();
    assert!(refused.message().starts_with("the event's u must be"), "{refused}");
}

const NOW: Time = Time::from_millis(1_768_478_400_000);
const BASE: &str = "https://roadstead.test";
const TARGET: &str = "/api/exchange/acme/crew/messages?limit=5";

fn tags(url: &str, method: &str) -> Value {
    json!([["u", url], ["method", method]])
}

fn read(event: &Value) -> Result<Signer> {
    let target = SignedTarget { base: BASE, target: TARGET, method: "GET" };
    Claim::read(&token(event), NOW, target)?.verify()
}

fn good() -> Value {
    NostrKey::new(1).sign(NOW.secs(), KIND, tags(&format!("{BASE}{TARGET}"), "GET"))
}

#[test]
fn a_signed_event_names_its_signer() {
    let key = NostrKey::new(1);
    let event = good();
    let signer = read(&event).unwrap();
    assert_eq!(signer.pubkey, key.pubkey());
    assert_eq!(super::testing::hex(&signer.event), event["id"].as_str().unwrap());
    let unpadded = token(&event).trim_end_matches('=').to_string();
    let target = SignedTarget { base: BASE, target: TARGET, method: "GET" };
    assert!(Claim::read(&unpadded, NOW, target).is_ok());
}

/// The least number of seconds has no absolute value.
#[test]
fn a_time_that_is_off_by_as_much_as_a_number_can_say_is_refused() {
    for secs in [i64::MIN + NOW.secs(), i64::MIN, i64::MAX, i64::MIN + NOW.secs() + 1] {
        let event = NostrKey::new(1).sign(secs, KIND, tags(&format!("{BASE}{TARGET}"), "GET"));
        let refused = read(&event).unwrap_err();
        assert!(refused.message().contains("created_at must be within"), "{secs}: {refused}");
    }
}

#[test]
fn an_event_for_another_url_or_method_is_refused() {
    let sign =
        |url: &str, method: &str| read(&NostrKey::new(1).sign(NOW.secs(), KIND, tags(url, method)));
    let path = TARGET;
    for same in ["https://roadstead.test", "HTTPS://Roadstead.Test", "https://roadstead.test:443"] {
        assert!(sign(&format!("{same}{path}"), "get").is_ok(), "{same}");
    }
    for other in [
        "http://roadstead.test",
        "https://roadstead.test:80",
        "https://roadstead.test:8443",
        "https://roadstead.test/base",
        "https://roadstead.test.evil.test",
        "https://evil.test",
        "https://a@roadstead.test",
        "",
    ] {
        assert!(sign(&format!("{other}{path}"), "GET").is_err(), "{other}");
    }
    for other in ["", "?limit=6", "/api/exchange/acme/crew/messages", "/API/exchange/acme/crew"] {
        assert!(sign(&format!("{BASE}{other}"), "GET").is_err(), "{other}");
    }
    for url in [format!("{BASE}{TARGET}&a=b"), format!("{BASE}{TARGET}#x"), TARGET.into()] {
        assert!(sign(&url, "GET").is_err(), "{url}");
    }
    for other in ["POST", "HEAD", ""] {
        assert!(sign(&format!("{BASE}{path}"), other).is_err(), "{other}");
    }
}

#[test]
fn a_public_url_with_a_path_stands_before_the_path_of_the_request() {
    let base = "https://acme.test:8443/roadstead";
    let read = |url: &str| {
        let event = NostrKey::new(1).sign(NOW.secs(), KIND, tags(url, "POST"));
        let target = SignedTarget { base, target: "/api/x", method: "POST" };
        Claim::read(&token(&event), NOW, target)
    };
    assert!(read("https://acme.test:8443/roadstead/api/x").is_ok());
    for other in ["https://acme.test:8443/api/x", "https://acme.test/roadstead/api/x"] {
        assert!(read(other).is_err(), "{other}");
    }
}

#[test]
fn an_event_is_good_for_60_seconds_either_way() {
    for (off_secs, is_good) in [
        (-61, false),
        (-60, true),
        (0, true),
        (60, true),
        (61, false),
        (i64::MIN - NOW.secs().wrapping_neg(), false),
        (i64::MAX - NOW.secs(), false),
    ] {
        let at = NOW.secs() + off_secs;
        let event = NostrKey::new(1).sign(at, KIND, tags(&format!("{BASE}{TARGET}"), "GET"));
        assert_eq!(read(&event).is_ok(), is_good, "{off_secs}");
    }
    // It is remembered as long as it would be accepted.
    assert_eq!(read(&good()).unwrap().ends_at(), NOW.plus_secs(61));
}

#[test]
fn whatever_is_changed_after_signing_is_refused() {
    let other = NostrKey::new(2);
    let changes: [(&str, Value); 8] = [
        ("id", json!("1".repeat(64))),
        ("pubkey", json!(other.pubkey())),
        ("pubkey", json!("f".repeat(64))),
        ("created_at", json!(NOW.secs() + 1)),
        ("kind", json!(1)),
        ("tags", json!([["u", format!("{BASE}{TARGET}")], ["method", "GET"], ["x"]])),
        ("content", json!("x")),
        ("sig", good()["sig"].as_str().unwrap().replace('1', "2").into()),
    ];
    for (field, value) in changes {
        let mut event = good();
        event[field] = value;
        let refused = read(&event).unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (Kind::Unauthenticated, "unauthenticated"));
    }
}

#[test]
fn what_is_no_event_is_refused() {
    let mut events = vec![json!({}), json!([]), json!(null)];
    for field in ["id", "pubkey", "created_at", "kind", "tags", "content", "sig"] {
        let mut event = good();
        event.as_object_mut().unwrap().remove(field);
        events.push(event);
    }
    let upper = |field: &str| {
        let mut event = good();
        event[field] = event[field].as_str().unwrap().to_uppercase().into();
        event
    };
    events.extend([upper("id"), upper("pubkey"), upper("sig")]);
    for event in events {
        assert!(read(&event).is_err(), "{event}");
    }
    let target = SignedTarget { base: BASE, target: TARGET, method: "GET" };
    let long = format!("{}{}", token(&good()), "A".repeat(MAX_EVENT_BYTES));
    for text in ["", "e30", "%%%", "bm9zdHI", &long] {
        assert!(Claim::read(text, NOW, target).is_err(), "{text}");
    }
}

#[test]
fn a_tag_that_is_there_twice_is_refused() {
    let (url, evil) = (format!("{BASE}{TARGET}"), "https://evil.test/");
    for tags in [
        json!([["u", url], ["u", evil], ["method", "GET"]]),
        json!([["u", evil], ["u", url], ["method", "GET"]]),
        json!([["u", url], ["method", "GET"], ["method", "POST"]]),
        json!([["u", url], ["method", "GET"], ["payload", "0"], ["payload", "1"]]),
        json!([["u"], ["method"]]),
        json!([[], ["method", "GET"]]),
    ] {
        assert!(read(&NostrKey::new(1).sign(NOW.secs(), KIND, tags.clone())).is_err(), "{tags}");
    }
    let twice = good().to_string().replacen('{', &format!("{{\"kind\":{KIND},"), 1);
    let target = SignedTarget { base: BASE, target: TARGET, method: "GET" };
    assert!(Claim::read(&BASE64.encode(twice), NOW, target).is_err());
}

#[test]
fn the_payload_is_the_hash_of_exactly_this_body() {
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let signer = |payload: &str| {
        let mut tags = tags(&format!("{BASE}{TARGET}"), "GET");
        tags.as_array_mut().unwrap().push(json!(["payload", payload]));
        read(&NostrKey::new(1).sign(NOW.secs(), KIND, tags))
    };
    for payload in [ABC, &ABC.to_uppercase()] {
        let abc = signer(payload).unwrap();
        assert!(abc.require_payload(b"abc").is_ok());
        for other in [&b"abd"[..], b"abc ", b""] {
            assert_eq!(abc.require_payload(other).unwrap_err().kind(), Kind::Unauthenticated);
        }
    }
    assert!(signer(EMPTY).unwrap().require_payload(b"").is_ok());
    assert!(signer("abc").is_err());
    let none = read(&good()).unwrap();
    assert!(none.require_payload(b"").is_ok());
    assert!(none.require_payload(b"{}").is_err());
}
