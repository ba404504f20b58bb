//! Secrets of an environment: confidential values for the `${NAME}` of tools
//! (reference: agents, "Secrets of environments").
//!
//! A value is stored sealed and leaves the server only in the manifest that is posted to the
//! endpoint of a provider ([`placeholders`](super::placeholders)). No answer contains one.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment::{Environment, fetch, mark_updated, names};
use super::scope_target::ENVIRONMENT_IN_PATH;
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER, Restricted, ScopeName, User};
use crate::base::{Error, Id, Result, Sealed, TextRule, Time, Validated, VariableName};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    SealedField, TableInfo, Tx, View, upgrade_shorter,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Secret>()], ..Resource::EMPTY };

/// An environment has at most 500 secrets: its representation contains all their names.
const MAX_SECRETS: usize = 500;

/// The values have at most 1 MiB in total: a manifest may contain them all.
const MAX_VALUES_BYTES: usize = 1024 * 1024;

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A secret of an environment.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    #[serde(skip)]
    environment: Id<Environment>,
    #[serde(skip)]
    id: Id<Secret>,
    /// Name of the secret, unique in its environment.
    pub name: VariableName,
    #[serde(skip)]
    value: Option<Sealed>,
    /// When it was first set.
    pub created_at: Time,
    /// When it was last set; another time for each value.
    pub updated_at: Time,
    /// The user who last set it, also through a key; null if an earlier release did.
    pub updated_by: Option<Id<User>>,
}
}

impl Output for Secret {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

static VALUE: SealedField<Secret> =
    SealedField::new("value", "secrets of environments", |secret| secret.value.as_mut());

static BY_NAME: Index<Secret, (Id<Environment>, VariableName)> = Index::unique(
    "environment_secrets.by_name",
    "secret_exists",
    "the environment already has a secret with this name",
    |secret| Some((secret.environment, secret.name.clone())),
);

static ENVIRONMENT: Reference<Secret, Restricted<Environment>> = Reference::cascade(
    &["environment"],
    |environment: &Restricted<Environment>| environment.id().to_bytes(),
    |secret: &Secret, _| vec![secret.environment.to_bytes()],
);

impl Record for Secret {
    const TABLE: &'static str = "environment_secrets";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_NAME];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ENVIRONMENT];
    const SEALED: &'static [&'static SealedField<Self>] = &[&VALUE];
    const VERSION: u8 = 2;
    type Key = (Id<Environment>, Id<Secret>);
    fn key(&self) -> Self::Key {
        (self.environment, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// The value of a secret.
type SecretValue = Validated<SecretValueRule>;

/// 0 to 100,000 characters, as a variable's.
pub struct SecretValueRule;
impl TextRule for SecretValueRule {
    fn check(text: String) -> Result<String, String> {
        if text.chars().nth(100_000).is_some() {
            Err("must be at most 100000 characters".into())
        } else {
            Ok(text)
        }
    }
    fn schema() -> serde_json::Value {
        serde_json::json!({"type": "string", "maxLength": 100_000, "writeOnly": true})
    }
}

/// The value of a secret to set; no answer contains it.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"value": "an example of a secret"}]))]
pub struct SecretValueInput {
    /// The value; it may be empty.
    value: SecretValue,
}

impl Input for SecretValueInput {}

// ── For other resources ──────────────────────────────────────────────────────

/// Returns the names of an environment's secrets, in order. Reads no secret.
pub(super) fn secret_names(view: &View, environment: Id<Environment>) -> Result<Vec<String>> {
    names(view, &BY_NAME, environment)
}

/// Returns a secret that has a value: an imported one has none until it is set again.
pub(super) fn find_secret(
    view: &View,
    environment: Id<Environment>,
    name: &VariableName,
) -> Result<Option<Secret>> {
    let secret = view.find(&BY_NAME, &(environment, name.clone()))?;
    Ok(secret.filter(|secret| secret.value.is_some()))
}

/// Returns the value of a secret, if there is one with this name.
///
/// # Errors
/// 409 if it cannot be decrypted: it must be set again.
pub(super) fn secret_value(
    view: &View,
    environment: Id<Environment>,
    name: &VariableName,
) -> Result<Option<String>> {
    let Some(secret) = find_secret(view, environment, name)? else { return Ok(None) };
    let Some(sealed) = &secret.value else { return Ok(None) };
    let value = view.unseal(&VALUE, &secret.key(), sealed).map_err(|error| {
        Error::conflict(
            "secret_unreadable",
            format!("the secret {name} of the environment cannot be decrypted; set it again"),
        )
        .detail(error)
    })?;
    Ok(Some(value))
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<Environment>>) -> Result<Page<Secret>> {
    let environment = fetch(view, req.caller(), req.params)?;
    view.page(ListSource::TABLE, &environment.id, Order::Descending, &req.page, |_| true)
}

fn set(
    tx: &mut Tx,
    req: &Req<(Id<Environment>, VariableName), SecretValueInput>,
) -> Result<Secret> {
    let (environment, name) = &req.params;
    fetch(&tx.view(), req.caller(), *environment)?;
    let old = tx.find(&BY_NAME, &(*environment, name.clone()))?;
    let id = old.as_ref().map_or_else(|| tx.new_id(), |old| old.id);
    let new = Secret {
        environment: *environment,
        id,
        name: name.clone(),
        value: Some(tx.seal(&VALUE, &(*environment, id), &req.input.value)?),
        created_at: old.as_ref().map_or(tx.now(), |old| old.created_at),
        // Plans tell values apart by it.
        updated_at: old.map_or(tx.now(), |old| tx.now().max(old.updated_at.plus_millis(1))),
        updated_by: Some(req.caller().user()),
    };
    tx.put(&new)?;
    check_limits(&tx.view(), *environment)?;
    mark_updated(tx, *environment, Some(req.caller().user()))?;
    Ok(new)
}

fn check_limits(view: &View, environment: Id<Environment>) -> Result<()> {
    let all = view.all(ListSource::<Secret>::TABLE, &environment)?;
    let bytes: usize = all.iter().flat_map(|secret| &secret.value).map(Sealed::secret_len).sum();
    let full = |message| Err(Error::conflict("secrets_full", message));
    if all.len() > MAX_SECRETS {
        return full("an environment has at most 500 secrets; delete one that is not needed");
    }
    if bytes > MAX_VALUES_BYTES {
        return full("the values of an environment's secrets have at most 1 MiB in total");
    }
    Ok(())
}

fn delete(tx: &mut Tx, req: &Req<(Id<Environment>, String)>) -> Result<Deleted> {
    let (environment, name) = &req.params;
    fetch(&tx.view(), req.caller(), *environment)?;
    let no_such = || Error::no_such("secret").at("name");
    let name = VariableName::parse(name.as_str()).map_err(|_| no_such())?;
    let secret = tx.find(&BY_NAME, &(*environment, name))?.ok_or_else(no_such)?;
    tx.remove(&secret)?;
    mark_updated(tx, *environment, Some(req.caller().user()))?;
    Ok(Deleted::new(secret.name))
}

// ── Routes ───────────────────────────────────────────────────────────────────

const ALL: &str = "/environments/{environmentId}/secrets";
const ONE: &str = "/environments/{environmentId}/secrets/{name}";

fn routes() -> Vec<Route> {
    vec![
        Route::get(ALL, MEMBER, "environment_secret.list", op::list(list))
            .needs_for(ScopeName::SecretRead, &ENVIRONMENT_IN_PATH)
            .about("List secrets of an environment, without values"),
        Route::put(ONE, ADMIN, "environment_secret.set", op::write(set))
            .needs_for(ScopeName::SecretWrite, &ENVIRONMENT_IN_PATH)
            .about("Set a secret of an environment"),
        Route::delete(ONE, ADMIN, "environment_secret.delete", op::write(delete))
            .needs_for(ScopeName::SecretWrite, &ENVIRONMENT_IN_PATH)
            .about("Delete a secret of an environment"),
    ]
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::super::tests::{make, shown};
    use super::*;
    use crate::base::Kind;
    use crate::resources::testing::Fixture;

    pub fn put(fixture: &Fixture, at: Id<Environment>, name: &str, value: &str) -> Result<Secret> {
        let value = Fixture::input(json!({"value": value})).unwrap();
        fixture.write_as(&fixture.owner, set, (at, VariableName::parse(name).unwrap()), value)
    }

    pub fn remove(fixture: &Fixture, at: Id<Environment>, name: &str) {
        fixture.write_as(&fixture.owner, delete, (at, name.to_string()), ()).unwrap();
    }

    /// Damages a secret, so that it cannot be decrypted.
    pub fn damage(fixture: &Fixture, at: Id<Environment>, name: &str) {
        let name = VariableName::parse(name).unwrap();
        let damage = move |tx: &mut Tx| {
            let old = tx.find(&BY_NAME, &(at, name.clone()))?.unwrap();
            tx.put(&Secret { value: Some(Sealed::from_bytes(vec![7; 60])), ..old })
        };
        fixture.store.write_blocking(fixture.org, damage).unwrap();
    }

    fn value(fixture: &Fixture, at: Id<Environment>, name: &str) -> Option<String> {
        let name = VariableName::parse(name).unwrap();
        fixture.store.read_now(fixture.org, |view| secret_value(view, at, &name)).unwrap()
    }

    #[test]
    fn a_secret_is_set_replaced_and_deleted_by_name_and_never_shown() {
        let fixture = Fixture::new();
        let at = make(&fixture, json!({"slug": "a", "name": "A"})).unwrap().id;
        let other = make(&fixture, json!({"slug": "b", "name": "B"})).unwrap().id;
        put(&fixture, at, "TOKEN", "sesame").unwrap();
        put(&fixture, other, "OTHER", "x").unwrap();
        let before = shown(&fixture, at);
        fixture.pass_secs(60);
        let answered = put(&fixture, at, "TOKEN", "barley").unwrap();
        assert_eq!(
            json!(answered),
            json!({"name": "TOKEN", "createdAt": "2026-01-15T12:00:00.000Z",
                "updatedAt": "2026-01-15T12:01:00.000Z", "updatedBy": answered.updated_by})
        );
        put(&fixture, at, "A", "").unwrap();
        let after = shown(&fixture, at);
        assert_eq!(json!(after)["secretNames"], json!(["A", "TOKEN"]));
        assert!(json!(after)["updatedAt"].as_str() > json!(before)["updatedAt"].as_str());
        assert_eq!(value(&fixture, at, "TOKEN").as_deref(), Some("barley"));
        assert_eq!(value(&fixture, at, "OTHER"), None);
        assert_eq!(fixture.read(list, at, ()).unwrap().items.len(), 2);

        fixture.write_as(&fixture.owner, delete, (at, "TOKEN".into()), ()).unwrap();
        for name in ["TOKEN", "1a"] {
            let error =
                fixture.write_as(&fixture.owner, delete, (at, name.into()), ()).unwrap_err();
            assert_eq!(error.kind(), Kind::NotFound);
        }
        fixture.assert_sound();
    }

    #[test]
    fn an_environment_has_at_most_500_secrets_and_1_mib_of_values() {
        let fixture = Fixture::new();
        let at = make(&fixture, json!({"slug": "a", "name": "A"})).unwrap().id;
        let fill = |number: usize, value: String| {
            let write = move |tx: &mut Tx| {
                for old in tx.all(ListSource::<Secret>::TABLE, &at)? {
                    tx.remove(&old)?;
                }
                for n in 0..number {
                    let (id, now) = (tx.new_id(), tx.now());
                    let sealed = Some(tx.seal(&VALUE, &(at, id), &value)?);
                    let name = VariableName::from_trusted(format!("v{n}"));
                    tx.insert(&Secret {
                        environment: at,
                        id,
                        name,
                        value: sealed,
                        created_at: now,
                        updated_at: now,
                        updated_by: None,
                    })?;
                }
                Ok(())
            };
            fixture.store.write_blocking(fixture.org, write).unwrap();
        };
        fill(MAX_SECRETS - 1, String::new());
        put(&fixture, at, "last", "").unwrap();
        assert_eq!(put(&fixture, at, "more", "").unwrap_err().code(), "secrets_full");
        put(&fixture, at, "last", "replaced").unwrap();

        fill(16, "x".repeat(MAX_VALUES_BYTES / 16));
        assert_eq!(put(&fixture, at, "more", "x").unwrap_err().code(), "secrets_full");
        put(&fixture, at, "more", "").unwrap();
        put(&fixture, at, "v0", "").unwrap();
        put(&fixture, at, "more", "x").unwrap();
    }

    #[test]
    fn a_value_has_at_most_100000_characters() {
        let input = |length| {
            Fixture::input::<SecretValueInput>(json!({"value": "ä".repeat(length)})).is_ok()
        };
        assert!(input(0) && input(100_000) && !input(100_001));
    }
}
