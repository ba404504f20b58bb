//! A search for secrets in arbitrary bytes.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use regex::bytes::Regex;

/// A secret that must not be found.
pub struct Secret {
    /// Its name in the failure message.
    pub what: String,
    pub bytes: Vec<u8>,
}

impl Secret {
    pub fn text(what: &str, text: &str) -> Self {
        assert!(text.len() >= 12, "{what} is too short to be searched for");
        Secret { what: what.into(), bytes: text.into() }
    }

    /// The secret, if it is text.
    pub fn as_text(&self) -> Option<String> {
        let text = String::from_utf8(self.bytes.clone()).ok()?;
        text.bytes().all(|byte| (b' '..=b'~').contains(&byte)).then_some(text)
    }
}

/// Searches for secrets in all their encodings.
pub struct Search {
    pattern: Regex,
    what: BTreeMap<Vec<u8>, String>,
}

impl Search {
    pub fn new(secrets: &[Secret]) -> Self {
        let mut what = BTreeMap::new();
        for secret in secrets {
            for (form, bytes) in forms(&secret.bytes) {
                what.insert(bytes, format!("{} {form}", secret.what));
            }
        }
        let escaped = |bytes: &Vec<u8>| -> String {
            bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
        };
        let pattern: Vec<String> = what.keys().map(escaped).collect();
        let pattern = Regex::new(&format!("(?s-u){}", pattern.join("|"))).unwrap();
        Search { pattern, what }
    }

    /// The secrets found in these bytes, with their encodings.
    pub fn found(&self, bytes: &[u8]) -> Vec<&str> {
        let found = self.pattern.find_iter(bytes);
        found.map(|found| self.what[found.as_bytes()].as_str()).collect()
    }
}

/// These bytes raw, in hex and in base64 at any offset of a longer text.
fn forms(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![
        ("in clear", bytes.to_vec()),
        ("in hex", hex.to_uppercase().into_bytes()),
        ("in hex", hex.into_bytes()),
    ];
    for before in 0..3 {
        let shifted = [&[0; 2][..before], bytes].concat();
        // Only the characters that depend on these bytes alone.
        let own = (before * 8).div_ceil(6)..shifted.len() * 8 / 6;
        forms.push(("in base64", STANDARD.encode(&shifted)[own.clone()].into()));
        forms.push(("in base64", URL_SAFE.encode(&shifted)[own].into()));
    }
    forms
}

#[test]
fn the_search_finds_a_secret_in_every_form_and_nothing_else() {
    let secret = [&b"sesame, open"[..], &[0xFB, 0xEF, 0xBE, 0xFF, 0, 10]].concat();
    let search = Search::new(&[Secret { what: "it".into(), bytes: secret.clone() }]);
    let found = |bytes: &[u8]| search.found(bytes);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for around in ["", "x", "xy", "xyz"] {
        let text = [around.as_bytes(), &secret, around.as_bytes()].concat();
        assert_eq!(found(&text), ["it in clear"]);
        assert_eq!(found(hex(&text).as_bytes()), ["it in hex"]);
        assert_eq!(found(hex(&text).to_uppercase().as_bytes()), ["it in hex"]);
        assert_eq!(found(STANDARD.encode(&text).as_bytes()), ["it in base64"]);
        assert_eq!(found(URL_SAFE.encode(&text).as_bytes()), ["it in base64"]);
    }
    assert_eq!(found(b"sesame, open"), [""; 0]);
}
