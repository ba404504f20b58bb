//! The installation's master key, which is stored outside the database, and keys derived from it.
//!
//! While the key is being replaced there are two: what is sealed names the one that opens it.

use std::cell::RefCell;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use bincode::de::Decoder;
use bincode::error::DecodeError;
use bincode::{Decode, Encode};
use zeroize::Zeroizing;

use super::error::{Error, Result};

/// The length of a [`KeyId`]: long enough that two keys never share one, and that these bytes occur
/// in no record by chance.
const KEY_ID_LEN: usize = 8;

/// Names a master key without revealing it. Every sealed value begins with the one of its key.
pub type KeyId = [u8; KEY_ID_LEN];

/// A master key: 32 random bytes. Every other key is derived from it, each for one purpose. It is
/// zeroed when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey(Zeroizing<[u8; 32]>);

impl MasterKey {
    /// Returns the key with these random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        MasterKey(Zeroizing::new(bytes))
    }

    /// Derives the key of one purpose. `purpose` must not change once it was used.
    pub fn derive(&self, purpose: &'static str) -> [u8; 32] {
        blake3::derive_key(purpose, &*self.0)
    }

    /// Returns a hash that only this key has and that does not reveal it.
    pub fn check(&self) -> [u8; 32] {
        *blake3::keyed_hash(&self.derive("roadstead 2026 key check"), b"").as_bytes()
    }

    /// Returns its name.
    pub fn id(&self) -> KeyId {
        let mut id = KeyId::default();
        id.copy_from_slice(&self.check()[..KEY_ID_LEN]);
        id
    }

    /// Returns the bytes, to store them where keys are stored.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn sealing_key(&self) -> LessSafeKey {
        let key = Zeroizing::new(self.derive("roadstead 2026 sealing of secrets, AES-256-GCM-SIV"));
        let key = UnboundKey::new(&AES_256_GCM_SIV, &*key).expect("the key has 32 bytes");
        LessSafeKey::new(key)
    }
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey")
    }
}

/// The keys of an installation, shared by all clones: the master key, the one before it while
/// secrets are still sealed with that, and the key of hashes.
#[derive(Clone)]
pub struct Keys(Arc<RwLock<KeyRing>>);

struct KeyRing {
    current: MasterKey,
    previous: Option<MasterKey>,
    hash_key: [u8; 32],
    /// How often the master keys have changed since the start.
    generation: u64,
}

impl Keys {
    /// Returns the keys derived from these 32 random bytes.
    pub fn new(master: [u8; 32]) -> Self {
        Keys::with_previous(MasterKey::new(master), None)
    }

    /// Returns the keys during a rotation: what is sealed with either opens.
    pub fn with_previous(current: MasterKey, previous: Option<MasterKey>) -> Self {
        let hash_key = hash_key_of(previous.as_ref().unwrap_or(&current));
        Keys(Arc::new(RwLock::new(KeyRing { current, previous, hash_key, generation: 0 })))
    }

    /// Makes `next` the master key; the present one still opens what it sealed.
    ///
    /// # Errors
    /// 500 while a rotation is under way.
    pub fn begin_rotation(&self, next: MasterKey) -> Result<()> {
        self.change(|ring| {
            if ring.previous.is_some() {
                return Err(Error::internal("a rotation of the key is under way"));
            }
            ring.previous = Some(std::mem::replace(&mut ring.current, next));
            ring.generation += 1;
            Ok(())
        })
    }

    /// Forgets the previous master key.
    pub fn end_rotation(&self) {
        self.change(|ring| {
            ring.previous = None;
            ring.generation += 1;
        });
    }

    /// Returns a number that grows whenever a rotation begins or ends: what was verified with the keys
    /// of a smaller one must be verified again.
    pub fn generation(&self) -> u64 {
        self.ring(|ring| ring.generation)
    }

    /// Returns the master key.
    pub fn current(&self) -> MasterKey {
        self.ring(|ring| ring.current.clone())
    }

    /// Returns the previous master key, during a rotation.
    pub fn previous(&self) -> Option<MasterKey> {
        self.ring(|ring| ring.previous.clone())
    }

    /// Returns the key of [`Keys::hash`], to be kept when the master key is replaced.
    pub fn hash_key(&self) -> [u8; 32] {
        self.ring(|ring| ring.hash_key)
    }

    /// Sets the key of [`Keys::hash`] to the one that was kept.
    pub fn set_hash_key(&self, hash_key: [u8; 32]) {
        self.change(|ring| ring.hash_key = hash_key);
    }

    /// Returns a keyed hash, which only this installation can compute. It stays the same when the
    /// master key is replaced, so that what is stored under it is found.
    pub fn hash(&self, purpose: &'static str, content: &[u8]) -> [u8; 32] {
        let key = self.ring(|ring| blake3::derive_key(purpose, &ring.hash_key));
        *blake3::keyed_hash(&key, content).as_bytes()
    }

    fn ring<T>(&self, read: impl FnOnce(&KeyRing) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut KeyRing) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn find(&self, id: &KeyId) -> Option<MasterKey> {
        self.ring(|ring| {
            let mut keys = std::iter::once(&ring.current).chain(&ring.previous);
            keys.find(|key| key.id() == *id).cloned()
        })
    }

    /// Encrypts a secret; it can be decrypted only with this key and the same `context` (the
    /// associated data), which names table, record and field as separate parts and must be unique. For records use `Tx::seal`
    /// and `View::unseal`, which supply it.
    ///
    /// `nonce` is random. A repeated one, likely after 2^48 secrets, is harmless with AES-GCM-SIV:
    /// it reveals only whether the same secret was encrypted twice in one context. With AES-GCM it would
    /// reveal both secrets and allow forgeries.
    ///
    /// `key` is the id of the key to seal with; the master key without one.
    ///
    /// # Errors
    /// 500 if there is no key with this id.
    pub fn seal(
        &self,
        key: Option<KeyId>,
        context: &[&[u8]],
        nonce: [u8; NONCE_LEN],
        secret: &str,
    ) -> Result<Sealed> {
        let key = match key {
            Some(id) => self.find(&id).ok_or_else(|| {
                Error::internal("the key that secrets are sealed with is missing")
            })?,
            None => self.current(),
        };
        let mut sealed = secret.as_bytes().to_vec();
        key.sealing_key()
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(length_prefixed(context)),
                &mut sealed,
            )
            .expect("a secret is far smaller than what the cipher takes");
        sealed.splice(..0, [key.id().as_slice(), &nonce].concat());
        Ok(Sealed(sealed))
    }

    /// Decrypts what [`Keys::seal`] encrypted in the same context.
    ///
    /// # Errors
    /// 500 if it was encrypted in another context or with another key, or was changed.
    pub fn unseal(&self, context: &[&[u8]], sealed: &Sealed) -> Result<String> {
        let wrong =
            || Error::internal("a sealed value does not open with this key in this context");
        let (id, rest) = sealed.0.split_first_chunk::<KEY_ID_LEN>().ok_or_else(wrong)?;
        let key = self.find(id).ok_or_else(wrong)?;
        let (nonce, content) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(wrong)?;
        let (nonce, context) =
            (Nonce::assume_unique_for_key(*nonce), Aad::from(length_prefixed(context)));
        let mut content = content.to_vec();
        let opened = key
            .sealing_key()
            .open_in_place(nonce, context, &mut content)
            .map_err(|_| wrong())?
            .len();
        content.truncate(opened);
        // The error of this conversion would contain the secret.
        String::from_utf8(content).map_err(|_| wrong())
    }
}

fn hash_key_of(master: &MasterKey) -> [u8; 32] {
    master.derive("roadstead 2026 key of hashes")
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
#[derive(Clone, PartialEq, Eq, Encode)]
pub struct Sealed(Vec<u8>);

thread_local! {
    /// What is decoded on this thread within [`Sealed::decoded_in`].
    static DECODED: RefCell<Option<Vec<Sealed>>> = const { RefCell::new(None) };
}

impl<C> Decode<C> for Sealed {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let sealed = Sealed(Vec::decode(decoder)?);
        DECODED.with_borrow_mut(|decoded| decoded.iter_mut().for_each(|d| d.push(sealed.clone())));
        Ok(sealed)
    }
}
bincode::impl_borrow_decode!(Sealed);

impl Sealed {
    /// Runs `work`, and returns what it returns with all sealed values that it decoded, in whatever
    /// field of whatever record they are: bytes that only look like one are none.
    pub fn decoded_in<T>(work: impl FnOnce() -> T) -> (T, Vec<Sealed>) {
        DECODED.set(Some(Vec::new()));
        let done = work();
        (done, DECODED.take().unwrap_or_default())
    }

    /// Wraps the bytes of a sealed value that is stored elsewhere than in a record.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Sealed(bytes)
    }

    /// Returns its bytes, to store them elsewhere than in a record.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether it was sealed with the key of this id.
    pub fn is_under(&self, key: &KeyId) -> bool {
        self.0.starts_with(key)
    }

    /// Returns the length of the secret, in bytes.
    pub fn secret_len(&self) -> usize {
        self.0.len().saturating_sub(KEY_ID_LEN + NONCE_LEN + AES_256_GCM_SIV.tag_len())
    }
}

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
        let sealed = keys.seal(None, &[b"a", b"b"], NONCE, "secret").unwrap();
        assert_eq!(sealed.secret_len(), 6);
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
        // Its bytes are all that it has, and what zeroes them is their type.
        let MasterKey(bytes) = MasterKey::new([7; 32]);
        let bytes: Zeroizing<[u8; 32]> = bytes;
        assert_eq!(*bytes, [7; 32]);
    }

    #[test]
    fn a_repeated_nonce_does_not_reveal_how_two_secrets_differ() {
        let keys = Keys::new([7; 32]);
        let content = |secret| {
            let sealed = keys.seal(None, &[b"a"], NONCE, secret).unwrap();
            sealed.0[KEY_ID_LEN + NONCE_LEN..].to_vec()
        };
        let (one, other) = (content("aaaaaaaaaaaaaaaa"), content("aaaaaaaaaaaaaaab"));
        // With a key stream that depends on the nonce alone, 15 of 16 bytes would be the same.
        let same = one.iter().zip(&other).take(16).filter(|(a, b)| a == b).count();
        assert!(same < 8, "{same} bytes are the same");
    }

    #[test]
    fn a_sealed_secret_has_no_readable_form() {
        let sealed = Keys::new([7; 32]).seal(None, &[], NONCE, "secret").unwrap();
        assert_eq!(format!("{sealed:?}"), "Sealed");
    }

    #[test]
    fn during_a_rotation_both_keys_open_and_afterwards_the_new_one_alone() {
        let keys = Keys::new([7; 32]);
        let shared = keys.clone();
        let old = keys.seal(None, &[b"a"], NONCE, "old").unwrap();
        let hash = keys.hash("purpose", b"x");
        let old_id = keys.current().id();
        keys.begin_rotation(MasterKey::new([8; 32])).unwrap();
        let new = shared.seal(None, &[b"a"], NONCE, "new").unwrap();
        let late = shared.seal(Some(old_id), &[b"a"], NONCE, "late").unwrap();
        assert!(late.is_under(&old_id) && !new.is_under(&old_id));
        for (sealed, secret) in [(&old, "old"), (&new, "new"), (&late, "late")] {
            assert_eq!(shared.unseal(&[b"a"], sealed).unwrap(), secret);
        }
        assert!(keys.begin_rotation(MasterKey::new([9; 32])).is_err());
        keys.end_rotation();
        assert!(shared.unseal(&[b"a"], &old).is_err());
        assert!(shared.seal(Some(old_id), &[b"a"], NONCE, "x").is_err());
        assert_eq!(shared.unseal(&[b"a"], &new).unwrap(), "new");
        assert_eq!(shared.hash("purpose", b"x"), hash);
        assert!(Keys::new([7; 32]).unseal(&[b"a"], &new).is_err());
    }
}
