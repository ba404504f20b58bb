//! What an operation is given: the typed parts of a request, and who asks.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::read::Mode;
use super::scope::OrgSlugMode;
use crate::auth::{Caller, Identity};
use crate::base::{ArtifactName, Id, Keys, VariableName};
use crate::store::PageRequest;

/// A request's arguments, parsed: what its route makes a [`Req`] of.
pub struct Raw<'a> {
    /// The parameters of the path, decoded, in its order.
    pub params: Vec<String>,
    /// The query or the body.
    pub arguments: &'a Value,
    /// Which of the two.
    pub mode: Mode,
    /// What becomes of `orgSlug`.
    pub org: OrgSlugMode,
    /// The argument that leads to the organization, beside `orgSlug`.
    pub reference: Option<&'static str>,
    /// The bytes that were sent to a route which takes some.
    pub content: Bytes,
    /// Where the request comes from.
    pub address: IpAddr,
    /// What links to this server begin with; empty when it does not know its own address.
    pub link_base: &'a str,
    /// The installation's keys, with which cursors are signed.
    pub keys: &'a Keys,
}

impl<'a> Raw<'a> {
    /// A body and the parameters of a path, from nowhere in particular.
    pub fn body(params: &[&str], arguments: &'a Value, org: OrgSlugMode, keys: &'a Keys) -> Self {
        Raw {
            params: params.iter().map(|param| param.to_string()).collect(),
            arguments,
            mode: Mode::Body,
            org,
            reference: None,
            content: Bytes::new(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            link_base: "",
            keys,
        }
    }
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
pub struct Args<P, I> {
    /// What the path names.
    pub params: P,
    /// The body or the query.
    pub input: I,
    /// Which part of a list is wanted.
    pub page: PageRequest,
    /// Where the request comes from.
    pub address: IpAddr,
    /// What links to this server begin with; empty when it does not know its own address.
    pub link_base: String,
}

/// A request, as an operation sees it: its [`Args`] and who asks.
pub struct Req<'a, P = (), I = ()> {
    args: &'a Args<P, I>,
    who: &'a Who,
}

impl<'a, P, I> Req<'a, P, I> {
    /// The args, asked for by `who`.
    pub fn new(args: &'a Args<P, I>, who: &'a Who) -> Self {
        Req { args, who }
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
    type Target = Args<P, I>;
    fn deref(&self) -> &Self::Target {
        self.args
    }
}

/// One parameter of a path. What cannot be one names nothing: 404, not
/// 400 (reference: conventions, "Ids").
pub trait PathParam: Send + Sync + 'static {
    /// Reads it.
    fn parse(text: &str) -> Self;
    /// Its JSON Schema.
    fn schema() -> Schema;
    /// What is wrong with it, where what cannot be one is refused after all: a name that is to be
    /// given to something.
    fn problem(_text: &str) -> Option<String> {
        None
    }
}

impl<T: ?Sized + 'static> PathParam for Id<T> {
    fn parse(text: &str) -> Self {
        Id::parse(text)
    }
    fn schema() -> Schema {
        json_schema!({"type": "string", "format": "uuid"})
    }
}

impl PathParam for String {
    fn parse(text: &str) -> Self {
        text.into()
    }
    fn schema() -> Schema {
        json_schema!({"type": "string"})
    }
}

/// A version's number, from 1; 0 names nothing.
impl PathParam for u32 {
    fn parse(text: &str) -> Self {
        match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') {
            true => text.parse().unwrap_or(0),
            false => 0,
        }
    }
    fn schema() -> Schema {
        json_schema!({"type": "integer", "minimum": 1})
    }
}

/// The name of what a PUT sets (reference: conventions, "Texts and names").
impl PathParam for VariableName {
    fn parse(text: &str) -> Self {
        VariableName::stored(text.into())
    }
    fn schema() -> Schema {
        <VariableName as JsonSchema>::json_schema(&mut SchemaGenerator::default())
    }
    fn problem(text: &str) -> Option<String> {
        VariableName::parse(text).err()
    }
}

/// The name of an artifact that need not be there yet (reference: conventions, "Texts and names").
impl PathParam for ArtifactName {
    fn parse(text: &str) -> Self {
        ArtifactName::stored(text.into())
    }
    fn schema() -> Schema {
        <ArtifactName as JsonSchema>::json_schema(&mut SchemaGenerator::default())
    }
    fn problem(text: &str) -> Option<String> {
        ArtifactName::parse(text).err()
    }
}

/// All parameters of a path, in its order.
pub trait PathParams: Send + Sync + 'static {
    /// Reads them, once there are no [`problems`](PathParams::problems).
    fn bind(params: &[String]) -> Self;
    /// Tells what is wrong with them: the place of each, and a phrase that follows its name.
    fn problems(params: &[String], note: &mut dyn FnMut(usize, String));
    /// Their schemas.
    fn schemas() -> Vec<Schema>;
}

impl PathParams for () {
    fn bind(_: &[String]) -> Self {}
    fn problems(_: &[String], _: &mut dyn FnMut(usize, String)) {}
    fn schemas() -> Vec<Schema> {
        vec![]
    }
}

fn param<P: PathParam>(params: &[String], index: usize) -> P {
    P::parse(params.get(index).map_or("", String::as_str))
}

fn problem<P: PathParam>(params: &[String], index: usize, note: &mut dyn FnMut(usize, String)) {
    if let Some(problem) = P::problem(params.get(index).map_or("", String::as_str)) {
        note(index, problem);
    }
}

impl<P: PathParam> PathParams for P {
    fn bind(params: &[String]) -> Self {
        param(params, 0)
    }
    fn problems(params: &[String], note: &mut dyn FnMut(usize, String)) {
        problem::<P>(params, 0, note);
    }
    fn schemas() -> Vec<Schema> {
        vec![P::schema()]
    }
}

impl<A: PathParam, B: PathParam> PathParams for (A, B) {
    fn bind(params: &[String]) -> Self {
        (param(params, 0), param(params, 1))
    }
    fn problems(params: &[String], note: &mut dyn FnMut(usize, String)) {
        problem::<A>(params, 0, note);
        problem::<B>(params, 1, note);
    }
    fn schemas() -> Vec<Schema> {
        vec![A::schema(), B::schema()]
    }
}

impl<A: PathParam, B: PathParam, C: PathParam> PathParams for (A, B, C) {
    fn bind(params: &[String]) -> Self {
        (param(params, 0), param(params, 1), param(params, 2))
    }
    fn problems(params: &[String], note: &mut dyn FnMut(usize, String)) {
        problem::<A>(params, 0, note);
        problem::<B>(params, 1, note);
        problem::<C>(params, 2, note);
    }
    fn schemas() -> Vec<Schema> {
        vec![A::schema(), B::schema(), C::schema()]
    }
}

/// The names of a path's parameters, in its order.
pub fn path_names(path: &'static str) -> impl Iterator<Item = &'static str> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    names.map(|name| name.trim_start_matches('*'))
}
