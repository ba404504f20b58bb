//! What is wrong with a value, and where, over several readings of it.

use std::collections::HashMap;
use std::fmt;

use super::path::Path;
use crate::base::Issue;

/// Problems after which reading stops. Nobody mends more at once, and an answer stays small.
pub const MAX_ISSUES: usize = 100;

/// What the readings of one value have found so far.
#[derive(Default)]
pub struct ReadState {
    /// In the order in which they were met.
    pub issues: Vec<Issue>,
    /// By written path. What stands in a place without a mark has none either, so that no path need
    /// be written until there is a problem, and then only around it.
    marks: HashMap<String, Placeholder>,
    /// A type refused its placeholder: reading again would end at the same place.
    pub is_stuck: bool,
    /// Values looked at.
    pub values: usize,
}

/// What is known of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// Its problem is noted: a placeholder is handed out.
    Settled,
    /// Something within it is settled.
    Around,
}

impl ReadState {
    /// Counts a value that is looked at.
    pub fn count(&mut self) {
        self.values += 1;
    }

    /// What is known of `path`.
    pub fn mark(&self, path: &Path) -> Option<Placeholder> {
        self.marks.get(&path.to_string()).copied()
    }

    /// Notes why reading stopped at `path`, unless that was noted further inside.
    pub fn record(&mut self, path: &Path, error: ReadError) -> ReadError {
        match error {
            ReadError::Noted => {}
            ReadError::Missing(field) => {
                let path = Path::Field(path, field);
                self.settle(&path, vec![Issue::new(path.to_string(), "is required")]);
            }
            ReadError::Wrong(message) => {
                self.settle(path, vec![Issue::new(path.to_string(), message)]);
            }
            ReadError::Within(issues) => self.settle(path, issues),
        }
        ReadError::Noted
    }

    fn settle(&mut self, path: &Path, issues: Vec<Issue>) {
        match self.marks.insert(path.to_string(), Placeholder::Settled) {
            None => self.issues.extend(issues),
            // What is wrong with a whole that has a placeholder in it may come from that.
            Some(Placeholder::Around) => {}
            Some(Placeholder::Settled) => self.is_stuck = true,
        }
        let mut inner = *path;
        while let Some(outer) = inner.parent() {
            self.marks.entry(outer.to_string()).or_insert(Placeholder::Around);
            inner = *outer;
        }
    }
}

/// Why a type stopped reading.
#[derive(Debug)]
pub enum ReadError {
    /// What is wrong with the value, as a phrase that follows its path.
    Wrong(String),
    /// A required field of the object is not there.
    Missing(&'static str),
    /// What is wrong in a text that holds JSON.
    Within(Vec<Issue>),
    /// It is known already.
    Noted,
}

impl ReadError {
    /// The value is none of these.
    pub fn not_one_of(variants: &[&str]) -> Self {
        ReadError::Wrong(format!("must be one of {}", variants.join(", ")))
    }
}

// None of the messages repeats what was sent: it may be a secret.
impl serde::de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        ReadError::Wrong(message.to_string())
    }

    fn invalid_type(_: serde::de::Unexpected, expected: &dyn serde::de::Expected) -> Self {
        ReadError::Wrong(format!("must be {expected}"))
    }

    fn invalid_value(_: serde::de::Unexpected, expected: &dyn serde::de::Expected) -> Self {
        ReadError::Wrong(format!("must be {expected}"))
    }

    fn invalid_length(_: usize, expected: &dyn serde::de::Expected) -> Self {
        ReadError::Wrong(format!("must be {expected}"))
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> Self {
        ReadError::not_one_of(variants)
    }

    fn unknown_field(_: &str, _: &'static [&'static str]) -> Self {
        ReadError::Wrong("must have no other fields".into())
    }

    fn missing_field(field: &'static str) -> Self {
        ReadError::Missing(field)
    }

    fn duplicate_field(field: &'static str) -> Self {
        ReadError::Wrong(format!("must have {field} once"))
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for ReadError {}
