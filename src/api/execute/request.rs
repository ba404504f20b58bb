//! What an adapter asks to have executed.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::etag::Etag;
use crate::api::read::{SourceFormat, parse_body, parse_query};
use crate::api::route::Route;
use crate::auth::{Identity, RawCredential};
use crate::base::Result;

/// A call of a route.
pub struct Request<'a> {
    /// The route.
    pub route: &'a Arc<Route>,
    /// The GET of the same path, if there is one: what [`Preconditions::if_match`] is compared with.
    pub reading: Option<&'a Arc<Route>>,
    /// The parameters of the path, decoded, in its order.
    pub params: Vec<String>,
    /// What stands in the query. Arguments, unless they come otherwise.
    pub query: &'a str,
    /// The arguments.
    pub arguments: Arguments,
    /// The credential, not yet verified.
    pub credential: RawCredential,
    /// Conditions on the state.
    pub preconditions: Preconditions<'a>,
    /// 1 to 255 printable ASCII characters; only a POST looks at it.
    pub idempotency_key: Option<&'a [u8]>,
    /// Whether items of a route that waits are wanted as a stream without end.
    pub is_stream: bool,
    /// Where the request comes from.
    pub address: IpAddr,
    /// What links to this server begin with; empty when it does not know its own address.
    pub link_base: &'a str,
    /// What the log and the audit log call this request.
    pub request_id: &'a str,
}

/// The arguments of a call.
pub enum Arguments {
    /// They are in [`Request::query`].
    Query,
    /// JSON, not yet parsed; nothing is `{}`.
    Body(Bytes),
    /// JSON, parsed already.
    Json(Value),
    /// They are in [`Request::query`]; these bytes are what the route takes beside them.
    Upload(Bytes),
}

impl Arguments {
    /// The arguments, parsed.
    ///
    /// # Errors
    /// 400 for a body that is no JSON object.
    pub(super) fn parse<'a>(&'a self, query: &str) -> Result<(ArgumentsValue<'a>, SourceFormat)> {
        Ok(match self {
            Arguments::Query | Arguments::Upload(_) => {
                (ArgumentsValue::Parsed(parse_query(query)), SourceFormat::Query)
            }
            Arguments::Body(bytes) => {
                (ArgumentsValue::Parsed(parse_body(bytes)?), SourceFormat::Body)
            }
            Arguments::Json(value) => (ArgumentsValue::Given(value), SourceFormat::Body),
        })
    }

    /// The bytes that were sent beside the query, for telling requests apart.
    pub(super) fn bytes(&self) -> Bytes {
        match self {
            Arguments::Query => Bytes::new(),
            Arguments::Body(bytes) | Arguments::Upload(bytes) => bytes.clone(),
            Arguments::Json(value) => value.to_string().into(),
        }
    }

    /// The bytes for a route that takes some.
    pub(super) fn content(&self) -> Bytes {
        match self {
            Arguments::Upload(bytes) => bytes.clone(),
            _ => Bytes::new(),
        }
    }
}

/// Arguments as a tree: parsed here, or by the adapter.
pub(super) enum ArgumentsValue<'a> {
    /// Parsed here.
    Parsed(Value),
    /// Parsed by the adapter.
    Given(&'a Value),
}

impl std::ops::Deref for ArgumentsValue<'_> {
    type Target = Value;
    fn deref(&self) -> &Value {
        match self {
            ArgumentsValue::Parsed(value) => value,
            ArgumentsValue::Given(value) => value,
        }
    }
}

/// Conditions on the state of what a request is about, as lists of tags.
#[derive(Clone, Default)]
pub struct Preconditions<'a> {
    /// A PATCH or DELETE is done only if one of these names the state (412).
    pub if_match: Vec<&'a [u8]>,
    /// What a GET reads is not sent if one of these names it.
    pub if_none_match: Vec<&'a [u8]>,
}

impl Preconditions<'_> {
    /// Whether the caller says that they have what has this tag.
    pub(super) fn has(&self, tag: &Etag) -> bool {
        self.if_none_match.iter().any(|tags| tag.is_in(tags, true))
    }
}

/// Whose credential a request came with, as far as its route wants to know: the proof that
/// [`Executor::authenticate`](super::Executor::authenticate) let it pass.
pub struct Authenticated(pub(super) Option<Arc<Identity>>);

impl Authenticated {
    /// Whether the request came without a credential.
    pub fn is_anonymous(&self) -> bool {
        self.0.is_none()
    }
}
