//! Requests as an adapter passes them to the executor.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::etag::Etag;
use crate::api::read::{SourceFormat, parse_body, parse_query};
use crate::api::request::Uploaded;
use crate::api::route::Route;
use crate::auth::nostr::Signer;
use crate::auth::{Identity, RawCredential};
use crate::base::{Result, TraceParent};
use crate::store::ReadPoint;

/// A call of a route.
pub struct Request<'a> {
    pub route: &'a Arc<Route>,
    /// The GET of the same path, if there is one: what [`Preconditions::if_match`] is compared
    /// with.
    pub reading: Option<&'a Arc<Route>>,
    /// The parameters of the path, decoded, in its order.
    pub params: Vec<String>,
    /// Path and query as the client sent them, which it may have signed.
    pub target: &'a str,
    /// The query string; it holds the arguments unless [`Request::arguments`] does.
    pub query: &'a str,
    pub arguments: Arguments,
    /// The credential, not yet verified.
    pub credential: RawCredential,
    /// `If-Match` and `If-None-Match`.
    pub preconditions: Preconditions<'a>,
    /// 1 to 255 printable ASCII characters; used by POST only.
    pub idempotency_key: Option<&'a [u8]>,
    /// Whether unknown fields and parameters are ignored rather than refused.
    pub is_lenient: bool,
    /// Whether the client prefers text, where an operation can answer with it.
    pub wants_text: bool,
    /// Whether only the headers of the response are sent, so that nothing may be taken.
    pub is_head: bool,
    /// Whether an operation that waits should answer with a stream of items.
    pub is_stream: bool,
    /// The id of the last event that the client had of an earlier stream.
    pub last_event_id: Option<&'a str>,
    /// The client's IP address.
    pub address: IpAddr,
    /// The base of links to this server; empty when it does not know its own address.
    pub link_base: &'a str,
    /// Identifies the request in the log and the audit log.
    pub request_id: &'a str,
    /// The trace that it belongs to.
    pub trace: Option<TraceParent>,
    /// The state that a read sees, of an adapter that makes one answer of several; otherwise the
    /// newest.
    pub at: Option<&'a ReadPoint>,
}

impl<'a> Request<'a> {
    /// Creates a request with these arguments from this machine: what an adapter adds is empty.
    pub fn new(
        route: &'a Arc<Route>,
        params: Vec<String>,
        arguments: Arguments,
        credential: RawCredential,
    ) -> Self {
        Request {
            route,
            reading: None,
            params,
            target: "",
            query: "",
            arguments,
            credential,
            preconditions: Preconditions::default(),
            idempotency_key: None,
            is_lenient: false,
            wants_text: false,
            is_head: false,
            is_stream: false,
            last_event_id: None,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            link_base: "",
            request_id: "",
            trace: None,
            at: None,
        }
    }
}

impl Request<'_> {
    /// Whether it takes much processor time however small it is.
    pub(super) fn is_costly(&self) -> bool {
        let has = |name: &str| match &self.arguments {
            Arguments::Json(arguments) => arguments.get(name).is_some(),
            _ => form_urlencoded::parse(self.query.as_bytes()).any(|(sent, _)| sent == name),
        };
        self.route.costly || self.route.costly_with.is_some_and(has)
    }
}

/// A request that borrows nothing, for another thread.
pub(super) struct OwnedRequest {
    route: Arc<Route>,
    reading: Option<Arc<Route>>,
    params: Vec<String>,
    query: String,
    arguments: Arguments,
    credential: RawCredential,
    if_match: Vec<Vec<u8>>,
    if_none_match: Vec<Vec<u8>>,
    idempotency_key: Option<Vec<u8>>,
    is_lenient: bool,
    wants_text: bool,
    is_head: bool,
    is_stream: bool,
    last_event_id: Option<String>,
    address: IpAddr,
    link_base: String,
    target: String,
    request_id: String,
    trace: Option<TraceParent>,
    at: Option<ReadPoint>,
}

impl OwnedRequest {
    /// Copies what a request borrows. Its body is shared.
    pub fn of(request: &Request) -> Self {
        let owned = |tags: &[&[u8]]| tags.iter().map(|tags| tags.to_vec()).collect();
        OwnedRequest {
            route: request.route.clone(),
            reading: request.reading.cloned(),
            params: request.params.clone(),
            query: request.query.into(),
            arguments: request.arguments.clone(),
            credential: request.credential.clone(),
            if_match: owned(&request.preconditions.if_match),
            if_none_match: owned(&request.preconditions.if_none_match),
            idempotency_key: request.idempotency_key.map(<[u8]>::to_vec),
            is_lenient: request.is_lenient,
            wants_text: request.wants_text,
            is_head: request.is_head,
            is_stream: request.is_stream,
            last_event_id: request.last_event_id.map(Into::into),
            address: request.address,
            link_base: request.link_base.into(),
            target: request.target.into(),
            request_id: request.request_id.into(),
            trace: request.trace,
            at: request.at.cloned(),
        }
    }

    /// The request.
    pub fn borrow(&self) -> Request<'_> {
        Request {
            route: &self.route,
            reading: self.reading.as_ref(),
            params: self.params.clone(),
            query: &self.query,
            arguments: self.arguments.clone(),
            credential: self.credential.clone(),
            preconditions: Preconditions {
                if_match: self.if_match.iter().map(Vec::as_slice).collect(),
                if_none_match: self.if_none_match.iter().map(Vec::as_slice).collect(),
            },
            idempotency_key: self.idempotency_key.as_deref(),
            is_lenient: self.is_lenient,
            wants_text: self.wants_text,
            is_head: self.is_head,
            is_stream: self.is_stream,
            last_event_id: self.last_event_id.as_deref(),
            address: self.address,
            link_base: &self.link_base,
            target: &self.target,
            request_id: &self.request_id,
            trace: self.trace,
            at: self.at.as_ref(),
        }
    }
}

/// The arguments of a call.
#[derive(Clone)]
pub enum Arguments {
    /// In [`Request::query`].
    Query,
    /// JSON, not yet parsed; an empty body is `{}`.
    Body(Bytes),
    /// Parsed JSON.
    Json(Value),
    /// In [`Request::query`], beside a file.
    Upload(Uploaded),
}

impl Arguments {
    /// The arguments, parsed.
    ///
    /// # Errors
    /// 400 for a body that is not a JSON object.
    pub(super) fn parse<'a>(&'a self, query: &str) -> Result<(ArgumentsValue<'a>, SourceFormat)> {
        Ok(match self {
            Arguments::Query | Arguments::Upload(..) => {
                (ArgumentsValue::Parsed(parse_query(query)), SourceFormat::Query)
            }
            Arguments::Body(bytes) => {
                (ArgumentsValue::Parsed(parse_body(bytes)?), SourceFormat::Body)
            }
            Arguments::Json(value) => (ArgumentsValue::Given(value), SourceFormat::Body),
        })
    }

    /// The size of the body in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Arguments::Query => 0,
            Arguments::Body(bytes) | Arguments::Upload(Uploaded { bytes, .. }) => bytes.len(),
            Arguments::Json(value) => value.to_string().len(),
        }
    }

    /// The bytes of the body, for the fingerprint of the request.
    pub(super) fn bytes(&self) -> Bytes {
        match self {
            Arguments::Query => Bytes::new(),
            Arguments::Body(bytes) => bytes.clone(),
            // Of another type the same bytes are another file.
            Arguments::Upload(Uploaded { bytes, media_type, charset }) => {
                let charset = charset.as_deref().unwrap_or_default();
                [media_type.as_bytes(), b"\0", charset.as_bytes(), b"\0", bytes].concat().into()
            }
            Arguments::Json(value) => value.to_string().into(),
        }
    }

    /// The uploaded file; an empty one if there is none.
    pub(super) fn upload(&self) -> Uploaded {
        match self {
            Arguments::Upload(upload) => upload.clone(),
            _ => Uploaded::default(),
        }
    }
}

/// Arguments as a JSON value.
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

/// The conditions of a request, as lists of entity tags.
#[derive(Clone, Default)]
pub struct Preconditions<'a> {
    /// A PATCH or DELETE is executed only if one of these is the current tag (412).
    pub if_match: Vec<&'a [u8]>,
    /// A GET is answered without a body if one of these is the current tag (304).
    pub if_none_match: Vec<&'a [u8]>,
}

impl Preconditions<'_> {
    /// Whether the client has the representation with this tag.
    pub(super) fn has(&self, tag: &Etag) -> bool {
        self.if_none_match.iter().any(|tags| tag.is_in(tags, true))
    }
}

/// Who makes an authenticated request: the proof that
/// [`Executor::authenticate`](super::Executor::authenticate) accepted it. An adapter that executes
/// several routes for one request of a person authenticates them once.
#[derive(Clone)]
pub struct Authenticated {
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) signer: Option<Arc<Signer>>,
}

impl Authenticated {
    /// The identity; none if the caller has no account.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// The signer, if the caller is an outside agent.
    pub fn signer(&self) -> Option<&Arc<Signer>> {
        self.signer.as_ref()
    }
}
