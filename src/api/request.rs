//! Requests as operations see them: typed arguments and a principal.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::org_source::OrgSlugMode;
use super::read::SourceFormat;
use super::system::SystemMonitor;
use crate::auth::nostr::Signer;
use crate::auth::oidc::Oidc;
use crate::auth::{Caller, Identity};
use crate::base::{ArtifactName, Id, Keys, Label, Name, Text, TraceParent, VariableName};
use crate::store::PageRequest;

/// A file as it was uploaded.
#[derive(Clone, Debug, Default)]
pub struct Uploaded {
    pub bytes: Bytes,
    /// One of the media types that the route takes.
    pub media_type: &'static str,
    /// The character encoding that its `Content-Type` names, as it was written there.
    pub charset: Option<String>,
}

/// Where a request comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The client's IP address.
    pub address: IpAddr,
    /// The base of links to this server; empty when it does not know its own address.
    pub link_base: String,
    /// Identifies the request in the log and the audit log.
    pub request_id: String,
    /// The trace that it belongs to.
    pub trace: Option<TraceParent>,
    /// What the client calls itself, as far as that is text and not long.
    pub user_agent: Option<Arc<str>>,
}

/// This machine.
impl Default for Origin {
    fn default() -> Self {
        Origin {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            link_base: String::new(),
            request_id: String::new(),
            trace: None,
            user_agent: None,
        }
    }
}

/// What the server is that requests are sent to: the same for all of them.
pub struct ServerInfo {
    /// What the server knows of itself.
    pub system: Arc<SystemMonitor>,
    /// Whether it can send mail.
    pub sends_mail: bool,
    /// The providers with which people sign in.
    pub oidc: Arc<Oidc>,
    /// The installation's keys, which sign cursors.
    pub keys: Keys,
}

impl ServerInfo {
    /// A server with these keys that has nothing else.
    pub fn bare(keys: Keys) -> Self {
        ServerInfo { system: Arc::default(), sends_mail: false, oidc: Arc::default(), keys }
    }
}

/// The parsed but untyped arguments of a request, which its route binds to [`Args`].
pub struct RawArgs<'a> {
    /// The parameters of the path, decoded, in its order.
    pub params: &'a Arc<[String]>,
    /// The query or the body.
    pub arguments: &'a Value,
    /// Which of the two.
    pub mode: SourceFormat,
    /// The query of a request whose arguments are in its body.
    pub unread_query: &'a str,
    /// Whether unknown fields are ignored rather than refused.
    pub is_lenient: bool,
    /// Whether the client prefers text, where an operation can answer with it.
    pub wants_text: bool,
    /// Whether the request has an `If-Match` that names states, which `*` does not.
    pub is_conditional: bool,
    /// How `orgSlug` is treated.
    pub org: OrgSlugMode,
    /// The argument other than `orgSlug` that determines the organization.
    pub reference: Option<&'static str>,
    /// The arguments that scopes of keys are narrowed by.
    pub targets: Vec<&'static str>,
    /// What was uploaded, for a route that takes a file.
    pub upload: Uploaded,
    pub origin: &'a Arc<Origin>,
    pub server: &'a Arc<ServerInfo>,
}

impl<'a> RawArgs<'a> {
    /// Arguments in a body, with these path parameters.
    pub fn body(
        params: &'a Arc<[String]>,
        arguments: &'a Value,
        (origin, server): (&'a Arc<Origin>, &'a Arc<ServerInfo>),
    ) -> Self {
        RawArgs {
            params,
            arguments,
            mode: SourceFormat::Body,
            unread_query: "",
            is_lenient: false,
            wants_text: false,
            is_conditional: false,
            org: OrgSlugMode::Ignored,
            reference: None,
            targets: Vec::new(),
            upload: Uploaded::default(),
            origin,
            server,
        }
    }
}

/// Who makes a request.
#[derive(Clone, Debug)]
pub enum Principal {
    /// An anonymous client: the route needs no credential.
    Anonymous,
    /// An authenticated user without an organization.
    Identity(Arc<Identity>),
    /// A member of the organization that the request is about.
    Caller(Arc<Caller>),
    /// An outside agent, known by the key that signs its requests.
    Signer(Arc<Signer>),
}

/// The typed arguments of a request.
pub struct Args<P, I> {
    /// The path parameters.
    pub params: P,
    /// The body or the query.
    pub input: I,
    /// The requested page of a list.
    pub page: PageRequest,
    /// What was uploaded; empty on a route that takes no file.
    pub upload: Uploaded,
    /// Whether the request has an `If-Match` that names states, of which one held: the client knows
    /// what it changes.
    pub is_conditional: bool,
    pub origin: Arc<Origin>,
    pub server: Arc<ServerInfo>,
}

/// A request as an operation sees it: [`Args`] and a [`Principal`].
pub struct Req<'a, P = (), I = ()> {
    args: &'a Args<P, I>,
    who: &'a Principal,
}

impl<'a, P, I> Req<'a, P, I> {
    /// A request of `who` with these arguments.
    pub fn new(args: &'a Args<P, I>, who: &'a Principal) -> Self {
        Req { args, who }
    }

    /// The caller. Only for routes with an organization.
    pub fn caller(&self) -> &'a Caller {
        match self.who {
            Principal::Caller(caller) => caller,
            _ => unreachable!("a route of an organization has a caller"),
        }
    }

    /// The caller, if the principal is a member of the request's organization; public resources are
    /// also read by others.
    pub fn caller_if_any(&self) -> Option<&'a Caller> {
        match self.who {
            Principal::Caller(caller) => Some(caller),
            _ => None,
        }
    }

    /// The identity. Only for routes that need a credential.
    pub fn identity(&self) -> &'a Identity {
        match self.who {
            Principal::Caller(caller) => &caller.identity,
            Principal::Identity(identity) => identity,
            Principal::Anonymous | Principal::Signer(_) => {
                unreachable!("a route that needs an account has an identity")
            }
        }
    }

    /// The signer. Only for routes of outside agents.
    pub fn signer(&self) -> &'a Signer {
        match self.who {
            Principal::Signer(signer) => signer,
            _ => unreachable!("a route of outside agents has a signer"),
        }
    }

    /// The identity, unless the client has no account.
    pub fn identity_if_any(&self) -> Option<&'a Identity> {
        match self.who {
            Principal::Anonymous | Principal::Signer(_) => None,
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

/// A path parameter. An invalid one names no resource: 404, not 400 (reference: conventions,
/// "Ids").
pub trait PathParam: Send + Sync + 'static {
    /// Parses it.
    fn parse(text: &str) -> Self;
    /// Its JSON Schema.
    fn schema() -> Schema;
    /// What is wrong with it, for the exception to that rule: the name of a resource to create.
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

/// A version number, from 1; 0 stands for an invalid one.
impl PathParam for u32 {
    fn parse(text: &str) -> Self {
        if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') {
            text.parse().unwrap_or(0)
        } else {
            0
        }
    }
    fn schema() -> Schema {
        json_schema!({"type": "integer", "minimum": 1})
    }
}

/// The name of a variable that a PUT sets (reference: conventions, "Texts and names").
impl PathParam for VariableName {
    fn parse(text: &str) -> Self {
        VariableName::from_trusted(text.into())
    }
    fn schema() -> Schema {
        <VariableName as JsonSchema>::json_schema(&mut SchemaGenerator::default())
    }
    fn problem(text: &str) -> Option<String> {
        VariableName::parse(text).err()
    }
}

/// The name of a provider that a PUT sets (reference: conventions, "Texts and names"): it may be one that an
/// earlier version has stored, so the operation checks a new one.
impl PathParam for Name {
    fn parse(text: &str) -> Self {
        Name::from_trusted(text.into())
    }
    fn schema() -> Schema {
        <Name as JsonSchema>::json_schema(&mut SchemaGenerator::default())
    }
    fn problem(text: &str) -> Option<String> {
        Name::parse_earlier(text).err()
    }
}

/// A text with bounds that a PUT sets.
impl<const MIN: usize, const MAX: usize> PathParam for Text<MIN, MAX> {
    fn parse(text: &str) -> Self {
        Self::from_trusted(text.into())
    }
    fn schema() -> Schema {
        <Self as JsonSchema>::json_schema(&mut SchemaGenerator::default())
    }
    fn problem(text: &str) -> Option<String> {
        Self::parse(text).err()
    }
}

/// A label that a PUT protects (reference: conventions, "Texts and names").
impl PathParam for Label {
    fn parse(text: &str) -> Self {
        Label::from_trusted(text.into())
    }
    fn schema() -> Schema {
        <Label as JsonSchema>::json_schema(&mut SchemaGenerator::default())
    }
    fn problem(text: &str) -> Option<String> {
        Label::parse(text).err()
    }
}

/// The name of an artifact that need not exist yet (reference: conventions, "Texts and names").
impl PathParam for ArtifactName {
    fn parse(text: &str) -> Self {
        ArtifactName::from_trusted(text.into())
    }
    fn schema() -> Schema {
        <ArtifactName as JsonSchema>::json_schema(&mut SchemaGenerator::default())
    }
    fn problem(text: &str) -> Option<String> {
        ArtifactName::parse(text).err()
    }
}

/// The parameters of a path, in its order.
pub trait PathParams: Send + Sync + 'static {
    /// Parses them; call it when there are no [`problems`](PathParams::problems).
    fn bind(params: &[String]) -> Self;
    /// Reports each invalid parameter: its index, and a phrase to follow its name.
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

/// Returns the names of a path's parameters, in its order.
pub fn path_names(path: &'static str) -> impl Iterator<Item = &'static str> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    names.map(|name| name.trim_start_matches('*'))
}
