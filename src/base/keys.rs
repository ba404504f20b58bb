//! The installation's key, which lies outside the database, and what is made from it.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::error::{Error, Result};

/// The one secret of an installation. Everything else that must be secret is derived from it or
/// sealed under it, each for its own purpose.
#[derive(Clone)]
pub struct Keys {
    master: [u8; 32],
}

impl Keys {
    /// Keys derived from these 32 random bytes.
    pub const fn new(master: [u8; 32]) -> Self {
        Keys { master }
    }

    /// A key for one purpose. `purpose` never changes once something was made with it.
    pub fn derive(&self, purpose: &'static str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.master)
    }

    /// A hash that only this installation can make.
    pub fn hash(&self, purpose: &'static str, content: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.derive(purpose), content).as_bytes()
    }

    /// Seals a secret so that it opens only here and only in its place: `place` names record and
    /// field. `nonce` is random.
    pub fn seal(&self, place: &[u8], nonce: [u8; NONCE_LEN], secret: &[u8]) -> Vec<u8> {
        let mut sealed = secret.to_vec();
        let nonce_bytes = nonce;
        self.sealing_key()
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(place),
                &mut sealed,
            )
            .expect("a secret is far smaller than what the cipher takes");
        [nonce_bytes.as_slice(), &sealed].concat()
    }

    /// Opens what [`Keys::seal`] sealed in the same place.
    ///
    /// # Errors
    /// 500 if it was sealed elsewhere, under another key, or changed.
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        let wrong = || Error::internal("a sealed value does not open with this key in this place");
        let (nonce, content) = sealed.split_first_chunk::<NONCE_LEN>().ok_or_else(wrong)?;
        let mut content = content.to_vec();
        let opened = self
            .sealing_key()
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(place), &mut content)
            .map_err(|_| wrong())?
            .len();
        content.truncate(opened);
        Ok(content)
    }

    fn sealing_key(&self) -> LessSafeKey {
        let key = self.derive("roadstead 2026 sealing of secrets");
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("the key has 32 bytes"))
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

    #[test]
    fn a_secret_opens_only_in_its_place_and_unchanged() {
        let keys = Keys::new([7; 32]);
        let sealed = keys.seal(b"a", [1; NONCE_LEN], b"secret");
        assert_eq!(keys.open(b"a", &sealed).unwrap(), b"secret");
        assert!(keys.open(b"b", &sealed).is_err());
        assert!(Keys::new([8; 32]).open(b"a", &sealed).is_err());
        for i in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[i] ^= 1;
            assert!(keys.open(b"a", &changed).is_err());
        }
        assert!(keys.open(b"a", b"short").is_err());
    }
}
