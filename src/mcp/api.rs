//! Calls of the API's routes, executed in this process for the key of a request.
//!
//! All calls of a message count as one request for the rate limit, as those of a page of the console
//! do.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::execute::{Arguments, Body, Etag, Executor, ItemStream, Request, Slot};
use crate::api::{Method, OrgSlugMode, Origin, Route};
use crate::auth::{Identity, RawCredential};
use crate::base::{Error, Kind, Result};
use crate::http::{InProcess, RouteCall, Router};

/// The route by which a key is authenticated: every key may call it.
const WHO_AM_I: &str = "/whoami";

/// The API, called with an API key.
#[derive(Clone)]
pub struct Api {
    calls: InProcess,
    /// Who calls.
    pub identity: Arc<Identity>,
    /// The organization that the key is for.
    pub org_slug: String,
    /// The `Idempotency-Key` of what is called.
    pub idempotency_key: Option<String>,
}

impl Api {
    /// The API for this credential, verified.
    ///
    /// # Errors
    /// 401 for a credential that is not valid or no API key, 429, 503.
    pub async fn enter(
        executor: Arc<Executor>,
        router: Arc<Router>,
        credential: RawCredential,
        origin: Origin,
    ) -> Result<Self> {
        let mut calls = InProcess::new(executor, router, origin);
        let route = calls.by_pattern(Method::Get, WHO_AM_I)?;
        calls.authenticate(credential, &route).await?;
        let identity =
            calls.identity().ok_or_else(|| Error::internal("a route without a caller"))?;
        let Some(slug) = calls.executor.key_organization(&identity).await? else {
            return Err(Error::new(
                Kind::Unauthenticated,
                "api_key_required",
                "this takes an API key, whose organization it is about, as Authorization: Bearer \
                 <key>; sessions are not accepted here",
            ));
        };
        Ok(Api { calls, identity, org_slug: slug.into_string(), idempotency_key: None })
    }

    /// What executes the calls.
    pub fn executor(&self) -> &Arc<Executor> {
        &self.calls.executor
    }

    /// Takes the slot of a stream.
    ///
    /// # Errors
    /// 503 if too many are open.
    pub async fn stream_slot(&self) -> Result<Slot> {
        self.calls.executor.stream_slot(&self.calls.credential, &self.identity).await
    }

    /// The fingerprint of the credential.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.calls.credential.fingerprint()
    }

    /// The route of a method and a pattern of a path, as the table of routes has it.
    ///
    /// # Errors
    /// 500 if there is none.
    pub fn route(&self, method: Method, pattern: &'static str) -> Result<Arc<Route>> {
        self.calls.by_pattern(method, pattern)
    }

    /// Gets a resource by the pattern of its path, the values of its parameters and other arguments.
    pub async fn get<T: DeserializeOwned>(
        &self,
        pattern: &'static str,
        params: &[&str],
        arguments: Value,
    ) -> Result<T> {
        self.read(Method::Get, pattern, params, arguments).await
    }

    /// Posts JSON, likewise.
    pub async fn post<T: DeserializeOwned>(
        &self,
        pattern: &'static str,
        params: &[&str],
        arguments: Value,
    ) -> Result<T> {
        self.read(Method::Post, pattern, params, arguments).await
    }

    async fn read<T: DeserializeOwned>(
        &self,
        method: Method,
        pattern: &'static str,
        params: &[&str],
        arguments: Value,
    ) -> Result<T> {
        let route = self.route(method, pattern)?;
        let params = params.iter().map(|param| param.to_string()).collect();
        let mut request = self.request(&route, params, arguments);
        request.idempotency_key = self.idempotency_key.clone().map(String::into_bytes);
        self.calls.parsed(request).await
    }

    /// Calls a route and returns its JSON.
    pub async fn call(
        &self,
        route: &Arc<Route>,
        params: Vec<String>,
        arguments: Value,
    ) -> Result<Bytes> {
        let mut request = self.request(route, params, arguments);
        request.idempotency_key = self.idempotency_key.clone().map(String::into_bytes);
        self.calls.json(request).await
    }

    /// Waits until the thing has another tag than this one; returns its new tag, or none if it has
    /// not changed in the time of the arguments.
    pub async fn changed(
        &self,
        route: &Arc<Route>,
        arguments: Value,
        known: Option<&Etag>,
    ) -> Result<Option<Etag>> {
        let mut request = self.request(route, Vec::new(), arguments);
        request.preconditions.if_none_match.extend(known.map(|known| known.as_bytes().to_vec()));
        let response = self.calls.execute(request).await?;
        Ok(response.etag.filter(|_| !matches!(response.body, Body::NotModified)))
    }

    /// The stream of items of a route that waits.
    pub async fn stream(
        &self,
        route: &Arc<Route>,
        params: Vec<String>,
        arguments: Value,
    ) -> Result<ItemStream> {
        let mut request = self.request(route, params, arguments);
        request.is_stream = true;
        match self.calls.execute(request).await?.body {
            Body::Items(_, items) => Ok(*items),
            _ => Err(Error::internal(format!("{} has no stream", route.name))),
        }
    }

    /// A request of a route; the organization is added where the route needs one to be named.
    fn request(&self, route: &Arc<Route>, params: Vec<String>, mut arguments: Value) -> Request {
        if route.org_source.org_slug() == OrgSlugMode::Required
            && arguments.get("orgSlug").is_none()
        {
            arguments["orgSlug"] = json!(self.org_slug);
        }
        let (target, query, arguments) = (route.path, "", Arguments::Json(arguments));
        self.calls.request(RouteCall { route, params, target, query, arguments })
    }
}
