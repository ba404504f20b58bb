//! What is wrong with a form: the API's error, by field.

use crate::base::{Error, Kind};

/// The problems of a form that was sent.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// What is wrong as a whole; empty if nothing is.
    pub summary: String,
    /// Path and message of each problem that is about a field.
    pub issues: Vec<(String, String)>,
    /// Paths whose field has another name in the form.
    renamed: Vec<(&'static str, &'static str)>,
}

impl Problems {
    /// The problems that an error reports.
    pub fn of(error: &Error) -> Self {
        let issues = error.issues().iter();
        let issues: Vec<_> =
            issues.map(|issue| (issue.path.clone(), issue.message.clone())).collect();
        let path = error.path().filter(|_| issues.is_empty()).map(String::from);
        let message = error.message().to_string();
        match path {
            Some(path) => {
                Problems { summary: String::new(), issues: vec![(path, message)], renamed: vec![] }
            }
            None if issues.is_empty() => {
                Problems { summary: sentence(&message), issues, renamed: vec![] }
            }
            None => Problems { summary: String::new(), issues, renamed: vec![] },
        }
    }

    /// Shows the problems of the API's field `path` at the form's field `name`.
    pub fn rename(mut self, path: &'static str, name: &'static str) -> Self {
        self.renamed.push((path, name));
        self
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        !self.summary.is_empty() || !self.issues.is_empty()
    }

    /// The name of the form's field that a path is about.
    pub fn field<'a>(&self, path: &'a str) -> &'a str {
        let found = self.renamed.iter().find(|(from, _)| *from == path);
        found.map_or(path, |(_, name)| name)
    }

    /// The messages about a field of the form.
    pub fn at(&self, name: &str) -> Vec<&str> {
        let about = self.issues.iter().filter(|(path, _)| self.field(path) == name);
        about.map(|(_, message)| message.as_str()).collect()
    }
}

/// Whether a form is shown again with this error. Others have pages of their own.
pub fn is_about_the_form(error: &Error) -> bool {
    matches!(
        error.kind(),
        Kind::Invalid
            | Kind::Forbidden
            | Kind::Conflict
            | Kind::Precondition
            | Kind::NotFound
            | Kind::TooLarge
            | Kind::Limited
            | Kind::Upstream
            | Kind::Busy
    )
}

/// A message as a sentence: messages of the API begin in lower case and have no full stop.
pub fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    let text = first.unwrap_or_default() + letters.as_str();
    if text.ends_with(['.', '!', '?']) || text.is_empty() { text } else { text + "." }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Issue;

    #[test]
    fn problems_are_at_their_fields_or_above_the_form() {
        let issues = vec![Issue::new("user.email", "must be an address"), Issue::new("a", "b")];
        let problems = Problems::of(&Error::invalid(issues)).rename("user.email", "email");
        assert_eq!(problems.at("email"), ["must be an address"]);
        assert!(problems.any() && problems.summary.is_empty());
        let missing = Problems::of(&Error::no_such("version").at("version"));
        assert_eq!(missing.at("version"), ["there is no such version"]);
        let conflict = Problems::of(&Error::conflict("taken", "it exists already"));
        assert_eq!(conflict.summary, "It exists already.");
        assert!(!Problems::default().any());
    }
}
