//! What a deployment needs of an environment besides its variables: the endpoint of a provider, and
//! the values that the placeholders of tools stand for.

use super::environment::Environment;
use super::variables::variable;
use crate::api::Resource;
use crate::base::{Id, Result, VariableName};
use crate::store::View;

pub(super) const RESOURCE: Resource = Resource {
    #[cfg(test)]
    tables: &[crate::store::TableInfo::of::<tests::TestCredential>()],
    ..Resource::EMPTY
};

/// The endpoint of a provider, to which deployments are posted. It has no `Debug`: the key is
/// secret.
pub struct PushTarget {
    /// The URL.
    pub url: String,
    /// The key that signs the message: the bytes of the credential's `apiKey`.
    pub key: Vec<u8>,
}

/// Returns the endpoint that deployments to `environment` for `provider` are posted to: that of the
/// environment's credential for the provider, if it has one.
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

/// Returns what `${NAME}` in the configuration of a tool stands for in `environment`.
///
/// # Errors
/// If the store fails.
pub fn placeholder_value(
    view: &View,
    environment: Id<Environment>,
    name: &str,
) -> Result<Option<String>> {
    // Environments have no secrets yet.
    VariableName::parse(name).map_or(Ok(None), |name| variable(view, environment, &name))
}

#[cfg(test)]
pub mod tests {
    //! Stands in for the provider credentials of environments.

    use bincode::{Decode, Encode};

    use super::*;
    use crate::resources::testing::Fixture;
    use crate::store::Record;

    /// A credential with an endpoint.
    #[derive(Clone, Debug, Encode, Decode)]
    pub struct TestCredential {
        environment: Id<Environment>,
        provider: String,
        url: String,
    }

    impl Record for TestCredential {
        const TABLE: &'static str = "test_credentials";
        type Key = (Id<Environment>, String);
        fn key(&self) -> Self::Key {
            (self.environment, self.provider.clone())
        }
    }

    /// The key of every test credential.
    pub const KEY: &[u8] = b"provider key";

    /// See the function of the same name outside of tests.
    pub fn push_target(
        view: &View,
        environment: Id<Environment>,
        provider: &str,
    ) -> Result<Option<PushTarget>> {
        let credential = view.get::<TestCredential>(&(environment, provider.into()))?;
        Ok(credential.map(|credential| PushTarget { url: credential.url, key: KEY.to_vec() }))
    }

    /// Gives an environment an endpoint for a provider.
    pub fn set_endpoint(
        fixture: &Fixture,
        environment: Id<Environment>,
        provider: &str,
        url: &str,
    ) {
        let (provider, url) = (provider.to_string(), url.to_string());
        let set = move |tx: &mut crate::store::Tx| {
            let (provider, url) = (provider.clone(), url.clone());
            tx.put(&TestCredential { environment, provider, url })
        };
        fixture.store.write_blocking(fixture.org, set).unwrap();
    }
}
