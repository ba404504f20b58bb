//! Answers that many wait for at once: made once, held in memory once, and told apart by their
//! tags without being made at all.
//!
//! They are kept by their marks ([`crate::api::Watched`]). Whether somebody may have one is not
//! decided here: they are looked up for those alone who may read the thing at that moment.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use uuid::Uuid;

use super::gate::etag;
use crate::base::Result;

/// Whoever waited for one thing is answered within moments, so a few are enough. Of the largest
/// that is some 10 MiB.
const MAX_BODIES: usize = 4;

/// At most 10,000 tags: a megabyte. Beyond, all are forgotten and made again.
const MAX_TAGS: usize = 10_000;

/// What is kept.
#[derive(Default)]
pub struct Shared(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The newest last.
    bodies: VecDeque<(Uuid, Bytes)>,
    tags: HashMap<Uuid, Arc<str>>,
}

impl Shared {
    /// The tag of the answer with this mark.
    ///
    /// # Errors
    /// Those of `make`, which is called if it is not known.
    pub fn tag(&self, mark: Uuid, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Arc<str>> {
        let known = self.0.lock().expect("nobody panics holding it").tags.get(&mark).cloned();
        match known {
            Some(tag) => Ok(tag),
            None => self.make(mark, make).map(|(tag, _)| tag),
        }
    }

    /// The answer with this mark.
    ///
    /// # Errors
    /// Those of `make`, which is called if it is not there.
    pub fn body(&self, mark: Uuid, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Bytes> {
        let there = {
            let kept = self.0.lock().expect("nobody panics holding it");
            kept.bodies.iter().find(|(of, _)| *of == mark).map(|(_, body)| body.clone())
        };
        match there {
            Some(body) => Ok(body),
            None => self.make(mark, make).map(|(_, body)| body),
        }
    }

    fn make(
        &self,
        mark: Uuid,
        make: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<(Arc<str>, Bytes)> {
        let body = Bytes::from(make()?);
        let tag: Arc<str> = etag(&body).into();
        let mut kept = self.0.lock().expect("nobody panics holding it");
        if kept.tags.len() == MAX_TAGS {
            kept.tags.clear();
        }
        kept.tags.insert(mark, tag.clone());
        if kept.bodies.iter().all(|(of, _)| *of != mark) {
            if kept.bodies.len() == MAX_BODIES {
                kept.bodies.pop_front();
            }
            kept.bodies.push_back((mark, body.clone()));
        }
        Ok((tag, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_made_once_and_its_tag_outlives_it() {
        let shared = Shared::default();
        let mut made = 0;
        let mut body = |mark: u128| {
            let make = || {
                made += 1;
                Ok(mark.to_string().into_bytes())
            };
            shared.body(Uuid::from_u128(mark), make).unwrap()
        };
        for mark in [1, 1, 2, 1] {
            assert_eq!(body(mark), mark.to_string());
        }
        for mark in 2..=1 + MAX_BODIES as u128 {
            body(mark);
        }
        assert_eq!(body(1), "1");
        assert_eq!(made, 2 + MAX_BODIES);
        let tag = shared.tag(Uuid::from_u128(2), || unreachable!("it is known")).unwrap();
        assert_eq!(*tag, *etag(b"2"));
        assert!(shared.0.lock().unwrap().bodies.len() <= MAX_BODIES);
    }
}
