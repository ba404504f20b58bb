//! Strong entity tags.

use xxhash_rust::xxh3::xxh3_128;

/// The strong entity tag of a response: 32 hexadecimal digits in quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Etag([u8; 34]);

impl Etag {
    /// Computes the tag of a body.
    pub fn of(body: &[u8]) -> Self {
        // By hand: the formatter takes several times as long.
        let mut tag = [b'"'; 34];
        for (digits, byte) in tag[1..33].chunks_exact_mut(2).zip(xxh3_128(body).to_be_bytes()) {
            digits[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
            digits[1] = b"0123456789abcdef"[usize::from(byte & 15)];
        }
        Etag(tag)
    }

    /// Its text, with the quotes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a list of tags, in the form of `If-Match` and `If-None-Match`, has this one or `*`.
    /// Weak tags match only if `weakly`.
    pub fn is_in(&self, list: &[u8], weakly: bool) -> bool {
        let is_this = |one: &[u8]| {
            one == b"*"
                || one == self.0
                || (weakly && one.strip_prefix(b"W/").is_some_and(|one| one == self.0))
        };
        list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(is_this)
    }
}

impl std::fmt::Debug for Etag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}
