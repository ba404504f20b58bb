//! What an operation is given: the typed parts of a request, and who asks.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::auth::{Caller, Identity};
use crate::base::{ArtifactName, Id, Issue, VariableName};
use crate::store::Part;

/// A request as it came in: what its route makes a [`Req`] of.
pub struct Raw<'a> {
    /// The parameters of the path, decoded, in its order.
    pub params: Vec<String>,
    /// The query, as sent.
    pub query: &'a str,
    /// The body, as sent.
    pub body: &'a [u8],
    /// Whether `orgSlug` must be there.
    pub org: OrgSlug,
    /// Whether `registryRef` may say which organization it is about.
    pub by_name: bool,
    /// Where the request comes from.
    pub address: IpAddr,
    /// What links to this server begin with; empty when it does not know its own address.
    pub link_base: &'a str,
    /// The key that cursors of this list are signed with: one is good for one list only.
    pub list: [u8; 32],
}

/// What a route does with `orgSlug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrgSlug {
    /// It must be there.
    Required,
    /// It may be there.
    Optional,
    /// It is passed over.
    Ignored,
}

/// Who asks.
#[derive(Clone, Debug)]
pub enum Who {
    /// Anybody: the route needs no credential.
    Anyone,
    /// Somebody with a session, in no particular organization.
    Identity(Arc<Identity>),
    /// Somebody in the organization the request is about.
    Caller(Arc<Caller>),
}

/// The parts of a request that an operation works with.
pub struct Parts<P, I> {
    /// What the path names.
    pub at: P,
    /// The body or the query.
    pub input: I,
    /// Which part of a list is wanted.
    pub part: Part,
    /// Where the request comes from.
    pub address: IpAddr,
    /// What links to this server begin with; empty when it does not know its own address.
    pub link_base: String,
}

/// A request, as an operation sees it: its [`Parts`] and who asks.
pub struct Req<'a, P = (), I = ()> {
    parts: &'a Parts<P, I>,
    who: &'a Who,
}

impl<'a, P, I> Req<'a, P, I> {
    /// The parts, asked for by `who`.
    pub fn new(parts: &'a Parts<P, I>, who: &'a Who) -> Self {
        Req { parts, who }
    }

    /// Who asks, in the organization the request is about. Only for routes of an organization.
    pub fn caller(&self) -> &'a Caller {
        match self.who {
            Who::Caller(caller) => caller,
            _ => unreachable!("a route of an organization has a caller"),
        }
    }

    /// Who asks, if they are of the organization the request is about: what is open to anybody is
    /// read by others too.
    pub fn caller_if_any(&self) -> Option<&'a Caller> {
        match self.who {
            Who::Caller(caller) => Some(caller),
            _ => None,
        }
    }

    /// Who asks, on any route that needs a credential.
    pub fn identity(&self) -> &'a Identity {
        match self.who {
            Who::Caller(caller) => &caller.identity,
            Who::Identity(identity) => identity,
            Who::Anyone => unreachable!("a route that needs a credential has an identity"),
        }
    }

    /// Who asks, if they sent a credential.
    pub fn identity_if_any(&self) -> Option<&'a Identity> {
        match self.who {
            Who::Anyone => None,
            _ => Some(self.identity()),
        }
    }
}

impl<P, I> Deref for Req<'_, P, I> {
    type Target = Parts<P, I>;
    fn deref(&self) -> &Self::Target {
        self.parts
    }
}

/// One parameter of a path. What cannot be one names nothing: 404, not 400 (contract §1).
pub trait PathPart: Send + Sync + 'static {
    /// Reads it.
    fn part(text: &str) -> Self;
    /// Its JSON Schema.
    fn schema() -> Schema;
    /// What is wrong with it, where what cannot be one is refused after all: a name that is to be
    /// given to something.
    fn problem(_text: &str) -> Option<Issue> {
        None
    }
}

impl<T: ?Sized + 'static> PathPart for Id<T> {
    fn part(text: &str) -> Self {
        Id::parse(text)
    }
    fn schema() -> Schema {
        json_schema!({"type": "string", "format": "uuid"})
    }
}

impl PathPart for String {
    fn part(text: &str) -> Self {
        text.into()
    }
    fn schema() -> Schema {
        json_schema!({"type": "string"})
    }
}

/// A version's number, from 1; 0 names nothing.
impl PathPart for u32 {
    fn part(text: &str) -> Self {
        match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') {
            true => text.parse().unwrap_or(0),
            false => 0,
        }
    }
    fn schema() -> Schema {
        json_schema!({"type": "integer", "minimum": 1})
    }
}

/// The name of what a PUT sets (contract §1, "Text").
impl PathPart for VariableName {
    fn part(text: &str) -> Self {
        VariableName::stored(text.into())
    }
    fn schema() -> Schema {
        <VariableName as JsonSchema>::json_schema(&mut SchemaGenerator::default())
    }
    fn problem(text: &str) -> Option<Issue> {
        VariableName::parse(text).err().map(|message| Issue::new("name", message))
    }
}

/// The name of an artifact that need not be there yet (contract §1, "Text").
impl PathPart for ArtifactName {
    fn part(text: &str) -> Self {
        ArtifactName::stored(text.into())
    }
    fn schema() -> Schema {
        <ArtifactName as JsonSchema>::json_schema(&mut SchemaGenerator::default())
    }
    fn problem(text: &str) -> Option<Issue> {
        ArtifactName::parse(text).err().map(|message| Issue::new("promptName", message))
    }
}

/// All parameters of a path, in its order.
pub trait At: Send + Sync + 'static {
    /// Reads them, once there are no [`problems`](At::problems).
    fn bind(params: &[String]) -> Self;
    /// What is wrong with them.
    fn problems(params: &[String]) -> Vec<Issue>;
    /// Their schemas.
    fn schemas() -> Vec<Schema>;
}

impl At for () {
    fn bind(_: &[String]) -> Self {}
    fn problems(_: &[String]) -> Vec<Issue> {
        vec![]
    }
    fn schemas() -> Vec<Schema> {
        vec![]
    }
}

fn part<P: PathPart>(params: &[String], index: usize) -> P {
    P::part(params.get(index).map_or("", String::as_str))
}

fn problem<P: PathPart>(params: &[String], index: usize) -> Option<Issue> {
    P::problem(params.get(index).map_or("", String::as_str))
}

impl<P: PathPart> At for P {
    fn bind(params: &[String]) -> Self {
        part(params, 0)
    }
    fn problems(params: &[String]) -> Vec<Issue> {
        problem::<P>(params, 0).into_iter().collect()
    }
    fn schemas() -> Vec<Schema> {
        vec![P::schema()]
    }
}

impl<A: PathPart, B: PathPart> At for (A, B) {
    fn bind(params: &[String]) -> Self {
        (part(params, 0), part(params, 1))
    }
    fn problems(params: &[String]) -> Vec<Issue> {
        [problem::<A>(params, 0), problem::<B>(params, 1)].into_iter().flatten().collect()
    }
    fn schemas() -> Vec<Schema> {
        vec![A::schema(), B::schema()]
    }
}

impl<A: PathPart, B: PathPart, C: PathPart> At for (A, B, C) {
    fn bind(params: &[String]) -> Self {
        (part(params, 0), part(params, 1), part(params, 2))
    }
    fn problems(params: &[String]) -> Vec<Issue> {
        [problem::<A>(params, 0), problem::<B>(params, 1), problem::<C>(params, 2)]
            .into_iter()
            .flatten()
            .collect()
    }
    fn schemas() -> Vec<Schema> {
        vec![A::schema(), B::schema(), C::schema()]
    }
}

/// What DELETE answers (contract §1).
#[derive(Clone, Debug, serde::Serialize, JsonSchema)]
pub struct Removed {
    /// The id of what was removed, or its name where it has no id.
    pub id: String,
    /// Always true.
    pub deleted: bool,
}

impl Removed {
    /// That `id` was removed.
    pub fn new(id: impl ToString) -> Self {
        Removed { id: id.to_string(), deleted: true }
    }
}

/// `{}`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Empty {}

impl JsonSchema for Empty {
    fn schema_name() -> Cow<'static, str> {
        "Empty".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}
