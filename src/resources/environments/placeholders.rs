//! The values of `${NAME}` in the configuration of tools: secrets and variables of the environment
//! (reference: registries-and-templates, "Placeholders of tools").
//!
//! They are filled in for the manifest that is posted to a provider, and nowhere else: what is filled
//! must be neither stored nor answered.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::environment::Environment;
use super::secrets::{Secret, find_secret, secret_value};
use super::variables::variable_value;
use crate::base::{Error, Id, JsonMap, Kind, Result, Time, VariableName};
use crate::store::{Record as _, View};
use crate::templates::{dollars, is_dollar, replace_placeholders};

/// The filled texts of a manifest have at most 4 MiB in total: a configuration of 1 MiB can mention a
/// value of 100,000 characters a hundred thousand times.
const MAX_FILLED_BYTES: usize = 4 * 1024 * 1024;

/// What stands behind a `${NAME}`.
pub enum PlaceholderSource {
    /// A secret, with the time at which its value was set: every value has another one.
    Secret(Id<Secret>, Time),
    /// A variable, with its value.
    Variable(String),
}

/// Returns what a name stands for in an environment, without decrypting anything: a secret comes before
/// a variable of the same name, and `DOLLAR`, `DOLLAR_1` … are `$` without either.
pub fn placeholder_source(
    view: &View,
    environment: Id<Environment>,
    name: &VariableName,
) -> Result<Option<PlaceholderSource>> {
    if let Some(secret) = find_secret(view, environment, name)? {
        let (_, id) = secret.key();
        return Ok(Some(PlaceholderSource::Secret(id, secret.updated_at)));
    }
    let value = variable_value(view, environment, name)?;
    let value = value.or_else(|| is_dollar(name).then(|| "$".to_owned()));
    Ok(value.map(PlaceholderSource::Variable))
}

/// Returns the first name that stands for `$` in an environment: `${DOLLAR}{HOME}` is how the text
/// `${HOME}` is written, unless the environment has a value for `DOLLAR`.
pub fn dollar(view: &View, environment: Id<Environment>) -> Result<String> {
    // An environment has at most 500 secrets and 500 variables.
    for name in dollars() {
        let Ok(known) = VariableName::parse(name.as_str()) else { break };
        let has_secret = find_secret(view, environment, &known)?.is_some();
        if !has_secret && variable_value(view, environment, &known)?.is_none() {
            return Ok(name);
        }
    }
    Err(Error::internal("an environment has more names than it may"))
}

/// Fills the configurations of a manifest's tools. It has no `Debug`: it holds secrets.
pub struct PlaceholderFiller<'a> {
    view: View<'a>,
    environment: Id<Environment>,
    values: BTreeMap<String, Option<String>>,
    sources: BTreeMap<VariableName, PlaceholderSource>,
    missing: BTreeSet<String>,
    bytes_left: usize,
}

impl<'a> PlaceholderFiller<'a> {
    /// Creates one for a manifest of an environment.
    pub fn new(view: View<'a>, environment: Id<Environment>) -> Self {
        PlaceholderFiller {
            view,
            environment,
            values: BTreeMap::new(),
            sources: BTreeMap::new(),
            missing: BTreeSet::new(),
            bytes_left: MAX_FILLED_BYTES,
        }
    }

    /// Returns a configuration with the `${NAME}` in its strings filled, at any depth. A secret comes
    /// before a variable of the same name; a name without a value is left in place. Values are not
    /// expanded again.
    ///
    /// # Errors
    /// 413 if the configurations filled so far exceed 4 MiB; 409 if a secret cannot be decrypted.
    pub fn fill(&mut self, config: &JsonMap) -> Result<JsonMap> {
        let fields = config.to_map().into_iter();
        let filled = fields.map(|(name, value)| Ok((name, self.filled(&value)?)));
        filled.collect::<Result<Map<_, _>>>().map(Into::into)
    }

    /// Returns what was filled in.
    pub fn sources(&self) -> &BTreeMap<VariableName, PlaceholderSource> {
        &self.sources
    }

    /// Returns the names of the secrets that were filled in.
    pub fn secrets(&self) -> BTreeSet<VariableName> {
        let is_secret =
            |source: &PlaceholderSource| matches!(source, PlaceholderSource::Secret(..));
        let secrets = self.sources.iter().filter(|(_, source)| is_secret(source));
        secrets.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the names that have no value.
    pub fn missing(&self) -> &BTreeSet<String> {
        &self.missing
    }

    fn filled(&mut self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => Value::String(self.filled_text(text)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.filled(item)).collect::<Result<_>>()?)
            }
            Value::Object(fields) => {
                let fields =
                    fields.iter().map(|(name, value)| Ok((name.clone(), self.filled(value)?)));
                Value::Object(fields.collect::<Result<_>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn filled_text(&mut self, text: &str) -> Result<String> {
        self.spend(text.len())?;
        replace_placeholders(text, |name, filled| {
            if !self.values.contains_key(name) {
                let value = self.value(name)?;
                self.values.insert(name.to_string(), value);
            }
            let Some(Some(value)) = self.values.get(name) else { return Ok(false) };
            filled.push_str(value);
            let length = value.len();
            self.spend(length)?;
            Ok(true)
        })
    }

    fn value(&mut self, name: &str) -> Result<Option<String>> {
        let Ok(known) = VariableName::parse(name) else { return Ok(None) };
        let Some(source) = placeholder_source(&self.view, self.environment, &known)? else {
            self.missing.insert(name.to_string());
            return Ok(None);
        };
        let value = match &source {
            PlaceholderSource::Secret(..) => secret_value(&self.view, self.environment, &known)?,
            PlaceholderSource::Variable(value) => Some(value.clone()),
        };
        self.sources.insert(known, source);
        Ok(value)
    }

    fn spend(&mut self, bytes: usize) -> Result<()> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(|| {
            Error::new(
                Kind::TooLarge,
                "manifest_too_large",
                "the configurations of the tools have more than 4 MiB with their values filled in",
            )
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::make;
    use super::super::{secrets, variables};
    use super::*;
    use crate::resources::testing::Fixture;

    fn map(value: Value) -> JsonMap {
        value.as_object().unwrap().clone().into()
    }

    #[test]
    fn secrets_and_variables_fill_strings_at_any_depth_and_once() {
        let fixture = Fixture::new();
        let at = make(&fixture, json!({"slug": "a", "name": "A"})).unwrap().id;
        secrets::tests::put(&fixture, at, "TOKEN", "${HOST}").unwrap();
        secrets::tests::put(&fixture, at, "BOTH", "secret").unwrap();
        variables::tests::put(&fixture, at, "BOTH", "variable").unwrap();
        variables::tests::put(&fixture, at, "HOST", "a.test").unwrap();
        let config = map(json!({
            "${HOST}": null, "n": 1,
            "headers": [{"a": "Bearer ${TOKEN}, ${BOTH}${BOTH}"}, "${HOST}:80", "$HOST ${NONE} ${1}"],
        }));
        let filled = |view: &View| {
            let mut filler = PlaceholderFiller::new(*view, at);
            let filled = filler.fill(&config)?;
            Ok((filled, filler.secrets(), filler.missing().clone()))
        };
        let (filled, secrets, missing) = fixture.store.read_now(fixture.org, filled).unwrap();
        assert_eq!(
            json!(filled),
            json!({
                "${HOST}": null, "n": 1,
                "headers": [{"a": "Bearer ${HOST}, secretsecret"}, "a.test:80", "$HOST ${NONE} ${1}"],
            })
        );
        assert_eq!(json!(secrets), json!(["BOTH", "TOKEN"]));
        assert_eq!(json!(missing), json!(["NONE"]));
    }

    #[test]
    fn a_name_of_the_dollar_is_free_whatever_the_environment_has() {
        let fixture = Fixture::new();
        let at = make(&fixture, json!({"slug": "a", "name": "A"})).unwrap().id;
        variables::tests::put(&fixture, at, "HOME", "/root").unwrap();
        let config = map(json!({"a": "${DOLLAR}{HOME} is ${HOME}", "b": "${DOLLAR_2}{HOME}"}));
        let filled = |view: &View| {
            let mut filler = PlaceholderFiller::new(*view, at);
            let filled = filler.fill(&config)?;
            Ok((json!(filled), filler.missing().len()))
        };
        let (text, missing) = fixture.store.read_now(fixture.org, filled).unwrap();
        let free = || fixture.store.read_now(fixture.org, |view| dollar(view, at)).unwrap();
        assert_eq!((text, missing), (json!({"a": "${HOME} is /root", "b": "${HOME}"}), 0));
        assert_eq!(free(), "DOLLAR");
        variables::tests::put(&fixture, at, "DOLLAR", "USD").unwrap();
        secrets::tests::put(&fixture, at, "DOLLAR_1", "hush").unwrap();
        let (text, _) = fixture.store.read_now(fixture.org, filled).unwrap();
        assert_eq!(text, json!({"a": "USD{HOME} is /root", "b": "${HOME}"}));
        assert_eq!(free(), "DOLLAR_2");
    }

    #[test]
    fn what_is_filled_is_bounded_over_all_tools() {
        let fixture = Fixture::new();
        let at = make(&fixture, json!({"slug": "a", "name": "A"})).unwrap().id;
        secrets::tests::put(&fixture, at, "A", &"x".repeat(100_000)).unwrap();
        let config = map(json!({"a": "${A}".repeat(20)}));
        let filled = |view: &View| {
            let mut filler = PlaceholderFiller::new(*view, at);
            filler.fill(&config)?;
            filler.fill(&config)?;
            Ok(filler.fill(&config).unwrap_err())
        };
        let error = fixture.store.read_now(fixture.org, filled).unwrap();
        assert_eq!((error.kind(), error.code()), (Kind::TooLarge, "manifest_too_large"));
    }
}
