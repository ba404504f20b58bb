//! Answers that never change: made once and held in memory once, however many read them or wait
//! for them, and told apart by their tags without being made at all.
//!
//! They are kept by their marks ([`crate::api::ContentVersion`]). Whether somebody may have one is not
//! decided here: they are looked up for those alone who may read the thing at that moment.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use bytes::Bytes;
use uuid::Uuid;

use super::etag::Etag;
use crate::base::Result;

/// At most 16 MiB of answers are held, the one read last in any case: a few thousand prompts as
/// most teams have them, or a dozen of the largest.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// At most 10,000 tags: half a megabyte. Beyond, all are forgotten and made again.
const MAX_TAGS: usize = 10_000;

/// What is kept.
#[derive(Default)]
pub struct ContentCache(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    bodies: HashMap<Uuid, Bytes>,
    /// Their marks, the oldest first.
    order: VecDeque<Uuid>,
    /// Their bytes together.
    bytes: usize,
    tags: HashMap<Uuid, Etag>,
}

impl ContentCache {
    /// The tag of the answer with this mark, and the answer itself, unless `has` says of its tag
    /// that it is not wanted.
    ///
    /// # Errors
    /// Those of `make`, which is called for what is not there.
    pub fn answer(
        &self,
        version: Uuid,
        has: impl Fn(&Etag) -> bool,
        make: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<(Etag, Option<Bytes>)> {
        let (tag, body) = {
            let cached = self.0.lock().expect("nobody panics holding it");
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
        self.0.lock().expect("nobody panics holding it").insert(version, tag, body.clone());
        Ok(if has(&tag) { (tag, None) } else { (tag, Some(body)) })
    }
}

impl Contents {
    fn insert(&mut self, version: Uuid, tag: Etag, body: Bytes) {
        if self.tags.len() == MAX_TAGS {
            self.tags.clear();
        }
        self.tags.insert(version, tag);
        // Somebody else may have made it meanwhile.
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

    /// The body of an answer that nobody has; how often it was made is counted.
    fn body(cache: &ContentCache, version: u128, bytes: usize, made: &mut usize) -> Bytes {
        let make = || {
            *made += 1;
            Ok(vec![version as u8; bytes])
        };
        cache.answer(Uuid::from_u128(version), |_| false, make).unwrap().1.unwrap()
    }

    #[test]
    fn an_answer_is_made_once_and_its_tag_outlives_it() {
        let (cache, mut made) = (ContentCache::default(), 0);
        for version in [1, 1, 2, 1] {
            assert_eq!(body(&cache, version, 3, &mut made), vec![version as u8; 3]);
        }
        assert_eq!(made, 2);
        // One that fills all the room puts the others out, but not itself.
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
    fn the_room_is_never_exceeded_by_more_than_the_newest() {
        let (cache, mut made) = (ContentCache::default(), 0);
        for version in 1..100 {
            body(&cache, version, MAX_BYTES / 10, &mut made);
            let cached = cache.0.lock().unwrap();
            assert!(cached.bytes <= MAX_BYTES && cached.bodies.len() == cached.order.len());
            assert_eq!(cached.bytes, cached.bodies.values().map(Bytes::len).sum::<usize>());
        }
    }
}
