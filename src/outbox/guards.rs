//! The guards of an event as they are in the keys of the log: the restrictable resources that it
//! belongs to.

use std::collections::BTreeSet;

use crate::base::{Id, Result};
use crate::store::Key;

/// A key has at most 16 guards, 272 bytes, since it is in five indexes: an environment, a registry or
/// two, and the fleets of the agents. Of an event with more, the record has the others.
const MAX_IN_KEY: usize = 16;

/// The first guards of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    first: Vec<Id<()>>,
    has_more: bool,
}

impl Guards {
    /// Returns the key of these guards.
    pub fn of(guards: &[Id<()>]) -> Self {
        let first = guards.iter().take(MAX_IN_KEY).copied().collect();
        Guards { first, has_more: guards.len() > MAX_IN_KEY }
    }

    /// Whether one of the guards is hidden. `all` reads all guards, if the key has only the first.
    ///
    /// # Errors
    /// Those of `all`.
    pub fn are_hidden(
        &self,
        hidden: &BTreeSet<Id<()>>,
        all: impl FnOnce() -> Result<Vec<Id<()>>>,
    ) -> Result<bool> {
        if hidden.is_empty() {
            return Ok(false);
        }
        if self.first.iter().any(|guard| hidden.contains(guard)) {
            return Ok(true);
        }
        Ok(self.has_more && all()?.iter().any(|guard| hidden.contains(guard)))
    }
}

impl Key for Guards {
    fn write(&self, out: &mut Vec<u8>) {
        for guard in &self.first {
            out.push(1);
            guard.write(out);
        }
        out.push(if self.has_more { 2 } else { 0 });
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut first = Vec::new();
        loop {
            match u8::read(bytes)? {
                1 => first.push(Id::read(bytes)?),
                end @ (0 | 2) => return Some(Guards { first, has_more: end == 2 }),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn ids(numbers: std::ops::Range<u128>) -> Vec<Id<()>> {
        numbers.map(|n| Id::new(Uuid::from_u128(n))).collect()
    }

    #[test]
    fn any_hidden_guard_hides_also_one_that_is_not_in_the_key() {
        for number in [0, 1, 16, 17, 200] {
            let all = ids(0..number);
            let key = Guards::of(&all);
            assert_eq!(Guards::read(&mut key.to_bytes().as_slice()).as_ref(), Some(&key));
            assert!(key.to_bytes().len() <= 273);
            for n in 0..=number {
                let hidden = BTreeSet::from([Id::new(Uuid::from_u128(n))]);
                let is_hidden = key.are_hidden(&hidden, || Ok(all.clone())).unwrap();
                assert_eq!(is_hidden, n < number, "{n} of {number}");
            }
            assert!(!key.are_hidden(&BTreeSet::new(), || Ok(all.clone())).unwrap());
        }
    }
}
