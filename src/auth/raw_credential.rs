//! The credential of a request as its headers have it, not yet verified.

use super::records::KeyHash;
use super::tokens::{KEY_PREFIX, key_hash};

/// The credential of a request, not yet verified; of several, `X-API-Key` takes precedence. It has
/// no `Debug`: session tokens must not be logged.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum RawCredential {
    /// None.
    Absent,
    /// Not in the form of a credential.
    Malformed,
    /// A key or token in quotation marks, as variables of a shell or an `.env` file may hold.
    Quoted,
    /// A key, as its hash.
    Key(KeyHash),
    /// A session token, not yet parsed.
    Token(String),
    /// A signed Nostr event (NIP-98), not yet read. It is valid for one request of a route for
    /// outside agents.
    Nostr(String),
}

impl RawCredential {
    /// Reads the values of all `X-API-Key` and all `Authorization` headers. A repeated header is
    /// malformed: a proxy in front of the server may have checked the other value.
    pub fn from_headers<'a>(
        mut keys: impl Iterator<Item = &'a [u8]>,
        mut authorizations: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let as_key = |text: &str| match key_hash(text) {
            Some(hash) => RawCredential::Key(hash),
            None if is_quoted(text) => RawCredential::Quoted,
            None => RawCredential::Malformed,
        };
        let (value, another, is_key) = match (keys.next(), authorizations.next()) {
            // A variable that is not set: no key was sent.
            (Some(b""), Some(authorization)) => (authorization, keys.next(), false),
            (Some(key), _) => (key, keys.next(), true),
            (None, Some(authorization)) => (authorization, None, false),
            (None, None) => return RawCredential::Absent,
        };
        if another.is_some() || (!is_key && authorizations.next().is_some()) {
            return RawCredential::Malformed;
        }
        let Ok(text) = std::str::from_utf8(value) else { return RawCredential::Malformed };
        if is_key {
            return as_key(text);
        }
        // One or more spaces (RFC 9110, 11.4).
        let parts =
            text.split_once(' ').map(|(scheme, rest)| (scheme, rest.trim_start_matches(' ')));
        match parts {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                if is_quoted(token) {
                    RawCredential::Quoted
                } else if token.starts_with(KEY_PREFIX) {
                    as_key(token)
                } else {
                    RawCredential::Token(token.into())
                }
            }
            Some((scheme, event)) if scheme.eq_ignore_ascii_case("nostr") => {
                RawCredential::Nostr(event.into())
            }
            _ => RawCredential::Malformed,
        }
    }

    /// Identifies this credential in memory without revealing it.
    pub fn fingerprint(&self) -> [u8; 32] {
        match self {
            RawCredential::Absent | RawCredential::Malformed | RawCredential::Quoted => [0; 32],
            RawCredential::Key(hash) => *hash,
            RawCredential::Token(text) | RawCredential::Nostr(text) => {
                *blake3::hash(text.as_bytes()).as_bytes()
            }
        }
    }
}

/// Whether a credential begins with a quotation mark, which no valid one does.
fn is_quoted(text: &str) -> bool {
    text.starts_with(['"', '\'', '“', '‘'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::key_text;

    #[test]
    fn a_key_takes_precedence_and_a_repeated_header_is_malformed() {
        let (one, other) = (key_text([1; 32]), key_text([2; 32]));
        let raw = |keys: &[&str], authorizations: &[&str]| {
            let bytes = |text: &&str| text.as_bytes().to_vec();
            let keys: Vec<_> = keys.iter().map(bytes).collect();
            let authorizations: Vec<_> = authorizations.iter().map(bytes).collect();
            RawCredential::from_headers(
                keys.iter().map(Vec::as_slice),
                authorizations.iter().map(Vec::as_slice),
            )
        };
        let key = |text: &str| RawCredential::Key(key_hash(text).unwrap());
        let bearer = format!("bearer {other}");
        let table = [
            (raw(&[], &[]), RawCredential::Absent),
            (raw(&[&one], &[]), key(&one)),
            (raw(&[], &[&bearer]), key(&other)),
            (raw(&[], &["Bearer x.y.z"]), RawCredential::Token("x.y.z".into())),
            (raw(&[&one], &[&bearer, "Basic x"]), key(&one)),
            (raw(&[""], &[&bearer]), key(&other)),
            (raw(&[""], &["Bearer x.y.z"]), RawCredential::Token("x.y.z".into())),
            (raw(&[""], &[]), RawCredential::Malformed),
            (raw(&["", ""], &[&bearer]), RawCredential::Malformed),
            (raw(&["", &one], &[&bearer]), RawCredential::Malformed),
            (raw(&[""], &[&bearer, &bearer]), RawCredential::Malformed),
            (raw(&[], &[&format!("Bearer  {other}")]), key(&other)),
            (raw(&[], &["Bearer   x.y.z"]), RawCredential::Token("x.y.z".into())),
            (raw(&[&one, &one], &[]), RawCredential::Malformed),
            (raw(&[&one, "x"], &[&bearer]), RawCredential::Malformed),
            (raw(&[], &[&bearer, &bearer]), RawCredential::Malformed),
            (raw(&[], &["Basic x"]), RawCredential::Malformed),
            (raw(&[], &["nostr e30="]), RawCredential::Nostr("e30=".into())),
            (raw(&[&one], &["Nostr e30="]), key(&one)),
            (raw(&[], &["Nostr e30=", "Nostr e30="]), RawCredential::Malformed),
            (raw(&[], &[&one]), RawCredential::Malformed),
            (raw(&[&format!("\"{one}\"")], &[]), RawCredential::Quoted),
            (raw(&[], &[&format!("Bearer '{one}'")]), RawCredential::Quoted),
        ];
        for (n, (raw, expected)) in table.into_iter().enumerate() {
            assert!(raw == expected, "row {n}");
        }
    }
}
