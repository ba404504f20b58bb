//! Requests as an adapter passes them to the executor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use super::etag::Etag;
use crate::api::op::Shape;
use crate::api::read::{SourceFormat, parse_body, parse_query};
use crate::api::request::{Origin, Uploaded};
use crate::api::route::{Method, Route};
use crate::auth::nostr::Signer;
use crate::auth::{Identity, RawCredential};
use crate::base::Result;
use crate::store::ReadPoint;

/// A call of a route. It owns what it holds, so that it can be shared with other threads.
pub struct Request {
    pub route: Arc<Route>,
    /// The GET of the same path, if there is one: what [`Preconditions::if_match`] is compared
    /// with.
    pub reading: Option<Arc<Route>>,
    /// The parameters of the path, decoded, in its order.
    pub params: Arc<[String]>,
    /// Path and query as the client sent them, which it may have signed.
    pub target: String,
    /// The query string; it holds the arguments unless [`Request::arguments`] does.
    pub query: String,
    pub arguments: Arguments,
    /// The credential, not yet verified.
    pub credential: RawCredential,
    /// `If-Match` and `If-None-Match`.
    pub preconditions: Preconditions,
    /// 1 to 255 printable ASCII characters; used by POST only.
    pub idempotency_key: Option<Vec<u8>>,
    /// Whether unknown fields and parameters are ignored rather than refused.
    pub is_lenient: bool,
    /// Whether the client prefers text, where an operation can answer with it.
    pub wants_text: bool,
    /// Whether only the headers of the response are sent, so that nothing may be taken.
    pub is_head: bool,
    /// Whether an operation that waits should answer with a stream of items.
    pub is_stream: bool,
    /// The id of the last event that the client had of an earlier stream.
    pub last_event_id: Option<String>,
    /// Where it comes from.
    pub origin: Arc<Origin>,
    /// The state that a read sees, of an adapter that makes one answer of several; otherwise the
    /// newest.
    pub at: Option<ReadPoint>,
    /// The state in which the caller was identified, until the read has run there once, if nothing is waited
    /// for before that.
    pub identified_at: Mutex<Option<ReadPoint>>,
    /// Whether a read that costs more than may run at once is given up (503), instead of waiting for its
    /// turn.
    pub is_light: bool,
}

impl Request {
    /// Creates a request with these arguments: what an adapter adds is empty.
    pub fn new(
        route: Arc<Route>,
        params: Arc<[String]>,
        arguments: Arguments,
        credential: RawCredential,
        origin: Arc<Origin>,
    ) -> Self {
        Request {
            route,
            reading: None,
            params,
            target: String::new(),
            query: String::new(),
            arguments,
            credential,
            preconditions: Preconditions::default(),
            idempotency_key: None,
            is_lenient: false,
            wants_text: false,
            is_head: false,
            is_stream: false,
            last_event_id: None,
            origin,
            at: None,
            identified_at: Mutex::default(),
            is_light: false,
        }
    }

    /// Whether it takes much processor time however small it is.
    pub(super) fn is_costly(&self) -> bool {
        let has = |name: &str| match &self.arguments {
            Arguments::Json(arguments) => arguments.get(name).is_some(),
            _ => form_urlencoded::parse(self.query.as_bytes()).any(|(sent, _)| sent == name),
        };
        self.route.costly || self.route.costly_with.is_some_and(has)
    }

    /// Whether it is a read that runs as soon as its caller is identified: nothing is waited for in between,
    /// neither its body, nor a turn, nor what is written before it.
    pub(super) fn reads_at_once(&self) -> bool {
        let Route { method, operation, reads_audit_log, .. } = &*self.route;
        matches!(operation.shape, Shape::One | Shape::List | Shape::Walk)
            && !method.has_body()
            && !reads_audit_log
            && self.at.is_none()
            && !self.is_costly()
    }

    /// The state in which the caller was identified, if the read has not run there.
    pub(super) fn identified_at(&self) -> MutexGuard<'_, Option<ReadPoint>> {
        self.identified_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The arguments of a call.
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
#[derive(Default)]
pub struct Preconditions {
    /// A PATCH or DELETE is executed only if one of these is the current tag (412).
    pub if_match: Vec<Vec<u8>>,
    /// A GET is answered without a body if one of these is the current tag (304). A PUT with `*` alone is
    /// executed only if there is nothing yet (412).
    pub if_none_match: Vec<Vec<u8>>,
}

impl Preconditions {
    /// Whether they limit a write with this method.
    pub(super) fn limit(&self, method: Method) -> bool {
        let is_for_new =
            method == Method::Put && self.if_none_match.iter().any(|tags| tags == b"*");
        is_for_new || !self.if_match.is_empty()
    }

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
