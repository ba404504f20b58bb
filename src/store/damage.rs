//! What reads have found damaged: records that are not what was written, index entries that lead to
//! another one, ends of audit logs that are not as they were left.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::codec;
use crate::base::Error;

/// Damage that this process has found since it opened the store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownDamage {
    /// How often something was found; the same place may have been found several times.
    pub count: u64,
    /// What was found first.
    pub first: String,
}

/// What is known so far. It is locked only when something is found, or asked for.
#[derive(Debug, Default)]
pub struct Damage(Mutex<Option<KnownDamage>>);

impl Damage {
    /// Notes what was found.
    pub fn note(&self, what: &dyn Display) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *known {
            Some(known) => known.count += 1,
            None => *known = Some(KnownDamage { count: 1, first: what.to_string() }),
        }
    }

    /// Notes a record that could not be decoded.
    pub(super) fn note_error(&self, error: &Error) {
        self.note(&error.log_detail().unwrap_or(error.message()));
    }

    /// Notes an entry of an index that leads to another record or none, and returns the error of
    /// reading it.
    pub(super) fn wrong_entry(&self, index: &str, key: &[u8]) -> Error {
        let key = codec::hex(key);
        let what =
            format!("{index}: an entry is wrong, or was written by a newer Roadstead, for {key}");
        self.note(&what);
        Error::internal(what)
    }

    /// Returns what is known so far.
    pub(super) fn known(&self) -> Option<KnownDamage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::base::{Id, Keys, Time};
    use crate::store::engine::{LocalStorage as _, Memory, WriteBatch, WriteOp};
    use crate::store::sample::{BY_NAME, Note, TABLES, note, org};
    use crate::store::{Clock, Key as _, Store};

    #[tokio::test]
    async fn a_record_that_is_not_what_was_written_is_known_once_it_was_read() {
        let mut storage = Memory::default();
        crate::store::build_indexes(&mut storage, TABLES, &|_| {}).unwrap();
        let mut writes = WriteBatch::default();
        let key = [org(1).bytes().as_slice(), &1_u32.to_bytes()].concat();
        let mut value = crate::store::encode(&note(1, "a", "t"), &key).unwrap();
        value[5] ^= 1;
        writes.add("notes", key, WriteOp::Put(value));
        let name = [org(1).bytes().as_slice(), &"b".to_string().to_bytes()].concat();
        writes.add("notes.by_name", name, WriteOp::Put(9_u32.to_bytes()));
        storage.commit(&writes);
        let clock = Clock::at(Time::from_millis(1_800_000_000_000));
        let store = Store::start(storage, clock, Keys::new([7; 32]), TABLES).unwrap();
        assert_eq!(store.known_damage(), None);
        assert!(store.read(org(1), |view| view.get::<Note>(&2)).await.unwrap().is_none());
        assert_eq!(store.known_damage(), None);
        assert!(store.read(org(1), |view| view.get::<Note>(&1)).await.is_err());
        let known = store.known_damage().unwrap();
        assert_eq!(known.count, 1);
        assert!(known.first.contains("has a wrong checksum"), "{known:?}");
        let find = |tx: &mut crate::store::Tx| tx.find(&BY_NAME, &"b".to_string()).map(drop);
        assert!(store.write(org(1), find).await.is_err());
        assert!(store.known_damage().unwrap().count > 1);
        store.read(Id::NIL, |_| Ok(())).await.unwrap();
    }
}
