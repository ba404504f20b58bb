//! What a deployment needs of an environment besides its variables: the endpoint of a provider, and
//! the values that the placeholders of tools stand for.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::environment::Environment;
use super::variables::variable;
use crate::api::Resource;
use crate::base::{Error, HttpUrl, Id, JsonMap, Kind, Result, VariableName};
use crate::outbox::{About, EventType, publish};
use crate::store::{Tx, View};
use crate::templates::replace_placeholders;

#[cfg(not(test))]
pub(super) const RESOURCE: Resource =
    Resource { events: &[EventType::EnvironmentInaccessible], ..Resource::EMPTY };

#[cfg(test)]
pub(super) use tests::RESOURCE;

/// The filled texts of a manifest have at most 4 MiB in total: a short configuration can name a long
/// value many times.
const MAX_FILLED_BYTES: usize = 4 * 1024 * 1024;

// ── Endpoints ────────────────────────────────────────────────────────────────

/// Where the manifests of an environment's deployments to a provider are posted. It has no `Debug`:
/// the key is secret.
#[derive(Clone)]
pub struct PushTarget {
    /// The URL.
    pub endpoint: HttpUrl,
    /// The key of the signature; none if the credential has no `apiKey`.
    pub signing_key: Option<Vec<u8>>,
}

/// Returns where a manifest for `provider` is posted; `None` if runtimes fetch it.
///
/// # Errors
/// If the store fails.
#[cfg(not(test))]
pub fn push_target(
    _view: &View,
    _environment: Id<Environment>,
    _provider: &str,
) -> Result<Option<PushTarget>> {
    Ok(None) // Environments have no credentials yet.
}

#[cfg(test)]
pub use tests::push_target;

/// Writes the audit entries of a push: one of the credential, and one of each secret in it.
///
/// # Errors
/// If the store fails.
pub fn audit_push(
    _tx: &mut Tx,
    _environment: Id<Environment>,
    _provider: &str,
    _secrets: &BTreeSet<VariableName>,
    _cause: &str,
) -> Result<()> {
    Ok(()) // Environments have no credentials yet.
}

/// Records that the endpoint of a provider accepted a manifest.
///
/// # Errors
/// If the store fails.
pub fn push_succeeded(_tx: &mut Tx, _environment: Id<Environment>, _provider: &str) -> Result<()> {
    Ok(()) // Environments have no credentials yet.
}

/// Records that the endpoint of a provider could not be reached. `why` is a phrase without secrets.
///
/// # Errors
/// If the store fails.
pub fn push_failed(
    tx: &mut Tx,
    environment: Id<Environment>,
    provider: &str,
    why: &str,
) -> Result<()> {
    let about = About::resource("environment", environment).guarded_by("environment", environment);
    let payload = json!({"environmentId": environment, "provider": provider, "error": why});
    publish(tx, EventType::EnvironmentInaccessible, about, payload)
}

// ── Placeholders ─────────────────────────────────────────────────────────────

/// Fills the configurations of a manifest's tools. It has no `Debug`: it holds secrets.
pub struct PlaceholderFiller<'a> {
    view: View<'a>,
    environment: Id<Environment>,
    secrets: BTreeSet<VariableName>,
    missing: BTreeSet<String>,
    bytes_left: usize,
}

impl<'a> PlaceholderFiller<'a> {
    /// Creates one for a manifest of an environment.
    pub fn new(view: View<'a>, environment: Id<Environment>) -> Self {
        let (secrets, missing) = (BTreeSet::new(), BTreeSet::new());
        let bytes_left = MAX_FILLED_BYTES;
        PlaceholderFiller { view, environment, secrets, missing, bytes_left }
    }

    /// Returns a configuration with the `${NAME}` in its strings filled, at any depth; a name without
    /// a value is left in place.
    ///
    /// # Errors
    /// 413 if the configurations filled so far exceed 4 MiB.
    pub fn fill(&mut self, config: &JsonMap) -> Result<JsonMap> {
        Ok(JsonMap(self.filled_fields(&config.0)?))
    }

    /// Returns the names of the secrets that were filled in.
    pub fn secrets(&self) -> &BTreeSet<VariableName> {
        &self.secrets // Environments have no secrets yet.
    }

    /// Returns the names that have no value.
    pub fn missing(&self) -> &BTreeSet<String> {
        &self.missing
    }

    fn filled_fields(&mut self, fields: &Map<String, Value>) -> Result<Map<String, Value>> {
        fields.iter().map(|(name, value)| Ok((name.clone(), self.filled(value)?))).collect()
    }

    fn filled(&mut self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => Value::String(self.filled_text(text)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.filled(item)).collect::<Result<_>>()?)
            }
            Value::Object(fields) => Value::Object(self.filled_fields(fields)?),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn filled_text(&mut self, text: &str) -> Result<String> {
        self.spend(text.len())?;
        replace_placeholders(text, |name, filled| {
            let value = match VariableName::parse(name) {
                Ok(name) => variable(&self.view, self.environment, &name)?,
                Err(_) => None,
            };
            let Some(value) = value else {
                self.missing.insert(name.to_string());
                return Ok(false);
            };
            filled.push_str(&value);
            self.spend(value.len())?;
            Ok(true)
        })
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
pub mod tests {
    //! Stands in for the provider credentials of environments.

    use bincode::{Decode, Encode};

    use super::*;
    use crate::resources::testing::Fixture;
    use crate::store::{Record, TableInfo};

    /// A credential with an endpoint.
    #[derive(Clone, Debug, Encode, Decode)]
    pub struct TestCredential {
        environment: Id<Environment>,
        provider: String,
        url: HttpUrl,
    }

    impl Record for TestCredential {
        const TABLE: &'static str = "test_credentials";
        type Key = (Id<Environment>, String);
        fn key(&self) -> Self::Key {
            (self.environment, self.provider.clone())
        }
    }

    /// The entry outside of tests, with the table of test credentials.
    pub const RESOURCE: Resource = Resource {
        tables: &[TableInfo::of::<TestCredential>()],
        events: &[EventType::EnvironmentInaccessible],
        ..Resource::EMPTY
    };

    /// The key of every test credential.
    pub const KEY: &[u8] = b"provider key";

    /// See the function of the same name outside of tests.
    pub fn push_target(
        view: &View,
        environment: Id<Environment>,
        provider: &str,
    ) -> Result<Option<PushTarget>> {
        let credential = view.get::<TestCredential>(&(environment, provider.into()))?;
        Ok(credential.map(|credential| PushTarget {
            endpoint: credential.url,
            signing_key: Some(KEY.to_vec()),
        }))
    }

    /// Gives an environment an endpoint for a provider.
    pub fn set_endpoint(
        fixture: &Fixture,
        environment: Id<Environment>,
        provider: &str,
        url: &str,
    ) {
        let (provider, url) = (provider.to_string(), HttpUrl::parse(url).unwrap());
        let set = move |tx: &mut Tx| {
            let (provider, url) = (provider.clone(), url.clone());
            tx.put(&TestCredential { environment, provider, url })
        };
        fixture.store.write_blocking(fixture.org, set).unwrap();
    }
}
