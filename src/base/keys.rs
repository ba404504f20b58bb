//! The installation's master key, which is stored outside the database, and keys derived from it.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use bincode::{Decode, Encode};
use zeroize::{Zeroize as _, Zeroizing};

use super::error::{Error, Result};

/// The master key of an installation. Every other key is derived from it, and every stored secret
/// encrypted with a key derived from it, each for one purpose. It is zeroed when it is dropped.
#[derive(Clone)]
pub struct Keys {
    master: [u8; 32],
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.zero();
    }
}

impl Keys {
    /// Returns the keys derived from these 32 random bytes.
    pub const fn new(master: [u8; 32]) -> Self {
        Keys { master }
    }

    fn zero(&mut self) {
        self.master.zeroize();
    }

    /// Derives the key of one purpose. `purpose` must not change once it was used.
    pub fn derive(&self, purpose: &'static str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.master)
    }

    /// Returns a keyed hash, which only this installation can compute.
    pub fn hash(&self, purpose: &'static str, content: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.derive(purpose), content).as_bytes()
    }

    /// Encrypts a secret; it can be decrypted only with this key and the same `context` (the
    /// associated data), which names table, record and field as separate parts and must be unique. For records use `Tx::seal`
    /// and `View::unseal`, which supply it.
    ///
    /// `nonce` is random. A repeated one, likely after 2^48 secrets, is harmless with AES-GCM-SIV:
    /// it reveals only whether the same secret was encrypted twice in one context. With AES-GCM it would
    /// reveal both secrets and allow forgeries.
    pub fn seal(&self, context: &[&[u8]], nonce: [u8; NONCE_LEN], secret: &str) -> Sealed {
        let mut sealed = secret.as_bytes().to_vec();
        self.sealing_key()
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(length_prefixed(context)),
                &mut sealed,
            )
            .expect("a secret is far smaller than what the cipher takes");
        sealed.splice(..0, nonce);
        Sealed(sealed)
    }

    /// Decrypts what [`Keys::seal`] encrypted in the same context.
    ///
    /// # Errors
    /// 500 if it was encrypted in another context or with another key, or was changed.
    pub fn unseal(&self, context: &[&[u8]], sealed: &Sealed) -> Result<String> {
        let wrong =
            || Error::internal("a sealed value does not open with this key in this context");
        let (nonce, content) = sealed.0.split_first_chunk::<NONCE_LEN>().ok_or_else(wrong)?;
        let (nonce, context) =
            (Nonce::assume_unique_for_key(*nonce), Aad::from(length_prefixed(context)));
        let mut content = content.to_vec();
        let opened = self
            .sealing_key()
            .open_in_place(nonce, context, &mut content)
            .map_err(|_| wrong())?
            .len();
        content.truncate(opened);
        // The error of this conversion would contain the secret.
        String::from_utf8(content).map_err(|_| wrong())
    }

    fn sealing_key(&self) -> LessSafeKey {
        let key = Zeroizing::new(self.derive("roadstead 2026 sealing of secrets, AES-256-GCM-SIV"));
        let key = UnboundKey::new(&AES_256_GCM_SIV, &*key).expect("the key has 32 bytes");
        LessSafeKey::new(key)
    }
}

/// Returns the parts, each preceded by its length, so that no two lists encode to the same bytes.
fn length_prefixed(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

/// An encrypted secret, as a record stores it. It can be neither printed nor serialized.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct Sealed(Vec<u8>);

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealed")
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_LEN] = [1; NONCE_LEN];

    #[test]
    fn a_secret_opens_only_in_its_context_and_unchanged() {
        let keys = Keys::new([7; 32]);
        let sealed = keys.seal(&[b"a", b"b"], NONCE, "secret");
        assert_eq!(keys.unseal(&[b"a", b"b"], &sealed).unwrap(), "secret");
        let elsewhere: [&[&[u8]]; 6] =
            [&[], &[b"a"], &[b"ab"], &[b"", b"ab"], &[b"a", b"b", b""], &[b"b", b"a"]];
        for context in elsewhere {
            assert!(keys.unseal(context, &sealed).is_err(), "{context:?}");
        }
        assert!(Keys::new([8; 32]).unseal(&[b"a", b"b"], &sealed).is_err());
        for i in 0..sealed.0.len() {
            let mut changed = sealed.clone();
            changed.0[i] ^= 1;
            assert!(keys.unseal(&[b"a", b"b"], &changed).is_err());
            let cut = Sealed(sealed.0[..i].to_vec());
            assert!(keys.unseal(&[b"a", b"b"], &cut).is_err());
        }
    }

    #[test]
    fn the_master_key_is_zeroed_when_it_is_dropped() {
        let mut keys = Keys::new([7; 32]);
        keys.zero();
        assert_eq!(keys.master, [0; 32]);
        assert!(std::mem::needs_drop::<Keys>());
    }

    #[test]
    fn a_repeated_nonce_does_not_reveal_how_two_secrets_differ() {
        let keys = Keys::new([7; 32]);
        let content = |secret| keys.seal(&[b"a"], NONCE, secret).0.split_off(NONCE_LEN);
        let (one, other) = (content("aaaaaaaaaaaaaaaa"), content("aaaaaaaaaaaaaaab"));
        // With a key stream that depends on the nonce alone, 15 of 16 bytes would be the same.
        let same = one.iter().zip(&other).take(16).filter(|(a, b)| a == b).count();
        assert!(same < 8, "{same} bytes are the same");
    }

    #[test]
    fn a_sealed_secret_has_no_readable_form() {
        let sealed = Keys::new([7; 32]).seal(&[], NONCE, "secret");
        assert_eq!(format!("{sealed:?}"), "Sealed");
    }
}
