//! The record of the key that secrets are sealed with.

use bincode::{Decode, Encode};

use super::codec::hex;
use super::record::{Export, Record};
use super::sealed_field::SealedField;
use super::tx::Tx;
use super::view::View;
use crate::base::{Error, KeyId, Result, Sealed};

/// The key that secrets are sealed with. There is none before the first rotation.
#[derive(Clone, Debug, Encode, Decode)]
pub struct SealingKey {
    key: KeyId,
    /// The key of [`Keys::hash`], in hexadecimal.
    hash_key: Sealed,
}

static HASH_KEY: SealedField<SealingKey> =
    SealedField::new("hash_key", "the key of cursors and kept answers", |sealing| {
        Some(&mut sealing.hash_key)
    });

impl Record for SealingKey {
    const TABLE: &'static str = "sealing_key";
    const EXPORT: Export<Self> = Export::LeftOut("the key of this installation");
    const ORG_SCOPED: bool = false;
    const SEALED: &'static [&'static SealedField<Self>] = &[&HASH_KEY];
    type Key = ();
    fn key(&self) {}
}

/// Returns the id of the key to seal with; `None` for the installation's only one.
pub(super) fn sealing_key(view: &View) -> Result<Option<KeyId>> {
    Ok(view.get::<SealingKey>(&())?.map(|sealing| sealing.key))
}

/// Sets the key of hashes to the one that was kept by a rotation.
pub(super) fn restore_hash_key(view: &View) -> Result<()> {
    let Some(sealing) = view.get::<SealingKey>(&())? else { return Ok(()) };
    let text = view.unseal(&HASH_KEY, &(), &sealing.hash_key)?;
    let mut hash_key = [0; 32];
    for (byte, digits) in hash_key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16)
            .map_err(|_| Error::internal("the kept key of hashes is no key"))?;
    }
    view.keys().set_hash_key(hash_key);
    Ok(())
}

/// Has everything sealed with the key of this id from now on.
pub(super) fn set_sealing_key(tx: &mut Tx, id: KeyId) -> Result<()> {
    if sealing_key(&tx.view())? == Some(id) {
        return Ok(());
    }
    let text = hex(&tx.keys().hash_key());
    let context = HASH_KEY.context(SealingKey::TABLE, &[]);
    let hash_key = tx.keys().seal(Some(id), &context, tx.random(), &text)?;
    tx.put(&SealingKey { key: id, hash_key })
}
