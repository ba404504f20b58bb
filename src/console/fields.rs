//! The fields of a form or of a query.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::base::lines;

/// Names that contain one of these hold secrets, which are never shown again.
const SECRET: [&str; 4] = ["password", "secret", "token", "apikey"];

/// What the name of a field begins with in which what fits in another one can be picked.
const PICK: &str = "pick.";

/// What the names of the fields with values of variables begin with.
const VARIABLE: &str = "v.";

/// Fields with their values, in the order in which they were sent. A name may be there repeatedly.
#[derive(Clone, Debug, Default)]
pub struct Fields(Arc<Vec<(String, String)>>);

impl Fields {
    /// Decodes `application/x-www-form-urlencoded`. Line ends become those of the API: browsers send
    /// CRLF, and a text must not change its hash by being edited.
    pub fn parse(encoded: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(encoded);
        Fields::of(pairs.map(|(name, value)| (name.into_owned(), value)))
    }

    /// These fields, with the line ends of the API.
    pub fn of<'a>(pairs: impl Iterator<Item = (String, Cow<'a, str>)>) -> Self {
        let line_ends = |value: Cow<str>| lines::with_line_feeds(&value).into_owned();
        Fields(Arc::new(pairs.map(|(name, value)| (name, line_ends(value))).collect()))
    }

    /// The value of a field as it was sent.
    pub fn sent(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The value of a field; empty if it was not sent.
    pub fn get(&self, name: &str) -> &str {
        self.sent(name).unwrap_or_default()
    }

    /// The value of a field without blanks around it; `None` if that is empty.
    pub fn some(&self, name: &str) -> Option<&str> {
        self.sent(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The values of all fields of this name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// What was entered for variables of a prompt (`ui::values`), by name.
    pub fn variables(&self) -> Fields {
        self.below(VARIABLE)
    }

    /// The same as JSON, without those that are empty.
    pub fn filled_variables(&self) -> Map<String, Value> {
        let entered = self.variables();
        let filled = entered.pairs().filter(|(_, value)| !value.is_empty());
        filled.map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All fields.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The fields that a person filled, but for secrets: what a form is filled with again.
    pub fn kept(&self) -> impl Iterator<Item = (&str, &str)> {
        let kept = self.0.iter().filter(|(name, _)| !name.starts_with('_') && !is_secret(name));
        kept.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These fields, with what was picked for one of them in place of what was typed.
    pub fn picked(self) -> Self {
        let picks = self.below(PICK);
        if picks.is_empty() {
            return self;
        }
        let typed = self.0.iter().filter(|(name, _)| !name.starts_with(PICK));
        let field = |(name, value): &(String, String)| {
            let pick = picks.some(name).map(String::from);
            (name.clone(), pick.unwrap_or_else(|| value.clone()))
        };
        Fields(Arc::new(typed.map(field).collect()))
    }

    /// Those whose names begin with `prefix`, without it.
    pub fn below(&self, prefix: &str) -> Self {
        let stripped = self.0.iter().filter_map(|(name, value)| {
            Some((name.strip_prefix(prefix)?.to_string(), value.clone()))
        });
        Fields(Arc::new(stripped.collect()))
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|secret| name.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_picked_takes_the_place_of_what_was_typed() {
        let fields = |text: &str| {
            let all = Fields::parse(text.as_bytes()).picked();
            all.pairs().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(fields("a=1&b=2"), ["a=1", "b=2"]);
        assert_eq!(fields("a=1&pick.a=&b=2"), ["a=1", "b=2"]);
        assert_eq!(fields("a=1&pick.a=3&b=2&pick.none=4"), ["a=3", "b=2"]);
    }
}
