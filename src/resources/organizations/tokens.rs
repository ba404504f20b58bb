//! Random tokens of setup links and invitations, of which only the hash is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use crate::store::Tx;

/// The BLAKE3 hash of a token.
pub(super) type TokenHash = [u8; 32];

/// Creates an unguessable token of 256 bits, in characters that need no encoding in the fragment of
/// a URL.
pub(super) fn new_token(tx: &Tx) -> String {
    token_of(tx.random())
}

/// Returns the token of these bits.
pub(super) fn token_of(bits: [u8; 32]) -> String {
    BASE64.encode(bits)
}

/// Returns the hash of a token.
pub(super) fn hash_of(token: &str) -> TokenHash {
    *blake3::hash(token.as_bytes()).as_bytes()
}
