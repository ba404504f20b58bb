//! The configured providers, and what is known of them at present.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::discovery::Discovery;
use super::jwks::KeySet;
use crate::base::{Error, Time};

/// A document of a provider is read again after an hour.
const FRESH_SECS: i64 = 3600;

/// For a key that is not among the known ones the keys are fetched again, at most once a minute.
const REFETCH_SECS: i64 = 60;

/// A provider whose document could not be read is not asked again for ten seconds: anyone can begin to sign
/// in, and each would wait for it.
const FAILED_SECS: i64 = 10;

/// A provider of sign-ins, as the operator has configured it.
#[derive(Clone)]
pub struct OidcProvider {
    /// Its name in paths and rules.
    pub name: String,
    /// What people are shown.
    pub label: String,
    /// Its issuer identifier, exactly as it writes it.
    pub issuer: String,
    pub client_id: String,
    /// None for a public client.
    pub secret: Option<String>,
    /// Whether its addresses count as verified without `email_verified`: somebody administers them.
    pub trusts_addresses: bool,
    /// Whether who signs out here is led there to sign out, too.
    pub signs_out: bool,
    /// How long a session lasts that it has let in: at most as long as others.
    pub session_secs: i64,
}

/// Without the secret, which must not be logged.
impl fmt::Debug for OidcProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OidcProvider { name, issuer, .. } = self;
        f.debug_struct("OidcProvider").field("name", name).field("issuer", issuer).finish()
    }
}

impl OidcProvider {
    /// Whether everything that it names must be https: its issuer is.
    pub fn is_https(&self) -> bool {
        self.issuer.starts_with("https://")
    }

    /// The URL of its discovery document.
    pub fn discovery_url(&self) -> String {
        format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'))
    }
}

/// The providers, with what was read of their documents.
#[derive(Default)]
pub struct Oidc {
    providers: Vec<OidcProvider>,
    read: Mutex<Vec<Documents>>,
}

/// What was read of a provider, and when.
#[derive(Clone, Default)]
struct Documents {
    discovery: Option<(Time, Arc<Discovery>)>,
    /// The error of the last attempt to read it, or the keys, if that failed.
    failure: Option<(Time, Error)>,
    keys: Option<(Time, Arc<KeySet>)>,
    /// When a failure was last logged.
    logged_at: Option<Time>,
}

impl Oidc {
    /// These providers, of which nothing is known yet.
    pub fn new(providers: Vec<OidcProvider>) -> Self {
        let read = Mutex::new(vec![Documents::default(); providers.len()]);
        Oidc { providers, read }
    }

    /// The providers, in the order of the configuration.
    pub fn providers(&self) -> &[OidcProvider] {
        &self.providers
    }

    /// The provider with this name.
    pub fn provider(&self, name: &str) -> Option<&OidcProvider> {
        self.providers.iter().find(|provider| provider.name == name)
    }

    /// The providers with this issuer: one, unless the operator has given it several names.
    pub fn of_issuer(&self, issuer: &str) -> impl Iterator<Item = &OidcProvider> {
        self.providers.iter().filter(move |provider| provider.issuer == issuer)
    }

    /// The names of the provider with this issuer: those that it has now, and of the `former` ones those that
    /// no other provider has by now.
    pub fn names_at<'a>(
        &'a self,
        issuer: &str,
        former: impl IntoIterator<Item = &'a str>,
    ) -> Vec<&'a str> {
        let mut names: Vec<&str> = self.of_issuer(issuer).map(|provider| &*provider.name).collect();
        names.extend(former.into_iter().filter(|name| self.provider(name).is_none()));
        names
    }

    /// What a provider publishes, if it was read within the last hour.
    pub fn discovery(&self, name: &str, now: Time) -> Option<Arc<Discovery>> {
        let (at, discovery) = self.documents(name, |documents| documents.discovery.clone())??;
        (at > now.minus_secs(FRESH_SECS)).then_some(discovery)
    }

    /// Keeps what a provider publishes.
    pub fn keep_discovery(&self, name: &str, now: Time, discovery: Arc<Discovery>) {
        self.documents(name, |documents| {
            documents.discovery = Some((now, discovery));
            documents.failure = None;
        });
    }

    /// Why what a provider publishes, or its keys, could not be read, if that was a moment ago.
    pub fn failure(&self, name: &str, now: Time) -> Option<Error> {
        let (at, failure) = self.documents(name, |documents| documents.failure.clone())??;
        (at > now.minus_secs(FAILED_SECS)).then_some(failure)
    }

    /// Keeps why what a provider publishes could not be read, and logs it.
    pub fn keep_failure(&self, name: &str, now: Time, failure: Error) {
        self.log_failure(name, now, &failure);
        self.documents(name, |documents| documents.failure = Some((now, failure)));
    }

    /// Logs why nobody can sign in with a provider, at most once in ten seconds: anyone can begin to.
    pub fn log_failure(&self, name: &str, now: Time, failure: &Error) {
        if self.takes_log_line(name, now) {
            tracing::warn!(
                provider = name,
                why = failure.message(),
                "a provider of sign-ins fails"
            );
        }
    }

    fn takes_log_line(&self, name: &str, now: Time) -> bool {
        let is_due = self.documents(name, |documents| {
            let is_due = documents.logged_at.is_none_or(|at| at <= now.minus_secs(FAILED_SECS));
            documents.logged_at = if is_due { Some(now) } else { documents.logged_at };
            is_due
        });
        is_due == Some(true)
    }

    /// The keys of a provider, if they need not be fetched for a token of the one with this id: they have
    /// it and are fresh, or were fetched a moment ago.
    pub fn keys(&self, name: &str, kid: Option<&str>, now: Time) -> Option<Arc<KeySet>> {
        let (at, keys) = self.documents(name, |documents| documents.keys.clone())??;
        let lasts = if keys.has(kid) { FRESH_SECS } else { REFETCH_SECS };
        (at > now.minus_secs(lasts)).then_some(keys)
    }

    /// Keeps the keys of a provider.
    pub fn keep_keys(&self, name: &str, now: Time, keys: Arc<KeySet>) {
        self.documents(name, |documents| {
            documents.keys = Some((now, keys));
            documents.failure = None;
        });
    }

    fn documents<T>(&self, name: &str, with: impl FnOnce(&mut Documents) -> T) -> Option<T> {
        let index = self.providers.iter().position(|provider| provider.name == name)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.get_mut(index).map(with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oidc() -> Oidc {
        Oidc::new(vec![OidcProvider {
            name: "kc".into(),
            label: "Keycloak".into(),
            issuer: "https://id.test/realms/a/".into(),
            client_id: "roadstead".into(),
            secret: Some("hush".into()),
            trusts_addresses: false,
            signs_out: false,
            session_secs: 3600,
        }])
    }

    #[test]
    fn keys_are_fetched_again_after_an_hour_and_for_an_unknown_one_once_a_minute() {
        let (oidc, now) = (oidc(), Time::from_millis(1_800_000_000_000));
        assert!(oidc.keys("kc", Some("a"), now).is_none());
        let key = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a",
            "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        oidc.keep_keys("kc", now, Arc::new(KeySet::parse(key.as_bytes()).unwrap()));
        let knows = |kid, secs| oidc.keys("kc", Some(kid), now.plus_secs(secs)).is_some();
        assert!(knows("a", 3599) && !knows("a", 3600));
        assert!(knows("b", 59) && !knows("b", 60));
        assert!(oidc.keys("other", None, now).is_none());
    }

    #[test]
    fn a_former_name_is_of_a_provider_until_another_one_has_it() {
        let oidc = oidc();
        let issuer = "https://id.test/realms/a/";
        assert_eq!(oidc.names_at(issuer, ["keycloak"]), ["kc", "keycloak"]);
        assert_eq!(oidc.names_at("https://gone.test", ["kc", "gone"]), ["gone"]);
        assert_eq!(oidc.of_issuer(issuer).count() + oidc.of_issuer("kc").count(), 1);
    }

    #[test]
    fn a_failure_is_known_for_ten_seconds() {
        let (oidc, now) = (oidc(), Time::from_millis(1_800_000_000_000));
        assert!(oidc.failure("kc", now).is_none());
        oidc.keep_failure("kc", now, Error::internal("it does not answer"));
        let knows = |secs| oidc.failure("kc", now.plus_secs(secs)).is_some();
        assert!(knows(9) && !knows(10));
        let logs = |secs| oidc.takes_log_line("kc", now.plus_secs(secs));
        assert!(!logs(9) && logs(10) && !logs(11));
    }

    #[test]
    fn the_secret_of_a_client_is_not_in_the_log() {
        let provider = &oidc().providers()[0].clone();
        assert!(!format!("{provider:?}").contains("hush"));
        let url = "https://id.test/realms/a/.well-known/openid-configuration";
        assert_eq!(provider.discovery_url(), url);
    }
}
