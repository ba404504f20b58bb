//! The gate: every request passes the same checks in the same order (contract §1), and what it
//! writes is written in one transaction with the audit entry and the kept answer.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    IF_NONE_MATCH,
};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use xxhash_rust::xxh3::xxh3_128;

use super::router::{Found, Missing};
use super::wire::Progress;
use super::{
    Body, Context, Reply, body, calls, json, json_bytes, link_base, problem, wait, watching, write,
};
use crate::api::{Action, Method, Named, OrgSlug, Raw, Route, Scope, Who};
use crate::auth::{Identity, Presented, Rule, Through, org_of_key, organizations_of};
use crate::base::{Error, Id, Kind, Result};
use crate::store::{Org, Tx, View};

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
    let query = head.uri.query().unwrap_or_default();
    let identity = match route.rule {
        Rule::Reader if presented == Presented::Nothing => {
            must_be_open(context, route, query, &params)?;
            None
        }
        _ => identify(context, route, &presented)?,
    };
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
            let strangers = identity.is_none().then_some(&context.strangers);
            body::read(incoming, strangers).await?
        }
        false => body::Whole::NONE,
    };
    let raw = Raw {
        params,
        query,
        body: &sent.bytes,
        org: match route.scope {
            Scope::Organization => OrgSlug::Required,
            Scope::Wherever(_) | Scope::Named(_) => OrgSlug::Optional,
            Scope::Installation => OrgSlug::Ignored,
        },
        by_name: matches!(route.scope, Scope::Named(_)),
        address,
        link_base: &link_base(context.public_url.as_deref(), headers),
        list: match route.shape.is_list() {
            true => list_key(context, route, path, query),
            false => [0; 32],
        },
    };
    let idempotency_key = idempotency_key(headers, route)?;
    let bound = route.bind(&raw)?;

    let passing = Passing { context, route, presented, identity, headers, address, request_id };
    let named = bound.named;
    let kept = idempotency_key.map(|key| passing.kept(key, path, query, &sent.bytes));
    let answered = match bound.action {
        // What is asked with an `Idempotency-Key` is answered as it was before, and so written.
        Action::Read(operation) if kept.is_some() => {
            let asking = Box::new(move |tx: &mut Tx, who: &Who| operation(&tx.view(), who));
            write::write(&passing, write::done(asking), &named, kept, None).await
        }
        Action::Read(operation) => passing
            .read(&named, |view, who| operation(view, who))
            .map(|answer| passing.conditional(answer.body)),
        Action::Write(operation) => {
            let current = passing.current(reading, &raw, &named)?;
            write::write(&passing, write::done(operation), &named, kept, current).await
        }
        Action::Hash(operation) => write::hash(&passing, operation).await,
        Action::Wait(operation) => {
            if let Some(progress) = head.extensions.get::<Progress>() {
                progress.wait();
            }
            wait::wait(&passing, operation, &named).await
        }
        Action::Watch(operation) => {
            if let Some(progress) = head.extensions.get::<Progress>() {
                progress.wait();
            }
            watching::watch(&passing, &*operation, &named).await
        }
        Action::CallAndRead(operation, total) => {
            calls::read(&passing, operation, total, &named, kept).await
        }
        Action::CallAndWrite(operation, total) => {
            calls::write(&passing, operation, total, &named, kept).await
        }
    };
    if let Err(error) = &answered
        && error.kind() == Kind::Forbidden
    {
        write::refused(&passing, named).await;
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

/// 401 unless what is to be read is open to anybody: without a credential, nobody hears whether
/// there is anything else, nor what else is wrong with what they sent.
fn must_be_open(context: &Context, route: &Route, query: &str, params: &[String]) -> Result<()> {
    let sent = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let named = Named {
        org_slug: sent("orgSlug"),
        registry_ref: sent("registryRef"),
        params: params.to_vec(),
    };
    let admitted = |view: &View| admit(context, route, &Presented::Nothing, view, &named).map(drop);
    context.store.read(Id::NOTHING, admitted)
}

impl Passing<'_> {
    /// Reads as the caller, at the very state at which they are admitted: 404 of the organization,
    /// 403 of the role.
    pub fn read<T>(&self, named: &Named, read: impl FnOnce(&View, &Who) -> Result<T>) -> Result<T> {
        self.context.store.read(Id::NOTHING, |view| {
            let (who, view) = admit(self.context, self.route, &self.presented, view, named)?;
            read(&view, &who)
        })
    }

    /// Whether the caller says that they have what has this tag.
    pub fn has(&self, tag: &str) -> bool {
        let mut sent = self.headers.get_all(IF_NONE_MATCH).iter();
        sent.any(|tags| names(tags.as_bytes(), tag, true))
    }

    /// 304 or 200 with an `ETag`, for one thing that was read.
    pub fn conditional(&self, body: Vec<u8>) -> Response<Reply> {
        if !self.route.shape.has_tag() {
            return json_bytes(body);
        }
        let tag = etag(&body);
        let changed = !self.has(&tag);
        self.tagged(&tag, changed.then(|| body.into()))
    }

    /// The same for a thing with this tag; of one that the caller has there is none to send.
    pub fn tagged(&self, tag: &str, body: Option<Bytes>) -> Response<Reply> {
        let unchanged = body.is_none();
        let mut response = json(Full::new(body.unwrap_or_default()));
        if unchanged {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(CONTENT_TYPE);
        }
        if let Ok(tag) = HeaderValue::from_str(tag) {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }

    /// What `If-Match` asks for, if it was sent: the reading of the same path, and the tags.
    fn current(
        &self,
        reading: Option<&Arc<Route>>,
        raw: &Raw,
        named: &Named,
    ) -> Result<Option<write::Expected>> {
        let tags: Vec<_> =
            self.headers.get_all(IF_MATCH).iter().map(|v| v.as_bytes().to_vec()).collect();
        if tags.is_empty() || !matches!(self.route.method, Method::Patch | Method::Delete) {
            return Ok(None);
        }
        let Some(reading) = reading.filter(|reading| reading.shape.has_tag()) else {
            // What cannot be read has no tag that could match.
            return Ok(Some(write::Expected { tags, reading: None }));
        };
        // The organization that a body names, a reading's query does.
        let query = match &named.org_slug {
            Some(slug) if self.route.method.has_body() => {
                form_urlencoded::Serializer::new(String::new())
                    .append_pair("orgSlug", slug)
                    .finish()
            }
            _ => raw.query.to_string(),
        };
        let raw = Raw {
            params: raw.params.clone(),
            query: &query,
            body: &[],
            org: OrgSlug::Ignored,
            by_name: false,
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

/// Who calls, in the organization that the request is about, and what they may see of it: 401, 404
/// of the organization, 403 of the role.
pub(super) fn admit<'v>(
    context: &Context,
    route: &Route,
    presented: &Presented,
    view: &View<'v>,
    named: &Named,
) -> Result<(Who, View<'v>)> {
    let gatekeeper = &context.gatekeeper;
    let identify = || gatekeeper.identify(view, presented);
    let nobody = *presented == Presented::Nothing;
    let caller = match route.scope {
        Scope::Installation if nobody && route.rule == Rule::Anyone => {
            return Ok((Who::Anyone, *view));
        }
        Scope::Installation => return Ok((Who::Identity(identify()?), *view)),
        Scope::Named(locate) => {
            let is_open = |org| match route.rule {
                Rule::Reader => (locate.is_open)(&view.of(org), named),
                _ => Ok(false),
            };
            if nobody {
                // Whatever else would be told of what is not open: there is no credential.
                return match (locate.place)(view, named, None) {
                    Ok(place) if is_open(place.org)? => Ok((Who::Anyone, view.of(place.org))),
                    _ => identify().map(|who| (Who::Identity(who), *view)),
                };
            }
            let place = (locate.place)(view, named, org_of_key(&*identify()?))?;
            match gatekeeper.admit_to(view, presented, place.org) {
                Err(error) if error.kind() == Kind::NotFound => {
                    return match is_open(place.org)? {
                        true => Ok((Who::Identity(identify()?), view.of(place.org))),
                        false => Err((place.unknown)()),
                    };
                }
                admitted => admitted?,
            }
        }
        Scope::Wherever(is_there) if named.org_slug.is_none() => {
            let org = org_with(view, &*identify()?, is_there, &named.params)?;
            gatekeeper.admit_to(view, presented, org.ok_or_else(Error::not_found)?)?
        }
        Scope::Organization | Scope::Wherever(_) => {
            gatekeeper.admit(view, presented, named.org_slug.as_deref().unwrap_or_default())?
        }
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
