//! What was found out about credentials, kept while nothing has changed that it depends on.

use std::sync::{Mutex, MutexGuard};

use foldhash::{HashMap, HashMapExt as _};

/// Limit of the cache; at the limit all entries are dropped and looked up again.
const MAX_CACHED_CREDENTIALS: usize = 4096;

/// What a result is valid for. Compared by the keys first: they change less often.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Validity {
    /// The generation of the keys when the lookup began.
    pub keys: u64,
    /// The access version of the snapshot that was read.
    pub access: u64,
}

/// Results by the fingerprints of credentials, all of one validity: the newest that was seen.
pub struct CredentialCache<T>(Mutex<Entries<T>>);

struct Entries<T> {
    validity: Validity,
    known: HashMap<[u8; 32], T>,
}

impl<T> CredentialCache<T> {
    /// Creates an empty cache.
    pub fn new() -> Self {
        CredentialCache(Mutex::new(Entries {
            validity: Validity::default(),
            known: HashMap::new(),
        }))
    }

    /// Returns what `read` makes of the result of a credential, if one with this validity is known.
    pub fn get<R>(
        &self,
        validity: Option<Validity>,
        fingerprint: [u8; 32],
        read: impl FnOnce(&T) -> Option<R>,
    ) -> Option<R> {
        let entries = self.entries();
        if validity != Some(entries.validity) {
            return None;
        }
        entries.known.get(&fingerprint).and_then(read)
    }

    /// As [`CredentialCache::get`], of whatever validity: for hints, which authorize nothing.
    pub fn last_known<R>(
        &self,
        fingerprint: [u8; 32],
        read: impl FnOnce(&T) -> Option<R>,
    ) -> Option<R> {
        self.entries().known.get(&fingerprint).and_then(read)
    }

    /// Changes the result of a credential, which is `new` if none is known. A validity older than
    /// that of the cache, or none, has no effect.
    pub fn update(
        &self,
        validity: Option<Validity>,
        fingerprint: [u8; 32],
        new: impl FnOnce() -> T,
        change: impl FnOnce(&mut T),
    ) {
        let mut entries = self.entries();
        let Some(validity) = validity.filter(|validity| *validity >= entries.validity) else {
            return;
        };
        if validity > entries.validity || entries.known.len() >= MAX_CACHED_CREDENTIALS {
            *entries = Entries { validity, known: HashMap::new() };
        }
        change(entries.known.entry(fingerprint).or_insert_with(new));
    }

    fn entries(&self) -> MutexGuard<'_, Entries<T>> {
        self.0.lock().expect("no code panics while holding the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_found_with_its_own_validity_alone_and_an_older_one_is_not_kept() {
        let cache = CredentialCache::new();
        let at = |keys, access| Some(Validity { keys, access });
        let put = |validity, value: u8| cache.update(validity, [1; 32], || value, |_| {});
        let get = |validity| cache.get(validity, [1; 32], |value| Some(*value));
        put(at(0, 5), 1);
        assert_eq!(get(at(0, 5)), Some(1));
        assert_eq!([get(at(0, 6)), get(at(1, 5)), get(None)], [None; 3]);
        put(at(1, 4), 2); // The keys have changed; the snapshot is an older one.
        assert_eq!([get(at(1, 4)), get(at(0, 5))], [Some(2), None]);
        put(at(0, 9), 3); // Began before the keys changed.
        put(None, 4);
        assert_eq!([get(at(1, 4)), get(at(0, 9))], [Some(2), None]);
    }
}
