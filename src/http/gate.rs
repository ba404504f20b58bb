//! The gate: every request passes the same checks in the same order (contract §1), and what it
//! writes is written in one transaction with the audit entry and the kept answer.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{
    ALLOW, AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    IF_NONE_MATCH,
};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use xxhash_rust::xxh3::xxh3_128;

use super::router::{Found, Missing};
use super::wire::Progress;
use super::{Body, Context, Reply, body, json_bytes, link_base, problem, wait, write};
use crate::api::{Action, Method, OrgSlug, Raw, Route, Scope, Shape, Who};
use crate::auth::{Identity, Presented, Rule, Through, org_of_key, organizations_of};
use crate::base::{Error, Id, Kind, Result};
use crate::store::{Org, View};

/// A request past its head, on its way through the gate.
pub(super) struct Passing<'a> {
    pub context: &'a Arc<Context>,
    pub route: &'a Arc<Route>,
    pub presented: Presented,
    pub identity: Option<Arc<Identity>>,
    pub headers: &'a HeaderMap,
    pub address: IpAddr,
    pub request_id: &'a str,
}

/// The headers of which a name of ours is asked for.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Answers a request whose path is below `/api`.
pub(super) async fn pass(
    context: &Arc<Context>,
    head: &Parts,
    incoming: &mut Body,
    path: &str,
    address: IpAddr,
    request_id: &str,
) -> Result<Response<Reply>> {
    // 404, 405.
    let Found { route, params, reading } = match context.router.find(&head.method, path) {
        Ok(found) => found,
        Err(Missing::Path) => return Err(no_such_path()),
        Err(Missing::Method(allowed)) => return Ok(method_not_allowed(&allowed, request_id)),
    };
    let headers = &head.headers;

    // 401.
    let presented = presented(headers);
    let identity = identify(context, route, &presented)?;
    if let Some(identity) = &identity
        && let Through::Key { id, .. } = identity.through
    {
        context.uses.note(id, context.store.moment().now());
    }

    // 429.
    let credential = identity.as_ref().map(|_| presented.fingerprint());
    context.limits.request(credential, address)?;

    // 400, 413, 415.
    let sent = match route.method.has_body() {
        true => {
            body::must_be_json(headers)?;
            body::read(incoming).await?
        }
        false => Bytes::new(),
    };
    let query = head.uri.query().unwrap_or_default();
    let raw = Raw {
        params,
        query,
        body: &sent,
        org: match route.scope {
            Scope::Organization => OrgSlug::Required,
            Scope::Wherever(_) => OrgSlug::Optional,
            Scope::Installation => OrgSlug::Ignored,
        },
        address,
        link_base: &link_base(context.public_url.as_deref(), headers),
        list: match route.shape {
            Shape::List | Shape::Wait(_) => list_key(context, route, path, query),
            _ => [0; 32],
        },
    };
    let idempotency_key = idempotency_key(headers, route)?;
    let bound = route.bind(&raw)?;

    let passing = Passing { context, route, presented, identity, headers, address, request_id };
    let (org_slug, params) = (bound.org_slug.clone(), raw.params.clone());
    let answered = match bound.action {
        Action::Read(operation) => context
            .store
            .read(Id::NOTHING, |view| {
                let (who, view) = passing.enter(view, bound.org_slug.as_deref(), &raw.params)?;
                operation(&view, &who)
            })
            .map(|answer| passing.conditional(answer.body)),
        Action::Write(operation) => {
            let kept = idempotency_key.map(|key| passing.kept(key, path, query, &sent));
            let current = passing.current(reading, &raw)?;
            write::write(&passing, operation, bound.org_slug, raw.params, kept, current).await
        }
        Action::Hash(operation) => write::hash(&passing, operation).await,
        Action::Wait(operation) => {
            if let Some(progress) = head.extensions.get::<Progress>() {
                progress.wait();
            }
            wait::wait(&passing, operation, bound.org_slug, raw.params).await
        }
    };
    if let Err(error) = &answered
        && error.kind() == Kind::Forbidden
    {
        write::refused(&passing, org_slug, params).await;
    }
    answered
}

/// The credential that counts among those sent.
pub(super) fn presented(headers: &HeaderMap) -> Presented {
    Presented::from_headers(
        headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes),
        headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes),
    )
}

/// Who calls, as far as the route wants to know. On a route for sessions alone every other
/// credential, good or bad, gets the same answer.
fn identify(
    context: &Context,
    route: &Route,
    presented: &Presented,
) -> Result<Option<Arc<Identity>>> {
    if *presented == Presented::Nothing && route.rule == Rule::Anyone {
        return Ok(None);
    }
    if route.rule.session_only() && matches!(presented, Presented::Key(_) | Presented::Malformed) {
        return Err(Error::new(
            Kind::Unauthenticated,
            "session_required",
            "this takes the session of a signed-in person; API keys are not accepted here",
        ));
    }
    context.store.read(Id::NOTHING, |view| context.gatekeeper.identify(view, presented)).map(Some)
}

impl Passing<'_> {
    /// Admits the caller to the organization the request is about, at the very state the operation
    /// will see: 404 of the organization, 403 of the role.
    pub fn enter<'v>(
        &self,
        view: &View<'v>,
        org_slug: Option<&str>,
        params: &[String],
    ) -> Result<(Who, View<'v>)> {
        admit(
            self.context,
            self.route,
            &self.presented,
            self.identity.is_some(),
            view,
            org_slug,
            params,
        )
    }

    /// 304 or 200 with an `ETag`, for one thing that was read.
    fn conditional(&self, body: Vec<u8>) -> Response<Reply> {
        if self.route.shape != Shape::One {
            return json_bytes(body);
        }
        let tag = etag(&body);
        let unchanged = self
            .headers
            .get_all(IF_NONE_MATCH)
            .iter()
            .any(|value| names(value.as_bytes(), &tag, true));
        let mut response = json_bytes(if unchanged { Vec::new() } else { body });
        if unchanged {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(CONTENT_TYPE);
        }
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }

    /// What `If-Match` asks for, if it was sent: the reading of the same path, and the tags.
    fn current(&self, reading: Option<&Arc<Route>>, raw: &Raw) -> Result<Option<write::Expected>> {
        let tags: Vec<_> =
            self.headers.get_all(IF_MATCH).iter().map(|v| v.as_bytes().to_vec()).collect();
        if tags.is_empty() || !matches!(self.route.method, Method::Patch | Method::Delete) {
            return Ok(None);
        }
        let Some(reading) = reading.filter(|reading| reading.shape == Shape::One) else {
            // What cannot be read has no tag that could match.
            return Ok(Some(write::Expected { tags, reading: None }));
        };
        let raw = Raw {
            params: raw.params.clone(),
            query: raw.query,
            body: &[],
            org: OrgSlug::Ignored,
            address: raw.address,
            link_base: raw.link_base,
            list: [0; 32],
        };
        match reading.bind(&raw)?.action {
            Action::Read(reading) => Ok(Some(write::Expected { tags, reading: Some(reading) })),
            _ => Ok(None),
        }
    }

    /// What identifies a request with an `Idempotency-Key`, and what it sends: its body, and its
    /// query where something stands in it.
    fn kept(&self, key: &[u8], path: &str, query: &str, body: &[u8]) -> write::Repeatable {
        let keys = self.context.store.keys();
        let who = match &self.identity {
            Some(identity) => crate::auth::credential_bytes(&identity.through),
            None => Vec::new(),
        };
        let request = [&who, path.as_bytes(), &[0], key].concat();
        let sent = [&(query.len() as u64).to_be_bytes(), query.as_bytes(), body].concat();
        write::Repeatable {
            request: keys.hash("roadstead 2026 idempotency request", &request),
            body: keys.hash("roadstead 2026 idempotency body", &sent),
        }
    }
}

/// See [`Passing::enter`].
pub(super) fn admit<'v>(
    context: &Context,
    route: &Route,
    presented: &Presented,
    identified: bool,
    view: &View<'v>,
    org_slug: Option<&str>,
    params: &[String],
) -> Result<(Who, View<'v>)> {
    let gatekeeper = &context.gatekeeper;
    let caller = match (route.scope, org_slug) {
        (Scope::Installation, _) if !identified => return Ok((Who::Anyone, *view)),
        (Scope::Installation, _) => {
            return Ok((Who::Identity(gatekeeper.identify(view, presented)?), *view));
        }
        (Scope::Wherever(is_there), None) => {
            let identity = gatekeeper.identify(view, presented)?;
            let org = org_with(view, &identity, is_there, params)?;
            gatekeeper.admit_to(view, presented, org.ok_or_else(Error::not_found)?)?
        }
        (_, slug) => gatekeeper.admit(view, presented, slug.unwrap_or_default())?,
    };
    if route.rule.admin() && !caller.is_admin() {
        return Err(Error::forbidden(
            "admin_required",
            "only an owner or admin of the organization may do this",
        ));
    }
    let view = view.of(caller.org);
    Ok((Who::Caller(caller), view))
}

/// The organization of the caller's in which the thing named by the path is.
pub(super) fn org_with(
    view: &View,
    identity: &Identity,
    is_there: fn(&View, &[String]) -> Result<bool>,
    params: &[String],
) -> Result<Option<Id<Org>>> {
    let organizations = match org_of_key(identity) {
        Some(org) => vec![org],
        None => organizations_of(view, identity.user)?,
    };
    for org in organizations {
        if is_there(&view.of(org), params)? {
            return Ok(Some(org));
        }
    }
    Ok(None)
}

/// The strong tag of an answer.
pub(super) fn etag(body: &[u8]) -> String {
    // By hand: the formatter takes several times as long.
    let mut tag = vec![b'"'; 34];
    for (digits, byte) in tag[1..33].chunks_exact_mut(2).zip(xxh3_128(body).to_be_bytes()) {
        digits[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        digits[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    String::from_utf8(tag).expect("digits are ASCII")
}

/// Whether a list of tags names this one, or anything. A weak tag counts only where `weakly`.
pub(super) fn names(list: &[u8], tag: &str, weakly: bool) -> bool {
    let Ok(list) = std::str::from_utf8(list) else { return false };
    list.split(',').map(str::trim).any(|one| {
        one == "*" || one == tag || (weakly && one.strip_prefix("W/").is_some_and(|one| one == tag))
    })
}

/// The key that cursors of a list are signed with: path and filters make the list; how much of it
/// is wanted, how long to wait for it, and parameters that the route does not take, do not.
fn list_key(context: &Context, route: &Route, path: &str, query: &str) -> [u8; 32] {
    let is_filter = |name: &str| {
        let name = name.split(['[', '.']).next().unwrap_or_default();
        name == "orgSlug" || route.filters.iter().any(|filter| filter == name)
    };
    let mut filters: Vec<_> =
        form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| is_filter(name)).collect();
    filters.sort();
    let mut list = path.as_bytes().to_vec();
    for (name, value) in filters {
        list.extend_from_slice(&[&[0], name.as_bytes(), &[0], value.as_bytes()].concat());
    }
    context.store.keys().hash("roadstead 2026 cursors", &list)
}

fn idempotency_key<'a>(headers: &'a HeaderMap, route: &Route) -> Result<Option<&'a [u8]>> {
    let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes);
    let (Some(key), true) = (sent.next(), route.method == Method::Post) else { return Ok(None) };
    let good = (1..=255).contains(&key.len()) && key.iter().all(|byte| (0x20..0x7F).contains(byte));
    match good && sent.next().is_none() {
        // Routes under these keep nothing: their answers are sessions.
        true if route.path.starts_with("/auth/") || route.path == "/setup" => Ok(None),
        true => Ok(Some(key)),
        false => Err(Error::invalid_at(
            "Idempotency-Key",
            "must be 1 to 255 printable ASCII characters, given once",
        )),
    }
}

fn no_such_path() -> Error {
    Error::new(Kind::NotFound, "no_such_path", "there is no such path; see /api/openapi.json")
}

fn method_not_allowed(allowed: &str, request_id: &str) -> Response<Reply> {
    let error = Error::new(
        Kind::Method,
        "method_not_allowed",
        "the path does not take this method; see the Allow header",
    );
    let mut response = problem::reply(&error, request_id);
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}
