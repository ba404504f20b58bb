//! What is wrong with a form: the API's error, by field.

use crate::base::{Error, Kind};

/// The problems of a form that was sent.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// What is wrong as a whole; empty if nothing is.
    pub summary: String,
    /// The problems that are about a field.
    pub issues: Vec<FieldProblem>,
    /// Whether something else failed, or refused it, than what was entered.
    is_elsewhere: bool,
    /// Paths whose field has another name in the form.
    renamed: Vec<(&'static str, &'static str)>,
    /// What people read beside fields of the form.
    labels: Vec<(String, String)>,
}

/// A problem with a field.
#[derive(Clone, Debug)]
pub struct FieldProblem {
    /// The API's path of the field.
    pub path: String,
    pub message: String,
    /// Whether the message says what it is about; otherwise it follows the field's name.
    is_whole: bool,
}

impl Problems {
    /// The problems that an error reports.
    pub fn of(error: &Error) -> Self {
        let message = error.message().to_string();
        let issues = error.issues().iter().map(|issue| FieldProblem {
            path: issue.path.clone(),
            message: issue.message.clone(),
            is_whole: false,
        });
        let mut issues: Vec<_> = issues.collect();
        if let (true, Some(path)) = (issues.is_empty(), error.path()) {
            issues.push(FieldProblem { path: path.into(), message, is_whole: true });
            return Problems { issues, ..Problems::default() };
        }
        let summary = if issues.is_empty() { sentence(&message) } else { String::new() };
        let is_elsewhere =
            matches!(error.kind(), Kind::Upstream | Kind::Busy | Kind::Limited | Kind::Forbidden);
        Problems { summary, issues, is_elsewhere, ..Problems::default() }
    }

    /// What is above them.
    pub fn heading(&self) -> &'static str {
        if self.is_elsewhere { "It was not done" } else { "Check what you entered" }
    }

    /// All problems with fields: the field's name in the form, and a sentence.
    pub fn sentences(&self) -> Vec<(&str, String)> {
        let all = self.issues.iter().map(|issue| {
            let field = self.field(&issue.path);
            if issue.is_whole {
                return (field, sentence(&issue.message));
            }
            let label = self.label_of(field).map_or_else(|| words(field), String::from);
            let colon = if self.inner(&issue.path).is_some() { ":" } else { "" };
            (field, sentence(&format!("{label}{colon} {}", self.said(issue))))
        });
        all.collect()
    }

    /// All of it in one text, for where no field is beside it.
    pub fn told(&self) -> String {
        if self.issues.is_empty() {
            return self.summary.clone();
        }
        let told = |(issue, (field, said)): (&FieldProblem, (&str, String))| {
            let label = self.label_of(field).filter(|_| issue.is_whole);
            label.map_or(said, |label| sentence(&format!("{label}: {}", issue.message)))
        };
        self.issues.iter().zip(self.sentences()).map(told).collect::<Vec<_>>().join(" ")
    }

    fn label_of(&self, field: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(name, _)| name == field);
        found.map(|(_, label)| label.as_str())
    }

    /// Calls the form's field `name` by its label.
    pub fn label(mut self, name: impl Into<String>, label: impl Into<String>) -> Self {
        self.labels.push((name.into(), label.into()));
        self
    }

    /// Shows the problems of the API's field `path`, and of what is in it, at the form's field `name`.
    pub fn rename(mut self, path: &'static str, name: &'static str) -> Self {
        self.renamed.push((path, name));
        self
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        !self.summary.is_empty() || !self.issues.is_empty()
    }

    /// The name of the form's field that a path is about: of the one that has most of the path.
    pub fn field<'a>(&self, path: &'a str) -> &'a str {
        // A word of a list has no field of its own.
        let list = path.strip_suffix(']').and_then(|path| path.rsplit_once('['));
        let own = list.map_or(path, |(list, _)| list);
        self.renaming(path).map_or(own, |(_, name)| name)
    }

    fn renaming(&self, path: &str) -> Option<(&'static str, &'static str)> {
        let is_below = |rest: &str| rest.is_empty() || rest.starts_with(['[', '.']);
        let is_it = |from: &str| path.strip_prefix(from).is_some_and(is_below);
        let found = self.renamed.iter().filter(|(from, _)| is_it(from));
        found.max_by_key(|(from, _)| from.len()).copied()
    }

    /// What in an object a path is about that is entered in one field.
    fn inner<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (from, _) = self.renaming(path)?;
        path.strip_prefix(from)?.strip_prefix('.')
    }

    fn said(&self, issue: &FieldProblem) -> String {
        match self.inner(&issue.path) {
            Some(inner) => format!("\"{inner}\" {}", issue.message),
            None => issue.message.clone(),
        }
    }

    /// The messages about a field of the form.
    pub fn at(&self, name: &str) -> Vec<String> {
        let about = self.issues.iter().filter(|issue| self.field(&issue.path) == name);
        about.map(|issue| self.said(issue)).collect()
    }
}

/// The words of a field's name: `draft.newPassword` is `new password`. Names in capitals stay.
fn words(name: &str) -> String {
    let name = name.rsplit('.').next().unwrap_or(name);
    if !name.contains(char::is_lowercase) {
        return name.into();
    }
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
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
        let issues = vec![
            Issue::new("user.email", "must be an address"),
            Issue::new("newPassword", "is short"),
        ];
        let problems = Problems::of(&Error::invalid(issues)).rename("user.email", "email");
        assert_eq!(problems.at("email"), ["must be an address"]);
        assert!(problems.any() && problems.summary.is_empty());
        assert_eq!(problems.sentences()[1], ("newPassword", "New password is short.".into()));
        let nested = vec![Issue::new("a.newName", "is short"), Issue::new("a.NAME", "is short")];
        let nested = Problems::of(&Error::invalid(nested));
        let sentences: Vec<_> = nested.sentences().into_iter().map(|(_, text)| text).collect();
        assert_eq!(sentences, ["New name is short.", "NAME is short."]);
        let issue = vec![Issue::new("source", "is long")];
        let labelled = Problems::of(&Error::invalid(issue)).label("source", "Text");
        assert_eq!(labelled.sentences(), [("source", "Text is long.".into())]);
        let missing = Problems::of(&Error::no_such("version").at("version"));
        assert_eq!(missing.at("version"), ["there is no such version"]);
        assert_eq!(missing.sentences(), [("version", "There is no such version.".into())]);
        let issue = vec![Issue::new("access[3]", "is no scope")];
        let inside = Problems::of(&Error::invalid(issue)).rename("access", "scopes");
        assert_eq!(inside.at("scopes"), ["is no scope"]);
        assert!(inside.rename("acc", "other").at("other").is_empty());
        let issues = ["skills[0]", "config.url", "config.url[2].x", "config.other"];
        let issues = issues.map(|path| Issue::new(path, path)).to_vec();
        let owned = Problems::of(&Error::invalid(issues)).rename("config", "config");
        let owned = owned.rename("config.url", "url");
        assert_eq!(owned.at("skills"), ["skills[0]"]);
        assert_eq!(owned.at("url"), ["config.url", "config.url[2].x"]);
        assert_eq!(owned.at("config"), ["\"other\" config.other"]);
        assert_eq!(owned.field("rules[1].value"), "rules[1].value");
        let conflict = Problems::of(&Error::conflict("taken", "it exists already"));
        assert_eq!(conflict.summary, "It exists already.");
        assert!(!Problems::default().any());
    }

    #[test]
    fn what_is_wrong_in_an_object_is_named_in_the_words_of_the_form() {
        let of = |path: &str| {
            let issue = vec![Issue::new(path, "must be a string")];
            let problems = Problems::of(&Error::invalid(issue)).rename("variables", "variables");
            let (_, sentence) = problems.sentences().remove(0);
            [problems.at("variables").join(""), sentence]
        };
        assert_eq!(of("variables"), ["must be a string", "Variables must be a string."]);
        let inner = ["\"X\" must be a string", "Variables: \"X\" must be a string."];
        assert_eq!(of("variables.X"), inner);
    }

    #[test]
    fn what_is_told_without_a_form_says_of_which_field_it_is() {
        let told = |error: &Error| {
            let problems = Problems::of(error).rename("left.version", "left");
            problems.label("left", "Compare").label("most", "At most").told()
        };
        let issues =
            vec![Issue::new("most", "must be a number"), Issue::new("promptName", "is short")];
        let both = "At most must be a number. Prompt name is short.";
        assert_eq!(told(&Error::invalid(issues)), both);
        let missing = Error::no_such("version").at("left.version");
        assert_eq!(told(&missing), "Compare: there is no such version.");
        assert_eq!(told(&Error::conflict("taken", "it exists already")), "It exists already.");
    }

    #[test]
    fn what_failed_elsewhere_is_not_blamed_on_what_was_entered() {
        let heading = |error: &Error| Problems::of(error).heading();
        let failed = Error::new(Kind::Upstream, "sign_in_provider_failed", "it is away");
        assert_eq!(heading(&failed), "It was not done");
        let wrong = Error::forbidden("wrong_password", "the password is wrong");
        assert_eq!(heading(&wrong.at("password")), "Check what you entered");
        assert_eq!(heading(&Error::invalid_at("name", "is short")), "Check what you entered");
    }
}
