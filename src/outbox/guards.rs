//! The guards of an event, as they are in the keys of the log: what it belongs to, such as a
//! restrictable resource, an agent or a user. Whether one hides the event is asked when the log is
//! read, not when the event is written: an agent may be in another fleet by then.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use crate::base::{Id, Result};
use crate::store::Key;

/// A key has at most 16 guards, 272 bytes, since it is in five indexes: an environment, a registry or
/// two, and agents. Of an event with more, the record has the others.
const MAX_IN_KEY: usize = 16;

/// What asks whether a guard hides events.
type IsHidden<'a> = Box<dyn Fn(Id<()>) -> Result<bool> + 'a>;

/// The guards whose events are hidden from a reader of the log.
pub struct HiddenGuards<'a> {
    is_hidden: Option<IsHidden<'a>>,
    /// What was asked before: a page of the log has few guards, in many entries.
    known: RefCell<HashMap<Id<()>, bool>>,
}

impl<'a> HiddenGuards<'a> {
    /// None: the reader sees everything.
    pub fn none() -> Self {
        HiddenGuards { is_hidden: None, known: RefCell::default() }
    }

    /// Those that a function says are hidden. It is asked once for each.
    pub fn by(is_hidden: impl Fn(Id<()>) -> Result<bool> + 'a) -> Self {
        HiddenGuards { is_hidden: Some(Box::new(is_hidden)), known: RefCell::default() }
    }

    /// Whether no guard is hidden.
    pub(super) fn is_none(&self) -> bool {
        self.is_hidden.is_none()
    }

    fn any_of(&self, guards: &[Id<()>]) -> Result<bool> {
        for guard in guards {
            if self.has(*guard)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has(&self, guard: Id<()>) -> Result<bool> {
        let Some(is_hidden) = &self.is_hidden else { return Ok(false) };
        if let Some(known) = self.known.borrow().get(&guard) {
            return Ok(*known);
        }
        let found = is_hidden(guard)?;
        self.known.borrow_mut().insert(guard, found);
        Ok(found)
    }
}

impl fmt::Debug for HiddenGuards<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "nothing is hidden" } else { "some is hidden" })
    }
}

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
        hidden: &HiddenGuards,
        all: impl FnOnce() -> Result<Vec<Id<()>>>,
    ) -> Result<bool> {
        if hidden.is_none() {
            return Ok(false);
        }
        Ok(hidden.any_of(&self.first)? || self.has_more && hidden.any_of(&all()?)?)
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
                let one = Id::new(Uuid::from_u128(n));
                let hidden = HiddenGuards::by(|guard| Ok(guard == one));
                let is_hidden = key.are_hidden(&hidden, || Ok(all.clone())).unwrap();
                assert_eq!(is_hidden, n < number, "{n} of {number}");
            }
            assert!(!key.are_hidden(&HiddenGuards::none(), || Ok(all.clone())).unwrap());
        }
    }
}
