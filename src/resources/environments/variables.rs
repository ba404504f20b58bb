//! Variables of an environment: the values of the placeholders in prompts
//! (reference: agents, "Variables").
//!
//! Admins write them, and every member who may use the environment reads them. Confidential values
//! belong in secrets, not in variables.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::environment::{Environment, fetch, mark_updated};
use super::scope_target::ENVIRONMENT_IN_PATH;
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER, Restricted, ScopeName, User};
use crate::base::{Error, Id, Result, StringMap, Text, Time, VariableName};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    TableInfo, Tx, View, upgrade_shorter,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Variable>()], ..Resource::EMPTY };

/// An environment has at most 500 variables: its representation contains them all.
const MAX_VARIABLES: usize = 500;

/// The values have at most 1 MiB in total, for the same reason; a request has the same limit.
const MAX_VALUES_BYTES: usize = 1024 * 1024;

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A variable of an environment.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    #[serde(skip)]
    environment: Id<Environment>,
    #[serde(skip)]
    id: Id<Variable>,
    /// Name of the variable, unique in its environment.
    pub name: VariableName,
    /// Value of the variable; it may be empty.
    pub value: VariableValue,
    /// Time of the last write.
    pub updated_at: Time,
    /// The user who last set it, also through a key; null if an earlier release did.
    pub updated_by: Option<Id<User>>,
}
}

impl Output for Variable {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A variable's value; it may be empty (reference: conventions, "Texts and names").
type VariableValue = Text<0, 100_000>;

static BY_NAME: Index<Variable, (Id<Environment>, VariableName)> = Index::unique(
    "environment_variables.by_name",
    "variable_exists",
    "the environment already has a variable with this name",
    |variable| Some((variable.environment, variable.name.clone())),
);

static ENVIRONMENT: Reference<Variable, Restricted<Environment>> = Reference::cascade(
    &["environment"],
    |environment: &Restricted<Environment>| environment.id().to_bytes(),
    |variable: &Variable, _| vec![variable.environment.to_bytes()],
);

impl Record for Variable {
    const TABLE: &'static str = "environment_variables";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_NAME];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ENVIRONMENT];
    const VERSION: u8 = 2;
    type Key = (Id<Environment>, Id<Variable>);
    fn key(&self) -> Self::Key {
        (self.environment, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// The value of a variable to set.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"value": "eu-central"}],
))]
pub struct VariableValueInput {
    /// The text that the variable stands for.
    value: VariableValue,
}

impl Input for VariableValueInput {}

// ── For other resources ──────────────────────────────────────────────────────

/// Returns the values of an environment's variables, by name.
pub fn variables(view: &View, environment: Id<Environment>) -> Result<StringMap> {
    let mut variables = StringMap::new();
    view.for_each(ListSource::TABLE, &environment, Order::Ascending, |variable: Variable| {
        variables.insert(variable.name.into_string(), variable.value.into_string());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(variables)
}

/// Returns the value of a variable, if there is one with this name.
pub(super) fn variable_value(
    view: &View,
    environment: Id<Environment>,
    name: &VariableName,
) -> Result<Option<String>> {
    let variable = view.find(&BY_NAME, &(environment, name.clone()))?;
    Ok(variable.map(|variable| variable.value.into_string()))
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<Environment>>) -> Result<Page<Variable>> {
    let environment = fetch(view, req.caller(), req.params)?;
    view.page(ListSource::TABLE, &environment.id, Order::Descending, &req.page, |_| true)
}

fn get(view: &View, req: &Req<(Id<Environment>, String)>) -> Result<Variable> {
    let (environment, name) = &req.params;
    fetch(view, req.caller(), *environment)?;
    named(view, *environment, name)
}

/// Returns the variable that a path names.
///
/// # Errors
/// 404 if there is none.
fn named(view: &View, environment: Id<Environment>, name: &str) -> Result<Variable> {
    let no_such = || Error::no_such("variable").at("name");
    let name = VariableName::parse(name).map_err(|_| no_such())?;
    view.find(&BY_NAME, &(environment, name))?.ok_or_else(no_such)
}

fn set(
    tx: &mut Tx,
    req: &Req<(Id<Environment>, VariableName), VariableValueInput>,
) -> Result<Variable> {
    let (environment, name) = &req.params;
    fetch(&tx.view(), req.caller(), *environment)?;
    let old = tx.find(&BY_NAME, &(*environment, name.clone()))?;
    let new = Variable {
        environment: *environment,
        id: old.as_ref().map_or_else(|| tx.new_id(), |old| old.id),
        name: name.clone(),
        value: req.input.value.clone(),
        updated_at: tx.now(),
        updated_by: Some(req.caller().user()),
    };
    tx.put(&new)?;
    check_count_limit(&tx.view(), *environment)?;
    mark_updated(tx, *environment, Some(req.caller().user()))?;
    Ok(new)
}

fn check_count_limit(view: &View, environment: Id<Environment>) -> Result<()> {
    let all = view.all(ListSource::<Variable>::TABLE, &environment)?;
    let bytes: usize = all.iter().map(|variable| variable.value.len()).sum();
    if all.len() > MAX_VARIABLES {
        return Err(Error::conflict(
            "variables_full",
            "an environment has at most 500 variables; delete one that is not needed",
        ));
    }
    if bytes > MAX_VALUES_BYTES {
        return Err(Error::conflict(
            "variables_full",
            "the values of an environment's variables have at most 1 MiB in total",
        ));
    }
    Ok(())
}

fn delete(tx: &mut Tx, req: &Req<(Id<Environment>, String)>) -> Result<Deleted> {
    let (environment, name) = &req.params;
    fetch(&tx.view(), req.caller(), *environment)?;
    let variable = named(&tx.view(), *environment, name)?;
    tx.remove(&variable)?;
    mark_updated(tx, *environment, Some(req.caller().user()))?;
    Ok(Deleted::new(variable.name))
}

// ── Routes ───────────────────────────────────────────────────────────────────

const ALL: &str = "/environments/{environmentId}/variables";
const ONE: &str = "/environments/{environmentId}/variables/{name}";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(ALL, MEMBER, "environment_variable.list", op::list(list))
            .needs_for(ScopeName::VariableRead, &ENVIRONMENT_IN_PATH)
            .about("List variables of an environment"),
        Route::get(ONE, MEMBER, "environment_variable.get", op::read(get))
            .needs_for(ScopeName::VariableRead, &ENVIRONMENT_IN_PATH)
            .about("Get a variable of an environment"),
        Route::put(ONE, ADMIN, "environment_variable.set", op::write(set))
            .needs_for(ScopeName::VariableWrite, &ENVIRONMENT_IN_PATH)
            .about("Set a variable of an environment"),
        Route::delete(ONE, ADMIN, "environment_variable.delete", op::write(delete))
            .needs_for(ScopeName::VariableWrite, &ENVIRONMENT_IN_PATH)
            .about("Delete a variable of an environment"),
    ]
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::tests::{make, shown};
    use super::*;
    use crate::api::{Method, RawArgs, ServerInfo};
    use crate::base::Kind;
    use crate::resources::testing::{Fixture, user};

    pub fn put(
        fixture: &Fixture,
        at: Id<Environment>,
        name: &str,
        value: &str,
    ) -> Result<Variable> {
        let value = Fixture::input(json!({"value": value})).unwrap();
        fixture.write_as(&fixture.owner, set, (at, VariableName::parse(name).unwrap()), value)
    }

    #[test]
    fn a_variable_is_set_replaced_and_deleted_by_name() {
        let fixture = Fixture::new();
        let environment = make(&fixture, json!({"slug": "a", "name": "A"})).unwrap();
        let at = environment.id;
        put(&fixture, at, "_b", "").unwrap();
        put(&fixture, at, "A1", "1").unwrap();
        fixture.pass_secs(60);
        put(&fixture, at, "_b", "2").unwrap();

        let after = shown(&fixture, at);
        assert_eq!(json!(after.variables), json!({"A1": "1", "_b": "2"}));
        assert!(after.updated_at > environment.updated_at);
        let by = user(&fixture.owner);
        assert_eq!(json!(after)["updatedBy"], json!(by));
        let listed = fixture.read(list, at, ()).unwrap().items;
        let listed: Vec<_> = listed.iter().map(|variable| json!(variable)).collect();
        assert_eq!(
            listed,
            [
                json!({"name": "A1", "value": "1", "updatedAt": "2026-01-15T12:00:00.000Z",
                    "updatedBy": by}),
                json!({"name": "_b", "value": "2", "updatedAt": "2026-01-15T12:01:00.000Z",
                    "updatedBy": by}),
            ]
        );

        assert_eq!(json!(fixture.read(get, (at, "_b".into()), ()).unwrap()), json!(listed[1]));
        let removed = fixture.write_as(&fixture.owner, delete, (at, "A1".into()), ()).unwrap();
        assert_eq!(removed.id, "A1");
        for name in ["A1", "1a"] {
            let error = fixture.read(get, (at, name.into()), ()).unwrap_err();
            assert_eq!(error.kind(), Kind::NotFound);
            let error =
                fixture.write_as(&fixture.owner, delete, (at, name.into()), ()).unwrap_err();
            assert_eq!(error.kind(), Kind::NotFound);
        }
        assert_eq!(json!(shown(&fixture, at).variables), json!({"_b": "2"}));
        fixture.assert_sound();
    }

    /// The pipeline checks organization, role and environment only after this.
    #[test]
    fn an_invalid_name_is_refused_first() {
        let route = routes().into_iter().find(|route| route.method == Method::Put).unwrap();
        let keys = crate::base::Keys::new([7; 32]);
        let (origin, server) = (Arc::default(), Arc::new(ServerInfo::bare(keys)));
        let bind = |name: &str, body: serde_json::Value| {
            let params: Arc<[String]> = ["nothing", name].map(String::from).into();
            let raw = RawArgs::body(&params, &body, (&origin, &server));
            route.bind(raw).map(|_| ())
        };
        let paths = |error: Error| -> Vec<String> {
            error.issues().iter().map(|issue| issue.path.clone()).collect()
        };
        for name in ["", "1a", "a-b", "ä", &"a".repeat(129)] {
            assert_eq!(paths(bind(name, json!({"value": "x"})).unwrap_err()), ["name"]);
        }
        assert_eq!(paths(bind("1a", json!({})).unwrap_err()), ["name", "value"]);
        assert!(bind("a", json!({"value": "x"})).is_ok());
    }

    #[test]
    fn an_environment_has_at_most_500_variables_and_1_mib_of_values() {
        let fixture = Fixture::new();
        let at = make(&fixture, json!({"slug": "a", "name": "A"})).unwrap().id;
        let fill = |number: usize, value: String| {
            let variable = move |tx: &Tx, n| Variable {
                environment: at,
                id: tx.new_id(),
                name: VariableName::from_trusted(format!("v{n}")),
                value: VariableValue::from_trusted(value.clone()),
                updated_at: tx.now(),
                updated_by: None,
            };
            let write = move |tx: &mut Tx| {
                for old in tx.all(ListSource::<Variable>::TABLE, &at)? {
                    tx.remove(&old)?;
                }
                (0..number).try_for_each(|n| tx.insert(&variable(tx, n)))
            };
            fixture.store.write_blocking(fixture.org, write).unwrap();
        };
        fill(MAX_VARIABLES - 1, String::new());
        put(&fixture, at, "last", "").unwrap();
        assert_eq!(put(&fixture, at, "more", "").unwrap_err().code(), "variables_full");
        put(&fixture, at, "last", "replaced").unwrap();

        fill(16, "x".repeat(MAX_VALUES_BYTES / 16));
        assert_eq!(put(&fixture, at, "more", "x").unwrap_err().code(), "variables_full");
        put(&fixture, at, "more", "").unwrap();
        put(&fixture, at, "v0", "").unwrap();
        put(&fixture, at, "more", "x").unwrap();
    }
}
