//! Random tokens of setup links and invitations, of which only the hash is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use super::invitation::Invitation;
use crate::base::{Id, Keys};
use crate::store::Tx;

/// The BLAKE3 hash of a token.
pub(super) type TokenHash = [u8; 32];

/// Creates an unguessable token of 256 bits, in characters that need no encoding in the fragment of
/// a URL.
pub(super) fn new_token(tx: &Tx) -> String {
    BASE64.encode(tx.random::<32>())
}

/// Returns the token of an invitation. It is derived from the installation's key, so that it can be
/// mailed later and again without being stored.
pub(super) fn invitation_token(keys: &Keys, id: Id<Invitation>) -> String {
    BASE64.encode(keys.hash("roadstead 2026 invitation token", id.bytes()))
}

/// Returns the hash of a token.
pub(super) fn hash_of(token: &str) -> TokenHash {
    *blake3::hash(token.as_bytes()).as_bytes()
}
