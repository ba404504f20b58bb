//! Routes: one value declares an endpoint. Method, path, rule and the operation, whose signature
//! gives the types, the validation and the OpenAPI document.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use super::action::{Action, Answer, Bound};
use super::extra::{
    Extra, LimitQuery, OrgOptional, OrgRequired, RegistryOptional, WaitQuery, cursor,
};
use super::read::{self, Input, Mode};
use super::request::{At, OrgSlug, Parts, Raw, Req};
use super::scope::{Named, Scope};
use crate::auth::Rule;
use crate::base::{Error, Int, Result};
use crate::store::{Page, Tx, View};

/// The methods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates, or does something.
    Post,
    /// Replaces what has a name.
    Put,
    /// Changes.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }

    /// Whether arguments come in the body. Else they are in the query, and a body is ignored.
    pub fn has_body(self) -> bool {
        matches!(self, Method::Post | Method::Put | Method::Patch)
    }
}

type Binder = Box<dyn Fn(&Raw) -> Result<Bound> + Send + Sync>;
/// Makes a schema, leaving those it needs in the generator.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What kind of operation a route has, for the document and the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One thing is read: it has an ETag.
    One,
    /// A list is read in parts.
    List,
    /// Something is written.
    Change,
    /// Something is waited for; events of this name stream it.
    Wait(&'static str),
    /// One thing is read, perhaps once it is another: it has an ETag.
    Watch,
    /// Something is asked in a body; nothing changes.
    Ask,
}

impl Shape {
    /// Whether it answers a part of a list.
    pub fn is_list(self) -> bool {
        matches!(self, Shape::List | Shape::Wait(_))
    }

    /// Whether it answers one thing with its ETag.
    pub fn has_tag(self) -> bool {
        matches!(self, Shape::One | Shape::Watch)
    }

    /// Whether it takes `wait`.
    pub fn waits(self) -> bool {
        matches!(self, Shape::Wait(_) | Shape::Watch)
    }
}

/// An endpoint.
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path below `/api`, in matchit's form.
    pub path: &'static str,
    /// Who may call it.
    pub rule: Rule,
    /// Noun and verb (`task.create`): its name in the audit log and in the document.
    pub name: &'static str,
    /// A line that says what it does.
    pub about: &'static str,
    /// How it finds its organization.
    pub scope: Scope,
    /// What kind of operation it has.
    pub shape: Shape,
    /// Whether its operation needs answers from outside, which may fail (502).
    pub calls: bool,
    /// The field of its answer that may hold a secret which is never shown again, so that no copy
    /// of such an answer may be kept.
    pub secret: Option<&'static str>,
    /// The parameters of the query that say which list it gives.
    pub filters: Vec<String>,
    /// The schemas of its path parameters.
    pub params: Vec<Schema>,
    /// The schema of its body or query.
    pub input: SchemaOf,
    /// The schema of its answer, or of the items of its list.
    pub output: SchemaOf,
    bind: Binder,
}

impl Route {
    /// Reads one thing.
    pub fn get<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        operation: fn(&View, &Req<P, I>) -> Result<O>,
    ) -> Self {
        Self::read(Method::Get, path, rule, name, Shape::One, operation)
    }

    /// What reads one thing: a GET, or a POST that asks.
    pub(super) fn read<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        method: Method,
        path: &'static str,
        rule: Rule,
        name: &'static str,
        shape: Shape,
        operation: fn(&View, &Req<P, I>) -> Result<O>,
    ) -> Self {
        let bind = move |parts: Parts<P, I>, _: &Extra| {
            Ok(Action::Read(Box::new(move |view, who| {
                Answer::of(&operation(view, &Req::new(&parts, who))?)
            })))
        };
        Self::new::<P, I, O>(method, path, rule, name, shape, bind)
    }

    /// Reads a list in parts.
    pub fn list<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        operation: fn(&View, &Req<P, I>) -> Result<Page<O>>,
    ) -> Self {
        let bind = move |parts: Parts<P, I>, extra: &Extra| {
            let list = extra.list;
            Ok(Action::Read(Box::new(move |view, who| {
                Answer::of(&Listed::new(operation(view, &Req::new(&parts, who))?, &list))
            })))
        };
        Self::new::<P, I, O>(Method::Get, path, rule, name, Shape::List, bind)
    }

    /// Creates, or does something.
    pub fn post<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        operation: fn(&mut Tx, &Req<P, I>) -> Result<O>,
    ) -> Self {
        Self::write(Method::Post, path, rule, name, operation)
    }

    /// Replaces what has a name.
    pub fn put<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        operation: fn(&mut Tx, &Req<P, I>) -> Result<O>,
    ) -> Self {
        Self::write(Method::Put, path, rule, name, operation)
    }

    /// Changes.
    pub fn patch<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        operation: fn(&mut Tx, &Req<P, I>) -> Result<O>,
    ) -> Self {
        Self::write(Method::Patch, path, rule, name, operation)
    }

    /// Removes.
    pub fn delete<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        operation: fn(&mut Tx, &Req<P, I>) -> Result<O>,
    ) -> Self {
        Self::write(Method::Delete, path, rule, name, operation)
    }

    fn write<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        method: Method,
        path: &'static str,
        rule: Rule,
        name: &'static str,
        operation: fn(&mut Tx, &Req<P, I>) -> Result<O>,
    ) -> Self {
        let bind = move |parts: Parts<P, I>, _: &Extra| {
            Ok(Action::Write(Box::new(move |tx, who| {
                Answer::of(&operation(tx, &Req::new(&parts, who))?)
            })))
        };
        Self::new::<P, I, O>(method, path, rule, name, Shape::Change, bind)
    }

    /// Says in a line what it does.
    pub fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Says how it finds its organization, if not by `orgSlug`.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Its answer shows a secret that is never shown again in this field, unless it is null.
    pub fn shows_secret(mut self, field: &'static str) -> Self {
        self.secret = Some(field);
        self
    }

    /// Binds a request's arguments.
    ///
    /// # Errors
    /// 400 with every problem found.
    pub fn bind(&self, raw: &Raw) -> Result<Bound> {
        (self.bind)(raw)
    }

    pub(super) fn new<P: At, I: Input + JsonSchema, O: JsonSchema>(
        method: Method,
        path: &'static str,
        rule: Rule,
        name: &'static str,
        shape: Shape,
        bind: impl Fn(Parts<P, I>, &Extra) -> Result<Action> + Send + Sync + 'static,
    ) -> Self {
        // The scope is set after this, so the binder is told it when it is called.
        let bind: Binder = Box::new(move |raw| {
            let (value, mode) = match method.has_body() {
                true => (read::parse_body(raw.body)?, Mode::Body),
                false => (read::parse_query(raw.query), Mode::Query),
            };
            let mut issues = P::problems(&raw.params);
            let mut note = |error: Error| issues.extend_from_slice(error.issues());
            let org_slug = match raw.org {
                OrgSlug::Ignored => Ok(None),
                OrgSlug::Optional => {
                    read::read_input(&value, mode).map(|o: OrgOptional| o.org_slug)
                }
                OrgSlug::Required => {
                    read::read_input(&value, mode).map(|o: OrgRequired| Some(o.org_slug))
                }
            }
            .unwrap_or_else(|error| {
                note(error);
                None
            });
            let registry_ref = match raw.by_name {
                false => Ok(None),
                true => read::read_input(&value, mode).map(|r: RegistryOptional| r.registry_ref),
            }
            // Whether it must be there, and what is wrong with it, the operation's own input says.
            .unwrap_or_default();
            let mut extra = Extra::none();
            if shape.is_list() {
                match read::read_input(&value, mode) {
                    Ok(LimitQuery { limit }) => extra.set_limit(limit),
                    Err(error) => note(error),
                }
                match read::read_input(&value, mode).and_then(|q| extra.set_cursor(raw, q)) {
                    Ok(()) => {}
                    Err(error) => note(error),
                }
            }
            if shape.waits() {
                match read::read_input(&value, mode) {
                    Ok(WaitQuery { wait }) => extra.wait_secs = wait.map_or(0, Int::get) as u64,
                    Err(error) => note(error),
                }
            }
            let input = read::read_input::<I>(&value, mode).map_err(&mut note);
            let (Ok(input), true) = (input, issues.is_empty()) else {
                return Err(Error::invalid(issues));
            };
            let parts = Parts {
                at: P::bind(&raw.params),
                input,
                part: extra.part.clone(),
                address: raw.address,
                link_base: raw.link_base.into(),
            };
            let named = Named { org_slug, registry_ref, params: raw.params.clone() };
            Ok(Bound { named, action: bind(parts, &extra)? })
        });
        Route {
            method,
            path,
            rule,
            name,
            about: "",
            scope: Scope::Organization,
            shape,
            calls: false,
            secret: None,
            filters: if shape.is_list() { names_of::<I>() } else { Vec::new() },
            params: P::schemas(),
            input: |generator| generator.subschema_for::<I>(),
            output: |generator| generator.subschema_for::<O>(),
            bind,
        }
    }
}

/// The names of what an input is made of.
fn names_of<I: JsonSchema>() -> Vec<String> {
    let schema = I::json_schema(&mut SchemaGenerator::default());
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// A part of a list as it is answered.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl<T> Listed<T> {
    /// A part of the list whose cursors are signed with this key.
    pub fn new(page: Page<T>, list: &[u8; 32]) -> Self {
        let next_cursor = page.next.map(|position| cursor(list, &position));
        Listed { items: page.items, next_cursor }
    }
}
