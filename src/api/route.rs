//! Routes: one value declares an endpoint. Method, path, rule and the operation, whose signature
//! gives the types, the validation and the OpenAPI document.

use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::extra::{Extra, LimitQuery, OrgOptional, OrgRequired, WaitQuery, cursor};
use super::read::{self, Input, Mode};
use super::request::{At, OrgSlug, Parts, Raw, Req, Who};
use crate::auth::passwords::{Hashed, Hashing};
use crate::auth::{Rule, User};
use crate::base::{Email, Error, Id, Int, Result, Time};
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

/// How a route finds the organization it is about.
#[derive(Clone, Copy)]
pub enum Scope {
    /// `orgSlug` says.
    Organization,
    /// It is about none.
    Installation,
    /// `orgSlug` says, or, where it is absent, the organization of the caller's in which the thing
    /// named by the path is: the function says whether it is in the view's.
    Wherever(fn(&View, &[String]) -> Result<bool>),
}

/// An answer: always 200, always JSON.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The JSON.
    pub body: Vec<u8>,
}

impl Answer {
    fn of(value: &impl Serialize) -> Result<Self> {
        // Most answers fit, and a body that grows is copied each time.
        let mut body = Vec::with_capacity(1024);
        serde_json::to_writer(&mut body, value)
            .map_err(|e| Error::internal(format!("an answer cannot be written: {e}")))?;
        Ok(Answer { body })
    }
}

/// A bound read.
pub type Reading = Box<dyn Fn(&View, &Who) -> Result<Answer> + Send + Sync>;
/// A bound write. It may be run again.
pub type Writing = Box<dyn FnMut(&mut Tx, &Who) -> Result<Answer> + Send>;

/// A route's operation, its arguments bound.
pub enum Action {
    /// Reads at a snapshot.
    Read(Reading),
    /// Writes in a transaction.
    Write(Writing),
    /// Reads, hashes passwords outside of any transaction, and writes.
    Hash(Box<dyn HashAction>),
    /// Waits until there is something to take.
    Wait(Arc<dyn WaitAction>),
}

/// A request whose arguments are bound.
pub struct Bound {
    /// `orgSlug`, if it was sent.
    pub org_slug: Option<String>,
    /// What to do.
    pub action: Action,
}

/// What an operation with a password needs done before it writes.
pub struct Work {
    /// The hashing.
    pub hashing: Hashing,
    /// The address whose sign-in attempts this counts against, and whether it is known to have
    /// signed in from here before.
    pub attempt: Option<(Email, bool)>,
}

/// A bound operation with a password.
pub trait HashAction: Send {
    /// Looks at the state and says what is to be hashed.
    fn look(&self, view: &View, who: &Who) -> Result<Work>;
    /// Writes, knowing what came of it; says whose doing it was.
    fn settle(&mut self, tx: &mut Tx, who: &Who, hashed: &Hashed) -> Result<(Answer, Id<User>)>;
}

/// What somebody who waits finds.
pub struct Look {
    /// What to listen to.
    pub topic: Uuid,
    /// Whether there is something to take now.
    pub ready: bool,
    /// When there may be something without any commit.
    pub again_at: Option<Time>,
}

/// One thing taken, for a stream.
pub struct Taken {
    /// Its id.
    pub id: String,
    /// The thing, as JSON.
    pub json: Value,
}

/// What was taken at once.
pub struct TakenPart {
    /// The things.
    pub items: Vec<Taken>,
    /// Where to go on, if more follows.
    pub next_cursor: Option<String>,
}

/// A bound operation that waits.
pub trait WaitAction: Send + Sync {
    /// Looks whether there is something.
    fn look(&self, view: &View, who: &Who) -> Result<Look>;
    /// Takes it.
    fn take(&self, tx: &mut Tx, who: &Who) -> Result<TakenPart>;
    /// How long to wait, in seconds, when there is nothing.
    fn wait_secs(&self) -> u64;
}

type Binder = Box<dyn Fn(&Raw) -> Result<Bound> + Send + Sync>;
type SettleFn<I, O> = fn(&mut Tx, &Req<(), I>, &Hashed) -> Result<(O, Id<User>)>;
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
        let bind = move |parts: Parts<P, I>, _: &Extra| {
            Ok(Action::Read(Box::new(move |view, who| {
                Answer::of(&operation(view, &Req::new(&parts, who))?)
            })))
        };
        Self::new::<P, I, O>(Method::Get, path, rule, name, Shape::One, bind)
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
                let page = operation(view, &Req::new(&parts, who))?;
                let next = page.next.map(|position| cursor(&list, &position));
                Answer::of(&Listed { items: page.items, next_cursor: next })
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

    /// A POST with a password in it: `look` says what is to be hashed, `settle` writes and says
    /// whose doing it was.
    pub fn hashing<I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        look: fn(&View, &Req<(), I>) -> Result<Work>,
        settle: SettleFn<I, O>,
    ) -> Self {
        struct Both<I, O> {
            parts: Parts<(), I>,
            look: fn(&View, &Req<(), I>) -> Result<Work>,
            settle: SettleFn<I, O>,
        }
        impl<I: Input, O: Serialize> HashAction for Both<I, O> {
            fn look(&self, view: &View, who: &Who) -> Result<Work> {
                (self.look)(view, &Req::new(&self.parts, who))
            }
            fn settle(
                &mut self,
                tx: &mut Tx,
                who: &Who,
                hashed: &Hashed,
            ) -> Result<(Answer, Id<User>)> {
                let (out, user) = (self.settle)(tx, &Req::new(&self.parts, who), hashed)?;
                Ok((Answer::of(&out)?, user))
            }
        }
        let bind = move |parts: Parts<(), I>, _: &Extra| {
            Ok(Action::Hash(Box::new(Both { parts, look, settle }) as Box<dyn HashAction>))
        };
        Self::new::<(), I, O>(Method::Post, path, rule, name, Shape::Change, bind)
            .scope(Scope::Installation)
    }

    /// A GET that waits (`wait`, 0 to 60 seconds) until `look` finds something and then takes a part
    /// of it, as a list is read.
    /// With `Accept: text/event-stream` it goes on, each thing being an event named `event`.
    pub fn wait<P: At, I: Input + JsonSchema, O: Serialize + JsonSchema + 'static>(
        path: &'static str,
        rule: Rule,
        name: &'static str,
        event: &'static str,
        look: fn(&View, &Req<P, I>) -> Result<Look>,
        take: fn(&mut Tx, &Req<P, I>) -> Result<Page<O>>,
    ) -> Self {
        struct Both<P, I, O> {
            parts: Parts<P, I>,
            secs: u64,
            list: [u8; 32],
            look: fn(&View, &Req<P, I>) -> Result<Look>,
            take: fn(&mut Tx, &Req<P, I>) -> Result<Page<O>>,
        }
        impl<P: At, I: Input, O: Serialize> WaitAction for Both<P, I, O> {
            fn look(&self, view: &View, who: &Who) -> Result<Look> {
                (self.look)(view, &Req::new(&self.parts, who))
            }
            fn take(&self, tx: &mut Tx, who: &Who) -> Result<TakenPart> {
                let page = (self.take)(tx, &Req::new(&self.parts, who))?;
                let taken = page.items.iter().map(|thing| {
                    let json = serde_json::to_value(thing)
                        .map_err(|e| Error::internal(format!("cannot be written: {e}")))?;
                    let id = json.get("id").and_then(Value::as_str).unwrap_or_default().into();
                    Ok(Taken { id, json })
                });
                let next_cursor = page.next.map(|position| cursor(&self.list, &position));
                Ok(TakenPart { items: taken.collect::<Result<_>>()?, next_cursor })
            }
            fn wait_secs(&self) -> u64 {
                self.secs
            }
        }
        let bind = move |parts: Parts<P, I>, extra: &Extra| {
            let Extra { wait_secs: secs, list, .. } = *extra;
            Ok(Action::Wait(Arc::new(Both { parts, secs, list, look, take })))
        };
        Self::new::<P, I, O>(Method::Get, path, rule, name, Shape::Wait(event), bind)
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

    fn new<P: At, I: Input + JsonSchema, O: JsonSchema>(
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
            let mut extra = Extra::none();
            if matches!(shape, Shape::List | Shape::Wait(_)) {
                match read::read_input(&value, mode) {
                    Ok(LimitQuery { limit }) => extra.set_limit(limit),
                    Err(error) => note(error),
                }
                match read::read_input(&value, mode).and_then(|q| extra.set_cursor(raw, q)) {
                    Ok(()) => {}
                    Err(error) => note(error),
                }
            }
            if let Shape::Wait(_) = shape {
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
            Ok(Bound { org_slug, action: bind(parts, &extra)? })
        });
        Route {
            method,
            path,
            rule,
            name,
            about: "",
            scope: Scope::Organization,
            shape,
            secret: None,
            filters: match shape {
                Shape::List | Shape::Wait(_) => names_of::<I>(),
                _ => Vec::new(),
            },
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}
