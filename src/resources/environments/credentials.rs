//! Credentials of an environment for providers: where the manifests of its deployments are posted,
//! and the key that signs them (reference: agents, "Provider credentials").
//!
//! The key is stored sealed and is in no answer. Deployments ask for [`push_target`], report what they
//! used ([`audit_push`]), and whether the endpoint accepted it ([`push_succeeded`], [`push_failed`]).

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::environment::{Environment, fetch, mark_updated, names};
use super::scope_target::ENVIRONMENT_IN_PATH;
use crate::api::audit::{SystemAction, audit_system};
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER, Restricted, ScopeName, User};
use crate::base::{
    Error, HttpUrl, Id, JsonMap, Name, ProviderKey, Result, Sealed, Time, VariableName,
};
use crate::outbox::{About, EventType, publish};
use crate::outside::webhook;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    SealedField, TableInfo, Tx, View, upgrade_shorter,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<ProviderCredential>()],
    events: &[EventType::EnvironmentInaccessible],
    ..Resource::EMPTY
};

/// An environment has at most 50 credentials: its representation contains all their names, and a list
/// of 200 of them with the largest configurations must stay small.
const MAX_CREDENTIALS: usize = 50;

/// A configuration has at most 16 KiB as JSON: settings, not content.
const MAX_CONFIG_BYTES: usize = 16 * 1024;

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A credential of an environment for a provider.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCredential {
    #[serde(skip)]
    environment: Id<Environment>,
    #[serde(skip)]
    id: Id<ProviderCredential>,
    /// Name of the provider, as in deployments.
    pub name: Name,
    #[serde(skip)]
    key: Option<Sealed>,
    /// URL to which the manifests of deployments are posted; null if runtimes fetch them.
    pub endpoint: Option<HttpUrl>,
    /// Settings of the organization; not interpreted.
    pub config: JsonMap,
    /// Since when the endpoint has not accepted a manifest.
    #[serde(skip)]
    inaccessible_since: Option<Time>,
    /// When it was first set.
    pub created_at: Time,
    /// When it was last set; another time whenever it is.
    pub updated_at: Time,
    /// The user who last set it, also through a key; null if an earlier release did.
    pub updated_by: Option<Id<User>>,
}
}

impl Output for ProviderCredential {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

static KEY: SealedField<ProviderCredential> =
    SealedField::new("key", "API keys of the provider credentials of environments", |credential| {
        credential.key.as_mut()
    });

static BY_NAME: Index<ProviderCredential, (Id<Environment>, Name)> = Index::unique(
    "environment_credentials.by_name",
    "provider_credential_exists",
    "the environment already has a credential for this provider",
    |credential| Some((credential.environment, credential.name.clone())),
);

static ENVIRONMENT: Reference<ProviderCredential, Restricted<Environment>> = Reference::cascade(
    &["environment"],
    |environment: &Restricted<Environment>| environment.id().to_bytes(),
    |credential: &ProviderCredential, _| vec![credential.environment.to_bytes()],
);

impl Record for ProviderCredential {
    const TABLE: &'static str = "environment_credentials";
    const EXPORT: Export<Self> = Export::WHOLE.normalized(|credential| ProviderCredential {
        // Without its key, manifests would be posted there unsigned.
        endpoint: credential.endpoint.filter(|_| credential.key.is_none()),
        ..credential
    });
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_NAME];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ENVIRONMENT];
    const SEALED: &'static [&'static SealedField<Self>] = &[&KEY];
    const VERSION: u8 = 2;
    type Key = (Id<Environment>, Id<ProviderCredential>);
    fn key(&self) -> Self::Key {
        (self.environment, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// A credential to set, in place of the previous one.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"apiKey": "an-example-of-a-key", "endpoint": "https://runtime.example.com/manifests",
        "config": {"region": "eu"}}],
))]
pub struct NewProviderCredential {
    /// Signs what is posted to the endpoint: a signing secret (`whsec_` and the base64 of at least 24
    /// bytes) or any other text; no answer contains it. Without it the previous key stays, unless the endpoint changes.
    api_key: Option<ProviderKey>,
    /// URL to which the manifests of deployments are posted; without it runtimes fetch them.
    endpoint: Option<HttpUrl>,
    /// Settings of the organization, at most 16 KiB; not interpreted. Empty by default.
    config: Option<JsonMap>,
}

impl Input for NewProviderCredential {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<crate::base::Issue>) {
        let secret = self.api_key.as_deref().filter(|key| webhook::is_like_secret(key));
        if let Some(Err(form)) = secret.map(webhook::check_secret) {
            issues.push(crate::base::Issue::new(
                "apiKey",
                format!("begins with whsec_, so it {form}"),
            ));
        }
        let bytes = self.config.as_ref().map_or(0, |config| json!(config).to_string().len());
        if bytes > MAX_CONFIG_BYTES {
            issues.push(crate::base::Issue::new("config", "must be at most 16 KiB as JSON"));
        }
    }
}

// ── For other resources ──────────────────────────────────────────────────────

/// Where the manifests of an environment's deployments to a provider are posted.
pub struct PushTarget {
    /// The URL.
    pub endpoint: HttpUrl,
    credential: ProviderCredential,
}

impl PushTarget {
    /// Scheme and host of the URL: its path and query may contain a token.
    pub fn host(&self) -> String {
        host_of(Some(&self.endpoint)).unwrap_or_default()
    }

    /// The credential, and when it was last set: another time for every state of it.
    pub fn credential(&self) -> (Id<ProviderCredential>, Time) {
        (self.credential.id, self.credential.updated_at)
    }

    /// Returns the key of the signature.
    ///
    /// # Errors
    /// 409 if the credential has none, or it cannot be decrypted: posting must not be tried again
    /// until somebody sets it.
    pub fn signing_key(&self, view: &View) -> Result<Vec<u8>> {
        let ProviderCredential { name, key, .. } = &self.credential;
        let Some(sealed) = key else {
            return Err(Error::conflict(
                "signing_key_missing",
                format!(
                    "the environment's credential for the provider \"{name}\" has an endpoint and \
                     no apiKey to sign with; set the apiKey"
                ),
            ));
        };
        let key = view.unseal(&KEY, &self.credential.key(), sealed).map_err(|error| {
            Error::conflict(
                "signing_key_unreadable",
                format!(
                    "the apiKey of the environment's credential for the provider \"{name}\" cannot \
                     be decrypted; set it again"
                ),
            )
            .detail(error)
        })?;
        Ok(webhook::secret_key(&key).unwrap_or_else(|| key.into_bytes()))
    }
}

/// Returns where a manifest for `provider` is posted; `None` if runtimes fetch it.
pub fn push_target(
    view: &View,
    environment: Id<Environment>,
    provider: &str,
) -> Result<Option<PushTarget>> {
    let Some(credential) = find(view, environment, provider)? else { return Ok(None) };
    let Some(endpoint) = credential.endpoint.clone() else { return Ok(None) };
    Ok(Some(PushTarget { endpoint, credential }))
}

/// Writes the audit entries of a push: one of the credential, and one of each secret in it. `cause` is
/// the job's id.
pub fn audit_push(
    tx: &mut Tx,
    environment: Id<Environment>,
    provider: &str,
    secrets: &BTreeSet<VariableName>,
    cause: &str,
) -> Result<()> {
    let detail = format!("environment {environment}");
    let mut used = |action: &'static str, name: &str| {
        audit_system(tx, SystemAction { action, resource_id: name, detail: &detail, cause })
    };
    used("provider_credential.use", provider)?;
    secrets.iter().try_for_each(|secret| used("environment_secret.use", secret))
}

/// Records that the endpoint of a provider accepted a manifest.
pub fn push_succeeded(tx: &mut Tx, environment: Id<Environment>, provider: &str) -> Result<()> {
    match find(&tx.view(), environment, provider)? {
        Some(old) if old.inaccessible_since.is_some() => {
            let new = ProviderCredential { inaccessible_since: None, ..old.clone() };
            tx.replace(&old, &new)
        }
        _ => Ok(()),
    }
}

/// Records that the endpoint of a provider could not be reached, and publishes
/// `environment.inaccessible` if it is the first time since it accepted one. `why` is a phrase without
/// secrets.
pub fn push_failed(
    tx: &mut Tx,
    environment: Id<Environment>,
    provider: &str,
    why: &str,
) -> Result<()> {
    let Some(old) = find(&tx.view(), environment, provider)? else { return Ok(()) };
    if old.inaccessible_since.is_some() {
        return Ok(());
    }
    let new = ProviderCredential { inaccessible_since: Some(tx.now()), ..old.clone() };
    tx.replace(&old, &new)?;
    let environment: Restricted<Environment> = tx.fetch(&environment)?;
    let environment = environment.without_caller();
    let about =
        About::resource("environment", environment.id).guarded_by("environment", environment.id);
    let payload = json!({
        "environmentId": environment.id, "slug": environment.slug, "name": environment.name,
        "provider": new.name, "endpoint": host_of(new.endpoint.as_deref()), "error": why,
    });
    publish(tx, EventType::EnvironmentInaccessible, about, payload)
}

/// Returns scheme and host of a URL: its path and query may contain a token.
fn host_of(url: Option<&str>) -> Option<String> {
    let (scheme, rest) = url?.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    Some(format!("{scheme}://{host}"))
}

/// Returns the names of the providers with a credential in an environment, in order.
pub(super) fn provider_names(view: &View, environment: Id<Environment>) -> Result<Vec<String>> {
    names(view, &BY_NAME, environment)
}

fn find(
    view: &View,
    environment: Id<Environment>,
    provider: &str,
) -> Result<Option<ProviderCredential>> {
    match Name::parse_earlier(provider) {
        Ok(name) => view.find(&BY_NAME, &(environment, name)),
        Err(_) => Ok(None),
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<Environment>>) -> Result<Page<ProviderCredential>> {
    let environment = fetch(view, req.caller(), req.params)?;
    view.page(ListSource::TABLE, &environment.id, Order::Descending, &req.page, |_| true)
}

fn set(
    tx: &mut Tx,
    req: &Req<(Id<Environment>, Name), NewProviderCredential>,
) -> Result<ProviderCredential> {
    let ((environment, name), input) = (&req.params, &req.input);
    fetch(&tx.view(), req.caller(), *environment)?;
    let old = tx.find(&BY_NAME, &(*environment, name.clone()))?;
    if old.is_none() {
        Name::parse(name.as_str()).map_err(|problem| Error::invalid_at("name", problem))?;
    }
    if old.is_none()
        && tx.count(ListSource::<ProviderCredential>::TABLE, environment, MAX_CREDENTIALS)?
            == MAX_CREDENTIALS
    {
        return Err(Error::conflict(
            "provider_credentials_full",
            "an environment has at most 50 provider credentials; delete one that is not needed",
        ));
    }
    let id = old.as_ref().map_or_else(|| tx.new_id(), |old| old.id);
    // The key was given for the old endpoint: a caller who can change the endpoint but does not know
    // the key must not have something signed with it sent to a server of their choice.
    let same_endpoint = old.as_ref().filter(|old| old.endpoint == input.endpoint);
    let key = match &input.api_key {
        Some(key) => Some(tx.seal(&KEY, &(*environment, id), key)?),
        None => same_endpoint.and_then(|old| old.key.clone()),
    };
    let new = ProviderCredential {
        environment: *environment,
        id,
        name: name.clone(),
        key,
        endpoint: input.endpoint.clone(),
        config: input.config.clone().unwrap_or_default(),
        inaccessible_since: same_endpoint.and_then(|old| old.inaccessible_since),
        created_at: old.as_ref().map_or(tx.now(), |old| old.created_at),
        // Plans tell states of it apart by it.
        updated_at: old.map_or(tx.now(), |old| tx.now().max(old.updated_at.plus_millis(1))),
        updated_by: Some(req.caller().user()),
    };
    tx.put(&new)?;
    mark_updated(tx, *environment, Some(req.caller().user()))?;
    Ok(new)
}

fn delete(tx: &mut Tx, req: &Req<(Id<Environment>, String)>) -> Result<Deleted> {
    let (environment, name) = &req.params;
    fetch(&tx.view(), req.caller(), *environment)?;
    let no_such = || Error::no_such("provider credential").at("name");
    let credential = find(&tx.view(), *environment, name)?.ok_or_else(no_such)?;
    tx.remove(&credential)?;
    mark_updated(tx, *environment, Some(req.caller().user()))?;
    Ok(Deleted::new(credential.name))
}

// ── Routes ───────────────────────────────────────────────────────────────────

const ALL: &str = "/environments/{environmentId}/provider-credentials";
const ONE: &str = "/environments/{environmentId}/provider-credentials/{name}";

fn routes() -> Vec<Route> {
    vec![
        Route::get(ALL, MEMBER, "provider_credential.list", op::list(list))
            .needs_for(ScopeName::CredentialRead, &ENVIRONMENT_IN_PATH)
            .about("List provider credentials, without keys"),
        Route::put(ONE, ADMIN, "provider_credential.set", op::write(set))
            .needs_for(ScopeName::CredentialWrite, &ENVIRONMENT_IN_PATH)
            .about("Set the credential for a provider"),
        Route::delete(ONE, ADMIN, "provider_credential.delete", op::write(delete))
            .needs_for(ScopeName::CredentialWrite, &ENVIRONMENT_IN_PATH)
            .about("Delete the credential for a provider"),
    ]
}

#[cfg(test)]
pub mod tests;
