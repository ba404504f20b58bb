//! The problems of a value and their paths, over several passes.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::options::UnknownFields;
use super::path::Path;
use crate::base::Issue;

/// Limit of reported problems. No client fixes more at once, and the answer stays small.
pub const MAX_ISSUES: usize = 100;

/// The state of reading one value, over all passes.
pub struct ReadState {
    /// In order of discovery.
    pub issues: Vec<Issue>,
    /// By formatted path. A value without a mark has none inside either, so paths are formatted
    /// only on the way to a problem.
    marks: HashMap<String, Placeholder>,
    /// A type refused its placeholder: another pass would end at the same path.
    pub is_stuck: bool,
    /// Values visited.
    pub values: usize,
    /// What happens to fields that a type does not have.
    pub unknown: UnknownFields,
    /// The paths of those that were reported. They have no mark: a type never sees them, so the
    /// problems of what contains them are reported too.
    unknown_paths: HashSet<String>,
}

/// What is recorded for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// Its problem is recorded: it gets a placeholder.
    Settled,
    /// A value inside it is settled.
    Around,
}

impl ReadState {
    /// The state before the first pass.
    pub fn new(unknown: UnknownFields) -> Self {
        ReadState {
            issues: Vec::new(),
            marks: HashMap::new(),
            is_stuck: false,
            values: 0,
            unknown,
            unknown_paths: HashSet::new(),
        }
    }

    /// Counts a visited value.
    pub fn count(&mut self) {
        self.values += 1;
    }

    /// Returns what is recorded for `path`.
    pub fn mark(&self, path: &Path) -> Option<Placeholder> {
        self.marks.get(&path.to_string()).copied()
    }

    /// Records why reading stopped at `path`, unless that was recorded further inside.
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

    /// Records the problem of a field that its type does not have, once.
    pub fn note_unknown(&mut self, issue: Issue) {
        if self.unknown_paths.insert(issue.path.clone()) {
            self.issues.push(issue);
        }
    }

    fn settle(&mut self, path: &Path, issues: Vec<Issue>) {
        match self.marks.insert(path.to_string(), Placeholder::Settled) {
            None => self.issues.extend(issues),
            // A problem of a value with a placeholder inside may be due to the placeholder.
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

/// Why deserialization stopped.
#[derive(Debug)]
pub enum ReadError {
    /// The value is invalid; a phrase to follow its path.
    Wrong(String),
    /// A required field is missing.
    Missing(&'static str),
    /// The problems of a text that contains JSON.
    Within(Vec<Issue>),
    /// The problem is recorded already.
    Noted,
}

impl ReadError {
    /// The value is none of the variants.
    pub fn not_one_of(variants: &[&str]) -> Self {
        ReadError::Wrong(format!("must be one of {}", variants.join(", ")))
    }
}

// No message repeats the value: it may be a secret.
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
