//! A cache of immutable contents: each is built once and held in memory once, for all clients that
//! read it or wait for it; its tag is known without building it again.
//!
//! The key is the version ([`crate::api::ContentVersion`]). Access is not decided here: the cache
//! is asked only for callers who may read the content at that moment.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use foldhash::HashMap;
use uuid::Uuid;

use super::etag::Etag;
use crate::base::Result;

/// Limit of the contents in bytes; the one read last is held in any case. Room for a few thousand
/// typical prompts, or a dozen of the largest.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Limit of the tags: half a megabyte. At the limit all are dropped and computed again.
const MAX_TAGS: usize = 10_000;

/// The cache.
#[derive(Default)]
pub struct ContentCache(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    bodies: HashMap<Uuid, Bytes>,
    /// Their versions, oldest first.
    order: VecDeque<Uuid>,
    /// Their total size.
    bytes: usize,
    tags: HashMap<Uuid, Etag>,
}

impl ContentCache {
    /// Returns the tag of the content with this version, and the content itself unless the client
    /// `has` it.
    ///
    /// # Errors
    /// Those of `make`, which builds a content that is not in the cache.
    pub fn answer(
        &self,
        version: Uuid,
        has: impl Fn(&Etag) -> bool,
        make: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<(Etag, Option<Bytes>)> {
        let (tag, body) = {
            let cached = self.0.lock().expect("no code panics while holding the lock");
            (cached.tags.get(&version).copied(), cached.bodies.get(&version).cloned())
        };
        if let Some(tag) = tag {
            if has(&tag) {
                return Ok((tag, None));
            }
            if body.is_some() {
                return Ok((tag, body));
            }
        }
        let body = Bytes::from(make()?);
        let tag = Etag::of(&body);
        self.0.lock().expect("no code panics while holding the lock").insert(
            version,
            tag,
            body.clone(),
        );
        Ok(if has(&tag) { (tag, None) } else { (tag, Some(body)) })
    }
}

impl Contents {
    fn insert(&mut self, version: Uuid, tag: Etag, body: Bytes) {
        if self.tags.len() == MAX_TAGS {
            self.tags.clear();
        }
        self.tags.insert(version, tag);
        // Another request may have built it meanwhile.
        let bytes = body.len();
        if self.bodies.insert(version, body).is_none() {
            self.order.push_back(version);
            self.bytes += bytes;
        }
        while self.bytes > MAX_BYTES && self.order.len() > 1 {
            let oldest = self.order.pop_front().and_then(|version| self.bodies.remove(&version));
            self.bytes -= oldest.map_or(0, |body| body.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A content that the client does not have; counts how often it was built.
    fn body(cache: &ContentCache, version: u128, bytes: usize, made: &mut usize) -> Bytes {
        let make = || {
            *made += 1;
            Ok(vec![version as u8; bytes])
        };
        cache.answer(Uuid::from_u128(version), |_| false, make).unwrap().1.unwrap()
    }

    #[test]
    fn a_content_is_built_once_and_its_tag_outlives_it() {
        let (cache, mut made) = (ContentCache::default(), 0);
        for version in [1, 1, 2, 1] {
            assert_eq!(body(&cache, version, 3, &mut made), vec![version as u8; 3]);
        }
        assert_eq!(made, 2);
        // One that fills the cache evicts the others, but not itself.
        for _ in 0..2 {
            body(&cache, 3, MAX_BYTES + 1, &mut made);
        }
        assert_eq!(made, 3);
        let unwanted = cache.answer(Uuid::from_u128(1), |_| true, || unreachable!("it is known"));
        assert_eq!(unwanted.unwrap(), (Etag::of(&[1; 3]), None));
        body(&cache, 1, 3, &mut made);
        assert_eq!(made, 4);
    }

    #[test]
    fn the_limit_is_exceeded_by_at_most_the_newest_content() {
        let (cache, mut made) = (ContentCache::default(), 0);
        for version in 1..100 {
            body(&cache, version, MAX_BYTES / 10, &mut made);
            let cached = cache.0.lock().unwrap();
            assert!(cached.bytes <= MAX_BYTES && cached.bodies.len() == cached.order.len());
            assert_eq!(cached.bytes, cached.bodies.values().map(Bytes::len).sum::<usize>());
        }
    }
}
