//! What two people change at once: a form that was opened before somebody else saved is not saved over
//! it, but shown again with both texts.
//!
//! A form has a digest of the values that it edits as they were stored when it was opened (its field
//! `was`). It is saved if they are still the same, with the entity tag of what was read for that, so
//! that nothing is lost in between; a change of anything else is no conflict.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::diff::{self, Row};
use super::visit::Visit;
use crate::api::Method;
use crate::base::{Error, Kind, Result};

/// How often a form is saved again because something that it does not edit has changed.
const ATTEMPTS: usize = 3;

/// A tag that nothing has: the API then refuses the request as it refuses any outdated one.
pub const OUTDATED: &[u8] = b"\"\"";

/// Hexadecimal digits of a digest: enough to tell two states of a form apart.
const DIGITS: usize = 16;

/// What a conflict says of what was entered.
pub const SAVED: &str = "It was saved since, by somebody else or in another window. What you entered \
                         is in the form below, and was not saved.";

/// What it says where a secret was entered, too.
pub const SECRET_IS_MISSING: &str = "It was saved since, by somebody else or in another window. What \
                                     you entered is in the form below, but for a key, and was not \
                                     saved. Look at it, enter a key again, and save.";

/// A value that a form edits.
#[derive(Debug)]
pub struct Edited {
    label: &'static str,
    /// As it is stored.
    theirs: String,
    /// As it was sent.
    mine: String,
}

/// What somebody else has saved, beside what was entered.
pub struct Conflict {
    pub title: String,
    pub text: &'static str,
    /// The values that differ: label, and the rows of the difference.
    pub parts: Vec<(&'static str, Vec<Row>)>,
    /// The id of the form that holds what was entered.
    pub form: String,
    /// Name, value and label of the button that saves it nevertheless; without a label there is none.
    pub button: (&'static str, String, String),
    /// The page that shows what is stored.
    pub keep: String,
}

impl Edited {
    /// A value with this label.
    pub fn new(label: &'static str, theirs: impl Into<String>, mine: impl Into<String>) -> Self {
        Edited { label, theirs: theirs.into(), mine: mine.into() }
    }

    /// A text, which is in the form under this name.
    pub fn text(visit: &Visit, name: &str, label: &'static str, theirs: &str) -> Self {
        Edited::new(label, theirs, visit.form.get(name))
    }

    /// A choice between values, which people know by their labels.
    pub fn choice<V: AsRef<str>, L: AsRef<str>>(
        visit: &Visit,
        name: &str,
        label: &'static str,
        theirs: &str,
        options: &[(V, L)],
    ) -> Self {
        let word = |value: &str| {
            let found = options.iter().find(|(option, _)| option.as_ref() == value);
            found.map_or_else(|| value.to_string(), |(_, label)| label.as_ref().to_string())
        };
        Edited::new(label, word(theirs), word(visit.form.get(name)))
    }

    fn differs(&self) -> bool {
        self.theirs.trim_end() != self.mine.trim_end()
    }
}

/// A digest of values as they are stored.
pub fn digest(edited: &[Edited]) -> String {
    let mut hasher = blake3::Hasher::new();
    for one in edited {
        hasher.update(&one.theirs.len().to_le_bytes()).update(one.theirs.as_bytes());
    }
    hasher.finalize().to_hex()[..DIGITS].to_string()
}

/// The digest for a form: that of when it was opened, until a conflict has shown what changed since.
/// `is_own` says whether the form that was sent is this one.
pub fn was(visit: &Visit, error: Option<&Error>, edited: &[Edited], is_own: bool) -> String {
    let sent = visit.form.sent("was").filter(|_| is_own && !is_conflict(error));
    sent.map_or_else(|| digest(edited), String::from)
}

/// The error of a form whose page has found that itself.
pub fn changed() -> Error {
    Error::new(Kind::Precondition, "changed_meanwhile", SAVED)
}

/// Whether what a form edits has changed since it was opened, into something else than was sent.
pub fn is_outdated(visit: &Visit, edited: &[Edited]) -> bool {
    let is_same = visit.form.sent("was").is_none_or(|was| was == digest(edited));
    !is_same && edited.iter().any(Edited::differs)
}

/// Whether a form failed because what it edits has changed.
pub fn is_conflict(error: Option<&Error>) -> bool {
    error.is_some_and(|error| error.kind() == Kind::Precondition)
}

/// The values that differ, with the rows of the difference.
pub fn parts(edited: &[Edited]) -> Vec<(&'static str, Vec<Row>)> {
    let differing = edited.iter().filter(|one| one.differs());
    let mut lines = diff::MAX_LINES;
    differing.map(|one| (one.label, diff::between(&one.theirs, &one.mine, &mut lines))).collect()
}

impl Visit {
    /// Updates what a form edits, unless somebody else has changed one of its values since the form
    /// was opened. `edited` says what they are.
    ///
    /// # Errors
    /// 412 if somebody has; those of the routes.
    pub async fn save<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Value,
        edited: impl Fn(&T) -> Vec<Edited>,
    ) -> Result<Value> {
        self.save_by(Method::Patch, path, body, edited).await
    }

    /// Does the same with a resource that is replaced as a whole, by PUT.
    ///
    /// # Errors
    /// 412 if somebody else has changed it; those of the routes.
    pub async fn replace<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Value,
        edited: impl Fn(&T) -> Vec<Edited>,
    ) -> Result<Value> {
        self.save_by(Method::Put, path, body, edited).await
    }

    /// Updates or replaces it, as the method says.
    ///
    /// # Errors
    /// 412 if somebody else has changed what the form edits; those of the routes.
    pub async fn save_by<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Value,
        edited: impl Fn(&T) -> Vec<Edited>,
    ) -> Result<Value> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (stored, tag) = self.api.get_tagged(path, &[]).await?;
            let is_same = !is_outdated(self, &edited(&stored));
            let tag = if is_same { &tag } else { OUTDATED };
            match self.api.change_if(method, path, body.clone(), tag).await {
                Err(error) if is_conflict(Some(&error)) && is_same && attempts < ATTEMPTS => {}
                done => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_of_what_is_stored_and_differences_are_with_what_was_sent() {
        let of = |theirs: [&str; 2], mine: [&str; 2]| {
            let labels = ["Name", "Text"];
            (0..2).map(|at| Edited::new(labels[at], theirs[at], mine[at])).collect::<Vec<_>>()
        };
        let one = of(["ab", "c"], ["ab", "d\n"]);
        assert_eq!(digest(&one), digest(&of(["ab", "c"], ["", ""])));
        assert_ne!(digest(&one), digest(&of(["a", "bc"], ["", ""])));
        let labels: Vec<_> =
            parts(&one).into_iter().map(|(label, rows)| (label, rows.len())).collect();
        assert_eq!(labels, [("Text", 2)]);
        assert!(parts(&of(["a", "b\n"], ["a", "b"])).is_empty());
    }
}
